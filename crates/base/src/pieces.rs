//! Pieces of a stripe, and sets of them or of members of an array: one bit each.

use std::fmt;
use std::marker::PhantomData;

/// Most pieces of one stripe; bounds the arrays on the stack of the encoder.
pub const PIECES_MAX: usize = 32;

/// A piece of a stripe by its place in the code: data first, then parity. Its member is another number, which rotates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Piece(pub u8);

impl Piece {
    /// The piece of a block that belongs to no stripe, as its metadata has it.
    pub const NONE: Piece = Piece(u8::MAX);

    /// The piece at place `index` of a table with one entry per piece.
    ///
    /// # Panics
    /// When `index` exceeds 255; stripes have at most [`PIECES_MAX`] pieces.
    #[inline]
    #[must_use]
    pub fn at(index: usize) -> Piece {
        Piece(u8::try_from(index).expect("a stripe has at most 32 pieces"))
    }

    /// The piece as an index into a table with one entry per piece.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What sets hold: places in a table of up to [`PIECES_MAX`].
pub trait Numbered: Copy {
    /// The one at a place.
    fn at(index: usize) -> Self;
    /// Its place.
    fn index(self) -> usize;
}

impl Numbered for Piece {
    #[inline]
    fn at(index: usize) -> Piece {
        Piece::at(index)
    }

    #[inline]
    fn index(self) -> usize {
        self.index()
    }
}

impl Numbered for usize {
    #[inline]
    fn at(index: usize) -> usize {
        index
    }

    #[inline]
    fn index(self) -> usize {
        self
    }
}

/// Set of pieces, of up to [`PIECES_MAX`].
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct PieceSet<P = usize>(u32, PhantomData<P>);

/// Sets of the first pieces by their count, as bits.
static FIRST: [u32; PIECES_MAX + 1] = {
    let mut sets = [0; PIECES_MAX + 1];
    let mut count = 1;
    while count <= PIECES_MAX {
        sets[count] = sets[count - 1] << 1 | 1;
        count += 1;
    }
    sets
};

impl<P> fmt::Debug for PieceSet<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PieceSet").field(&self.0).finish()
    }
}

impl<P: Numbered> PieceSet<P> {
    /// The set without pieces.
    pub const EMPTY: PieceSet<P> = PieceSet(0, PhantomData);

    /// Pieces 0 to `count` - 1.
    ///
    /// # Panics
    /// When there are more than [`PIECES_MAX`].
    #[inline]
    #[must_use]
    pub fn first(count: usize) -> PieceSet<P> {
        assert!(count <= PIECES_MAX, "{count} pieces of {PIECES_MAX}");
        PieceSet(FIRST[count], PhantomData)
    }

    /// The set of the pieces whose bits are set, the lowest for piece 0.
    #[must_use]
    pub fn from_bits(bits: u32) -> PieceSet<P> {
        PieceSet(bits, PhantomData)
    }

    /// A bit for each piece, the lowest for piece 0.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// True when a piece is among them.
    #[inline]
    #[must_use]
    pub fn contains(self, piece: P) -> bool {
        let piece = piece.index();
        piece < PIECES_MAX && self.0 >> piece & 1 == 1
    }

    /// Adds a piece.
    ///
    /// # Panics
    /// When there is no such piece.
    #[inline]
    pub fn insert(&mut self, piece: P) {
        let piece = piece.index();
        assert!(piece < PIECES_MAX, "piece {piece} of {PIECES_MAX}");
        self.0 |= 1 << piece;
    }

    /// Pieces that are in either.
    #[inline]
    #[must_use]
    pub fn or(self, other: PieceSet<P>) -> PieceSet<P> {
        PieceSet(self.0 | other.0, PhantomData)
    }

    /// Set of one piece.
    ///
    /// # Panics
    /// When there is no such piece.
    #[inline]
    #[must_use]
    pub fn one(piece: P) -> PieceSet<P> {
        let mut set = PieceSet::EMPTY;
        set.insert(piece);
        set
    }

    /// Pieces that are not in `other`.
    #[inline]
    #[must_use]
    pub fn without(self, other: PieceSet<P>) -> PieceSet<P> {
        PieceSet(self.0 & !other.0, PhantomData)
    }

    /// Pieces that are also in `other`.
    #[inline]
    #[must_use]
    pub fn and(self, other: PieceSet<P>) -> PieceSet<P> {
        PieceSet(self.0 & other.0, PhantomData)
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
    pub fn iter(self) -> Pieces<P> {
        Pieces(self.0, PhantomData)
    }
}

/// Pieces of a set, in order.
#[derive(Clone, Debug)]
pub struct Pieces<P = usize>(u32, PhantomData<P>);

impl<P: Numbered> Iterator for Pieces<P> {
    type Item = P;

    #[inline]
    fn next(&mut self) -> Option<P> {
        if self.0 == 0 {
            return None;
        }
        let piece = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(P::at(piece))
    }
}

impl<P: Numbered> FromIterator<P> for PieceSet<P> {
    #[inline]
    fn from_iter<T: IntoIterator<Item = P>>(pieces: T) -> PieceSet<P> {
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
        let all: PieceSet = PieceSet::first(PIECES_MAX);
        let first = PieceSet::<Piece>::first;
        assert!(all.bits() == u32::MAX && first(3).bits() == 7 && first(0).is_empty());
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
