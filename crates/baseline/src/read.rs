//! The read path: from memory while a stripe is open, else from the drive; what is not there or not whole is decoded.

use crate::Raizn;
use crate::config::{Spot, count};
use crate::logical_zone::ResetStage;
use crate::token::Waiter;
use array::engine::Effects;
use array::request::RequestId;
use base::frame::Frame;
use base::units::{Lba, ZoneIndex};
use zone::device::{Completion, Op, Status};
use zone::format::oob::block_is_whole;

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
        let slot = self.reads.begin(id, lba, frames);
        for (first, length) in runs {
            self.read_run(slot, first, length, fx);
        }
        self.reads.end_command(slot, &mut self.frames, fx);
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
        frame.set_data(&stripe.data[within].data);
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
        let (zone, position) = self.map.position_of(self.reads.lba(slot, first));
        let spot = self.map.spot(position);
        let drive = self.map.drive_of(zone, spot.stripe, spot.piece);
        if self.members.is_failed(drive) {
            self.decode(slot, first, fx);
            return;
        }
        self.zones[zone as usize].readers += 1;
        self.reads.begin_command(slot);
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
            let (_, position) = self.map.position_of(self.reads.lba(slot, block));
            let Spot { stripe, piece, row } = self.map.spot(position);
            let place = self.place_at(zone, stripe, piece, row);
            if status == Status::Success && block_is_whole(frame, &place) {
                self.reads.frame(slot, block).set_data(&frame.data);
            } else {
                self.decode(slot, block, fx);
            }
        }
        self.frames.give_vec(frames);
        self.end_of_reader(zone, fx);
        self.reads.end_command(slot, &mut self.frames, fx);
    }

    /// Computes a block from the others of its row.
    fn decode(&mut self, read: u32, block: u32, fx: &mut Effects) {
        let (zone, position) = self.map.position_of(self.reads.lba(read, block));
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
        let slot = self.reads.begin_decode((read, block), (zone, spot), sources, failed);
        self.zones[zone as usize].readers += 1;
        for piece in wanted.into_iter().filter(|_| !failed) {
            self.reads.begin_source(slot);
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
        let (zone, spot) = self.reads.spot(slot);
        let place = self.place_at(zone, spot.stripe, part as usize, spot.row);
        let frame = frames.pop().expect("one block was read");
        let is_whole = status == Status::Success && block_is_whole(&frame, &place);
        self.reads.add_source(slot, part as usize, frame, is_whole);
        self.end_of_source(slot, fx);
    }

    fn end_of_source(&mut self, slot: u32, fx: &mut Effects) {
        let Some(decoded) = self.reads.end_source(slot, &self.map, &mut self.frames) else { return };
        self.counters.blocks_decoded += u64::from(decoded.succeeded);
        self.end_of_reader(decoded.zone, fx);
        self.reads.end_command(decoded.read, &mut self.frames, fx);
    }

    /// Notes the end of a reader: a reset that waits for the zone may go on.
    fn end_of_reader(&mut self, zone: u32, fx: &mut Effects) {
        self.zones[zone as usize].readers -= 1;
        self.advance_zone(zone, fx);
    }
}
