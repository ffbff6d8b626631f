//! Journal blocks of a cache: what is decoded is encoded as it was.
#![no_main]

use cache::format::journal::{ENTRIES_MAX, Entry, FIELDS, JournalBlock};
use cache::hash::KeyHash;
use cache::request::WallMillis;
use fuzz::{assert_same_fields, block, seed, trimmed};
use libfuzzer_sys::fuzz_target;

fn seeds() {
    let entry = |bits: u64| Entry { hash: KeyHash::from_bits(bits), sequence: bits << 40 };
    let inputs = [0, 3, ENTRIES_MAX as u64].map(|count| {
        let mut encoded = block(&[]);
        let entries = (0..count).map(entry).collect();
        JournalBlock { wall: WallMillis(77), closes: count == 3, entries }.encode(&mut encoded);
        trimmed(&encoded)
    });
    seed("cache_journal", &inputs);
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let raw = block(data);
    let Some(found) = JournalBlock::decode(&raw) else { return };
    let mut anew = block(&[]);
    found.encode(&mut anew);
    assert_eq!(JournalBlock::decode(&anew), Some(found));
    // What follows the entries means nothing.
    assert_same_fields(FIELDS, &anew, &raw, &["RESERVED", "ENTRIES"]);
});
