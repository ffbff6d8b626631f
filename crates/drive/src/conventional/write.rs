//! Writes and appends: data with the identities of units that get full, and the journal for the others.

use super::ConventionalDrive;
use super::core::{ConventionalCore, Task, Waiter, Work};
use super::layout::{UNIT_BLOCKS, unit_of};
use crate::answer::{Asked, block_count};
use crate::units::identity::{Identity, Owner, Unit};
use crate::units::life::Life;
use crate::units::record::{Entry, low_half};
use base::checksum::crc32c;
use base::frame::Frame;
use base::time::Instant;
use base::units::ZoneIndex;
use block::device::{self as block_device, BlockDevice};
use zone::device::{Status, ZoneState};

/// Full zones that the table does not call full yet; with more the device is flushed so that it can.
const UNSEALED_MAX: usize = 4;
/// Blocks of a zone that are written and not durable; with more the device is flushed: their identities are in memory,
/// and after a crash they are read. 16 MiB.
const UNDURABLE_MAX: u32 = 4096;

/// Write at work.
#[derive(Debug)]
pub(super) struct Write {
    /// First block.
    offset: u32,
    blocks: u32,
    /// Frames of the host, when they are back.
    frames: Vec<Frame>,
    is_written: bool,
    /// Record that it waits for.
    record: Option<u64>,
    failure: Option<Status>,
}

impl Write {
    /// Frames of the host, others where the device has them still.
    pub(super) fn into_frames(mut self) -> Vec<Frame> {
        self.frames.resize_with(self.blocks as usize, Frame::zeroed);
        self.frames
    }

    /// Units that this write made full.
    fn full_units(&self) -> std::ops::Range<u32> {
        unit_of(self.offset)..unit_of(self.offset + self.blocks)
    }
}

/// True of a place of a zone that has identities, counted from the zone's first place.
pub(super) fn is_identity(place: u32) -> bool {
    place % (UNIT_BLOCKS + 1) == UNIT_BLOCKS
}

/// Place of a block, counted from the zone's first place.
pub(super) fn place_in_zone(offset: u32) -> u32 {
    offset + unit_of(offset)
}

/// Takes the frames of identities out of those of a transfer that began at a block.
pub(super) fn take_identities(offset: u32, frames: Vec<Frame>, spare: &mut Vec<Frame>) -> Vec<Frame> {
    let mut blocks = Vec::with_capacity(frames.len());
    for (place, frame) in (place_in_zone(offset)..).zip(frames) {
        if is_identity(place) { spare.push(frame) } else { blocks.push(frame) }
    }
    blocks
}

impl<D: BlockDevice> ConventionalCore<D> {
    /// Begins a write at an offset, or an append.
    pub(super) fn begin_write(
        &mut self,
        now: Instant,
        asked: Asked,
        offset: Option<u32>,
        frames: Vec<Frame>,
    ) {
        let (zone, blocks) = (asked.zone, block_count(&frames));
        let admitted = match offset {
            Some(offset) => self.rules.write(zone, offset, blocks).map(|()| offset),
            None => self.rules.append(zone, blocks),
        };
        let offset = match admitted {
            Ok(offset) => offset,
            Err(status) => return self.done.push(asked.done(Err(status), frames)),
        };
        self.media.identities.count_host(blocks);
        let begin_record = self.begin_life(zone);
        let life = self.media.lives.get_mut(&zone).expect("a life that was begun");
        assert_eq!(life.end(), offset, "a write at the write pointer of zone {}", zone.0);
        let mut run = Vec::with_capacity(frames.len() + 2);
        let end = offset + blocks;
        // Identities of units that are not full when the write is through go to the journal.
        let journaled = offset.max(unit_of(end) * UNIT_BLOCKS);
        let mut record = begin_record;
        for (at, frame) in (offset..).zip(frames) {
            let identity = Identity { crc: crc32c(&frame.data), oob: frame.oob };
            life.push(identity);
            run.push(frame);
            if at >= journaled {
                let entry = Entry::Block { zone, offset: at, stamp: low_half(life.stamp), identity };
                let number = self.media.journal.push(entry);
                life.note_record(number, at);
                record = Some(number);
            }
            if (at + 1) % UNIT_BLOCKS == 0 {
                let unit = unit_of(at);
                let identities = life.unit(unit).expect("a unit that is being written");
                let mut frame = self.spare.pop().unwrap_or_else(Frame::zeroed);
                let owner = Owner { uuid: self.label.uuid, zone, unit };
                Unit::of(&identities, life.stamp).encode(owner, &mut frame.data);
                run.push(frame);
            }
        }
        let asked = Asked { offset, ..asked };
        let write = Write { offset, blocks, frames: Vec::new(), is_written: false, record, failure: None };
        let slot = self.tasks.insert(Task { asked, since: now, work: Work::Write(write) });
        life.begin_write(slot, blocks);
        let place = self.label.layout.block_place(zone, offset);
        self.write_place(now, Waiter::Data(slot), place, run, false);
    }

    /// Begins the life of a zone that is written for the first time since it was empty; returns the record that says so.
    fn begin_life(&mut self, zone: ZoneIndex) -> Option<u64> {
        if self.media.lives.contains_key(&zone) {
            return None;
        }
        let stamp = self.media.table.entry(zone).birth.max(self.media.opening);
        let record = self.media.journal.push(Entry::Mark { zone, durable: 0, stamp });
        self.media.lives.insert(zone, Life::new(zone, stamp, 0, Vec::new(), record));
        Some(record)
    }

