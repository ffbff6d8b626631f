//! Erasure codes: m parities for k pieces of data, and what can be had from which pieces.
//!
//! Two kinds. *Parities*: parity j is the sum of all data pieces, piece i times 2^(i j) in GF(2^8):
//! ```text
//!   P = d0 +   d1 +    d2 + ...        XOR: RAID-4, RAID-5
//!   Q = d0 + 2 d1 +  4 d2 + ...        RAID-6, as Linux md has it
//!   R = d0 + 4 d1 + 16 d2 + ...        three parities, as ZFS has it
//! ```
//! Up to three parities, any m of the k+m pieces may be lost (the code is MDS): with x_i = 2^i, all different
//! and not zero, each square matrix that decoding inverts is a Vandermonde matrix of rows 1, x, x^2, or one
//! with a row left out, whose determinant is not zero either, for squaring is one to one in this field. With
//! a fourth row that is no longer so. A test tries all losses.
//!
//! *Mirrors*: piece k + i is a copy of data piece i (RAID-01). Not MDS: which pieces are lost decides.

use crate::combine::{combine_blocks, has_products};
use crate::galois::{NIBBLE_PRODUCTS, inverse, multiply, multiply_by, power_of_two};
use crate::xor::{Block, sum_by_powers, sums_plain_and_by_powers, xor_blocks};

pub use crate::pieces::{Numbered, PIECES_MAX, Piece, PieceSet, Pieces};

/// Most parities of a code that is MDS.
pub const PARITIES_MAX: usize = 3;

/// Kind of the pieces beyond the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Parities,
    Mirrors,
}

/// A systematic code. Piece `0..k` is data, `k..k+m` parity or copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErasureCode {
    data_count: usize,
    parity_count: usize,
    kind: Kind,
    /// Exponents of two that the data pieces have; `None` where data piece i has exponent i.
    exponents: Option<PieceSet>,
}

/// Recipe of a piece: the factor by which each other piece is multiplied, zero where it is not needed.
type Recipe = [u8; PIECES_MAX];

impl ErasureCode {
    /// The MDS code with `data_count` data and `parity_count` parity pieces; `None` where there is none
    /// (more than [`PARITIES_MAX`] parities, no data, or more than [`PIECES_MAX`] pieces).
    #[must_use]
    pub fn new(data_count: usize, parity_count: usize) -> Option<ErasureCode> {
        let known = (1..=PIECES_MAX).contains(&data_count)
            && parity_count <= PARITIES_MAX
            && data_count + parity_count <= PIECES_MAX;
        known.then_some(ErasureCode { data_count, parity_count, kind: Kind::Parities, exponents: None })
    }

    /// The code whose i-th data piece has the i-th of these exponents of two, as Linux md has it in layouts where parities
    /// use up exponents; `None` where there is no such code, as with [`ErasureCode::new`].
    #[must_use]
    pub fn with_exponents(exponents: PieceSet, parity_count: usize) -> Option<ErasureCode> {
        let code = ErasureCode::new(exponents.count(), parity_count)?;
        let is_ordinary = exponents == PieceSet::first(exponents.count());
        Some(ErasureCode { exponents: (!is_ordinary).then_some(exponents), ..code })
    }

    /// The code that has every one of `data_count` data pieces twice; `None` with no data, or more than
    /// [`PIECES_MAX`] pieces.
    #[must_use]
    pub fn mirrored(data_count: usize) -> Option<ErasureCode> {
        let known = (1..=PIECES_MAX / 2).contains(&data_count);
        known.then_some(ErasureCode {
            data_count,
            parity_count: data_count,
            kind: Kind::Mirrors,
            exponents: None,
        })
    }

    /// Data pieces, k.
    #[must_use]
    pub fn data_count(&self) -> usize {
        self.data_count
    }

    /// Parity pieces or copies, m.
    #[must_use]
    pub fn parity_count(&self) -> usize {
        self.parity_count
    }

    /// Data and parity pieces, k+m.
    #[must_use]
    pub fn piece_count(&self) -> usize {
        self.data_count + self.parity_count
    }

    /// True when pieces beyond the data are copies of data pieces.
    #[must_use]
    pub fn is_mirrored(&self) -> bool {
        self.kind == Kind::Mirrors
    }

    /// Pieces that may be lost whichever they are.
    #[must_use]
    pub fn tolerance(&self) -> usize {
        match self.kind {
            Kind::Parities => self.parity_count,
            Kind::Mirrors => 1,
        }
    }

