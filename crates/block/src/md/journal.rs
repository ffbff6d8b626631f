//! Journal of RAID-4, 5 and 6: metadata blocks, each followed by the data and parity blocks that it names.
//!
//! The log is a ring over the data area of the journal device; the superblock's tail says where it begins. Checksums are
//! CRC32C, seeded with the array UUID and without the final inversion.
//!
//! Positions are sectors within the ring. A reader goes on as long as blocks follow one another by position and by sequence number,
//! and are whole; so whoever has read a log to its end goes on with a sequence number that no block behind it can have
//! ([`SEQUENCE_JUMP`]).

use super::Uuid;
use base::bytes::{array_at, put, u16_at, u32_at, u64_at};
use base::checksum::crc32c;
use base::record_fields;

record_fields! { HEAD_BYTES;
    MAGIC: 0, 4, "`0x6433c509`";
    CHECKSUM: 4, 4, "of the 4-KiB block with this field zero";
    VERSION: 8, 1, "1";
    PAD1: 9, 1, "not used";
    PAD2: 10, 2, "not used";
    META_SIZE: 12, 4, "bytes used of the block, this head included";
    SEQUENCE: 16, 8, "one more than that of the block before";
    POSITION: 24, 8, "sector of this block in the journal";
}

/// Fields of what follows the head: payloads, one after the other.
pub mod payload {
    use base::record_fields;

    record_fields! { HEAD_BYTES;
        KIND: 0, 2, "0 data, 1 parity, 2 flush";
        FLAGS: 2, 2, "1 discard, 2 reshaped, 4 reshaping";
        SIZE: 4, 4, "data and parity: sectors. Flush: bytes of the stripes that follow, 8 for each";
        LOCATION: 8, 8, "data: sector of the array. Parity: sector of the member. Flush: its first stripe";
    }

    /// Bytes before the checksums: one of 4 bytes for each block of 4 KiB.
    pub const HEAD_BYTES: usize = 16;
    /// Bytes before the stripes of a flush.
    pub const FLUSH_HEAD_BYTES: usize = 8;

    pub(super) use at::*;
}

/// Bytes of the head.
pub const HEAD_BYTES: usize = 32;
/// Bytes of a metadata block, and of every block of the journal.
pub const BLOCK_BYTES: usize = 4096;
/// Sectors of the same.
pub const BLOCK_SECTORS: u64 = 8;
/// First word of a block.
pub const MAGIC: u32 = 0x6433_c509;
/// Distance of the first sequence number after a recovery to the last one before it, as the kernel has it.
pub const SEQUENCE_JUMP: u64 = 10_000;

const VERSION: u8 = 1;

/// What a metadata block announces; its blocks lie behind it in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Data of the array.
    Data {
        /// Flags.
        flags: u16,
        /// First sector of the array.
        sector: u64,
        /// Checksum of each 4-KiB block.
        checksums: Vec<u32>,
    },
    /// Parity of a row: P, then Q where there is one.
    Parity {
        /// Flags.
        flags: u16,
        /// Sector of the row on each member, from the start of its data.
        sector: u64,
        /// Checksum of each 4-KiB block.
        checksums: Vec<u32>,
    },
    /// Stripes that were written to the members, so that what lies before is void for them.
    Flush {
        /// Flags.
        flags: u16,
        /// Sectors of the stripes.
        stripes: Vec<u64>,
    },
}

/// Ring of the blocks of a journal, by its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring(u64);

impl Ring {
    /// The ring of a journal device with so many sectors for data.
    #[must_use]
    pub fn of(data_sectors: u64) -> Ring {
        Ring(data_sectors / BLOCK_SECTORS * BLOCK_SECTORS)
    }

    /// Sectors of the ring.
    #[must_use]
    pub fn sectors(self) -> u64 {
        self.0
    }

    /// Position so many sectors, at most those of the ring, behind another.
    ///
    /// # Panics
    /// When the ring has no such position.
    #[must_use]
    pub fn after(self, position: u64, sectors: u64) -> u64 {
        assert!(position < self.0 && sectors <= self.0, "{sectors} sectors behind {position} of {}", self.0);
        (position + sectors) % self.0
    }

    /// Sectors from one position to another that lies behind it.
    ///
    /// # Panics
    /// When the ring has no such position.
    #[must_use]
    pub fn distance(self, from: u64, to: u64) -> u64 {
        self.after(to, self.0 - from)
    }
}

/// Payloads of metadata blocks for the payloads of rows, which stay together.
///
/// # Panics
/// When those of one row do not fit a block.
#[must_use]
pub fn pack(rows: impl IntoIterator<Item = Vec<Payload>>) -> Vec<Vec<Payload>> {
    let mut blocks: Vec<Vec<Payload>> = Vec::new();
    let mut room = 0;
    for row in rows {
        let bytes: usize = row.iter().map(Payload::bytes).sum();
        assert!(bytes <= BLOCK_BYTES - HEAD_BYTES, "{bytes} bytes of payloads for a row");
        match blocks.last_mut() {
            Some(last) if bytes <= room => last.extend(row),
            _ => {
                room = BLOCK_BYTES - HEAD_BYTES;
                blocks.push(row);
            }
        }
        room -= bytes;
    }
    blocks
}

