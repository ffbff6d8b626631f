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

record_fields! { BLOCK_BYTES;
    MAGIC: 0, 8, "`ZWinbd`, 1, 0";
    VERSION: 8, 4, "version of the format: 1";
    CRC: 12, 4, "CRC32C of the block with this field zero";
    UUID: 16, 16, "identity of the drive";
    BASE: 32, 8, "number of the record in the next place of the zone";
    ZONES: 40, 4, "zones of the device that are used, the two of the journal included";
    ZONE_PLACES: 44, 4, "blocks of 4 KiB that a zone of the device holds";
    ACTIVE_MAX: 48, 4, "most zones of the host that are open or closed";
    RESERVED: 52, 4044, "zero";
}

/// Identity and division of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Identity of the drive.
    pub uuid: [u8; 16],
    /// How it is divided.
    pub layout: Layout,
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
    #[error("format version {0}; this program reads {VERSION}")]
    Version(u32),
}

impl Header {
    /// The block on the media.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        let Layout { zones, zone_places, active_zones_max } = self.label.layout;
        put(&mut block, at::MAGIC, &MAGIC);
        put(&mut block, at::VERSION, &VERSION.to_le_bytes());
        put(&mut block, at::UUID, &self.label.uuid);
        put(&mut block, at::BASE, &self.base.to_le_bytes());
        put(&mut block, at::ZONES, &zones.to_le_bytes());
        put(&mut block, at::ZONE_PLACES, &zone_places.to_le_bytes());
        put(&mut block, at::ACTIVE_MAX, &active_zones_max.to_le_bytes());
        let crc = crc32c(&block);
        put(&mut block, at::CRC, &crc.to_le_bytes());
        block
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
        if version != VERSION {
            return Err(HeaderError::Version(version));
        }
        let layout = Layout {
            zones: u32_at(block, at::ZONES),
            zone_places: u32_at(block, at::ZONE_PLACES),
            active_zones_max: u32_at(block, at::ACTIVE_MAX),
        };
        let label = Label { uuid: array_at(block, at::UUID), layout };
        Ok(Header { label, base: u64_at(block, at::BASE) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_they_were_written() {
        let layout = Layout { zones: 9, zone_places: 500, active_zones_max: 3 };
        let header = Header { label: Label { uuid: [7; 16], layout }, base: 1 << 40 };
        let block = header.encode();
        assert_eq!(Header::decode(&block), Ok(header));
        let mut damaged = block;
        damaged[100] ^= 1;
        assert_eq!(Header::decode(&damaged), Err(HeaderError::Damaged));
        assert_eq!(Header::decode(&[0; BLOCK_BYTES]), Err(HeaderError::NotAHeader));
    }
}
