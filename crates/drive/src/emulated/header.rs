//! The header page of a drive's file and where everything else lies.
//!
//! ```text
//!   bytes 0..8    magic "ZWEAVDRV"
//!         8..12   format version
//!        12..20   block bytes, out-of-band bytes       4096 and 64
//!        20..48   zones, zone size, zone capacity, open max, active max, append max, transfer max
//!        48..64   UUID of the drive
//!        64..4092 zero
//!      4092..4096 CRC32C of all before
//! ```
//! Integers are little endian and 32 bits wide. Whether completed writes survive a power failure
//! is not in the header: it depends on where the file lies today.

use super::entry::ENTRY_BYTES;
use super::error::{DriveProblem, check_geometry};
use base::bytes::{array_at, put, u32_at};
use base::checksum::crc32c;
use base::units::{BLOCK_BYTES, OOB_BYTES, ZoneIndex};
use zone::device::Geometry;

/// Bytes of the header page, and the unit to which the zone table is rounded up.
pub(super) const PAGE_BYTES: usize = 4096;
/// Bytes from one block to the next: data and its metadata side by side.
pub(super) const STRIDE: usize = BLOCK_BYTES + OOB_BYTES;
/// [`STRIDE`] for arithmetic on file offsets.
pub(super) const STRIDE_BYTES: u64 = STRIDE as u64;
const _: () = assert!(STRIDE_BYTES == 4160);

const MAGIC: [u8; 8] = *b"ZWEAVDRV";
const VERSION: u32 = 1;
const GEOMETRY_AT: usize = 20;
const UUID_AT: usize = 48;
const CHECKSUM_AT: usize = PAGE_BYTES - 4;

/// Contents of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) geometry: Geometry,
    pub(super) uuid: [u8; 16],
}

impl Header {
    pub(super) fn encode(&self) -> [u8; PAGE_BYTES] {
        let geometry = &self.geometry;
        let numbers = [
            geometry.zones,
            geometry.zone_size_blocks,
            geometry.zone_capacity_blocks,
            geometry.open_zones_max,
            geometry.active_zones_max,
            geometry.append_blocks_max,
            geometry.transfer_blocks_max,
        ];
        let mut page = [0; PAGE_BYTES];
        put(&mut page, 0, &MAGIC);
        put(&mut page, 8, &VERSION.to_le_bytes());
        put(&mut page, 12, &4096_u32.to_le_bytes());
        put(&mut page, 16, &64_u32.to_le_bytes());
        for (index, number) in numbers.iter().enumerate() {
            put(&mut page, GEOMETRY_AT + 4 * index, &number.to_le_bytes());
        }
        put(&mut page, UUID_AT, &self.uuid);
        seal(&mut page);
        page
    }

    /// Checks from the outside in: a file of another kind is not called damaged, and a drive of
    /// another version not either.
    pub(super) fn decode(page: &[u8; PAGE_BYTES]) -> Result<Header, DriveProblem> {
        if array_at(page, 0) != MAGIC {
            return Err(DriveProblem::NotADrive);
        }
        let version = u32_at(page, 8);
        if version != VERSION {
            return Err(DriveProblem::WrongVersion { found: version, known: VERSION });
        }
        let (stored, computed) = (u32_at(page, CHECKSUM_AT), crc32c(&page[..CHECKSUM_AT]));
        if stored != computed {
            return Err(DriveProblem::BadChecksum { stored, computed });
        }
        check_block_format(u32_at(page, 12), u32_at(page, 16))?;
        let number = |index: usize| u32_at(page, GEOMETRY_AT + 4 * index);
        let geometry = Geometry {
            zones: number(0),
            zone_size_blocks: number(1),
            zone_capacity_blocks: number(2),
            open_zones_max: number(3),
            active_zones_max: number(4),
            append_blocks_max: number(5),
            transfer_blocks_max: number(6),
            volatile_cache: true,
        };
        check_geometry(&geometry)?;
        Ok(Header { geometry, uuid: array_at(page, UUID_AT) })
    }
}

/// Refuses blocks of another size than the engine's, when a drive is created and when it is opened.
pub(super) fn check_block_format(block_bytes: u32, oob_bytes: u32) -> Result<(), DriveProblem> {
    let fits = block_bytes as usize == BLOCK_BYTES && oob_bytes as usize == OOB_BYTES;
    if fits { Ok(()) } else { Err(DriveProblem::BlockFormat { block_bytes, oob_bytes }) }
}

fn seal(page: &mut [u8; PAGE_BYTES]) {
    let checksum = crc32c(&page[..CHECKSUM_AT]);
    put(page, CHECKSUM_AT, &checksum.to_le_bytes());
}

