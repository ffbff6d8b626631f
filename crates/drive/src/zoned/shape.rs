//! Zones of a block device that a drive is made of: those that are written in order and are alike.
//!
//! ```text
//!   conventional zones | zone | zone | ... | zone | a smaller one, or of another kind
//!        skipped       └────── the drive ─────────┘  left out
//! ```

use super::ioctl::{CLOSED, EMPTY, EXPLICIT_OPEN, FULL, IMPLICIT_OPEN, Line, OFFLINE, READ_ONLY};
use base::units::BLOCK_BYTES_U64;
use block::md::SECTOR_BYTES_U64;
use zone::device::{ZoneDescriptor, ZoneState};

const BLOCK_SECTORS: u64 = BLOCK_BYTES_U64 / SECTOR_BYTES_U64;
/// Kind of zones that are written in order.
const SEQUENTIAL: u8 = 2;

/// Zones of the drive on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// First sector of the first zone.
    pub start: u64,
    /// Zones.
    pub zones: u32,
    /// Blocks from one zone to the next.
    pub size_blocks: u32,
    /// Blocks of a zone that can be written.
    pub capacity_blocks: u32,
}

/// Reason why a device's zones cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// None is written in order.
    #[error("the device has no zones that are written in order")]
    NoZones,
    /// Zones do not begin and end with blocks.
    #[error(
        "zones of {length} sectors of 512 bytes, {capacity} of them usable, are not made of blocks of 4 KiB"
    )]
    NotBlocks {
        /// Sectors of a zone.
        length: u64,
        /// Sectors that can be written.
        capacity: u64,
    },
    /// Zones differ.
    #[error("zone {zone} has {has} usable sectors, and those before have {others}: zones have to be alike")]
    Unlike {
        /// Zone of the device.
        zone: usize,
        /// Its sectors.
        has: u64,
        /// Sectors of the zones before.
        others: u64,
    },
}

impl Shape {
    /// The zones of a device to be used.
    pub(super) fn of(lines: &[Line]) -> Result<Shape, ShapeError> {
        let skipped = lines.iter().take_while(|line| line.kind != SEQUENTIAL).count();
        let first = lines.get(skipped).ok_or(ShapeError::NoZones)?;
        let is_like = |line: &&Line| line.kind == SEQUENTIAL && line.length == first.length;
        let used: Vec<&Line> = lines[skipped..].iter().take_while(is_like).collect();
        if let Some(other) = used.iter().position(|line| line.capacity != first.capacity) {
            let (has, others) = (used[other].capacity, first.capacity);
            return Err(ShapeError::Unlike { zone: skipped + other, has, others });
        }
        let (length, capacity) = (first.length, first.capacity);
        let blocks = |sectors: u64| u32::try_from(sectors / BLOCK_SECTORS).ok();
        let is_whole = [first.start, length, capacity].iter().all(|sectors| sectors % BLOCK_SECTORS == 0);
        match (blocks(length), blocks(capacity), u32::try_from(used.len())) {
            (Some(size_blocks), Some(capacity_blocks), Ok(zones)) if is_whole => {
                Ok(Shape { start: first.start, zones, size_blocks, capacity_blocks })
            }
            _ => Err(ShapeError::NotBlocks { length, capacity }),
        }
    }

    /// First sector of a block of a zone.
    #[must_use]
    pub fn sector_of(&self, zone: u32, offset: u32) -> u64 {
        self.start + (u64::from(zone) * u64::from(self.size_blocks) + u64::from(offset)) * BLOCK_SECTORS
    }

    /// Sectors from one zone to the next.
    #[must_use]
    pub fn zone_sectors(&self) -> u64 {
        u64::from(self.size_blocks) * BLOCK_SECTORS
    }

    /// State of a zone; `None` when what the kernel says makes no sense.
    pub(super) fn descriptor(&self, line: &Line) -> Option<ZoneDescriptor> {
        let state = match line.condition {
            EMPTY => ZoneState::Empty,
            IMPLICIT_OPEN => ZoneState::ImplicitOpen,
            EXPLICIT_OPEN => ZoneState::ExplicitOpen,
            CLOSED => ZoneState::Closed,
            READ_ONLY => ZoneState::ReadOnly,
            FULL => ZoneState::Full,
            OFFLINE => ZoneState::Offline,
            _ => return None,
        };
        let has_pointer = !matches!(state, ZoneState::ReadOnly | ZoneState::Full | ZoneState::Offline);
        // A block that was cut off by a power failure counts as written: it has no checksum that is right.
        let written = line.pointer.saturating_sub(line.start).div_ceil(BLOCK_SECTORS);
        let write_pointer = match has_pointer {
            true => u32::try_from(written).ok().filter(|written| *written <= self.capacity_blocks)?,
            false => u32::MAX,
        };
        Some(ZoneDescriptor { state, write_pointer, capacity: self.capacity_blocks, has_area: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(start: u64, kind: u8) -> Line {
        Line { start, length: 512, pointer: start + 9, capacity: 384, kind, condition: 4 }
    }

    #[test]
    fn conventional_zones_are_skipped_and_a_smaller_last_one_is_left_out() {
        let mut lines: Vec<Line> =
            [1, 1, 2, 2, 2].into_iter().zip(0..).map(|(kind, at)| line(at * 512, kind)).collect();
        lines.push(Line { length: 256, capacity: 256, ..line(2560, 2) });
        let shape = Shape::of(&lines).unwrap();
        assert_eq!(shape, Shape { start: 1024, zones: 3, size_blocks: 64, capacity_blocks: 48 });
        assert_eq!((shape.sector_of(0, 0), shape.sector_of(2, 3)), (1024, 1024 + 1024 + 24));
        let found = shape.descriptor(&lines[3]).unwrap();
        assert_eq!((found.state, found.write_pointer), (ZoneState::Closed, 2), "9 sectors begin two blocks");
        assert!(shape.descriptor(&Line { condition: 9, ..lines[3] }).is_none());
        assert!(shape.descriptor(&Line { pointer: 9000, ..lines[2] }).is_none());
    }

    #[test]
    fn zones_that_cannot_be_used_are_told() {
        assert_eq!(Shape::of(&[line(0, 1)]), Err(ShapeError::NoZones));
        let odd = Line { capacity: 380, ..line(0, 2) };
        assert_eq!(Shape::of(&[odd]), Err(ShapeError::NotBlocks { length: 512, capacity: 380 }));
        let unlike = [line(0, 2), Line { capacity: 376, ..line(512, 2) }];
        assert_eq!(Shape::of(&unlike), Err(ShapeError::Unlike { zone: 1, has: 376, others: 384 }));
    }
}
