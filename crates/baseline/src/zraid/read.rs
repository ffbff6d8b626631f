//! Reads: from open stripes in memory, else from drives, a chunk at a time; what is not there or not whole is decoded.

use super::Zraid;
use super::send::Sent;
use crate::config::Spot;
use crate::logical_zone::ResetStage;
use crate::record::{Kind, Record};
use array::engine::Effects;
use array::request::RequestId;
use base::frame::Frame;
use base::units::Lba;
use zone::device::{Completion, Op, Status};
use zone::format::oob::block_is_whole;

impl Zraid {
    /// A read has arrived.
    pub(super) fn start_read(&mut self, id: RequestId, lba: Lba, blocks: u32, fx: &mut Effects) {
        let mut frames = self.frames.take_vec(blocks as usize);
        frames.iter_mut().for_each(|frame| frame.data.fill(0));
        let slot = self.reads.begin(id, lba, frames);
        let map = self.map;
        let mut at = 0;
        while at < blocks {
            let (zone, position) = map.position_of(lba.plus(u64::from(at)));
            let spot = map.spot(position);
            let rows = (map.chunk_blocks() - spot.row).min(blocks - at);
            if !self.fill_from_memory(slot, at, rows, (zone, position)) {
                self.read_rows(slot, at, rows, (zone, spot), fx);
            }
            at += rows;
        }
        self.reads.end_command(slot, &mut self.frames, fx);
    }

    /// Fills in rows of a chunk that need no drive: of open stripes, or never written.
    fn fill_from_memory(&mut self, slot: u32, at: u32, rows: u32, (zone, position): (u32, u32)) -> bool {
        let map = self.map;
        let spot = map.spot(position);
        let zone = &self.zones[zone as usize];
        let is_erasing = zone
            .reset
            .is_some_and(|reset| matches!(reset.stage, ResetStage::Recording(_) | ResetStage::Erasing(_)));
        if position >= zone.placed || is_erasing {
            return true;
        }
        let Some(stripe) = zone.stripe(spot.stripe) else { return false };
        let data = stripe.data.iter().skip(map.within(spot.piece, spot.row) as usize);
        (at..at + rows).zip(data).for_each(|(block, held)| self.reads.frame(slot, block).data = held.data);
        true
    }

    fn read_rows(&mut self, slot: u32, at: u32, rows: u32, (zone, spot): (u32, Spot), fx: &mut Effects) {
        let drive = self.map.drive_of(zone, spot.stripe, spot.piece);
        if self.members.is_failed(drive) {
            (at..at + rows).for_each(|block| self.decode(slot, block, fx));
            return;
        }
        let frames = self.frames.take_vec(rows as usize);
        self.reads.begin_command(slot);
        self.zones[zone as usize].readers += 1;
        let offset = self.map.offset(spot.stripe, spot.row);
        self.command(drive, zone, Sent::Read { read: slot, at }, Op::Read { offset, frames }, fx);
    }

    /// A drive has answered for the blocks from `at` on.
    pub(super) fn on_read(
        &mut self,
        slot: u32,
        at: u32,
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        let Completion { status, frames, zone, .. } = completion;
        if status == Status::DeviceGone {
            self.lose_member(drive, fx);
        }
        let generation = self.zones[zone.index()].generation;
        for (block, frame) in (at..).zip(&frames) {
            let (_, position) = self.map.position_of(self.reads.lba(slot, block));
            let Spot { stripe, piece, row } = self.map.spot(position);
            let place = self.map.place(self.tag, (zone.0, generation), stripe, piece, row);
            if status == Status::Success && block_is_whole(frame, &place) {
                self.reads.frame(slot, block).set_data(&frame.data);
            } else {
                self.decode(slot, block, fx);
            }
        }
        self.frames.give_vec(frames);
        self.end_of_reader(zone.0, fx);
        self.reads.end_command(slot, &mut self.frames, fx);
    }

    /// Computes a block from the others of its row; its stripe is whole, so its parity is in place.
    fn decode(&mut self, read: u32, block: u32, fx: &mut Effects) {
        let (zone, position) = self.map.position_of(self.reads.lba(read, block));
        let spot = self.map.spot(position);
        let others: Vec<(usize, usize)> = (0..self.config.members)
            .filter(|piece| *piece != spot.piece)
            .map(|piece| (piece, self.map.drive_of(zone, spot.stripe, piece)))
            .collect();
        let failed = others.iter().any(|(_, drive)| self.members.is_failed(*drive));
        let slot = self.reads.begin_decode((read, block), (zone, spot), Vec::new(), failed);
        self.zones[zone as usize].readers += 1;
        for (piece, drive) in others.into_iter().filter(|_| !failed) {
            self.reads.begin_source(slot);
            let op =
                Op::Read { offset: self.map.offset(spot.stripe, spot.row), frames: self.frames.take_vec(1) };
            self.command(drive, zone, Sent::Source { decode: slot, piece }, op, fx);
        }
        self.end_of_source(slot, fx);
    }

    /// A piece of a row that is being decoded is here.
    pub(super) fn on_source(
        &mut self,
        slot: u32,
        piece: usize,
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        let Completion { status, mut frames, .. } = completion;
        if status == Status::DeviceGone {
            self.lose_member(drive, fx);
        }
        let (zone, spot) = self.reads.spot(slot);
        let frame = frames.pop().expect("one block was read");
        let is_whole = status == Status::Success && self.is_piece(&frame, zone, Spot { piece, ..spot });
        self.reads.add_source(slot, piece, frame, is_whole);
        self.end_of_source(slot, fx);
    }

    /// True for a block, of data or of full parity, that is what its place is for.
    pub(super) fn is_piece(&self, frame: &Frame, zone: u32, Spot { stripe, piece, row }: Spot) -> bool {
        let generation = self.zones[zone as usize].generation;
        if piece < self.map.data_count() {
            return block_is_whole(frame, &self.map.place(self.tag, (zone, generation), stripe, piece, row));
        }
        Record::of_frame(self.tag, frame).is_some_and(|record| {
            record.kind == Kind::Settled
                && (record.zone, record.generation) == (zone, generation)
                && (record.stripe, u32::from(record.row)) == (stripe, row)
        })
    }

    fn end_of_source(&mut self, slot: u32, fx: &mut Effects) {
        let Some(decoded) = self.reads.end_source(slot, &self.map, &mut self.frames) else { return };
        self.end_of_reader(decoded.zone, fx);
        self.reads.end_command(decoded.read, &mut self.frames, fx);
    }

    /// Notes the end of a reader: a reset that waits for the zone may go on.
    fn end_of_reader(&mut self, zone: u32, fx: &mut Effects) {
        self.zones[zone as usize].readers -= 1;
        self.advance_zone(zone, fx);
    }
}
