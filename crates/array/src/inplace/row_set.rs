//! Sets of rows of a strip: one bit each.

use super::map::STRIP_ROWS_MAX;

/// Set of rows by their places in a strip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowSet(u128);

const _: () = assert!(STRIP_ROWS_MAX <= 128);

impl RowSet {
    /// The set without rows.
    pub const EMPTY: RowSet = RowSet(0);

    /// Rows 0 to `count` - 1.
    ///
    /// # Panics
    /// When a strip has not as many.
    #[must_use]
    pub fn first(count: u64) -> RowSet {
        assert!(count <= STRIP_ROWS_MAX, "{count} rows of a strip");
        RowSet(1_u128.checked_shl(u32::try_from(count).expect("at most 128")).unwrap_or(0).wrapping_sub(1))
    }

    /// True when a row is among them.
    #[must_use]
    pub fn contains(self, row: u16) -> bool {
        u64::from(row) < STRIP_ROWS_MAX && self.0 >> row & 1 == 1
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When no strip has it.
    pub fn insert(&mut self, row: u16) {
        assert!(u64::from(row) < STRIP_ROWS_MAX, "row {row} of a strip");
        self.0 |= 1 << row;
    }

    /// Rows that are not in `other`.
    #[must_use]
    pub fn without(self, other: RowSet) -> RowSet {
        RowSet(self.0 & !other.0)
    }

    /// Rows that are in either.
    #[must_use]
    pub fn or(self, other: RowSet) -> RowSet {
        RowSet(self.0 | other.0)
    }

    /// Rows that are in both.
    #[must_use]
    pub fn and(self, other: RowSet) -> RowSet {
        RowSet(self.0 & other.0)
    }

    /// Rows in the set.
    #[must_use]
    pub fn count(self) -> usize {
        u64::try_from(self.0).map_or_else(|_| self.0.count_ones(), u64::count_ones) as usize
    }

    /// True for a set of none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The rows in order.
    pub fn iter(self) -> impl Iterator<Item = u16> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let row = (left != 0).then(|| u16::try_from(left.trailing_zeros()).expect("less than 128"))?;
            left &= left - 1;
            Some(row)
        })
    }
}

impl FromIterator<u16> for RowSet {
    fn from_iter<I: IntoIterator<Item = u16>>(rows: I) -> RowSet {
        let mut set = RowSet::EMPTY;
        rows.into_iter().for_each(|row| set.insert(row));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_was_put_in() {
        let some: RowSet = [127, 3, 0].into_iter().collect();
        assert_eq!(some.iter().collect::<Vec<_>>(), [0, 3, 127]);
        assert!(some.contains(127) && !some.contains(4) && !some.contains(200) && some.count() == 3);
        assert_eq!(RowSet::first(128).count(), 128);
        assert_eq!(RowSet::first(3).iter().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(some.without(RowSet::first(4)).iter().collect::<Vec<_>>(), [127]);
        assert_eq!(some.and(RowSet::first(4)).count(), 2);
        assert!(RowSet::first(0).is_empty());
    }
}
