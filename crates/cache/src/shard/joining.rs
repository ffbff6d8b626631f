//! Drives that an operator takes out of service and puts in.
//!
//! ```text
//!            take_out, or a failure             record settled, slots swept             join             record settled
//!   member ─────────────────────────> left out ────────────────────────────> place free ─────> joining ────────────────> member
//! ```
//! A drive that joins is empty, and has an identity that no record named before: what was in its place is never taken for it.
//! It holds the record that names it before the others do (`membership.rs`), and takes objects once that is settled.
//! One that is added has a place behind the others, or that of one that was removed, and is a new drive like any other: a place that no record
//! knows is nobody's (`mount/members.rs`). The index is the one that was made at the mount, so it may be small for what is added.
//! Before it may join, the loss of the one before it is recorded, so that no mount believes that one again, and no slot of the
//! index leads to it any more, for pages are named by their place.

use super::core::Core;
use super::{Drive, Shard};
use crate::config::{ACTIVE_ZONES_MIN, MemoryShort, ZONES_MIN, active_zones, check_drive};
use crate::format::MEMBERS_MAX;
use crate::format::superblock::Member;
use crate::index::{PAGES_MAX, SLOTS};
use base::units::BLOCK_BYTES_U64;
use std::fmt;
use zone::device::Geometry;

/// Slots in use, of a hundred, from which on few new objects find one.
const CROWDED_PERCENT: u64 = 95;

/// Why a drive cannot join, or leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BayRefusal {
    /// No such place.
    NoPlace {
        /// Drives of the cache.
        drives: usize,
    },
    /// The drive in the place works.
    Works,
    /// No working drive in the place.
    Failed,
    /// Earlier change of members is still being recorded: in a moment it will not be.
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
    /// All places that superblocks have room for are taken.
    NoPlaceLeft {
        /// Places.
        places: usize,
    },
    /// With the new drive there would be more pages than the index can name.
    TooManyPages {
        /// Pages that there would be.
        pages: u64,
    },
    /// With the new drive the index would want more memory than there is.
    Memory(MemoryShort),
    /// The new drive has too few zones, or allows too few active ones.
    TooFewZones {
        /// Shards that have slices of it.
        shards: u32,
        /// Zones of the drive.
        zones: u32,
        /// Active zones that it allows.
        active: u32,
    },
}

impl BayRefusal {
    fn of_zones(geometry: &Geometry) -> BayRefusal {
        BayRefusal::TooFewZones { shards: 1, zones: geometry.zones, active: active_zones(geometry) }
    }

    /// Refusal of the whole drive by all shards, from a shard's refusal of its slice.
    #[must_use]
    pub fn of_all(self, whole: &Geometry, shards: usize) -> BayRefusal {
        let count = u32::try_from(shards).expect("at most 64 shards");
        match self {
            BayRefusal::Memory(short) => BayRefusal::Memory(short.of_all(shards)),
            BayRefusal::TooFewZones { .. } => {
                BayRefusal::TooFewZones { shards: count, zones: whole.zones, active: active_zones(whole) }
            }
            BayRefusal::TooLarge { blocks, .. } => {
                BayRefusal::TooLarge { blocks: blocks * count, own: whole.capacity_blocks() }
            }
            other => other,
        }
    }
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
            BayRefusal::NoPlaceLeft { places } => write!(
                f,
                "a cache has up to {places} places for drives, and all are taken: remove one, or replace it by a larger one"
            ),
            BayRefusal::TooManyPages { pages } => write!(
                f,
                "the drives would have {} GiB; a cache of one shard holds less than 1 TiB: remove a drive, or add a smaller one",
                (pages * BLOCK_BYTES_U64) >> 30
            ),
            BayRefusal::Memory(MemoryShort { needed, given, .. }) => write!(
                f,
                "the index would need {needed} bytes of memory for objects of the mean size, and there are {given}"
            ),
            BayRefusal::TooFewZones { shards, zones, active } => write!(
                f,
                "the new drive has {zones} zones and allows {active} active ones; the cache needs {} and {}",
                ZONES_MIN * shards,
                ACTIVE_ZONES_MIN * shards
            ),
        }
    }
}

impl std::error::Error for BayRefusal {}

impl Core {
    /// Pages of all places.
    pub(super) fn pages(&self) -> u64 {
        self.drives.iter().map(|drive| u64::from(drive.span)).sum()
    }

    /// Bytes of all places, for which the next mount makes the index.
    pub(super) fn flash_bytes(&self) -> u64 {
        self.pages() * BLOCK_BYTES_U64
    }

