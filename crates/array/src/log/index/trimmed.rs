//! Trimmed bits: which blocks of the volume were trimmed and not written since.
//!
//! A bit per block, in pages of one region each. A region of which nothing is trimmed has no page: bits take memory where
//! somebody trims, and give it back when all of a region is written again. A volume that nobody ever trimmed takes none.

use crate::log::config::REGION_BLOCKS;
use base::units::{Lba, index_of};

/// Words of a page.
const PAGE_WORDS: usize = 128;
const _: () = assert!(PAGE_WORDS as u64 * 64 == REGION_BLOCKS);

/// The bits of all blocks.
pub struct TrimmedBits {
    /// Empty until the first block is trimmed.
    pages: Vec<Option<Box<Page>>>,
    regions: usize,
}

/// Bits of a region.
#[derive(Clone)]
struct Page {
    words: [u64; PAGE_WORDS],
    /// Count of the bits that are set.
    set: u32,
}

impl TrimmedBits {
    /// No block of so many regions is trimmed.
    #[must_use]
    pub fn new(regions: u64) -> TrimmedBits {
        TrimmedBits { pages: Vec::new(), regions: index_of(regions) }
    }

    /// The bits of so many regions, 64 to a word.
    #[must_use]
    pub fn of(regions: u64, words: &[u64]) -> TrimmedBits {
        let mut trimmed = TrimmedBits::new(regions);
        for (first, word) in (0..).step_by(64).zip(words) {
            for bit in (0..64).filter(|bit| word >> bit & 1 == 1) {
                trimmed.insert(Lba(first + bit));
            }
        }
        trimmed
    }

    /// 64 bits.
    #[must_use]
    pub fn word(&self, word: usize) -> u64 {
        let page = self.pages.get(word / PAGE_WORDS).and_then(Option::as_ref);
        page.map_or(0, |page| page.words[word % PAGE_WORDS])
    }

    /// True for a block that is trimmed.
    #[must_use]
    pub fn contains(&self, lba: Lba) -> bool {
        let (page, bit) = place_of(lba);
        let page = self.pages.get(page).and_then(Option::as_ref);
        page.is_some_and(|page| page.words[bit / 64] >> (bit % 64) & 1 == 1)
    }

    /// A block is trimmed.
    pub fn insert(&mut self, lba: Lba) {
        let (page, bit) = place_of(lba);
        if self.pages.is_empty() {
            self.pages.resize(self.regions, None);
        }
        let page = self.pages[page].get_or_insert_with(|| Box::new(Page { words: [0; PAGE_WORDS], set: 0 }));
        let word = &mut page.words[bit / 64];
        page.set += u32::from(*word >> (bit % 64) & 1 == 0);
        *word |= 1 << (bit % 64);
    }

    /// A block is no longer trimmed.
    pub fn remove(&mut self, lba: Lba) {
        let (place, bit) = place_of(lba);
        let Some(Some(page)) = self.pages.get_mut(place) else { return };
        let word = &mut page.words[bit / 64];
        page.set -= u32::from(*word >> (bit % 64) & 1 == 1);
        *word &= !(1 << (bit % 64));
        if page.set == 0 {
            self.pages[place] = None;
        }
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let pages = self.pages.iter().flatten().count();
        self.pages.capacity() * size_of::<Option<Box<Page>>>() + pages * size_of::<Page>()
    }
}

/// Page of a block, and its bit there.
fn place_of(lba: Lba) -> (usize, usize) {
    let region_blocks = PAGE_WORDS * 64;
    (lba.index() / region_blocks, lba.index() % region_blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn bits_are_those_of_a_set_and_pages_come_and_go() {
        let mut bits = TrimmedBits::new(3);
        assert_eq!(bits.memory_bytes(), 0);
        bits.insert(Lba(0));
        bits.remove(Lba(0));
        let empty = bits.memory_bytes();
        let mut set = BTreeSet::new();
        let lbas = [0, 1, 63, 64, 8191, 8192, 20_000, 24_575, 1, 8191].map(Lba);
        for lba in lbas {
            bits.insert(lba);
            set.insert(lba);
            assert!((0..24_576).map(Lba).all(|lba| bits.contains(lba) == set.contains(&lba)));
        }
        assert_eq!(bits.memory_bytes(), empty + 3 * size_of::<Page>());
        for lba in lbas {
            bits.remove(lba);
            set.remove(&lba);
            assert!((0..24_576).map(Lba).all(|lba| bits.contains(lba) == set.contains(&lba)));
        }
        assert_eq!(bits.memory_bytes(), empty);
    }
}
