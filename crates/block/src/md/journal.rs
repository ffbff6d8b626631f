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
use base::checksum::crc32c_of_pieces;
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

/// Payload that a metadata block announces; its blocks lie behind it in the same order.
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

/// Bytes in a metadata block that announce data or parities by so many checksums.
#[must_use]
pub const fn payload_bytes(checksums: usize) -> usize {
    payload::HEAD_BYTES + 4 * checksums
}

/// Metadata block that is written down payload by payload.
#[derive(Clone, Copy, Debug)]
pub struct Draft {
    /// Bytes used.
    end: usize,
    /// Blocks behind it.
    blocks: usize,
}

impl Draft {
    /// Begins a block.
    pub fn begin(block: &mut [u8; BLOCK_BYTES]) -> Draft {
        block.fill(0);
        Draft { end: HEAD_BYTES, blocks: 0 }
    }

    /// True when payloads of so many bytes find room.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.end + bytes <= BLOCK_BYTES
    }

    /// Sectors of the block and of what it announces.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        (1 + u64::try_from(self.blocks).expect("a block names at most a thousand")) * BLOCK_SECTORS
    }

    /// Announces data, by the first sector of the array and the checksum of each block.
    ///
    /// # Panics
    /// When they find no room.
    pub fn push_data(&mut self, block: &mut [u8; BLOCK_BYTES], sector: u64, checksums: &[u32]) {
        self.push_blocks(block, (0, 0), sector, checksums);
    }

    /// Announces the parities of a row, by its sector on each member and the checksum of each block.
    ///
    /// # Panics
    /// When they find no room.
    pub fn push_parity(&mut self, block: &mut [u8; BLOCK_BYTES], sector: u64, checksums: &[u32]) {
        self.push_blocks(block, (1, 0), sector, checksums);
    }

    fn push(&mut self, block: &mut [u8; BLOCK_BYTES], payload: &Payload) {
        match payload {
            Payload::Data { flags, sector, checksums } => {
                self.push_blocks(block, (0, *flags), *sector, checksums);
            }
            Payload::Parity { flags, sector, checksums } => {
                self.push_blocks(block, (1, *flags), *sector, checksums);
            }
            Payload::Flush { flags, stripes } => {
                self.push_head(block, (2, *flags), 8 * stripes.len());
                stripes.iter().for_each(|stripe| self.put(block, &stripe.to_le_bytes()));
            }
        }
    }

    fn push_blocks(
        &mut self,
        block: &mut [u8; BLOCK_BYTES],
        kind: (u16, u16),
        sector: u64,
        checksums: &[u32],
    ) {
        self.push_head(block, kind, 8 * checksums.len());
        self.put(block, &sector.to_le_bytes());
        checksums.iter().for_each(|sum| self.put(block, &sum.to_le_bytes()));
        self.blocks += checksums.len();
    }

    fn push_head(&mut self, block: &mut [u8; BLOCK_BYTES], (kind, flags): (u16, u16), size: usize) {
        self.put(block, &kind.to_le_bytes());
        self.put(block, &flags.to_le_bytes());
        self.put(block, &u32::try_from(size).expect("a payload fits its block").to_le_bytes());
    }

    fn put(&mut self, block: &mut [u8; BLOCK_BYTES], bytes: &[u8]) {
        put(block, self.end, bytes);
        self.end += bytes.len();
    }

    /// Ends the block, which lies at this position.
    pub fn finish(self, array: Uuid, sequence: u64, position: u64, block: &mut [u8; BLOCK_BYTES]) {
        put(block, at::MAGIC, &MAGIC.to_le_bytes());
        block[at::VERSION] = VERSION;
        let end = u32::try_from(self.end).expect("at most 4096 bytes");
        put(block, at::META_SIZE, &end.to_le_bytes());
        put(block, at::SEQUENCE, &sequence.to_le_bytes());
        put(block, at::POSITION, &position.to_le_bytes());
        let sum = checksum(array, block);
        put(block, at::CHECKSUM, &sum.to_le_bytes());
    }
}

impl Payload {
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
    /// Sequence number, one more than that of the block before.
    pub sequence: u64,
    /// Sector of the block in the journal.
    pub position: u64,
    /// Payloads that it announces, in order.
    pub payloads: Vec<Payload>,
}

/// Checksum of journal blocks of an array.
#[must_use]
pub fn checksum(array: Uuid, bytes: &[u8]) -> u32 {
    !crc32c_of_pieces([&array.0[..], bytes])
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
        let mut draft = Draft::begin(block);
        self.payloads.iter().for_each(|payload| draft.push(block, payload));
        draft.finish(array, self.sequence, self.position, block);
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
    fn a_draft_takes_payloads_as_long_as_there_is_room() {
        let (mut bytes, bytes_of_row) = ([1; BLOCK_BYTES], payload_bytes(1) + payload_bytes(2));
        let mut draft = Draft::begin(&mut bytes);
        let mut payloads = Vec::new();
        while draft.has_room(bytes_of_row) {
            let sector = 4 * u64::try_from(payloads.len()).unwrap();
            draft.push_data(&mut bytes, sector, &[1]);
            draft.push_parity(&mut bytes, sector, &[2, 3]);
            payloads.push(Payload::Data { flags: 0, sector, checksums: vec![1] });
            payloads.push(Payload::Parity { flags: 0, sector, checksums: vec![2, 3] });
        }
        assert_eq!((payloads.len() / 2, draft.sectors()), (92, 277 * BLOCK_SECTORS));
        draft.finish(ARRAY, 1, 8, &mut bytes);
        assert_eq!(MetaBlock::decode(ARRAY, &bytes), Some(MetaBlock { sequence: 1, position: 8, payloads }));
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
