//! The loop that serves a cache: one thread, one ring, shards of the cache, many clients that speak RESP or memcached's protocol.
//!
//! A turn is, as that of `core_loop`: what the kernel has completed -> commands begun -> the cache's turn ->
//! answers queued -> operations submitted. Between turns the thread sleeps in the kernel.
//!
//! ```text
//! ring --completions--> connections --input--> sessions --requests--> cache
//!   ^--receive, send--- connections <-answers- sessions <--replies---
//! ```
//!
//! Nobody makes the loop wait: a session that cannot go on is left alone until that changes. Those for which
//! memory is short stand in one queue, first come, first served. Its first has the *right of way*: it may take what the command
//! needs that it is sending, so that clients with halves of commands cannot lock each other out. While the queue stands,
//! who holds memory and does not move is cut off.

mod company;
mod connection;
mod conversation;
mod cores;
mod node;
mod peers;
mod shortage;
mod stopping;
mod traffic;

use crate::colleagues::Role;
use crate::config::WallClock;
use crate::core_loop::question::Question;
use crate::core_loop::{RunError, Service};
use crate::doors::{Doors, Token};
use crate::resp::front::Front;
use crate::resp::settings::Settings;
use crate::ring::{Completion, Event, Ring};
use crate::slab::{Key, Slab};
use base::time::{Instant, Nanos};
use cache::request::{Cache, Namespace, Reply, WallMillis};
use cache::spread::Spread;
use company::Outgoing;
use connection::Connection;
use cores::Newcomer;
use node::Node;
use peers::Peers;
use shortage::Shortage;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{SystemTime, UNIX_EPOCH};
use stopping::Phase;

pub use node::{Operator, Shard};

/// Turns of the cache within one turn of the loop.
const CACHE_TURNS_MAX: u32 = 64;
/// Time between two looks at clients that wait, or rest.
const SWEEP_EVERY: Nanos = Nanos(250_000_000);

/// A cache as it is served.
pub struct ServedCache<'c> {
    /// What looks after all of it.
    pub operator: &'c mut dyn Operator,
    /// Its shards. They go to the loops that [`owner_of`] says.
    pub shards: Vec<Box<dyn Shard>>,
    /// Which of them has a key.
    pub spread: Spread,
    /// Descriptors that wake the owners of shards.
    pub wake_fds: Vec<Vec<OwnedFd>>,
}

/// Loops that have shards, of a cache with so many that is served by so many loops.
#[must_use]
pub fn owners(shards: usize, cores: usize) -> usize {
    shards.min(cores)
}

/// The loop that has a shard, of so many that have shards.
#[must_use]
pub fn owner_of(shard: usize, owners: usize) -> usize {
    shard % owners
}

/// Loops that have clients: all when each has shards; else the others, for an owner with an equal share of the clients, too, would be the
/// bound.
#[must_use]
pub fn fronts(shards: usize, cores: usize) -> usize {
    match owners(shards, cores) {
        owners if owners < cores => cores - owners,
        _ => cores,
    }
}

/// Limits of the server.
#[derive(Clone, Debug)]
pub struct CacheServerConfig {
    /// Settings of the protocol.
    pub settings: Settings,
    /// Listeners of the service, the last ones, whose clients speak memcached's protocol: the namespace of each.
    pub memcached_doors: Vec<Namespace>,
    /// Waits shorter than this are spent awake.
    pub spin: Nanos,
    /// Time for which a client that holds memory may rest while others wait for it.
    pub shortage_limit: Nanos,
    /// Time for what is under way when stopping, and again for the cache to write.
    pub stop_limit: Nanos,
}

impl Default for CacheServerConfig {
    fn default() -> CacheServerConfig {
        CacheServerConfig {
            settings: Settings::default(),
            memcached_doors: Vec::new(),
            spin: Nanos(0),
            shortage_limit: Nanos(1_000_000_000),
            stop_limit: Nanos(10_000_000_000),
        }
    }
}

/// Serves `cache` until asked to stop.
///
/// # Errors
/// When the kernel refuses to work for us, or the cache does not write in time what it has in memory.
pub fn run<'c>(
    config: &'c CacheServerConfig,
    service: Service,
    cache: ServedCache<'c>,
) -> Result<(), RunError> {
    cores::run(config, service, cache)
}

