//! The zones of superblocks of a drive: marks of zones that are used, write pointers, resets, members that failed, and the partial parity for
//! which windows have no room.
//!
//! Records are appended to one of two zones. When it is full the other one takes over, and says first who is a member and how far zones were
//! flushed. The old one is emptied once no stripe is open whose partial parity lies there; when the new one is half full before, what is
//! left is copied.
//!
//! **Write pointers** of the drives tell how far a zone is written wherever two of them do: that of the last whole chunk, which is at its
//! half, and that of the chunk before. A flush logs the position where that is not so: inside a chunk, as published; where the last whole chunk
//! is the first of its stripe, for the stripe before is committed wholly by then; and in a stripe behind one whose parity is
//! under way, for its chunks are committed later.

use super::Zraid;
use super::config::{LOG_ZONES, logical_zones};
use super::logical_zone::{Kind, LogicalZone, Part, Partial, State};
use super::send::Sent;
use crate::config::count;
use crate::record::{self, Record, Scheme};
use array::engine::Effects;
use base::frame::Frame;
use base::units::OOB_BYTES;

use std::collections::{BTreeSet, VecDeque};
use zone::device::Op;

/// Copies of a log of write pointers.
const COPIES: usize = 2;
/// Records in a block.
const RECORDS_MAX: usize = 64;

/// Purpose of a record.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// Partial parity of a logical zone.
    Partial(u32, Part),
    /// Partial parity that was in the zone that is replaced.
    Copy,
    /// Partial parity of a stripe of a logical zone, for a member that is rebuilt.
    PartialAgain(u32, u32),
    /// The mark of a logical zone.
    Mark(u32),
    /// Write pointers of zones.
    WritePointers,
    /// A logical zone is reset.
    Reset(u32),
    /// Notice that a member failed, or was rebuilt.
    Members,
    /// The superblock of a zone that takes over.
    Superblock,
    /// State of the array at a mount.
    Mounted,
}

/// The zones of one drive.
#[derive(Debug, Default)]
pub struct Log {
    /// The one that is written.
    pub place: usize,
    /// Blocks of it that were handed to the drive.
    pub appended: u32,
    waiting: VecDeque<(Purpose, Vec<Frame>)>,
    pub(super) in_flight: [u32; LOG_ZONES as usize],
    /// Open stripes, by logical zone, whose partial parity lies there.
    live: [BTreeSet<(u32, u32)>; LOG_ZONES as usize],
    /// Blocks of the other one, which is to be emptied.
    pub other: u32,
    /// Appends that must be durable before the other one goes.
    pub debts: u32,
    is_resetting: bool,
}

impl Log {
    /// Nothing waits or is under way.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.in_flight == [0, 0] && !self.is_resetting
    }

    /// Blocks of a zone.
    #[must_use]
    pub fn appended_at(&self, place: usize) -> u32 {
        if place == self.place { self.appended } else { self.other }
    }
}

impl Zraid {
    /// Hands a record to a drive, now or when there is room.
    pub(super) fn append(&mut self, drive: usize, purpose: Purpose, frames: Vec<Frame>, fx: &mut Effects) {
        self.logs[drive].waiting.push_back((purpose, frames));
        self.pump_log(drive, fx);
    }

    /// A block whose metadata is a record.
    pub(super) fn sealed(&mut self, record: Record) -> Frame {
        let mut frame = self.frames.take();
        frame.data.fill(0);
        record.seal(self.tag, &mut frame);
        frame
    }

    /// The superblock of a drive.
    pub(super) fn superblock(&mut self, drive: usize) -> Frame {
        let mut frame = self.frames.take();
        self.members.superblock(Scheme::Zraid, self.config, drive).seal(&mut frame);
        frame
    }

    /// Blocks that say of each logical zone that is used how far it was flushed, or that it is being reset.
    pub(super) fn positions(&mut self) -> Vec<Frame> {
        let epoch = self.members.epoch;
        let record_of = |(number, zone): (u32, &LogicalZone)| match zone.state {
            // The log that says so may be erased before the zone is.
            _ if zone.reset.is_some() => Some(Record::of_reset(epoch, number, zone.generation)),
            State::Empty | State::Full => None,
            State::Opening(_) | State::Open => Some(self.record_of(number, zone.logged)),
        };
        let records: Vec<Record> = (0..).zip(&self.zones).filter_map(record_of).collect();
        self.header_blocks(&records)
    }

    /// Blocks of records.
    pub(super) fn header_blocks(&mut self, records: &[Record]) -> Vec<Frame> {
        let mut blocks = Vec::new();
        for some in records.chunks(RECORDS_MAX) {
            let mut frame = self.frames.take();
            frame.data.fill(0);
            for (record, into) in some.iter().zip(frame.data.chunks_mut(OOB_BYTES)) {
                record.encode(self.tag, into);
            }
            let header = Record::of_array(record::Kind::Header, self.members.epoch);
            Record { coverage: count(some.len()), ..header }.seal(self.tag, &mut frame);
            blocks.push(frame);
        }
        blocks
    }

    fn record_of(&self, zone: u32, position: u32) -> Record {
        let generation = self.zones[zone as usize].generation;
        let kind = if position == 0 { record::Kind::Mark } else { record::Kind::WritePointer };
        Record { zone, generation, coverage: position, ..Record::of_array(kind, self.members.epoch) }
    }

