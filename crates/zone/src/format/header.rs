//! Segment headers: the first block of every zone of a segment.
//!
//! Every copy describes the whole segment, so any good one suffices; the copy that lies in a zone
//! says by its member index that this zone is its own.

use crate::format::{FORMAT_VERSION, HEADER_BLOCKS, MEMBERS_MAX};
use crate::stripe::GROUP_STRIPES_MAX;
use base::bytes::{array_at, put, u32_at, u64_at};
use base::checksum::crc32c;
use base::record_fields;
use base::units::{BLOCK_BYTES, ZoneIndex};
use base::xor::Block;

record_fields! { BLOCK_BYTES;
    MAGIC: 0, 8, "`ZWSEGMT1`";
    VERSION: 8, 4, "format version, 5";
    CRC: 12, 4, "CRC32C of the record with this field zero";
    ARRAY: 16, 16, "array UUID";
    SEGMENT: 32, 8, "segment id, never used twice";
    SEQUENCE: 40, 8, "sequence when the segment was created";
    MEMBER: 48, 1, "member index of the drive that holds this copy";
    DATA_COUNT: 49, 1, "k";
    PARITY_COUNT: 50, 1, "m";
    LEVEL: 51, 1, "RAID level: 0, 1 (RAID-01), 4, 5, 6, or 7 (three rotating parities)";
    MODE: 52, 1, "1 Zone Append, 2 Zone Write, 3 area mode: any order in random write areas, 4 write area: no stripes, but slots of one block in the windows";
    STREAM: 53, 1, "1 user, small chunks, 2 garbage collection, 3 user, large chunks";
    BLANK: 54, 1, "not zero: the zone of this copy holds nothing else, for its drive went back to a moment before the segment: 1 when that was sealed, 2 when it was open and a volatile cache may have been lost instead";
    RESERVED_0: 55, 1, "zero";
    CHUNK_BLOCKS: 56, 4, "C, blocks of a chunk";
    GROUP_STRIPES: 60, 4, "G, stripes of a group";
    STRIPES: 64, 4, "S, stripes of the data region";
    HEADER_BLOCKS: 68, 4, "blocks before the data region in area mode: whole granules of the windows, which are committed before the segment counts, and a marker behind them, another copy; zero in other modes: one";
    ZONES: 72, 128, "zone on each member, 4 bytes each; also for members that were missing, where a rebuild will write it";
    RESERVED_2: 200, 3896, "zero";
}

const MAGIC: &[u8; 8] = b"ZWSEGMT1";

/// Way in which a segment's zones are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// Zone Append: chunks of a group land in any order; a stripe table says where.
    Append,
    /// Zone Write: stripe `s` lies at chunk `s` of every zone.
    Write,
    /// The same in zones with random write areas: up to a window of chunks is in flight, in any order (ADR 52).
    Area,
}

impl WriteMode {
    /// True where stripe `s` lies at chunk `s` of every zone, so that no stripe table is needed.
    #[must_use]
    pub fn has_static_slots(self) -> bool {
        match self {
            WriteMode::Append => false,
            WriteMode::Write | WriteMode::Area => true,
        }
    }
}

/// Blocks of the marker in a zone's window, which tells that the window was kept: another copy of the header.
pub const MARKER_BLOCKS: u32 = 1;

/// State of a copy's zone: whether it holds nothing but the copy, which a mount wrote (ADR 19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blank {
    /// The zone holds its part of the segment.
    No,
    /// The drive went back to a moment before the segment: the zone's part was durable there once.
    Proven,
    /// The drive went back, or lost a volatile cache: what the zone held may never have been promised.
    Unproven,
}

/// Whose blocks a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Blocks that clients write, in small chunks.
    Small,
    /// Blocks of clients' large requests, in large chunks.
    Large,
    /// Blocks that garbage collection moved.
    Gc,
    /// Blocks that garbage collection moved and nobody wrote for long, where the collector separates them. On the
    /// media they count among the other blocks that it moved: their age says as much.
    Cold,
    /// Parts of the index that are not in memory. On the media they are what the collector's are: a mount takes them
    /// for dead, and fills up what is left open.
    Mapping,
}

impl Stream {
    /// Count of streams.
    pub const COUNT: usize = 5;
    /// All of them.
    pub const ALL: [Stream; Stream::COUNT] =
        [Stream::Small, Stream::Large, Stream::Gc, Stream::Cold, Stream::Mapping];
    /// Streams of the volume's blocks.
    pub const DATA: [Stream; 4] = [Stream::Small, Stream::Large, Stream::Gc, Stream::Cold];
    /// Streams of clients.
    pub const CLIENTS: [Stream; 2] = [Stream::Small, Stream::Large];

