//! Journal of a drive with identities in-band: records in two zones of the device, used in turn.
//!
//! ```text
//!   entries of all zones ──> pending ──> one command in flight ──> current zone, at its pointer
//!   spare zone: stale ──> being reset ──> being headed ──> ready ──> current, when the other is full
//!                                  └──> dead: the current zone is the last one
//! ```
//! When a record cannot be written, what is alive moves to the other zone ([`moving`](super::moving)).
//!
//! Records are written when those before them are through; what gathers meanwhile shares the next command. The spare zone is reset when a
//! record that is durable says that nothing before the current zone is needed.

use super::layout::Layout;
use super::moving::{Moving, Step};
use crate::units::record::{Entry, Phase, RECORD_ENTRIES, Record};
use crate::units::{UNIT_BLOCKS, live_records};
use std::collections::VecDeque;

/// Records after which what is still needed is written again: 8 MiB; an opening reads little more.
const OLD: u64 = 2048;

/// Times that a zone is tried whose records, or header, are not written.
pub(super) const TRIES: u32 = 3;

/// The journal zone that is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spare {
    /// It has old records, which may be needed.
    Stale,
    /// It is being reset.
    Resetting,
    /// Its header is being written.
    Heading,
    /// It has a header and no records.
    Ready,
    /// It cannot be written.
    Dead,
}

/// Where the journal goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Zone of the device that is written.
    pub current: u32,
    /// Number of its first record.
    pub base: u64,
    /// Number of the next record.
    pub next: u64,
    /// The other zone.
    pub spare: Spare,
}

impl Position {
    /// Zone and block of the next record, when there is room; the spare zone becomes the current one when it is needed and ready.
    pub fn take(&mut self, zone_records: u64) -> Option<(u32, u32, u64)> {
        if self.next - self.base == zone_records {
            if self.spare != Spare::Ready {
                return None;
            }
            *self = Position { current: 1 - self.current, base: self.next, spare: Spare::Stale, ..*self };
        }
        let sequence = self.next;
        self.next += 1;
        let offset = u32::try_from(1 + sequence - self.base).expect("a block of the zone");
        Some((self.current, offset, sequence))
    }
}

/// The journal in service.
#[derive(Debug)]
pub struct Journal {
    zone_records: u64,
    /// Records after which what is needed is written again.
    old: u64,
    /// Records kept for what has to be written again.
    reserve: u64,
    pending: VecDeque<Entry>,
    /// Blocks that may get entries with the next record, and the most that do: those of units that are not full.
    unsaid: usize,
    unsaid_max: usize,
    pub(super) position: Position,
    /// Records are in flight, in one command.
    in_flight: bool,
    completed: u64,
    durable: u64,
    /// Records that are not durable, with the oldest record that each needs.
    tails: VecDeque<(u64, u64)>,
    /// Oldest record that the newest durable one needs.
    pub(super) said: u64,
    /// Turns in which the header of the spare zone was not written, one after the other.
    headless: u32,
    pub(super) moving: Option<Moving>,
    has_failed: bool,
}

impl Journal {
    /// The journal of a drive that was opened: the newest record is durable, and needs those from `said` on.
    #[must_use]
    pub fn new(layout: &Layout, position: Position, said: u64) -> Journal {
        let newest = position.next - 1;
        let zone_records = layout.zone_records();
        Journal {
            zone_records,
            old: OLD.min(zone_records / 4),
            reserve: u64::from(2 * live_records(layout.active_zones_max)).max(zone_records / 4),
            pending: VecDeque::new(),
            unsaid: 0,
            unsaid_max: (layout.active_zones_max * UNIT_BLOCKS) as usize,
            position,
            in_flight: false,
            completed: newest,
            durable: newest,
            tails: VecDeque::new(),
            said,
            headless: 0,
            moving: None,
            has_failed: false,
        }
    }

    /// Entries that are not in a record yet, and those of a move.
    pub(super) fn pending(&mut self) -> &mut VecDeque<Entry> {
        &mut self.pending
    }

    /// Records of a zone.
    pub(super) fn zone_records(&self) -> u64 {
        self.zone_records
    }

    /// All records up to the newest are durable, and those before `first` are not needed: a move is through.
    pub(super) fn restart(&mut self, first: u64) {
        self.completed = self.position.next - 1;
        self.durable = self.completed;
        self.tails.clear();
        self.said = first;
    }

    /// Adds an entry; returns the number of its record.
    pub fn push(&mut self, entry: Entry) -> u64 {
        let ahead = self.pending.len() / RECORD_ENTRIES;
        self.pending.push_back(entry);
        self.position.next + u64::try_from(ahead).expect("few records")
    }

