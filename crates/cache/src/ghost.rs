//! A ghost: what is left of objects that are gone, by which their return is noticed.
//!
//! A table with one place for each object that is remembered; what comes to a place is remembered instead of what was there. So
//! nothing is kept for long, nothing is searched, and the table never grows.

/// Mark that is kept of a hash. Another hash of the same place is taken for it once in as many as there are marks.
pub trait Mark: Copy + PartialEq {
    /// Nothing is remembered.
    const NONE: Self;

    /// The mark of a hash: never the one above.
    fn of(hash: u64) -> Self;
}

impl Mark for u8 {
    const NONE: u8 = 0;

    fn of(hash: u64) -> u8 {
        hash.to_le_bytes()[0].max(1)
    }
}

impl Mark for u32 {
    const NONE: u32 = 0;

    fn of(hash: u64) -> u32 {
        let [a, b, c, d, ..] = hash.to_le_bytes();
        u32::from_le_bytes([a, b, c, d]).max(1)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Ghost<M> {
    marks: Vec<M>,
}

impl<M: Mark> Ghost<M> {
    /// A ghost with room for so many hashes.
    #[must_use]
    pub fn new(hashes: usize) -> Ghost<M> {
        Ghost { marks: vec![M::NONE; hashes] }
    }

    /// Bytes of memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.marks.len() * size_of::<M>()) as u64
    }

    /// The place of a hash, by its upper bits.
    fn place(&mut self, hash: u64) -> Option<&mut M> {
        let place = usize::try_from(hash >> 16).ok()?.checked_rem(self.marks.len())?;
        self.marks.get_mut(place)
    }

    /// Remembers a hash.
    pub fn remember(&mut self, hash: u64) {
        let mark = M::of(hash);
        debug_assert!(mark != M::NONE, "what is remembered leaves a mark");
        if let Some(place) = self.place(hash) {
            *place = mark;
        }
    }

    /// True when a hash is remembered, which it is not from then on.
    pub fn recall(&mut self, hash: u64) -> bool {
        let Some(place) = self.place(hash) else { return false };
        let is_known = *place == M::of(hash);
        if is_known {
            *place = M::NONE;
        }
        is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Ident;

    fn hash_of(number: u64) -> u64 {
        Ident { bucket: number / 4096, tag: u16::try_from(number % 4096).unwrap() }.hash()
    }

    /// Shares of a thousand, of those that came and of those that never did, that a ghost with 4,096 places recalls of so many.
    fn recalled<M: Mark>(came: u64) -> (u64, u64) {
        let share = |asked: std::ops::Range<u64>| {
            let mut ghost = Ghost::<M>::new(4096);
            (0..came).for_each(|number| ghost.remember(hash_of(number)));
            let count = asked.end - asked.start;
            asked.filter(|number| ghost.recall(hash_of(*number))).count() as u64 * 1000 / count
        };
        (share(0..came), share(came..came + 10_000))
    }

    #[test]
    fn what_came_lately_is_known_and_strangers_seldom_are() {
        let (known, strangers) = recalled::<u32>(2048);
        assert!(known > 750 && strangers == 0, "{known}, {strangers} of a thousand");
        let (known, strangers) = recalled::<u8>(2048);
        assert!(known > 750 && strangers <= 4, "{known}, {strangers} of a thousand");
        let (known, _) = recalled::<u8>(40_960);
        assert!((50..=110).contains(&known), "4,096 places for 40,960: {known} of a thousand");
    }

    #[test]
    fn a_return_is_noticed_once_and_without_room_never() {
        let mut ghost = Ghost::<u8>::new(64);
        ghost.remember(hash_of(5));
        assert!(ghost.recall(hash_of(5)) && !ghost.recall(hash_of(5)));
        assert_eq!(ghost.bytes(), 64);
        let mut none = Ghost::<u8>::new(0);
        none.remember(hash_of(5));
        assert!(!none.recall(hash_of(5)));
    }
}
