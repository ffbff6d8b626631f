//! The header page of a drive's file and where everything else lies.
//!
//! Integers are little endian. A drive without random write areas has version 1, one with them version 2. Whether
//! completed writes survive a power failure is not in the header: it depends on where the file lies today.

use super::entry::ENTRY_BYTES;
use super::error::{DriveProblem, check_geometry};
use base::bytes::{array_at, put, u32_at};
use base::checksum::crc32c;
use base::record_fields;
use base::units::{BLOCK_BYTES, OOB_BYTES, ZoneIndex};
use zone::device::{Areas, Geometry};

/// Bytes of the header page, and the unit to which the zone table is rounded up.
pub(super) const PAGE_BYTES: usize = 4096;
/// Bytes from one block to the next: data and its metadata side by side.
pub(super) const STRIDE: usize = BLOCK_BYTES + OOB_BYTES;
/// [`STRIDE`] for arithmetic on file offsets.
pub(super) const STRIDE_BYTES: u64 = STRIDE as u64;
const _: () = assert!(STRIDE_BYTES == 4160);

record_fields! { PAGE_BYTES;
    MAGIC: 0, 8, "`ZWEAVDRV`";
    VERSION: 8, 4, "format version: 1 without random write areas, 2 with them";
    BLOCK_BYTES: 12, 4, "data bytes of a block, 4096";
    OOB_BYTES: 16, 4, "out-of-band bytes of a block, 64";
    ZONES: 20, 4, "zones";
    ZONE_SIZE: 24, 4, "zone size in blocks";
    ZONE_CAPACITY: 28, 4, "zone capacity in blocks";
    OPEN_MAX: 32, 4, "most open zones";
    ACTIVE_MAX: 36, 4, "most active zones";
    APPEND_MAX: 40, 4, "most blocks of an append";
    TRANSFER_MAX: 44, 4, "most blocks of another transfer";
    UUID: 48, 16, "UUID of the drive";
    AREAS_MAX: 64, 4, "version 2: most zones with a random write area, which is how many windows there are; else zero";
    WINDOW_BLOCKS: 68, 4, "version 2: W, blocks of a window";
    GRANULE_BLOCKS: 72, 4, "version 2: blocks by multiples of which a window moves on";
    AREA_FLAGS: 76, 4, "version 2: bit 0, the drive commits windows when told to";
    RESERVED: 80, 4012, "zero";
    CRC: 4092, 4, "CRC32C of all before";
}

