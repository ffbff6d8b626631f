//! Journal of a conventional drive: a ring of records with the identities of blocks whose unit is not full yet.
//!
//! ```text
//!   entries of all zones ──> pending ──> one record in flight ──> ring ... tail (oldest that is needed) ... head
//! ```
//! A record is written when the one before it is through; what gathers meanwhile shares the next. Records tell up to where
//! the journal was durable and which is the oldest that is still needed, so that a lost record is told from one that never
//! was.

use super::layout::{Layout, live_records};
use crate::units::record::{Entry, Phase, RECORD_ENTRIES, Record};
use std::collections::VecDeque;

/// The journal in service.
#[derive(Debug)]
pub struct Journal {
    /// Records of the ring that may be in use; the rest is for the next opening.
    window: u64,
    /// Of these, those that are kept for repeating what is needed.
    reserve: u64,
    pending: VecDeque<Entry>,
    /// Number of the next record.
    next: u64,
    in_flight: bool,
    completed: u64,
    durable: u64,
    has_failed: bool,
}

impl Journal {
    /// The journal of a drive whose newest record is durable.
    #[must_use]
    pub fn new(layout: &Layout, newest: u64) -> Journal {
        let live = live_records(layout.active_zones_max);
        let window = u64::from(layout.journal_records - live - 2);
        Journal {
            window,
            reserve: u64::from(2 * live),
            pending: VecDeque::new(),
            next: newest + 1,
            in_flight: false,
            completed: newest,
            durable: newest,
            has_failed: false,
        }
    }

    /// Adds an entry; returns the number of its record.
    pub fn push(&mut self, entry: Entry) -> u64 {
        let ahead = self.pending.len() / RECORD_ENTRIES;
        self.pending.push_back(entry);
        self.next + u64::try_from(ahead).expect("few records")
    }

    /// Begins the next record, if there is something to write and room for it.
    pub fn begin(&mut self, tail: Option<u64>, stamp: u64, opening: u64) -> Option<Record> {
        let tail = tail.unwrap_or(self.next);
        assert!(tail <= self.next, "record {tail} is needed, and {} is not written", self.next);
        if self.in_flight || self.has_failed || self.pending.is_empty() || self.is_full(tail) {
            return None;
        }
        let count = self.pending.len().min(RECORD_ENTRIES);
        let entries = self.pending.drain(..count).collect();
        let sequence = self.next;
        self.next += 1;
        self.in_flight = true;
        Some(Record { sequence, tail, durable: self.durable, stamp, opening, phase: Phase::Open, entries })
    }

    /// True when no record can be written before the one of this number is not needed any more.
    #[must_use]
    pub fn is_full(&self, tail: u64) -> bool {
        self.next - tail >= self.window
    }

    /// True when no more entries should come before old records are not needed any more.
    #[must_use]
    pub fn is_crowded(&self, tail: Option<u64>) -> bool {
        let ahead = u64::try_from(self.pending.len() / RECORD_ENTRIES).expect("few records");
        tail.is_some_and(|tail| self.next + ahead - tail >= self.window - self.reserve)
    }

    /// The record in flight is through.
    ///
    /// # Panics
    /// When none was.
    pub fn end(&mut self, has_succeeded: bool) {
        assert!(std::mem::take(&mut self.in_flight), "a record ends that was not begun");
        if has_succeeded {
            self.completed = self.next - 1;
        } else {
            self.has_failed = true;
        }
    }

    /// Records up to this one are durable.
    pub fn note_durable(&mut self, sequence: u64) {
        assert!(sequence <= self.completed, "record {sequence} is durable before it is written");
        self.durable = self.durable.max(sequence);
    }

    /// Newest record that is written.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Newest record that is durable.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// True when a record could not be written: none follows.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// No record is written any more.
    pub fn give_up(&mut self) {
        self.has_failed = true;
    }

    /// The newest record that must not be needed any more, so that half of the ring is free.
    #[must_use]
    pub fn old(&self) -> u64 {
        (self.next).saturating_sub(self.window / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::identity::Identity;
    use base::units::ZoneIndex;

    fn block(offset: u32) -> Entry {
        let identity = Identity { crc: 9, oob: [3; 64] };
        Entry::Block { zone: ZoneIndex(2), offset, stamp: 5, identity }
    }

    #[test]
    fn entries_know_their_record() {
        let layout =
            Layout { blocks: 9_000, zones: 4, zone_units: 16, active_zones_max: 3, journal_records: 64 };
        let mut journal = Journal::new(&layout, 10);
        let numbers: Vec<u64> = (0..60).map(|offset| journal.push(block(offset))).collect();
        assert_eq!((numbers[0], numbers[49], numbers[50]), (11, 11, 12));
        let first = journal.begin(Some(9), 5, 4).expect("a record");
        assert_eq!((first.sequence, first.tail, first.entries.len()), (11, 9, 50));
        assert!(journal.begin(Some(9), 5, 4).is_none(), "one record at a time");
        assert_eq!(journal.push(block(60)), 12);
        journal.end(true);
        assert_eq!(journal.completed(), 11);
        assert_eq!(journal.begin(None, 5, 4).map(|record| record.entries.len()), Some(11));
    }

    #[test]
    fn a_ring_of_needed_records_is_full() {
        let layout =
            Layout { blocks: 9_000, zones: 4, zone_units: 16, active_zones_max: 3, journal_records: 48 };
        let mut journal = Journal::new(&layout, 0);
        for number in 1.. {
            journal.push(block(0));
            if journal.begin(Some(1), 5, 4).is_none() {
                assert!(number > 20 && number < 48, "full at {number}");
                break;
            }
            journal.end(true);
        }
        assert!(journal.begin(Some(8), 5, 4).is_some());
    }
}
