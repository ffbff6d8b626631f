//! Work that recovery leaves to the serving engine: blocks without the redundancy that was promised, and tombstones that
//! cannot be read.

use crate::log::flush::RecoveryFlush;
use crate::log::index::Region;
use crate::log::segment::SegmentSlot;
use zone::stripe::StripeNumber;

/// State of what recovery left to do.
pub struct Rescue {
    /// Stripes that recovery could not complete in place: their blocks are moved.
    pub weak: Vec<(SegmentSlot, StripeNumber)>,
    /// Regions whose tombstone recovery could not read: it is written anew before anything is collected.
    pub doubtful: Vec<Region>,
    /// Set while those are being written anew.
    pub recording_doubt: bool,
    /// Blocks of the write area that a mount found and that are not in the log yet.
    pub slots: u32,
    /// Flush of what recovery wrote.
    pub flush: RecoveryFlush,
    /// Set when a member failed before the weak stripes were moved.
    pub is_void: bool,
}

impl Rescue {
    /// What a mount found.
    #[must_use]
    pub fn new(weak: Vec<(SegmentSlot, StripeNumber)>, doubtful: Vec<Region>) -> Rescue {
        assert!(doubtful.is_sorted(), "regions are in order");
        Rescue { weak, doubtful, recording_doubt: false, slots: 0, flush: RecoveryFlush::Due, is_void: false }
    }
}
