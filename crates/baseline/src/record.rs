//! Records of the log: 64 bytes that say what a block of a log zone is.
//!
//! ```text
//!   header in a block     | header: record, record, ... | parity row | parity row | ...     one append
//!   header out of band    | parity row (record) | parity row (record) | ...                 one append
//!   anything else         | superblock (record) |  | reset (record) |                       one append each
//! ```
//! Each row of partial parity has a record of its own, so that a torn append is as good as the rows that are
//! there. A record is an *equation*: the row is the XOR of the blocks of data of its row at positions below
//! `coverage`. Its checksum is bound to the array.

use base::bytes::{array_at, put, u16_at, u32_at, u64_at};
use base::checksum::crc32c;
use base::erasure::PIECES_MAX;
use base::frame::Frame;
use base::units::OOB_BYTES;
use base::xor::Block;
use zone::device::Geometry;

use super::config::RaiznConfig;

const MAGIC: u32 = u32::from_le_bytes(*b"ZWRZ");
/// Version of superblocks.
const VERSION: u32 = 2;
/// Offset at which superblocks say since when members belong to the array.
const SINCE: usize = 64;

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Parity of a part of a stripe whose writes are under way: it counts when all blocks it covers are there.
    Partial,
    /// Parity of blocks that recovery has decided upon, or that are all there: of what it covers, what is not
    /// there holds zeros.
    Settled,
    /// A block of records of the blocks that follow.
    Header,
    /// Configuration of the array, and its members.
    Superblock,
    /// A logical zone is reset: what it held up to this generation is gone.
    Reset,
    /// ZRAID: a logical zone is in use.
    Mark,
    /// ZRAID: how far a logical zone is written.
    WritePointer,
}

impl Kind {
    const ALL: [Kind; 7] = [
        Kind::Partial,
        Kind::Settled,
        Kind::Header,
        Kind::Superblock,
        Kind::Reset,
        Kind::Mark,
        Kind::WritePointer,
    ];

    fn code(self) -> u8 {
        match self {
            Kind::Partial => 1,
            Kind::Settled => 2,
            Kind::Header => 3,
            Kind::Superblock => 4,
            Kind::Reset => 5,
            Kind::Mark => 6,
            Kind::WritePointer => 7,
        }
    }

    fn from_code(code: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Kind of the record.
    pub kind: Kind,
    /// Mount that wrote it.
    pub epoch: u32,
    /// Logical zone.
    pub zone: u32,
    /// Generation of the logical zone: counts its resets.
    pub generation: u64,
    /// Stripe.
    pub stripe: u32,
    /// Row of the chunk.
    pub row: u16,
    /// Blocks of data of the stripe that a row may contain, in order; of a header, the count of its records; of a write
    /// pointer, the position.
    pub coverage: u32,
    /// CRC32C of the block it speaks of.
    pub data_crc: u32,
}

impl Record {
    /// A record that needs no zone.
    #[must_use]
    pub fn of_array(kind: Kind, epoch: u32) -> Record {
        Record { kind, epoch, zone: 0, generation: 0, stripe: 0, row: 0, coverage: 0, data_crc: 0 }
    }

    /// A record of the reset of a logical zone, up to a generation.
    #[must_use]
    pub fn of_reset(epoch: u32, zone: u32, generation: u64) -> Record {
        Record { zone, generation, ..Record::of_array(Kind::Reset, epoch) }
    }

    /// Writes the record into 64 bytes.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn encode(&self, array: u64, into: &mut [u8]) {
        into[..OOB_BYTES].fill(0);
        put(into, 0, &MAGIC.to_le_bytes());
        into[8] = self.kind.code();
        put(into, 10, &self.row.to_le_bytes());
        put(into, 12, &self.data_crc.to_le_bytes());
        put(into, 16, &self.epoch.to_le_bytes());
        put(into, 20, &self.zone.to_le_bytes());
        put(into, 24, &self.stripe.to_le_bytes());
        put(into, 28, &self.coverage.to_le_bytes());
        put(into, 32, &self.generation.to_le_bytes());
        let crc = checksum(into, array);
        put(into, 4, &crc.to_le_bytes());
    }

    /// Reads a record; `None` when these bytes are none of this array.
    ///
    /// # Panics
    /// When there are fewer than 64.
    #[must_use]
    pub fn decode(array: u64, from: &[u8]) -> Option<Record> {
        if u32_at(from, 0) != MAGIC || checksum(from, array) != u32_at(from, 4) {
            return None;
        }
        Some(Record {
            kind: Kind::from_code(from[8])?,
            row: u16_at(from, 10),
            data_crc: u32_at(from, 12),
            epoch: u32_at(from, 16),
            zone: u32_at(from, 20),
            stripe: u32_at(from, 24),
            coverage: u32_at(from, 28),
            generation: u64_at(from, 32),
        })
    }

    /// The record in a frame's metadata, if the frame's data is what it speaks of.
    #[must_use]
    pub fn of_frame(array: u64, frame: &Frame) -> Option<Record> {
        Record::decode(array, &frame.oob).filter(|record| record.data_crc == crc32c(&frame.data))
    }

