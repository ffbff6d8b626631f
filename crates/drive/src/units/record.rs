//! Records of a journal of identities: those of blocks whose unit is not full yet, of all zones of a drive.

use super::identity::Identity;
use base::bytes::{array_at, put, u32_at, u64_at};
use base::checksum::crc32c;
use base::record_fields;
use base::units::{BLOCK_BYTES, ZoneIndex};

/// Entries of a record.
pub const RECORD_ENTRIES: usize = 50;

const MAGIC: [u8; 4] = *b"ZWjr";
const ENTRY_BYTES: usize = 80;
/// Bit of an entry's block that says that it is a mark.
const MARK: u32 = 1 << 31;

record_fields! { BLOCK_BYTES;
    MAGIC: 0, 4, "`ZWjr`";
    CRC: 4, 4, "CRC32C of the block with this field zero";
    UUID: 8, 16, "identity of the drive";
    SEQUENCE: 24, 8, "number of the record; its place is that modulo the records of the ring (in-band: counted from the zone's first record)";
    TAIL: 32, 8, "oldest record that was needed when this one was written";
    DURABLE: 40, 8, "newest record that was known to be durable";
    STAMP: 48, 8, "highest stamp in use";
    COUNT: 56, 4, "entries";
    PHASE: 60, 4, "1 written while the drive is opened, 2 the last of an opening, 3 from then on. A record of phase 2 counts when all before it from its tail on are of phase 1 and of its opening. Of records that count those of the newest opening are believed, and no others";
    ENTRIES: 64, 4000, "50 entries: zone (4), block (4), low half of the stamp (4), CRC32C of the block's data (4), its metadata (64). With bit 31 of the block set a mark: what lies before the block is durable, and what follows has the stamp in the first 8 bytes of the metadata";
    OPENING: 4064, 8, "stamp of the opening of the drive that the record is of";
    RESERVED: 4072, 24, "zero";
}

/// Entry of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Identity of a block.
    Block {
        /// Zone of the block.
        zone: ZoneIndex,
        /// Block of the zone.
        offset: u32,
        /// Low half of the stamp of the zone's life.
        stamp: u32,
        /// Identity.
        identity: Identity,
    },
    /// A zone is in use, and durable up to a block.
    Mark {
        /// The zone.
        zone: ZoneIndex,
        /// First block that may not be durable.
        durable: u32,
        /// Stamp of what is written from there on.
        stamp: u64,
    },
}

/// Low half of a stamp. Enough for entries: in the ring they lie beside others of the last few lives only.
#[must_use]
pub fn low_half(stamp: u64) -> u32 {
    u32::try_from(stamp & u64::from(u32::MAX)).expect("masked")
}

/// Phase in which a record was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The drive is being opened.
    Opening,
    /// With this record the drive is open.
    Settling,
    /// The drive is open.
    Open,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number of the record.
    pub sequence: u64,
    /// Oldest record that is needed.
    pub tail: u64,
    /// Newest record that is known to be durable.
    pub durable: u64,
    /// Highest stamp in use.
    pub stamp: u64,
    /// Stamp of the opening of the drive that it is of.
    pub opening: u64,
    /// Phase.
    pub phase: Phase,
    /// Entries.
    pub entries: Vec<Entry>,
}

impl Record {
    /// Writes the block of the record.
    ///
    /// # Panics
    /// When it has too many entries.
    pub fn encode(&self, uuid: [u8; 16], block: &mut [u8; BLOCK_BYTES]) {
        assert!(self.entries.len() <= RECORD_ENTRIES, "{} entries in a record", self.entries.len());
        block.fill(0);
        put(block, at::MAGIC, &MAGIC);
        put(block, at::UUID, &uuid);
        put(block, at::SEQUENCE, &self.sequence.to_le_bytes());
        put(block, at::TAIL, &self.tail.to_le_bytes());
        put(block, at::DURABLE, &self.durable.to_le_bytes());
        put(block, at::STAMP, &self.stamp.to_le_bytes());
        put(block, at::OPENING, &self.opening.to_le_bytes());
        put(block, at::COUNT, &u32::try_from(self.entries.len()).expect("at most 50").to_le_bytes());
        let phase: u32 = match self.phase {
            Phase::Opening => 1,
            Phase::Settling => 2,
            Phase::Open => 3,
        };
        put(block, at::PHASE, &phase.to_le_bytes());
        for (place, entry) in block[at::ENTRIES..].chunks_exact_mut(ENTRY_BYTES).zip(&self.entries) {
            encode_entry(entry, place);
        }
        let crc = crc32c(block);
        put(block, at::CRC, &crc.to_le_bytes());
    }