    /// True when the index has fewer slots than drives of this size ask for, since one was added, and is nearly full: what is new would
    /// find no slot, and room is made for it as if the drives were full.
    pub(super) fn is_crowded(&self) -> bool {
        let (used, slots) = (self.index.used(), self.index.shape().buckets() * SLOTS as u64);
        let is_outgrown = || self.options.shape(self.flash_bytes()) != self.index.shape();
        used * 100 >= slots * CROWDED_PERCENT && is_outgrown()
    }
}

impl Shard {
    /// Judges whether a new drive may take a place now.
    ///
    /// # Errors
    /// When it may not.
    pub fn may_join(&self, place: usize, geometry: &Geometry) -> Result<(), BayRefusal> {
        let drives = self.core.drives.len();
        let drive = self.core.drives.get(place).ok_or(BayRefusal::NoPlace { drives })?;
        let is_read = drive.zones.iter().any(|zone| zone.readers > 0);
        let (blocks, own) = (drive.span, geometry.capacity_blocks());
        match () {
            () if drive.up => Err(BayRefusal::Works),
            () if self.core.membership.is_frozen() => Err(BayRefusal::Frozen),
            () if !self.core.membership.is_settled() || self.sweep.is_under_way() || is_read => {
                Err(BayRefusal::Busy)
            }
            () if check_drive(place, geometry).is_err() => Err(BayRefusal::of_zones(geometry)),
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
        assert!(!self.core.membership.has_member(place), "the loss of the one before it is recorded");
        assert!(self.core.identity.drives.iter().all(|known| *known != uuid), "a drive that joins is new");
        let Drive { base, span, .. } = self.core.drives[place];
        self.core.drives[place] = Drive::empty(base, span, geometry, &self.core.options);
        self.core.identity.drives[place] = uuid;
        self.core.membership.change();
    }

    /// Judges whether a place may be made for a new drive.
    ///
    /// # Errors
    /// When it may not.
    pub fn may_grow(&self, geometry: &Geometry) -> Result<(), BayRefusal> {
        let places = self.core.drives.len();
        let pages = self.core.pages() + geometry.capacity_blocks();
        match () {
            () if self.core.membership.is_frozen() => Err(BayRefusal::Frozen),
            () if !self.core.membership.is_settled() => Err(BayRefusal::Busy),
            () if places == MEMBERS_MAX => Err(BayRefusal::NoPlaceLeft { places }),
            () if check_drive(places, geometry).is_err() => Err(BayRefusal::of_zones(geometry)),
            () if pages >= PAGES_MAX => Err(BayRefusal::TooManyPages { pages }),
            () => self.core.options.check_memory(pages * BLOCK_BYTES_U64).map_err(BayRefusal::Memory),
        }
    }

    /// Makes a place for a drive behind the others, in which there is none yet.
    ///
    /// # Panics
    /// When it may not ([`Shard::may_grow`]).
    pub fn grow(&mut self, geometry: &Geometry) {
        let judged = self.may_grow(geometry);
        assert!(judged.is_ok(), "a place is made: {judged:?}");
        let base = u32::try_from(self.core.pages()).expect("pages were judged");
        let span = u32::try_from(geometry.capacity_blocks()).expect("pages were judged");
        self.core.drives.push(Drive::absent(base, span));
        self.core.identity.drives.push(Member::nobody().uuid);
        self.core.membership.grow();
    }

    /// Slots of the index, of those that it would have if it were made for the drives that are there now.
    #[must_use]
    pub fn index_share(&self) -> f64 {
        let wanted = self.core.options.shape(self.core.flash_bytes()).buckets();
        self.core.index.shape().buckets() as f64 / wanted as f64
    }

    /// Judges whether a drive may be taken out of service.
    ///
    /// # Errors
    /// When it may not.
    pub fn may_take_out(&self, place: usize) -> Result<(), BayRefusal> {
        let drives = self.core.drives.len();
        let drive = self.core.drives.get(place).ok_or(BayRefusal::NoPlace { drives })?;
        match () {
            () if !drive.up => Err(BayRefusal::Failed),
            () if self.core.membership.is_frozen() => Err(BayRefusal::Frozen),
            () if !self.core.membership.is_settled() => Err(BayRefusal::Busy),
            () if !self.core.can_record_without(place) => Err(BayRefusal::Needed),
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

    /// Bytes of all places, for which the next mount makes the index.
    #[must_use]
    pub fn flash_bytes(&self) -> u64 {
        self.core.flash_bytes()
    }
}
