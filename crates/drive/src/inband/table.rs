//! Table of a journal on a device without zones: which lives of its two zones count.
//!
//! ```text
//!   device:  table | table | zone 0: places | zone 1: places
//!   block of a zone: header or record, and behind it the seal: life of the journal, generation of the zone, place, checksum
//! ```
//! A device without zones has no write pointer, and what was there before stays. So a block counts when its seal is whole and of the generation that
//! the table says; the reset of a zone is a table with the next one. All that differs between two tables lies in one sector, which arrives or does not;
//! there are two copies all the same, for one that cannot be read.

use super::layout::JOURNAL_ZONES;
use super::seal::Seal;
use base::bytes::{array_at, put, u32_at, u64_at};
use base::checksum::crc32c;
use base::record_fields;
use base::units::BLOCK_BYTES;

/// First bytes of a table.
pub const MAGIC: [u8; 8] = *b"ZWjrnl\x01\0";
/// Version of the format.
pub const VERSION: u32 = 1;
/// Copies of the table, in the first blocks.
pub const COPIES: u32 = 2;
/// Most blocks of a zone: 32 MiB, in a quarter of which what is needed is written again.
pub const PLACES_MAX: u32 = 8192;
/// Numbers from here on are no journal's: none has been written so often.
const NUMBERS_END: u64 = 1 << 62;

record_fields! { BLOCK_BYTES;
    MAGIC: 0, 8, "`ZWjrnl`, 1, 0";
    VERSION: 8, 4, "version of the format: 1";
    CRC: 12, 4, "CRC32C of the block with this field zero";
    UUID: 16, 16, "identity of the journal; its first 8 bytes are the life in seals";
    DRIVE: 32, 16, "identity of the drive";
    SEQUENCE: 48, 8, "writes of the table; of the two copies the one with the higher number counts";
    PLACES: 56, 4, "blocks of 4 KiB of a zone";
    RESERVED: 60, 4, "zero";
    GENERATIONS: 64, 16, "generation of either zone (8 each): of its blocks those with this one count";
    ZEROS: 80, 4016, "zero";
}

/// Table of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Identity of the journal.
    pub uuid: [u8; 16],
    /// Identity of the drive whose journal it is.
    pub drive: [u8; 16],
    /// Blocks of a zone.
    pub places: u32,
    /// Writes of the table.
    pub sequence: u64,
    /// Generation of either zone.
    pub generations: [u64; JOURNAL_ZONES as usize],
}

impl Table {
    /// The block on the media.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        put(&mut block, at::MAGIC, &MAGIC);
        put(&mut block, at::VERSION, &VERSION.to_le_bytes());
        put(&mut block, at::UUID, &self.uuid);
        put(&mut block, at::DRIVE, &self.drive);
        put(&mut block, at::SEQUENCE, &self.sequence.to_le_bytes());
        put(&mut block, at::PLACES, &self.places.to_le_bytes());
        for (place, generation) in (at::GENERATIONS..).step_by(8).zip(self.generations) {
            put(&mut block, place, &generation.to_le_bytes());
        }
        let crc = crc32c(&block);
        put(&mut block, at::CRC, &crc.to_le_bytes());
        block
    }

    /// Reads a table; `None` when the block is torn, damaged, of another version or something else.
    #[must_use]
    pub fn decode(block: &[u8; BLOCK_BYTES]) -> Option<Table> {
        let mut blank = *block;
        put(&mut blank, at::CRC, &[0; 4]);
        let is_whole = array_at::<8>(block, at::MAGIC) == MAGIC
            && crc32c(&blank) == u32_at(block, at::CRC)
            && u32_at(block, at::VERSION) == VERSION;
        let table = Table {
            uuid: array_at(block, at::UUID),
            drive: array_at(block, at::DRIVE),
            places: u32_at(block, at::PLACES),
            sequence: u64_at(block, at::SEQUENCE),
            generations: [u64_at(block, at::GENERATIONS), u64_at(block, at::GENERATIONS + 8)],
        };
        (is_whole && table.makes_sense()).then_some(table)
    }

    fn makes_sense(&self) -> bool {
        let [one, other] = self.generations;
        (1..=PLACES_MAX).contains(&self.places)
            && [self.sequence, one, other].iter().all(|n| *n < NUMBERS_END)
    }

    /// Blocks of a device that the journal takes.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        u64::from(COPIES) + u64::from(JOURNAL_ZONES) * u64::from(self.places)
    }

    /// Block of the device for a place of a zone.
    #[must_use]
    pub fn block_of(&self, zone: u32, offset: u32) -> u64 {
        u64::from(COPIES) + u64::from(self.number(zone, offset))
    }

    fn number(&self, zone: u32, offset: u32) -> u32 {
        zone * self.places + offset
    }

    fn seal_of(&self, zone: u32, offset: u32) -> Seal {
        let generation = self.generations[zone as usize];
        Seal { life: array_at(&self.uuid, 0), generation, place: self.number(zone, offset) }
    }

    /// Seals a block of a zone.
    pub fn seal(&self, zone: u32, offset: u32, block: &mut [u8; BLOCK_BYTES]) {
        self.seal_of(zone, offset).put_on(block);
    }

    /// Takes the seal off a block of a zone. One that is not of the zone's life becomes zeros, and this is false.
    pub fn unseal(&self, zone: u32, offset: u32, block: &mut [u8; BLOCK_BYTES]) -> bool {
        self.seal_of(zone, offset).take_off(block)
    }
}

#[cfg(test)]
mod tests {
    use super::super::seal::SEAL_BYTES;
    use super::*;

    const TABLE: Table =
        Table { uuid: [7; 16], drive: [9; 16], places: 100, sequence: 5, generations: [3, 4] };

    #[test]
    fn tables_are_read_as_they_were_written() {
        let block = TABLE.encode();
        assert_eq!(Table::decode(&block), Some(TABLE));
        let mut damaged = block;
        damaged[2000] ^= 1;
        assert_eq!(Table::decode(&damaged), None);
        for (sequence, places) in [(u64::MAX, 100), (5, 0), (5, u32::MAX)] {
            assert_eq!(Table::decode(&Table { sequence, places, ..TABLE }.encode()), None);
        }
        assert_eq!(Table::decode(&Table { generations: [3, u64::MAX], ..TABLE }.encode()), None);
        assert!(block[512..].iter().all(|byte| *byte == 0), "a sector has all that differs");
    }

    #[test]
    fn blocks_of_another_life_are_none() {
        let mut block = [5; BLOCK_BYTES];
        block[BLOCK_BYTES - SEAL_BYTES..].fill(0);
        let content = block;
        TABLE.seal(1, 30, &mut block);
        let mut read = block;
        assert!(TABLE.unseal(1, 30, &mut read) && read == content);
        let others = [
            Table { generations: [3, 5], ..TABLE },
            Table { generations: [4, 3], ..TABLE },
            Table { uuid: [8; 16], ..TABLE },
        ];
        for other in others {
            let mut read = block;
            assert!(!other.unseal(1, 30, &mut read) && read == [0; BLOCK_BYTES]);
        }
        assert!(!TABLE.unseal(1, 31, &mut block.clone()) && !TABLE.unseal(0, 130, &mut { block }));
        block[600] ^= 1;
        assert!(!TABLE.unseal(1, 30, &mut block));
    }
}
