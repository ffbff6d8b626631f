//! Writes and appends: data with the identities of units that get full, and the journal for the others.

use super::InbandDrive;
use super::core::{InbandCore, Task, Waiter, Work};
use crate::answer::{Asked, block_count};
use crate::units::identity::{Identity, Owner, Unit};
use crate::units::life::Life;
use crate::units::record::{Entry, Record};
use crate::units::unit_of;
use base::checksum::crc32c;
use base::frame::Frame;
use base::time::Instant;
use base::units::{BLOCK_BYTES, ZoneIndex};
use std::collections::VecDeque;
use zone::device::{Op, Status, ZoneState, ZonedDevice};

/// Full zones that may not be durable; with more the device is flushed.
const UNDURABLE_ZONES_MAX: usize = 4;
/// Blocks of a zone that are written and not durable; with more the device is flushed: their identities are in memory.
const UNDURABLE_MAX: u32 = 4096;

/// Writes of a zone that wait for those in flight, one command at a time: the kernel and the drive may reorder commands. What gathers
/// meanwhile shares the next.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Writes of the command in flight, with the frames of each.
    in_flight: Vec<(u32, usize)>,
    /// A write failed: nobody knows where the next one goes.
    has_failed: bool,
    waiting: VecDeque<(u32, u32, Vec<Frame>)>,
}

/// Write at work.
#[derive(Debug)]
pub(super) struct Write {
    /// First block.
    offset: u32,
    blocks: u32,
    /// Frames of the host, when they are back.
    frames: Vec<Frame>,
    is_written: bool,
    /// Record of the mark that begins the zone's life, if it waits for that.
    mark: Option<u64>,
    /// Record with the last of its entries, if it has some.
    pub(super) record: Option<u64>,
    failure: Option<Status>,
}

impl Write {
    /// Frames of the host, others where the device has them still.
    pub(super) fn into_frames(mut self) -> Vec<Frame> {
        self.frames.resize_with(self.blocks as usize, Frame::zeroed);
        self.frames
    }
}

impl<D: ZonedDevice> InbandCore<D> {
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
        let layout = self.label.layout;
        self.media.identities.count_host(blocks);
        let begin_record = self.begin_life(zone);
        let life = self.media.lives.get_mut(&zone).expect("a life that was begun");
        assert_eq!(life.end(), offset, "a write at the write pointer of zone {}", zone.0);
        let mut run = Vec::with_capacity(frames.len() + 3);
        for (at, frame) in (offset..).zip(frames) {
            let identity = Identity { crc: crc32c(&frame.data), oob: frame.oob };
            life.push(identity);
            run.push(frame);
            if layout.is_unit_end(at + 1) {
                let unit = unit_of(at);
                let identities = life.unit(unit).expect("a unit that is being written");
                // The last unit may have a blank place before its identities.
                run.resize_with(
                    run.len() + (layout.identity_place(unit) - layout.place(at)) as usize,
                    || {
                        let mut frame = self.spare.pop().unwrap_or_else(Frame::zeroed);
                        frame.data = [0; BLOCK_BYTES];
                        frame
                    },
                );
                let owner = Owner { uuid: self.label.uuid, zone, unit };
                let frame = run.last_mut().expect("a place for the identities");
                Unit::of(&identities, life.stamp).encode(owner, &mut frame.data);
            }
        }
        let asked = Asked { offset, ..asked };
        let frames = Vec::new();
        let (is_written, record, failure) = (false, None, None);
        let write = Write { offset, blocks, frames, is_written, mark: begin_record, record, failure };
        let slot = self.tasks.insert(Task { asked, work: Work::Write(write) });
        life.begin_write(slot, blocks);
        self.media.journal.note_begun(blocks);
        let lane = self.lanes.entry(zone).or_default();
        lane.waiting.push_back((slot, layout.place(offset), run));
        self.hold(now);
    }

    /// Something may have come that leaves when the turn ends.
    pub(super) fn hold(&mut self, now: Instant) {
        self.held_since.get_or_insert(now);
    }

    /// Begins the life of a zone that is written for the first time since it was empty; returns the record that says so.
    fn begin_life(&mut self, zone: ZoneIndex) -> Option<u64> {
        if self.media.lives.contains_key(&zone) {
            return None;
        }
        let stamp = self.media.births[zone.index()].unwrap_or(0).max(self.media.opening);
        let record = self.media.journal.push(Entry::Mark { zone, durable: 0, stamp });
        self.media.lives.insert(zone, Life::new(zone, stamp, 0, Vec::new(), record));
        Some(record)
    }

    fn note_written(&mut self, slot: u32, status: Status, frames: Vec<Frame>) {
        let layout = self.label.layout;
        let Work::Write(write) = &mut self.tasks.get_mut(slot).work else { unreachable!("a write") };
        for (place, frame) in (layout.place(write.offset)..).zip(frames) {
            if layout.is_beside(place) { self.spare.push(frame) } else { write.frames.push(frame) }
        }
        write.is_written = true;
        write.failure = (status != Status::Success).then_some(status);
    }

    /// A zone failed: nobody knows where its next block goes.
    pub(super) fn degrade(&mut self, zone: ZoneIndex, status: Status) {
        let state = if status == Status::ZoneIsOffline { ZoneState::Offline } else { ZoneState::ReadOnly };
        if !matches!(self.rules.zone(zone).state, ZoneState::ReadOnly | ZoneState::Offline) {
            self.rules.degrade(zone, state);
        }
    }

    /// Flushes the device when records or zones wait for that.
    pub(super) fn flush_when_needed(&mut self, now: Instant) {
        let capacity = self.label.layout.capacity();
        let media = &mut self.media;
        if !self.geometry.volatile_cache || media.flush.is_some() || !media.is_unflushed {
            return;
        }
        let undurable = media.lives.values().filter(|life| life.completed() == capacity).count();
        let is_long = media.lives.values().any(|life| life.undurable() >= UNDURABLE_MAX);
        let is_old = media.oldest_record().is_some_and(|record| record < media.journal.old());
        let has_marks = media.resets.values().any(|reset| reset.record <= media.journal.completed());
        let is_wanted = undurable >= UNDURABLE_ZONES_MAX
            || is_old
            || is_long
            || has_marks
            || media.journal.waits_for_flush()
            || !self.waiting_for_place.is_empty();
        if is_wanted {
            media.is_unflushed = false;
            media.flush = Some(media.what_is_completed());
            self.ask(now, Waiter::Flush, ZoneIndex(0), Op::Flush);
        }
    }

    /// Makes entries of the blocks that have none, but of those in units that are full with what the host has written: their identities
    /// are on their way to their place.
    fn gather_entries(&mut self) {
        let media = &mut self.media;
        if !media.journal.takes_entries() {
            return;
        }
        let layout = self.label.layout;
        for life in media.lives.values_mut().filter(|life| life.recorded() < life.end()) {
            let has_failed = self.lanes.get(&life.zone).is_some_and(|lane| lane.has_failed);
            let handed_over = if has_failed { life.written() } else { life.end() };
            let first = life.recorded().max(layout.open_unit(handed_over));
            let records = life.record(first, |entry| media.journal.push(entry));
            for writing in life.writes.iter().filter(|writing| writing.end > first) {
                let Work::Write(write) = &mut self.tasks.get_mut(writing.slot).work else {
                    unreachable!("a write")
                };
                write.record = Some(records[(writing.end - 1 - first) as usize]);
            }
        }
        media.journal.note_gathered();
    }
}

