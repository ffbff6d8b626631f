//! Reads: data from the device, identities from memory or from beside the data.
//!
//! A block of a full zone without an identity was never written: behind the end of a zone that was finished, or before it, where a power
//! failure left blocks that nobody was answered for. It reads as zeros. So does a block whose data arrived and whose identity did not.

use super::core::{InbandCore, Waiter, Work};
use crate::answer::{Asked, block_count};
use crate::units::identity::{Identity, Owner, Unit};
use crate::units::{UNIT_BLOCKS, UNIT_PLACES, unit_of};
use base::frame::Frame;
use base::time::Instant;
use base::units::{BLOCK_BYTES, OOB_BYTES};
use zone::device::{Op, Status, ZoneState, ZonedDevice};

/// What is known of a block beside its data.
#[derive(Clone, Copy, Debug)]
enum Known {
    No,
    Is(Identity),
    /// It was not written.
    Blank,
}

/// Read at work.
#[derive(Debug)]
pub(super) struct Read {
    /// First block.
    offset: u32,
    /// Blocks that are written: the first of the command; the others read as zeros.
    written: u32,
    /// Stamp of the zone's life: older identities are not of these blocks.
    birth: u64,
    /// Nobody knows where the zone ends.
    is_open_ended: bool,
    /// What is known, block by block.
    known: Vec<Known>,
    /// Frames of written blocks, when they are back, and of the others.
    frames: Vec<Frame>,
    blank: Vec<Frame>,
    /// Commands of the device that are not answered.
    at_work: u32,
    failure: Option<Status>,
}

fn make_blank(frame: &mut Frame) {
    frame.data = [0; BLOCK_BYTES];
    frame.oob = [0; OOB_BYTES];
}

impl Read {
    /// Frames of the host, others where the device has them still.
    pub(super) fn into_frames(mut self) -> Vec<Frame> {
        self.frames.resize_with(self.written as usize, Frame::zeroed);
        self.frames.append(&mut self.blank);
        self.frames
    }

    /// Takes the identities of a unit. One that is full may have fewer than it has blocks: the others were not written.
    fn learn(&mut self, number: u32, unit: &Unit) {
        let first = number * UNIT_BLOCKS;
        for (offset, known) in (self.offset..).zip(&mut self.known) {
            if unit_of(offset) == number {
                let identity = unit.identities.get((offset - first) as usize);
                *known = identity.map_or(Known::Blank, |identity| Known::Is(*identity));
            }
        }
    }

    /// Takes what lies in the place of a unit's identities; returns them.
    fn learn_from(&mut self, owner: Owner, frame: &Frame) -> Option<Unit> {
        match Unit::decode(owner, &frame.data) {
            Some(unit) if unit.stamp >= self.birth => {
                self.learn(owner.unit, &unit);
                Some(unit)
            }
            None if frame.data.iter().any(|byte| *byte != 0) => None,
            // Nothing, or what an earlier life left.
            _ => {
                if self.is_open_ended {
                    let none = Unit { stamp: self.birth, identities: Vec::new() };
                    self.learn(owner.unit, &none);
                }
                None
            }
        }
    }

    /// Units of the blocks that are written.
    fn units(&self) -> std::ops::RangeInclusive<u32> {
        unit_of(self.offset)..=unit_of(self.offset + self.written - 1)
    }
}

impl<D: ZonedDevice> InbandCore<D> {
    /// Begins a read.
    pub(super) fn begin_read(&mut self, now: Instant, asked: Asked, offset: u32, mut frames: Vec<Frame>) {
        let (zone, blocks) = (asked.zone, block_count(&frames));
        if let Err(status) = self.rules.read(zone, offset, blocks) {
            return self.done.push(asked.done(Err(status), frames));
        }
        let written = self.rules.zone(zone).write_pointer.saturating_sub(offset).min(blocks);
        let mut blank = frames.split_off(written as usize);
        blank.iter_mut().for_each(make_blank);
        if written == 0 {
            return self.done.push(asked.done(Ok(()), blank));
        }
        let is_over = matches!(self.rules.zone(zone).state, ZoneState::Full | ZoneState::ReadOnly);
        let birth = self.media.births[zone.index()];
        let read = Read {
            offset,
            written,
            birth: birth.unwrap_or(0),
            is_open_ended: is_over && !self.media.lives.contains_key(&zone),
            known: vec![Known::No; written as usize],
            frames,
            blank,
            at_work: 1,
            failure: None,
        };
        let slot = self.begin_task(asked, Work::Read(read));
        if birth.is_some() {
            return self.read_data(now, slot);
        }
        let frame = self.frame();
        let place = self.label.layout.identity_place(0);
        let own = self.label.layout.device_zone(zone);
        self.ask(now, Waiter::Birth { slot }, own, Op::Read { offset: place, frames: vec![frame] });
    }

