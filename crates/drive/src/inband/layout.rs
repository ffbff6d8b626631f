//! Places in the zones of a drive without metadata, in blocks of 4 KiB.
//!
//! ```text
//!   device:  journal zone | journal zone | zone 0 of the host | zone 1 | ...
//!   journal: header | record | record | ...
//!   zone:    59 blocks | identities | 59 blocks | identities | ... | the rest, less one | identities
//! ```
//! The last unit of a zone has what is left, so that the write of its identities makes the device's zone full. When one place is left
//! over, the last unit has a blank place before its identities.

use crate::units::{UNIT_BLOCKS, UNIT_PLACES, live_records, unit_of};
use base::units::ZoneIndex;
use zone::device::Geometry;

/// Zones of the device that are journals: its first.
pub const JOURNAL_ZONES: u32 = 2;
/// Most zones in use: their identities are carried along in the journal.
const ACTIVE_ZONES_MAX: u32 = 64;
/// Most blocks of a command of the host: as of emulated drives.
const TRANSFER_BLOCKS_MAX: u32 = 64;
/// Most blocks of a zone append.
const APPEND_BLOCKS_MAX: u32 = 32;
/// Fewest blocks of a command that a device must take: a unit that is finished is written at once.
const DEVICE_TRANSFER_MIN: u32 = 64;
/// Fewest zones that a device must let be open: the journals, and one.
const DEVICE_OPEN_MIN: u32 = JOURNAL_ZONES + 1;
/// Records beyond those that hold what is alive, for openings that are cut.
const OPENING_RECORDS: u32 = 64;

/// Sizes that are chosen when a drive is formatted; the headers of its journal have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Zones of the device, those of the journal included.
    pub zones: u32,
    /// Blocks of 4 KiB that a zone of the device holds.
    pub zone_places: u32,
    /// Most zones of the host that are active.
    pub active_zones_max: u32,
    /// Blocks of a journal zone on another device; `None` of a journal in the device's own zones.
    pub journal_places: Option<u32>,
}

/// Reason why a device is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Nothing is left beside the journal.
    #[error(
        "the device has {0} zones; the journal takes {JOURNAL_ZONES} of them, so {DEVICE_OPEN_MIN} are needed"
    )]
    TooFewZones(u32),
    /// The device lets too few zones be open or active.
    #[error(
        "the device lets {0} zones be open; the journal takes {JOURNAL_ZONES}, so {DEVICE_OPEN_MIN} are needed"
    )]
    TooFewOpen(u32),
    /// A journal zone does not hold what one active zone needs.
    #[error(
        "journal zones of {has} blocks of 4 KiB are too small: {needs} are needed for {active} active zones"
    )]
    ZoneTooSmall {
        /// Blocks that are needed.
        needs: u32,
        /// Blocks of a zone.
        has: u32,
        /// Active zones.
        active: u32,
    },
    /// The device takes too little at once.
    #[error("the device takes {0} blocks of 4 KiB at once; {DEVICE_TRANSFER_MIN} are needed")]
    TransferTooSmall(u32),
    /// The device is not the one that was formatted.
    #[error(
        "the device has changed: zones {zones:?}, blocks of a zone {places:?}, active zones {active:?} (formatted, found)"
    )]
    Changed {
        /// Zones.
        zones: (u32, u32),
        /// Blocks of a zone.
        places: (u32, u32),
        /// Active zones of the host.
        active: (u32, u32),
    },
}

/// Places of a journal zone for so many active zones.
fn places_needed(active: u32) -> u32 {
    live_records(active).saturating_mul(16).saturating_add(4 * OPENING_RECORDS)
}