    /// Place in tables by stream.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Stream::Small => 0,
            Stream::Large => 1,
            Stream::Gc => 2,
            Stream::Cold => 3,
            Stream::Mapping => 4,
        }
    }

    /// True for what clients write.
    #[must_use]
    pub fn is_clients(self) -> bool {
        matches!(self, Stream::Small | Stream::Large)
    }

    /// True for what the collector of the volume moves.
    #[must_use]
    pub fn is_collectors(self) -> bool {
        matches!(self, Stream::Gc | Stream::Cold)
    }
}

/// A segment header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Identity of the array.
    pub array: [u8; 16],
    /// Segment id.
    pub segment: u64,
    /// Sequence when it was created.
    pub sequence: u64,
    /// Member that holds this copy.
    pub member: u8,
    /// State of this copy's zone: whether it holds anything else.
    pub blank: Blank,
    /// k.
    pub data_count: u8,
    /// m.
    pub parity_count: u8,
    /// RAID level.
    pub level: u8,
    /// Way in which the segment's zones are written.
    pub mode: WriteMode,
    /// True for zones of the write area: they hold slots in their windows, and no stripes.
    pub is_write_area: bool,
    /// Whose blocks it holds.
    pub stream: Stream,
    /// Blocks before the data region: one but in area mode.
    pub header_blocks: u32,
    /// C.
    pub chunk_blocks: u32,
    /// G.
    pub group_stripes: u32,
    /// S.
    pub stripes: u32,
    /// Zone on each member.
    pub zones: Vec<ZoneIndex>,
}

impl SegmentHeader {
    /// Writes the copy of member `member` into a block.
    pub fn encode(&self, member: u8, block: &mut Block) {
        assert!(self.zones.len() <= MEMBERS_MAX);
        block.fill(0);
        put(block, at::MAGIC, MAGIC);
        put(block, at::VERSION, &FORMAT_VERSION.to_le_bytes());
        put(block, at::ARRAY, &self.array);
        put(block, at::SEGMENT, &self.segment.to_le_bytes());
        put(block, at::SEQUENCE, &self.sequence.to_le_bytes());
        block[at::MEMBER] = member;
        block[at::BLANK] = match self.blank {
            Blank::No => 0,
            Blank::Proven => 1,
            Blank::Unproven => 2,
        };
        block[at::DATA_COUNT] = self.data_count;
        block[at::PARITY_COUNT] = self.parity_count;
        block[at::LEVEL] = self.level;
        block[at::MODE] = match self.mode {
            WriteMode::Append => 1,
            WriteMode::Write => 2,
            WriteMode::Area if self.is_write_area => 4,
            WriteMode::Area => 3,
        };
        block[at::STREAM] = match self.stream {
            Stream::Small => 1,
            Stream::Gc | Stream::Cold | Stream::Mapping => 2,
            Stream::Large => 3,
        };
        if self.mode == WriteMode::Area {
            put(block, at::HEADER_BLOCKS, &self.header_blocks.to_le_bytes());
        }
        put(block, at::CHUNK_BLOCKS, &self.chunk_blocks.to_le_bytes());
        put(block, at::GROUP_STRIPES, &self.group_stripes.to_le_bytes());
        put(block, at::STRIPES, &self.stripes.to_le_bytes());
        for (index, zone) in self.zones.iter().enumerate() {
            put(block, at::ZONES + 4 * index, &zone.0.to_le_bytes());
        }
        let crc = crc32c(block);
        put(block, at::CRC, &crc.to_le_bytes());
    }

