//! Footer blocks: what is decoded is encoded to the same bytes. The input is array, zone and index, then
//! the block.
#![no_main]

use base::bytes::{array_at, put, u64_at};
use base::units::ZoneIndex;
use fuzz::{block, offset_of, resealed, seed, trimmed};
use libfuzzer_sys::fuzz_target;
use zone::format::footer::{ENTRIES_PER_BLOCK, Entry, EntryKind, FIELDS, FooterId, decode, encode, entry};
use zone::format::oob::Kind;
use zone::stripe::StripeNumber;

const ALL: usize = ENTRIES_PER_BLOCK as usize;

fn seeds() {
    let id = FooterId { array: 1, segment: 2, zone: ZoneIndex(3), index: 4 };
    let kinds = [EntryKind::Data(Kind::User), EntryKind::Data(Kind::Lost), EntryKind::Parity(3)];
    let entry = |kind, whole| Entry { lba: 42, sequence: 1 << 41, kind, stripe: StripeNumber(77), whole };
    let mut entries: Vec<Entry> =
        kinds.iter().flat_map(|kind| [entry(*kind, true), entry(*kind, false)]).collect();
    entries.extend([Entry::unknown(StripeNumber(78)), Entry::VOID]);
    let mut encoded = block(&[]);
    encode(&id, &entries, &mut encoded);
    let mut input = suffix(&id).to_vec();
    input.extend(trimmed(&encoded));
    seed("footer", &[input]);
}

/// Returns the bytes that the checksum covers besides the block.
fn suffix(id: &FooterId) -> [u8; 16] {
    let mut bytes = [0; 16];
    put(&mut bytes, 0, &id.array.to_le_bytes());
    put(&mut bytes, 8, &id.zone.0.to_le_bytes());
    put(&mut bytes, 12, &id.index.to_le_bytes());
    bytes
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let Some((head, data)) = data.split_first_chunk::<16>() else { return };
    // As many entries as the input has wholly: zeros are no entry.
    let entries_at = offset_of(FIELDS, "ENTRIES");
    let count = (data.len().saturating_sub(entries_at) / entry::ENTRY_BYTES).min(ALL);
    let raw = block(&data[..data.len().min(entries_at + count * entry::ENTRY_BYTES)]);
    let id = FooterId {
        array: u64_at(head, 0),
        segment: u64_at(&raw, offset_of(FIELDS, "SEGMENT")),
        zone: ZoneIndex(u32::from_le_bytes(array_at(head, 8))),
        index: u32::from_le_bytes(array_at(head, 12)),
    };
    for block in [raw, resealed(raw, offset_of(FIELDS, "CRC"), &suffix(&id))] {
        let mut entries = vec![Entry::VOID];
        if !decode(&id, &block, count, &mut entries) {
            assert_eq!(entries, [Entry::VOID], "a block that is refused adds nothing");
            continue;
        }
        assert_eq!(entries.len(), 1 + count);
        let mut encoded = fuzz::block(&[]);
        encode(&id, &entries[1..], &mut encoded);
        assert!(encoded == block, "what was decoded is not encoded to the same bytes");
        for entry in &entries[1..] {
            assert_eq!(entry.protected().map(|fields| fields.to_bytes().to_vec()), match entry.kind {
                EntryKind::Data(_) => entry.protected_bytes().map(|bytes| bytes.to_vec()),
                EntryKind::Parity(_) | EntryKind::Unknown | EntryKind::Void => None,
            });
        }
        let wrong = FooterId { index: id.index ^ 1, ..id };
        assert!(!decode(&wrong, &block, count, &mut entries), "a block in the wrong place is refused");
    }
});
