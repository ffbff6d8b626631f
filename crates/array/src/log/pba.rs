//! Physical block addresses: drive, zone and offset of a block in 32 bits.
//!
//! ```text
//!  31            offset_bits + zone_bits      offset_bits                 0
//! |     drive     |            zone            |  block within the zone   |
//! ```
//! The widths follow from the geometry: 32 bits reach about 16 TiB of raw capacity.

use base::units::{DriveIndex, ZoneIndex};
use zone::device::Geometry;

/// A packed physical block address. Only a [`PbaFormat`] can take it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pba(pub(crate) u32);

/// Where a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Member.
    pub drive: DriveIndex,
    /// Zone of the member.
    pub zone: ZoneIndex,
    /// Block within the zone.
    pub offset: u32,
}

/// How addresses of one array are packed.
#[derive(Clone, Copy, Debug)]
pub struct PbaFormat {
    zone_shift: u32,
    drive_shift: u32,
}

impl PbaFormat {
    /// The format for `members` drives of a geometry; `None` when 32 bits do not suffice. One
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
        let format = PbaFormat { zone_shift, drive_shift };
        let fits = drive_shift + bits_for(drives) <= u32::BITS && drive_shift < u32::BITS;
        (fits && format.pack(last).0 != u32::MAX).then_some(format)
    }

    /// Packs a location.
    #[must_use]
    pub fn pack(&self, location: Location) -> Pba {
        let Location { drive, zone, offset } = location;
        Pba(u32::from(drive.0) << self.drive_shift | zone.0 << self.zone_shift | offset)
    }

    /// True for the address of a block that drives of a geometry have.
    #[must_use]
    pub fn reaches(&self, pba: Pba, members: usize, geometry: &Geometry) -> bool {
        let drives = u64::from(pba.0) >> self.drive_shift;
        let Location { zone, offset, .. } = self.unpack(Pba(pba.0 & ((1 << self.drive_shift) - 1)));
        drives < members as u64 && zone.0 < geometry.zones && offset < geometry.zone_capacity_blocks
    }

    /// Takes an address apart.
    #[must_use]
    pub fn unpack(&self, pba: Pba) -> Location {
        let zone_mask = (1 << (self.drive_shift - self.zone_shift)) - 1;
        Location {
            drive: DriveIndex(u8::try_from(pba.0 >> self.drive_shift).expect("at most 32 members")),
            zone: ZoneIndex(pba.0 >> self.zone_shift & zone_mask),
            offset: pba.0 & ((1 << self.zone_shift) - 1),
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
        }
    }

    /// Addresses count capacity, not zone size, and every corner comes back.
    #[test]
    fn corners_come_back() {
        for (members, zones, capacity) in [(1, 8, 5), (4, 3690, 275_712), (3, 9, 12288), (5, 40, 4096)] {
            let Some(format) = PbaFormat::new(members, &geometry(zones, capacity)) else {
                assert_eq!((members, zones), (4, 3690), "only the 16-TiB array does not fit");
                continue;
            };
            for drive in [0, members - 1] {
                for zone in [0, zones - 1] {
                    for offset in [0, capacity - 1] {
                        let location =
                            Location { drive: DriveIndex::at(drive), zone: ZoneIndex(zone), offset };
                        assert_eq!(format.unpack(format.pack(location)), location);
                        assert_ne!(format.pack(location).0, u32::MAX);
                    }
                }
            }
        }
    }
}
