//! Chunks: the pieces of stripes on their way to the zones of a segment.
//!
//! ```text
//!  bind ─> waiting ─> pump_zone: append, or write at the write pointer ─> on_chunk ─> piece_done ─> StripeDurable
//!            │             as many as the zone's rule allows (`writer.rs`)      │
//!            └────────────────── a member failed ───────────────────────────────┘
//! ```

use crate::engine::Effects;
use crate::log::append::Appender;
use crate::log::core::Core;
use crate::log::core::Event;
use crate::log::segment::SegmentSlot;
use crate::log::stripe::{StripeSlot, Stripes};
use crate::log::token::Waiter;
use crate::log::writer::WaitingChunk;
use base::erasure::Piece;
use base::frame::Frame;
use zone::device::Op;
use zone::device::Status;
use zone::format::footer::Entry;
use zone::format::header::WriteMode;
use zone::format::oob::Role;
use zone::stripe::StripeNumber;

impl Appender<'_> {
    /// Hands the chunks of a zone to its drive, as many as its rule allows.
    pub(super) fn pump_zone(&mut self, segment_slot: SegmentSlot, drive: usize, fx: &mut Effects) {
        while let Some(chunk) = self.core.segments.get_mut(segment_slot).next_chunk(drive) {
            let mut frames =
                std::mem::take(&mut self.stripes.slots.get_mut(chunk.slot).pieces[chunk.piece.index()]);
            assert!(!frames.is_empty(), "piece {} of stripe {} was sent already", chunk.piece, chunk.stripe);
            let segment = self.core.segments.get(segment_slot);
            let zone = segment.zones[drive];
            let op = match segment.mode {
                WriteMode::Append => Op::Append { frames },
                WriteMode::Area => {
                    Op::Write { offset: segment.layout.slot_offset(chunk.stripe.static_slot()), frames }
                }
                WriteMode::Write => {
                    let offset = segment.layout.slot_offset(chunk.stripe.static_slot());
                    self.join_chunks(segment_slot, drive, chunk.stripe, &mut frames);
                    Op::Write { offset, frames }
                }
            };
            if let Op::Append { frames } | Op::Write { frames, .. } = &op {
                self.core.segments.note_sent(segment_slot, drive, &chunk, frames.len());
            }
            fx.command(drive, zone, Waiter::Chunk { slot: chunk.slot, piece: chunk.piece }, op);
        }
    }

    /// More stripes of a segment in area mode are durable: windows may move on.
    pub(super) fn pump_windows(&mut self, segment: SegmentSlot, fx: &mut Effects) {
        for drive in 0..self.core.config.members {
            if !self.core.segments.writer_mut(segment).zones[drive].waiting.is_empty() {
                self.pump_zone(segment, drive, fx);
            }
        }
    }

    /// Chunks that wait for a zone behind the one of `stripe` go along in its command, as many as one may have.
    #[inline(never)] // Kept out of the way of chunks that go alone: 40 instructions of each.
    fn join_chunks(
        &mut self,
        segment_slot: SegmentSlot,
        drive: usize,
        stripe: StripeNumber,
        frames: &mut Vec<Frame>,
    ) {
        if self.core.segments.writer_mut(segment_slot).zones[drive].waiting.is_empty() {
            return;
        }
        let blocks_max = self.space().joined_blocks_max() as usize;
        let zone = &mut self.core.segments.writer_mut(segment_slot).zones[drive];
        let chunk_blocks = frames.len();
        let mut last = stripe;
        while frames.len() + chunk_blocks <= blocks_max
            && let Some(next) = zone.next_joined(last)
        {
            frames.append(&mut self.stripes.slots.get_mut(next.slot).pieces[next.piece.index()]);
            last = next.stripe;
        }
        assert!(
            frames.len() <= blocks_max.max(chunk_blocks),
            "{} blocks are joined where a command may have {blocks_max}",
            frames.len()
        );
    }
}

