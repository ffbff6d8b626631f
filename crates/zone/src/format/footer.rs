//! Segment footers: the metadata of a zone's data region in few blocks, so that a mount reads one
//! block in 204 instead of all of them.
//!
//! A footer only repeats what the out-of-band metadata says; a zone whose footer is torn or
//! damaged is scanned instead.

use crate::format::oob::{Kind, PROTECTED_BYTES, Protected, Role};
use crate::stripe::StripeNumber;
use base::bytes::{put, u32_at, u64_at};
use base::checksum::crc32c;
use base::record_fields;
use base::units::{BLOCK_BYTES, ZoneIndex};
use base::xor::Block;

record_fields! { BLOCK_BYTES;
    MAGIC: 0, 4, "`ZWFT`";
    CRC: 4, 4, "CRC32C of the block with this field zero, followed by the array tag (8 bytes), the zone (4) and the index of this footer block (4)";
    SEGMENT: 8, 8, "segment id";
    ENTRIES: 16, 4080, "204 entries of 20 bytes, one per block of the data region";
}

/// Entries of one footer block.
pub const ENTRIES_PER_BLOCK: u32 = 204;

/// The entry of one block.
pub mod entry {
    use base::record_fields;

    /// Bytes of an entry.
    pub const ENTRY_BYTES: usize = 20;
    record_fields! { ENTRY_BYTES;
        LBA: 0, 8, "LBA; for parity, the parity of the LBAs";
        SEQUENCE: 8, 8, "sequence; for parity, the parity of the sequences";
        TAG: 16, 4, "bit 31: parity; bits 23-30: kind (as in the OOB) or parity of the kinds; without bit 31, 192 nothing but its stripe is known, 255 void: nothing to be read; bit 22: the block itself is damaged; bits 0-21: stripe within the segment";
    }

    pub(super) const LBA: usize = at::LBA;
    pub(super) const SEQUENCE: usize = at::SEQUENCE;
    pub(super) const TAG: usize = at::TAG;
}

/// Most stripes of a segment: what fits the entry's tag.
pub const STRIPES_MAX: u32 = (1 << 22) - 1;
const MAGIC: &[u8; 4] = b"ZWFT";
const PARITY_BIT: u32 = 1 << 31;
const KIND_SHIFT: u32 = 23;
const KIND_VOID: u8 = 255;
const KIND_UNKNOWN: u8 = 192;
const DAMAGED_BIT: u32 = 1 << 22;

/// Kind of a block, as a footer lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A data block.
    Data(Kind),
    /// Parity; carries the parity of the kinds.
    Parity(u8),
    /// A block of its stripe of which nothing else is known.
    Unknown,
    /// Nothing to be read: a filler, or part of a stripe that recovery declared void.
    Void,
}

/// Metadata of one block of a data region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// LBA, or parity of LBAs.
    pub lba: u64,
    /// Sequence, or parity of sequences.
    pub sequence: u64,
    /// Kind of the block.
    pub kind: EntryKind,
    /// Stripe within the segment.
    pub stripe: StripeNumber,
    /// The block said so itself, and not its stripe or a neighbour for it.
    pub whole: bool,
}

impl Entry {
    /// A block that holds nothing.
    pub const VOID: Entry =
        Entry { lba: u64::MAX, sequence: 0, kind: EntryKind::Void, stripe: StripeNumber(0), whole: false };

    /// A damaged block of a stripe, with nothing else known.
    #[must_use]
    pub fn unknown(stripe: StripeNumber) -> Entry {
        Entry { kind: EntryKind::Unknown, stripe, ..Entry::VOID }
    }

    /// The entry of a block of `stripe` whose out-of-band metadata starts with `protected`;
    /// `None` when those are not the protected fields of such a block.
    #[must_use]
    pub fn from_protected(protected: &[u8], role: Role, stripe: StripeNumber) -> Option<Entry> {
        let lba = u64_at(protected, 0);
        let sequence = u64_at(protected, 8);
        let kind = match role {
            Role::Data => EntryKind::Data(Protected::from_bytes(protected)?.kind),
            Role::Parity => EntryKind::Parity(protected[16]),
            Role::Filler => return Some(Entry::VOID),
            // Slots lie in zones of their own.
            Role::Slot => return None,
        };
        Some(Entry { lba, sequence, kind, stripe, whole: true })
    }

    /// The protected fields of the block; `None` when it holds nothing.
    #[must_use]
    pub fn protected_bytes(&self) -> Option<[u8; PROTECTED_BYTES]> {
        let mut bytes = [0; PROTECTED_BYTES];
        put(&mut bytes, 0, &self.lba.to_le_bytes());
        put(&mut bytes, 8, &self.sequence.to_le_bytes());
        bytes[16] = match self.kind {
            EntryKind::Data(kind) => kind.code(),
            EntryKind::Parity(kinds) => kinds,
            EntryKind::Unknown | EntryKind::Void => return None,
        };
        Some(bytes)
    }

    /// The protected fields of a data block; `None` for any other.
    #[must_use]
    pub fn protected(&self) -> Option<Protected> {
        match self.kind {
            EntryKind::Data(kind) => Some(Protected { lba: self.lba, sequence: self.sequence, kind }),
            EntryKind::Parity(_) | EntryKind::Unknown | EntryKind::Void => None,
        }
    }

