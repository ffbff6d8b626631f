//! Summaries: what a segment that is still open holds, written down as it is filled, so that a mount need not read all of it.
//!
//! A block of one is of kind `mapping`, with the number 0 where others have that of their checkpoint: its LBA is the first
//! row that it describes. It lies in the segment that it describes, behind the stripes that it describes.
//!
//! ```text
//!  | head | row | row | ..        row n: block n mod C of each chunk of stripe n div C
//!   32 B     slots, data blocks
//! ```
//! Parity follows from data, so it is not described.

use crate::format::checkpoint::SegmentRows;
use crate::format::header::WriteMode;
use crate::format::oob::{Kind, Protected};
use crate::stripe::Layout;
use base::bytes::{put, u32_at, u64_at};
use base::erasure::Piece;
use base::record_fields;
use base::units::BLOCK_BYTES;
use base::xor::Block;

/// Bytes of the head.
pub const HEAD_BYTES: usize = 32;
/// Bytes of a data block in a row: LBA, sequence, kind.
const DATA_BYTES: usize = 17;
const MAGIC: &[u8; 8] = b"ZWSUMMRY";

record_fields! { HEAD_BYTES;
    MAGIC: 0, 8, "`ZWSUMMRY`";
    SEGMENT: 8, 8, "segment id";
    FIRST: 16, 4, "first row that is described";
    ROWS: 20, 4, "rows that are described";
    MEMBERS: 24, 1, "members";
    DATA_COUNT: 25, 1, "k";
    WIDTH: 26, 2, "bytes that say where in its group a slot is: 1, 2 or 4; zero under Zone Write";
    RESERVED: 28, 4, "zero";
}

/// True for the LBA of a block of a summary, among those of kind mapping.
#[must_use]
pub fn is_summary(lba: u64) -> bool {
    lba >> 32 == 0
}

/// Layout of the rows of a segment's summaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    members: usize,
    data_count: usize,
    width: usize,
}

impl Shape {
    /// Shape of a segment's summaries.
    #[must_use]
    pub fn of(layout: &Layout, mode: WriteMode) -> Shape {
        let width = match mode {
            WriteMode::Append => usize::from(SegmentRows::width_for(layout.group_stripes)),
            WriteMode::Write | WriteMode::Area => 0,
        };
        Shape { members: layout.members(), data_count: layout.code.data_count(), width }
    }

    fn row_bytes(&self) -> usize {
        self.members * self.width + self.data_count * DATA_BYTES
    }

    /// Most rows that one block describes.
    #[must_use]
    pub fn rows_max(&self) -> u32 {
        u32::try_from((BLOCK_BYTES - HEAD_BYTES) / self.row_bytes()).expect("rows of a block")
    }

    /// Offset of a row in its block.
    fn row_at(&self, index: u32) -> usize {
        HEAD_BYTES + index as usize * self.row_bytes()
    }
}

/// Head of a summary block: the rows that the block describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Segment id.
    pub segment: u64,
    /// First row that it describes.
    pub first: u32,
    /// Rows that it describes.
    pub rows: u32,
}

impl Head {
    /// Makes a block with this head, of rows that are not described yet.
    pub fn encode(&self, shape: &Shape, block: &mut Block) {
        let byte = |count: usize| u8::try_from(count).expect("at most 32 members");
        block.fill(0);
        put(block, at::MAGIC, MAGIC);
        put(block, at::SEGMENT, &self.segment.to_le_bytes());
        put(block, at::FIRST, &self.first.to_le_bytes());
        put(block, at::ROWS, &self.rows.to_le_bytes());
        put(block, at::MEMBERS, &[byte(shape.members)]);
        put(block, at::DATA_COUNT, &[byte(shape.data_count)]);
        put(block, at::WIDTH, &[byte(shape.width)]);
    }