impl<D: ZonedDevice> InbandDrive<D> {
    /// Hands over what came since the last turn ended: of each zone the next write, and a record for all.
    pub(super) fn end_turn(&mut self, now: Instant) {
        self.core.held_since = None;
        let waiting: Vec<ZoneIndex> = self.core.lanes.keys().copied().collect();
        for zone in waiting {
            self.write_next(now, zone);
        }
        self.write_journal(now);
    }

    /// Hands the next write of a zone to the device, when none is in flight.
    fn write_next(&mut self, now: Instant, zone: ZoneIndex) {
        let Some(lane) = self.core.lanes.get_mut(&zone) else { return };
        if lane.has_failed {
            for (slot, _, frames) in std::mem::take(&mut lane.waiting) {
                self.core.note_written(slot, Status::WriteFault, frames);
            }
            return self.answer_writes(now, zone);
        }
        if !lane.in_flight.is_empty() {
            return;
        }
        let most = self.core.device.geometry().transfer_blocks_max as usize;
        let mut run = Vec::new();
        let mut begin = 0;
        while let Some((.., frames)) = lane.waiting.front()
            && run.len() + frames.len() <= most
            && let Some((slot, place, mut frames)) = lane.waiting.pop_front()
        {
            begin = if run.is_empty() { place } else { begin };
            assert_eq!(begin as usize + run.len(), place as usize, "writes of a zone follow one another");
            lane.in_flight.push((slot, frames.len()));
            run.append(&mut frames);
        }
        if run.is_empty() {
            self.core.lanes.remove(&zone);
            return;
        }
        let own = self.core.label.layout.device_zone(zone);
        self.core.ask(now, Waiter::Lane(zone), own, Op::Write { offset: begin, frames: run });
    }

