//! What both baselines are to whoever writes to them: volumes of logical zones.

use crate::Raizn;
use crate::zraid::Zraid;
use crate::zraid::config::logical_zones;
use array::engine::Engine;

/// An engine whose volume has zones.
pub trait Zoned: Engine {
    /// Count of logical zones.
    fn logical_zones(&self) -> u32;

    /// Position at which the next write to a logical zone must begin.
    fn write_pointer(&self, zone: u32) -> u32;

    /// True when a write to a logical zone may arrive: it has room, and may be open beside those that are.
    fn accepts_writes(&self, zone: u32) -> bool;

    /// The member that failed, if one has.
    fn failed_member(&self) -> Option<usize>;

    /// True when more members failed than the array can lose.
    fn is_broken(&self) -> bool;
}

impl Zoned for Raizn {
    fn logical_zones(&self) -> u32 {
        self.config().logical_zones()
    }

    fn write_pointer(&self, zone: u32) -> u32 {
        Raizn::write_pointer(self, zone)
    }

    fn accepts_writes(&self, zone: u32) -> bool {
        Raizn::accepts_writes(self, zone)
    }

    fn failed_member(&self) -> Option<usize> {
        Raizn::failed_member(self)
    }

    fn is_broken(&self) -> bool {
        Raizn::is_broken(self)
    }
}

impl Zoned for Zraid {
    fn logical_zones(&self) -> u32 {
        logical_zones(self.config())
    }

    fn write_pointer(&self, zone: u32) -> u32 {
        Zraid::write_pointer(self, zone)
    }

    fn accepts_writes(&self, zone: u32) -> bool {
        Zraid::accepts_writes(self, zone)
    }

    fn failed_member(&self) -> Option<usize> {
        Zraid::failed_member(self)
    }

    fn is_broken(&self) -> bool {
        Zraid::is_broken(self)
    }
}
