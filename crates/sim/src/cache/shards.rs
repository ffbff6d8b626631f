//! Shards of the cache, and the ways that requests and replies take between the loop of the clients and those of the shards.
//!
//! ```text
//!   clients -- parts ---------------------------------- shard 0      of the clients' own loop
//!                  \-- asks: late, in order ----------> shard 1 ..   each in a slice of every drive
//!                   <- replies: late, in order --------
//! ```
//! Where there is one shard, requests and replies take no time, and nothing is drawn.

use super::plan::Plan;
use crate::line::Line;
use ::cache::CacheVolume;
use ::cache::parts::{Part, Parts, Route};
use ::cache::request::{Cache, Reply, Request, WallMillis};
use ::cache::spread::Spread;
use ::cache::volumes::Volumes;
use base::random::Random;
use base::time::{Instant, Nanos};
use drive::Bell;
use drive::slices::sliced;
use zone::device::Geometry;

/// Most shards of a plan.
pub(super) const SHARDS_MAX: usize = 4;

/// A reply, with what held when its shard gave it.
pub(super) struct Answered {
    pub reply: Reply,
    /// The latest wall time that the shard had been told.
    pub wall: u64,
    /// The shard could record nothing.
    pub frozen: bool,
}

/// The way between the clients and a shard: what is on it, and when it arrives.
#[derive(Default)]
struct Way {
    asks: Line<Request>,
    replies: Line<Answered>,
}

impl Way {
    fn next_event(&self) -> Option<Instant> {
        self.asks.next().into_iter().chain(self.replies.next()).min()
    }
}

/// See the module.
pub(super) struct Shards {
    volumes: Vec<CacheVolume>,
    parts: Parts,
    ways: Vec<Way>,
    bells: Vec<Bell>,
    /// Geometries of the drives, before they were cut.
    wholes: Vec<Option<Geometry>>,
    random: Random,
    letter_ns: u64,
    /// Zones of journals that the mount found, by shard and drive.
    journals: Vec<Vec<usize>>,
}

/// When something arrives that leaves now, but for what left before it.
fn arrival(random: &mut Random, letter_ns: u64, now: Instant) -> Instant {
    let is_late = letter_ns > 0 && random.chance(1, 2);
    now + Nanos(if is_late { random.below(letter_ns) } else { 0 })
}

impl Shards {
    /// Shards that were mounted, each with slices of the drives whose owner has one of these bells.
    pub fn new(
        plan: &Plan,
        (volumes, spread): (Vec<CacheVolume>, Spread),
        bells: &[Bell],
        random: Random,
    ) -> Shards {
        assert!(volumes.len() == plan.shards && bells.len() == plan.shards, "shards of the plan");
        let places = volumes[0].shard().drives().len();
        let alike = |volume: &CacheVolume| volume.shard().drives().len() == places;
        assert!(volumes.iter().all(alike), "all shards have {places} places for drives");
        let journals = |volume: &CacheVolume| {
            volume.shard().drives().iter().map(|drive| drive.journal.zones.len()).collect()
        };
        Shards {
            ways: volumes.iter().map(|_| Way::default()).collect(),
            journals: volumes.iter().map(journals).collect(),
            volumes,
            parts: Parts::new(spread),
            bells: bells.to_vec(),
            wholes: vec![Some(plan.geometry()); places],
            random,
            letter_ns: plan.letter_ns,
        }
    }

    /// A shard.
    pub fn of(&self, shard: usize) -> &CacheVolume {
        &self.volumes[shard]
    }

    /// Most zones that the journal of a shard's drive may have. A mount finds one more that was carried, or needed no more, when its reset had not
    /// taken effect yet: it goes again, and none comes before.
    pub fn journal_max(&self, shard: usize, drive: usize) -> usize {
        let most = self.volumes[shard].shard().drives()[drive].journal_max();
        let found = self.journals[shard].get(drive).copied().unwrap_or(0);
        found.clamp(most, most + 1)
    }

    /// All shards.
    pub fn all(&self) -> &[CacheVolume] {
        &self.volumes
    }

