//! Sets of pieces of a stripe, or of members of an array: one bit each.

/// Most pieces of one stripe; bounds the arrays on the stack of the encoder.
pub const PIECES_MAX: usize = 32;

/// Set of pieces, of up to [`PIECES_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PieceSet(u32);

/// Sets of the first pieces by their count.
static FIRST: [PieceSet; PIECES_MAX + 1] = {
    let mut sets = [PieceSet(0); PIECES_MAX + 1];
    let mut count = 1;
    while count <= PIECES_MAX {
        sets[count] = PieceSet(sets[count - 1].0 << 1 | 1);
        count += 1;
    }
    sets
};

impl PieceSet {
    /// The set without pieces.
    pub const EMPTY: PieceSet = PieceSet(0);

    /// Pieces 0 to `count` - 1.
    ///
    /// # Panics
    /// When there are more than [`PIECES_MAX`].
    #[inline]
    #[must_use]
    pub fn first(count: usize) -> PieceSet {
        assert!(count <= PIECES_MAX, "{count} pieces of {PIECES_MAX}");
        FIRST[count]
    }

    /// The set of the pieces whose bits are set, the lowest for piece 0.
    #[must_use]
    pub fn from_bits(bits: u32) -> PieceSet {
        PieceSet(bits)
    }

    /// A bit for each piece, the lowest for piece 0.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// True when a piece is among them.
    #[inline]
    #[must_use]
    pub fn contains(self, piece: usize) -> bool {
        piece < PIECES_MAX && self.0 >> piece & 1 == 1
    }

    /// Adds a piece.
    ///
    /// # Panics
    /// When there is no such piece.
    #[inline]
    pub fn insert(&mut self, piece: usize) {
        assert!(piece < PIECES_MAX, "piece {piece} of {PIECES_MAX}");
        self.0 |= 1 << piece;
    }

    /// Pieces that are in either.
    #[inline]
    #[must_use]
    pub fn or(self, other: PieceSet) -> PieceSet {
        PieceSet(self.0 | other.0)
    }

    /// Set of one piece.
    ///
    /// # Panics
    /// When there is no such piece.
    #[inline]
    #[must_use]
    pub fn one(piece: usize) -> PieceSet {
        let mut set = PieceSet::EMPTY;
        set.insert(piece);
        set
    }

    /// Pieces that are not in `other`.
    #[inline]
    #[must_use]
    pub fn without(self, other: PieceSet) -> PieceSet {
        PieceSet(self.0 & !other.0)
    }

    /// Pieces that are also in `other`.
    #[inline]
    #[must_use]
    pub fn and(self, other: PieceSet) -> PieceSet {
        PieceSet(self.0 & other.0)
    }

    /// Pieces in the set.
    #[inline]
    #[must_use]
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// True for a set of none.
    #[inline]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The pieces in order.
    #[inline]
    pub fn iter(self) -> Pieces {
        Pieces(self.0)
    }
}

/// Pieces of a set, in order.
#[derive(Clone, Debug)]
pub struct Pieces(u32);

impl Iterator for Pieces {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let piece = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(piece)
    }
}

impl FromIterator<usize> for PieceSet {
    #[inline]
    fn from_iter<T: IntoIterator<Item = usize>>(pieces: T) -> PieceSet {
        let mut set = PieceSet::EMPTY;
        pieces.into_iter().for_each(|piece| set.insert(piece));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_was_put_in() {
        let all = PieceSet::first(PIECES_MAX);
        assert!(all.bits() == u32::MAX && PieceSet::first(3).bits() == 7 && PieceSet::first(0).is_empty());
        assert_eq!(all.count(), PIECES_MAX);
        let some: PieceSet = [3, 0, 31].into_iter().collect();
        assert_eq!(some.iter().collect::<Vec<_>>(), [0, 3, 31]);
        assert_eq!(PieceSet::one(3).or(PieceSet::one(0)).or(PieceSet::one(31)), some);
        let others = all.without(some);
        assert!(!others.contains(3) && others.contains(4) && others.count() == PIECES_MAX - 3);
        assert_eq!(all.and(some), some);
        assert!(some.without(all).is_empty() && !some.contains(PIECES_MAX));
    }
}
