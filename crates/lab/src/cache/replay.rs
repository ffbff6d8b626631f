//! The engine of the cache under a load, over one drive that answers at once: what is measured is what it keeps, not how fast it is.

use super::load::{Ask, Kind, Load};
use super::score::Score;
use crate::precise::precise;
use anyhow::{Context, Result, bail, ensure};
use base::time::{Instant, Nanos};
use base::units::BLOCK_BYTES_U64;
use cache::policy::Eviction;
use cache::request::{Cache, Marks, Namespace, Object, Op, Outcome, Reply, Request, RequestId, WallMillis};
use cache::status::{Counters, Status};
use cache::{CacheConfig, CacheVolume, Options, mount};
use drive::emulated::EmulatedDrive;
use std::collections::BTreeSet;
use zone::device::Geometry;
use zone::drives::DriveSet;

/// Bytes of objects that are asked for in a second: batches leave full, and next to nothing is in buffers.
const BYTES_PER_SECOND: u64 = 64 << 20;
/// Most requests at a time.
const DEPTH: usize = 64;
/// Fewest blocks of a zone: 512 KiB.
const ZONE_BLOCKS_MIN: u64 = 128;
/// Active zones that a ZN540 allows.
const ACTIVE_ZONES: u32 = 14;
const TRANSFER_BLOCKS: u32 = 64;
/// Bytes of a key.
const KEY_BYTES: u32 = 8;

/// A cache of an experiment.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Bytes of flash: all zones of the drive.
    pub flash_bytes: u64,
    /// Zones of the drive.
    pub zones: u32,
    /// Eviction policy: chooses the zones that go.
    pub eviction: Eviction,
    /// Most of a zone that is written anew when it goes, in hundredths.
    pub reinsert_percent: u32,
}

impl Setting {
    /// Most bytes of an object: a third of a zone. The engine takes a little less than half.
    #[must_use]
    pub fn object_bytes_max(&self) -> u32 {
        u32::try_from(self.flash_bytes / u64::from(self.zones) / 3).unwrap_or(u32::MAX)
    }

    fn geometry(&self) -> Result<Geometry> {
        let blocks = self.flash_bytes / BLOCK_BYTES_U64 / u64::from(self.zones.max(1));
        ensure!(
            blocks >= ZONE_BLOCKS_MIN,
            "{} zones of {} bytes: a zone has {} blocks of 4 KiB at least; take fewer zones, or more flash",
            self.zones,
            blocks * BLOCK_BYTES_U64,
            ZONE_BLOCKS_MIN
        );
        let zone_capacity_blocks = u32::try_from(blocks).context("a zone has less than 16 TiB")?;
        let zone_size_blocks = zone_capacity_blocks.next_power_of_two();
        let zones = self.zones;
        Ok(Geometry {
            zones,
            zone_size_blocks,
            zone_capacity_blocks,
            open_zones_max: ACTIVE_ZONES,
            active_zones_max: ACTIVE_ZONES,
            append_blocks_max: TRANSFER_BLOCKS,
            transfer_blocks_max: TRANSFER_BLOCKS,
            volatile_cache: false,
            areas: None,
        })
    }

    fn options(&self, mean_bytes: u64) -> Options {
        let index = self.flash_bytes / mean_bytes.max(1) * 16;
        Options {
            memory_bytes: (128 << 20) + index * 2,
            // Flash alone is looked at.
            copies_bytes_max: 0,
            object_mean: mean_bytes,
            eviction: self.eviction,
            reinsert_percent: self.reinsert_percent,
            object_max: self.object_bytes_max() as usize,
            ..Options::default()
        }
    }
}

/// Measurements of a load.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Hits.
    pub score: Score,
    /// The cache at the end.
    pub status: Status,
}

impl Measured {
    /// Counts of the engine.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.status.counters
    }

    /// Share of the zones that hold objects.
    #[must_use]
    pub fn data_share(&self) -> f64 {
        let zones = &self.status.zones;
        let data = zones.full + zones.open + zones.leaving;
        precise(data) / precise(data + zones.free + zones.journal)
    }
}

