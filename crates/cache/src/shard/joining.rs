//! Drives that an operator takes out of service and puts in.
//!
//! ```text
//!            take_out, or a failure             record settled, slots swept             join             record settled
//!   member ─────────────────────────> left out ────────────────────────────> place free ─────> joining ────────────────> member
//! ```
//! A drive that joins is empty, and has an identity that no record named before: what was in its place is never taken for it.
//! It holds the record that names it before the others do (`membership.rs`), and takes objects once that is settled.
//! Before it may join, the loss of the one before it is recorded, so that no mount believes that one again, and no slot of the
//! index leads to it any more, for pages are named by their place.

use super::{Drive, Shard};
use crate::config::{ACTIVE_ZONES_MIN, ZONES_MIN, active_zones, check_drive};
use std::fmt;
use zone::device::Geometry;

/// Why a drive cannot join, or leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BayRefusal {
    /// There is no such place.
    NoPlace {
        /// Drives of the cache.
        drives: usize,
    },
    /// The drive in the place works.
    Works,
    /// There is no drive in the place that works.
    Failed,
    /// What changed before is still being recorded: in a moment it will not be.
    Busy,
    /// Too many drives failed: the cache takes no writes.
    Frozen,
    /// Without the drive too few members would be left.
    Needed,
    /// The new drive is larger than its place in the index.
    TooLarge {
        /// Blocks that the place has.
        blocks: u32,
        /// Blocks of the drive.
        own: u64,
    },
    /// The new drive has too few zones, or allows too few active ones.
    TooFewZones {
        /// Its zones.
        zones: u32,
        /// Active zones that it allows.
        active: u32,
    },
}

impl fmt::Display for BayRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BayRefusal::NoPlace { drives } => write!(f, "the cache has {drives} drives, 0 to {}", drives - 1),
            BayRefusal::Works => f.write_str("it works: take it out first (`zoneweave cache drive fail`)"),
            BayRefusal::Failed => f.write_str("it has failed already"),
            BayRefusal::Busy => {
                f.write_str("what changed before is still being recorded: try again in a moment")
            }
            BayRefusal::Frozen => f.write_str(
                "too many drives failed, and the cache takes no writes: stop the server, bring drives back",
            ),
            BayRefusal::Needed => {
                f.write_str("too few of the members would be left, and the cache would take no writes")
            }
            BayRefusal::TooLarge { blocks, own } => {
                write!(
                    f,
                    "the new drive has {own} blocks, and its place is made for {blocks}: take one like the others"
                )
            }
            BayRefusal::TooFewZones { zones, active } => write!(
                f,
                "the new drive has {zones} zones and allows {active} active ones; a cache needs {ZONES_MIN} and \
                 {ACTIVE_ZONES_MIN}"
            ),
        }
    }
}

impl std::error::Error for BayRefusal {}

impl Shard {
    /// Judges whether a new drive may take a place now.
    ///
    /// # Errors
    /// When it may not.
    pub fn may_join(&self, place: usize, geometry: &Geometry) -> Result<(), BayRefusal> {
        let drives = self.drives.len();
        let drive = self.drives.get(place).ok_or(BayRefusal::NoPlace { drives })?;
        let is_read = drive.zones.iter().any(|zone| zone.readers > 0);
        let (blocks, own) = (drive.span, geometry.capacity_blocks());
        match () {
            () if drive.up => Err(BayRefusal::Works),
            () if self.membership.is_frozen() => Err(BayRefusal::Frozen),
            () if !self.membership.is_settled() || self.sweep.is_under_way() || is_read => {
                Err(BayRefusal::Busy)
            }
            () if check_drive(place, geometry).is_err() => {
                Err(BayRefusal::TooFewZones { zones: geometry.zones, active: active_zones(geometry) })
            }
            () if own > u64::from(blocks) => Err(BayRefusal::TooLarge { blocks, own }),
            () => Ok(()),
        }
    }

    /// An empty drive takes a place.
    ///
    /// # Panics
    /// When it may not ([`Shard::may_join`]).
    pub fn join(&mut self, place: usize, geometry: &Geometry, uuid: [u8; 16]) {
        let judged = self.may_join(place, geometry);
        assert!(judged.is_ok(), "drive {place} joins: {judged:?}");
        assert!(!self.membership.has_member(place), "the loss of the one before it is recorded");
        assert!(self.identity.drives.iter().all(|known| *known != uuid), "a drive that joins is new");
        let Drive { base, span, .. } = self.drives[place];
        self.drives[place] = Drive::empty(base, span, geometry);
        self.identity.drives[place] = uuid;
        self.membership.change();
    }

    /// Judges whether a drive may be taken out of service.
    ///
    /// # Errors
    /// When it may not.
    pub fn may_take_out(&self, place: usize) -> Result<(), BayRefusal> {
        let drives = self.drives.len();
        let drive = self.drives.get(place).ok_or(BayRefusal::NoPlace { drives })?;
        match () {
            () if !drive.up => Err(BayRefusal::Failed),
            () if self.membership.is_frozen() => Err(BayRefusal::Frozen),
            () if !self.membership.is_settled() => Err(BayRefusal::Busy),
            () if !self.can_record_without(place) => Err(BayRefusal::Needed),
            () => Ok(()),
        }
    }

    /// Takes a drive out of service, as if it had failed.
    ///
    /// # Panics
    /// When it may not be ([`Shard::may_take_out`]).
    pub fn take_out(&mut self, place: usize) {
        let judged = self.may_take_out(place);
        assert!(judged.is_ok(), "drive {place} is taken out: {judged:?}");
        self.fail_drive(place);
    }
}
