//! Spread of the volume over shards: which shard has a block.
//!
//! ```text
//!   stripes   | unit 0 | unit 1 | unit 2 | unit 3 | ..
//!   shards        0        1        0        1          by turns
//! ```
//! A unit is whole stripes, so that no row has two owners. It is large against a request, so that most lie in one, and against what a
//! stream writes until it is known for one; and small against what clients are likely to use most at a time.
//!
//! With partial parity logs a unit is one stripe, and goes by the member that holds its parity, so that each log has one owner:
//! ```text
//!   parity on | 3 | 2 | 1 | 0 | 3 | ..
//!   shards      1   0   1   0   1
//! ```

use base::pieces::PieceSet;
use base::units::Lba;
use block::md::geometry::{Geometry, Stripe};
use std::ops::Range;

/// Least blocks of a unit: 8 MiB.
const UNIT_BLOCKS_MIN: u64 = 2048;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    unit_blocks: u64,
    shards: usize,
    /// Units are stripes, and go by their parities.
    by_parity: Option<Geometry>,
}

impl Spread {
    /// Spread of stripes with so many blocks of data over shards.
    ///
    /// # Panics
    /// When there are no shards, or stripes have no blocks.
    #[must_use]
    pub fn new(stripe_blocks: u64, shards: usize) -> Spread {
        Spread::with_units(stripe_blocks, UNIT_BLOCKS_MIN.div_ceil(stripe_blocks), shards)
    }

    /// Units of so many stripes go to shards by turns.
    ///
    /// # Panics
    /// When there are none of something.
    #[must_use]
    pub(super) fn with_units(stripe_blocks: u64, unit_stripes: u64, shards: usize) -> Spread {
        let unit_blocks = stripe_blocks * unit_stripes;
        assert!(unit_blocks > 0 && shards > 0, "{shards} shards of units of {unit_blocks} blocks");
        Spread { unit_blocks, shards, by_parity: None }
    }

    /// Spread of stripes over shards by the members that hold their parities.
    ///
    /// # Panics
    /// When there are no shards, or stripes have no blocks.
    #[must_use]
    pub fn by_parity(geometry: Geometry, stripe_blocks: u64, shards: usize) -> Spread {
        Spread { by_parity: Some(geometry), ..Spread::with_units(stripe_blocks, 1, shards) }
    }

    /// The same with units of so many stripes, where they go by turns: for volumes that are smaller than a unit, in simulation.
    ///
    /// # Panics
    /// When there are none.
    #[must_use]
    pub fn in_units_of(self, stripe_blocks: u64, unit_stripes: u64) -> Spread {
        match self.by_parity {
            Some(_) => self,
            None => Spread::with_units(stripe_blocks, unit_stripes, self.shards),
        }
    }

    /// Members of so many whose parities are a shard's, where stripes go by their parities.
    #[must_use]
    pub fn members_of(shard: usize, shards: usize, members: usize) -> PieceSet {
        (shard..members).step_by(shards).collect()
    }

    /// Shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// Shard of a block.
    #[inline]
    #[must_use]
    pub fn shard_of(&self, lba: Lba) -> usize {
        let unit = lba.0 / self.unit_blocks;
        if let Some(geometry) = &self.by_parity {
            return geometry.parity(Stripe(unit)).0.index() % self.shards;
        }
        let shards = u64::try_from(self.shards).expect("few");
        usize::try_from(unit % shards).expect("less than the shards")
    }

    /// Shard of a range that lies in one unit; `None` where it lies in several.
    #[inline]
    #[must_use]
    pub fn shard_of_all(&self, blocks: &Range<u64>) -> Option<usize> {
        let is_one = blocks.start / self.unit_blocks == (blocks.end - 1) / self.unit_blocks;
        (is_one || self.shards == 1).then(|| self.shard_of(Lba(blocks.start)))
    }

    /// Parts of a range, each in one unit, with their shards.
    pub fn cut(self, blocks: Range<u64>) -> impl Iterator<Item = (usize, Range<u64>)> {
        let mut next = blocks.start;
        std::iter::from_fn(move || {
            let start = next;
            next = ((start / self.unit_blocks + 1) * self.unit_blocks).min(blocks.end);
            (start < blocks.end).then(|| (self.shard_of(Lba(start)), start..next))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_whole_stripes_and_go_round() {
        let spread = Spread::new(48, 3);
        assert_eq!(spread.unit_blocks, 43 * 48);
        let of = |unit: u64| spread.shard_of(Lba(unit * 43 * 48 + 5));
        assert_eq!((0..5).map(of).collect::<Vec<_>>(), [0, 1, 2, 0, 1]);
    }

    #[test]
    fn a_range_is_cut_where_units_end() {
        let spread = Spread::with_units(8, 2, 2);
        assert_eq!(spread.shard_of_all(&(16..32)), Some(1));
        assert_eq!(spread.shard_of_all(&(15..17)), None);
        let cut: Vec<_> = spread.cut(10..40).collect();
        assert_eq!(cut, [(0, 10..16), (1, 16..32), (0, 32..40)]);
        assert_eq!(spread.cut(3..3).count(), 0);
    }
}
