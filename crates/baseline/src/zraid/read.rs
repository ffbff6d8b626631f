//! Reads: from open stripes in memory, else from drives, a chunk at a time; what is not there or not whole is decoded.

use super::Zraid;
use super::send::Sent;
use crate::config::Spot;
use crate::logical_zone::ResetStage;
use crate::record::{Kind, Record};
use array::engine::Effects;
use array::request::{Outcome, Reply, RequestId};
use base::frame::Frame;
use base::units::Lba;
use zone::device::{Completion, Op, Status};
use zone::format::oob::block_is_whole;

/// A read under way.
#[derive(Debug)]
pub(super) struct Read {
    id: RequestId,
    lba: Lba,
    frames: Vec<Frame>,
    /// Commands and decodes that are under way, and one while it is being issued.
    left: u32,
    outcome: Outcome,
}

/// A block that is computed from the others of its row.
#[derive(Debug)]
pub(super) struct Decode {
    read: u32,
    block: u32,
    zone: u32,
    spot: Spot,
    sources: Vec<(usize, Frame)>,
    /// Reads that are under way, and one while they are being issued.
    left: u32,
    failed: bool,
}

impl Zraid {
    /// A read has arrived.
    pub(super) fn start_read(&mut self, id: RequestId, lba: Lba, blocks: u32, fx: &mut Effects) {
        let mut frames = self.frames.take_vec(blocks as usize);
        frames.iter_mut().for_each(|frame| frame.data.fill(0));
        let slot = self.reads.insert(Read { id, lba, frames, left: 1, outcome: Outcome::Done });
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
        self.end_of_read(slot, fx);
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
        let own = &mut self.reads.get_mut(slot).frames[at as usize..(at + rows) as usize];
        own.iter_mut().zip(data).for_each(|(frame, held)| frame.data = held.data);
        true
    }

    fn read_rows(&mut self, slot: u32, at: u32, rows: u32, (zone, spot): (u32, Spot), fx: &mut Effects) {
        let drive = self.map.drive_of(zone, spot.stripe, spot.piece);
        if self.members.is_failed(drive) {
            (at..at + rows).for_each(|block| self.decode(slot, block, fx));
            return;
        }
        let frames = self.frames.take_vec(rows as usize);
        self.reads.get_mut(slot).left += 1;
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
            let (_, position) = self.map.position_of(self.reads.get(slot).lba.plus(u64::from(block)));
            let Spot { stripe, piece, row } = self.map.spot(position);
            let place = self.map.place(self.tag, (zone.0, generation), stripe, piece, row);
            if status == Status::Success && block_is_whole(frame, &place) {
                self.reads.get_mut(slot).frames[block as usize].data = frame.data;
            } else {
                self.decode(slot, block, fx);
            }
        }
        self.frames.give_vec(frames);
        self.end_of_reader(zone.0, fx);
        self.end_of_read(slot, fx);
    }

    /// Computes a block from the others of its row; its stripe is whole, so its parity is in place.
    fn decode(&mut self, read: u32, block: u32, fx: &mut Effects) {
        let (zone, position) = self.map.position_of(self.reads.get(read).lba.plus(u64::from(block)));
        let spot = self.map.spot(position);
        let others: Vec<(usize, usize)> = (0..self.config.members)
            .filter(|piece| *piece != spot.piece)
            .map(|piece| (piece, self.map.drive_of(zone, spot.stripe, piece)))
            .collect();
        let failed = others.iter().any(|(_, drive)| self.members.is_failed(*drive));
        let decode = Decode { read, block, zone, spot, sources: Vec::new(), left: 1, failed };
        let slot = self.decodes.insert(decode);
        self.zones[zone as usize].readers += 1;
        self.reads.get_mut(read).left += 1;
        for (piece, drive) in others.into_iter().filter(|_| !failed) {
            self.decodes.get_mut(slot).left += 1;
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
        let Decode { zone, spot, .. } = *self.decodes.get(slot);
        let frame = frames.pop().expect("one block was read");
        let is_whole = status == Status::Success && self.is_piece(&frame, zone, Spot { piece, ..spot });
        let decode = self.decodes.get_mut(slot);
        decode.failed |= !is_whole;
        decode.sources.push((piece, frame));
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
        let decode = self.decodes.get_mut(slot);
        decode.left -= 1;
        if decode.left > 0 {
            return;
        }
        let Decode { read, block, zone, spot, sources, failed, .. } = self.decodes.remove(slot);
        if failed {
            self.reads.get_mut(read).outcome = Outcome::IoError;
        } else {
            let present: Vec<_> = sources.iter().map(|(piece, frame)| (*piece, &frame.data)).collect();
            let into = &mut self.reads.get_mut(read).frames[block as usize].data;
            self.map.layout.code.decode(spot.piece, &present, into);
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
        read.left -= 1;
        if read.left > 0 {
            return;
        }
        let Read { id, mut frames, outcome, .. } = self.reads.remove(slot);
        if outcome == Outcome::IoError {
            self.frames.give_many(&mut frames);
        }
        fx.replies.push(Reply { id, outcome, frames });
    }
}
