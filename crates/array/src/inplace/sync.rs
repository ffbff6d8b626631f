//! Rows whose parities are not known to be right: after an unclean stop, until they were resynced or written anew.
//!
//! ```text
//!            resynced          not yet           region whose bit is clear
//! rows   |..............|=====#=#======|.........................|==###==|
//!                             `- written since the start, as a whole or by reconstruction: right
//! ```
//! *Where an operator takes parities for right* (`--force`, ADR 82), what members had that were missing then is what parities say, in these
//! rows too. A resync makes parities right that may say something else, without those members. Rows that a member had which was being
//! rebuilt then are none of these: if it is lost too, nobody said that parities tell them.

use super::map::Order;
use super::newcomer::Newcomer;
use super::plan::RowFacts;
use base::pieces::PieceSet;
use block::md::Role;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Rows in one word of [`Rows`].
const WORD_ROWS: u64 = 64;

/// Set of rows, 64 to a word.
#[derive(Clone, Debug, Default)]
struct Rows(BTreeMap<u64, u64>);

impl Rows {
    fn insert(&mut self, row: u64) {
        *self.0.entry(row / WORD_ROWS).or_default() |= 1 << (row % WORD_ROWS);
    }

    fn contains(&self, row: u64) -> bool {
        self.0.get(&(row / WORD_ROWS)).is_some_and(|word| word >> (row % WORD_ROWS) & 1 == 1)
    }

    fn remove(&mut self, row: u64) {
        if let Some(word) = self.0.get_mut(&(row / WORD_ROWS)) {
            *word &= !(1 << (row % WORD_ROWS));
            if *word == 0 {
                self.0.remove(&(row / WORD_ROWS));
            }
        }
    }
}

/// What is not in sync.
#[derive(Clone, Debug, Default)]
pub struct Sync {
    /// Ends of ranges by their starts; none touch.
    ranges: BTreeMap<u64, u64>,
    /// Rows of the ranges that are right nevertheless.
    written: Rows,
    /// Rows that a resync passed and could not make right.
    stuck: BTreeSet<u64>,
    /// Rows that were not in sync at the start.
    total: u64,
    /// Members whose content parities tell in rows in doubt too.
    believed: Vec<Believed>,
}

/// Member that was missing when an operator took parities for right.
#[derive(Clone, Debug)]
pub struct Believed {
    /// Role.
    pub role: Role,
    /// Rows that were there nevertheless, of a member that was being rebuilt.
    pub there: Option<Newcomer>,
}

impl Believed {
    fn lacked(&self, row: u64) -> bool {
        self.there.as_ref().is_none_or(|there| !there.counts(row))
    }
}

impl Sync {
    /// Nothing but these ranges is in sync no more.
    #[must_use]
    pub fn new(ranges: impl IntoIterator<Item = Range<u64>>) -> Sync {
        let mut sync = Sync::default();
        let mut sorted: Vec<Range<u64>> =
            ranges.into_iter().filter(|range| range.start < range.end).collect();
        sorted.sort_by_key(|range| range.start);
        for range in sorted {
            match sync.ranges.last_entry() {
                Some(mut last) if *last.get() >= range.start => {
                    let end = range.end.max(*last.get());
                    last.insert(end);
                }
                _ => drop(sync.ranges.insert(range.start, range.end)),
            }
        }
        assert!(
            sync.ranges.iter().zip(sync.ranges.keys().skip(1)).all(|((_, end), next)| end < next),
            "ranges touch: {:?}",
            sync.ranges
        );
        sync.total = sync.rows_left();
        sync
    }

    /// The same, where parities are taken for right that tell what was on these members.
    #[must_use]
    pub fn believing(self, believed: Vec<Believed>) -> Sync {
        Sync { believed, ..self }
    }