    /// Puts the record into a frame's metadata.
    pub fn seal(mut self, array: u64, frame: &mut Frame) {
        self.data_crc = crc32c(&frame.data);
        self.encode(array, &mut frame.oob);
    }
}

/// Checksum of a record, with its field zero, followed by the array.
fn checksum(record: &[u8], array: u64) -> u32 {
    let mut bytes = [0; OOB_BYTES + 8];
    put(&mut bytes, 0, &record[..OOB_BYTES]);
    put(&mut bytes, 4, &[0; 4]);
    put(&mut bytes, OOB_BYTES, &array.to_le_bytes());
    crc32c(&bytes)
}

/// The engine of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// After RAIZN.
    Raizn,
    /// After ZRAID.
    Zraid,
}

impl Scheme {
    /// First bytes of its superblocks.
    #[must_use]
    pub fn magic(self) -> [u8; 8] {
        match self {
            Scheme::Raizn => *b"ZWRAIZN1",
            Scheme::Zraid => *b"ZWZRAID1",
        }
    }
}

/// Configuration of the array, and its members. The superblock with the highest epoch counts, and of those the one
/// with the highest sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Engine of the array.
    pub scheme: Scheme,
    /// The array.
    pub config: RaiznConfig,
    /// Member that holds this copy.
    pub member: u8,
    /// Mount that wrote it.
    pub epoch: u32,
    /// Counts superblocks of an epoch. Until number 1 is there, the epoch's log is not complete.
    pub sequence: u32,
    /// Members that failed, one bit each.
    pub failed: u32,
    /// By member, since when its drive is one: epoch and sequence. It tells a drive that was replaced from the one
    /// that took its place.
    pub since: [u64; PIECES_MAX],
}

impl Superblock {
    /// Puts it into a frame, with its record.
    pub fn seal(&self, frame: &mut Frame) {
        self.encode(&mut frame.data);
        Record::of_array(Kind::Superblock, self.epoch).seal(array_tag(&self.config), frame);
    }

    /// Writes it into a block.
    pub fn encode(&self, block: &mut Block) {
        let Geometry { zones, zone_size_blocks, zone_capacity_blocks, .. } = self.config.geometry;
        block.fill(0);
        put(block, 0, &self.scheme.magic());
        put(block, 8, &VERSION.to_le_bytes());
        put(block, 16, &self.config.array);
        put(block, 32, &self.epoch.to_le_bytes());
        put(block, 36, &self.sequence.to_le_bytes());
        put(block, 40, &self.failed.to_le_bytes());
        block[44] = self.member;
        block[45] = u8::try_from(self.config.members).expect("validated: at most 32 members");
        put(block, 48, &self.config.chunk_blocks.to_le_bytes());
        put(block, 52, &zones.to_le_bytes());
        put(block, 56, &zone_size_blocks.to_le_bytes());
        put(block, 60, &zone_capacity_blocks.to_le_bytes());
        for (member, since) in self.since.iter().enumerate() {
            put(block, SINCE + 8 * member, &since.to_le_bytes());
        }
    }

    /// Reads it; `geometry` is that of the drive it was read from. `None` when it is none, one of another engine, or of
    /// drives that are made otherwise.
    #[must_use]
    pub fn decode(scheme: Scheme, block: &Block, geometry: Geometry) -> Option<Superblock> {
        let made_like_this = u32_at(block, 52) == geometry.zones
            && u32_at(block, 56) == geometry.zone_size_blocks
            && u32_at(block, 60) == geometry.zone_capacity_blocks;
        if block[..8] != scheme.magic() || u32_at(block, 8) != VERSION || !made_like_this {
            return None;
        }
        let config = RaiznConfig {
            array: array_at(block, 16),
            members: usize::from(block[45]),
            chunk_blocks: u32_at(block, 48),
            geometry,
        };
        let mut since = [0; PIECES_MAX];
        for (member, since) in since.iter_mut().enumerate() {
            *since = u64_at(block, SINCE + 8 * member);
        }
        Some(Superblock {
            scheme,
            config,
            member: block[44],
            epoch: u32_at(block, 32),
            sequence: u32_at(block, 36),
            failed: u32_at(block, 40),
            since,
        })
    }
}

/// The part of an array's identity that checksums are bound to.
#[must_use]
pub fn array_tag(config: &RaiznConfig) -> u64 {
    u64_at(&config.array, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_are_bound_to_their_array() {
        for kind in Kind::ALL {
            let record = Record {
                kind,
                epoch: 7,
                zone: 3,
                generation: 1 << 40,
                stripe: 9,
                row: 63,
                coverage: 48,
                data_crc: 5,
            };
            let mut bytes = [0; OOB_BYTES];
            record.encode(1, &mut bytes);
            assert_eq!(Record::decode(1, &bytes), Some(record));
            assert_eq!(Record::decode(2, &bytes), None);
            bytes[20] ^= 1;
            assert_eq!(Record::decode(1, &bytes), None);
        }
    }
}