    /// Reads a copy; `None` when the block holds none that is whole, of this version and of groups that a
    /// stripe table can number.
    #[must_use]
    pub fn decode(block: &Block) -> Option<SegmentHeader> {
        let mut bytes = *block;
        put(&mut bytes, at::CRC, &[0; 4]);
        let whole = crc32c(&bytes) == u32_at(block, at::CRC);
        if !whole || &block[..8] != MAGIC || u32_at(block, at::VERSION) != FORMAT_VERSION {
            return None;
        }
        let count = usize::from(block[at::DATA_COUNT]) + usize::from(block[at::PARITY_COUNT]);
        if count > MEMBERS_MAX || usize::from(block[at::MEMBER]) >= count {
            return None;
        }
        let group_stripes = u32_at(block, at::GROUP_STRIPES);
        if !(1..=GROUP_STRIPES_MAX).contains(&group_stripes) {
            return None;
        }
        let mode = match block[at::MODE] {
            1 => WriteMode::Append,
            2 => WriteMode::Write,
            3 | 4 => WriteMode::Area,
            _ => return None,
        };
        let header_blocks = match (mode, u32_at(block, at::HEADER_BLOCKS)) {
            (WriteMode::Area, 0..=MARKER_BLOCKS) => return None,
            (WriteMode::Area, blocks) => blocks,
            (WriteMode::Append | WriteMode::Write, 0) => HEADER_BLOCKS,
            (WriteMode::Append | WriteMode::Write, _) => return None,
        };
        let zones = (0..count).map(|index| ZoneIndex(u32_at(block, at::ZONES + 4 * index)));
        Some(SegmentHeader {
            array: array_at(block, at::ARRAY),
            segment: u64_at(block, at::SEGMENT),
            sequence: u64_at(block, at::SEQUENCE),
            member: block[at::MEMBER],
            blank: match block[at::BLANK] {
                0 => Blank::No,
                1 => Blank::Proven,
                2 => Blank::Unproven,
                _ => return None,
            },
            data_count: block[at::DATA_COUNT],
            parity_count: block[at::PARITY_COUNT],
            level: block[at::LEVEL],
            mode,
            is_write_area: block[at::MODE] == 4,
            stream: match block[at::STREAM] {
                1 => Stream::Small,
                2 => Stream::Gc,
                3 => Stream::Large,
                _ => return None,
            },
            header_blocks,
            chunk_blocks: u32_at(block, at::CHUNK_BLOCKS),
            group_stripes,
            stripes: u32_at(block, at::STRIPES),
            zones: zones.collect(),
        })
    }

    /// Blocks of a zone that are on its flash before the segment counts. In area mode the marker behind them is not.
    #[must_use]
    pub fn committed_blocks(&self) -> u32 {
        match self.mode {
            WriteMode::Append | WriteMode::Write => self.header_blocks,
            WriteMode::Area => self.header_blocks - MARKER_BLOCKS,
        }
    }

    /// True when the two copies describe the same segment.
    #[must_use]
    pub fn same_segment(&self, other: &SegmentHeader) -> bool {
        let shared = |copy: &SegmentHeader| SegmentHeader { member: 0, blank: Blank::No, ..copy.clone() };
        shared(self) == shared(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_a_damaged_one_does_not() {
        let header = SegmentHeader {
            array: [7; 16],
            segment: 1 << 33,
            sequence: 99,
            member: 1,
            blank: Blank::Unproven,
            data_count: 2,
            parity_count: 1,
            level: 5,
            mode: WriteMode::Append,
            is_write_area: false,
            stream: Stream::Gc,
            header_blocks: 1,
            chunk_blocks: 4,
            group_stripes: 16,
            stripes: 1000,
            zones: vec![ZoneIndex(3), ZoneIndex(5), ZoneIndex(9)],
        };
        let mut block = [0; BLOCK_BYTES];
        header.encode(1, &mut block);
        assert_eq!(SegmentHeader::decode(&block), Some(header.clone()));
        let mut other = [0; BLOCK_BYTES];
        SegmentHeader { blank: Blank::No, ..header.clone() }.encode(2, &mut other);
        assert!(SegmentHeader::decode(&other).unwrap().same_segment(&header));
        for at in [0, 33, 49, 53, 73, 4000] {
            let mut damaged = block;
            damaged[at] ^= 1;
            assert_eq!(SegmentHeader::decode(&damaged), None, "byte {at}");
        }
        let in_areas = SegmentHeader { mode: WriteMode::Area, header_blocks: 8, ..header.clone() };
        in_areas.encode(1, &mut block);
        assert_eq!(SegmentHeader::decode(&block), Some(in_areas.clone()));
        assert_eq!((in_areas.committed_blocks(), header.committed_blocks()), (7, 1));
        let of_slots = SegmentHeader { is_write_area: true, ..in_areas.clone() };
        of_slots.encode(1, &mut block);
        assert_eq!(SegmentHeader::decode(&block), Some(of_slots));
        for header_blocks in [0, 1] {
            SegmentHeader { header_blocks, ..in_areas.clone() }.encode(1, &mut block);
            assert_eq!(SegmentHeader::decode(&block), None, "header and marker come before data");
        }
        for group_stripes in [0, GROUP_STRIPES_MAX + 1] {
            SegmentHeader { group_stripes, ..header.clone() }.encode(1, &mut block);
            assert_eq!(SegmentHeader::decode(&block), None, "{group_stripes}");
        }
    }
}
