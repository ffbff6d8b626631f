//! Rows that a member missed while it was away: those of regions whose bits were set since.
//!
//! Bits stay set while the array is degraded, so that all other rows are on the member as it was when it went.

use super::pages::Pages;
use block::md::reader::ROW_SECTORS;
use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Ends of ranges by their starts; none touch.
    ranges: BTreeMap<u64, u64>,
}

impl Missed {
    /// Rows of an array of so many that lie in regions whose bits are set.
    #[must_use]
    pub fn of(pages: &Pages, rows: u64) -> Missed {
        let of_region = |region: u64| {
            let sectors = pages.sectors_of(region);
            sectors.start / ROW_SECTORS..sectors.end.div_ceil(ROW_SECTORS).min(rows)
        };
        Missed::new(pages.regions_set().map(of_region))
    }

    /// Rows of ranges in order, which may touch one another.
    #[must_use]
    pub fn new(ranges: impl IntoIterator<Item = Range<u64>>) -> Missed {
        let mut missed = Missed::default();
        for range in ranges.into_iter().filter(|range| range.start < range.end) {
            match missed.ranges.last_entry() {
                Some(mut last) if *last.get() >= range.start => {
                    let end = range.end.max(*last.get());
                    last.insert(end);
                }
                _ => drop(missed.ranges.insert(range.start, range.end)),
            }
        }
        missed
    }

    /// First row from `row` on that was missed.
    #[must_use]
    pub fn next(&self, row: u64) -> Option<u64> {
        let within = self.ranges.range(..=row).next_back().filter(|(_, end)| row < **end).map(|_| row);
        within.or_else(|| self.ranges.range(row..).next().map(|(start, _)| *start))
    }

    /// True when the row was missed.
    #[must_use]
    pub fn contains(&self, row: u64) -> bool {
        self.next(row) == Some(row)
    }

    /// True when one of these rows was missed.
    #[must_use]
    pub fn touches(&self, rows: &Range<u64>) -> bool {
        self.next(rows.start).is_some_and(|row| row < rows.end)
    }

    /// Rows that were missed.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    /// The ranges, in order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.ranges.iter().map(|(start, end)| *start..*end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_between_are_passed_over() {
        let missed = Missed::new([4..8, 8..10, 9..12, 20..20, 30..31]);
        assert_eq!(missed.ranges().collect::<Vec<_>>(), [4..12, 30..31]);
        let next = [0, 4, 11, 12, 30, 31].map(|row| missed.next(row));
        assert_eq!(next, [Some(4), Some(4), Some(11), Some(30), Some(30), None]);
        assert!(missed.contains(4) && !missed.contains(12) && missed.count() == 9);
        assert!(missed.touches(&(0..5)) && !missed.touches(&(12..30)) && missed.touches(&(12..31)));
    }
}
