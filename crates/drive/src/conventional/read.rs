//! Reads: data from the device, identities from memory or from beside the data.

use super::core::{ConventionalCore, Waiter, Work};
use super::layout::{UNIT_BLOCKS, unit_of};
use super::write::{is_identity, place_in_zone};
use crate::answer::{Asked, block_count};
use crate::units::identity::{Owner, Unit};
use base::frame::Frame;
use base::time::Instant;
use base::units::{BLOCK_BYTES, OOB_BYTES, ZoneIndex};
use block::device::BlockDevice;
use zone::device::Status;

/// Read at work.
#[derive(Debug)]
pub(super) struct Read {
    /// First block.
    offset: u32,
    /// Blocks that are written: the first of the command; the others read as zeros.
    written: u32,
    /// Stamp of the zone's life: older identities are not of these blocks.
    birth: u64,
    /// Identities that are known, block by block.
    oobs: Vec<Option<[u8; OOB_BYTES]>>,
    /// Frames of written blocks, when they are back, and of the others.
    frames: Vec<Frame>,
    blank: Vec<Frame>,
    /// Commands of the device that are not answered.
    at_work: u32,
    failure: Option<Status>,
}

impl Read {
    /// Frames of the host, others where the device has them still.
    pub(super) fn into_frames(mut self) -> Vec<Frame> {
        self.frames.resize_with(self.written as usize, Frame::zeroed);
        self.frames.append(&mut self.blank);
        self.frames
    }

    /// Takes the identities of a unit.
    fn learn(&mut self, number: u32, unit: &Unit) {
        let first = number * UNIT_BLOCKS;
        for (offset, oob) in (self.offset..).zip(&mut self.oobs) {
            if unit_of(offset) == number
                && let Some(identity) = unit.identities.get((offset - first) as usize)
            {
                *oob = Some(identity.oob);
            }
        }
    }

    /// Units of the blocks that are written.
    fn units(&self) -> std::ops::RangeInclusive<u32> {
        unit_of(self.offset)..=unit_of(self.offset + self.written - 1)
    }
}

impl<D: BlockDevice> ConventionalCore<D> {
    /// Begins a read.
    pub(super) fn begin_read(&mut self, now: Instant, asked: Asked, offset: u32, mut frames: Vec<Frame>) {
        let (zone, blocks) = (asked.zone, block_count(&frames));
        if let Err(status) = self.rules.read(zone, offset, blocks) {
            return self.done.push(asked.done(Err(status), frames));
        }
        let written = self.rules.zone(zone).write_pointer.saturating_sub(offset).min(blocks);
        let mut blank = frames.split_off(written as usize);
        for frame in &mut blank {
            frame.data = [0; BLOCK_BYTES];
            frame.oob = [0; OOB_BYTES];
        }
        if written == 0 {
            return self.done.push(asked.done(Ok(()), blank));
        }
        let birth = self.media.table.entry(zone).birth;
        let mut read = Read {
            offset,
            written,
            birth,
            oobs: vec![None; written as usize],
            frames: Vec::new(),
            blank,
            at_work: 1,
            failure: None,
        };
        let mut run = Vec::with_capacity(frames.len() + 2);
        let mut frames = frames.into_iter();
        let last = place_in_zone(offset + written - 1);
        for place in place_in_zone(offset)..=last {
            let frame = if is_identity(place) { None } else { frames.next() };
            run.push(frame.unwrap_or_else(|| self.spare.pop().unwrap_or_else(Frame::zeroed)));
        }
        let missing = self.learn_from_memory(zone, &mut read);
        // The identities of all units but the last come with the data.
        let last_unit = *read.units().end();
        let beside = missing.contains(&last_unit);
        read.at_work += u32::from(beside);
        let slot = self.begin_task(now, asked, Work::Read(read));
        let place = self.label.layout.block_place(zone, offset);
        self.read_place(now, Waiter::Data(slot), place, run);
        if beside {
            let frame = self.frame();
            let place = self.label.layout.identity_place(zone, last_unit);
            self.read_place(now, Waiter::Identity { slot, unit: last_unit }, place, vec![frame]);
        }
    }

    /// Takes the identities that are in memory; returns the units of the others.
    fn learn_from_memory(&mut self, zone: ZoneIndex, read: &mut Read) -> Vec<u32> {
        let mut missing = Vec::new();
        for number in read.units() {
            let life = self.media.lives.get(&zone);
            if let Some(identities) = life.and_then(|life| life.unit(number)) {
                read.learn(number, &Unit::of(&identities, read.birth));
            } else if let Some(unit) = self.media.identities.find((zone, number), read.birth) {
                read.learn(number, unit);
            } else {
                missing.push(number);
            }
        }
        missing
    }

    /// The data of a read came back, with the identities of all units but the last.
    pub(super) fn take_read(&mut self, slot: u32, status: Status, frames: Vec<Frame>) {
        let task = self.tasks.get_mut(slot);
        let zone = task.asked.zone;
        let Work::Read(read) = &mut task.work else { unreachable!("a read") };
        if status != Status::Success {
            read.failure = Some(status);
        }
        for (place, frame) in (place_in_zone(read.offset)..).zip(frames) {
            if !is_identity(place) {
                read.frames.push(frame);
                continue;
            }
            let number = place / (UNIT_BLOCKS + 1);
            let owner = Owner { uuid: self.label.uuid, zone, unit: number };
            let unit = Unit::decode(owner, &frame.data).filter(|unit| unit.stamp >= read.birth);
            if let (Status::Success, Some(unit)) = (status, unit) {
                let is_missing =
                    |(offset, oob): (u32, &Option<_>)| unit_of(offset) == number && oob.is_none();
                if (read.offset..).zip(&read.oobs).any(is_missing) {
                    read.learn(number, &unit);
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
        let unit = frames.first().and_then(|frame| Unit::decode(owner, &frame.data));
        match unit.filter(|unit| status == Status::Success && unit.stamp >= read.birth) {
            Some(unit) => {
                read.learn(number, &unit);
                // A zone that was reset meanwhile has none to keep.
                if self.media.table.entry(zone).birth == read.birth {
                    self.media.identities.keep((zone, number), unit);
                }
            }
            None if matches!(status, Status::DeviceGone | Status::Stalled) => read.failure = Some(status),
            None => read.failure = Some(Status::UnrecoveredReadError),
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
        for (frame, oob) in read.frames.iter_mut().zip(&read.oobs) {
            match oob {
                Some(oob) => frame.oob = *oob,
                None => read.failure = read.failure.or(Some(Status::UnrecoveredReadError)),
            }
        }
        let outcome = read.failure.map_or(Ok(()), Err);
        self.done.push(task.asked.done(outcome, read.into_frames()));
    }
}