    fn pump_log(&mut self, drive: usize, fx: &mut Effects) {
        self.copy_partials(drive);
        while let Some((_, frames)) = self.logs[drive].waiting.front() {
            let blocks = count(frames.len());
            let log = &mut self.logs[drive];
            if log.appended + blocks > self.limits.capacity {
                if log.other > 0 {
                    self.settle_log(drive, fx);
                    return;
                }
                self.replace_log_zone(drive);
                continue;
            }
            let (purpose, frames) = self.logs[drive].waiting.pop_front().expect("it was looked at");
            let log = &mut self.logs[drive];
            let place = log.place;
            log.appended += blocks;
            log.in_flight[place] += 1;
            if let Purpose::Partial(zone, Part { stripe, .. }) | Purpose::PartialAgain(zone, stripe) = purpose
            {
                log.live[place].insert((zone, stripe));
                self.counters.partial_logged += u64::from(blocks);
            }
            self.counters.logged += u64::from(blocks);
            let zone = logical_zones(&self.config) + count(place);
            self.command(drive, zone, Sent::Log { purpose, place }, Op::Append { frames }, fx);
        }
    }

    /// The other zone takes over: the first it says is who the members are and how far zones were flushed.
    pub(super) fn replace_log_zone(&mut self, drive: usize) {
        let log = &mut self.logs[drive];
        assert!(log.other == 0, "the other zone is empty");
        (log.place, log.other, log.appended) = (1 - log.place, log.appended, 0);
        self.counters.log_zones_replaced += 1;
        // So that a mount knows which of two zones is the newer one.
        self.members.superblock_sequence += 1;
        let mut positions = self.positions();
        while let Some(frame) = positions.pop() {
            self.front(drive, frame);
        }
        let superblock = self.superblock(drive);
        self.front(drive, superblock);
    }

    fn front(&mut self, drive: usize, frame: Frame) {
        self.logs[drive].debts += 1;
        self.logs[drive].waiting.push_front((Purpose::Superblock, vec![frame]));
    }

    /// Partial parity that holds up an old zone is written once more when the new one is half full.
    fn copy_partials(&mut self, drive: usize) {
        let log = &mut self.logs[drive];
        if log.other == 0 || log.appended < self.limits.capacity / 2 {
            return;
        }
        let (old, new) = (1 - log.place, log.place);
        for (zone, stripe) in std::mem::take(&mut log.live[old]) {
            for part in self.logged_parts(drive, zone, stripe) {
                let mut frame = self.frames.take();
                self.fill(zone, part, part.row, &mut frame);
                let log = &mut self.logs[drive];
                log.live[new].insert((zone, stripe));
                log.debts += 1;
                log.waiting.push_front((Purpose::Copy, vec![frame]));
            }
        }
    }

    /// Blocks of partial parity of a stripe that are, or will be, in the log of a drive.
    pub(super) fn logged_parts(&self, drive: usize, zone: u32, stripe: u32) -> Vec<Part> {
        let Some(open) = self.zones[zone as usize].stripe(stripe) else { return Vec::new() };
        let mut parts = Vec::new();
        for piece in 0..self.map.data_count() {
            for row in 0..self.map.chunk_blocks() {
                let part = Part { stripe, kind: Kind::Partial(piece), row, rows: 1 };
                let at = self.map.within(piece, row) as usize;
                let is_there = matches!(open.partial[at], Partial::Sent | Partial::Done);
                if is_there && self.drive_of(zone, part) == drive {
                    parts.push(part);
                }
            }
        }
        parts
    }

    /// A stripe is whole: nobody needs its partial parity.
    pub(super) fn forget_partials(&mut self, zone: u32, stripe: u32, fx: &mut Effects) {
        for drive in 0..self.config.members {
            let mut held = false;
            for live in &mut self.logs[drive].live {
                held |= live.remove(&(zone, stripe));
            }
            if held {
                self.settle_log(drive, fx);
            }
        }
    }

    /// Empties the zone that was replaced, when it may go.
    pub(super) fn settle_log(&mut self, drive: usize, fx: &mut Effects) {
        let log = &mut self.logs[drive];
        let other = 1 - log.place;
        let is_free = log.in_flight[other] == 0 && log.live[other].is_empty() && log.debts == 0;
        if log.other > 0 && is_free && !log.is_resetting {
            log.is_resetting = true;
            let zone = logical_zones(&self.config) + count(other);
            self.command(drive, zone, Sent::LogReset, Op::Reset, fx);
        }
    }

    pub(super) fn on_log_reset(&mut self, drive: usize, fx: &mut Effects) {
        let log = &mut self.logs[drive];
        (log.other, log.is_resetting) = (0, false);
        self.pump_log(drive, fx);
    }

    /// The block that tells a zone that is used from an empty one.
    pub(super) fn mark(&mut self, zone: u32, fx: &mut Effects) {
        let drive = (self.map.drive_of(zone, 0, 0) + 2) % self.config.members;
        let mark = self.sealed(self.record_of(zone, 0));
        self.append(drive, Purpose::Mark(zone), vec![mark], fx);
    }

    /// Logs how far each zone is written where its write pointers would not tell, if no log says so. Returns how many records that takes.
    pub(super) fn log_write_pointers(&mut self, fx: &mut Effects) -> u32 {
        let mut records = 0;
        for number in 0..logical_zones(&self.config) {
            let zone = &self.zones[number as usize];
            let position = zone.acked_position(&self.map);
            if zone.reset.is_some() || zone.is_told(&self.map, position) || zone.logged == position {
                continue;
            }
            self.zones[number as usize].logged = position;
            let spot = self.map.spot(position);
            let first = self.map.drive_of(number, spot.stripe, spot.piece);
            for copy in 1..=COPIES {
                let record = self.sealed(self.record_of(number, position));
                let drive = (first + copy) % self.config.members;
                self.append(drive, Purpose::WritePointers, vec![record], fx);
                records += 1;
            }
        }
        records
    }
}
