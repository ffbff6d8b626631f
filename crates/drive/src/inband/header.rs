//! Header of a journal zone: who the drive is, how it is divided, and the number of the zone's first record.

use super::layout::Layout;
use base::bytes::{array_at, put, u32_at, u64_at};
use base::checksum::crc32c;
use base::record_fields;
use base::units::BLOCK_BYTES;

/// First bytes of a header.
pub const MAGIC: [u8; 8] = *b"ZWinbd\x01\0";
/// Version of everything that lies on the drive.
pub const VERSION: u32 = 1;
/// The same, of a drive whose journal lies elsewhere.
pub const VERSION_ELSEWHERE: u32 = 2;
/// Most bytes of the path at which the journal lay.
const PATH_BYTES: usize = 512;

record_fields! { BLOCK_BYTES;
    MAGIC: 0, 8, "`ZWinbd`, 1, 0";
    VERSION: 8, 4, "version of the format: 1; 2 when the journal lies elsewhere";
    CRC: 12, 4, "CRC32C of the block with this field zero";
    UUID: 16, 16, "identity of the drive";
    BASE: 32, 8, "number of the record in the next place of the zone";
    ZONES: 40, 4, "zones of the device that are used, the two of the journal included";
    ZONE_PLACES: 44, 4, "blocks of 4 KiB that a zone of the device holds";
    ACTIVE_MAX: 48, 4, "most zones of the host that are open or closed";
    JOURNAL: 52, 16, "identity of the journal that lies elsewhere, else zero";
    JOURNAL_PLACES: 68, 4, "blocks of 4 KiB of a zone of that journal, else zero";
    JOURNAL_PATH: 72, 512, "path at which that journal lay, a hint: UTF-8, behind it zeros";
    RESERVED: 584, 3512, "zero";
}

/// Identity and division of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Identity of the drive.
    pub uuid: [u8; 16],
    /// How it is divided.
    pub layout: Layout,
    /// Identity of its journal, when that lies elsewhere.
    pub journal: Option<[u8; 16]>,
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The same in both.
    pub label: Label,
    /// Number of the first record of the zone.
    pub base: u64,
}

/// Reason why a block is no header that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The block is something else.
    #[error("no journal of a drive with identities in-band")]
    NotAHeader,
    /// The block was a header, and was damaged.
    #[error("the checksum of the journal's header is wrong")]
    Damaged,
    /// Another version of the format.
    #[error("format version {0}; this program reads {VERSION} and {VERSION_ELSEWHERE}")]
    Version(u32),
}

impl Header {
    /// The block on the media.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        let Layout { zones, zone_places, active_zones_max, journal_places } = self.label.layout;
        let version = if self.label.journal.is_some() { VERSION_ELSEWHERE } else { VERSION };
        put(&mut block, at::MAGIC, &MAGIC);
        put(&mut block, at::VERSION, &version.to_le_bytes());
        put(&mut block, at::UUID, &self.label.uuid);
        put(&mut block, at::BASE, &self.base.to_le_bytes());
        put(&mut block, at::ZONES, &zones.to_le_bytes());
        put(&mut block, at::ZONE_PLACES, &zone_places.to_le_bytes());
        put(&mut block, at::ACTIVE_MAX, &active_zones_max.to_le_bytes());
        put(&mut block, at::JOURNAL, &self.label.journal.unwrap_or_default());
        put(&mut block, at::JOURNAL_PLACES, &journal_places.unwrap_or(0).to_le_bytes());
        seal(&mut block);
        block
    }

    /// The same for a drive whose journal lies elsewhere, with the path at which it lies; one that is too long is left out.
    #[must_use]
    pub fn encode_with_path(&self, path: &str) -> [u8; BLOCK_BYTES] {
        let mut block = self.encode();
        if path.len() <= PATH_BYTES {
            put(&mut block, at::JOURNAL_PATH, path.as_bytes());
        }
        seal(&mut block);
        block
    }

    /// Path at which the journal of a drive lay, by a header that was decoded.
    #[must_use]
    pub fn path_in(block: &[u8; BLOCK_BYTES]) -> Option<&str> {
        let bytes = &block[at::JOURNAL_PATH..at::JOURNAL_PATH + PATH_BYTES];
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(PATH_BYTES);
        std::str::from_utf8(&bytes[..end]).ok().filter(|path| !path.is_empty())
    }

    /// Reads a header.
    ///
    /// # Errors
    /// When it is none, or cannot be used.
    pub fn decode(block: &[u8; BLOCK_BYTES]) -> Result<Header, HeaderError> {
        if array_at::<8>(block, at::MAGIC) != MAGIC {
            return Err(HeaderError::NotAHeader);
        }
        let mut blank = *block;
        put(&mut blank, at::CRC, &[0; 4]);
        if crc32c(&blank) != u32_at(block, at::CRC) {
            return Err(HeaderError::Damaged);
        }
        let version = u32_at(block, at::VERSION);
        if ![VERSION, VERSION_ELSEWHERE].contains(&version) {
            return Err(HeaderError::Version(version));
        }
        let is_elsewhere = version == VERSION_ELSEWHERE;
        let layout = Layout {
            zones: u32_at(block, at::ZONES),
            zone_places: u32_at(block, at::ZONE_PLACES),
            active_zones_max: u32_at(block, at::ACTIVE_MAX),
            journal_places: is_elsewhere.then(|| u32_at(block, at::JOURNAL_PLACES)),
        };
        let journal = is_elsewhere.then(|| array_at(block, at::JOURNAL));
        let label = Label { uuid: array_at(block, at::UUID), layout, journal };
        Ok(Header { label, base: u64_at(block, at::BASE) })
    }
}

fn seal(block: &mut [u8; BLOCK_BYTES]) {
    put(block, at::CRC, &[0; 4]);
    let crc = crc32c(block);
    put(block, at::CRC, &crc.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_they_were_written() {
        let layout = Layout { zones: 9, zone_places: 500, active_zones_max: 3, journal_places: None };
        let header = Header { label: Label { uuid: [7; 16], layout, journal: None }, base: 1 << 40 };
        let block = header.encode();
        assert_eq!(Header::decode(&block), Ok(header));
        let mut damaged = block;
        damaged[100] ^= 1;
        assert_eq!(Header::decode(&damaged), Err(HeaderError::Damaged));
        assert_eq!(Header::decode(&[0; BLOCK_BYTES]), Err(HeaderError::NotAHeader));
    }

    #[test]
    fn headers_tell_where_the_journal_lies() {
        let layout = Layout { zones: 9, zone_places: 500, active_zones_max: 3, journal_places: Some(400) };
        let header = Header { label: Label { uuid: [7; 16], layout, journal: Some([8; 16]) }, base: 0 };
        let block = header.encode_with_path("/dev/disk/by-id/fast");
        assert_eq!(Header::decode(&block), Ok(header));
        assert_eq!(Header::path_in(&block), Some("/dev/disk/by-id/fast"));
        assert_eq!(Header::path_in(&header.encode_with_path(&"x".repeat(600))), None);
    }
}