    /// The data of writes of a zone came back.
    pub(super) fn take_written(
        &mut self,
        now: Instant,
        zone: ZoneIndex,
        status: Status,
        mut frames: Vec<Frame>,
    ) {
        let layout = self.core.label.layout;
        let lane = self.core.lanes.get_mut(&zone).expect("a lane with writes in flight");
        lane.has_failed |= status != Status::Success;
        for (slot, count) in std::mem::take(&mut lane.in_flight) {
            let own = frames.drain(..count.min(frames.len())).collect();
            self.core.note_written(slot, status, own);
            let Work::Write(Write { offset, blocks, .. }) = self.core.tasks.get(slot).work else {
                unreachable!("a write")
            };
            let life = self.core.media.lives.get_mut(&zone).expect("the life of a zone that is written");
            match status {
                Status::Success => life.note_written(offset + blocks),
                _ => life.record_again(),
            }
            for unit in unit_of(offset)..layout.full_units(offset + blocks) {
                if let Some(identities) = life.unit(unit) {
                    self.core.media.identities.keep((zone, unit), Unit::of(&identities, life.stamp));
                }
            }
        }
        self.core.media.is_unflushed = true;
        match status {
            Status::Success => {}
            Status::DeviceGone => self.core.media.has_failed = true,
            _ => self.ask_state(now, zone, None),
        }
        self.answer_writes(now, zone);
        self.after_durable(now);
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
        self.after_durable(now);
        self.let_waiting_pass(now);
    }

    /// Answers the writes of a zone that are through, in their order.
    fn answer_writes(&mut self, now: Instant, zone: ZoneIndex) {
        let layout = self.core.label.layout;
        let journal = &self.core.media.journal;
        let (completed, has_journal_failed) = (journal.completed(), journal.has_failed());
        while let Some(life) = self.core.media.lives.get_mut(&zone)
            && let Some(first) = life.writes.front().copied()
        {
            let Work::Write(write) = &mut self.core.tasks.get_mut(first.slot).work else {
                unreachable!("a write")
            };
            // With entries, or in place, with a unit that was written to its end.
            let is_in_place = life.written() >= layout.unit_end(write.offset + write.blocks - 1);
            let is_marked = write.mark.is_none_or(|record| record <= completed);
            let is_recorded =
                is_marked && (is_in_place || write.record.is_some_and(|record| record <= completed));
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
            if let Some(status) = failure {
                self.core.degrade(zone, status);
            }
            let Task { asked, work } = self.core.tasks.remove(first.slot);
            self.core.done.push(asked.done(failure.map_or(Ok(()), Err), work.into_frames()));
            if is_alone {
                self.let_pass(now, zone);
            }
        }
    }

    /// More may be durable: full zones need nothing any more, old records are carried forward, zones are reset.
    pub(super) fn after_durable(&mut self, now: Instant) {
        let capacity = self.core.label.layout.capacity();
        let media = &mut self.core.media;
        if !self.core.geometry.volatile_cache {
            media.journal.note_durable(media.journal.completed());
        }
        let (durable, old) = (media.journal.durable(), media.journal.old());
        let mut full = Vec::new();
        let is_moving = media.journal.moving.is_some();
        for life in media.lives.values_mut() {
            if !self.core.geometry.volatile_cache {
                life.note_durable(life.completed());
            }
            life.note_journal(durable);
            if life.is_over {
                continue;
            }
            if life.durable() == capacity {
                full.push(life.zone);
            } else if is_moving {
                // All that is needed is on its way.
            } else if life.oldest_record() < old && life.can_be_carried() {
                life.repeat(|entry| media.journal.push(entry));
            } else if life.wants_mark() {
                life.mark(|entry| media.journal.push(entry));
            }
        }
        for zone in full {
            self.end_life(now, zone);
        }
        self.reset_marked(now);
        self.core.flush_when_needed(now);
    }

    /// Writes the next records of the journal, if there are some, and makes its other zone ready.
    pub(super) fn write_journal(&mut self, now: Instant) {
        self.move_journal(now);
        let media = &mut self.core.media;
        let tail = media.oldest_record();
        if (media.journal.is_stuck() || media.journal.is_spent()) && !media.journal.has_failed() {
            // What a zone needs whose write failed cannot be carried forward; or the last zone of the journal has only room for openings.
            media.journal.give_up();
            self.after_write(now);
            return;
        }
        if let Some(zone) = media.journal.begin_turn() {
            self.core.ask(now, Waiter::SpareReset, ZoneIndex(zone), Op::Reset);
        }
        self.core.gather_entries();
        let media = &mut self.core.media;
        let most = self.core.device.geometry().transfer_blocks_max as usize;
        let begun = media.journal.begin(tail, (media.stamp, media.opening), most);
        let Some((records, zone, offset)) = begun else { return };
        let encode = |record: &Record| {
            let mut frame = self.core.spare.pop().unwrap_or_else(Frame::zeroed);
            record.encode(self.core.label.uuid, &mut frame.data);
            frame
        };
        let frames = records.iter().map(encode).collect();
        self.core.ask(now, Waiter::Record, ZoneIndex(zone), Op::Write { offset, frames });
    }
}
