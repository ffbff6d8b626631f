//! Journal of a conventional drive: a ring of records with the identities of blocks whose unit is not full yet.
//!
//! ```text
//!   entries of all zones ──> pending ──> one record in flight ──> ring ... tail (oldest that is needed) ... head
//! ```
//! A record is written when the one before it is through; what gathers meanwhile shares the next. Records tell up to where
//! the journal was durable and which is the oldest that is still needed, so that a lost record is told from one that never
//! was.

use super::identity::Identity;
use super::layout::{Layout, live_records};
use base::bytes::{array_at, put, u32_at, u64_at};
use base::checksum::crc32c;
use base::record_fields;
use base::units::{BLOCK_BYTES, ZoneIndex};
use std::collections::VecDeque;

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
    SEQUENCE: 24, 8, "number of the record; its place is that modulo the records of the ring";
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

/// The journal in service.
#[derive(Debug)]
pub struct Journal {
    /// Records of the ring that may be in use; the rest is for the next opening.
    window: u64,
    /// Of these, those that are kept for repeating what is needed.
    reserve: u64,
    pending: VecDeque<Entry>,
    /// Number of the next record.
    next: u64,
    in_flight: bool,
    completed: u64,
    durable: u64,
    has_failed: bool,
}

impl Journal {
    /// The journal of a drive whose newest record is durable.
    #[must_use]
    pub fn new(layout: &Layout, newest: u64) -> Journal {
        let live = live_records(layout.active_zones_max);
        let window = u64::from(layout.journal_records - live - 2);
        Journal {
            window,
            reserve: u64::from(2 * live),
            pending: VecDeque::new(),
            next: newest + 1,
            in_flight: false,
            completed: newest,
            durable: newest,
            has_failed: false,
        }
    }

    /// Adds an entry; returns the number of its record.
    pub fn push(&mut self, entry: Entry) -> u64 {
        let ahead = self.pending.len() / RECORD_ENTRIES;
        self.pending.push_back(entry);
        self.next + u64::try_from(ahead).expect("few records")
    }

    /// Begins the next record, if there is something to write and room for it.
    pub fn begin(&mut self, tail: Option<u64>, stamp: u64, opening: u64) -> Option<Record> {
        let tail = tail.unwrap_or(self.next);
        assert!(tail <= self.next, "record {tail} is needed, and {} is not written", self.next);
        if self.in_flight || self.has_failed || self.pending.is_empty() || self.is_full(tail) {
            return None;
        }
        let count = self.pending.len().min(RECORD_ENTRIES);
        let entries = self.pending.drain(..count).collect();
        let sequence = self.next;
        self.next += 1;
        self.in_flight = true;
        Some(Record { sequence, tail, durable: self.durable, stamp, opening, phase: Phase::Open, entries })
    }

    /// True when no record can be written before the one of this number is not needed any more.
    #[must_use]
    pub fn is_full(&self, tail: u64) -> bool {
        self.next - tail >= self.window
    }

    /// True when no more entries should come before old records are not needed any more.
    #[must_use]
    pub fn is_crowded(&self, tail: Option<u64>) -> bool {
        let ahead = u64::try_from(self.pending.len() / RECORD_ENTRIES).expect("few records");
        tail.is_some_and(|tail| self.next + ahead - tail >= self.window - self.reserve)
    }

    /// The record in flight is through.
    ///
    /// # Panics
    /// When none was.
    pub fn end(&mut self, has_succeeded: bool) {
        assert!(std::mem::take(&mut self.in_flight), "a record ends that was not begun");
        if has_succeeded {
            self.completed = self.next - 1;
        } else {
            self.has_failed = true;
        }
    }

    /// Records up to this one are durable.
    pub fn note_durable(&mut self, sequence: u64) {
        assert!(sequence <= self.completed, "record {sequence} is durable before it is written");
        self.durable = self.durable.max(sequence);
    }

    /// Newest record that is written.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Newest record that is durable.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// True when a record could not be written: none follows.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// No record is written any more.
    pub fn give_up(&mut self) {
        self.has_failed = true;
    }

    /// The newest record that must not be needed any more, so that half of the ring is free.
    #[must_use]
    pub fn old(&self) -> u64 {
        (self.next).saturating_sub(self.window / 2)
    }
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

    #[test]
    fn entries_know_their_record() {
        let layout =
            Layout { blocks: 9_000, zones: 4, zone_units: 16, active_zones_max: 3, journal_records: 64 };
        let mut journal = Journal::new(&layout, 10);
        let numbers: Vec<u64> = (0..60).map(|offset| journal.push(block(offset))).collect();
        assert_eq!((numbers[0], numbers[49], numbers[50]), (11, 11, 12));
        let first = journal.begin(Some(9), 5, 4).expect("a record");
        assert_eq!((first.sequence, first.tail, first.entries.len()), (11, 9, 50));
        assert!(journal.begin(Some(9), 5, 4).is_none(), "one record at a time");
        assert_eq!(journal.push(block(60)), 12);
        journal.end(true);
        assert_eq!(journal.completed(), 11);
        assert_eq!(journal.begin(None, 5, 4).map(|record| record.entries.len()), Some(11));
    }

    #[test]
    fn a_ring_of_needed_records_is_full() {
        let layout =
            Layout { blocks: 9_000, zones: 4, zone_units: 16, active_zones_max: 3, journal_records: 48 };
        let mut journal = Journal::new(&layout, 0);
        for number in 1.. {
            journal.push(block(0));
            if journal.begin(Some(1), 5, 4).is_none() {
                assert!(number > 20 && number < 48, "full at {number}");
                break;
            }
            journal.end(true);
        }
        assert!(journal.begin(Some(8), 5, 4).is_some());
    }
}
