//! Places on a conventional drive, in blocks of 4 KiB.
//!
//! ```text
//!   label | zone table: pages, two places each | journal: a ring of records | zones, from a multiple of 1 MiB on | label
//!
//!   zone:  59 blocks | identities | 59 blocks | identities | ...
//! ```
//! A *unit* is 59 blocks and the block of their identities behind them: for each its 64 bytes of metadata and the CRC32C of its
//! data, and a head of 64 bytes.

use base::units::{BLOCK_BYTES_U64, ZoneIndex};
use zone::device::Geometry;

pub use crate::units::{UNIT_BLOCKS, UNIT_PLACES, live_records, unit_of};

/// Zones whose entries a page of the zone table has.
pub const PAGE_ZONES: u32 = 244;
/// Zones begin at a multiple of so many blocks: 1 MiB.
const ALIGNMENT_BLOCKS: u64 = 256;
/// Most blocks of a command of the host: as of emulated drives.
const TRANSFER_BLOCKS_MAX: u32 = 64;
/// Most blocks of a zone append.
const APPEND_BLOCKS_MAX: u32 = 32;

/// Sizes that are chosen when a drive is formatted; its label has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Blocks of the device that are used, the second label included.
    pub blocks: u64,
    /// Zones.
    pub zones: u32,
    /// Units of a zone.
    pub zone_units: u32,
    /// Most zones that are active, and most that are open.
    pub active_zones_max: u32,
    /// Records of the journal.
    pub journal_records: u32,
}

/// Reason why a layout is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The device is too small.
    #[error("the device has {has} blocks of 4 KiB, {needs} are needed")]
    TooSmall {
        /// Blocks that are needed.
        needs: u64,
        /// Blocks of the device.
        has: u64,
    },
    /// No zones, units or active zones.
    #[error("{0} must not be zero")]
    Zero(&'static str),
    /// A zone has more blocks than addresses of a zone can say.
    #[error("zones of {0} units are too large: 2^24 at most")]
    ZoneTooLarge(u32),
    /// The journal does not hold what active zones need, eight times over.
    #[error("a journal of {has} records is too small for {active} active zones: {needs} are needed")]
    JournalTooSmall {
        /// Records that are needed.
        needs: u32,
        /// Records of the layout.
        has: u32,
        /// Zones that may be active.
        active: u32,
    },
}