    /// All pieces.
    #[must_use]
    pub fn pieces<P: Numbered>(&self) -> PieceSet<P> {
        PieceSet::first(self.piece_count())
    }

    /// Pieces of data, in order.
    #[must_use]
    pub fn data_pieces(&self) -> Pieces<Piece> {
        PieceSet::first(self.data_count).iter()
    }

    /// True for a piece of data, and not of parity.
    #[must_use]
    pub fn is_data(&self, piece: Piece) -> bool {
        piece.index() < self.data_count
    }

    /// The number of a parity among its like; `None` for data.
    #[must_use]
    pub fn parity_of(&self, piece: Piece) -> Option<usize> {
        piece.index().checked_sub(self.data_count)
    }

    /// True when all pieces can be had from those in `present`.
    #[must_use]
    pub fn can_decode<P: Numbered>(&self, present: PieceSet<P>) -> bool {
        match self.kind {
            Kind::Parities => present.and(self.pieces()).count() >= self.data_count,
            Kind::Mirrors => (0..self.data_count).all(|piece| {
                present.contains(P::at(piece)) || present.contains(P::at(self.data_count + piece))
            }),
        }
    }

    /// The pieces of `present` that piece `lost` is computed from; `None` when it cannot be.
    #[must_use]
    pub fn sources<P: Numbered>(&self, lost: P, present: PieceSet<P>) -> Option<PieceSet<P>> {
        let recipe = self.recipe(lost.index(), PieceSet::from_bits(present.bits()))?;
        Some((0..PIECES_MAX).filter(|piece| recipe[*piece] != 0).map(P::at).collect())
    }

    /// Computes parity `parity` (0-based) of the k data blocks.
    ///
    /// # Panics
    /// When there are not k data blocks, or no such parity.
    pub fn encode(&self, parity: usize, data: &[&Block], into: &mut Block) {
        assert!(data.len() == self.data_count);
        assert!(parity < self.parity_count);
        if self.is_xor(parity) {
            return xor_blocks(into, data);
        }
        if parity == 1 && self.is_by_powers() {
            return sum_by_powers(into, data);
        }
        let row = self.row(self.data_count + parity);
        combine(into, data.iter().copied().zip(row));
    }

    /// Computes the first two parities of the k data blocks, in one pass where the processor has no faster products.
    ///
    /// # Panics
    /// When there are not k data blocks, or no two parities.
    pub fn encode_two(&self, data: &[&Block], [first, second]: [&mut Block; 2]) {
        assert!(data.len() == self.data_count && self.parity_count >= 2);
        if self.is_by_powers() {
            return sums_plain_and_by_powers(first, second, data);
        }
        self.encode(0, data, first);
        self.encode(1, data, second);
    }

    /// True when the second parity is best computed by doublings.
    fn is_by_powers(&self) -> bool {
        self.exponents.is_none() && self.kind == Kind::Parities && !has_products()
    }

    /// Changes parity `parity` by what changed in some data pieces, each given with the sum (XOR) of what it was and what it
    /// is: P takes the sums as they are, Q each times its power of two. `old` is the parity as it was.
    ///
    /// # Panics
    /// When there is no such parity or data piece, or a piece is given twice.
    pub fn change(&self, parity: usize, old: &Block, deltas: &[(usize, &Block)], into: &mut Block) {
        assert!(parity < self.parity_count);
        let mut given = PieceSet::EMPTY;
        for (piece, _) in deltas {
            assert!(*piece < self.data_count && !given.contains(*piece), "data piece {piece} of {self:?}");
            given.insert(*piece);
        }
        assert!(deltas.len() < PIECES_MAX, "one parity at least is no data piece");
        let factor = |piece: usize| self.factor(self.data_count + parity, piece);
        let changed = deltas.iter().map(|(piece, delta)| (*delta, factor(*piece)));
        combine(into, std::iter::once((old, 1)).chain(changed));
    }

