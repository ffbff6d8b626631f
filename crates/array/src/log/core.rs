//! The core of the engine: what the array is, where everything lies, and what is free. Every process may use it, and it asks
//! none of them.

use crate::log::config::{ArrayConfig, Tuning};
use crate::log::counters::Counters;
use crate::log::index::{Index, Name};
use crate::log::membership::Membership;
use crate::log::pba::{Location, Pba, PbaFormat};
use crate::log::policy::decision::Decisions;
use crate::log::rot::DamageLog;
use crate::log::segment::{EPOCH_SHIFT_SEGMENT, Segment, SegmentSlot, SegmentState, SegmentTable};
use crate::log::stripe::StripeSlot;
use base::erasure::PieceSet;
use base::frame::FramePool;
use std::collections::VecDeque;
use zone::format::header::Stream;

/// Something that has happened, for the engine to tell the processes that it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A member is no longer believed.
    MemberFailed {
        /// The member.
        drive: usize,
        /// Set when it was being rebuilt.
        was_rebuilding: bool,
    },
    /// Every member knows which others are there.
    MembersRecorded,
    /// The headers of a segment are durable: it takes stripes.
    SegmentOpened(SegmentSlot),
    /// The zones of a segment of a stream are empty, and free.
    SegmentErased(Stream),
    /// A zone of a segment takes no more writes.
    ZoneRetired(SegmentSlot),
    /// A stripe lacks a piece in a zone that takes no more writes: it goes to another segment.
    StripeRefused(StripeSlot),
    /// Every piece of a stripe is where it must be.
    StripeDurable(StripeSlot),
    /// A stripe can be written nowhere.
    StripeFailed(StripeSlot),
    /// Every member knows which others are there, and slots of the write area waited for that.
    SlotsRecorded,
}

/// State that all processes share.
pub struct Core {
    /// Configuration of the array.
    pub config: ArrayConfig,
    /// Choices of this mount.
    pub tuning: Tuning,
    /// Tag of the array in the metadata of its blocks.
    pub array_tag: u64,
    /// Format of physical addresses.
    pub pba: PbaFormat,
    /// Map of names to addresses.
    pub index: Index,
    /// All segments, and the free zones.
    pub segments: SegmentTable,
    /// State of the members, and its record.
    pub membership: Membership,
    /// Members on whose drives there was something that this engine did not put there, or may be.
    pub strangers: PieceSet,
    /// The pool of all frames.
    pub frames: FramePool,
    /// Frames that the engine itself may need.
    pub frames_internal_max: usize,
    /// Counts since the mount.
    pub counters: Counters,
    /// Damage found since the mount.
    pub damage: DamageLog,
    /// Sequence of the next block.
    pub next_sequence: u64,
    /// Number of the next segment.
    pub next_segment_id: u64,
    /// Decisions of the policy, for whoever asks.
    pub decisions: Decisions,
    /// Events that the processes were not told.
    pub events: VecDeque<Event>,
}

impl Core {
    /// Points a name at its newest copy and keeps the segments' live counts.
    /// Returns the stream that the copy before lies in.
    pub(super) fn map(&mut self, name: Name, pba: Pba) -> Option<Stream> {
        let segment = self.segment_at(pba);
        self.segments.get_mut(segment).live_blocks += 1;
        debug_assert!(
            !matches!(self.segments.get(segment).state, SegmentState::Resetting { .. }),
            "nothing points into what is erased"
        );
        let before = self.index.set(name, pba)?;
        Some(self.forget(before))
    }

    /// The block at `pba` is no longer the newest copy of anything. Returns the stream that it lies in.
    pub(super) fn forget(&mut self, pba: Pba) -> Stream {
        let slot = self.segment_at(pba);
        let segment = self.segments.get_mut(slot);
        assert!(segment.live_blocks > 0);
        segment.live_blocks -= 1;
        segment.stream
    }

    /// True for a segment that was opened since the mount.
    pub(super) fn is_of_this_mount(&self, segment: &Segment) -> bool {
        segment.id >> EPOCH_SHIFT_SEGMENT == self.next_segment_id >> EPOCH_SHIFT_SEGMENT
    }

    /// The segment an address lies in.
    pub(super) fn segment_at(&self, pba: Pba) -> SegmentSlot {
        let Location { drive, zone, .. } = self.pba.unpack(pba);
        self.segments.owner(drive, zone).expect("an address lies in a segment")
    }

    /// Another server may have been at a block: no command that is given from now on is carried out before drives were looked at.
    pub(super) fn suspect_another_server(&mut self, pba: Pba) {
        self.strangers.insert(self.pba.unpack(pba).drive.index());
    }
}
