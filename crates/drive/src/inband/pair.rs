//! The two zones of a journal that lies on a device of its own, one without zones: a partition, a disk, a raw file.
//!
//! ```text
//!   write ──> seal ──> device ──> answer;  of the first block of a zone only when it is durable
//!   reset ──> table with the zone's next generation: the older copy, durable, then the other ──> answer
//!   read ───> device ──> blocks of another life are zeros
//!   opened: of the copies of the table the newer; of each zone, the pointer is behind the last block of its life
//! ```
//! For the journal these are zones like those of the drive. What differs: a cache may lose any blocks, not only the last ones, so there may be
//! zeros below the pointer; there the journal knows records that were never answered for.

use super::header::Label;
use super::layout::JOURNAL_ZONES;
use super::recovery::Hex;
use super::table::{COPIES, Table};
use crate::answer::{Asked, block_count, frames_of, status_of};
use crate::conventional::{CarryOut, Direct, Source};
use crate::units::Trouble;
use ::block::device::{self as block_device, BlockDevice, FRAME_SECTORS};
use base::frame::Frame;
use base::slab::Slab;
use base::time::Instant;
use base::units::ZoneIndex;
use std::collections::VecDeque;
use zone::device::{Command, Completion, Geometry, Op, Status, ZoneDescriptor, ZoneState};
use zone::rules::{Zone, ZoneTable};

/// Blocks that are read at a time when a journal is looked at.
const READ_BLOCKS: u32 = 64;

/// Reason why a journal that lies apart cannot be used. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// There is none.
    #[error("no identity journal of this drive is there")]
    NotThere,
    /// It is that of another drive.
    #[error("the identity journal is that of drive {0}")]
    OtherDrive(Hex),
    /// The drive's labels and the journal say different sizes.
    #[error("the identity journal has zones of {has} blocks of 4 KiB, the drive says {said}")]
    OtherSize {
        /// Blocks of a zone by the journal.
        has: u32,
        /// The same by the drive.
        said: u32,
    },
    /// The device has become smaller.
    #[error("the device has {has} blocks of 4 KiB, the identity journal takes {said}")]
    Shrunk {
        /// Blocks of the device.
        has: u64,
        /// Blocks of the journal.
        said: u64,
    },
    /// The device does not answer, or answers with errors.
    #[error("the device of the identity journal is gone or fails")]
    Gone,
}

impl From<Trouble> for PairError {
    fn from(_: Trouble) -> PairError {
        PairError::Gone
    }
}

/// Journal as it was found on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundPair {
    /// Its table.
    pub table: Table,
    /// Write number of each copy; 0 of one that cannot be used.
    copies: [u64; COPIES as usize],
    /// Blocks of each zone that are written.
    pub pointers: [u32; JOURNAL_ZONES as usize],
}

fn read_one(source: &mut dyn Source, place: u64) -> Result<Option<Frame>, PairError> {
    let mut frames = vec![Frame::zeroed()];
    match source.read(place, &mut frames) {
        Ok(()) => Ok(frames.pop()),
        Err(Trouble::Unreadable) => Ok(None),
        Err(Trouble::Gone) => Err(PairError::Gone),
    }
}

/// Tables of the journal on a device, if there is one: the wanted one, or the newest there is.
///
/// # Errors
/// When there is none.
pub fn find_table(source: &mut dyn Source, wanted: Option<[u8; 16]>) -> Result<Table, PairError> {
    find_copies(source, wanted).map(|(table, _)| table)
}

fn find_copies(source: &mut dyn Source, wanted: Option<[u8; 16]>) -> Result<(Table, [u64; 2]), PairError> {
    let mut copies: [Option<Table>; COPIES as usize] = [None; 2];
    for (place, copy) in (0..).zip(&mut copies) {
        if place < source.blocks() {
            let table = read_one(source, place)?.and_then(|frame| Table::decode(&frame.data));
            *copy = table.filter(|table| wanted.is_none_or(|wanted| table.uuid == wanted));
        }
    }
    let newest = copies.iter().flatten().max_by_key(|table| table.sequence).ok_or(PairError::NotThere)?;
    Ok((*newest, copies.map(|copy| copy.map_or(0, |table| table.sequence))))
}