    /// Changes the plain sum of all data by pieces, each as it was and as it is: two blocks for each.
    ///
    /// # Panics
    /// When the blocks are not of fewer than [`PIECES_MAX`] pieces, or the first parity is not such a sum.
    pub fn change_sum<'a>(
        &self,
        old: &'a Block,
        changed: impl Iterator<Item = (usize, [&'a Block; 2])>,
        into: &mut Block,
    ) {
        static NONE: Block = [0; crate::units::BLOCK_BYTES];
        assert!(self.parity_count > 0 && self.is_xor(0), "the first parity of {self:?}");
        let mut sources = [&NONE; 2 * PIECES_MAX + 1];
        sources[0] = old;
        let (mut count, mut given) = (1, PieceSet::EMPTY);
        for (piece, both) in changed {
            assert!(piece < self.data_count && !given.contains(piece), "data piece {piece} of {self:?}");
            given.insert(piece);
            sources[count..count + 2].copy_from_slice(&both);
            count += 2;
        }
        xor_blocks(into, &sources[..count]);
    }

    /// Computes parity `parity` of k short fields (metadata parity).
    pub fn encode_field<'a, const N: usize>(
        &self,
        parity: usize,
        data: impl Iterator<Item = &'a [u8; N]>,
        into: &mut [u8; N],
    ) {
        assert!(parity < self.parity_count);
        if self.is_xor(parity) {
            return combine_field(into, data.zip(std::iter::repeat(1)));
        }
        combine_field(into, data.zip(self.row(self.data_count + parity)));
    }

    /// Checksum of parity `parity`, where it follows from the checksums of the k data blocks (see
    /// [`crate::checksum`]): of an XOR, and of a copy. Such a one does not vouch for a parity that was
    /// computed wrongly, which fails its check then. `None` for the others: theirs is computed from their data.
    #[must_use]
    pub fn parity_checksum(&self, parity: usize, mut data: impl Iterator<Item = u32>) -> Option<u32> {
        assert!(parity < self.parity_count);
        match self.kind {
            Kind::Mirrors => data.nth(parity),
            Kind::Parities if self.is_xor(parity) => Some(crate::checksum::crc32c_of_xor(data)),
            Kind::Parities => None,
        }
    }

    /// Recomputes the block of piece `lost` from others, given as (piece, block).
    ///
    /// # Panics
    /// When they do not suffice; callers refuse the read instead (see [`ErasureCode::sources`]).
    pub fn decode<P: Numbered>(&self, lost: P, present: &[(P, &Block)], into: &mut Block) {
        let recipe = self.recipe_from(lost, present.iter().map(|(piece, _)| *piece));
        combine(into, present.iter().map(|(piece, block)| (*block, recipe[piece.index()])));
    }

    /// [`ErasureCode::decode`] for short fields.
    ///
    /// # Panics
    /// When they do not suffice.
    pub fn decode_field<P: Numbered, const N: usize>(
        &self,
        lost: P,
        present: &[(P, &[u8; N])],
        into: &mut [u8; N],
    ) {
        let recipe = self.recipe_from(lost, present.iter().map(|(piece, _)| *piece));
        combine_field(into, present.iter().map(|(piece, field)| (*field, recipe[piece.index()])));
    }

    fn recipe_from<P: Numbered>(&self, lost: P, present: impl Iterator<Item = P>) -> Recipe {
        let (lost, present): (usize, PieceSet) = (lost.index(), present.map(P::index).collect());
        assert!(!present.contains(lost), "piece {lost} is there");
        self.recipe(lost, present).expect("enough pieces to decode from")
    }

    /// True for the parity that is the plain sum of all data pieces.
    fn is_xor(&self, parity: usize) -> bool {
        parity == 0 && !self.is_mirrored()
    }

    /// A piece as a sum of data pieces.
    fn row(&self, piece: usize) -> Recipe {
        let mut row = [0; PIECES_MAX];
        for (data, factor) in row.iter_mut().enumerate().take(self.data_count) {
            *factor = self.factor(piece, data);
        }
        row
    }

    /// Factor by which data piece `data` is multiplied in a piece.
    fn factor(&self, piece: usize, data: usize) -> u8 {
        match (piece.checked_sub(self.data_count), self.kind) {
            (None, _) => u8::from(piece == data),
            (Some(parity), Kind::Parities) => power_of_two(self.exponent(data) * parity),
            (Some(copy), Kind::Mirrors) => u8::from(copy == data),
        }
    }

    /// Exponent of two of a data piece.
    fn exponent(&self, data: usize) -> usize {
        let Some(exponents) = self.exponents else { return data };
        exponents.iter().nth(data).expect("an exponent for each data piece")
    }

    fn recipe(&self, lost: usize, present: PieceSet) -> Option<Recipe> {
        assert!(lost < self.piece_count());
        let present = present.without([lost].into_iter().collect());
        match self.kind {
            Kind::Parities => {
                self.recipe_by_xor(lost, present).or_else(|| self.recipe_of_parities(lost, present))
            }
            Kind::Mirrors => {
                let other = (lost + self.data_count) % self.piece_count();
                let mut recipe = [0; PIECES_MAX];
                recipe[other] = 1;
                present.contains(other).then_some(recipe)
            }
        }
    }

