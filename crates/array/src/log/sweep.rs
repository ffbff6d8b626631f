//! Sweeping a segment: many of its stripes are read with few commands, and each block is verified.
//!
//! ```text
//!  stripes 8 9 10 11      drive 0  | 8  9 10 11|     one command for each run of slots
//!  of one group           drive 1  |10  8| .. |9 11|
//! ```
//! What is not whole is read once more, by itself: a long read fails for one bad block, and a read may lie once
//! (ADR 11). For those who read all of a segment: the rebuild of a member, and the scrub.

use crate::log::blame::Blame;
use crate::log::core::Core;
use crate::log::reader::Reader;
use crate::log::segment::SegmentSlot;
use crate::log::{Effects, Location, Shard, Waiter};
use base::erasure::Piece;
use base::frame::Frame;
use base::units::DriveIndex;
use std::ops::Range;
use zone::device::{Completion, Op, Status};
use zone::format::oob::{self, Protected, block_is_whole};
use zone::stripe::StripeNumber;

/// Blocks of each drive that one sweep reads: large enough for drives to be at their best (128 KiB and more), small
/// enough that a few sweeps of many drives fit in memory.
pub const SWEEP_BLOCKS: u32 = 64;

/// A row of a chunk that was decoded, and what is known of its neighbour; none when too little of the
/// stripe is left.
pub type RestoredRow = Option<(Frame, Option<Protected>)>;

/// Purpose of a sweep.
#[derive(Clone, Debug)]
pub enum SweepPurpose {
    /// The rebuild of a member wants its chunks, for these slots of the zone of a lane.
    Rebuild {
        /// Lane of the rebuild.
        lane: usize,
        /// Slots of its zone.
        slots: Range<u32>,
    },
    /// The scrub wants all of them.
    Scrub,
}

/// Stripes of a segment that are being read.
#[derive(Debug)]
pub struct Sweep {
    /// The segment, pinned.
    pub segment: SegmentSlot,
    /// In ascending order.
    pub stripes: Vec<StripeNumber>,
    purpose: SweepPurpose,
    members: usize,
    rows: u32,
    /// Blocks that are whole: by stripe, piece and row.
    blocks: Vec<Option<Frame>>,
    commands_pending: u32,
}

impl Sweep {
    fn block_index(&self, index: usize, piece: Piece, row: u32) -> usize {
        debug_assert!(piece.index() < self.members, "piece {piece} of {}", self.members);
        debug_assert!(row < self.rows, "row {row} of {}", self.rows);
        (index * self.members + piece.index()) * self.rows as usize + row as usize
    }

    /// A block of the stripe at `index` of the list; `None` when it is not there or not whole.
    #[must_use]
    pub fn block(&self, index: usize, piece: Piece, row: u32) -> Option<&Frame> {
        self.blocks[self.block_index(index, piece, row)].as_ref()
    }

    /// Returns the index of a stripe in the list.
    #[must_use]
    pub fn index_of(&self, stripe: StripeNumber) -> Option<usize> {
        self.stripes.binary_search(&stripe).ok()
    }
}

/// Stripes of one sweep.
#[must_use]
pub fn stripes_per_sweep(chunk_blocks: u32) -> u32 {
    assert!(chunk_blocks > 0, "chunks hold blocks");
    (SWEEP_BLOCKS / chunk_blocks).max(1)
}

impl Shard {
    /// Reads stripes of a segment, given in ascending order, from every drive that has them.
    pub(super) fn start_sweep(
        &mut self,
        segment: SegmentSlot,
        stripes: Vec<StripeNumber>,
        purpose: SweepPurpose,
        fx: &mut Effects,
    ) {
        assert!(!stripes.is_empty(), "a sweep reads something");
        assert!(stripes.is_sorted(), "the stripes of a sweep ascend");
        let state = self.core.segments.get_mut(segment);
        state.pin();
        let (members, rows) = (state.layout.members(), state.layout.chunk_blocks);
        let count = stripes.len() * members * rows as usize;
        let blocks = (0..count).map(|_| None).collect();
        // One command more than there are, so that the sweep cannot end before all are sent.
        let slot = self.reader.sweeps.insert(Sweep {
            segment,
            stripes,
            purpose,
            members,
            rows,
            blocks,
            commands_pending: 1,
        });
        for drive in 0..members {
            self.reader.sweep_drive(&mut self.core, slot, drive, fx);
        }
        self.sweep_answered(slot);
    }