/// Finds the journal that a drive needs, and how far its zones were written.
///
/// # Errors
/// When it is not there, or cannot be read.
pub fn look(source: &mut dyn Source, label: &Label) -> Result<FoundPair, PairError> {
    let (table, copies) = find_copies(source, Some(label.journal.ok_or(PairError::NotThere)?))?;
    if table.drive != label.uuid {
        return Err(PairError::OtherDrive(Hex(table.drive)));
    }
    let said = label.layout.journal_zone_places();
    if table.places != said {
        return Err(PairError::OtherSize { has: table.places, said });
    }
    if table.blocks() > source.blocks() {
        return Err(PairError::Shrunk { has: source.blocks(), said: table.blocks() });
    }
    let mut pointers = [0; JOURNAL_ZONES as usize];
    for (zone, pointer) in (0..).zip(&mut pointers) {
        *pointer = find_pointer(source, &table, zone)?;
    }
    Ok(FoundPair { table, copies, pointers })
}

/// Finds the journal that a drive needs, and takes its device over. The table that was found is durable then, in both copies: one that becomes
/// unreadable does not take it back under what is written next. Records are flushed by the opening of the drive.
///
/// # Errors
/// As [`look`], or when the device fails.
pub fn open<B: BlockDevice>(
    mut disk: B,
    label: &Label,
    carry_out: CarryOut<'_, B>,
) -> Result<Pair<B>, PairError> {
    let mut direct = Direct { device: &mut disk, carry_out };
    let mut found = look(&mut direct, label)?;
    let FoundPair { table, copies, .. } = &mut found;
    for (place, copy) in (0..).zip(copies).filter(|(_, copy)| **copy != table.sequence) {
        // One that cannot be written is the one that the next reset tries first.
        *copy = direct.write(place, table.encode(), true).map_or(0, |()| table.sequence);
    }
    Ok(Pair::new(disk, &found))
}

/// Place behind the last block of a zone that is of its life. One that cannot be read may be.
fn find_pointer(source: &mut dyn Source, table: &Table, zone: u32) -> Result<u32, PairError> {
    let mut end = table.places;
    while end > 0 {
        let first = end.saturating_sub(READ_BLOCKS);
        let mut frames: Vec<Frame> = (first..end).map(|_| Frame::zeroed()).collect();
        let is_read = match source.read(table.block_of(zone, first), &mut frames) {
            Ok(()) => true,
            Err(Trouble::Gone) => return Err(PairError::Gone),
            Err(Trouble::Unreadable) => false,
        };
        for offset in (first..end).rev() {
            let frame = match is_read {
                true => Some(frames.pop().ok_or(PairError::Gone)?),
                false => read_one(source, table.block_of(zone, offset))?,
            };
            if frame.is_none_or(|mut frame| table.unseal(zone, offset, &mut frame.data)) {
                return Ok(offset + 1);
            }
        }
        end = first;
    }
    Ok(0)
}

impl FoundPair {
    /// A journal that is to be made, whatever is on its device: both zones are to be reset.
    #[must_use]
    pub fn to_make(uuid: [u8; 16], drive: [u8; 16], places: u32) -> FoundPair {
        let table = Table { uuid, drive, places, sequence: 0, generations: [0; 2] };
        FoundPair { table, copies: [0; 2], pointers: [0; 2] }
    }

    /// A zone as hosts see it. One that is full says so by its pointer: it has not the size of the drive's zones.
    #[must_use]
    pub fn descriptor(&self, zone: u32, of_drive: &ZoneDescriptor) -> ZoneDescriptor {
        let pointer = self.pointers[zone as usize];
        let state = if pointer == 0 { ZoneState::Empty } else { ZoneState::Closed };
        ZoneDescriptor { state, write_pointer: pointer, ..*of_drive }
    }

