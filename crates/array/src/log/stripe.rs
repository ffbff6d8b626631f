//! Stripes in flight: blocks gather in a slot, are sealed with parity, written, and acknowledged
//! together. The stripe waits, not the write.
//!
//! ```text
//!  Free ──> Filling ──> Sealed ──> Writing ──> (Waiting for membership) ──> Free
//!                         ^           │
//!                         └───────────┘ a zone took no more writes (`retired.rs`)
//! ```
//! Frames move into the slot with their block, leave with the chunk's command, come back with its
//! completion, and go home when the stripe is durable.

use crate::log::index::Name;
use crate::log::pba::Pba;
use crate::log::policy::fill::Fill;
use crate::log::policy::skew::Skew;
use crate::log::requests::RequestSlot;
use crate::log::segment::SegmentSlot;
use crate::log::streams::StreamWriter;
use base::erasure::{Piece, PieceSet};
use base::frame::Frame;
use base::time::Instant;
use zone::format::header::Stream;
use zone::format::oob::Protected;
use zone::stripe::StripeNumber;

/// Why a block is in a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A request waits for it.
    Request(RequestSlot),
    /// The collector moves it from here.
    Moved(Pba),
    /// The block was found damaged here, rebuilt, and moves.
    Repaired(Pba),
    /// The block leaves this slot of the write area.
    Slot(u32),
    /// The block belongs to a checkpoint that is being written.
    Checkpoint,
    /// The block holds a group of the index.
    Index,
    /// The block holds a group of the index and is a copy of what lies here.
    IndexCopy(Pba),
    /// The block says what its segment holds.
    Summary,
    /// The block fills the stripe up.
    Padding,
}

/// A data block of a stripe.
#[derive(Clone, Copy, Debug)]
pub struct StripeBlock {
    /// Metadata that parity protects.
    pub protected: Protected,
    /// Name of which the block is the newest copy, if it wins.
    pub name: Option<Name>,
    /// Why it is here.
    pub origin: Origin,
    /// Checksum of its data.
    pub data_crc: u32,
}

/// Index of a stripe in flight among [`StripeSlots`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeSlot(pub u32);

impl StripeSlot {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// A stripe slot.
#[derive(Debug)]
pub struct Stripe {
    /// Stream whose blocks the stripe holds.
    pub stream: Stream,
    /// Data blocks of the stripe, in order of arrival.
    pub blocks: Vec<StripeBlock>,
    /// Frames of each piece that are here (not with a drive).
    pub pieces: Vec<Vec<Frame>>,
    /// Slot in its zone where each piece landed.
    pub landed_slots: Vec<u32>,
    /// Time at which the first block arrived.
    pub opened_at: Instant,
    /// Segment it is written to.
    pub segment: SegmentSlot,
    /// Stripe within that segment.
    pub stripe: StripeNumber,
    /// Pieces that wait for their zone or are with a drive.
    pub pieces_pending: u32,
    /// Pieces that are on no active drive, or in no zone.
    pub pieces_lost: PieceSet<Piece>,
    /// A drive that is gone had some of its frames: what they hold is not known.
    pub is_spoilt: bool,
    /// Time at which its pieces went to their zones, if it had its segment for itself.
    pub alone_since: Option<Instant>,
}

/// All stripe slots. Each stream has its own, so that clients can never keep the collector from
/// freeing the space they wait for.
#[derive(Debug)]
pub struct StripeSlots {
    slots: Vec<Stripe>,
    free: [Vec<StripeSlot>; Stream::COUNT],
    counts: [usize; Stream::COUNT],
}

impl StripeSlots {
    /// Slots for stripes of `pieces` chunks, for each stream so many of so many blocks.
    #[must_use]
    pub fn new(
        counts: [usize; Stream::COUNT],
        pieces: usize,
        chunk_blocks: [usize; Stream::COUNT],
    ) -> StripeSlots {
        assert!(pieces > 0, "a stripe has pieces");
        assert!(chunk_blocks.iter().all(|blocks| *blocks > 0), "a chunk has blocks");
        let mut slots = Vec::new();
        let mut free = [const { Vec::new() }; Stream::COUNT];
        for stream in Stream::ALL {
            let chunk_blocks = chunk_blocks[stream.index()];
            for _ in 0..counts[stream.index()] {
                free[stream.index()].push(StripeSlot(u32::try_from(slots.len()).expect("few slots")));
                slots.push(Stripe {
                    stream,
                    blocks: Vec::with_capacity(pieces * chunk_blocks),
                    pieces: (0..pieces).map(|_| Vec::with_capacity(chunk_blocks)).collect(),
                    landed_slots: vec![0; pieces],
                    alone_since: None,
                    opened_at: Instant(0),
                    segment: SegmentSlot(0),
                    stripe: StripeNumber(0),
                    pieces_pending: 0,
                    pieces_lost: PieceSet::EMPTY,
                    is_spoilt: false,
                });
            }
        }
        StripeSlots { slots, free, counts }
    }