    fn encode(self, bytes: &mut [u8]) {
        let damaged = if self.whole { 0 } else { DAMAGED_BIT };
        let kind = match self.kind {
            EntryKind::Data(kind) => u32::from(kind.code()) << KIND_SHIFT,
            EntryKind::Parity(kinds) => PARITY_BIT | u32::from(kinds) << KIND_SHIFT,
            EntryKind::Unknown => u32::from(KIND_UNKNOWN) << KIND_SHIFT,
            EntryKind::Void => u32::from(KIND_VOID) << KIND_SHIFT,
        };
        assert!(self.stripe.0 <= STRIPES_MAX);
        put(bytes, entry::LBA, &self.lba.to_le_bytes());
        put(bytes, entry::SEQUENCE, &self.sequence.to_le_bytes());
        put(bytes, entry::TAG, &(kind | damaged | self.stripe.0).to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Entry> {
        let tag = u32_at(bytes, entry::TAG);
        let code = u8::try_from(tag >> KIND_SHIFT & 0xff).expect("eight bits");
        let kind = match (tag & PARITY_BIT != 0, code) {
            (true, kinds) => EntryKind::Parity(kinds),
            (false, KIND_VOID) => EntryKind::Void,
            (false, KIND_UNKNOWN) => EntryKind::Unknown,
            (false, code) => EntryKind::Data(Kind::from_code(code)?),
        };
        let whole = tag & DAMAGED_BIT == 0;
        Some(Entry {
            lba: u64_at(bytes, entry::LBA),
            sequence: u64_at(bytes, entry::SEQUENCE),
            kind,
            stripe: StripeNumber(tag & STRIPES_MAX),
            whole,
        })
    }
}

/// Identity of a footer block; covered by its checksum.
#[derive(Clone, Copy, Debug)]
pub struct FooterId {
    /// First 8 bytes of the array UUID.
    pub array: u64,
    /// Segment id.
    pub segment: u64,
    /// Zone the block lies in.
    pub zone: ZoneIndex,
    /// Index of the block within the footer.
    pub index: u32,
}

impl FooterId {
    fn crc(&self, block: &Block) -> u32 {
        let mut bytes = [0; BLOCK_BYTES + 16];
        put(&mut bytes, 0, block);
        put(&mut bytes, at::CRC, &[0; 4]);
        put(&mut bytes, BLOCK_BYTES, &self.array.to_le_bytes());
        put(&mut bytes, BLOCK_BYTES + 8, &self.zone.0.to_le_bytes());
        put(&mut bytes, BLOCK_BYTES + 12, &self.index.to_le_bytes());
        crc32c(&bytes)
    }
}

/// Writes up to 204 entries into a footer block.
///
/// # Panics
/// When there are more entries than a block holds.
pub fn encode(id: &FooterId, entries: &[Entry], block: &mut Block) {
    assert!(entries.len() <= ENTRIES_PER_BLOCK as usize);
    block.fill(0);
    put(block, at::MAGIC, MAGIC);
    put(block, at::SEGMENT, &id.segment.to_le_bytes());
    for (entry, bytes) in entries.iter().zip(block[at::ENTRIES..].chunks_exact_mut(entry::ENTRY_BYTES)) {
        entry.encode(bytes);
    }
    let crc = id.crc(block);
    put(block, at::CRC, &crc.to_le_bytes());
}

/// Reads the first `count` entries of a footer block into `entries`; false, and nothing added,
/// when the block is not that footer block or not whole.
#[must_use]
pub fn decode(id: &FooterId, block: &Block, count: usize, entries: &mut Vec<Entry>) -> bool {
    assert!(count <= ENTRIES_PER_BLOCK as usize);
    let identified = &block[..4] == MAGIC && u64_at(block, at::SEGMENT) == id.segment;
    let whole = id.crc(block) == u32_at(block, at::CRC);
    if !identified || !whole {
        return false;
    }
    let before = entries.len();
    for bytes in block[at::ENTRIES..].chunks_exact(entry::ENTRY_BYTES).take(count) {
        match Entry::decode(bytes) {
            Some(entry) => entries.push(entry),
            None => {
                entries.truncate(before);
                return false;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_only_under_their_identity() {
        let id = FooterId { array: 1, segment: 2, zone: ZoneIndex(3), index: 4 };
        let entries: Vec<Entry> = (0..204)
            .map(|i| Entry {
                lba: i,
                sequence: i * 3,
                kind: match i % 4 {
                    0 => EntryKind::Data(Kind::Tombstone),
                    1 => EntryKind::Parity(207),
                    2 => EntryKind::Unknown,
                    _ => EntryKind::Void,
                },
                stripe: StripeNumber(STRIPES_MAX - 1),
                whole: i % 4 < 2 && i % 8 < 4,
            })
            .collect();
        let mut block = [0; BLOCK_BYTES];
        encode(&id, &entries, &mut block);
        let mut read = Vec::new();
        assert!(decode(&id, &block, 204, &mut read));
        assert_eq!(read, entries);
        for wrong in [
            FooterId { array: 9, ..id },
            FooterId { segment: 9, ..id },
            FooterId { zone: ZoneIndex(9), ..id },
            FooterId { index: 9, ..id },
        ] {
            assert!(!decode(&wrong, &block, 204, &mut read), "{wrong:?}");
        }
        block[4095] ^= 1;
        assert!(!decode(&id, &block, 204, &mut read));
        assert_eq!(read.len(), 204);
    }
}
