//! Ledger: objects that a read has to find, until something happens that costs them.
//!
//! A shard is a cache by itself: what happens in one is no cause in another. Causes are eviction, admission, a full index, damage, a drive that fails, the loss of buffers and caches, and a write of a key
//! that the index cannot tell from this one.

use super::act::KEYS;
use super::oracle::full_key;
use super::shards::SHARDS_MAX;
use ::cache::hash::{Ident, KeyHash, Shape};
use ::cache::status::{Counters, Recovery};

/// Causes that concern everything, as far as they have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Marks {
    zones_evicted: u64,
    forgotten: u64,
    index_full: u64,
    damaged: u64,
    drives_failed: u64,
}

impl Marks {
    fn of(counters: &Counters) -> Marks {
        let Counters { zones_evicted, forgotten, index_full, damaged, drives_failed, .. } = *counters;
        Marks { zones_evicted, forgotten, index_full, damaged, drives_failed }
    }
}

/// Causes in all shards, as far as they have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Causes([Marks; SHARDS_MAX]);

impl Causes {
    /// Of shards with these counters.
    pub fn of<'a>(counters: impl ExactSizeIterator<Item = &'a Counters>) -> Causes {
        assert!(counters.len() <= SHARDS_MAX, "causes in {} shards of {SHARDS_MAX}", counters.len());
        let mut causes = Causes::default();
        causes.0.iter_mut().zip(counters).for_each(|(marks, counters)| *marks = Marks::of(counters));
        causes
    }
}

/// A moment: what was asked for then may be lost by what comes after it, answered or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since {
    writes: u64,
    causes: Causes,
}

/// An object that is owed.
#[derive(Clone, Copy, Debug)]
struct Owed {
    version: u64,
    marks: Marks,
    /// It was on the media when everything was at rest.
    is_on_media: bool,
    /// It was answered by the media, whose caches were flushed.
    is_durable: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Ledger {
    secret: [u8; 16],
    /// Shards of keys.
    shards: Vec<usize>,
    idents: Vec<Option<Ident>>,
    owed: Vec<Option<Owed>>,
    /// Counts writes.
    writes: u64,
    /// Last write, by key, of one that the index cannot tell from it.
    disturbed: Vec<u64>,
}

impl Ledger {
    /// Of keys that shards have, in the order of the keys.
    pub fn new(secret: [u8; 16], shards: Vec<usize>) -> Ledger {
        assert_eq!(shards.len(), KEYS, "a shard for each key");
        assert!(shards.iter().all(|shard| *shard < SHARDS_MAX), "shards {shards:?} of {SHARDS_MAX}");
        let (idents, owed, disturbed) = (vec![None; KEYS], vec![None; KEYS], vec![0; KEYS]);
        Ledger { secret, shards, idents, owed, writes: 0, disturbed }
    }

    /// The index of a shard tells keys apart in these terms.
    pub fn learn(&mut self, shard: usize, shape: Shape) {
        for key in (0..KEYS).filter(|key| self.shards[*key] == shard) {
            self.idents[key] = Some(shape.ident(KeyHash::of(&self.secret, &full_key(key))));
        }
    }

    fn marks(&self, key: usize, causes: &Causes) -> Marks {
        causes.0[self.shards[key]]
    }

    /// This moment.
    pub fn now(&self, causes: Causes) -> Since {
        Since { writes: self.writes, causes }
    }

    /// A version of a key was acknowledged that was asked for at a moment. What costs objects costs it from then on: its
    /// page may leave, and be lost with a drive, before the answer. One that the index cannot tell from it and that was
    /// written meanwhile hides it on the media.
    pub fn owe(&mut self, key: usize, version: u64, since: Since, is_durable: bool) {
        assert!(since.writes <= self.writes, "{} writes before a moment, of {}", since.writes, self.writes);
        if self.disturbed[key] > since.writes {
            return;
        }
        let marks = self.marks(key, &since.causes);
        let owed = self.owed[key].map_or(0, |owed| owed.version);
        assert!(owed <= version, "key {key}: version {version} is owed, and {owed} was");
        self.owed[key] = Some(Owed { version, marks, is_on_media: false, is_durable });
    }

    /// A key may be changed: neither it nor what the index cannot tell from it is owed.
    pub fn touch(&mut self, key: usize) {
        self.disturb(key);
        self.owed[key] = None;
    }

    /// A key is about to be changed: what the index cannot tell from it is not owed, and it is itself until the answer.
    pub fn disturb(&mut self, key: usize) {
        self.writes += 1;
        for other in (0..KEYS).filter(|other| *other != key) {
            if self.are_mates(other, key) {
                assert!(self.disturbed[other] <= self.writes, "key {other} was disturbed by a write to come");
                self.owed[other] = None;
                self.disturbed[other] = self.writes;
            }
        }
    }

    /// True when the index cannot tell two keys apart.
    pub fn are_mates(&self, one: usize, other: usize) -> bool {
        self.shards[one] == self.shards[other] && self.idents[one] == self.idents[other]
    }

    /// A key is not owed any more.
    pub fn forgive(&mut self, key: usize) {
        self.owed[key] = None;
    }

    /// Something other than clients has taken a key away: neither what is there nor what is on its way is owed.
    pub fn take_away(&mut self, key: usize) {
        self.writes += 1;
        self.disturbed[key] = self.writes;
        self.owed[key] = None;
    }

    /// True when nothing has come since a moment that costs a key, but for what is done to itself.
    pub fn is_calm(&self, key: usize, since: &Since, causes: &Causes) -> bool {
        assert!(since.writes <= self.writes, "{} writes before a moment, of {}", since.writes, self.writes);
        self.marks(key, &since.causes) == self.marks(key, causes) && self.disturbed[key] <= since.writes
    }

    /// True when this version of a key has to be found.
    pub fn is_owed(&self, key: usize, version: u64, causes: &Causes) -> bool {
        let marks = self.marks(key, causes);
        self.owed[key].is_some_and(|owed| owed.version == version && owed.marks == marks)
    }

    /// Everything is on the media.
    pub fn rest(&mut self) {
        self.owed.iter_mut().flatten().for_each(|owed| owed.is_on_media = true);
    }

    /// The process ends; with the power a volatile cache is lost.
    pub fn stop(&mut self, causes: &Causes, loses_caches: bool) {
        for key in 0..KEYS {
            let marks = self.marks(key, causes);
            let outlives = |owed: &Owed| owed.is_durable || owed.is_on_media && !loses_caches;
            self.owed[key] = self.owed[key].filter(|owed| outlives(owed) && owed.marks == marks);
        }
    }

    /// A shard is back, on all drives or on some.
    pub fn mounted(&mut self, shard: usize, recovery: &Recovery, on_all_drives: bool) {
        let has_cause = recovery.records_older
            + recovery.records_without_slot
            + recovery.records_beside
            + recovery.records_shared
            + u64::from(recovery.is_emptied)
            + recovery.zones_dropped
            + recovery.drives_emptied;
        for (owed, _) in self.owed.iter_mut().zip(&self.shards).filter(|(_, of)| **of == shard) {
            *owed = owed.filter(|_| has_cause == 0 && on_all_drives);
            owed.iter_mut().for_each(|owed| owed.marks = Marks::default());
        }
    }

    /// Nothing of a shard is owed.
    pub fn forgive_shard(&mut self, shard: usize) {
        self.owed
            .iter_mut()
            .zip(&self.shards)
            .filter(|(_, of)| **of == shard)
            .for_each(|(owed, _)| *owed = None);
    }

    /// Nothing is owed.
    pub fn forgive_all(&mut self) {
        self.owed.fill(None);
    }
}
