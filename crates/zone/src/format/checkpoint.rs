//! Checkpoints: where the blocks of a volume lay, so that a mount reads only what was written since.
//!
//! The superblock says which checkpoint counts. Its *image* is a string of bytes, cut into blocks of kind `mapping`
//! that lie in stripes like any others; block `i` of checkpoint `n` has the LBA `n << 32 | i`.
//!
//! ```text
//!  | head | lost blocks | segments | rows of segments .. | blocks | tombstones | trimmed |
//!   56 B    8 B each      24 B each                         4 or 5 B  4 or 5 B    1 bit each
//! ```
//! Each part begins at a multiple of 8 bytes.

use base::bytes::{put, u32_at, u64_at};
use base::record_fields;

/// Most segments that are not sealed when a checkpoint begins.
pub const UNSEALED_MAX: usize = 64;
/// Bytes of the head of an image.
pub const HEAD_BYTES: usize = 56;
/// Bytes of what an image says of a segment.
pub const SEGMENT_BYTES: usize = 24;
const MAGIC: &[u8; 8] = b"ZWCHECKP";

record_fields! { HEAD_BYTES;
    MAGIC: 0, 8, "`ZWCHECKP`";
    NUMBER: 8, 4, "number of the checkpoint";
    SEGMENTS: 12, 4, "sealed segments that are described";
    SEQUENCE: 16, 8, "the next sequence when it began";
    VOLUME_BLOCKS: 24, 8, "size of the volume in blocks";
    LOST: 32, 8, "blocks that were lost when it began";
    BYTES: 40, 8, "bytes of the image";
    ENTRY_BYTES: 48, 1, "bytes of an entry of blocks and tombstones, 4 or 5";
    RESERVED: 49, 7, "zero";
}

/// A checkpoint as the superblock describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Number of the checkpoint; never zero.
    pub number: u32,
    /// Blocks of its image.
    pub blocks: u32,
    /// The next sequence when it began: every write since has this or a higher one.
    pub sequence: u64,
    /// The next segment id when it began.
    pub segment: u64,
    /// Segments that were there and not sealed.
    pub unsealed: Vec<Unsealed>,
}

/// A segment that was not sealed when a checkpoint began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsealed {
    /// Id of the segment.
    pub segment: u64,
    /// Stripes that were given out, all of them durable.
    pub stripes: u32,
}

impl Checkpoint {
    /// LBA of block `index` of the image.
    #[must_use]
    pub fn name(&self, index: u32) -> u64 {
        name_of(self.number, index)
    }

    /// True for a segment that was sealed when it began.
    #[must_use]
    pub fn covers(&self, segment: u64) -> bool {
        segment < self.segment && self.unsealed.iter().all(|unsealed| unsealed.segment != segment)
    }

    /// Stripes of a segment that were durable when it began; `None` for all of them.
    #[must_use]
    pub fn stripes_before(&self, segment: u64) -> Option<u32> {
        if segment >= self.segment {
            return Some(0);
        }
        let unsealed = self.unsealed.iter().find(|unsealed| unsealed.segment == segment);
        unsealed.map(|unsealed| unsealed.stripes)
    }
}

/// LBA of block `index` of the image of a checkpoint.
#[must_use]
pub fn name_of(number: u32, index: u32) -> u64 {
    u64::from(number) << 32 | u64::from(index)
}

/// The head of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of the checkpoint.
    pub number: u32,
    /// Sealed segments that are described.
    pub segments: u32,
    /// The next sequence when it began.
    pub sequence: u64,
    /// Size of the volume.
    pub volume_blocks: u64,
    /// Blocks that were lost when it began.
    pub lost: u64,
    /// Bytes of the image.
    pub bytes: u64,
    /// Bytes of an entry.
    pub entry_bytes: u8,
}

impl Head {
    /// The head as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        put(&mut bytes, at::MAGIC, MAGIC);
        put(&mut bytes, at::NUMBER, &self.number.to_le_bytes());
        put(&mut bytes, at::SEGMENTS, &self.segments.to_le_bytes());
        put(&mut bytes, at::SEQUENCE, &self.sequence.to_le_bytes());
        put(&mut bytes, at::VOLUME_BLOCKS, &self.volume_blocks.to_le_bytes());
        put(&mut bytes, at::LOST, &self.lost.to_le_bytes());
        put(&mut bytes, at::BYTES, &self.bytes.to_le_bytes());
        put(&mut bytes, at::ENTRY_BYTES, &[self.entry_bytes]);
        bytes
    }

    /// Reads a head; `None` when the bytes begin with none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Head> {
        let bytes = bytes.get(..HEAD_BYTES)?;
        (&bytes[..8] == MAGIC).then(|| Head {
            number: u32_at(bytes, at::NUMBER),
            segments: u32_at(bytes, at::SEGMENTS),
            sequence: u64_at(bytes, at::SEQUENCE),
            volume_blocks: u64_at(bytes, at::VOLUME_BLOCKS),
            lost: u64_at(bytes, at::LOST),
            bytes: u64_at(bytes, at::BYTES),
            entry_bytes: bytes[at::ENTRY_BYTES],
        })
    }
}