const MAGIC: [u8; 8] = *b"ZWEAVDRV";
/// Version of drives without random write areas, and of those with.
const VERSION: u32 = 1;
const VERSION_WITH_AREAS: u32 = 2;
/// Flag of areas that are committed when told to.
const EXPLICIT_COMMIT: u32 = 1;

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
        put(&mut page, at::MAGIC, &MAGIC);
        let version = if geometry.areas.is_some() { VERSION_WITH_AREAS } else { VERSION };
        put(&mut page, at::VERSION, &version.to_le_bytes());
        put(&mut page, at::BLOCK_BYTES, &4096_u32.to_le_bytes());
        put(&mut page, at::OOB_BYTES, &64_u32.to_le_bytes());
        for (index, number) in numbers.iter().enumerate() {
            put(&mut page, at::ZONES + 4 * index, &number.to_le_bytes());
        }
        put(&mut page, at::UUID, &self.uuid);
        if let Some(areas) = geometry.areas {
            let flags = if areas.explicit_commit { EXPLICIT_COMMIT } else { 0 };
            let numbers = [areas.zones_max, areas.window_blocks, areas.granule_blocks, flags];
            for (index, number) in numbers.iter().enumerate() {
                put(&mut page, at::AREAS_MAX + 4 * index, &number.to_le_bytes());
            }
        }
        seal(&mut page);
        page
    }

    /// Checks from the outside in: a file of another kind is not called damaged, and a drive of
    /// another version not either.
    pub(super) fn decode(page: &[u8; PAGE_BYTES]) -> Result<Header, DriveProblem> {
        if array_at(page, at::MAGIC) != MAGIC {
            return Err(DriveProblem::NotADrive);
        }
        let version = u32_at(page, at::VERSION);
        if !(VERSION..=VERSION_WITH_AREAS).contains(&version) {
            return Err(DriveProblem::WrongVersion { found: version, known: VERSION_WITH_AREAS });
        }
        let (stored, computed) = (u32_at(page, at::CRC), crc32c(&page[..at::CRC]));
        if stored != computed {
            return Err(DriveProblem::BadChecksum { stored, computed });
        }
        check_block_format(u32_at(page, at::BLOCK_BYTES), u32_at(page, at::OOB_BYTES))?;
        let flags = u32_at(page, at::AREA_FLAGS);
        if version == VERSION_WITH_AREAS && flags > EXPLICIT_COMMIT {
            return Err(DriveProblem::UnknownFlags { flags });
        }
        let number = |index: usize| u32_at(page, at::ZONES + 4 * index);
        let geometry = Geometry {
            zones: number(0),
            zone_size_blocks: number(1),
            zone_capacity_blocks: number(2),
            open_zones_max: number(3),
            active_zones_max: number(4),
            append_blocks_max: number(5),
            transfer_blocks_max: number(6),
            volatile_cache: true,
            areas: (version == VERSION_WITH_AREAS).then(|| Areas {
                zones_max: u32_at(page, at::AREAS_MAX),
                window_blocks: u32_at(page, at::WINDOW_BLOCKS),
                granule_blocks: u32_at(page, at::GRANULE_BLOCKS),
                explicit_commit: flags == EXPLICIT_COMMIT,
            }),
        };
        check_geometry(&geometry)?;
        Ok(Header { geometry, uuid: array_at(page, at::UUID) })
    }
}

/// Refuses blocks of another size than the engine's, when a drive is created and when it is opened.
pub(super) fn check_block_format(block_bytes: u32, oob_bytes: u32) -> Result<(), DriveProblem> {
    let fits = block_bytes as usize == BLOCK_BYTES && oob_bytes as usize == OOB_BYTES;
    if fits { Ok(()) } else { Err(DriveProblem::BlockFormat { block_bytes, oob_bytes }) }
}

fn seal(page: &mut [u8; PAGE_BYTES]) {
    let checksum = crc32c(&page[..at::CRC]);
    put(page, at::CRC, &checksum.to_le_bytes());
}

/// Layout of the file of a drive: where everything lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileLayout {
    zones: u32,
    capacity_blocks: u32,
    /// Windows, and blocks of each.
    windows: u32,
    window_blocks: u32,
}

impl FileLayout {
    pub(super) const TABLE_AT: u64 = PAGE_BYTES as u64;

    /// The layout for a geometry that has been checked.
    pub(super) fn new(geometry: &Geometry) -> FileLayout {
        FileLayout {
            zones: geometry.zones,
            capacity_blocks: geometry.zone_capacity_blocks,
            windows: geometry.areas.map_or(0, |areas| areas.zones_max),
            window_blocks: geometry.areas.map_or(0, |areas| areas.window_blocks),
        }
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

    /// Words of the table of windows.
    pub(super) fn window_words(&self) -> u64 {
        u64::from(self.windows) * (1 + u64::from(self.window_blocks))
    }

    /// First byte of a word in the table of windows.
    pub(super) fn window_word_at(&self, word: usize) -> u64 {
        assert!((word as u64) < self.window_words());
        FileLayout::TABLE_AT + self.table_bytes() + ENTRY_BYTES * word as u64
    }

    /// First byte of the blocks.
    pub(super) fn blocks_at(&self) -> u64 {
        let table_end = FileLayout::TABLE_AT + self.table_bytes();
        table_end + (self.window_words() * ENTRY_BYTES).next_multiple_of(PAGE_BYTES as u64)
    }

    /// First byte of the second places of blocks in windows, which end the file.
    pub(super) fn seconds_at(&self) -> u64 {
        self.blocks_at() + u64::from(self.zones) * u64::from(self.capacity_blocks) * STRIDE_BYTES
    }

    /// First byte of the second place of a block of all windows.
    pub(super) fn second_at(&self, block: usize) -> u64 {
        assert!((block as u64) < u64::from(self.windows) * u64::from(self.window_blocks));
        self.seconds_at() + block as u64 * STRIDE_BYTES
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
        self.seconds_at() + u64::from(self.windows) * u64::from(self.window_blocks) * STRIDE_BYTES
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
            areas: None,
        };
        Header { geometry, uuid: *b"0123456789abcdef" }
    }