/// Asks an empty cache everything, the next few requests at a time where they are about different objects: so none of them waits for another
/// one of them.
///
/// # Errors
/// When there can be no such cache, or it refuses a request.
pub fn play(load: &Load, setting: &Setting) -> Result<Measured> {
    let mut player = Player::new(load, setting)?;
    let bytes_max = setting.object_bytes_max();
    let mut score = Score::default();
    let mut left = &load.asks[..];
    while !left.is_empty() {
        let (together, rest) = left.split_at(count_together(left));
        left = rest;
        let gets = together.iter().filter(|ask| ask.kind == Kind::Get);
        let found = player.ask(gets.clone().map(|ask| Op::Get { key: key_of(ask) }))?;
        let mut changes: Vec<Op> = Vec::new();
        for (ask, outcome) in gets.zip(found) {
            let Outcome::Found(object) = outcome else { bail!("a get was answered with {outcome:?}") };
            let is_hit = object.is_some_and(|object| object.value.len() == value_bytes(ask));
            score.note(ask.bytes, is_hit);
            changes.extend((!is_hit).then(|| change_of(ask, bytes_max)));
        }
        let others = together.iter().filter(|ask| ask.kind != Kind::Get);
        changes.extend(others.map(|ask| change_of(ask, bytes_max)));
        for outcome in player.ask(changes.into_iter())? {
            ensure!(
                matches!(outcome, Outcome::Stored | Outcome::Removed(_)),
                "a change was answered with {outcome:?}"
            );
        }
        player.pause(together.len() as u64);
    }
    Ok(Measured { score, status: player.volume.status() })
}

/// Number of the next requests that are about different objects.
fn count_together(asks: &[Ask]) -> usize {
    let mut keys = BTreeSet::new();
    asks.iter().take(DEPTH).take_while(|ask| keys.insert(ask.key)).count()
}

/// Change that stores an object, or removes it where there is no room for it.
fn change_of(ask: &Ask, bytes_max: u32) -> Op {
    let key = key_of(ask);
    if !ask.stores(bytes_max) {
        return Op::Remove { key };
    }
    let value = vec![u8::try_from(ask.key & 0xFF).expect("a byte"); value_bytes(ask)];
    Op::Set { key, object: Object { value: value.into(), flags: 0, marks: Marks::default(), expires: None } }
}

struct Player {
    volume: CacheVolume,
    now: Instant,
    /// From one request to the next.
    between: Nanos,
    asked: u64,
    replies: Vec<Reply>,
}

impl Player {
    fn new(load: &Load, setting: &Setting) -> Result<Player> {
        let uuid = [1; 16];
        let drive = EmulatedDrive::on_heap(setting.geometry()?, uuid)?;
        let mut drives = DriveSet::new(vec![Some(Box::new(drive))]);
        let now = Instant(1_000_000_000);
        let config = CacheConfig { cache: [2; 16], secret: [3; 16], drives: vec![uuid] };
        cache::format(&mut drives, now, &config)?;
        let mean_bytes = load.mean_bytes();
        let options = setting.options(load.mean_stored_bytes(setting.object_bytes_max()));
        let volume = mount(drives, now, wall(now), options)?;
        let between = Nanos(mean_bytes * 1_000_000_000 / BYTES_PER_SECOND);
        Ok(Player { volume, now: Instant(10_000_000_000), between, asked: 0, replies: Vec::new() })
    }

    /// Outcomes of requests, in their order.
    fn ask(&mut self, ops: impl Iterator<Item = Op>) -> Result<Vec<Outcome>> {
        let first = self.asked;
        for op in ops {
            let request = Request { id: RequestId(self.asked), namespace: Namespace(0), op };
            self.volume.submit(self.now, wall(self.now), request);
            self.asked += 1;
        }
        let count = usize::try_from(self.asked - first)?;
        while self.replies.len() < count {
            if !self.volume.turn(self.now, wall(self.now), &mut self.replies) && self.replies.len() < count {
                self.now = self.next_event().context("a request is not answered, and nothing is to come")?;
            }
        }
        self.replies.sort_by_key(|reply| reply.id);
        Ok(self.replies.drain(..).map(|reply| reply.outcome).collect())
    }

