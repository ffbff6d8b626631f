//! The read path: from memory while a stripe is open, else from the drive; what is not there or not whole is decoded.

use crate::Raizn;
use crate::config::{Spot, count};
use crate::logical_zone::ResetStage;
use crate::token::Waiter;
use array::engine::Effects;
use array::request::{Outcome, Reply, RequestId};
use base::frame::Frame;
use base::units::{Lba, ZoneIndex};
use zone::device::{Completion, Op, Status};
use zone::format::oob::block_is_whole;

/// A read on its way.
#[derive(Debug)]
pub struct ReadRequest {
    id: RequestId,
    lba: Lba,
    frames: Vec<Frame>,
    /// Commands and decodes under way.
    pending: u32,
    outcome: Outcome,
}

/// A block that is computed from the others of its row.
#[derive(Debug)]
pub struct Decode {
    read: u32,
    block: u32,
    zone: u32,
    spot: Spot,
    sources: Vec<(usize, Frame)>,
    pending: u32,
    failed: bool,
}

impl Raizn {
    /// Starts a read.
    pub(super) fn start_read(&mut self, id: RequestId, lba: Lba, blocks: u32, fx: &mut Effects) {
        let mut frames = self.frames.take_vec(blocks as usize);
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for (block, frame) in (0..blocks).zip(&mut frames) {
            if self.fill_from_memory(lba.plus(u64::from(block)), frame) {
                continue;
            }
            match runs.last_mut() {
                Some((first, length)) if self.continues(lba, *first, *length, block) => *length += 1,
                _ => runs.push((block, 1)),
            }
        }
        // One more than there are, so that it is not answered while it is being issued.
        let slot = self.reads.insert(ReadRequest { id, lba, frames, pending: 1, outcome: Outcome::Done });
        for (first, length) in runs {
            self.read_run(slot, first, length, fx);
        }
        self.end_of_read(slot, fx);
    }

    /// Fills in a block that needs no drive: one never written, or of an open stripe.
    fn fill_from_memory(&self, lba: Lba, frame: &mut Frame) -> bool {
        let (zone, position) = self.map.position_of(lba);
        let logical = &self.zones[zone as usize];
        let erasing = logical
            .reset
            .is_some_and(|reset| matches!(reset.stage, ResetStage::Recording(_) | ResetStage::Erasing(_)));
        if position >= logical.placed || erasing {
            frame.data.fill(0);
            return true;
        }
        let within = (position % self.map.stripe_blocks()) as usize;
        let Some(stripe) = logical.stripe(self.map.spot(position).stripe) else { return false };
        frame.data = stripe.data[within].data;
        true
    }

    /// True when a block lies behind the `length` blocks from `first` on the same drive.
    fn continues(&self, lba: Lba, first: u32, length: u32, block: u32) -> bool {
        let (zone, position) = self.map.position_of(lba.plus(u64::from(first)));
        let spot = self.map.spot(position);
        first + length == block
            && spot.row + length < self.map.chunk_blocks()
            && !self.members.is_failed(self.map.drive_of(zone, spot.stripe, spot.piece))
    }

    fn read_run(&mut self, slot: u32, first: u32, length: u32, fx: &mut Effects) {
        let lba = self.reads.get(slot).lba.plus(u64::from(first));
        let (zone, position) = self.map.position_of(lba);
        let spot = self.map.spot(position);
        let drive = self.map.drive_of(zone, spot.stripe, spot.piece);
        if self.members.is_failed(drive) {
            self.decode(slot, first, fx);
            return;
        }
        self.zones[zone as usize].readers += 1;
        self.reads.get_mut(slot).pending += 1;
        let frames = self.frames.take_vec(length as usize);
        let op = Op::Read { offset: self.map.offset(spot.stripe, spot.row), frames };
        fx.command(drive, ZoneIndex(zone), Waiter::Read { slot, part: first }, op);
    }

    /// A drive has answered for the blocks from `part` on.
    pub(super) fn on_read(
        &mut self,
        slot: u32,
        part: u32,
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        let Completion { status, frames, zone: ZoneIndex(zone), .. } = completion;
        if status == Status::DeviceGone {
            self.lose_member(drive, fx);
        }
        for (block, frame) in (part..).zip(&frames) {
            let (_, position) = self.map.position_of(self.reads.get(slot).lba.plus(u64::from(block)));
            let Spot { stripe, piece, row } = self.map.spot(position);
            let place = self.place_at(zone, stripe, piece, row);
            if status == Status::Success && block_is_whole(frame, &place) {
                self.reads.get_mut(slot).frames[block as usize].data = frame.data;
            } else {
                self.decode(slot, block, fx);
            }
        }
        self.frames.give_vec(frames);
        self.end_of_reader(zone, fx);
        self.end_of_read(slot, fx);
    }

