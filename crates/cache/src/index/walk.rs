//! Idents in an order that no move of a slot changes: by the lower one of their two buckets, then by tag.
//!
//! A slot lies in either of two buckets and may move between them, or leave for a buffer and come back elsewhere, while
//! somebody walks over the keys. What does not change is its ident. A [`Window`] is a part of that order: the idents from
//! one code to another that had a slot at one instant.

use super::{Index, SLOTS};
use crate::hash::{Ident, TAG_BITS_MAX};

/// Idents of a window, about: 128 KiB, and a pass over the index for as many keys.
const WINDOW_IDENTS: usize = 16_384;

impl Ident {
    /// Place among all idents of an index.
    #[must_use]
    pub fn code(self) -> u64 {
        self.bucket << TAG_BITS_MAX | u64::from(self.tag)
    }

    /// The ident of a place.
    #[must_use]
    pub fn from_code(code: u64) -> Ident {
        let tag = u16::try_from(code & ((1 << TAG_BITS_MAX) - 1)).expect("12 bits");
        Ident { bucket: code >> TAG_BITS_MAX, tag }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Window {
    /// Codes, ascending.
    codes: Vec<u64>,
    /// First code that it speaks of.
    from: u64,
    /// First code that it does not speak of; `u64::MAX` at the end.
    to: u64,
}

impl Window {
    /// The idents of an index from one code on, and of what is in buffers, whose codes are `others`.
    #[must_use]
    pub fn new(index: &Index, others: impl Iterator<Item = u64>, from: u64) -> Window {
        let mut window = Window { codes: Vec::new(), from, to: u64::MAX };
        others.for_each(|code| window.take(code));
        let shape = index.shape;
        for (bucket, found) in (0..).zip(&index.buckets) {
            for (tag, _) in (0..SLOTS).filter_map(|slot| found.slot(slot)) {
                let bucket = bucket.min(shape.other(bucket, tag));
                window.take(Ident { bucket, tag }.code());
            }
        }
        window.order();
        window
    }

    fn take(&mut self, code: u64) {
        if code < self.from || code >= self.to {
            return;
        }
        self.codes.push(code);
        if self.codes.len() == 2 * WINDOW_IDENTS {
            self.order();
        }
    }

    /// Codes in order, each once, and no more than a window has.
    fn order(&mut self) {
        self.codes.sort_unstable();
        self.codes.dedup();
        if self.codes.len() > WINDOW_IDENTS {
            self.codes.truncate(WINDOW_IDENTS);
            self.to = self.codes[WINDOW_IDENTS - 1] + 1;
        }
    }

    /// True when it speaks of a code.
    #[must_use]
    pub fn covers(&self, code: u64) -> bool {
        (self.from..self.to).contains(&code)
    }

    /// Up to `count` codes from one on, and the code to go on with; `u64::MAX` at the end of all.
    ///
    /// # Panics
    /// When the window does not speak of the first code.
    #[must_use]
    pub fn part(&self, from: u64, count: usize) -> (&[u64], u64) {
        assert!(self.covers(from), "a walk goes on where its window is");
        assert!(count > 0, "a walk gets on");
        let rest = &self.codes[self.codes.partition_point(|code| *code < from)..];
        if rest.len() <= count {
            return (rest, self.to);
        }
        assert!(rest[count] > rest[0], "codes ascend");
        (&rest[..count], rest[count])
    }
}

impl Index {
    /// A code that a number stands for: numbers that are spread evenly give codes that are.
    #[must_use]
    pub fn code_at(&self, number: u64) -> u64 {
        number % (self.shape.buckets() << TAG_BITS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{KeyHash, Shape};
    use crate::index::PageNumber;
    use base::random::Random;
    use std::collections::BTreeSet;

    /// All codes of an index, window after window.
    fn walk(index: &Index, count: usize) -> Vec<u64> {
        let (mut at, mut codes) = (0, Vec::new());
        while at != u64::MAX {
            let window = Window::new(index, std::iter::empty(), at);
            while window.covers(at) {
                let (part, next) = window.part(at, count);
                assert!(part.len() <= count);
                codes.extend_from_slice(part);
                at = next;
            }
        }
        codes
    }

    #[test]
    fn windows_follow_one_another_and_tell_each_ident_once() {
        let mut random = Random::from_seed(3);
        let shape = Shape::new(9_000, 12).unwrap();
        let (mut index, mut known) = (Index::new(shape), BTreeSet::new());
        for page in 1..60_000 {
            let hash = KeyHash::from_bits(random.bits() >> 16);
            if index.insert(hash, PageNumber(page)).is_ok() {
                known.insert(shape.ident(hash).code());
            }
        }
        assert!(known.len() > 3 * WINDOW_IDENTS);
        for count in [10, 100_000] {
            assert_eq!(walk(&index, count), known.iter().copied().collect::<Vec<_>>());
        }
        assert!(known.iter().all(|code| Ident::from_code(*code).code() == *code));
    }

    #[test]
    fn many_slots_of_one_ident_fill_no_window() {
        let shape = Shape::new(6_000, 1).unwrap();
        let (mut index, mut known) = (Index::new(shape), BTreeSet::new());
        let mut random = Random::from_seed(4);
        for page in 1..50_000 {
            let hash = KeyHash::from_bits(random.bits() >> 16);
            if index.insert(hash, PageNumber(page)).is_ok() {
                known.insert(shape.ident(hash).code());
            }
        }
        assert_eq!(walk(&index, 7).len(), known.len());
        assert!(walk(&Index::new(shape), 7).is_empty());
    }
}