impl Payload {
    /// Bytes in the metadata block.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Payload::Data { checksums, .. } | Payload::Parity { checksums, .. } => {
                payload::HEAD_BYTES + 4 * checksums.len()
            }
            Payload::Flush { stripes, .. } => payload::FLUSH_HEAD_BYTES + 8 * stripes.len(),
        }
    }

    /// Blocks behind the metadata block.
    #[must_use]
    pub fn blocks(&self) -> usize {
        match self {
            Payload::Data { checksums, .. } | Payload::Parity { checksums, .. } => checksums.len(),
            Payload::Flush { .. } => 0,
        }
    }
}

/// Metadata block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaBlock {
    /// One more than that of the block before.
    pub sequence: u64,
    /// Sector of the block in the journal.
    pub position: u64,
    /// What it announces, in order.
    pub payloads: Vec<Payload>,
}

/// Checksum of journal blocks of an array.
#[must_use]
pub fn checksum(array: Uuid, bytes: &[u8]) -> u32 {
    !crc32c(&[&array.0, bytes].concat())
}

impl MetaBlock {
    /// Reads a block of this array; `None` when it is damaged, of another array, or announces what cannot be.
    #[must_use]
    pub fn decode(array: Uuid, block: &[u8; BLOCK_BYTES]) -> Option<MetaBlock> {
        if u32_at(block, at::MAGIC) != MAGIC || block[at::VERSION] != VERSION {
            return None;
        }
        let mut zeroed = *block;
        put(&mut zeroed, at::CHECKSUM, &[0; 4]);
        if checksum(array, &zeroed) != u32_at(block, at::CHECKSUM) {
            return None;
        }
        let end = usize::try_from(u32_at(block, at::META_SIZE)).ok()?;
        let used = block.get(..end)?;
        let mut rest = used.get(HEAD_BYTES..)?;
        let mut payloads = Vec::new();
        while !rest.is_empty() {
            let (payload, bytes) = payload_of(rest)?;
            payloads.push(payload);
            rest = &rest[bytes..];
        }
        Some(MetaBlock {
            sequence: u64_at(block, at::SEQUENCE),
            position: u64_at(block, at::POSITION),
            payloads,
        })
    }

    /// Writes the block for an array.
    ///
    /// # Panics
    /// When the payloads do not fit.
    pub fn encode(&self, array: Uuid, block: &mut [u8; BLOCK_BYTES]) {
        let payloads: Vec<u8> = self.payloads.iter().flat_map(bytes_of).collect();
        assert!(HEAD_BYTES + payloads.len() <= BLOCK_BYTES, "{} bytes of payloads", payloads.len());
        block.fill(0);
        put(block, at::MAGIC, &MAGIC.to_le_bytes());
        block[at::VERSION] = VERSION;
        let end = u32::try_from(HEAD_BYTES + payloads.len()).expect("at most 4096 bytes");
        put(block, at::META_SIZE, &end.to_le_bytes());
        put(block, at::SEQUENCE, &self.sequence.to_le_bytes());
        put(block, at::POSITION, &self.position.to_le_bytes());
        put(block, HEAD_BYTES, &payloads);
        let sum = checksum(array, block);
        put(block, at::CHECKSUM, &sum.to_le_bytes());
    }

    /// Sectors of the block and of what it announces.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        let blocks: usize = self.payloads.iter().map(Payload::blocks).sum();
        (1 + u64::try_from(blocks).expect("a block names at most a thousand")) * BLOCK_SECTORS
    }
}

/// The payload at the start of `rest`, and its bytes.
fn payload_of(rest: &[u8]) -> Option<(Payload, usize)> {
    let head = rest.get(..payload::FLUSH_HEAD_BYTES)?;
    let (flags, size) = (u16_at(head, payload::FLAGS), u32_at(head, payload::SIZE));
    let size = usize::try_from(size).ok()?;
    let kind = u16_at(head, payload::KIND);
    if kind == 2 {
        let end = payload::FLUSH_HEAD_BYTES.checked_add(size)?;
        let stripes = rest.get(payload::FLUSH_HEAD_BYTES..end)?;
        let whole = size % 8 == 0;
        let stripes = stripes.chunks_exact(8).map(|stripe| u64::from_le_bytes(array_at(stripe, 0))).collect();
        return whole.then_some((Payload::Flush { flags, stripes }, end));
    }
    let blocks = size / 8;
    let end = payload::HEAD_BYTES.checked_add(blocks.checked_mul(4)?)?;
    let sector = u64_at(rest.get(..payload::HEAD_BYTES)?, payload::LOCATION);
    let sums = rest.get(payload::HEAD_BYTES..end)?;
    let checksums: Vec<u32> = sums.chunks_exact(4).map(|sum| u32::from_le_bytes(array_at(sum, 0))).collect();
    if !size.is_multiple_of(8) || checksums.is_empty() || !sector.is_multiple_of(8) {
        return None;
    }
    match (kind, blocks) {
        (0, _) => Some((Payload::Data { flags, sector, checksums }, end)),
        (1, 1 | 2) => Some((Payload::Parity { flags, sector, checksums }, end)),
        _ => None,
    }
}