/// Fields of a sealed segment in an image.
pub mod segment {
    use super::SEGMENT_BYTES;
    use base::record_fields;

    record_fields! { SEGMENT_BYTES;
        SEGMENT: 0, 8, "segment id";
        STRIPES: 8, 4, "S";
        MEMBERS: 12, 2, "members";
        WIDTH: 14, 2, "bytes that say which stripe of its group a slot holds: 1, 2 or 4; zero under Zone Write; 65535 when the stripe table is left to the footers";
        RESERVED: 16, 8, "zero";
    }

    pub(super) const SEGMENT: usize = at::SEGMENT;
    pub(super) const STRIPES: usize = at::STRIPES;
    pub(super) const MEMBERS: usize = at::MEMBERS;
    pub(super) const WIDTH: usize = at::WIDTH;
}

/// A sealed segment in an image. Its rows follow in the part of rows: under Zone Append, for each slot of each member's
/// zone in turn which stripe of its group it holds (`width` bytes), then a bitmap of the slots that hold one; under
/// Zone Write, a bitmap of the stripes that hold something. Padded to 8 bytes. Where the stripe table is left to the
/// footers, there are no rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRows {
    /// Segment id.
    pub segment: u64,
    /// S.
    pub stripes: u32,
    /// Members.
    pub members: u16,
    /// Bytes of a slot; zero under Zone Write, [`WIDTH_IN_FOOTERS`] when the stripe table is left to the footers.
    pub width: u16,
}

/// Width of a segment whose stripe table is left to the footers.
pub const WIDTH_IN_FOOTERS: u16 = u16::MAX;

impl SegmentRows {
    /// Bytes that name any of so many stripes of a group.
    #[must_use]
    pub fn width_for(group_stripes: u32) -> u16 {
        match group_stripes {
            0..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            _ => 4,
        }
    }

    /// Entries of its bitmap.
    #[must_use]
    pub fn bits(&self) -> u64 {
        let zones = match self.width {
            0 => 1,
            WIDTH_IN_FOOTERS => 0,
            _ => u64::from(self.members),
        };
        zones * u64::from(self.stripes)
    }

    /// Bytes before its bitmap.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        (self.bits() * u64::from(self.width)).next_multiple_of(8)
    }

    /// Bytes of its rows.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.table_bytes() + self.bits().div_ceil(8).next_multiple_of(8)
    }

    /// The segment as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; SEGMENT_BYTES] {
        let mut bytes = [0; SEGMENT_BYTES];
        put(&mut bytes, segment::SEGMENT, &self.segment.to_le_bytes());
        put(&mut bytes, segment::STRIPES, &self.stripes.to_le_bytes());
        put(&mut bytes, segment::MEMBERS, &self.members.to_le_bytes());
        put(&mut bytes, segment::WIDTH, &self.width.to_le_bytes());
        bytes
    }

    /// Reads a segment; `None` when the bytes are too few.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<SegmentRows> {
        let bytes = bytes.get(..SEGMENT_BYTES)?;
        let two = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let width = two(segment::WIDTH);
        matches!(width, 0 | 1 | 2 | 4 | WIDTH_IN_FOOTERS).then(|| SegmentRows {
            segment: u64_at(bytes, segment::SEGMENT),
            stripes: u32_at(bytes, segment::STRIPES),
            members: two(segment::MEMBERS),
            width,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_and_a_segment_come_back() {
        let head = Head {
            number: 7,
            segments: 3,
            sequence: 1 << 41,
            volume_blocks: 99,
            lost: 2,
            bytes: 4096,
            entry_bytes: 5,
        };
        assert_eq!(Head::decode(&head.encode()), Some(head));
        let mut other = head.encode();
        other[0] ^= 1;
        assert_eq!(Head::decode(&other), None);
        assert_eq!(Head::decode(&other[..8]), None);
        let rows = SegmentRows { segment: 5 << 32, stripes: 100, members: 4, width: 1 };
        assert_eq!(SegmentRows::decode(&rows.encode()), Some(rows));
        assert_eq!(rows.bytes(), 400 + 56);
        assert_eq!(SegmentRows { width: 0, ..rows }.bytes(), 16);
        let in_footers = SegmentRows { width: WIDTH_IN_FOOTERS, ..rows };
        assert_eq!((SegmentRows::decode(&in_footers.encode()), in_footers.bytes()), (Some(in_footers), 0));
        assert_eq!(SegmentRows::decode(&SegmentRows { width: 3, ..rows }.encode()), None);
    }

    #[test]
    fn what_was_sealed_is_covered() {
        let unsealed = vec![Unsealed { segment: 9, stripes: 4 }];
        let checkpoint = Checkpoint { number: 2, blocks: 5, sequence: 100, segment: 11, unsealed };
        assert!(checkpoint.covers(8) && checkpoint.covers(10));
        assert!(!checkpoint.covers(9) && !checkpoint.covers(11));
        assert_eq!([8, 9, 11].map(|segment| checkpoint.stripes_before(segment)), [None, Some(4), Some(0)]);
        assert_eq!(checkpoint.name(3), 2 << 32 | 3);
    }
}