    /// Begins the next records, `most` at once, if there is something to write and room for it; returns them with their place.
    pub fn begin(
        &mut self,
        tail: Option<u64>,
        (stamp, opening): (u64, u64),
        most: usize,
    ) -> Option<(Vec<Record>, u32, u32)> {
        if self.in_flight || self.has_failed {
            return None;
        }
        let (phase, tail) = match &self.moving {
            Some(moving) => match moving.step {
                Step::Carrying if !self.pending.is_empty() => (Phase::Opening, moving.first),
                Step::Settling => (Phase::Settling, moving.first),
                _ => return None,
            },
            None => {
                let tail = tail.unwrap_or(self.position.next);
                assert!(tail <= self.position.next, "record {tail} is needed, and is not written");
                if self.pending.is_empty() && !self.has_to_tell(tail) {
                    return None;
                }
                (Phase::Open, tail)
            }
        };
        let (zone, offset, first) = self.position.take(self.zone_records)?;
        self.in_flight = true;
        let (mut records, mut sequence) = (Vec::new(), first);
        loop {
            let count = self.pending.len().min(RECORD_ENTRIES);
            let entries = self.pending.drain(..count).collect();
            if self.moving.is_none() {
                self.tails.push_back((sequence, tail));
            }
            // With the record that settles a move, all before it of the move count.
            let durable = if phase == Phase::Settling { sequence - 1 } else { self.durable };
            records.push(Record { sequence, tail, durable, stamp, opening, phase, entries });
            let has_room = self.position.next - self.position.base < self.zone_records;
            if self.pending.is_empty() || records.len() == most || !has_room {
                return Some((records, zone, offset));
            }
            sequence = self.position.take(self.zone_records)?.2;
        }
    }

    /// True when the next record can be begun, and takes the identities of blocks that have no entry.
    #[must_use]
    pub fn takes_entries(&self) -> bool {
        !self.in_flight && !self.has_failed && self.moving.is_none()
    }

    /// Blocks were begun that have no entries yet.
    pub fn note_begun(&mut self, blocks: u32) {
        self.unsaid = self.unsaid.saturating_add(blocks as usize).min(self.unsaid_max);
    }

    /// All that needs one has an entry.
    pub fn note_gathered(&mut self) {
        self.unsaid = 0;
    }

    /// True when only a record can say that the spare zone is not needed.
    fn has_to_tell(&self, tail: u64) -> bool {
        let Position { base, next, spare, .. } = self.position;
        let is_late = next - base > self.zone_records / 2;
        spare == Spare::Stale && tail >= base && self.told() < base && is_late
    }

    /// Oldest record that the newest one needs.
    fn told(&self) -> u64 {
        self.tails.back().map_or(self.said, |(_, tail)| *tail)
    }

