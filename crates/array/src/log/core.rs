//! The core of the engine: what the array is, where everything lies, and what is free. Every process may use it, and it asks
//! none of them.

use crate::log::config::{ArrayConfig, Tuning};
use crate::log::counters::Counters;
use crate::log::index::Index;
use crate::log::membership::Membership;
use crate::log::pba::PbaFormat;
use crate::log::rot::DamageLog;
use crate::log::segment::SegmentTable;
use base::frame::FramePool;

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
}