    /// Reads blocks of a zone; those of another life are zeros.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn read(
        &self,
        source: &mut dyn Source,
        zone: u32,
        offset: u32,
        frames: &mut Vec<Frame>,
    ) -> Result<(), Trouble> {
        if u64::from(offset) + frames.len() as u64 > u64::from(self.table.places) {
            return Err(Trouble::Unreadable);
        }
        source.read(self.table.block_of(zone, offset), frames)?;
        for (offset, frame) in (offset..).zip(frames) {
            self.table.unseal(zone, offset, &mut frame.data);
        }
        Ok(())
    }
}

/// Work of the device.
#[derive(Clone, Copy, Debug)]
enum Work {
    Read,
    Write,
    Flush,
    /// A copy of the table for a reset, and how many follow.
    Table {
        copy: usize,
        left: u32,
    },
}

#[derive(Debug)]
struct Pending {
    asked: Asked,
    work: Work,
}

/// See the module.
#[derive(Debug)]
pub struct Pair<B> {
    disk: B,
    table: Table,
    copies: [u64; COPIES as usize],
    rules: ZoneTable,
    pending: Slab<Pending>,
    /// Resets that wait for the one that is at work: the table is written by one at a time.
    resets: VecDeque<Asked>,
    is_resetting: bool,
    pub(super) done: Vec<Completion>,
    answers: Vec<block_device::Completion>,
}

fn sector_of(block: u64) -> u64 {
    block * FRAME_SECTORS
}

