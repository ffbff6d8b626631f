//! Entries that are written again: a journal zone of sparse blocks is emptied into dense ones, and then reset.
//!
//! ```text
//!   oldest journal zone   | e |   |   | e | e |   ...        a block for each entry, when they come one at a time
//!                           └───────┴───┘ read, some blocks at a time
//!   open journal zone     | new e + those |                  they fill what clients' entries leave of a block, or one of their own
//! ```
//! When the journal is at its bound, its oldest zone has to go. All zones of data that were born before its last block would have to go first, for
//! its entries hide what is in them (ADR 40, rule 7): a quarter of the drive, or half of it, where blocks have one entry of 290. So what
//! is still needed of it is written again, to the journal of the same drive. Entries keep their sequences and mean the same where they stand
//! now, if the index tells the same keys apart. When too much is needed, zones of data go first, the oldest one at a time.

use super::core::Core;
use super::drive::{Drive, JournalEntries, JournalZone};
use super::{Effects, Purpose, command};
use crate::format::journal::{ENTRIES_MAX, Entry, JournalBlock};
use crate::format::stamp::{Kind, Stamp};
use base::units::ZoneIndex;
use std::collections::VecDeque;
use std::ops::Range;
use zone::device::{Completion, Op as DeviceOp, Status};

/// Most blocks that are read together: what is in them is in memory.
const READ_BLOCKS_MAX: u32 = 32;
/// Entries are written again when they take one of so many blocks of what their zone has: half of what is written to a full journal
/// was there before, at most.
const SPARSE: u64 = 2;

/// A journal zone whose entries are written again.
#[derive(Debug)]
pub struct Carry {
    /// The zone, the oldest of the journal.
    pub zone: ZoneIndex,
    /// Blocks that are to be read, those under way included.
    unread: Range<u32>,
    is_reading: bool,
    /// Entries that were read.
    waiting: VecDeque<Entry>,
    /// Entries that will still be written again, at most.
    left: u64,
    /// True while entries of the zone are in the block in flight.
    is_writing: bool,
}

impl Carry {
    /// True while a read of the zone is under way.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        self.is_reading
    }

    /// Places of the next block that are kept for entries that were read: all that they fill, when the journal has no room for more blocks
    /// than they take.
    #[must_use]
    pub fn reserved(&self, room: u32) -> Option<usize> {
        let is_tight = u64::from(room) <= self.left.div_ceil(ENTRIES_MAX as u64) + 1;
        is_tight.then(|| self.waiting.len().min(ENTRIES_MAX))
    }

    /// Takes entries for a block that has room for so many.
    pub fn take(&mut self, room: usize) -> Vec<Entry> {
        let taken: Vec<Entry> = self.waiting.drain(..room.min(self.waiting.len())).collect();
        self.left = self.left.saturating_sub(taken.len() as u64);
        self.is_writing |= !taken.is_empty();
        taken
    }

    /// The block in flight is durable.
    pub fn written(&mut self) {
        self.is_writing = false;
    }

    /// True when a block is to be written for what was read: one that it fills, or the last one.
    #[must_use]
    pub fn wants_block(&self) -> bool {
        self.waiting.len() >= ENTRIES_MAX || self.unread.is_empty() && !self.waiting.is_empty()
    }

    fn is_done(&self) -> bool {
        self.unread.is_empty() && self.waiting.is_empty() && !self.is_writing
    }
}

impl Drive {
    /// The oldest zone of the journal, when it is not the only one, and how many of its entries are needed, if they may be written again.
    fn needed_of_oldest(&self) -> Option<(ZoneIndex, u64)> {
        let oldest = self.journal.zones.front().filter(|_| self.journal.zones.len() > 1)?;
        let JournalEntries::Movable(needed) = &oldest.entries else { return None };
        Some((oldest.zone, needed.above(self.zones.horizon())))
    }

    /// True when no entry of the oldest zone of the journal hides anything any more. A later block has told the time.
    pub(super) fn is_oldest_journal_idle(&self) -> bool {
        let Some(oldest) = self.journal.zones.front().filter(|_| self.journal.zones.len() > 1) else {
            return false;
        };
        let horizon = self.zones.horizon();
        let is_idle =
            matches!(&oldest.entries, JournalEntries::Movable(needed) if !needed.is_any_above(horizon));
        is_idle && self.journal.told.sequence > oldest.last
    }

