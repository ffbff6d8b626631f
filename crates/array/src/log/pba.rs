//! Physical block addresses: drive, zone and offset of a block in 32 or 40 bits.
//!
//! ```text
//!  31 or 39      offset_bits + zone_bits      offset_bits                 0
//! |     drive     |            zone            |  block within the zone   |
//! ```
//! The widths follow from the geometry: 32 bits reach about 16 TiB of raw capacity, 40 bits about 4 PiB.

use crate::log::index::entries::EntryBytes;
use base::units::{DriveIndex, ZoneIndex};
use zone::device::Geometry;

/// A packed physical block address. Only a [`PbaFormat`] can take it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pba(pub(crate) u64);

/// Place of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Member.
    pub drive: DriveIndex,
    /// Zone of the member.
    pub zone: ZoneIndex,
    /// Block within the zone.
    pub offset: u32,
}

/// Packing of the addresses of one array.
#[derive(Clone, Copy, Debug)]
pub struct PbaFormat {
    zone_shift: u32,
    drive_shift: u32,
    entry_bytes: EntryBytes,
}

impl PbaFormat {
    /// The format for `members` drives of a geometry; `None` when 40 bits do not suffice. One
    /// address, all ones, is kept free for "no block".
    #[must_use]
    pub fn new(members: usize, geometry: &Geometry) -> Option<PbaFormat> {
        let bits_for = |count: u32| u32::BITS - count.saturating_sub(1).leading_zeros();
        let zone_shift = bits_for(geometry.zone_capacity_blocks);
        let drive_shift = zone_shift + bits_for(geometry.zones);
        let drives = u32::try_from(members).ok()?;
        let last = Location {
            drive: DriveIndex(u8::try_from(members).ok()?.checked_sub(1)?),
            zone: ZoneIndex(geometry.zones.checked_sub(1)?),
            offset: geometry.zone_capacity_blocks.checked_sub(1)?,
        };
        let bits = drive_shift + bits_for(drives);
        let fits = |entry_bytes: &EntryBytes| {
            let format = PbaFormat { zone_shift, drive_shift, entry_bytes: *entry_bytes };
            bits <= 8 * u32::from(entry_bytes.count()) && format.pack(last).0 < entry_bytes.unmapped()
        };
        let entry_bytes = [EntryBytes::Four, EntryBytes::Five].into_iter().find(fits)?;
        Some(PbaFormat { zone_shift, drive_shift, entry_bytes })
    }

    /// Bytes of an entry of the index that holds any of these addresses.
    #[must_use]
    pub fn entry_bytes(&self) -> EntryBytes {
        self.entry_bytes
    }

    /// Packs a location.
    #[must_use]
    pub fn pack(&self, location: Location) -> Pba {
        let Location { drive, zone, offset } = location;
        debug_assert!(u64::from(offset) < 1 << self.zone_shift, "block {offset} of a zone");
        Pba(u64::from(drive.0) << self.drive_shift | u64::from(zone.0) << self.zone_shift | u64::from(offset))
    }

    /// True for the address of a block that drives of a geometry have.
    #[must_use]
    pub fn reaches(&self, pba: Pba, members: usize, geometry: &Geometry) -> bool {
        let drive = pba.0 >> self.drive_shift;
        let Location { zone, offset, .. } = self.unpack(Pba(pba.0 & ((1 << self.drive_shift) - 1)));
        drive < members as u64 && zone.0 < geometry.zones && offset < geometry.zone_capacity_blocks
    }

    /// Takes an address apart.
    #[must_use]
    pub fn unpack(&self, pba: Pba) -> Location {
        let bits = |from: u32, to: u32| {
            u32::try_from(pba.0 >> from & ((1 << (to - from)) - 1))
                .expect("zones and blocks are counted in 32 bits")
        };
        Location {
            drive: DriveIndex(u8::try_from(pba.0 >> self.drive_shift).expect("at most 32 members")),
            zone: ZoneIndex(bits(self.zone_shift, self.drive_shift)),
            offset: bits(0, self.zone_shift),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(zones: u32, capacity: u32) -> Geometry {
        Geometry {
            zones,
            zone_size_blocks: capacity,
            zone_capacity_blocks: capacity,
            open_zones_max: 14,
            active_zones_max: 14,
            append_blocks_max: 16,
            transfer_blocks_max: 64,
            volatile_cache: false,
            areas: None,
        }
    }

    /// Addresses count capacity, not zone size, every corner comes back, and entries are as wide as they must be.
    #[test]
    fn corners_come_back() {
        let (four, five) = (EntryBytes::Four, EntryBytes::Five);
        let cases = [
            (1, 8, 5, four),
            (3, 9, 12288, four),
            (5, 40, 4096, four),
            // All 32 bits are taken, so the last address would be the one that maps nothing.
            (4, 1 << 12, 1 << 18, five),
            (4, 1 << 12, (1 << 18) - 1, four),
            (4, 3690, 275_712, five),
            (32, 1 << 15, (1 << 20) - 1, five),
        ];
        for (members, zones, capacity, entry_bytes) in cases {
            let format = PbaFormat::new(members, &geometry(zones, capacity)).unwrap();
            assert_eq!(format.entry_bytes(), entry_bytes, "{members} drives of {zones} x {capacity}");
            for drive in [0, members - 1] {
                for zone in [0, zones - 1] {
                    for offset in [0, capacity - 1] {
                        let location =
                            Location { drive: DriveIndex::at(drive), zone: ZoneIndex(zone), offset };
                        assert_eq!(format.unpack(format.pack(location)), location);
                        assert!(format.pack(location).0 < entry_bytes.unmapped());
                    }
                }
            }
        }
    }

    /// 40 bits do not reach 4 PiB and a block.
    #[test]
    fn what_is_too_large_is_refused() {
        assert!(PbaFormat::new(32, &geometry(1 << 15, 1 << 20)).is_none());
        assert!(PbaFormat::new(32, &geometry(u32::MAX, u32::MAX)).is_none());
    }
}
