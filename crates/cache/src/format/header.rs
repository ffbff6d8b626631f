//! Zone headers: the first block of each zone but those of the superblock log.

use crate::format::FORMAT_VERSION;
use crate::hash::Shape;
use crate::request::WallMillis;
use base::bytes::{put, u32_at, u64_at};
use base::record_fields;
use base::units::BLOCK_BYTES;
use base::xor::Block;

record_fields! { BLOCK_BYTES;
    MAGIC: 0, 8, "`ZWCZONE1`";
    VERSION: 8, 4, "format version, 1";
    ROLE: 12, 1, "1 data, 2 journal";
    TAG_BITS: 13, 1, "bits of a tag that the index told apart when the zone was begun";
    RESERVED_0: 14, 2, "zero";
    BUCKETS: 16, 8, "buckets of the index when the zone was begun";
    WALL: 24, 8, "latest wall time seen, in milliseconds since 1970";
    RESERVED_1: 32, 4064, "zero";
}

const MAGIC: &[u8; 8] = b"ZWCZONE1";

/// Role of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Pages of records and directories.
    Data,
    /// Journal blocks.
    Journal,
}

/// A zone header. Its stamp says which zone and life it heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneHeader {
    /// Role of the zone.
    pub role: Role,
    /// Shape of the index: entries of a journal zone hide in its terms.
    pub shape: Shape,
    /// Latest wall time seen.
    pub wall: WallMillis,
}

impl ZoneHeader {
    /// Writes the header into a block.
    pub fn encode(&self, block: &mut Block) {
        block.fill(0);
        put(block, at::MAGIC, MAGIC);
        put(block, at::VERSION, &FORMAT_VERSION.to_le_bytes());
        block[at::ROLE] = match self.role {
            Role::Data => 1,
            Role::Journal => 2,
        };
        block[at::TAG_BITS] = u8::try_from(self.shape.tag_bits()).expect("at most 12");
        put(block, at::BUCKETS, &self.shape.buckets().to_le_bytes());
        put(block, at::WALL, &self.wall.0.to_le_bytes());
    }

    /// Reads a header; `None` when the block holds none of this version.
    #[must_use]
    pub fn decode(block: &Block) -> Option<ZoneHeader> {
        if &block[..8] != MAGIC || u32_at(block, at::VERSION) != FORMAT_VERSION {
            return None;
        }
        let role = match block[at::ROLE] {
            1 => Role::Data,
            2 => Role::Journal,
            _ => return None,
        };
        let shape = Shape::new(u64_at(block, at::BUCKETS), u32::from(block[at::TAG_BITS]))?;
        Some(ZoneHeader { role, shape, wall: WallMillis(u64_at(block, at::WALL)) })
    }
}