impl<B: BlockDevice> Pair<B> {
    /// The journal that was found on this device.
    pub fn new(disk: B, found: &FoundPair) -> Pair<B> {
        let FoundPair { table, copies, pointers } = *found;
        let geometry = Geometry {
            zones: JOURNAL_ZONES,
            zone_size_blocks: table.places,
            zone_capacity_blocks: table.places,
            open_zones_max: JOURNAL_ZONES,
            active_zones_max: JOURNAL_ZONES,
            append_blocks_max: 0,
            transfer_blocks_max: table.places,
            volatile_cache: disk.geometry().volatile_cache,
            areas: None,
        };
        let zones = pointers.map(|pointer| match pointer {
            0 => Zone::new(ZoneState::Empty, 0),
            _ if pointer == table.places => Zone::new(ZoneState::Full, pointer),
            _ => Zone::new(ZoneState::Closed, pointer),
        });
        Pair {
            disk,
            table,
            copies,
            rules: ZoneTable::from_zones(geometry, zones.to_vec()),
            pending: Slab::default(),
            resets: VecDeque::new(),
            is_resetting: false,
            done: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// The device, which is not that of a journal any more.
    pub fn into_disk(self) -> B {
        self.disk
    }

    /// The device.
    pub fn disk(&self) -> &B {
        &self.disk
    }

    /// The device, for what is asked of it beside commands.
    pub fn disk_mut(&mut self) -> &mut B {
        &mut self.disk
    }

    /// Table of the journal.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// A zone as hosts see it, as [`FoundPair::descriptor`].
    pub(super) fn descriptor(&self, zone: ZoneIndex) -> ZoneDescriptor {
        let Zone { state, write_pointer, .. } = self.rules.zone(zone);
        let state = if state == ZoneState::Empty { state } else { ZoneState::Closed };
        ZoneDescriptor { state, write_pointer, capacity: self.table.places, has_area: false }
    }

    fn ask(&mut self, now: Instant, asked: Asked, work: Work, op: block_device::Op) {
        let slot = self.pending.insert(Pending { asked, work });
        let token = block_device::Token(u64::from(slot));
        self.disk.submit(now, block_device::Command { token, op });
    }

    /// Takes a command of one of the zones, or a flush.
    pub(super) fn submit(&mut self, now: Instant, command: Command) {
        let Command { token, zone, op } = command;
        let asked = Asked::of(token, zone, &op);
        match op {
            Op::Read { offset, frames } => match self.rules.read(zone, offset, block_count(&frames)) {
                Ok(()) => {
                    let sector = sector_of(self.table.block_of(zone.0, offset));
                    self.ask(now, asked, Work::Read, block_device::Op::Read { sector, frames });
                }
                Err(status) => self.done.push(asked.done(Err(status), frames)),
            },
            Op::Write { offset, mut frames } => match self.rules.write(zone, offset, block_count(&frames)) {
                Ok(()) => {
                    for (offset, frame) in (offset..).zip(&mut frames) {
                        self.table.seal(zone.0, offset, &mut frame.data);
                    }
                    let sector = sector_of(self.table.block_of(zone.0, offset));
                    // No record is there without the header of its zone.
                    let durable = offset == 0;
                    self.ask(now, asked, Work::Write, block_device::Op::Write { sector, frames, durable });
                }
                Err(status) => self.done.push(asked.done(Err(status), frames)),
            },
            Op::Flush => self.ask(now, asked, Work::Flush, block_device::Op::Flush),
            Op::Reset => {
                self.resets.push_back(asked);
                self.begin_reset(now);
            }
            Op::Report { .. } => {
                let report = vec![self.descriptor(zone)];
                self.done.push(asked.report(Ok(report)));
            }
            op => self.done.push(asked.done(Err(Status::InvalidZoneOperation), frames_of(op))),
        }
    }

    /// Begins the next reset, if none is at work.
    fn begin_reset(&mut self, now: Instant) {
        if self.is_resetting {
            return;
        }
        let Some(asked) = self.resets.pop_front() else { return };
        self.is_resetting = true;
        self.table.sequence += 1;
        self.table.generations[asked.zone.index()] += 1;
        self.write_table(now, asked, 1);
    }

    /// Writes the older copy of the table.
    fn write_table(&mut self, now: Instant, asked: Asked, left: u32) {
        let copy = usize::from(self.copies[1] < self.copies[0]);
        // Until it is there nobody knows what is: it is the older one.
        self.copies[copy] = 0;
        let mut frame = Frame::zeroed();
        frame.data = self.table.encode();
        let sector = sector_of(u64::from(copy > 0));
        let op = block_device::Op::Write { sector, frames: vec![frame], durable: true };
        self.ask(now, asked, Work::Table { copy, left }, op);
    }

    fn take_answer(&mut self, now: Instant, answer: block_device::Completion) {
        let block_device::Completion { token, status, mut frames } = answer;
        let slot = u32::try_from(token.0).expect("tokens are slots");
        let Pending { asked, work } = self.pending.remove(slot);
        let status = status_of(status);
        match work {
            Work::Read => {
                for (offset, frame) in (asked.offset..).zip(&mut frames) {
                    self.table.unseal(asked.zone.0, offset, &mut frame.data);
                }
            }
            Work::Write | Work::Flush => {}
            Work::Table { copy, left } => return self.take_table(now, asked, (copy, left), status),
        }
        self.done.push(asked.done(if status == Status::Success { Ok(()) } else { Err(status) }, frames));
    }

    /// A copy of the table is written, or is not.
    fn take_table(&mut self, now: Instant, asked: Asked, (copy, left): (usize, u32), status: Status) {
        if status == Status::Success {
            self.copies[copy] = self.table.sequence;
            if left > 0 {
                return self.write_table(now, asked, left - 1);
            }
        }
        self.is_resetting = false;
        let outcome = if status == Status::Success { self.rules.reset(asked.zone) } else { Err(status) };
        self.done.push(asked.plain(outcome));
        self.begin_reset(now);
    }

    /// Takes what the device has answered; `done` has what that comes to.
    pub(super) fn poll(&mut self, now: Instant) {
        let mut answers = std::mem::take(&mut self.answers);
        self.disk.poll(now, &mut answers);
        for answer in answers.drain(..) {
            self.take_answer(now, answer);
        }
        self.answers = answers;
    }

    /// Time of the next answer, on devices that know.
    pub(super) fn next_event(&self) -> Option<Instant> {
        if self.done.is_empty() { self.disk.next_event() } else { Some(Instant(0)) }
    }
}