    /// Lets the time of so many requests pass.
    fn pause(&mut self, requests: u64) {
        let until = self.now + Nanos(self.between.0 * requests);
        loop {
            let has_moved = self.volume.turn(self.now, wall(self.now), &mut self.replies);
            assert!(self.replies.is_empty(), "nobody asked");
            if has_moved {
                continue;
            }
            match self.next_event() {
                Some(next) if next <= until => self.now = next,
                _ => break,
            }
        }
        self.now = until;
    }

    /// The next time at which anything happens.
    fn next_event(&self) -> Option<Instant> {
        let events = [self.volume.next_event(), self.volume.next_deadline()];
        events.into_iter().flatten().filter(|next| *next > self.now).min()
    }
}

fn wall(now: Instant) -> WallMillis {
    WallMillis(now.0 / 1_000_000)
}

fn key_of(ask: &Ask) -> Vec<u8> {
    ask.key.to_be_bytes().to_vec()
}

fn value_bytes(ask: &Ask) -> usize {
    ask.bytes.saturating_sub(KEY_BYTES).max(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::drawn::{NAMED, TWITTER};

    fn setting(eviction: Eviction) -> Setting {
        Setting { flash_bytes: 32 << 20, zones: 32, eviction, reinsert_percent: 25 }
    }

    #[test]
    fn what_fits_is_found_and_results_repeat() {
        let load = NAMED[1].1.load("cdn", 8 << 20, 1);
        let setting = setting(Eviction::Fifo);
        let found = play(&load, &setting).unwrap();
        let fitting = || load.asks.iter().filter(|ask| ask.bytes <= setting.object_bytes_max());
        let objects = fitting().map(|ask| ask.key).collect::<std::collections::BTreeSet<u64>>().len();
        // Only the first request of each misses, but for the few that a write of a tag mate forgets.
        let most = (fitting().count() - objects) as u64;
        assert!((most * 99 / 100..=most).contains(&found.score.hits), "{} of {most}", found.score.hits);
        let again = play(&load, &setting).unwrap();
        assert_eq!((found.score, found.status), (again.score, again.status));
    }

    #[test]
    fn what_does_not_fit_is_evicted() {
        let load = NAMED[1].1.load("cdn", 96 << 20, 1);
        for eviction in [Eviction::S3Fifo, Eviction::Sieve, Eviction::Lru, Eviction::Fifo] {
            let found = play(&load, &setting(eviction)).unwrap();
            assert!(found.counters().zones_evicted > 10, "{eviction}");
            assert!(found.score.hits > 0 && found.score.hit_ratio() < 0.5, "{eviction}");
            assert_eq!(eviction.reinserts(), found.counters().reinserted > 0, "{eviction}");
        }
    }

    /// The journal takes zones before half a zone of objects is written: its victims are read all the same.
    #[test]
    fn small_objects_that_are_stored_anew_gain_by_reinsertion() {
        let load = TWITTER[0].1.load("twitter-48", 64 << 20, 1);
        let small = Setting { flash_bytes: 32 << 20, zones: 64, ..setting(Eviction::S3Fifo) };
        let with = play(&load, &small).unwrap();
        let without = play(&load, &Setting { reinsert_percent: 0, ..small }).unwrap();
        assert!(with.score.hits > without.score.hits, "{:?} and {:?}", with.score, without.score);
    }

    #[test]
    fn zones_that_are_too_small_are_refused() {
        let load = Load { name: "none".to_owned(), asks: Vec::new() };
        let small = Setting { zones: 1024, ..setting(Eviction::Fifo) };
        let error = play(&load, &small).unwrap_err().to_string();
        assert!(error.contains("take fewer zones"), "{error}");
    }
}
