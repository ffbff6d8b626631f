//! Stripes as they fill: blocks are placed, padded, and closed with their parity.
//!
//! ```text
//!  place ─> filling stripe ─> seal_filling: recut, pad, encode ─> pump_stream (`streams.rs`) ─> bind (`segment_life.rs`)
//! ```

use crate::log::Effects;
use crate::log::append::Appender;
use crate::log::core::Core;
use crate::log::index::Name;
use crate::log::stripe::Stripes;
use crate::log::stripe::{Origin, StripeBlock, StripeSlot};
use base::checksum::{crc32c, crc32c_zero_block};
use base::erasure::Piece;
use base::frame::Frame;
use base::time::Instant;
use base::xor::Block;
use zone::format::header::Stream;
use zone::format::oob::{self, Kind, LBA_NONE, Protected};

/// A block on its way into a stripe.
pub struct Placement {
    /// Data of the block.
    pub frame: Frame,
    /// Metadata that parity protects.
    pub protected: Protected,
    /// Name of which the block is a copy, if any.
    pub name: Option<Name>,
    /// Why it is written.
    pub origin: Origin,
    /// Checksum of the data, where it is known already.
    pub data_crc: u32,
}

impl Appender<'_> {
    /// Puts a block into the filling stripe of a stream; the caller has made sure there is room.
    pub(super) fn place(&mut self, stream: Stream, now: Instant, placement: Placement, fx: &mut Effects) {
        let Placement { mut frame, protected, name, origin, data_crc } = placement;
        let slot = match self.stripes.stream(stream).filling {
            Some(slot) => slot,
            None => self.stripes.slots.take(stream, now).expect("the caller checked for a free stripe slot"),
        };
        self.stripes.stream(stream).filling = Some(slot);
        let chunk_blocks = self.stripes.stream(stream).chunk_blocks as usize;
        let stripe = self.stripes.slots.get_mut(slot);
        *oob::protected_mut(&mut frame.oob) = protected.to_bytes();
        let piece = stripe.blocks.len() / chunk_blocks;
        debug_assert!(stripe.stream == stream, "a block gathers with those of its stream");
        debug_assert!(piece < stripe.pieces.len(), "a filling stripe has room");
        stripe.pieces[piece].push(frame);
        stripe.blocks.push(StripeBlock { protected, name, origin, data_crc });
        if stripe.blocks.len() == self.stripes.stream(stream).stripe_data_blocks as usize {
            self.seal_filling(stream, fx);
        }
    }

    /// Puts a part of the index into the filling stripe of a stream, under a name of its own; the caller has made sure
    /// there is room.
    pub(super) fn place_mapping_block(
        &mut self,
        stream: Stream,
        now: Instant,
        (frame, name, origin): (Frame, Name, Origin),
        fx: &mut Effects,
    ) {
        let protected = Protected { lba: name.lba(), sequence: self.core.next_sequence, kind: Kind::Mapping };
        self.core.next_sequence += 1;
        let data_crc = crc32c(&frame.data);
        self.place(stream, now, Placement { frame, protected, name: Some(name), origin, data_crc }, fx);
    }

    /// Closes the filling stripe of a stream: padding, parity, and off to a segment. What would be padded goes to the write area,
    /// where there is one.
    pub(super) fn seal_filling(&mut self, stream: Stream, fx: &mut Effects) {
        let Some(slot) = self.stripes.stream(stream).filling.take() else { return };
        self.note_fill(stream, slot);
        if self.spill(slot, fx) || self.recut(slot, fx) {
            return;
        }
        self.stripes.pad(self.core, slot, stream);
        self.stripes.encode(self.core, slot);
        self.stripes.stream(stream).sealed.push_back(slot);
        self.pump_stream(stream, fx);
    }

    /// A stripe of clients' is closed.
    fn note_fill(&mut self, stream: Stream, slot: StripeSlot) {
        let blocks = self.stripes.slots.get(slot).blocks.len();
        let of = self.stripes.streams[stream.index()].stripe_data_blocks as usize;
        match stream {
            Stream::Large => self.stripes.fill.note_large(blocks, of),
            Stream::Small => self.stripes.fill.note_small(),
            Stream::Gc | Stream::Cold | Stream::Mapping => {}
        }
    }

    /// The blocks of a stripe that was not closed go to the filling one of another stream; its slot is free.
    pub(super) fn regather(&mut self, slot: StripeSlot, to: Stream, fx: &mut Effects) {
        let stripe = self.stripes.slots.get(slot);
        let (count, opened_at) = (stripe.blocks.len(), stripe.opened_at);
        assert!(stripe.stream != to, "blocks go to another stream");
        assert!(stripe.pieces_pending == 0, "a stripe that was not closed is with no drive");
        let chunk_blocks = self.stripes.streams[stripe.stream.index()].chunk_blocks as usize;
        for index in 0..count {
            let stripe = self.stripes.slots.get_mut(slot);
            let frame = stripe.pieces[index / chunk_blocks].remove(0);
            let block = stripe.blocks[index];
            let placement = Placement {
                frame,
                protected: block.protected,
                name: block.name,
                origin: block.origin,
                data_crc: block.data_crc,
            };
            self.place(to, opened_at, placement, fx);
        }
        self.stripes.slots.give(slot);
    }

    /// A stripe is to be closed. One of large chunks moves its blocks to one of small chunks if that holds them; true
    /// when it did.
    fn recut(&mut self, slot: StripeSlot, fx: &mut Effects) -> bool {
        if !self.stripes.can_recut(self.core, slot) {
            return false;
        }
        self.regather(slot, Stream::Small, fx);
        self.seal_filling(Stream::Small, fx);
        true
    }
}