fn bytes_of(payload: &Payload) -> Vec<u8> {
    let head = |kind: u16, flags: u16, size: usize| {
        let size = u32::try_from(size).expect("a payload fits its block");
        [&kind.to_le_bytes()[..], &flags.to_le_bytes(), &size.to_le_bytes()].concat()
    };
    let of_blocks = |kind, flags, sector: u64, checksums: &[u32]| {
        let sums: Vec<u8> = checksums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        [head(kind, flags, 8 * checksums.len()), sector.to_le_bytes().to_vec(), sums].concat()
    };
    match payload {
        Payload::Data { flags, sector, checksums } => of_blocks(0, *flags, *sector, checksums),
        Payload::Parity { flags, sector, checksums } => of_blocks(1, *flags, *sector, checksums),
        Payload::Flush { flags, stripes } => {
            let stripes: Vec<u8> = stripes.iter().flat_map(|stripe| stripe.to_le_bytes()).collect();
            [head(2, *flags, stripes.len()), stripes].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAY: Uuid = Uuid([9; 16]);

    fn block() -> MetaBlock {
        MetaBlock {
            sequence: 17,
            position: 2600,
            payloads: vec![
                Payload::Data { flags: 0, sector: 800, checksums: vec![1] },
                Payload::Parity { flags: 0, sector: 264, checksums: vec![2, 3] },
                Payload::Flush { flags: 0, stripes: vec![8, 16] },
            ],
        }
    }

    #[test]
    fn a_block_is_read_as_it_was_written() {
        let mut bytes = [0; BLOCK_BYTES];
        block().encode(ARRAY, &mut bytes);
        assert_eq!(MetaBlock::decode(ARRAY, &bytes), Some(block()));
        assert_eq!(block().sectors(), 32);
        assert_eq!(MetaBlock::decode(Uuid([8; 16]), &bytes), None);
    }

    #[test]
    fn payloads_of_a_row_stay_together() {
        let row = |sector: u64| {
            vec![
                Payload::Data { flags: 0, sector, checksums: vec![1] },
                Payload::Parity { flags: 0, sector, checksums: vec![2, 3] },
            ]
        };
        let blocks = pack((0..200).map(|index| row(8 * index)));
        assert_eq!(blocks.iter().map(Vec::len).collect::<Vec<_>>(), [184, 184, 32]);
        let bytes = |payloads: &Vec<Payload>| payloads.iter().map(Payload::bytes).sum::<usize>();
        assert!(blocks.iter().all(|payloads| bytes(payloads) <= BLOCK_BYTES - HEAD_BYTES));
        for payloads in blocks {
            let meta = MetaBlock { sequence: 1, position: 8, payloads };
            let mut block = [0; BLOCK_BYTES];
            meta.encode(ARRAY, &mut block);
            assert_eq!(MetaBlock::decode(ARRAY, &block), Some(meta));
        }
    }

    #[test]
    fn positions_go_round_a_ring() {
        let ring = Ring::of(83);
        assert_eq!((ring.sectors(), ring.after(72, 16), ring.after(0, 80)), (80, 8, 0));
        assert_eq!((ring.distance(72, 8), ring.distance(8, 72), ring.distance(8, 8)), (16, 64, 0));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let mut bytes = [0; BLOCK_BYTES];
        block().encode(ARRAY, &mut bytes);
        for bit in 0..BLOCK_BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(MetaBlock::decode(ARRAY, &bytes), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn lengths_that_lead_beyond_the_block_are_refused() {
        for (at, size) in
            [(at::META_SIZE, u32::MAX), (at::META_SIZE, 0), (HEAD_BYTES + payload::SIZE, u32::MAX)]
        {
            let mut bytes = [0; BLOCK_BYTES];
            block().encode(ARRAY, &mut bytes);
            put(&mut bytes, at, &size.to_le_bytes());
            put(&mut bytes, at::CHECKSUM, &[0; 4]);
            let sum = checksum(ARRAY, &bytes);
            put(&mut bytes, at::CHECKSUM, &sum.to_le_bytes());
            assert_eq!(MetaBlock::decode(ARRAY, &bytes), None, "{size} at {at}");
        }
    }
}
