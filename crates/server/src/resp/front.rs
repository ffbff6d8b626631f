//! What all sessions share: requests under way and whose they are, memory, settings, statistics.
//!
//! Invariant: a waiter exists exactly while its request is under way, also when its client has left.

use super::settings::Settings;
use super::survey::Survey;
use super::usage::Usage;
use crate::slab::{Key, Slab};
use base::random::Random;
use base::time::Instant;
use cache::request::{Cache, Namespace, Op, Outcome, Reply, Request, RequestId, WallMillis};

/// Memory that a request is taken to need beside the value, in bytes.
const REQUEST_BYTES: usize = 256;

/// Share of the memory of clients, one in so many bytes, that is for the use of keys at most.
const USAGE_SHARE: usize = 32;

/// What a cache says of itself for INFO.
#[derive(Clone, Debug, Default)]
pub struct CacheFacts {
    /// Memory of index, buffers and memory cache, in bytes.
    pub memory_bytes: u64,
    /// Most of it.
    pub memory_bytes_max: u64,
    /// Objects that were given up to make space.
    pub objects_evicted: u64,
    /// Objects that were found expired.
    pub objects_expired: u64,
    /// More lines, name and value, in order.
    pub lines: Vec<(String, String)>,
}

impl CacheFacts {
    /// Adds those of another part of the cache.
    pub(super) fn add(&mut self, other: CacheFacts) {
        self.memory_bytes += other.memory_bytes;
        self.memory_bytes_max += other.memory_bytes_max;
        self.objects_evicted += other.objects_evicted;
        self.objects_expired += other.objects_expired;
        self.lines.extend(other.lines);
    }
}

/// A cache that says what it does.
pub trait Backend: Cache {
    /// Facts for INFO: of what this thread has of the cache.
    fn facts(&self) -> CacheFacts;

    /// The shard that has a key.
    fn shard_of(&self, _namespace: Namespace, _key: &[u8]) -> usize {
        0
    }

    /// From now on, until it is said that it is not so, nothing of a shard begins but what this front asks for.
    fn exclude_others(&mut self, _shard: usize, _is_so: bool) {}
}

/// Whose a request is.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    client: Key,
    /// Command of the client, by its place among all.
    sequence: u64,
    bytes_reserved: usize,
    is_read: bool,
}

/// An outcome on its way to a session.
#[derive(Debug)]
pub struct Delivery {
    /// The session's key.
    pub client: Key,
    /// Command of the session, by its place among all.
    pub sequence: u64,
    /// What came of the request.
    pub outcome: Outcome,
}

/// Memory of clients: what they sent, what is under way, what they have not read.
///
/// How large the value of a read will be is not known before; it is taken to be as large as the largest that was
/// read lately.
#[derive(Debug)]
pub struct Memory {
    limit: usize,
    /// Memory of sessions, as the loop counts it.
    pub held: usize,
    reserved: usize,
    value_bytes_expected: usize,
}

impl Memory {
    fn new(limit: usize) -> Memory {
        Memory { limit, held: 0, reserved: 0, value_bytes_expected: 0 }
    }

    /// True when this many bytes more may be taken.
    #[must_use]
    pub fn fits(&self, bytes: usize) -> bool {
        self.held + self.reserved + bytes <= self.limit
    }

    /// True while less than half of it is in use.
    #[must_use]
    pub fn is_ample(&self) -> bool {
        self.used() < self.limit / 2
    }

    /// Memory in use, in bytes.
    #[must_use]
    pub fn used(&self) -> usize {
        self.held + self.reserved
    }

    fn on_value(&mut self, bytes: usize) {
        let faded = self.value_bytes_expected - self.value_bytes_expected / 64;
        self.value_bytes_expected = faded.max(bytes);
    }
}

/// Counters since the start, or since CONFIG RESETSTAT.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Connections accepted.
    pub connections: u64,
    /// Connections refused.
    pub connections_refused: u64,
    /// Commands that were begun.
    pub commands: u64,
    /// Errors answered.
    pub errors: u64,
    /// Keys found by reads.
    pub hits: u64,
    /// Keys not found by reads.
    pub misses: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
}

impl Statistics {
    /// Adds those of another front.
    pub(super) fn add(&mut self, other: &Statistics) {
        let Statistics {
            connections,
            connections_refused,
            commands,
            errors,
            hits,
            misses,
            bytes_in,
            bytes_out,
        } = other;
        self.connections += connections;
        self.connections_refused += connections_refused;
        self.commands += commands;
        self.errors += errors;
        self.hits += hits;
        self.misses += misses;
        self.bytes_in += bytes_in;
        self.bytes_out += bytes_out;
    }
}

/// What a command changes for all sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Clients with these numbers are told to end.
    End(Vec<u64>),
    /// Statistics begin anew.
    ResetStatistics,
    /// Seconds that a connection may rest.
    Timeout(u64),
}

/// See the module.
#[derive(Debug)]
pub struct Front {
    /// Settings.
    pub settings: Settings,
    /// Time of the turn.
    pub now: Instant,
    /// Wall time of the turn.
    pub wall: WallMillis,
    /// Memory of clients.
    pub memory: Memory,
    /// Statistics.
    pub statistics: Statistics,
    /// Sessions that there are.
    pub clients: usize,
    /// What a command asked to know, while it begins again.
    pub survey: Option<Survey>,
    /// What commands have changed for all sessions; the loop sees to it.
    pub notices: Vec<Notice>,
    /// The session whose command excludes those of all others while it lasts, from what a shard has.
    exclusive: Option<(Key, usize)>,
    /// The shard that knows that somebody excludes others.
    said_exclusive: Option<usize>,
    waiters: Slab<Waiter>,
    submissions: u64,
    began: WallMillis,
    /// For RANDOMKEY, and numbers of marks.
    pub random: Random,
    /// Use of keys.
    pub usage: Usage,
}

