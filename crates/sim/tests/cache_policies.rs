//! Policies of the cache on drives: what is asked for all the time outlives what is stored once, where a policy says so, and
//! what is stored once is not written, where a policy says that.

mod support;

use base::time::{Instant, Nanos};
use base::units::ZoneIndex;
use cache::admission::Admission;
use cache::policy::Eviction;
use cache::request::{Cache, Chosen, Namespace, Op, Outcome, Request, RequestId, Walk, WallMillis};
use cache::shard::ZoneUse;
use cache::{CacheVolume, Options};
use support::{new_cache, object, roomy};

const ZONES: u32 = 24;
const WALL: WallMillis = WallMillis(1);
/// Keys that are read all the time.
const HOT: u32 = 40;
/// Keys that are stored once: several times what the drives hold.
const COLD: u32 = 36_000;

struct Client {
    volume: CacheVolume,
    now: Instant,
    asked: u64,
    /// What a walk has told that was asked for by the way.
    walked: Option<Vec<Vec<u8>>>,
    /// Turns in which a victim waited for its copies.
    waits: u32,
}

fn options(eviction: Eviction, reinsert_percent: u32) -> Options {
    Options { eviction, reinsert_percent, ..roomy() }
}

impl Client {
    fn new(eviction: Eviction, reinsert_percent: u32) -> Client {
        Client::with(options(eviction, reinsert_percent))
    }

    fn with(options: Options) -> Client {
        let volume = new_cache(ZONES, WALL, options);
        Client { volume, now: Instant(0), asked: 0, walked: None, waits: 0 }
    }

    fn submit(&mut self, op: Op) {
        self.asked += 1;
        let request = Request { id: RequestId(self.asked), namespace: Namespace(0), op };
        self.volume.submit(self.now, WALL, request);
    }

    fn ask(&mut self, op: Op) -> Outcome {
        self.submit(op);
        loop {
            self.now = self.now + Nanos::from_micros(500);
            let mut replies = Vec::new();
            self.volume.turn(self.now, WALL, &mut replies);
            self.watch_victims();
            let mut outcome = None;
            for reply in replies {
                match reply.outcome {
                    Outcome::Walked { keys, next } => {
                        let keys = keys.into_iter().map(|told| told.key).collect();
                        self.walked = next.is_none().then_some(keys);
                    }
                    other => outcome = Some(other),
                }
            }
            if let Some(outcome) = outcome {
                return outcome;
            }
        }
    }

    /// A walk over all hot keys, while others go on.
    fn begin_walk(&mut self) {
        self.submit(Op::Walk(Walk {
            from: 0,
            everywhere: false,
            begins: true,
            wraps: false,
            idents_max: u64::MAX,
            stride: 256,
            keys_max: usize::MAX,
            bytes_max: usize::MAX,
            chosen: Chosen::matching(|pattern, key| key.starts_with(pattern), b"hot"),
        }));
    }

    /// No victim is reset before its copies have landed, as long as its drive has room for other pages.
    fn watch_victims(&mut self) {
        let shard = self.volume.shard();
        for (place, drive) in shard.drives().iter().enumerate() {
            for (index, zone) in (0..).zip(drive.zones.iter()) {
                let copies = shard.copies_on_their_way(place, ZoneIndex(index));
                assert!(
                    zone.used() != ZoneUse::Resetting || copies == 0 || drive.data_share() == 0,
                    "drive {place}, zone {index}: reset while {copies} copies have not landed"
                );
                self.waits += u32::from(zone.used() == ZoneUse::Draining && copies > 0);
            }
        }
    }

    fn store(&mut self, key: String) {
        assert_eq!(self.ask(Op::Set { key: key.into_bytes(), object: object() }), Outcome::Stored);
    }

    fn finds(&mut self, key: u32) -> bool {
        matches!(self.ask(Op::Get { key: format!("hot{key}").into_bytes() }), Outcome::Found(Some(_)))
    }
}

/// Hot keys that are there at the end; nobody stores them again.
fn kept(eviction: Eviction, reinsert_percent: u32) -> (usize, Client) {
    let mut client = Client::new(eviction, reinsert_percent);
    (0..HOT).for_each(|key| client.store(format!("hot{key}")));
    for cold in 0..COLD {
        client.store(format!("cold{cold}"));
        client.finds(cold % HOT);
    }
    let kept = (0..HOT).filter(|key| client.finds(*key)).count();
    (kept, client)
}

#[test]
fn s3fifo_writes_anew_what_is_hit() {
    let (kept, client) = kept(Eviction::S3Fifo, 25);
    assert!(client.waits > 0, "victims waited for their copies in {} turns", client.waits);
    let status = client.volume.status();
    assert!(status.counters.zones_evicted > 2 * 44, "what was stored went several times: {status:?}");
    assert!(kept >= 36, "{kept} of {HOT} hot keys are there: {status:?}");
    // Hot keys are 1 in 300, and are written anew once for each time that main zones go round.
    assert!(status.counters.reinserted < u64::from(COLD) / 4, "{status:?}");
}

