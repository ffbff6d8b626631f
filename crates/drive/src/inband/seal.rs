//! Seal of a block of a journal on a device without zones: of which life, of which generation of its zone and for which place it was written.

use base::bytes::{array_at, put, u32_at, u64_at};
use base::checksum::crc32c;
use base::record_fields;
use base::units::BLOCK_BYTES;

/// Bytes that a seal takes at the end of a block.
pub const SEAL_BYTES: usize = 24;

record_fields! { BLOCK_BYTES;
    CONTENT: 0, 4072, "a header or a record of the journal, as in a zone of the drive; its last bytes are zeros there";
    LIFE: 4072, 8, "first 8 bytes of the journal's identity";
    GENERATION: 4080, 8, "generation of the zone when the block was written";
    PLACE: 4088, 4, "zone and place: number of the block from the begin of zone 0";
    CRC: 4092, 4, "CRC32C of the block with this field zero";
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Life of the journal.
    pub life: [u8; 8],
    /// Generation of the zone.
    pub generation: u64,
    /// Number of the block.
    pub place: u32,
}

impl Seal {
    /// Seals a block.
    ///
    /// # Panics
    /// When there is something where the seal goes.
    pub fn put_on(&self, block: &mut [u8; BLOCK_BYTES]) {
        assert_eq!(block[at::LIFE..], [0; SEAL_BYTES], "a block of the journal leaves room for its seal");
        put(block, at::LIFE, &self.life);
        put(block, at::GENERATION, &self.generation.to_le_bytes());
        put(block, at::PLACE, &self.place.to_le_bytes());
        let crc = crc32c(block);
        put(block, at::CRC, &crc.to_le_bytes());
    }

    /// Takes the seal off a block. One with another seal becomes zeros, and this is false.
    pub fn take_off(&self, block: &mut [u8; BLOCK_BYTES]) -> bool {
        let crc = u32_at(block, at::CRC);
        put(block, at::CRC, &[0; 4]);
        let counts = array_at::<8>(block, at::LIFE) == self.life
            && u64_at(block, at::GENERATION) == self.generation
            && u32_at(block, at::PLACE) == self.place
            && crc32c(block) == crc;
        match counts {
            true => put(block, at::LIFE, &[0; SEAL_BYTES]),
            false => block.fill(0),
        }
        counts
    }
}
