//! Chunks: the pieces of stripes on their way to the zones of a segment.
//!
//! ```text
//!  bind ─> waiting ─> pump_zone: append, or write at the write pointer ─> on_chunk ─> piece_done ─> StripeDurable
//!            │             as many as the zone's rule allows (`writer.rs`)      │
//!            └────────────────── a member failed ───────────────────────────────┘
//! ```

use crate::engine::Effects;
use crate::log::Shard;
use crate::log::core::Event;
use crate::log::segment::SegmentSlot;
use crate::log::token::Waiter;
use crate::log::writer::WaitingChunk;
use base::frame::Frame;
use zone::device::Op;
use zone::device::Status;
use zone::format::footer::Entry;
use zone::format::header::WriteMode;
use zone::format::oob::Role;

impl Shard {
    /// A piece of a stripe was written, or was not.
    pub(super) fn on_piece(
        &mut self,
        (slot, piece): (u32, usize),
        drive: usize,
        (status, offset): (Status, u32),
        fx: &mut Effects,
    ) {
        let stripe = self.stripes.slots.get_mut(slot);
        let (segment_slot, number) = (stripe.segment, stripe.stripe);
        let segment = self.core.segments.get_mut(segment_slot);
        let layout = &segment.layout;
        let group = layout.group_of(number);
        let refused = status != Status::Success;
        let landed = match segment.mode {
            _ if refused => None,
            WriteMode::Write => Some(number),
            WriteMode::Append => layout
                .slot_at(offset)
                .and_then(|(at, row)| (row == 0 && layout.group_of(at) == group).then_some(at)),
        };
        match landed {
            Some(landed) if self.core.membership.has_zone(segment, drive) => {
                let role = if piece < layout.code.data_count() { Role::Data } else { Role::Parity };
                let rows = stripe.pieces[piece].iter().map(|frame| {
                    Entry::from_protected(&frame.oob, role, number).expect("metadata this engine wrote")
                });
                let zone = &mut segment.writer.as_mut().expect("stripes are in flight").zones[drive];
                zone.land(layout, landed, rows);
                let has_more = !zone.waiting.is_empty();
                if let Some(table) = &mut segment.table {
                    table.set(drive, landed, number - layout.group_start(group));
                }
                stripe.landed_slots[piece] = landed;
                // Mostly not: a call for each chunk would cost a write some thirty instructions.
                if has_more {
                    self.pump_zone(segment_slot, drive, fx);
                }
            }
            // A write error, a drive that is gone, or one that placed a chunk outside its group: the
            // drive no longer holds its part of this stripe and must not be believed.
            _ => {
                self.core.fail_member(drive, fx);
                self.stripes.lose_piece(&mut self.core, slot, piece, drive);
            }
        }
        self.piece_done(slot);
    }

    /// Notes that a stripe has one piece less to wait for.
    pub(super) fn piece_done(&mut self, slot: u32) {
        let stripe = self.stripes.slots.get_mut(slot);
        assert!(stripe.pieces_pending > 0);
        stripe.pieces_pending -= 1;
        if stripe.pieces_pending > 0 {
            return;
        }
        // Without a piece, the stripe counts only once the superblocks say that its drive is out.
        if !stripe.pieces_lost.is_empty() && self.core.membership.is_changing() {
            self.core.membership.stripes_waiting.push(slot);
        } else {
            self.core.events.push_back(Event::StripeDurable(slot));
        }
    }

    /// Hands the chunks of a zone to its drive, as many as its rule allows.
    pub(super) fn pump_zone(&mut self, segment_slot: u32, drive: usize, fx: &mut Effects) {
        while let Some(chunk) = self.core.segments.get_mut(segment_slot).next_chunk(drive) {
            let mut frames =
                std::mem::take(&mut self.stripes.slots.get_mut(chunk.slot).pieces[chunk.piece as usize]);
            let segment = self.core.segments.get(segment_slot);
            let zone = segment.zones[drive];
            let op = match segment.mode {
                WriteMode::Append => Op::Append { frames },
                WriteMode::Write => {
                    let offset = segment.layout.slot_offset(chunk.stripe);
                    self.join_chunks(segment_slot, drive, chunk.stripe, &mut frames);
                    Op::Write { offset, frames }
                }
            };
            fx.command(drive, zone, Waiter::Chunk { slot: chunk.slot, part: chunk.piece }, op);
        }
    }

    /// Chunks that wait for a zone behind the one of `stripe` go along in its command, as many as one may have.
    #[inline(never)] // Kept out of the way of chunks that go alone: 40 instructions of each.
    fn join_chunks(&mut self, segment_slot: SegmentSlot, drive: usize, stripe: u32, frames: &mut Vec<Frame>) {
        if self.core.segments.writer_mut(segment_slot).zones[drive].waiting.is_empty() {
            return;
        }
        let blocks_max = self.space().joined_blocks_max(self.core.segments.get(segment_slot).stream) as usize;
        let zone = &mut self.core.segments.writer_mut(segment_slot).zones[drive];
        let chunk_blocks = frames.len();
        let mut last = stripe;
        while frames.len() + chunk_blocks <= blocks_max
            && let Some(next) = zone.next_joined(last)
        {
            frames.append(&mut self.stripes.slots.get_mut(next.slot).pieces[next.piece as usize]);
            last = next.stripe;
        }
    }

    /// Chunks that wait for a zone of a failed drive will never be written.
    pub(super) fn drop_waiting_chunks(&mut self, drive: usize) {
        let slots: Vec<u32> = self
            .core
            .segments
            .iter()
            .filter(|(_, segment)| segment.writer.is_some())
            .map(|(slot, _)| slot)
            .collect();
        for segment in slots {
            let waiting: Vec<WaitingChunk> =
                self.core.segments.writer_mut(segment).zones[drive].waiting.drain(..).collect();
            for chunk in waiting {
                let piece = chunk.piece as usize;
                let mut frames = std::mem::take(&mut self.stripes.slots.get_mut(chunk.slot).pieces[piece]);
                self.core.frames.give_many(&mut frames);
                self.stripes.slots.get_mut(chunk.slot).pieces[piece] = frames;
                self.stripes.lose_piece(&mut self.core, chunk.slot, piece, drive);
                self.piece_done(chunk.slot);
            }
        }
    }
}