    /// Takes a free slot of a stream.
    pub fn take(&mut self, stream: Stream, now: Instant) -> Option<StripeSlot> {
        let slot = self.free[stream.index()].pop()?;
        let stripe = self.get_mut(slot);
        assert!(stripe.blocks.is_empty());
        debug_assert!(stripe.stream == stream, "each stream has slots of its own");
        stripe.opened_at = now;
        stripe.pieces_pending = 0;
        stripe.pieces_lost = PieceSet::EMPTY;
        stripe.is_spoilt = false;
        Some(slot)
    }

    /// Gives a slot back.
    ///
    /// # Panics
    /// When frames or chunks are still out.
    pub fn give(&mut self, slot: StripeSlot) {
        let stripe = self.get_mut(slot);
        assert!(stripe.pieces_pending == 0);
        assert!(stripe.pieces.iter().all(Vec::is_empty));
        debug_assert!(
            stripe.pieces_lost.count() <= stripe.pieces.len(),
            "no more pieces are lost than there are"
        );
        stripe.blocks.clear();
        let stream = stripe.stream;
        self.free[stream.index()].push(slot);
    }

    /// Stripes of a segment that are with drives or wait for them, in no order.
    #[must_use]
    pub fn in_flight(&self, segment: SegmentSlot) -> Vec<StripeNumber> {
        let bound = self.slots.iter().filter(|stripe| stripe.pieces_pending > 0 && stripe.segment == segment);
        bound.map(|stripe| stripe.stripe).collect()
    }

    /// Slots of a stream in use.
    #[must_use]
    pub fn in_use(&self, stream: Stream) -> usize {
        self.counts[stream.index()] - self.free[stream.index()].len()
    }

    /// Slots of a stream.
    #[must_use]
    pub fn count(&self, stream: Stream) -> usize {
        self.counts[stream.index()]
    }

    /// A slot.
    #[must_use]
    pub fn get(&self, slot: StripeSlot) -> &Stripe {
        &self.slots[slot.index()]
    }

    /// A slot.
    pub fn get_mut(&mut self, slot: StripeSlot) -> &mut Stripe {
        &mut self.slots[slot.index()]
    }
}

/// Stripes that are gathered, sealed or in flight, and the segments that they go to.
pub struct Stripes {
    /// All stripe slots.
    pub slots: StripeSlots,
    /// Segments whose new chunks wait until all of a batch are there; none while chunks go to their zones at once.
    pub batch: Option<Vec<SegmentSlot>>,
    /// Writer of each stream.
    pub streams: [StreamWriter; Stream::COUNT],
    /// Skew of clients' writes.
    pub skew: Skew,
    /// Fill of stripes of large chunks.
    pub fill: Fill,
    /// Set while the blocks that the collector moves go to two segments, by their age.
    pub separates_survivors: bool,
    /// Set while a full segment must stay open because stripes of it are moved.
    pub sealing_waits: bool,
}

impl Stripes {
    /// Nothing is gathered, and nothing in flight.
    #[must_use]
    pub fn new(slots: StripeSlots, streams: [StreamWriter; Stream::COUNT], skew: Skew) -> Stripes {
        Stripes {
            slots,
            batch: None,
            streams,
            skew,
            fill: Fill::default(),
            separates_survivors: false,
            sealing_waits: false,
        }
    }
}