    /// The identities of the first unit of a zone came: no block of it is older.
    pub(super) fn take_birth(&mut self, now: Instant, slot: u32, status: Status, frames: &[Frame]) {
        let task = self.tasks.get_mut(slot);
        let zone = task.asked.zone;
        let Work::Read(read) = &mut task.work else { unreachable!("a read") };
        let owner = Owner { uuid: self.label.uuid, zone, unit: 0 };
        let unit = frames.first().and_then(|frame| Unit::decode(owner, &frame.data));
        let is_blank = frames.first().is_some_and(|frame| frame.data.iter().all(|byte| *byte == 0));
        match unit {
            // Without the stamp, identities of an earlier life would be believed.
            _ if matches!(status, Status::DeviceGone | Status::ZoneIsOffline | Status::Stalled) => {
                read.failure = Some(status);
            }
            Some(unit) if status == Status::Success => {
                read.birth = unit.stamp;
                self.media.births[zone.index()].get_or_insert(unit.stamp);
            }
            // An empty zone that was finished: whatever lies there is older.
            None if status == Status::Success && is_blank => read.birth = u64::MAX,
            _ => {}
        }
        if read.failure.is_some() {
            return self.answer_read(slot);
        }
        self.read_data(now, slot);
    }

    fn read_data(&mut self, now: Instant, slot: u32) {
        let layout = self.label.layout;
        let task = self.tasks.get_mut(slot);
        let zone = task.asked.zone;
        let Work::Read(read) = &mut task.work else { unreachable!("a read") };
        // Identities of blocks that are in memory.
        let mut missing = Vec::new();
        for number in read.units() {
            if let Some(identities) = self.media.lives.get(&zone).and_then(|life| life.unit(number)) {
                read.learn(number, &Unit::of(&identities, read.birth));
            } else if let Some(unit) = self.media.identities.find((zone, number), read.birth) {
                read.learn(number, unit);
            } else {
                missing.push(number);
            }
        }
        let (first, last) = (layout.place(read.offset), layout.place(read.offset + read.written - 1));
        let mut frames = std::mem::take(&mut read.frames).into_iter();
        let mut run = Vec::with_capacity(frames.len() + 2);
        for place in first..=last {
            let frame = if layout.is_beside(place) { None } else { frames.next() };
            run.push(frame.unwrap_or_else(|| self.spare.pop().unwrap_or_else(Frame::zeroed)));
        }
        // The identities of all units but the last come with the data.
        let last_unit = *read.units().end();
        let beside = missing.contains(&last_unit);
        read.at_work += u32::from(beside);
        let own = layout.device_zone(zone);
        self.ask(now, Waiter::Data(slot), own, Op::Read { offset: first, frames: run });
        if beside {
            let frame = self.frame();
            let op = Op::Read { offset: layout.identity_place(last_unit), frames: vec![frame] };
            self.ask(now, Waiter::Identity { slot, unit: last_unit }, own, op);
        }
    }

    /// The data of a read came back, with the identities of all units but the last.
    pub(super) fn take_read(&mut self, slot: u32, status: Status, frames: Vec<Frame>) {
        let layout = self.label.layout;
        let task = self.tasks.get_mut(slot);
        let zone = task.asked.zone;
        let Work::Read(read) = &mut task.work else { unreachable!("a read") };
        if status != Status::Success {
            read.failure = Some(status);
        }
        for (place, frame) in (layout.place(read.offset)..).zip(frames) {
            if !layout.is_beside(place) {
                read.frames.push(frame);
                continue;
            }
            let number = place / UNIT_PLACES;
            let is_missing =
                |(offset, known): (u32, &Known)| unit_of(offset) == number && matches!(known, Known::No);
            if status == Status::Success && (read.offset..).zip(&read.known).any(is_missing) {
                let owner = Owner { uuid: self.label.uuid, zone, unit: number };
                if let Some(unit) = read.learn_from(owner, &frame)
                    && self.media.births[zone.index()] == Some(read.birth)
                {
                    self.media.identities.keep((zone, number), unit);
                }
            }
            self.spare.push(frame);
        }
        self.answer_read(slot);
    }

    /// The identities of a unit were read.
    pub(super) fn take_identity(&mut self, slot: u32, number: u32, status: Status, frames: &[Frame]) {
        let task = self.tasks.get_mut(slot);
        let zone = task.asked.zone;
        let Work::Read(read) = &mut task.work else { unreachable!("a read") };
        let owner = Owner { uuid: self.label.uuid, zone, unit: number };
        match frames.first().filter(|_| status == Status::Success) {
            Some(frame) => {
                // A zone that was reset meanwhile has none to keep.
                if let Some(unit) = read.learn_from(owner, frame)
                    && self.media.births[zone.index()] == Some(read.birth)
                {
                    self.media.identities.keep((zone, number), unit);
                }
            }
            None => read.failure = Some(status),
        }
        self.answer_read(slot);
    }

    fn answer_read(&mut self, slot: u32) {
        let Work::Read(read) = &mut self.tasks.get_mut(slot).work else { unreachable!("a read") };
        read.at_work -= 1;
        if read.at_work > 0 {
            return;
        }
        let task = self.tasks.remove(slot);
        let Work::Read(mut read) = task.work else { unreachable!("a read") };
        for (frame, known) in read.frames.iter_mut().zip(&read.known) {
            match known {
                // Data that were never answered are not shown: without metadata they would pass for damaged ones.
                Known::Is(identity) if identity.is_torn(&frame.data) => make_blank(frame),
                Known::Is(identity) => frame.oob = identity.oob,
                Known::Blank => make_blank(frame),
                Known::No => read.failure = read.failure.or(Some(Status::UnrecoveredReadError)),
            }
        }
        let outcome = read.failure.map_or(Ok(()), Err);
        if outcome == Err(Status::ZoneIsOffline) {
            self.note_dead(task.asked.zone, ZoneState::Offline);
        }
        self.done.push(task.asked.done(outcome, read.into_frames()));
    }
}