impl Front {
    /// For no sessions yet.
    #[must_use]
    pub fn new(settings: Settings, now: Instant, wall: WallMillis) -> Front {
        Front::beside_others(settings, now, wall, 1).pop().expect("one was asked for")
    }

    /// Fronts that serve one cache: they know the use of keys together, and have equal parts of the memory of clients.
    #[must_use]
    pub fn beside_others(settings: Settings, now: Instant, wall: WallMillis, count: usize) -> Vec<Front> {
        assert!(count > 0, "a cache that no front serves");
        let usage = Usage::new(settings.client_memory_bytes / USAGE_SHARE, wall);
        let memory_bytes = settings.client_memory_bytes.saturating_sub(usage.bytes_held()) / count;
        let front = |number| {
            Front::with((settings.clone(), Memory::new(memory_bytes), usage.clone()), now, wall, number)
        };
        (0..).map(front).take(count).collect()
    }

    fn with(
        (settings, memory, usage): (Settings, Memory, Usage),
        now: Instant,
        wall: WallMillis,
        number: u64,
    ) -> Front {
        Front {
            settings,
            now,
            wall,
            memory,
            statistics: Statistics::default(),
            clients: 0,
            survey: None,
            notices: Vec::new(),
            exclusive: None,
            said_exclusive: None,
            waiters: Slab::new(),
            submissions: 0,
            began: wall,
            random: Random::from_seed(wall.0 ^ now.0 ^ number << 32),
            usage,
        }
    }

    /// Sends a request on its way. `bytes` is the size of what it takes along.
    pub fn submit(
        &mut self,
        cache: &mut dyn Backend,
        (client, sequence): (Key, u64),
        namespace: Namespace,
        (op, bytes): (Op, usize),
    ) {
        self.say_exclusive(cache);
        let is_read = matches!(op, Op::Get { .. } | Op::GetPart { .. });
        let bytes_reserved = self.cost(bytes);
        self.memory.reserved += bytes_reserved;
        self.submissions += 1;
        let waiter = self.waiters.insert(Waiter { client, sequence, bytes_reserved, is_read });
        let id = RequestId(u64::from(waiter.index()));
        cache.submit(self.now, self.wall, Request { id, namespace, op });
    }

    /// Finds out whose a reply is.
    ///
    /// # Panics
    /// When nobody waits for it: a cache answers each request once.
    pub fn on_reply(&mut self, reply: Reply) -> Delivery {
        let index = u32::try_from(reply.id.0).expect("our names for requests have 32 bits");
        let key = self.waiters.key_at(index).expect("a request is answered once");
        let waiter = self.waiters.remove(key).expect("the key is fresh");
        assert!(
            self.memory.reserved >= waiter.bytes_reserved,
            "what a request takes is reserved until its reply"
        );
        self.memory.reserved -= waiter.bytes_reserved;
        let (reserved, waiters) = (self.memory.reserved, self.waiters.len());
        assert!(waiters > 0 || reserved == 0, "{reserved} bytes are reserved for no request");
        let found = match &reply.outcome {
            Outcome::Found(found) | Outcome::Updated { before: found, .. } => found.as_ref(),
            _ => None,
        };
        self.memory.on_value(found.map_or(0, |object| object.value.len()));
        if waiter.is_read && matches!(reply.outcome, Outcome::Found(_)) {
            *(if found.is_some() { &mut self.statistics.hits } else { &mut self.statistics.misses }) += 1;
        }
        Delivery { client: waiter.client, sequence: waiter.sequence, outcome: reply.outcome }
    }

    /// True when a request that takes `bytes` along may begin. One may always, so that all get on.
    #[must_use]
    pub fn may_submit(&self, bytes: usize) -> bool {
        self.waiters.len() == 0 || self.memory.fits(self.cost(bytes))
    }

    /// True when commands of `client` may begin.
    #[must_use]
    pub fn admits(&self, client: Key) -> bool {
        self.exclusive.is_none_or(|(holder, _)| holder == client)
    }

    /// Begins to exclude the commands of all others, those of other fronts from what a shard has.
    pub fn exclude_others(&mut self, client: Key, shard: usize) {
        assert!(self.admits(client), "one client at a time excludes all others");
        self.exclusive = Some((client, shard));
    }

    /// Ceases to exclude others, if `client` did.
    pub fn admit_others(&mut self, client: Key) {
        self.exclusive.take_if(|(holder, _)| *holder == client);
    }

    /// Tells the cache whether somebody excludes others, if that has changed.
    pub fn say_exclusive(&mut self, cache: &mut dyn Backend) {
        let wanted = self.exclusive.map(|(_, shard)| shard);
        if wanted != self.said_exclusive {
            let before = std::mem::replace(&mut self.said_exclusive, wanted);
            before.into_iter().for_each(|shard| cache.exclude_others(shard, false));
            wanted.into_iter().for_each(|shard| cache.exclude_others(shard, true));
        }
    }

    /// True when nothing is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiters.len() == 0
    }

    /// Requests that were ever sent on their way.
    #[must_use]
    pub fn submissions(&self) -> u64 {
        self.submissions
    }

    /// Seconds since the start.
    #[must_use]
    pub fn uptime_seconds(&self) -> u64 {
        self.wall.0.saturating_sub(self.began.0) / 1000
    }

    fn cost(&self, bytes: usize) -> usize {
        REQUEST_BYTES + bytes + self.memory.value_bytes_expected
    }
}
