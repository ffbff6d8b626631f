//! Journals: entries that hide older versions, in groups, on the drive of what they hide.
//!
//! What has gathered goes as soon as the block before is on the media. An entry that is on its way counts like a slot:
//! whoever writes what it matches waits for it.

use super::carrying::Carry;
use super::core::Core;
use super::drive::{JournalEntries, JournalZone, PendingEntry, ToldTime};
use super::needed::Needed;
use super::sharing::Sharing;
use super::zones::ZoneUse;
use super::{Effects, Purpose, command};
use crate::format::header::{Role, ZoneHeader};
use crate::format::journal::{ENTRIES_MAX, Entry, JournalBlock};
use crate::format::stamp::{Kind, Stamp};
use crate::hash::{Ident, KeyHash};
use base::frame::Frame;
use base::units::ZoneIndex;
use std::collections::BTreeMap;
use zone::device::Op as DeviceOp;

/// Entries on their way to journals, or in memory that outlives the process.
pub(super) struct Entries {
    /// By ident and number, the operations that wait for each.
    pub(super) on_their_way: BTreeMap<(Ident, u64), Vec<u32>>,
    pub(super) sharing: Sharing,
}

impl Entries {
    /// Sends an entry to the journal of a drive. True when an operation that wants to wait for it has to.
    pub(super) fn issue(
        &mut self,
        core: &mut Core,
        drive: usize,
        hash: KeyHash,
        sequence: u64,
        waiter: Option<u32>,
    ) -> bool {
        assert!(core.drives[drive].up, "entries go to drives that are there");
        let ident = core.index.shape().ident(hash);
        core.clocks.entry += 1;
        let number = core.clocks.entry;
        let entry = Entry { hash, sequence };
        let shared = self.share(core, drive, entry);
        if shared.is_none() {
            self.on_their_way.insert((ident, number), waiter.into_iter().collect());
            core.drives[drive].journal.urgent += 1;
        }
        core.drives[drive].journal.pending.push_back(PendingEntry { entry, ident, number, shared });
        core.counters.entries += 1;
        waiter.is_some() && shared.is_none()
    }

    /// Writes what has gathered, if the block before is on the media.
    pub(super) fn write_journal(&mut self, core: &mut Core, drive: usize, effects: &mut Effects) {
        if !core.drives[drive].up || !core.membership.has_recorded() {
            return;
        }
        core.reset_journal_zones(drive, effects);
        let (room, journal) = (core.drives[drive].journal_room(), &core.drives[drive].journal);
        debug_assert!(
            journal.urgent == journal.pending.iter().filter(|pending| pending.shared.is_none()).count(),
            "what no memory holds is urgent"
        );
        let carries = journal.carry.as_ref().is_some_and(Carry::wants_block);
        let has_many = || journal.pending.len() >= ENTRIES_MAX || self.wants_entries_on_drives();
        let is_urgent = journal.urgent > 0 || !journal.pending.is_empty() && has_many();
        let is_wanted = is_urgent || journal.wants_time;
        let is_tight = || journal.carry.as_ref().is_some_and(|carry| carry.reserved(room).is_some());
        if journal.is_busy() || !carries && (!is_wanted || is_tight()) {
            return;
        }
        if !journal.is_open && !core.open_journal_zone(drive) {
            return;
        }
        let zone = core.drives[drive].journal.zones.back().expect("one is open").zone;
        let offset = core.drives[drive].zones[zone.index()].end;
        // No block is on the media without its header: a zone that begins with nothing never held an entry.
        let (purpose, frame) = match offset {
            0 => (Purpose::JournalHeader, core.zone_header(drive, zone, Role::Journal)),
            _ => (Purpose::Journal, core.journal_block(drive, zone, offset)),
        };
        assert!(offset < core.drives[drive].capacity, "an open zone has room");
        core.counters.blocks_journal += 1;
        let own = &mut core.drives[drive];
        own.zones[zone.index()].end = offset + 1;
        own.journal.is_heading = offset == 0;
        own.journal.is_open = offset + 1 < own.capacity;
        let op = DeviceOp::Write { offset, frames: vec![frame] };
        effects.commands.push(command(drive, zone, purpose.token(0), op));
    }

    /// A journal block was written; the operations that waited for its entries, if it is durable.
    pub(super) fn on_journal(&mut self, core: &mut Core, drive: usize, effects: &mut Effects) -> Vec<u32> {
        if !core.drives[drive].volatile {
            return self.on_journal_durable(core, drive);
        }
        let token = Purpose::JournalFlush.token(0);
        effects.commands.push(command(drive, ZoneIndex(0), token, DeviceOp::Flush));
        Vec::new()
    }