impl Stripes {
    /// A piece of a stripe was written, or was not. Returns its segment, if more waits for the zone.
    pub(super) fn land(
        &mut self,
        core: &mut Core,
        (slot, piece): (StripeSlot, Piece),
        drive: usize,
        (status, offset): (Status, u32),
        fx: &mut Effects,
    ) -> Option<SegmentSlot> {
        let stripe = self.slots.get_mut(slot);
        let (segment_slot, number) = (stripe.segment, stripe.stripe);
        let segment = core.segments.get_mut(segment_slot);
        let layout = &segment.layout;
        let group = layout.group_of(number);
        let refused = status != Status::Success;
        let landed = match segment.mode {
            _ if refused => None,
            WriteMode::Write | WriteMode::Area => Some(number.static_slot()),
            WriteMode::Append => layout
                .slot_at(offset)
                .and_then(|(at, row)| (row == 0 && layout.group_of_slot(at) == group).then_some(at)),
        };
        match landed {
            Some(landed) if core.membership.has_zone(segment, drive) => {
                let role = Role::of(piece, &layout.code);
                let rows = stripe.pieces[piece.index()].iter().map(|frame| {
                    Entry::from_protected(&frame.oob, role, number).expect("metadata this engine wrote")
                });
                let zone = &mut segment.writer.as_mut().expect("stripes are in flight").zones[drive];
                // Whatever order a drive chooses, chunks fill as many slots as there are chunks.
                if landed >= zone.landed + zone.in_flight {
                    core.strangers.insert(drive);
                }
                zone.land(layout, landed, rows);
                let has_more = !zone.waiting.is_empty();
                if let Some(table) = &mut segment.table {
                    table.set(drive, landed, layout.within_group(number));
                }
                stripe.landed_slots[piece.index()] = landed;
                has_more.then_some(segment_slot)
            }
            // A zone that takes no more writes; or another error, a drive that is gone, or one that placed a chunk outside
            // its group, as it does behind those of another server: the drive no longer holds its part of this stripe and must not
            // be believed.
            _ => {
                if landed.is_none() && !refused {
                    core.strangers.insert(drive);
                }
                core.write_failed(segment_slot, drive, status, fx);
                self.lose_piece(core, slot, piece, drive);
                None
            }
        }
    }

    /// Notes that a stripe has one piece less to wait for.
    pub(super) fn piece_done(&mut self, core: &mut Core, slot: StripeSlot) {
        let stripe = self.slots.get_mut(slot);
        assert!(stripe.pieces_pending > 0, "a piece of stripe {} is done once", stripe.stripe);
        stripe.pieces_pending -= 1;
        if stripe.pieces_pending > 0 {
            return;
        }
        // Without a piece, the stripe counts only once the superblocks say that its drive is out.
        if core.lacks_piece_of_member(stripe) {
            core.events.push_back(Event::StripeRefused(slot));
        } else if !stripe.pieces_lost.is_empty() && core.membership.is_changing() {
            core.membership.stripes_waiting.push(slot);
        } else {
            core.events.push_back(Event::StripeDurable(slot));
        }
    }

    /// Chunks that wait for a zone of a failed drive will never be written.
    pub(super) fn drop_waiting_chunks(&mut self, core: &mut Core, drive: usize) {
        let slots: Vec<SegmentSlot> = core
            .segments
            .iter()
            .filter(|(_, segment)| segment.writer.is_some())
            .map(|(slot, _)| slot)
            .collect();
        for segment in slots {
            self.drop_chunks_of_zone(core, segment, drive);
        }
    }

    /// Chunks that wait for a zone will never be written.
    pub(super) fn drop_chunks_of_zone(&mut self, core: &mut Core, segment: SegmentSlot, drive: usize) {
        let waiting: Vec<WaitingChunk> =
            core.segments.writer_mut(segment).zones[drive].waiting.drain(..).collect();
        for chunk in waiting {
            self.lose_piece(core, chunk.slot, chunk.piece, drive);
            self.piece_done(core, chunk.slot);
        }
    }
}