/// Layout of the file of a drive: where everything lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileLayout {
    zones: u32,
    capacity_blocks: u32,
}

impl FileLayout {
    pub(super) const TABLE_AT: u64 = PAGE_BYTES as u64;

    /// The layout for a geometry that has been checked.
    pub(super) fn new(geometry: &Geometry) -> FileLayout {
        FileLayout { zones: geometry.zones, capacity_blocks: geometry.zone_capacity_blocks }
    }

    pub(super) fn zones(&self) -> u32 {
        self.zones
    }

    pub(super) fn capacity_blocks(&self) -> u32 {
        self.capacity_blocks
    }

    /// Bytes of the zone table, in whole pages.
    pub(super) fn table_bytes(&self) -> u64 {
        (u64::from(self.zones) * ENTRY_BYTES).next_multiple_of(PAGE_BYTES as u64)
    }

    /// First byte of the blocks.
    pub(super) fn blocks_at(&self) -> u64 {
        FileLayout::TABLE_AT + self.table_bytes()
    }

    /// First byte of a zone's entry in the table.
    pub(super) fn entry_at(&self, zone: ZoneIndex) -> u64 {
        assert!(zone.0 < self.zones);
        FileLayout::TABLE_AT + u64::from(zone.0) * ENTRY_BYTES
    }

    /// First byte of a block of a zone. Zones follow each other at the distance of their capacity.
    pub(super) fn block_at(&self, zone: ZoneIndex, offset: u32) -> u64 {
        assert!(zone.0 < self.zones);
        assert!(offset <= self.capacity_blocks);
        let block = u64::from(zone.0) * u64::from(self.capacity_blocks) + u64::from(offset);
        self.blocks_at() + block * STRIDE_BYTES
    }

    /// Length of the file.
    pub(super) fn file_bytes(&self) -> u64 {
        let blocks = u64::from(self.zones) * u64::from(self.capacity_blocks);
        self.blocks_at() + blocks * STRIDE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::GeometryError;
    use super::*;

    fn header() -> Header {
        let geometry = Geometry {
            zones: 600,
            zone_size_blocks: 64,
            zone_capacity_blocks: 48,
            open_zones_max: 3,
            active_zones_max: 5,
            append_blocks_max: 8,
            transfer_blocks_max: 16,
            volatile_cache: true,
        };
        Header { geometry, uuid: *b"0123456789abcdef" }
    }

    /// The page with one number changed and its checksum made right again.
    fn changed(at: usize, number: u32) -> Result<Header, DriveProblem> {
        let mut page = header().encode();
        put(&mut page, at, &number.to_le_bytes());
        seal(&mut page);
        Header::decode(&page)
    }

    #[test]
    fn a_header_comes_back() {
        assert_eq!(Header::decode(&header().encode()).unwrap(), header());
    }

    #[test]
    fn each_fault_has_its_own_name() {
        assert!(matches!(Header::decode(&[0; PAGE_BYTES]), Err(DriveProblem::NotADrive)));
        assert!(matches!(changed(8, 2), Err(DriveProblem::WrongVersion { found: 2, known: 1 })));
        assert!(matches!(
            changed(12, 512),
            Err(DriveProblem::BlockFormat { block_bytes: 512, oob_bytes: 64 })
        ));
        assert!(matches!(changed(16, 8), Err(DriveProblem::BlockFormat { oob_bytes: 8, .. })));
        let zones = changed(GEOMETRY_AT, 2);
        assert!(matches!(zones, Err(DriveProblem::Geometry(GeometryError::TooFewZones { zones: 2 }))));
        let message = changed(12, 512).unwrap_err().to_string();
        assert!(
            message.contains("512-byte blocks") && message.contains("needs 4096+64: format it so"),
            "{message}"
        );
    }

    #[test]
    fn every_damaged_byte_is_noticed() {
        let page = header().encode();
        for at in 0..PAGE_BYTES {
            let mut damaged = page;
            damaged[at] ^= 0x10;
            assert!(Header::decode(&damaged).is_err(), "byte {at}");
        }
    }

    /// 600 entries of 8 bytes take two pages, and a zone takes 48 blocks although its size is 64.
    #[test]
    fn the_layout_of_an_example() {
        let layout = FileLayout::new(&header().geometry);
        assert_eq!(layout.table_bytes(), 8192);
        assert_eq!(layout.blocks_at(), 12288);
        assert_eq!(layout.block_at(ZoneIndex(1), 2), 12288 + 50 * 4160);
        assert_eq!(layout.file_bytes(), 12288 + 600 * 48 * 4160);
    }
}