    fn with_areas() -> Header {
        let areas = Areas { zones_max: 3, window_blocks: 16, granule_blocks: 4, explicit_commit: true };
        Header { geometry: Geometry { areas: Some(areas), ..header().geometry }, ..header() }
    }

    /// The page with one number changed and its checksum made right again.
    fn changed(at: usize, number: u32) -> Result<Header, DriveProblem> {
        let mut page = header().encode();
        put(&mut page, at, &number.to_le_bytes());
        seal(&mut page);
        Header::decode(&page)
    }

    /// `docs/FORMAT.md` holds exactly these tables; `ZONEWEAVE_BLESS=1` rewrites them.
    #[test]
    fn the_document_matches_the_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FORMAT.md");
        let mut document = std::fs::read_to_string(path).expect("docs/FORMAT.md");
        let tables = [
            ("drive-header", FIELDS),
            ("drive-zone", super::super::entry::FIELDS),
            ("drive-window", super::super::windows::FIELDS),
        ];
        let expected = base::fields::with_tables(&document, &tables);
        if std::env::var_os("ZONEWEAVE_BLESS").is_some() {
            std::fs::write(path, &expected).expect("docs/FORMAT.md");
            document.clone_from(&expected);
        }
        assert!(
            document == expected,
            "docs/FORMAT.md is stale: ZONEWEAVE_BLESS=1 cargo test -p zoneweave-drive"
        );
    }

    #[test]
    fn a_header_comes_back() {
        assert_eq!(Header::decode(&header().encode()).unwrap(), header());
        assert_eq!(Header::decode(&with_areas().encode()).unwrap(), with_areas());
        assert_eq!(header().encode()[8], 1, "older programs open drives without areas");
        assert_eq!(with_areas().encode()[8], 2);
    }

    #[test]
    fn each_fault_has_its_own_name() {
        assert!(matches!(Header::decode(&[0; PAGE_BYTES]), Err(DriveProblem::NotADrive)));
        assert!(matches!(changed(8, 3), Err(DriveProblem::WrongVersion { found: 3, known: 2 })));
        assert!(matches!(
            changed(12, 512),
            Err(DriveProblem::BlockFormat { block_bytes: 512, oob_bytes: 64 })
        ));
        assert!(matches!(changed(16, 8), Err(DriveProblem::BlockFormat { oob_bytes: 8, .. })));
        let zones = changed(at::ZONES, 2);
        assert!(matches!(zones, Err(DriveProblem::Geometry(GeometryError::TooFewZones { zones: 2 }))));
        let message = changed(12, 512).unwrap_err().to_string();
        assert!(
            message.contains("512-byte blocks") && message.contains("needs 4096+64: format it so"),
            "{message}"
        );
    }

    #[test]
    fn unknown_flags_of_areas_are_refused() {
        let mut page = with_areas().encode();
        put(&mut page, at::AREA_FLAGS, &3_u32.to_le_bytes());
        seal(&mut page);
        assert!(matches!(Header::decode(&page), Err(DriveProblem::UnknownFlags { flags: 3 })));
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
        let layout = FileLayout::new(&with_areas().geometry);
        assert_eq!((layout.window_words(), layout.window_word_at(2)), (3 * 17, 12288 + 16));
        assert_eq!(layout.blocks_at(), 16384, "a page for the words of windows");
        assert_eq!(layout.second_at(1), 16384 + (600 * 48 + 1) * 4160);
        assert_eq!(layout.file_bytes(), 16384 + (600 * 48 + 48) * 4160);
    }
}