    /// Computes a block from the others of its row.
    fn decode(&mut self, read: u32, block: u32, fx: &mut Effects) {
        let (zone, position) = self.map.position_of(self.reads.get(read).lba.plus(u64::from(block)));
        let spot = self.map.spot(position);
        let (data_count, members) = (self.map.data_count(), self.config.members);
        let relocated = self.logs.relocated.get(&(zone, spot.stripe, spot.row)).map(|frame| frame.data);
        let mut sources = Vec::new();
        if let Some(data) = relocated {
            let mut frame = self.frames.take();
            frame.data = data;
            sources.push((data_count, frame));
        }
        let wanted: Vec<usize> = (0..members)
            .filter(|piece| *piece != spot.piece && !(*piece == data_count && relocated.is_some()))
            .collect();
        let failed =
            wanted.iter().any(|piece| self.members.is_failed(self.map.drive_of(zone, spot.stripe, *piece)));
        let decode = Decode { read, block, zone, spot, sources, pending: 1, failed };
        let slot = self.decodes.insert(decode);
        self.zones[zone as usize].readers += 1;
        self.reads.get_mut(read).pending += 1;
        for piece in wanted.into_iter().filter(|_| !failed) {
            self.decodes.get_mut(slot).pending += 1;
            let frames = self.frames.take_vec(1);
            let drive = self.map.drive_of(zone, spot.stripe, piece);
            let op = Op::Read { offset: self.map.offset(spot.stripe, spot.row), frames };
            fx.command(drive, ZoneIndex(zone), Waiter::Source { slot, part: count(piece) }, op);
        }
        self.end_of_source(slot, fx);
    }

    /// A piece of a row that is being decoded is here.
    pub(super) fn on_source(
        &mut self,
        slot: u32,
        part: u32,
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        let Completion { status, mut frames, .. } = completion;
        if status == Status::DeviceGone {
            self.lose_member(drive, fx);
        }
        let Decode { zone, spot, .. } = *self.decodes.get(slot);
        let place = self.place_at(zone, spot.stripe, part as usize, spot.row);
        let frame = frames.pop().expect("one block was read");
        let is_whole = status == Status::Success && block_is_whole(&frame, &place);
        let decode = self.decodes.get_mut(slot);
        decode.failed |= !is_whole;
        decode.sources.push((part as usize, frame));
        self.end_of_source(slot, fx);
    }

    fn end_of_source(&mut self, slot: u32, fx: &mut Effects) {
        let decode = self.decodes.get_mut(slot);
        decode.pending -= 1;
        if decode.pending > 0 {
            return;
        }
        let Decode { read, block, zone, spot, sources, failed, .. } = self.decodes.remove(slot);
        if failed {
            self.reads.get_mut(read).outcome = Outcome::IoError;
        } else {
            let present: Vec<_> = sources.iter().map(|(piece, frame)| (*piece, &frame.data)).collect();
            let into = &mut self.reads.get_mut(read).frames[block as usize].data;
            self.map.layout.code.decode(spot.piece, &present, into);
            self.counters.blocks_decoded += 1;
        }
        for (_, frame) in sources {
            self.frames.give(frame);
        }
        self.end_of_reader(zone, fx);
        self.end_of_read(read, fx);
    }

    /// Notes the end of a reader: a reset that waits for the zone may go on.
    fn end_of_reader(&mut self, zone: u32, fx: &mut Effects) {
        self.zones[zone as usize].readers -= 1;
        self.advance_zone(zone, fx);
    }

    fn end_of_read(&mut self, slot: u32, fx: &mut Effects) {
        let read = self.reads.get_mut(slot);
        read.pending -= 1;
        if read.pending > 0 {
            return;
        }
        let ReadRequest { id, mut frames, outcome, .. } = self.reads.remove(slot);
        if outcome == Outcome::IoError {
            self.frames.give_many(&mut frames);
        }
        fx.replies.push(Reply { id, outcome, frames });
    }
}
