//! Identities of a unit's blocks: the 64 bytes of metadata of each, in the block behind them.

use super::UNIT_BLOCKS;
use base::bytes::{array_at, put, u32_at, u64_at};
use base::checksum::crc32c;
use base::record_fields;
use base::units::{BLOCK_BYTES, OOB_BYTES, ZoneIndex};

const MAGIC: [u8; 4] = *b"ZWid";
const UNIT: usize = UNIT_BLOCKS as usize;
const IDENTITY_BYTES: usize = 68;

record_fields! { BLOCK_BYTES;
    MAGIC: 0, 4, "`ZWid`";
    CRC: 4, 4, "CRC32C of the block with this field zero";
    ZONE: 8, 4, "zone";
    UNIT: 12, 4, "unit of the zone";
    STAMP: 16, 8, "stamp of the zone's life in which the block was written";
    BLOCKS: 24, 4, "blocks of the unit that are written: 59, less in the last unit of a zone that was finished";
    RESERVED: 28, 4, "zero";
    UUID: 32, 16, "identity of the drive";
    RESERVED_2: 48, 16, "zero";
    IDENTITIES: 64, 4012, "for each block, zeros of blocks that are not written: CRC32C of its data (4), its metadata (64)";
    RESERVED_3: 4076, 20, "zero";
}

/// What is known of a block beside its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// CRC32C of the data.
    pub crc: u32,
    /// Metadata.
    pub oob: [u8; OOB_BYTES],
}

impl Identity {
    /// Identity of a block that was never answered, whatever its data are: no metadata, and not their checksum.
    #[must_use]
    pub fn torn(data: &[u8; BLOCK_BYTES]) -> Identity {
        Identity { crc: !crc32c(data), oob: [0; OOB_BYTES] }
    }

    /// True when it says of these data that they were never answered.
    #[must_use]
    pub fn is_torn(&self, data: &[u8; BLOCK_BYTES]) -> bool {
        self.oob == [0; OOB_BYTES] && self.crc == !crc32c(data)
    }
}

/// Whose identities a block should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The drive.
    pub uuid: [u8; 16],
    /// Zone of the unit.
    pub zone: ZoneIndex,
    /// The unit.
    pub unit: u32,
}

/// Identities of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Stamp of the life in which they were written.
    pub stamp: u64,
    /// Identities of the blocks that are written, the first of the unit.
    pub identities: Vec<Identity>,
}

impl Unit {
    /// Identities of the first blocks of a unit.
    ///
    /// # Panics
    /// When there are none, or more than a unit has blocks.
    #[must_use]
    pub fn of(identities: &[Identity], stamp: u64) -> Unit {
        assert!((1..=UNIT).contains(&identities.len()), "{} identities of a unit", identities.len());
        Unit { stamp, identities: identities.to_vec() }
    }

    /// Writes the block of the identities.
    pub fn encode(&self, owner: Owner, block: &mut [u8; BLOCK_BYTES]) {
        block.fill(0);
        put(block, at::MAGIC, &MAGIC);
        put(block, at::ZONE, &owner.zone.0.to_le_bytes());
        put(block, at::UNIT, &owner.unit.to_le_bytes());
        put(block, at::STAMP, &self.stamp.to_le_bytes());
        put(block, at::BLOCKS, &u32::try_from(self.identities.len()).expect("at most 59").to_le_bytes());
        put(block, at::UUID, &owner.uuid);
        for (place, identity) in
            block[at::IDENTITIES..].chunks_exact_mut(IDENTITY_BYTES).zip(&self.identities)
        {
            put(place, 0, &identity.crc.to_le_bytes());
            put(place, 4, &identity.oob);
        }
        let crc = crc32c(block);
        put(block, at::CRC, &crc.to_le_bytes());
    }

    /// Reads a block of identities; `None` when it is torn, damaged or of another unit.
    #[must_use]
    pub fn decode(owner: Owner, block: &[u8; BLOCK_BYTES]) -> Option<Unit> {
        let mut blank = *block;
        put(&mut blank, at::CRC, &[0; 4]);
        let is_whole = array_at::<4>(block, at::MAGIC) == MAGIC
            && array_at::<16>(block, at::UUID) == owner.uuid
            && u32_at(block, at::ZONE) == owner.zone.0
            && u32_at(block, at::UNIT) == owner.unit
            && crc32c(&blank) == u32_at(block, at::CRC);
        let blocks = u32_at(block, at::BLOCKS);
        if !is_whole || !(1..=UNIT_BLOCKS).contains(&blocks) {
            return None;
        }
        let places = block[at::IDENTITIES..].chunks_exact(IDENTITY_BYTES).take(blocks as usize);
        let identities = places.map(|place| Identity { crc: u32_at(place, 0), oob: array_at(place, 4) });
        Some(Unit { stamp: u64_at(block, at::STAMP), identities: identities.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_read_by_whom_they_belong_to() {
        let owner = Owner { uuid: [1; 16], zone: ZoneIndex(3), unit: 9 };
        let identities = [Identity { crc: 5, oob: [6; OOB_BYTES] }, Identity { crc: 7, oob: [8; OOB_BYTES] }];
        let unit = Unit::of(&identities, 44);
        let mut block = [0; BLOCK_BYTES];
        unit.encode(owner, &mut block);
        assert_eq!(Unit::decode(owner, &block), Some(unit.clone()));
        assert_eq!(unit.identities, identities);
        assert_eq!(Unit::decode(Owner { unit: 8, ..owner }, &block), None);
        assert_eq!(Unit::decode(Owner { uuid: [2; 16], ..owner }, &block), None);
        block[4000] ^= 1;
        assert_eq!(Unit::decode(owner, &block), None);
    }
}