impl Layout {
    /// Layout of a new drive.
    ///
    /// # Errors
    /// When the device cannot be used.
    pub fn of(device: &Geometry, journal_places: Option<u32>) -> Result<Layout, LayoutError> {
        let open = device.open_zones_max.min(device.active_zones_max);
        if device.zones < DEVICE_OPEN_MIN {
            return Err(LayoutError::TooFewZones(device.zones));
        }
        if open < DEVICE_OPEN_MIN {
            return Err(LayoutError::TooFewOpen(open));
        }
        if device.transfer_blocks_max < DEVICE_TRANSFER_MIN {
            return Err(LayoutError::TransferTooSmall(device.transfer_blocks_max));
        }
        let zone_places = device.zone_capacity_blocks;
        // Reports say of both kinds of zones how far they are written.
        let has = journal_places.unwrap_or(zone_places).min(zone_places);
        let mut active = (device.active_zones_max - JOURNAL_ZONES).min(ACTIVE_ZONES_MAX);
        while active > 1 && places_needed(active) > has {
            active -= 1;
        }
        if places_needed(active) > has {
            return Err(LayoutError::ZoneTooSmall { needs: places_needed(active), has, active });
        }
        let journal_places = journal_places.map(|_| has);
        Ok(Layout { zones: device.zones, zone_places, active_zones_max: active, journal_places })
    }

    /// Checks that the device is as it was when it was formatted.
    ///
    /// # Errors
    /// When it is not.
    pub fn expect_on(&self, device: &Geometry) -> Result<(), LayoutError> {
        let found = Layout::of(device, self.journal_places)?;
        let is_same = found.zone_places == self.zone_places
            && found.journal_places == self.journal_places
            && found.zones >= self.zones
            && self.zones >= DEVICE_OPEN_MIN
            && (1..=found.active_zones_max).contains(&self.active_zones_max);
        match is_same {
            true => Ok(()),
            false => Err(LayoutError::Changed {
                zones: (self.zones, found.zones),
                places: (self.zone_places, found.zone_places),
                active: (self.active_zones_max, found.active_zones_max),
            }),
        }
    }

    /// The drive as hosts see it.
    #[must_use]
    pub fn geometry(&self, device: &Geometry) -> Geometry {
        let beside = device.transfer_blocks_max.div_ceil(UNIT_BLOCKS) + 1;
        let transfer_blocks_max = (device.transfer_blocks_max - beside).min(TRANSFER_BLOCKS_MAX);
        Geometry {
            zones: self.zones - JOURNAL_ZONES,
            zone_size_blocks: device.zone_size_blocks,
            zone_capacity_blocks: self.capacity(),
            open_zones_max: (device.open_zones_max - JOURNAL_ZONES).min(self.active_zones_max),
            active_zones_max: self.active_zones_max,
            append_blocks_max: APPEND_BLOCKS_MAX.min(transfer_blocks_max),
            transfer_blocks_max,
            volatile_cache: device.volatile_cache,
            areas: None,
        }
    }

    /// Units of a zone, the last one with what is left.
    #[must_use]
    pub fn units(&self) -> u32 {
        self.zone_places / UNIT_PLACES + u32::from(self.zone_places % UNIT_PLACES > 1)
    }