    /// A drive has answered a command of a sweep: the first try, or with `part` 1 the second.
    pub(super) fn on_sweep(
        &mut self,
        slot: u32,
        part: u32,
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        let Completion { token, status, mut frames, zone, offset, .. } = completion;
        if status == Status::DeviceGone {
            self.core.fail_member(drive, Blame::answer(token, status), fx);
        }
        let segment = self.reader.sweeps.get(slot).segment;
        let is_there = self.core.membership.has_zone(self.core.segments.get(segment), drive);
        for (offset, frame) in (offset..).zip(frames.drain(..)) {
            let location = Location { drive: DriveIndex::at(drive), zone, offset };
            let place = self.core.place_at(segment, location).expect("the slot holds a stripe");
            if status == Status::Success && block_is_whole(&frame, &place) {
                let sweep = self.reader.sweeps.get_mut(slot);
                let index = sweep.index_of(place.stripe).expect("a stripe of the sweep");
                let at = sweep.block_index(index, place.piece, u32::from(place.row));
                sweep.blocks[at] = Some(frame);
            } else if part == 0 && is_there {
                let mut frames = self.core.frames.take_vec(0);
                frames.push(frame);
                self.reader.sweeps.get_mut(slot).commands_pending += 1;
                fx.command(drive, zone, Waiter::Sweep { slot, part: 1 }, Op::Read { offset, frames });
            } else {
                let is_scrub = matches!(self.reader.sweeps.get(slot).purpose, SweepPurpose::Scrub);
                if is_scrub && is_there {
                    self.core.name_scrubbed(segment, location, &frame, status);
                }
                self.core.note_damage(segment, location, &frame, status);
                self.core.frames.give(frame);
            }
        }
        self.core.frames.give_vec(frames);
        self.sweep_answered(slot);
    }

    /// Notes that a sweep has one command less to wait for.
    fn sweep_answered(&mut self, slot: u32) {
        let sweep = self.reader.sweeps.get_mut(slot);
        assert!(sweep.commands_pending > 0, "a command of a sweep is answered once");
        sweep.commands_pending -= 1;
        if sweep.commands_pending > 0 {
            return;
        }
        let mut sweep = self.reader.sweeps.remove(slot);
        match sweep.purpose.clone() {
            SweepPurpose::Rebuild { lane, slots } => {
                self.member_rebuild.chunks_restored(&mut self.core, lane, slots, &sweep)
            }
            SweepPurpose::Scrub => self.scrub.stripes_swept(&mut self.core, &sweep),
        }
        for frame in sweep.blocks.drain(..).flatten() {
            self.core.frames.give(frame);
        }
        self.core.segments.get_mut(sweep.segment).unpin();
    }
}

impl Reader {
    fn sweep_drive(&mut self, core: &mut Core, slot: u32, drive: usize, fx: &mut Effects) {
        let sweep = self.sweeps.get(slot);
        let segment = core.segments.get(sweep.segment);
        if !core.membership.has_zone(segment, drive) {
            return;
        }
        let (layout, zone) = (segment.layout, segment.zones[drive]);
        let places = sweep.stripes.iter().filter_map(|stripe| segment.slot_of_stripe(drive, *stripe));
        let mut slots: Vec<u32> = places.collect();
        slots.sort_unstable();
        let per_command = (core.config.geometry.transfer_blocks_max / layout.chunk_blocks).max(1) as usize;
        let runs = slots.chunk_by(|a, b| a + 1 == *b);
        for run in runs.flat_map(|run| run.chunks(per_command)) {
            let frames = core.frames.take_vec(run.len() * layout.chunk_blocks as usize);
            self.sweeps.get_mut(slot).commands_pending += 1;
            let op = Op::Read { offset: layout.slot_offset(run[0]), frames };
            fx.command(drive, zone, Waiter::Sweep { slot, part: 0 }, op);
        }
    }
}

impl Core {
    /// The rows of a stripe's chunk on a member that lacks it, each with what its metadata says of its
    /// neighbour.
    pub(super) fn restore_rows(
        &mut self,
        sweep: &Sweep,
        stripe: StripeNumber,
        member: usize,
    ) -> Vec<RestoredRow> {
        let layout = self.segments.get(sweep.segment).layout;
        let index = sweep.index_of(stripe).expect("a stripe of the sweep");
        let lost = layout.piece_of(stripe, member);
        let neighbour = oob::neighbour_of(lost, &layout.code);
        let restored = (0..sweep.rows).map(|row| {
            let good: Vec<(Piece, &Frame)> = (layout.code.pieces().iter())
                .filter_map(|piece| Some((piece, sweep.block(index, piece, row)?)))
                .collect();
            let frame = self.decode(lost, &good)?;
            // A lone data piece is its own neighbour.
            let protected = match sweep.block(index, neighbour, row) {
                _ if neighbour == lost => Protected::from_bytes(&frame.oob),
                Some(neighbour) => Protected::from_bytes(&neighbour.oob),
                // It is lost with another member.
                None => self.decode(neighbour, &good).and_then(|decoded| {
                    let protected = Protected::from_bytes(&decoded.oob);
                    self.frames.give(decoded);
                    protected
                }),
            };
            Some((frame, protected))
        });
        restored.collect()
    }
}
