//! Directories of a cache: what a directory of one block tells is what is written for it anew.
#![no_main]

use cache::format::directory::{DirectoryBlock, FIELDS, Listed, Listing, SAMPLES, ToldExpiries};
use cache::hash::KeyHash;
use cache::request::Namespace;
use fuzz::{assert_same_fields, block, seed, trimmed};
use libfuzzer_sys::fuzz_target;

fn seeds() {
    let listed = |bits| Listed { hash: KeyHash::from_bits(bits), namespace: Namespace(3), class: 4 };
    let expiries = ToldExpiries { first: 1, last: 9, bytes: 8, samples: [7; SAMPLES], count: 3 };
    let inputs = [0, 1, 40].map(|pages| {
        let mut listing = Listing::new(5, 4);
        (0..pages).for_each(|page| listing.add(page, [listed(page), listed(page + 1)].into_iter()));
        trimmed(&*listing.end_directory(&expiries, pages == 0)[0])
    });
    seed("cache_directory", &inputs);
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let raw = block(data);
    let Some(found) = DirectoryBlock::decode(&raw) else { return };
    assert!(found.covers > found.before && found.end() <= found.run);
    assert_eq!(DirectoryBlock::decode_at(&raw, found.run), Some(found.clone()));
    if found.first != found.covers || !found.is_last {
        return;
    }
    let mut listing = Listing::new(found.covers, found.before);
    found.pages.iter().for_each(|page| listing.add(page.sequence, page.records.iter().copied()));
    assert_eq!((listing.end(), listing.extent().blocks()), (found.run, 1));
    let anew = listing.end_directory(&found.expiries, found.closes);
    assert_eq!(DirectoryBlock::decode(&anew[0]), Some(found));
    // What follows the pages means nothing.
    assert_same_fields(FIELDS, &*anew[0], &raw, &["RESERVED", "PAGES"]);
});