/// Place of a loop among those that serve the cache.
#[derive(Debug)]
struct Seat {
    role: Role<Newcomer>,
    peers: Peers,
    /// Loops, the first ones, that have shards and no clients.
    without_clients: usize,
}

struct Server<'a> {
    config: &'a CacheServerConfig,
    clock: WallClock,
    ring: Ring<Token>,
    cache: Node<'a>,
    front: Front,
    doors: Doors,
    seat: Seat,
    phase: Phase,
    is_stop_asked: bool,
    connections: Slab<Connection>,
    clients_seen: u64,
    questions: Slab<Question>,
    /// Connections that may go on.
    ready: Vec<Key>,
    outgoing: Outgoing,
    shortage: Shortage,
    cache_is_busy: bool,
    next_sweep: Option<Instant>,
    completions: Vec<Completion<Token>>,
    replies: Vec<Reply>,
}

/// Wall time, by which objects expire.
fn wall() -> WallMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

impl<'a> Server<'a> {
    fn new(
        config: &'a CacheServerConfig,
        service: Service,
        cache: Node<'a>,
        (front, seat): (Front, Seat),
    ) -> Result<Server<'a>, RunError> {
        Ok(Server {
            config,
            clock: service.clock,
            ring: Ring::new()?,
            cache,
            front,
            doors: Doors::of(service),
            seat,
            phase: Phase::Serving,
            is_stop_asked: false,
            connections: Slab::new(),
            clients_seen: 0,
            questions: Slab::new(),
            ready: Vec::new(),
            outgoing: Outgoing::default(),
            shortage: Shortage::default(),
            cache_is_busy: false,
            next_sweep: None,
            completions: Vec::new(),
            replies: Vec::new(),
        })
    }

    fn run(mut self) -> Result<(), RunError> {
        self.doors.open(&mut self.ring)?;
        while self.phase != Phase::Done {
            self.turn()?;
            let timeout = self.time_to_wait();
            self.ring.wait(timeout)?;
        }
        self.leave()
    }

    fn turn(&mut self) -> io::Result<()> {
        self.front.now = self.clock.now();
        self.cache.tend(self.front.now);
        // Time does not go back.
        self.front.wall = self.front.wall.max(wall());
        self.take_completions()?;
        self.take_arrivals()?;
        self.take_letters()?;
        self.advance_phase()?;
        self.serve_ready()?;
        self.turn_cache();
        self.serve_ready()?;
        self.serve_waiting()?;
        self.send_answers()?;
        self.sweep()
    }

    /// Time for which the thread may sleep; zero when there is work.
    fn time_to_wait(&mut self) -> Option<Nanos> {
        let has_work = self.cache_is_busy || !self.ready.is_empty() || !self.outgoing.is_empty();
        if has_work || self.phase_is_over() || !self.cache.may_sleep() || !self.seat.peers.may_sleep() {
            return Some(Nanos(0));
        }
        let dues = [self.cache.next_deadline(), self.next_sweep, self.phase.due()];
        let wait = dues.into_iter().flatten().min().map(|due| due.since(self.front.now));
        // The kernel's timers are coarse: what is due soon is waited for awake, where that is asked for.
        wait.map(|wait| if wait < self.config.spin { Nanos(0) } else { wait })
    }

    fn take_completions(&mut self) -> io::Result<()> {
        let mut completions = std::mem::take(&mut self.completions);
        self.ring.completions(&mut completions);
        for completion in completions.drain(..) {
            self.on_completion(completion)?;
        }
        self.completions = completions;
        Ok(())
    }

    fn on_completion(&mut self, completion: Completion<Token>) -> io::Result<()> {
        let Completion { token, event, more } = completion;
        match (token, event) {
            (Token::Door(_) | Token::ControlDoor, Event::Accepted(result)) => {
                self.on_accepted(token, result, more)
            }
            (Token::Wake(index), Event::Readable(result)) => {
                self.doors.on_wake(&mut self.ring, index, result, more || self.phase == Phase::Done)
            }
            (Token::Stop, Event::Readable(_)) => {
                self.is_stop_asked = true;
                Ok(())
            }
            (Token::Client(key), Event::Received(result, transfer)) => {
                self.on_received(key, result, transfer);
                Ok(())
            }
            (Token::Client(key), Event::Sent(result, transfer)) => self.on_sent(key, result, transfer),
            (Token::Question(key), event) => self.on_question_event(key, event),
            (token, event) => unreachable!("{token:?} never starts what ends in {event:?}"),
        }
    }

    /// Lets those go on who may have something to do.
    fn serve_ready(&mut self) -> io::Result<()> {
        let mut ready = std::mem::take(&mut self.ready);
        for key in ready.drain(..) {
            if let Some(connection) = self.connections.at(key) {
                connection.is_ready = false;
                self.serve(key, false)?;
            }
        }
        assert!(self.ready.is_empty(), "serving one does not make another ready");
        self.ready = ready;
        Ok(())
    }

    /// Gives the cache its turns and its replies to the sessions.
    fn turn_cache(&mut self) {
        self.cache_is_busy = true;
        self.front.say_exclusive(&mut self.cache);
        let mut turns_left = CACHE_TURNS_MAX;
        while self.cache_is_busy && turns_left > 0 {
            turns_left -= 1;
            let mut replies = std::mem::take(&mut self.replies);
            self.cache_is_busy = self.cache.turn(self.front.now, self.front.wall, &mut replies);
            for reply in replies.drain(..) {
                let delivery = self.front.on_reply(reply);
                let key = delivery.client;
                if let Some(connection) = self.connections.at(key) {
                    let submissions = self.front.submissions();
                    connection.session.on_outcome(delivery, &mut self.front, &mut self.cache);
                    if self.front.submissions() != submissions {
                        connection.company.note_asked(self.cache.turns());
                        self.cache_is_busy = true;
                    }
                    self.mark_ready(key);
                    self.mark_dirty(key);
                }
            }
            self.replies = replies;
        }
    }

    /// Lets those go on for whom memory was short, in order, until it is again.
    fn serve_waiting(&mut self) -> io::Result<()> {
        while let Some(key) = self.shortage.take_first() {
            let Some(connection) = self.connections.at(key) else { continue };
            connection.is_waiting = false;
            self.serve(key, true)?;
            if self.connections.at(key).is_some_and(|connection| connection.is_waiting) {
                self.relieve_shortage();
                return Ok(());
            }
        }
        Ok(())
    }

    /// Makes sure that a sweep comes at `due`.
    fn look_again(&mut self, due: Instant) {
        self.next_sweep = Some(self.next_sweep.map_or(due, |next| next.min(due)));
    }

    /// Looks at what time alone changes, when it is time to, and sees to it that there is a next time while there is something to see.
    fn sweep(&mut self) -> io::Result<()> {
        let now = self.front.now;
        if self.next_sweep.is_some_and(|due| due <= now) {
            self.next_sweep = None;
            self.look_at_waiting(now)?;
        }
        if !self.shortage.is_over() || self.questions.len() > 0 || self.has_timeout() {
            self.look_again(now + SWEEP_EVERY);
        }
        Ok(())
    }

    /// True when connections may not rest for ever.
    fn has_timeout(&self) -> bool {
        self.front.settings.timeout_seconds > 0 && self.connections.len() > 0
    }

    fn look_at_waiting(&mut self, now: Instant) -> io::Result<()> {
        if let Some(due) = self.doors.reopen(&mut self.ring, now)? {
            self.look_again(due);
        }
        let mut keys = Vec::new();
        self.questions.keys(&mut keys);
        for key in keys.drain(..) {
            if self.questions.at(key).is_some_and(|question| question.due <= now) {
                self.close_question(key);
            }
        }
        if self.has_timeout() {
            let limit = Nanos(self.front.settings.timeout_seconds.saturating_mul(1_000_000_000));
            self.connections.keys(&mut keys);
            for key in keys.drain(..) {
                let rests = |connection: &mut Connection| {
                    connection.session.is_at_rest() && now.since(connection.moved_at) >= limit
                };
                if self.connections.at(key).is_some_and(rests) {
                    self.end(key, "it rested longer than its timeout");
                }
            }
        }
        Ok(())
    }

    /// Cuts off those who hold memory and do not move, when others have waited for it too long.
    fn relieve_shortage(&mut self) {
        let (now, limit) = (self.front.now, self.config.shortage_limit);
        if !self.shortage.is_too_long(now, limit) {
            return;
        }
        let mut keys = Vec::new();
        self.connections.keys(&mut keys);
        for key in keys {
            let holds = |connection: &mut Connection| connection.holds_memory_idly(now, limit);
            if self.connections.at(key).is_some_and(holds) {
                self.end(key, "others waited for the memory that it held without moving");
            }
        }
    }
}
