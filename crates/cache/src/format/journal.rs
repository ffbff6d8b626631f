//! Journal blocks: entries that hide older versions of keys on the drive that holds the journal.
//!
//! An entry hides what the index cannot tell from its key (in the terms of the zone header) in pages of this drive
//! whose sequence is below the entry's.

use crate::hash::KeyHash;
use crate::request::WallMillis;
use base::bytes::{array_at, put, u16_at, u64_at};
use base::record_fields;
use base::units::BLOCK_BYTES;
use base::xor::Block;

record_fields! { BLOCK_BYTES;
    MAGIC: 0, 8, "`ZWCJRNL1`";
    COUNT: 8, 2, "entries";
    CLOSES: 10, 1, "1 when this is the last block of its zone, which was finished early; else zero";
    RESERVED_0: 11, 5, "zero";
    WALL: 16, 8, "latest wall time seen, in milliseconds since 1970";
    ENTRIES: 24, 4060, "entries, 14 bytes each: hash of the key (6), sequence (8)";
    RESERVED_1: 4084, 12, "zero";
}

const MAGIC: &[u8; 8] = b"ZWCJRNL1";
const ENTRY_BYTES: usize = 14;
/// Most entries of a block.
pub const ENTRIES_MAX: usize = 290;

/// Sequence of an entry that hides nothing: it is waited for because its block tells the time.
pub const HIDES_NOTHING: u64 = 0;

/// An entry: what it hides has a lower sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Hash of the key that was written.
    pub hash: KeyHash,
    /// Pages below this sequence are meant.
    pub sequence: u64,
}

/// A journal block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalBlock {
    /// Latest wall time seen.
    pub wall: WallMillis,
    /// True for the last block of its zone, which takes no more.
    pub closes: bool,
    /// The entries.
    pub entries: Vec<Entry>,
}

impl JournalBlock {
    /// Writes it into a block.
    ///
    /// # Panics
    /// When there are too many entries.
    pub fn encode(&self, block: &mut Block) {
        assert!(self.entries.len() <= ENTRIES_MAX, "{} entries in a block", self.entries.len());
        block.fill(0);
        put(block, at::MAGIC, MAGIC);
        let count = u16::try_from(self.entries.len()).expect("at most 290");
        put(block, at::COUNT, &count.to_le_bytes());
        block[at::CLOSES] = u8::from(self.closes);
        put(block, at::WALL, &self.wall.0.to_le_bytes());
        for (index, entry) in self.entries.iter().enumerate() {
            let place = at::ENTRIES + index * ENTRY_BYTES;
            put(block, place, &entry.hash.to_bytes());
            put(block, place + 6, &entry.sequence.to_le_bytes());
        }
    }

    /// Reads a block; `None` when it holds no entries.
    #[must_use]
    pub fn decode(block: &Block) -> Option<JournalBlock> {
        let count = usize::from(u16_at(block, at::COUNT));
        if &block[..8] != MAGIC || count > ENTRIES_MAX || block[at::CLOSES] > 1 {
            return None;
        }
        let entry_at = |index: usize| {
            let place = at::ENTRIES + index * ENTRY_BYTES;
            Entry { hash: KeyHash::from_bytes(array_at(block, place)), sequence: u64_at(block, place + 6) }
        };
        let entries = (0..count).map(entry_at).collect();
        let (wall, closes) = (WallMillis(u64_at(block, at::WALL)), block[at::CLOSES] == 1);
        Some(JournalBlock { wall, closes, entries })
    }
}