impl Stripes {
    pub(super) fn pad(&mut self, core: &mut Core, slot: StripeSlot, stream: Stream) {
        let blocks = self.stream(stream).stripe_data_blocks as usize;
        let chunk_blocks = self.stream(stream).chunk_blocks as usize;
        let stripe = self.slots.get_mut(slot);
        while stripe.blocks.len() < blocks {
            let mut frame = core.frames.take();
            frame.data.fill(0);
            *oob::protected_mut(&mut frame.oob) = Protected::PADDING.to_bytes();
            stripe.pieces[stripe.blocks.len() / chunk_blocks].push(frame);
            stripe.blocks.push(StripeBlock {
                protected: Protected::PADDING,
                name: None,
                origin: Origin::Padding,
                data_crc: crc32c_zero_block(),
            });
            core.counters.padding_blocks_written += 1;
        }
    }

    /// Computes the parity pieces of a full stripe, data and protected metadata alike.
    pub(super) fn encode(&mut self, core: &mut Core, slot: StripeSlot) {
        let code = core.config.code();
        let stripe = self.slots.get_mut(slot);
        debug_assert!(stripe.pieces.len() == code.data_count() + code.parity_count());
        let (data, parities) = stripe.pieces.split_at_mut(code.data_count());
        for (parity, piece) in parities.iter_mut().enumerate() {
            for row in 0..data[0].len() {
                let mut frame = core.frames.take();
                let mut sources: [&Block; base::erasure::PIECES_MAX] =
                    [&data[0][row].data; base::erasure::PIECES_MAX];
                for (source, piece) in sources.iter_mut().zip(data.iter()) {
                    *source = &piece[row].data;
                }
                code.encode(parity, &sources[..code.data_count()], &mut frame.data);
                let fields = data.iter().map(|piece| oob::protected(&piece[row].oob));
                code.encode_field(parity, fields, oob::protected_mut(&mut frame.oob));
                piece.push(frame);
                core.counters.parity_blocks_written += 1;
            }
        }
    }

    /// A piece of a stripe is on no active drive. It still gets a slot, for the index to point to.
    pub(super) fn lose_piece(&mut self, core: &mut Core, slot: StripeSlot, piece: Piece, drive: usize) {
        let stripe = self.slots.get_mut(slot);
        stripe.pieces_lost.insert(piece);
        stripe.landed_slots[piece.index()] =
            core.segments.get_mut(stripe.segment).place_missing(drive, stripe.stripe);
    }
}

const _: () = assert!(LBA_NONE == u64::MAX);