    /// Reads a record; `None` when the block is torn, damaged or something else.
    #[must_use]
    pub fn decode(uuid: [u8; 16], block: &[u8; BLOCK_BYTES]) -> Option<Record> {
        let mut blank = *block;
        put(&mut blank, at::CRC, &[0; 4]);
        let is_whole = array_at::<4>(block, at::MAGIC) == MAGIC
            && array_at::<16>(block, at::UUID) == uuid
            && crc32c(&blank) == u32_at(block, at::CRC);
        let count = usize::try_from(u32_at(block, at::COUNT)).ok()?;
        if !is_whole || count > RECORD_ENTRIES {
            return None;
        }
        let phase = match u32_at(block, at::PHASE) {
            1 => Phase::Opening,
            2 => Phase::Settling,
            3 => Phase::Open,
            _ => return None,
        };
        let places = block[at::ENTRIES..].chunks_exact(ENTRY_BYTES).take(count);
        Some(Record {
            sequence: u64_at(block, at::SEQUENCE),
            tail: u64_at(block, at::TAIL),
            durable: u64_at(block, at::DURABLE),
            stamp: u64_at(block, at::STAMP),
            opening: u64_at(block, at::OPENING),
            phase,
            entries: places.map(decode_entry).collect(),
        })
    }
}

fn encode_entry(entry: &Entry, place: &mut [u8]) {
    match *entry {
        Entry::Block { zone, offset, stamp, identity } => {
            put(place, 0, &zone.0.to_le_bytes());
            put(place, 4, &offset.to_le_bytes());
            put(place, 8, &stamp.to_le_bytes());
            put(place, 12, &identity.crc.to_le_bytes());
            put(place, 16, &identity.oob);
        }
        Entry::Mark { zone, durable, stamp } => {
            put(place, 0, &zone.0.to_le_bytes());
            put(place, 4, &(durable | MARK).to_le_bytes());
            put(place, 16, &stamp.to_le_bytes());
        }
    }
}

fn decode_entry(place: &[u8]) -> Entry {
    let (zone, block) = (ZoneIndex(u32_at(place, 0)), u32_at(place, 4));
    if block & MARK != 0 {
        return Entry::Mark { zone, durable: block & !MARK, stamp: u64_at(place, 16) };
    }
    let identity = Identity { crc: u32_at(place, 12), oob: array_at(place, 16) };
    Entry::Block { zone, offset: block, stamp: u32_at(place, 8), identity }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(offset: u32) -> Entry {
        let identity = Identity { crc: 9, oob: [3; 64] };
        Entry::Block { zone: ZoneIndex(2), offset, stamp: 5, identity }
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let mark = Entry::Mark { zone: ZoneIndex(8), durable: 63, stamp: 1 << 40 };
        let record = Record {
            sequence: 77,
            tail: 70,
            durable: 76,
            stamp: 1 << 41,
            opening: 1 << 39,
            phase: Phase::Open,
            entries: vec![block(1), mark],
        };
        let mut bytes = [0; BLOCK_BYTES];
        record.encode([4; 16], &mut bytes);
        assert_eq!(Record::decode([4; 16], &bytes), Some(record));
        assert_eq!(Record::decode([5; 16], &bytes), None);
        bytes[90] ^= 1;
        assert_eq!(Record::decode([4; 16], &bytes), None);
    }
}