    /// Reads the head; `None` when the block is not of a summary of this shape.
    #[must_use]
    pub fn decode(shape: &Shape, block: &Block) -> Option<Head> {
        let is_of_shape = &block[..8] == MAGIC
            && usize::from(block[at::MEMBERS]) == shape.members
            && usize::from(block[at::DATA_COUNT]) == shape.data_count
            && usize::from(block[at::WIDTH]) == shape.width;
        let rows = u32_at(block, at::ROWS);
        (is_of_shape && rows <= shape.rows_max()).then(|| Head {
            segment: u64_at(block, at::SEGMENT),
            first: u32_at(block, at::FIRST),
            rows,
        })
    }
}

/// Says where in its group the slot of a row's chunk on a member is. Nothing under Zone Write.
pub fn put_slot(shape: &Shape, (index, member): (u32, usize), within: u32, block: &mut Block) {
    let at = shape.row_at(index) + member * shape.width;
    put(block, at, &within.to_le_bytes()[..shape.width]);
}

/// Says what a data block of a row is.
pub fn put_data(shape: &Shape, (index, piece): (u32, Piece), data: &Protected, block: &mut Block) {
    let at = shape.row_at(index) + shape.members * shape.width + piece.index() * DATA_BYTES;
    put(block, at, &data.lba.to_le_bytes());
    put(block, at + 8, &data.sequence.to_le_bytes());
    put(block, at + 16, &[data.kind.code()]);
}

/// Leaves a row undescribed.
pub fn clear_row(shape: &Shape, index: u32, block: &mut Block) {
    block[shape.row_at(index)..][..shape.row_bytes()].fill(0);
}

/// Slot of a row's chunk on a member, counted within its group.
#[must_use]
pub fn slot(shape: &Shape, (index, member): (u32, usize), block: &Block) -> u32 {
    let at = shape.row_at(index) + member * shape.width;
    let mut number = [0; 4];
    number[..shape.width].copy_from_slice(&block[at..at + shape.width]);
    u32::from_le_bytes(number)
}

/// Protected fields of a data block of a row; `None` when the row is not described.
#[must_use]
pub fn data(shape: &Shape, (index, piece): (u32, Piece), block: &Block) -> Option<Protected> {
    let at = shape.row_at(index) + shape.members * shape.width + piece.index() * DATA_BYTES;
    let kind = Kind::from_code(block[at + 16])?;
    Some(Protected { lba: u64_at(block, at), sequence: u64_at(block, at + 8), kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back() {
        let shape = Shape { members: 4, data_count: 3, width: 2 };
        assert_eq!(shape.rows_max(), 68);
        let head = Head { segment: 7 << 32, first: 146, rows: 68 };
        let mut block = [0; BLOCK_BYTES];
        head.encode(&shape, &mut block);
        let blocks = |row: u32, piece: Piece| Protected {
            lba: u64::from(row) * 3 + u64::from(piece.0),
            sequence: 1 << 41 | u64::from(row),
            kind: Kind::User,
        };
        let pieces = [0, 1, 2].map(Piece);
        for row in 0..68 {
            (0..4).for_each(|member| put_slot(&shape, (row, member), row * 900, &mut block));
            pieces
                .into_iter()
                .for_each(|piece| put_data(&shape, (row, piece), &blocks(row, piece), &mut block));
        }
        clear_row(&shape, 5, &mut block);
        assert_eq!(Head::decode(&shape, &block), Some(head));
        for row in (0..68).filter(|row| *row != 5) {
            assert!((0..4).all(|member| slot(&shape, (row, member), &block) == row * 900));
            assert!(
                pieces
                    .into_iter()
                    .all(|piece| data(&shape, (row, piece), &block) == Some(blocks(row, piece)))
            );
        }
        assert_eq!(data(&shape, (5, Piece(0)), &block), None);
        assert_eq!(Head::decode(&Shape { width: 1, ..shape }, &block), None);
        block[0] ^= 1;
        assert_eq!(Head::decode(&shape, &block), None);
    }

    #[test]
    fn only_the_number_zero_is_of_summaries() {
        assert!(is_summary(0) && is_summary(u64::from(u32::MAX)));
        assert!(!is_summary(1 << 32));
    }
}
