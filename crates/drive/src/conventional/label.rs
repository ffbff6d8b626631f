//! Label of a conventional drive: who it is and how it is divided. Its first and its last block, so that a partition
//! table or a file system that is written over the begin does not take the drive's identity along.

use super::layout::{Layout, LayoutError};
use base::bytes::{array_at, put, u32_at, u64_at};
use base::checksum::crc32c;
use base::record_fields;
use base::units::BLOCK_BYTES;

/// First bytes of a label.
pub const MAGIC: [u8; 8] = *b"ZWconv\x01\0";
/// Version of everything that lies on the drive.
pub const VERSION: u32 = 1;

record_fields! { BLOCK_BYTES;
    MAGIC: 0, 8, "`ZWconv`, 1, 0";
    VERSION: 8, 4, "version of the format: 1";
    CRC: 12, 4, "CRC32C of the block with this field zero";
    UUID: 16, 16, "identity of the drive";
    BLOCKS: 32, 8, "blocks of 4 KiB of the device that are used; the last is the other copy of the label";
    ZONES: 40, 4, "number of zones";
    ZONE_UNITS: 44, 4, "units of a zone: 59 blocks of data and one of identities each";
    ACTIVE_MAX: 48, 4, "most zones that are open or closed";
    JOURNAL_RECORDS: 52, 4, "records of the journal's ring";
    RESERVED: 56, 4040, "zero";
}

/// Contents of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Identity of the drive.
    pub uuid: [u8; 16],
    /// How it is divided.
    pub layout: Layout,
}

/// Reason why a block is no label that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// The block is something else.
    #[error("no label of a conventional drive")]
    NotALabel,
    /// The block was a label, and was damaged.
    #[error("the label's checksum is wrong")]
    Damaged,
    /// Another version of the format.
    #[error("format version {0}; this program reads {VERSION}")]
    Version(u32),
    /// The division makes no sense.
    #[error("the label makes no sense: {0}")]
    Layout(#[from] LayoutError),
}

impl Label {
    /// The block on the media.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        let Layout { blocks, zones, zone_units, active_zones_max, journal_records } = self.layout;
        put(&mut block, at::MAGIC, &MAGIC);
        put(&mut block, at::VERSION, &VERSION.to_le_bytes());
        put(&mut block, at::UUID, &self.uuid);
        put(&mut block, at::BLOCKS, &blocks.to_le_bytes());
        put(&mut block, at::ZONES, &zones.to_le_bytes());
        put(&mut block, at::ZONE_UNITS, &zone_units.to_le_bytes());
        put(&mut block, at::ACTIVE_MAX, &active_zones_max.to_le_bytes());
        put(&mut block, at::JOURNAL_RECORDS, &journal_records.to_le_bytes());
        let crc = crc32c(&block);
        put(&mut block, at::CRC, &crc.to_le_bytes());
        block
    }

    /// Reads a label.
    ///
    /// # Errors
    /// When it is none, or cannot be used.
    pub fn decode(block: &[u8; BLOCK_BYTES]) -> Result<Label, LabelError> {
        if array_at::<8>(block, at::MAGIC) != MAGIC {
            return Err(LabelError::NotALabel);
        }
        let mut blank = *block;
        put(&mut blank, at::CRC, &[0; 4]);
        if crc32c(&blank) != u32_at(block, at::CRC) {
            return Err(LabelError::Damaged);
        }
        let version = u32_at(block, at::VERSION);
        if version != VERSION {
            return Err(LabelError::Version(version));
        }
        let layout = Layout {
            blocks: u64_at(block, at::BLOCKS),
            zones: u32_at(block, at::ZONES),
            zone_units: u32_at(block, at::ZONE_UNITS),
            active_zones_max: u32_at(block, at::ACTIVE_MAX),
            journal_records: u32_at(block, at::JOURNAL_RECORDS),
        };
        layout.validate()?;
        Ok(Label { uuid: array_at(block, at::UUID), layout })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_as_they_were_written() {
        let layout =
            Layout { blocks: 9_000, zones: 4, zone_units: 16, active_zones_max: 3, journal_records: 64 };
        let label = Label { uuid: [7; 16], layout };
        let block = label.encode();
        assert_eq!(Label::decode(&block), Ok(label));
        let mut damaged = block;
        damaged[100] ^= 1;
        assert_eq!(Label::decode(&damaged), Err(LabelError::Damaged));
        assert_eq!(Label::decode(&[0; BLOCK_BYTES]), Err(LabelError::NotALabel));
    }
}