    /// The oldest zone of the journal and how many of its entries are needed, when it is in the way and few blocks would hold them: half of
    /// what the open zone still takes is left to clients. The later that is, the fewer are needed.
    fn sparse_journal_zone(&self) -> Option<(ZoneIndex, u64)> {
        if self.journal_share() > 0 {
            return None;
        }
        let (zone, needed) = self.needed_of_oldest()?;
        let blocks = u64::from(self.zones[zone.index()].end.saturating_sub(1));
        let dense = needed.div_ceil(ENTRIES_MAX as u64);
        let (room, wanted) = (u64::from(self.journal_room()), (dense + 1) * 2);
        let is_last_chance = room <= wanted + u64::from(READ_BLOCKS_MAX);
        let is_in_the_way = needed > 0 && (self.is_journal_short() || is_last_chance);
        (is_in_the_way && dense * SPARSE <= blocks && wanted <= room).then_some((zone, needed))
    }

    /// True when the oldest zone of the journal can go though what its entries hide is there.
    pub(super) fn frees_journal(&self) -> bool {
        let is_carried = self.journal.zones.front().is_some_and(JournalZone::is_carried);
        let is_carrying = self.journal.carry.is_some() || self.sparse_journal_zone().is_some();
        is_carried || is_carrying || self.is_oldest_journal_idle()
    }

    fn oldest_journal_zone(&mut self) -> &mut JournalZone {
        self.journal.zones.front_mut().expect("a zone is carried")
    }
}

impl Core {
    /// Goes on with the journal zone whose entries are written again, or begins with one.
    pub(super) fn carry(&mut self, drive: usize, effects: &mut Effects) {
        let own = &mut self.drives[drive];
        if !own.up {
            return;
        }
        if own.journal.carry.is_none()
            && let Some((zone, left)) = own.sparse_journal_zone()
        {
            let (unread, waiting) = (1..own.zones[zone.index()].end, VecDeque::new());
            own.journal.carry =
                Some(Carry { zone, unread, is_reading: false, waiting, left, is_writing: false });
        }
        let room = own.journal_room();
        let Some(carry) = &mut own.journal.carry else { return };
        assert!(room > 0 || carry.waiting.is_empty(), "the journal has room for what is written again");
        if carry.is_done() {
            let zone = carry.zone;
            own.journal.carry = None;
            let oldest = own.oldest_journal_zone();
            let is_movable = matches!(oldest.entries, JournalEntries::Movable(_));
            assert!(oldest.zone == zone && is_movable, "the oldest zone is carried, once");
            oldest.entries = JournalEntries::Carried;
        } else if !carry.is_reading && !carry.unread.is_empty() && carry.waiting.len() < ENTRIES_MAX {
            self.read_journal(drive, effects);
        }
    }

    fn read_journal(&mut self, drive: usize, effects: &mut Effects) {
        let own = &mut self.drives[drive];
        let carry = own.journal.carry.as_mut().expect("a zone is carried");
        let (zone, Range { start: offset, end }) = (carry.zone, carry.unread.clone());
        let count = READ_BLOCKS_MAX.min(own.transfer_max).min(end - offset);
        carry.is_reading = true;
        let frames = (0..count).map(|_| self.take_frame()).collect();
        let op = DeviceOp::Read { offset, frames };
        effects.commands.push(command(drive, zone, Purpose::Carry.token(0), op));
    }

    /// Blocks of the journal were read.
    pub(super) fn on_journal_read(&mut self, drive: usize, completion: Completion) {
        let Completion { status, zone, offset, frames, .. } = completion;
        let life = self.life(drive, zone);
        let own = &mut self.drives[drive];
        let horizon = own.zones.horizon();
        // A drive that fails carries nothing any more.
        if let Some(carry) = &mut own.journal.carry {
            assert!(
                carry.is_reading && carry.zone == zone && carry.unread.start == offset,
                "blocks come to who reads them"
            );
            carry.is_reading = false;
            let blocks = (offset..).zip(&frames).map(|(page, frame)| {
                let stamp = Stamp::read_at(frame, &life, page);
                let block = stamp.filter(|stamp| stamp.kind == Kind::Journal);
                block.and_then(|_| JournalBlock::decode(&frame.data))
            });
            let blocks: Option<Vec<JournalBlock>> =
                if status == Status::Success { blocks.collect() } else { None };
            if let Some(blocks) = blocks {
                let entries = blocks.into_iter().flat_map(|block| block.entries);
                // What was born later is not hidden by it.
                let needed = entries.filter(|entry| entry.sequence > horizon);
                let waiting = carry.waiting.len();
                carry.waiting.extend(needed);
                carry.unread.start += u32::try_from(frames.len()).expect("a transfer");
                self.counters.entries_carried += (carry.waiting.len() - waiting) as u64;
                assert!(carry.waiting.len() as u64 <= carry.left, "needed entries were counted");
                if carry.unread.is_empty() {
                    carry.left = carry.waiting.len() as u64;
                }
            } else {
                // The zone stays until what its entries hide is gone.
                own.journal.carry = None;
                own.oldest_journal_zone().entries = JournalEntries::Bound;
            }
        }
        self.frames.extend(frames);
    }
}