    /// Blocks of a zone that hosts can write.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.zone_places - self.units() - self.pad()
    }

    /// Blank places before the last identities of a zone.
    #[must_use]
    pub fn pad(&self) -> u32 {
        u32::from(self.zone_places % UNIT_PLACES == 1)
    }

    /// Records of a journal zone.
    #[must_use]
    pub fn zone_records(&self) -> u64 {
        u64::from(self.journal_zone_places() - 1)
    }

    /// Blocks of a journal zone.
    #[must_use]
    pub fn journal_zone_places(&self) -> u32 {
        self.journal_places.unwrap_or(self.zone_places)
    }

    /// Zone of the device for one of the host.
    #[must_use]
    pub fn device_zone(&self, zone: ZoneIndex) -> ZoneIndex {
        let own = ZoneIndex(zone.0 + JOURNAL_ZONES);
        assert!(own.0 < self.zones, "zone {} of {}", zone.0, self.zones - JOURNAL_ZONES);
        own
    }

    /// Place of a block, from the begin of its zone.
    #[must_use]
    pub fn place(&self, offset: u32) -> u32 {
        assert!(offset < self.capacity(), "block {offset} of a zone of {}", self.capacity());
        offset + unit_of(offset)
    }

    /// Place of the identities of a unit.
    #[must_use]
    pub fn identity_place(&self, unit: u32) -> u32 {
        assert!(unit < self.units(), "unit {unit} of {}", self.units());
        if unit + 1 == self.units() { self.zone_places - 1 } else { unit * UNIT_PLACES + UNIT_BLOCKS }
    }

    /// Blocks of a unit.
    #[must_use]
    pub fn unit_blocks(&self, unit: u32) -> u32 {
        UNIT_BLOCKS.min(self.capacity() - unit * UNIT_BLOCKS)
    }

    /// True of a place that has no block of the host.
    #[must_use]
    pub fn is_beside(&self, place: u32) -> bool {
        place % UNIT_PLACES == UNIT_BLOCKS || place + 1 >= self.zone_places
    }

    /// True when a unit ends before this block.
    #[must_use]
    pub fn is_unit_end(&self, end: u32) -> bool {
        end == self.capacity() || end.is_multiple_of(UNIT_BLOCKS)
    }

    /// First block of the unit that is not full when blocks up to this one are written.
    #[must_use]
    pub fn open_unit(&self, end: u32) -> u32 {
        if self.is_unit_end(end) { end } else { unit_of(end) * UNIT_BLOCKS }
    }

    /// Block behind the last one of the unit of a block.
    #[must_use]
    pub fn unit_end(&self, offset: u32) -> u32 {
        let unit = unit_of(offset);
        unit * UNIT_BLOCKS + self.unit_blocks(unit)
    }

    /// Units that are full when blocks up to this one are written.
    #[must_use]
    pub fn full_units(&self, end: u32) -> u32 {
        if end == self.capacity() { self.units() } else { unit_of(end) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(zone_places: u32) -> Layout {
        Layout { zones: 5, zone_places, active_zones_max: 1, journal_places: None }
    }

    #[test]
    fn every_place_is_a_block_or_beside_one() {
        for places in [120, 121, 122, 150, 179] {
            let layout = layout(places);
            let blocks: Vec<u32> = (0..layout.capacity()).map(|offset| layout.place(offset)).collect();
            let beside: Vec<u32> = (0..places).filter(|place| layout.is_beside(*place)).collect();
            assert!(blocks.iter().all(|place| !beside.contains(place)), "{places}");
            assert_eq!(blocks.len() + beside.len(), places as usize, "{places}");
            assert!((0..layout.units()).all(|unit| beside.contains(&layout.identity_place(unit))));
            assert_eq!(layout.identity_place(layout.units() - 1), places - 1);
            let sum: u32 = (0..layout.units()).map(|unit| layout.unit_blocks(unit)).sum();
            assert_eq!(sum, layout.capacity(), "{places}");
        }
    }

    #[test]
    fn devices_that_are_too_small_are_refused() {
        let device = Geometry {
            zones: 8,
            zone_size_blocks: 1024,
            zone_capacity_blocks: 1024,
            open_zones_max: 4,
            active_zones_max: 6,
            append_blocks_max: 0,
            transfer_blocks_max: 128,
            volatile_cache: false,
            areas: None,
        };
        let layout = Layout::of(&device, None).expect("a device that can be used");
        assert_eq!((layout.active_zones_max, layout.capacity()), (4, 1024 - 18));
        let geometry = layout.geometry(&device);
        assert_eq!((geometry.open_zones_max, geometry.transfer_blocks_max), (2, 64));
        assert_eq!(
            Layout::of(&Geometry { open_zones_max: 2, ..device }, None),
            Err(LayoutError::TooFewOpen(2))
        );
        let small = Layout::of(&Geometry { zone_capacity_blocks: 100, ..device }, None);
        assert!(matches!(small, Err(LayoutError::ZoneTooSmall { has: 100, .. })), "{small:?}");
        let elsewhere = Layout::of(&device, Some(500)).expect("a journal elsewhere");
        assert_eq!((elsewhere.zone_records(), elsewhere.capacity()), (499, layout.capacity()));
        let small = Layout::of(&device, Some(100));
        assert!(matches!(small, Err(LayoutError::ZoneTooSmall { has: 100, .. })), "{small:?}");
        let grown = Geometry { zone_capacity_blocks: 1000, ..device };
        assert!(matches!(layout.expect_on(&grown), Err(LayoutError::Changed { .. })));
    }
}