    /// More may be durable: zones get marks, full zones are sealed, and old records are carried forward.
    pub(super) fn after_durable(&mut self, now: Instant) {
        let media = &mut self.media;
        if !self.geometry.volatile_cache {
            media.journal.note_durable(media.journal.completed());
        }
        let (durable, old) = (media.journal.durable(), media.journal.old());
        let mut full = Vec::new();
        for life in media.lives.values_mut() {
            if !self.geometry.volatile_cache {
                life.note_durable(life.completed());
            }
            life.note_journal(durable);
            let is_full = life.durable() == self.label.layout.capacity();
            if is_full && !life.is_over {
                life.is_over = true;
                full.push(life.zone);
            } else if !life.is_over && life.oldest_record() < old && life.can_be_carried() {
                life.repeat(|entry| media.journal.push(entry));
            } else if !life.is_over && life.wants_mark() {
                life.mark(|entry| media.journal.push(entry));
            }
        }
        for zone in full {
            self.seal(now, zone);
        }
        self.flush_when_needed(now);
    }

    /// Flushes the device when records or zones wait for that.
    pub(super) fn flush_when_needed(&mut self, now: Instant) {
        let media = &mut self.media;
        if !self.geometry.volatile_cache || media.flush.is_some() || !media.is_unflushed {
            return;
        }
        let capacity = self.label.layout.capacity();
        let unsealed =
            media.lives.values().filter(|life| life.completed() == capacity && !life.is_over).count();
        let is_long = media.lives.values().any(|life| life.undurable() >= UNDURABLE_MAX);
        let is_old = media.oldest_record().is_some_and(|record| record < media.journal.old());
        if unsealed >= UNSEALED_MAX || is_old || is_long || !self.waiting_for_place.is_empty() {
            media.is_unflushed = false;
            media.flush = Some(media.what_is_completed());
            self.ask(now, Waiter::Flush, block_device::Op::Flush);
        }
    }
}

impl<D: BlockDevice> ConventionalDrive<D> {
    /// The data of a write came back.
    pub(super) fn take_written(&mut self, now: Instant, slot: u32, status: Status, frames: Vec<Frame>) {
        let task = self.core.tasks.get_mut(slot);
        let zone = task.asked.zone;
        let Work::Write(write) = &mut task.work else { unreachable!("a write") };
        write.frames = take_identities(write.offset, frames, &mut self.core.spare);
        write.is_written = true;
        if status != Status::Success {
            write.failure = Some(status);
        }
        let life = &self.core.media.lives[&zone];
        for unit in write.full_units() {
            if let Some(identities) = life.unit(unit) {
                self.core.media.identities.keep((zone, unit), Unit::of(&identities, life.stamp));
            }
        }
        self.core.media.is_unflushed = true;
        self.answer_writes(now, zone);
        self.core.after_durable(now);
    }

    /// A record of the journal is written, or cannot be.
    pub(super) fn after_write(&mut self, now: Instant) {
        let zones: Vec<ZoneIndex> = self
            .core
            .media
            .lives
            .values()
            .filter(|life| !life.writes.is_empty())
            .map(|life| life.zone)
            .collect();
        for zone in zones {
            self.answer_writes(now, zone);
        }
        self.core.after_durable(now);
    }

    /// Answers the writes of a zone that are through, in their order.
    fn answer_writes(&mut self, now: Instant, zone: ZoneIndex) {
        let journal = &self.core.media.journal;
        let (completed, has_journal_failed) = (journal.completed(), journal.has_failed());
        while let Some(life) = self.core.media.lives.get_mut(&zone)
            && let Some(first) = life.writes.front().copied()
        {
            let Work::Write(write) = &mut self.core.tasks.get_mut(first.slot).work else {
                unreachable!("a write")
            };
            let is_recorded = write.record.is_none_or(|record| record <= completed);
            if !write.is_written || (!is_recorded && !has_journal_failed) {
                return;
            }
            let journal_failure = (!is_recorded).then_some(Status::WriteFault);
            // Nothing that follows a write that failed would be found.
            let later = life.has_failed.then_some(Status::WriteFault);
            let failure = write.failure.or(journal_failure).or(later);
            life.has_failed |= failure.is_some();
            life.end_write();
            let is_alone = life.writes.is_empty();
            if failure.is_some() && self.core.rules.zone(zone).state != ZoneState::ReadOnly {
                self.core.rules.degrade(zone, ZoneState::ReadOnly);
            }
            let Task { asked, work, .. } = self.core.tasks.remove(first.slot);
            self.core.done.push(asked.done(failure.map_or(Ok(()), Err), work.into_frames()));
            if is_alone {
                self.let_pass(now, zone);
            }
        }
    }

    /// Writes the next record of the journal, if there is one.
    pub(super) fn write_journal(&mut self, now: Instant) {
        let media = &mut self.core.media;
        let tail = media.oldest_record();
        let is_stuck = tail.is_some_and(|tail| media.journal.is_full(tail))
            && media.lives.values().any(|life| life.has_failed);
        if is_stuck && !media.journal.has_failed() {
            // What a zone needs whose write failed cannot be carried forward.
            media.journal.give_up();
            self.after_write(now);
            return;
        }
        let Some(record) = media.journal.begin(tail, media.stamp, media.opening) else { return };
        let mut frame = self.core.spare.pop().unwrap_or_else(Frame::zeroed);
        record.encode(self.core.label.uuid, &mut frame.data);
        let place = self.core.label.layout.record_place(record.sequence);
        self.core.write_place(now, Waiter::Record, place, vec![frame], false);
    }
}
