//! Life of a zone that is in use: what was written since it was empty, how much of that is durable, and which records of the
//! journal that takes.
//!
//! ```text
//!   0 ........ marked ........ durable ........ completed ........ end
//!   a mark of the journal   flushed          answered         handed to the device
//!   says so                                  (in order)
//! ```
//! Invariant: marked <= durable <= completed <= written <= end. The journal has the identities of all blocks from the unit of `marked` on
//! whose unit was not full when they were recorded. `identities` begin with the unit of `durable`.

use super::identity::Identity;
use super::record::{Entry, low_half};
use super::{UNIT_BLOCKS, unit_of};
use base::units::ZoneIndex;
use std::collections::VecDeque;

/// Blocks that become durable before a new mark says so: what is read and verified of a zone after a crash, 4 MiB.
const MARK_EVERY: u32 = 1024;

/// Write that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub struct Writing {
    /// Command that waits for it.
    pub slot: u32,
    /// Block behind it.
    pub end: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Life {
    /// The zone.
    pub zone: ZoneIndex,
    /// Stamp of what is written.
    pub stamp: u64,
    /// Identities of the blocks from the unit on that is not durable with all of its blocks.
    identities: VecDeque<Identity>,
    /// Writes in their order.
    pub writes: VecDeque<Writing>,
    /// A write failed: nothing more is written.
    pub has_failed: bool,
    /// The table is to say that the zone is full, or empty again.
    pub is_over: bool,
    end: u32,
    /// Block behind the last one that the device has taken.
    written: u32,
    /// Block behind the last one that has an entry, or needs none.
    recorded: u32,
    completed: u32,
    durable: u32,
    marked: u32,
    /// Record of the newest mark that counts.
    mark_record: u64,
    /// Marks on their way: record and block.
    marks: VecDeque<(u64, u32)>,
    /// Records with identities of this zone, and the last block in each.
    records: VecDeque<(u64, u32)>,
    /// Records, first and last, in which what is needed of the blocks before one is repeated.
    carry: Option<(u64, u64, u32)>,
}

impl Life {
    /// Life of a zone that is durable up to a block, with the record of the mark that says so.
    #[must_use]
    pub fn new(zone: ZoneIndex, stamp: u64, durable: u32, tail: Vec<Identity>, mark_record: u64) -> Life {
        assert_eq!(tail.len(), (durable % UNIT_BLOCKS) as usize, "identities of the last unit");
        Life {
            zone,
            stamp,
            identities: tail.into(),
            writes: VecDeque::new(),
            has_failed: false,
            is_over: false,
            end: durable,
            written: durable,
            recorded: durable,
            completed: durable,
            durable,
            marked: durable,
            mark_record,
            marks: VecDeque::new(),
            records: VecDeque::new(),
            carry: None,
        }
    }