    /// All shards.
    pub fn all_mut(&mut self) -> &mut [CacheVolume] {
        &mut self.volumes
    }

    /// All shards, as an operator acts on them.
    pub fn operator(&mut self) -> Volumes<'_> {
        let cut = Box::new(|drive| sliced(drive, &self.bells));
        Volumes::new(self.volumes.iter_mut().collect(), cut, &mut self.wholes)
    }

    /// True when some shard takes no writes.
    pub fn is_frozen(&self) -> bool {
        self.volumes.iter().any(CacheVolume::is_frozen)
    }

    /// True when all that was stored is in pages on the media.
    pub fn is_flushed(&self) -> bool {
        self.volumes.iter().all(CacheVolume::is_flushed)
    }

    /// Commands that drives have not answered.
    pub fn in_flight(&self) -> u32 {
        self.volumes.iter().map(CacheVolume::in_flight).sum()
    }

    /// The next event of drives, or the next arrival.
    pub fn next_event(&self) -> Option<Instant> {
        let drives = self.volumes.iter().filter_map(CacheVolume::next_event);
        drives.chain(self.ways.iter().filter_map(Way::next_event)).min()
    }

    /// When a shard has something to do, even if nothing happens.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.volumes.iter().filter_map(Cache::next_deadline).min()
    }

    /// A client asks.
    pub fn submit(&mut self, now: Instant, wall: WallMillis, request: Request) {
        match self.parts.route(request) {
            Route::One(sent) => self.send((now, wall), sent),
            Route::All(sent) => sent.into_iter().for_each(|sent| self.send((now, wall), sent)),
        }
    }

    fn send(&mut self, (now, wall): (Instant, WallMillis), (shard, request): (usize, Request)) {
        assert!(shard < self.volumes.len(), "a request for shard {shard} of {}", self.volumes.len());
        if shard == 0 {
            return self.volumes[0].submit(now, wall, request);
        }
        let due = arrival(&mut self.random, self.letter_ns, now);
        self.ways[shard].asks.send(due, request);
    }

    /// In which order shards have their turn.
    pub fn order(&mut self) -> Vec<usize> {
        let count = self.volumes.len();
        let first = if count > 1 { self.random.index(count) } else { 0 };
        (0..count).map(|shard| (first + shard) % count).collect()
    }

    /// A turn of a shard; true when it goes on.
    pub fn turn(&mut self, shard: usize, (now, wall): (Instant, WallMillis), latest: u64) -> bool {
        let mut has_moved = false;
        while let Some(request) = self.ways[shard].asks.take(now) {
            self.volumes[shard].submit(now, wall, request);
            has_moved = true;
        }
        let mut replies = Vec::new();
        has_moved |= self.volumes[shard].turn(now, wall, &mut replies);
        let frozen = self.volumes[shard].is_frozen();
        for reply in replies {
            let letter_ns = if shard == 0 { 0 } else { self.letter_ns };
            let due = arrival(&mut self.random, letter_ns, now);
            self.ways[shard].replies.send(due, Answered { reply, wall: latest, frozen });
        }
        has_moved
    }

    /// What a shard has answered, and nobody has heard, is lost.
    pub fn fall_silent(&mut self) {
        self.ways.iter_mut().for_each(|way| way.replies.clear());
    }

    /// Replies that have arrived; true when there is more to do now.
    pub fn collect(&mut self, (now, wall): (Instant, WallMillis), answers: &mut Vec<Answered>) -> bool {
        let mut goes_on = false;
        for shard in 0..self.ways.len() {
            while let Some(came) = self.ways[shard].replies.take(now) {
                match self.parts.join(came.reply) {
                    Part::Whole(reply) => answers.push(Answered { reply, ..came }),
                    Part::GoesOn(sent) => {
                        goes_on = true;
                        self.send((now, wall), sent);
                    }
                    Part::Missing => {}
                }
            }
        }
        goes_on || self.ways.iter().any(|way| way.asks.next().is_some_and(|due| due <= now))
    }
}