impl Layout {
    /// Checks that the parts fit into the device and do their work.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self) -> Result<(), LayoutError> {
        let parts = [
            (self.zones, "the number of zones"),
            (self.zone_units, "the units of a zone"),
            (self.active_zones_max, "the number of active zones"),
        ];
        if let Some((_, name)) = parts.into_iter().find(|(count, _)| *count == 0) {
            return Err(LayoutError::Zero(name));
        }
        if self.zone_units > 1 << 24 {
            return Err(LayoutError::ZoneTooLarge(self.zone_units));
        }
        let needs = journal_records_min(self.active_zones_max);
        if self.journal_records < needs {
            let (has, active) = (self.journal_records, self.active_zones_max);
            return Err(LayoutError::JournalTooSmall { needs, has, active });
        }
        match self.blocks_needed() {
            needs if needs > self.blocks => Err(LayoutError::TooSmall { needs, has: self.blocks }),
            _ => Ok(()),
        }
    }

    /// Blocks that a device must have.
    #[must_use]
    pub fn blocks_needed(&self) -> u64 {
        self.zones_begin() + u64::from(self.zones) * self.zone_places() + 1
    }

    /// Zones of so many units that fit into a device of so many blocks; the rest of the layout as it is.
    #[must_use]
    pub fn with_all_zones(self) -> Layout {
        let zones = self.blocks / self.zone_places();
        let mut layout = Layout { zones: u32::try_from(zones).unwrap_or(u32::MAX), ..self };
        while layout.zones > 0 && layout.blocks_needed() > layout.blocks {
            layout.zones -= 1;
        }
        layout
    }

    /// The drive as hosts see it.
    #[must_use]
    pub fn geometry(&self, volatile_cache: bool) -> Geometry {
        Geometry {
            zones: self.zones,
            zone_size_blocks: self.zone_units * UNIT_PLACES,
            zone_capacity_blocks: self.capacity(),
            open_zones_max: self.active_zones_max,
            active_zones_max: self.active_zones_max,
            append_blocks_max: APPEND_BLOCKS_MAX,
            transfer_blocks_max: TRANSFER_BLOCKS_MAX,
            volatile_cache,
            areas: None,
        }
    }

    /// Blocks of a zone that hosts can write.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.zone_units * UNIT_BLOCKS
    }

    /// Places of the label.
    #[must_use]
    pub fn labels(&self) -> [u64; 2] {
        [0, self.blocks - 1]
    }

    /// Pages of the zone table.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.zones.div_ceil(PAGE_ZONES)
    }

    /// The two places of a page of the zone table.
    #[must_use]
    pub fn page_places(&self, page: u32) -> [u64; 2] {
        assert!(page < self.pages(), "page {page} of {}", self.pages());
        let first = 1 + 2 * u64::from(page);
        [first, first + 1]
    }

    /// Place of a record of the journal.
    #[must_use]
    pub fn record_place(&self, sequence: u64) -> u64 {
        self.journal_begin() + sequence % u64::from(self.journal_records)
    }

    fn journal_begin(&self) -> u64 {
        1 + 2 * u64::from(self.pages())
    }

    fn zones_begin(&self) -> u64 {
        (self.journal_begin() + u64::from(self.journal_records)).next_multiple_of(ALIGNMENT_BLOCKS)
    }

    fn zone_places(&self) -> u64 {
        u64::from(self.zone_units) * u64::from(UNIT_PLACES)
    }

    /// First place of a zone.
    #[must_use]
    pub fn zone_place(&self, zone: ZoneIndex) -> u64 {
        assert!(zone.0 < self.zones, "zone {} of {}", zone.0, self.zones);
        self.zones_begin() + u64::from(zone.0) * self.zone_places()
    }

    /// Sectors of a zone.
    #[must_use]
    pub fn zone_sectors(&self) -> u64 {
        self.zone_places() * block::device::FRAME_SECTORS
    }

    /// Place of a block of a zone.
    #[must_use]
    pub fn block_place(&self, zone: ZoneIndex, offset: u32) -> u64 {
        assert!(offset < self.capacity(), "block {offset} of a zone of {}", self.capacity());
        self.zone_place(zone) + u64::from(offset + offset / UNIT_BLOCKS)
    }

    /// Place of the identities of a unit.
    #[must_use]
    pub fn identity_place(&self, zone: ZoneIndex, unit: u32) -> u64 {
        assert!(unit < self.zone_units, "unit {unit} of {}", self.zone_units);
        self.zone_place(zone) + u64::from(unit * UNIT_PLACES + UNIT_BLOCKS)
    }

    /// Bytes of the device that are used.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.blocks * BLOCK_BYTES_U64
    }
}

/// Fewest records of a journal: eight times what all active zones need.
#[must_use]
pub fn journal_records_min(active_zones_max: u32) -> u32 {
    live_records(active_zones_max).saturating_mul(8).saturating_add(8)
}

/// First sector of a place.
#[must_use]
pub fn sector_of(place: u64) -> u64 {
    place * block::device::FRAME_SECTORS
}

/// Place of a sector.
#[must_use]
pub fn place_of(sector: u64) -> u64 {
    assert!(sector.is_multiple_of(block::device::FRAME_SECTORS), "sector {sector} lies within a place");
    sector / block::device::FRAME_SECTORS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout { blocks: 10_000, zones: 1, zone_units: 2, active_zones_max: 3, journal_records: 48 }
            .with_all_zones()
    }

    #[test]
    fn parts_follow_one_another() {
        let layout = layout();
        layout.validate().expect("a layout that fits");
        assert_eq!((layout.zones, layout.pages()), (81, 1));
        assert_eq!((layout.page_places(0), layout.record_place(0), layout.record_place(97)), ([1, 2], 3, 4));
        assert_eq!(layout.zone_place(ZoneIndex(0)), 256);
        let last = ZoneIndex(layout.zones - 1);
        assert!(layout.identity_place(last, 1) < layout.labels()[1]);
        assert_eq!(layout.block_place(ZoneIndex(1), 59), 256 + 120 + 60);
        assert_eq!(layout.identity_place(ZoneIndex(1), 0), 256 + 120 + 59);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let layout = layout();
        assert_eq!(
            Layout { zone_units: 0, ..layout }.validate(),
            Err(LayoutError::Zero("the units of a zone"))
        );
        let small = Layout { blocks: 300, ..layout }.validate();
        assert!(matches!(small, Err(LayoutError::TooSmall { has: 300, .. })), "{small:?}");
        let few = Layout { journal_records: 4, ..layout }.validate();
        assert!(matches!(few, Err(LayoutError::JournalTooSmall { has: 4, active: 3, .. })), "{few:?}");
    }
}
