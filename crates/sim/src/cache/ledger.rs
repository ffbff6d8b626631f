//! Ledger: objects that a read has to find, until something happens that costs them.
//!
//! Causes are eviction, admission, a full index, damage, a drive that fails, the loss of buffers and caches, and a write of a key
//! that the index cannot tell from this one.

use super::act::KEYS;
use super::oracle::full_key;
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

/// A moment: what was asked for then may be lost by what comes after it, answered or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since {
    writes: u64,
    marks: Marks,
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
    idents: Vec<Ident>,
    owed: Vec<Option<Owed>>,
    /// Counts writes.
    writes: u64,
    /// Last write, by key, of one that the index cannot tell from it.
    disturbed: Vec<u64>,
}

impl Ledger {
    pub fn new(secret: [u8; 16]) -> Ledger {
        Ledger { secret, idents: Vec::new(), owed: vec![None; KEYS], writes: 0, disturbed: vec![0; KEYS] }
    }

    /// The index tells keys apart in these terms.
    pub fn learn(&mut self, shape: Shape) {
        let ident = |key| shape.ident(KeyHash::of(&self.secret, &full_key(key)));
        self.idents = (0..KEYS).map(ident).collect();
    }

    /// This moment.
    pub fn now(&self, counters: &Counters) -> Since {
        Since { writes: self.writes, marks: Marks::of(counters) }
    }

    /// A version of a key was acknowledged that was asked for at a moment. What costs objects costs it from then on: its
    /// page may leave, and be lost with a drive, before the answer. One that the index cannot tell from it and that was
    /// written meanwhile hides it on the media.
    pub fn owe(&mut self, key: usize, version: u64, since: Since, is_durable: bool) {
        if self.disturbed[key] > since.writes {
            return;
        }
        self.owed[key] = Some(Owed { version, marks: since.marks, is_on_media: false, is_durable });
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
            if self.idents[other] == self.idents[key] {
                self.owed[other] = None;
                self.disturbed[other] = self.writes;
            }
        }
    }

    /// True when the index cannot tell two keys apart.
    pub fn are_mates(&self, one: usize, other: usize) -> bool {
        self.idents[one] == self.idents[other]
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
    pub fn is_calm(&self, key: usize, since: &Since, counters: &Counters) -> bool {
        since.marks == Marks::of(counters) && self.disturbed[key] <= since.writes
    }

    /// True when this version of a key has to be found.
    pub fn is_owed(&self, key: usize, version: u64, counters: &Counters) -> bool {
        let marks = Marks::of(counters);
        self.owed[key].is_some_and(|owed| owed.version == version && owed.marks == marks)
    }

    /// Everything is on the media.
    pub fn rest(&mut self) {
        self.owed.iter_mut().flatten().for_each(|owed| owed.is_on_media = true);
    }

    /// The process ends; with the power a volatile cache is lost.
    pub fn stop(&mut self, counters: &Counters, loses_caches: bool) {
        let marks = Marks::of(counters);
        for owed in &mut self.owed {
            let outlives = |owed: &Owed| owed.is_durable || owed.is_on_media && !loses_caches;
            *owed = owed.filter(|owed| outlives(owed) && owed.marks == marks);
        }
    }

    /// The cache is back, on all drives or on some.
    pub fn mounted(&mut self, recovery: &Recovery, on_all_drives: bool) {
        let has_cause = recovery.records_older
            + recovery.records_without_slot
            + recovery.records_beside
            + recovery.records_shared
            + u64::from(recovery.is_emptied)
            + recovery.zones_dropped
            + recovery.drives_emptied;
        for owed in &mut self.owed {
            *owed = owed.filter(|_| has_cause == 0 && on_all_drives);
            owed.iter_mut().for_each(|owed| owed.marks = Marks::default());
        }
    }

    /// Nothing is owed.
    pub fn forgive_all(&mut self) {
        self.owed.fill(None);
    }
}