    /// Recipe for what is decoded most, without equations: of the data pieces and their plain sum each is the sum of
    /// the others.
    fn recipe_by_xor(&self, lost: usize, present: PieceSet) -> Option<Recipe> {
        if self.parity_count == 0 || lost > self.data_count {
            return None;
        }
        let others = PieceSet::first(self.data_count + 1).without([lost].into_iter().collect());
        let mut recipe = [0; PIECES_MAX];
        others.iter().for_each(|piece| recipe[piece] = 1);
        others.without(present).is_empty().then_some(recipe)
    }

    /// The data pieces that are not there, e of them, are eliminated with the first e parities that are:
    /// the piece is a sum of those parities, of which the factors solve e equations, one for each missing
    /// data piece, and of data pieces.
    fn recipe_of_parities(&self, lost: usize, present: PieceSet) -> Option<Recipe> {
        if !self.can_decode(present) {
            return None;
        }
        let target = self.row(lost);
        let is_missing = |data: &usize| !present.contains(*data);
        let mut equations = [[0; PARITIES_MAX + 1]; PARITIES_MAX];
        let missing = (0..self.data_count).filter(is_missing).count();
        let mut parities = [0; PARITIES_MAX];
        let there = (self.data_count..self.piece_count()).filter(|piece| present.contains(*piece));
        parities.iter_mut().zip(there).for_each(|(parity, piece)| *parity = piece);
        let parities = &parities[..missing];
        for (equation, data) in equations.iter_mut().zip((0..self.data_count).filter(is_missing)) {
            for (factor, parity) in equation.iter_mut().zip(parities) {
                *factor = self.factor(*parity, data);
            }
            equation[missing] = target[data];
        }
        solve(&mut equations, missing);
        let mut recipe = [0; PIECES_MAX];
        for data in (0..self.data_count).filter(|data| present.contains(*data)) {
            recipe[data] = target[data];
            for (equation, parity) in equations.iter().zip(parities) {
                recipe[data] ^= multiply(equation[missing], self.factor(*parity, data));
            }
        }
        for (equation, parity) in equations.iter().zip(parities) {
            recipe[*parity] = equation[missing];
        }
        Some(recipe)
    }
}

/// Solves the first `count` equations, each of `count` factors and the right side, by elimination: the right
/// sides become the unknowns. They have one solution, for the code is MDS.
fn solve(equations: &mut [[u8; PARITIES_MAX + 1]; PARITIES_MAX], count: usize) {
    for pivot in 0..count {
        let row = (pivot..count).find(|row| equations[*row][pivot] != 0).expect("the code is MDS");
        equations.swap(pivot, row);
        let scale = inverse(equations[pivot][pivot]);
        equations[pivot].iter_mut().for_each(|factor| *factor = multiply(*factor, scale));
        let solved = equations[pivot];
        for row in (0..count).filter(|row| *row != pivot) {
            let scale = equations[row][pivot];
            for (factor, above) in equations[row].iter_mut().zip(solved) {
                *factor ^= multiply(above, scale);
            }
        }
    }
}

/// Sums up blocks, each times its factor. With no factor but one it is an XOR, which is faster.
fn combine<'a>(into: &mut Block, terms: impl Iterator<Item = (&'a Block, u8)>) {
    static NONE: Block = [0; crate::units::BLOCK_BYTES];
    let mut blocks = [&NONE; PIECES_MAX];
    let mut factors = [0; PIECES_MAX];
    let mut count = 0;
    for (block, factor) in terms.filter(|(_, factor)| *factor != 0) {
        (blocks[count], factors[count]) = (block, factor);
        count += 1;
    }
    if factors[..count].iter().all(|factor| *factor == 1) {
        return xor_blocks(into, &blocks[..count]);
    }
    let mut terms = [(&NONE, 0); PIECES_MAX];
    terms.iter_mut().zip(blocks.into_iter().zip(factors)).for_each(|(term, both)| *term = both);
    combine_blocks(into, &terms[..count]);
}

fn combine_field<'a, const N: usize>(into: &mut [u8; N], terms: impl Iterator<Item = (&'a [u8; N], u8)>) {
    let mut sum = [0; N];
    for (field, factor) in terms {
        match factor {
            0 => {}
            1 => sum.iter_mut().zip(field).for_each(|(s, f)| *s ^= f),
            _ => {
                let products = &NIBBLE_PRODUCTS[usize::from(factor)];
                sum.iter_mut().zip(field).for_each(|(s, f)| *s ^= multiply_by(products, *f));
            }
        }
    }
    *into = sum;
}

#[cfg(test)]
mod tests;