    /// A journal block is durable; the operations that waited for its entries.
    pub(super) fn on_journal_durable(&mut self, core: &mut Core, drive: usize) -> Vec<u32> {
        let journal = &mut core.drives[drive].journal;
        let told = journal.telling.take().expect("a block is in flight");
        assert!(
            told.sequence >= journal.told.sequence,
            "blocks of a journal are on the media one after the other"
        );
        journal.told = told;
        if let Some(carry) = &mut journal.carry {
            carry.written();
        }
        let flight = std::mem::take(&mut journal.flight);
        let mut waiting = Vec::new();
        for pending in flight {
            let waiters = self.on_their_way.remove(&(pending.ident, pending.number));
            waiting.extend(waiters.into_iter().flatten());
            if let (Some(number), Some(log)) = (pending.shared, &mut self.sharing.log) {
                log.release(number);
            }
        }
        waiting
    }
}

impl Core {
    /// The header of a journal zone was written.
    pub(super) fn on_journal_header(&mut self, drive: usize) {
        let journal = &mut self.drives[drive].journal;
        assert!(journal.is_heading && journal.flight.is_empty(), "a header comes alone");
        journal.is_heading = false;
    }

    fn journal_block(&mut self, drive: usize, zone: ZoneIndex, page: u32) -> Frame {
        assert!(!self.drives[drive].journal.is_busy(), "one block of a journal is in flight");
        let sequence = self.next_sequence();
        let (life, shape) = (self.life(drive, zone), self.index.shape());
        assert!(sequence > life.birth && page > 0, "a block is younger than its zone, and behind its header");
        let mut frame = self.take_frame();
        let (room, journal) = (self.drives[drive].journal_room(), &mut self.drives[drive].journal);
        let reserved = journal.carry.as_ref().and_then(|carry| carry.reserved(room)).unwrap_or(0);
        let count = journal.pending.len().min(ENTRIES_MAX - reserved);
        journal.flight.extend(journal.pending.drain(..count));
        journal.urgent -= journal.flight.iter().filter(|pending| pending.shared.is_none()).count();
        // What clients leave of the block is for entries that are written again.
        let carried = journal.carry.as_mut().map(|carry| carry.take(ENTRIES_MAX - count)).unwrap_or_default();
        journal.flight.extend(carried.into_iter().map(|entry| PendingEntry::again(entry, shape)));
        assert!(journal.flight.iter().all(|pending| pending.entry.sequence < sequence));
        let open = journal.zones.back_mut().expect("one is open");
        open.last = sequence;
        if let JournalEntries::Movable(needed) = &mut open.entries {
            journal.flight.iter().for_each(|pending| needed.add(pending.entry.sequence));
        }
        journal.telling = Some(ToldTime { wall: self.clocks.wall, sequence });
        journal.wants_time = false;
        let entries = journal.flight.iter().map(|pending| pending.entry).collect();
        JournalBlock { wall: self.clocks.wall, closes: false, entries }.encode(&mut frame.data);
        Stamp { life, page, kind: Kind::Journal, sequence, origin: 0 }.seal(&mut frame);
        frame
    }

    /// Header of a zone whose life begins.
    pub(super) fn zone_header(&mut self, drive: usize, zone: ZoneIndex, role: Role) -> Frame {
        let mut frame = self.take_frame();
        let life = self.life(drive, zone);
        ZoneHeader { role, shape: self.index.shape(), wall: self.clocks.wall }.encode(&mut frame.data);
        Stamp { life, page: 0, kind: Kind::Header, sequence: life.birth, origin: 0 }.seal(&mut frame);
        frame
    }

    fn open_journal_zone(&mut self, drive: usize) -> bool {
        if self.drives[drive].journal_share() == 0 {
            return false;
        }
        let Some(zone) = self.drives[drive].find_free() else { return false };
        let birth = self.next_sequence();
        let own = &mut self.drives[drive];
        let newest = own.journal.zones.back().map_or(0, |newest| newest.last);
        assert!(newest < birth, "zones of a journal stand in the order of their births");
        own.zones.begin(zone, ZoneUse::Journal, (birth, self.clocks.wall), 0);
        let entries = JournalEntries::Movable(Needed::new(&own.zones.births(), birth));
        own.journal.zones.push_back(JournalZone { zone, last: birth, entries });
        own.journal.is_open = true;
        true
    }

    /// Resets journal zones of which no entry hides anything any more: every zone that held data when they were written is
    /// gone, or what is needed of them was written again.
    fn reset_journal_zones(&mut self, drive: usize, effects: &mut Effects) {
        let own = &mut self.drives[drive];
        let horizon = own.zones.horizon();
        let keep = usize::from(own.journal.is_open || own.journal.is_busy());
        while own.journal.zones.len() > keep {
            let oldest = own.journal.zones.front().expect("there are more");
            let is_needed = oldest.last >= horizon && !oldest.is_carried();
            let (zone, goes) = (oldest.zone, !is_needed || own.is_oldest_journal_idle());
            if !goes || own.journal.carry.as_ref().is_some_and(Carry::is_reading) {
                return;
            }
            // Nothing of it is needed any more.
            own.journal.carry = None;
            own.journal.zones.pop_front();
            own.zones.drop_journal(zone);
            effects.commands.push(command(drive, zone, Purpose::Reset.token(0), DeviceOp::Reset));
        }
    }
}