    /// Block behind the last one that was handed to the device.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.end
    }

    /// Block behind the last one that the device has taken, for drives that say so.
    #[must_use]
    pub fn written(&self) -> u32 {
        self.written
    }

    /// The device has taken all blocks before this one.
    pub fn note_written(&mut self, end: u32) {
        assert!(self.written <= end && end <= self.end, "blocks are written in their order");
        self.written = end;
    }

    /// Block behind the last one that has an entry, or needs none, for drives that make entries together.
    #[must_use]
    pub fn recorded(&self) -> u32 {
        self.recorded
    }

    /// What was to be written in place may not be: what is not answered gets an entry.
    pub fn record_again(&mut self) {
        self.recorded = self.completed;
    }

    /// Has the identities of all blocks from one on written; those before it need no entry. Returns the record of each.
    pub fn record(&mut self, from: u32, mut push: impl FnMut(Entry) -> u64) -> Vec<u64> {
        assert!(self.recorded <= from && from <= self.end, "blocks are recorded in their order");
        self.recorded = self.end;
        let skipped = (from - self.first()) as usize;
        let stamp = low_half(self.stamp);
        let identities = self.identities.iter().skip(skipped);
        let entries = (from..self.end).zip(identities).map(|(offset, identity)| Entry::Block {
            zone: self.zone,
            offset,
            stamp,
            identity: *identity,
        });
        let records: Vec<u64> = entries.map(&mut push).collect();
        (from..).zip(&records).for_each(|(offset, record)| self.note_record(*record, offset));
        records
    }

    /// Block behind the last one that was answered.
    #[must_use]
    pub fn completed(&self) -> u32 {
        self.completed
    }

    /// Block behind the last one that is durable.
    #[must_use]
    pub fn durable(&self) -> u32 {
        self.durable
    }

    /// First block whose identity is here.
    fn first(&self) -> u32 {
        unit_of(self.durable) * UNIT_BLOCKS
    }

    /// A block is going to be written.
    pub fn push(&mut self, identity: Identity) {
        self.identities.push_back(identity);
    }

    /// Identities of the blocks of a unit; none when all of them are durable.
    #[must_use]
    pub fn unit(&self, number: u32) -> Option<Vec<Identity>> {
        let skipped = (number * UNIT_BLOCKS).checked_sub(self.first())?;
        let blocks = self.identities.iter().skip(skipped as usize).take(UNIT_BLOCKS as usize);
        let blocks: Vec<Identity> = blocks.copied().collect();
        (!blocks.is_empty()).then_some(blocks)
    }

    /// A write goes to the device.
    pub fn begin_write(&mut self, slot: u32, blocks: u32) {
        self.end += blocks;
        self.writes.push_back(Writing { slot, end: self.end });
    }

    /// The oldest write is answered.
    ///
    /// # Panics
    /// When there is none.
    pub fn end_write(&mut self) {
        let Writing { end, .. } = self.writes.pop_front().expect("a write that ends was begun");
        assert!(end > self.completed, "writes end in their order");
        if !self.has_failed {
            self.completed = end;
        }
    }

    /// The identity of a block is in a record.
    pub fn note_record(&mut self, record: u64, offset: u32) {
        match self.records.back_mut() {
            Some((last, block)) if *last == record => *block = (*block).max(offset),
            _ => self.records.push_back((record, offset)),
        }
    }

    /// Has a mark of what is durable written: `push` takes an entry for the journal, and returns its record, as everywhere here.
    pub fn mark(&mut self, mut push: impl FnMut(Entry) -> u64) -> u64 {
        let record = push(Entry::Mark { zone: self.zone, durable: self.durable, stamp: self.stamp });
        self.marks.push_back((record, self.durable));
        record
    }

    /// Has all that is needed written again: a mark, and the identities of the unit that is not durable with all of its blocks.
    ///
    /// # Panics
    /// When that is on its way.
    pub fn repeat(&mut self, mut push: impl FnMut(Entry) -> u64) {
        assert!(self.carry.is_none(), "what zone {} needs is repeated once at a time", self.zone.0);
        let first = self.mark(&mut push);
        let (mut last, number) = (first, unit_of(self.durable));
        for (offset, identity) in (number * UNIT_BLOCKS..).zip(self.unit(number).unwrap_or_default()) {
            last = push(Entry::Block { zone: self.zone, offset, stamp: low_half(self.stamp), identity });
            self.note_record(last, offset);
        }
        // Behind a write that failed nothing counts.
        let is_all = self.has_failed && self.durable == self.completed;
        self.carry = Some((first, last, if is_all { u32::MAX } else { (number + 1) * UNIT_BLOCKS }));
    }

    /// Has all that is known written to a journal that begins anew: a mark, and the identities of all blocks that are not durable with
    /// their units.
    pub fn rebase(&mut self, mut push: impl FnMut(Entry) -> u64) {
        self.marks.clear();
        self.records.clear();
        self.carry = None;
        self.marked = self.durable;
        self.mark_record = push(Entry::Mark { zone: self.zone, durable: self.durable, stamp: self.stamp });
        self.recorded = self.end;
        // Behind a write that failed nothing counts.
        let end = if self.has_failed { self.completed } else { self.end };
        let identities: Vec<Identity> = self.identities.iter().copied().collect();
        for (offset, identity) in (self.first()..end).zip(identities) {
            let record =
                push(Entry::Block { zone: self.zone, offset, stamp: low_half(self.stamp), identity });
            self.note_record(record, offset);
        }
    }

    /// What was completed up to a block is durable.
    pub fn note_durable(&mut self, completed: u32) {
        assert!(completed <= self.completed, "block {completed} is durable before it is written");
        let before = self.first();
        self.durable = self.durable.max(completed);
        self.identities.drain(..(self.first() - before) as usize);
    }

    /// Records up to this one are durable.
    pub fn note_journal(&mut self, durable: u64) {
        while let Some((record, block)) = self.marks.front().copied().filter(|(record, _)| *record <= durable)
        {
            self.marks.pop_front();
            assert!(block >= self.marked, "marks move forward");
            self.marked = block;
            self.mark_record = record;
        }
        if let Some((first, _, end)) = self.carry.filter(|(_, last, _)| *last <= durable) {
            self.records.retain(|(record, block)| *record >= first || *block >= end);
            self.carry = None;
        }
        let begin = unit_of(self.marked) * UNIT_BLOCKS;
        while self.records.front().is_some_and(|(_, block)| *block < begin) {
            self.records.pop_front();
        }
    }

    /// Oldest record that is needed.
    #[must_use]
    pub fn oldest_record(&self) -> u64 {
        let identities = self.records.front().map_or(u64::MAX, |(record, _)| *record);
        self.mark_record.min(identities)
    }

    /// True when a new mark spares the next opening much reading.
    #[must_use]
    pub fn wants_mark(&self) -> bool {
        let said = self.marks.back().map_or(self.marked, |(_, block)| *block);
        self.durable - said >= MARK_EVERY
    }

    /// True when nothing of what is needed is being repeated.
    #[must_use]
    pub fn can_be_carried(&self) -> bool {
        self.carry.is_none()
    }

    /// Blocks that are written, and not durable.
    #[must_use]
    pub fn undurable(&self) -> u32 {
        self.completed - self.durable
    }
}