#[test]
fn lru_and_sieve_keep_zones_that_are_hit() {
    for eviction in [Eviction::Lru, Eviction::Sieve] {
        let (kept, client) = kept(eviction, 25);
        let status = client.volume.status();
        assert_eq!(status.counters.reinserted, 0, "{eviction}");
        assert!(kept >= 30, "{eviction}: {kept} of {HOT} hot keys are there: {status:?}");
    }
}

#[test]
fn fifo_keeps_nothing_and_neither_does_a_share_of_nothing() {
    for (eviction, share) in [(Eviction::Fifo, 25), (Eviction::S3Fifo, 0)] {
        let (kept, client) = kept(eviction, share);
        assert_eq!((kept, client.volume.status().counters.reinserted), (0, 0), "{eviction}");
    }
}

/// Keys that nobody reads are stored, leave with their young zones, and are stored again: from then on they are main objects, which
/// what is stored once does not push out.
#[test]
fn s3fifo_keeps_what_is_stored_again_soon() {
    let kept = |eviction| {
        let mut client = Client::new(eviction, 25);
        let mut cold = 0..;
        let mut push_out = |client: &mut Client| {
            cold.by_ref().take(COLD as usize / 2).for_each(|key: u32| client.store(format!("cold{key}")));
        };
        (0..HOT).for_each(|key| client.store(format!("hot{key}")));
        push_out(&mut client);
        assert!(!(0..HOT).any(|key| client.finds(key)), "{eviction}: zones go");
        (0..HOT).for_each(|key| client.store(format!("hot{key}")));
        push_out(&mut client);
        let kept = (0..HOT).filter(|key| client.finds(*key)).count();
        (kept, client.volume.status().counters.recalled)
    };
    let (found, recalled) = kept(Eviction::S3Fifo);
    assert!(
        found >= 30 && (30..200).contains(&recalled),
        "{found} of {HOT} keys, {recalled} stores recalled"
    );
    assert_eq!(kept(Eviction::Fifo), (0, 0));
}

#[test]
fn walks_tell_what_is_written_anew_meanwhile() {
    let mut client = Client::new(Eviction::S3Fifo, 25);
    (0..HOT).for_each(|key| client.store(format!("hot{key}")));
    let (mut walks, mut told, mut cold) = (0, 0, 0);
    let mut go_on = |client: &mut Client| {
        client.store(format!("cold{cold}"));
        client.finds(cold % HOT);
        cold += 1;
        cold < COLD
    };
    while go_on(&mut client) {
        let before: Vec<u32> = (0..HOT).filter(|key| client.finds(*key)).collect();
        client.begin_walk();
        while client.walked.is_none() {
            go_on(&mut client);
        }
        let keys = client.walked.take().expect("seen above");
        // Nobody stores them again: one that is there behind the walk was there all the time.
        for key in before.into_iter().filter(|key| client.finds(*key)) {
            assert!(keys.contains(&format!("hot{key}").into_bytes()), "walk {walks} does not tell hot{key}");
            told += 1;
        }
        walks += 1;
    }
    let status = client.volume.status();
    assert!(told > 100 * HOT && status.counters.reinserted >= u64::from(HOT), "{told} keys told: {status:?}");
}

#[test]
fn second_writes_what_is_read_or_comes_again() {
    let mut client = Client::with(Options { admission: Admission::Second, ..options(Eviction::Fifo, 0) });
    for key in 0..HOT {
        client.store(format!("hot{key}"));
        assert!(client.finds(key), "it is found in memory");
    }
    (0..COLD / 2).for_each(|cold| client.store(format!("cold{cold}")));
    assert!((0..HOT).all(|key| client.finds(key)), "what was read is on flash");
    let bytes: usize = (0..HOT).map(|key| format!("hot{key}").len() + 500).sum();
    let before = client.volume.status();
    assert_eq!(before.counters.bytes_admitted, bytes as u64, "{before:?}");
    assert!(before.counters.forgotten > 1_000 && before.admission.held > 1_000, "{before:?}");
    assert!(before.counters.bytes_written() < 4 * bytes as u64, "{before:?}");
    (0..COLD / 2).for_each(|cold| client.store(format!("cold{cold}")));
    let after = client.volume.status();
    assert!(after.counters.bytes_admitted > 2 * bytes as u64, "some were remembered: {after:?}");
    assert!(after.memory_bytes() <= client.volume.shard().options().memory_bytes, "{after:?}");
}

#[test]
fn auto_keeps_its_budget() {
    let hour = 1 << 20;
    let budget =
        Options { admission: Admission::Auto, endurance: Some(24 * hour), ..options(Eviction::Fifo, 0) };
    let mut client = Client::with(budget);
    for cold in 0..COLD {
        client.store(format!("cold{cold}"));
        client.finds(cold % HOT);
    }
    let status = client.volume.status();
    // Half of an hour's is there in the beginning, and some seconds bring next to nothing. Buffers are written later.
    let written = status.counters.bytes_written();
    assert!((hour / 4..hour).contains(&written), "{written} of {hour}: {status:?}");
    assert!(status.counters.bytes_forgotten > 8 * hour, "{status:?}");
}