    /// Facts of a row, of which parities are taken for right where an operator says so.
    #[inline]
    #[must_use]
    pub fn judge<'a>(&self, facts: RowFacts<'a>, order: &Order, row: u64) -> RowFacts<'a> {
        if facts.is_right || self.believed.is_empty() {
            return facts;
        }
        let lacked = self.believed.iter().filter(|member| member.lacked(row));
        facts.believing(order.pieces_of(lacked.map(|member| member.role.index()).collect()))
    }

    /// Parities of a row that are to be written anew: it was in doubt, and its parities are taken for right but for these.
    #[must_use]
    pub fn unsettled(&self, facts: &RowFacts<'_>, row: u64) -> PieceSet {
        let is_believed = facts.is_right && !self.is_right(row);
        if is_believed { facts.parities().without(facts.readable) } else { PieceSet::EMPTY }
    }

    /// True when a resync goes on though these roles lack a member: of others nobody said that parities are right.
    #[inline]
    #[must_use]
    pub fn goes_on_without(&self, lacking: PieceSet) -> bool {
        let is_believed = |role: usize| self.believed.iter().any(|member| member.role.index() == role);
        lacking.is_empty() || lacking.iter().all(is_believed)
    }

    fn range_with(&self, row: u64) -> Option<Range<u64>> {
        let (start, end) = self.ranges.range(..=row).next_back()?;
        (row < *end).then_some(*start..*end)
    }

    /// True when the parities of a row are known to be right.
    #[inline]
    #[must_use]
    pub fn is_right(&self, row: u64) -> bool {
        if self.is_whole() {
            return true;
        }
        !self.stuck.contains(&row) && (self.range_with(row).is_none() || self.written.contains(row))
    }

    /// True when every row is.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.ranges.is_empty() && self.stuck.is_empty()
    }

    /// True when a resync has something to do.
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// True when a row of the range is not in sync.
    #[must_use]
    pub fn touches(&self, rows: Range<u64>) -> bool {
        let before = self.ranges.range(..rows.end).next_back();
        before.is_some_and(|(_, end)| *end > rows.start) || self.stuck.range(rows).next().is_some()
    }

    /// First row that is not in sync.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        [self.ranges.keys().next(), self.stuck.first()].into_iter().flatten().min().copied()
    }

    /// First row from `row` on that a resync has to look at.
    #[must_use]
    pub fn next(&self, row: u64) -> Option<u64> {
        if self.range_with(row).is_some() {
            return Some(row);
        }
        self.ranges.range(row..).next().map(|(start, _)| *start)
    }

    /// A row's parities were computed from its data, and written.
    #[inline]
    pub fn note_right(&mut self, row: u64) {
        self.stuck.remove(&row);
        if self.range_with(row).is_some() {
            self.written.insert(row);
        }
    }

    /// The parities of a row are in doubt, and no resync can make them right.
    pub fn note_stuck(&mut self, row: u64) {
        self.stuck.insert(row);
    }

    /// Rows that no resync can make right.
    pub fn stuck(&self) -> impl Iterator<Item = u64> {
        self.stuck.iter().copied()
    }

    /// A resync has passed these rows; of those in `stuck` parities are still not right.
    ///
    /// # Panics
    /// When a stuck row is not among them.
    pub fn pass(&mut self, rows: Range<u64>, stuck: &[u64]) {
        let mut row = rows.start;
        while let Some(next) = self.next(row).filter(|next| *next < rows.end) {
            let range = self.range_with(next).expect("next returns rows of a range");
            let end = range.end.min(rows.end);
            self.ranges.remove(&range.start);
            if range.start < next {
                self.ranges.insert(range.start, next);
            }
            if end < range.end {
                self.ranges.insert(end, range.end);
            }
            (next..end).for_each(|row| self.written.remove(row));
            row = end;
        }
        assert!(
            self.next(rows.start).is_none_or(|next| next >= rows.end),
            "rows {rows:?} were passed, and {:?} is left",
            self.next(rows.start)
        );
        for row in stuck {
            assert!(rows.contains(row), "row {row} is none of {rows:?}");
            self.stuck.insert(*row);
        }
    }

    /// Rows that are left to resync, those written meanwhile included.
    #[must_use]
    pub fn rows_left(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    /// Rows that were not in sync at the start.
    #[must_use]
    pub fn rows_total(&self) -> u64 {
        self.total
    }

    /// Rows that a resync could not make right.
    #[must_use]
    pub fn rows_stuck(&self) -> usize {
        self.stuck.len()
    }

    /// True while a resync is not through, or there are more rows in doubt than headers name.
    pub(super) fn log_says_doubt(&self) -> bool {
        self.has_work() || self.rows_stuck() > super::batch::STANDING_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_shrink_as_they_are_passed() {
        let mut sync = Sync::new([40..60, 0..16, 16..20]);
        assert_eq!((sync.rows_total(), sync.first(), sync.next(20)), (40, Some(0), Some(40)));
        assert!(!sync.is_right(19) && sync.is_right(20) && sync.touches(19..30) && !sync.touches(20..40));
        sync.note_right(45);
        sync.note_right(30);
        assert!(sync.is_right(45) && !sync.is_right(44));
        sync.pass(40..48, &[41]);
        assert!(!sync.is_right(41) && sync.is_right(47) && !sync.is_right(48) && sync.touches(41..42));
        sync.pass(0..40, &[]);
        sync.pass(48..64, &[]);
        assert!(!sync.has_work() && !sync.is_whole() && sync.first() == Some(41));
        sync.note_right(41);
        assert!(sync.is_whole() && sync.rows_left() == 0);
    }

    #[test]
    fn rows_written_before_the_resync_came_by_are_forgotten_afterwards() {
        let mut sync = Sync::new(std::iter::once(0..128));
        (0..128).for_each(|row| sync.note_right(row));
        sync.pass(0..128, &[]);
        assert!(sync.written.0.is_empty() && sync.is_whole());
    }
}