    /// True when no record can be written, and no record says that the spare zone is not needed.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        let Position { base, next, spare, .. } = self.position;
        let is_last = spare == Spare::Dead || (spare == Spare::Stale && self.told() < base);
        next - base == self.zone_records && is_last && !self.in_flight && self.moving.is_none()
    }

    /// True when the last zone has no more than what openings need.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.position.spare == Spare::Dead && self.moving.is_none() && self.is_crowded()
    }

    /// True when no more entries should come before old records are not needed any more.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        let Position { base, next, spare, .. } = self.position;
        let ahead = (self.pending.len() + self.unsaid) / RECORD_ENTRIES;
        let ahead = u64::try_from(ahead).expect("few records");
        if self.moving.is_some() {
            return true;
        }
        spare != Spare::Ready && next + ahead - base >= self.zone_records - self.reserve
    }

    /// True when the spare zone can be reset: a durable record says that it is not needed.
    fn may_turn(&self) -> bool {
        self.moving.is_none()
            && self.position.spare == Spare::Stale
            && self.said >= self.position.base
            && !self.has_failed
    }

    /// Begins to make the spare zone ready; returns which zone it is.
    pub fn begin_turn(&mut self) -> Option<u32> {
        if !self.may_turn() {
            return None;
        }
        self.position.spare = Spare::Resetting;
        Some(1 - self.position.current)
    }

    /// The spare zone is empty; returns it, and the number of its first record for the header.
    ///
    /// # Panics
    /// When it was not being reset.
    pub fn head(&mut self) -> (u32, u64) {
        assert_eq!(self.position.spare, Spare::Resetting, "a zone is headed when it was reset");
        self.position.spare = Spare::Heading;
        (1 - self.position.current, self.position.base + self.zone_records)
    }

    /// The spare zone has its header.
    ///
    /// # Panics
    /// When that was not written.
    pub fn end_turn(&mut self) {
        assert_eq!(self.position.spare, Spare::Heading, "a zone is ready when it has its header");
        self.position.spare = Spare::Ready;
        self.headless = 0;
        self.end_waiting();
    }

    /// The spare zone was not reset, or has no header: then it is reset once more, a few times.
    pub fn lose_turn(&mut self, is_reset: bool) {
        self.headless += 1;
        let is_dead = !is_reset || self.headless > TRIES;
        self.position.spare = if is_dead { Spare::Dead } else { Spare::Stale };
        self.end_waiting();
    }

    /// Zone that is written, and the number of its first record.
    #[must_use]
    pub fn current(&self) -> (u32, u64) {
        (self.position.current, self.position.base)
    }

    /// The records in flight are through.
    ///
    /// # Panics
    /// When none was.
    pub fn end(&mut self, has_succeeded: bool) {
        assert!(std::mem::take(&mut self.in_flight), "a record ends that was not begun");
        match (has_succeeded, self.moving.is_some()) {
            (true, false) => self.completed = self.position.next - 1,
            (true, true) => self.note_carried(),
            (false, _) => self.begin_move(),
        }
    }

    /// Records up to this one are durable.
    pub fn note_durable(&mut self, sequence: u64) {
        assert!(sequence <= self.completed, "record {sequence} is durable before it is written");
        self.durable = self.durable.max(sequence);
        while let Some((_, tail)) = self.tails.front().copied().filter(|(number, _)| *number <= self.durable)
        {
            self.tails.pop_front();
            self.said = tail;
        }
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
        self.moving = None;
    }

    /// The oldest record that may be needed without being written again.
    #[must_use]
    pub fn old(&self) -> u64 {
        if self.position.spare == Spare::Dead {
            return 0;
        }
        self.position.next.saturating_sub(self.old)
    }

    /// True when a flush would let the spare zone be reset.
    #[must_use]
    pub fn waits_for_flush(&self) -> bool {
        let Position { base, next, spare, .. } = self.position;
        spare == Spare::Stale && self.said < base && next - base > self.zone_records / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::units::ZoneIndex;

    const LAYOUT: Layout = Layout { zones: 5, zone_places: 401, active_zones_max: 1, journal_places: None };

    fn mark() -> Entry {
        Entry::Mark { zone: ZoneIndex(0), durable: 0, stamp: 1 }
    }

    fn journal() -> Journal {
        let position = Position { current: 0, base: 1, next: 2, spare: Spare::Stale };
        Journal::new(&LAYOUT, position, 1)
    }

    /// Writes records, each of them durable at once, that need those from `tail` on.
    fn write(journal: &mut Journal, count: u32, tail: u64) -> usize {
        (0..count)
            .take_while(|_| {
                journal.push(mark());
                let begun = journal.begin(Some(tail), (5, 4), 1).is_some();
                if begun {
                    journal.end(true);
                    journal.note_durable(journal.completed());
                }
                begun
            })
            .count()
    }

    #[test]
    fn zones_are_used_in_turn() {
        let mut journal = journal();
        assert_eq!(journal.begin_turn(), Some(1), "nothing is in the other zone");
        assert_eq!(journal.head(), (1, 401));
        assert_eq!(write(&mut journal, 500, 2), 399, "the header is not written yet");
        assert!(!journal.is_stuck(), "the header is under way");
        journal.end_turn();
        let (records, zone, offset) = journal.begin(Some(400), (5, 4), 1).expect("a record");
        assert_eq!((records[0].sequence, zone, offset), (401, 1, 1));
        journal.end(true);
        journal.note_durable(401);
        assert_eq!(journal.begin_turn(), None, "record 400 is needed");
        write(&mut journal, 1, 401);
        assert_eq!(journal.begin_turn(), Some(0));
    }

    #[test]
    fn what_is_needed_is_not_reset() {
        let mut journal = journal();
        journal.position = Position { current: 1, base: 401, next: 402, spare: Spare::Stale };
        journal.completed = 401;
        journal.note_durable(401);
        journal.said = 300;
        assert_eq!(write(&mut journal, 290, 300), 290);
        assert!(!journal.is_crowded());
        write(&mut journal, 20, 300);
        assert!(journal.is_crowded() && !journal.is_stuck());
        assert_eq!(write(&mut journal, 500, 300), 89);
        assert!(journal.is_stuck());
    }

    #[test]
    fn an_empty_record_says_that_nothing_is_needed() {
        let mut journal = journal();
        journal.said = 0;
        assert!(journal.begin(None, (5, 4), 1).is_none(), "there is time");
        write(&mut journal, 200, 0);
        let (records, ..) = journal.begin(None, (5, 4), 9).expect("a record that says so");
        assert!(
            records.len() == 1 && records[0].entries.is_empty() && records[0].tail == records[0].sequence
        );
        assert!(journal.begin(None, (5, 4), 1).is_none());
    }
}
