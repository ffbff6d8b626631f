//! Newcomer: a member that is being recovered, and how much of it counts.
//!
//! ```text
//!   Waiting ──> Joining ──> Active ──────────────> in sync, no newcomer any more
//!     known       its pages,   superblocks of all     superblocks of all say so
//!                 its record   name it: it is written
//!
//!   rows     |............recorded....flushed.........done..==..=.....|
//!            on its superblock ┘    durable ┘   all counts ┘  └ ahead: counts too
//! ```
//! A row counts as soon as it is recovered: from then on writes have to keep it so, though strips before it are still in work. A row
//! that could not be decoded is stuck and does not count. What is recorded is durable, and lies below the first row that does not
//! count: an offset on a superblock cannot say more.

use super::missed::Missed;
use block::md::superblock::Superblock;
use std::collections::BTreeSet;
use std::ops::Range;

/// Stage of a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing of it is on any superblock, nor is anything written to it.
    Waiting,
    /// The superblocks that name it are being written.
    Joining,
    /// It is written as other members are, and read where it counts.
    Active,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Newcomer {
    stage: Stage,
    /// What its superblock says of the device, until it joins.
    superblock: Option<Box<Superblock>>,
    /// Of a member that comes back: rows that it missed. All others count. Known when it becomes active.
    missed: Option<Missed>,
    /// Rows before it are through.
    done: u64,
    /// Rows that are through behind it.
    ahead: BTreeSet<u64>,
    stuck: BTreeSet<u64>,
    /// Rows that were done when the flush under way began.
    flushing: u64,
    flushed: u64,
    recorded: u64,
}

impl Newcomer {
    /// A newcomer that no superblock names, with one for itself.
    #[must_use]
    pub fn waiting(superblock: Superblock) -> Newcomer {
        Newcomer { stage: Stage::Waiting, superblock: Some(Box::new(superblock)), ..Newcomer::recorded_at(0) }
    }

    /// A member that comes back, with a superblock for itself.
    #[must_use]
    pub fn returning(superblock: Superblock) -> Newcomer {
        Newcomer { missed: Some(Missed::default()), ..Newcomer::waiting(superblock) }
    }

    /// A member that came back, as the superblocks have it: so many rows were recovered, and of the others it lacks these alone.
    #[must_use]
    pub fn returned_at(rows: u64, missed: Missed) -> Newcomer {
        Newcomer { missed: Some(missed), ..Newcomer::recorded_at(rows) }
    }

    /// A newcomer as the superblocks have it: so many rows were recovered.
    #[must_use]
    pub fn recorded_at(rows: u64) -> Newcomer {
        Newcomer {
            stage: Stage::Active,
            superblock: None,
            missed: None,
            done: rows,
            ahead: BTreeSet::new(),
            stuck: BTreeSet::new(),
            flushing: rows,
            flushed: rows,
            recorded: rows,
        }
    }

    /// Stage.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Rows that it missed, when it is a member that came back.
    #[must_use]
    pub fn missed(&self) -> Option<&Missed> {
        self.missed.as_ref()
    }

    /// What a member that comes back missed is known: from now on nothing is written without it.
    ///
    /// # Panics
    /// When it is no such member, or nothing is missed any more.
    pub fn set_missed(&mut self, missed: Missed) {
        assert!(self.missed.is_some() && self.stage == Stage::Joining, "{:?} at {:?}", missed, self.stage);
        self.missed = Some(missed);
    }

    /// First row from `row` on that the recovery has to look at.
    #[must_use]
    pub fn next_lacking(&self, row: u64) -> Option<u64> {
        self.missed.as_ref().map_or(Some(row), |missed| missed.next(row))
    }

    /// The next stage.
    ///
    /// # Panics
    /// When it is not the next one.
    pub fn advance(&mut self, to: Stage) {
        let is_next =
            matches!((self.stage, to), (Stage::Waiting, Stage::Joining) | (Stage::Joining, Stage::Active));
        assert!(is_next, "{to:?} after {:?}", self.stage);
        self.stage = to;
    }

    /// Superblock of a newcomer that waits.
    #[must_use]
    pub fn superblock(&self) -> Option<&Superblock> {
        self.superblock.as_deref()
    }

    /// Superblock of a newcomer that is about to join.
    pub fn take_superblock(&mut self) -> Option<Superblock> {
        self.superblock.take().map(|superblock| *superblock)
    }

    /// True where its content is that of the array.
    #[must_use]
    pub fn counts(&self, row: u64) -> bool {
        let was_there = || self.missed.as_ref().is_some_and(|missed| !missed.contains(row));
        let is_through = row < self.done || self.ahead.contains(&row) || was_there();
        self.stage == Stage::Active && is_through && !self.stuck.contains(&row)
    }

    /// True when all of these rows count.
    #[must_use]
    pub fn counts_all(&self, rows: Range<u64>) -> bool {
        let were_there = || self.missed.as_ref().is_some_and(|missed| !missed.touches(&rows));
        let are_through = rows.end <= self.done || were_there();
        self.stage == Stage::Active && are_through && self.stuck.range(rows).next().is_none()
    }

    /// Rows that the recovery passed.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Rows that the recovery passed and could not decode.
    #[must_use]
    pub fn stuck(&self) -> &BTreeSet<u64> {
        &self.stuck
    }

    /// A row of a strip was recovered, or could not be.
    pub fn note_row(&mut self, row: u64, is_lost: bool) {
        if self.counts(row) {
            return;
        }
        if is_lost {
            self.stuck.insert(row);
            return;
        }
        self.stuck.remove(&row);
        if row >= self.done {
            self.ahead.insert(row);
        }
    }

    /// All strips before this row are through.
    pub fn note_done(&mut self, row: u64) {
        self.done = self.done.max(row);
        self.ahead = self.ahead.split_off(&self.done);
    }

    /// Rows before the first that does not count.
    #[must_use]
    pub fn prefix(&self) -> u64 {
        self.stuck.first().copied().map_or(self.done, |row| row.min(self.done))
    }

    /// A flush of the member begins.
    pub fn begin_flush(&mut self) {
        self.flushing = self.prefix();
    }

    /// The flush succeeded.
    pub fn end_flush(&mut self) {
        self.flushed = self.flushed.max(self.flushing);
    }

    /// Rows that are durable.
    #[must_use]
    pub fn flushed(&self) -> u64 {
        self.flushed
    }

    /// Its superblock says how many rows are durable.
    pub fn note_recorded(&mut self) {
        assert!(self.recorded <= self.flushed, "{} rows recorded, {} durable", self.recorded, self.flushed);
        self.recorded = self.flushed;
    }

    /// Rows that its superblock counts.
    #[must_use]
    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// Asserts what must hold of a member of so many rows.
    pub(super) fn check_invariants(&self, rows: u64) {
        assert!(self.recorded <= self.flushed, "more is recorded than is durable");
        assert!(
            self.flushed <= self.done && self.done <= rows,
            "{} of {} of {rows}",
            self.flushed,
            self.done
        );
        assert!(self.stage == Stage::Active || self.done == 0, "rows of a newcomer that has not joined");
        assert!(self.stage != Stage::Waiting || self.superblock.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_count_below_what_is_done_but_for_those_that_are_stuck() {
        let mut newcomer = Newcomer::recorded_at(10);
        assert!(newcomer.counts(9) && !newcomer.counts(10) && newcomer.counts_all(0..10));
        (8..16).for_each(|row| newcomer.note_row(row, row % 5 == 0 || row == 8));
        assert!(newcomer.counts(13) && !newcomer.counts(15) && newcomer.prefix() == 10, "ahead");
        newcomer.note_done(16);
        assert!(newcomer.counts(8), "what counted is not lost again");
        assert!(!newcomer.counts(10) && !newcomer.counts(15) && newcomer.counts(14));
        assert!(!newcomer.counts_all(9..11) && newcomer.counts_all(11..15));
        newcomer.begin_flush();
        newcomer.note_row(10, false);
        assert!(newcomer.counts(10));
        newcomer.end_flush();
        assert_eq!((newcomer.prefix(), newcomer.flushed()), (15, 10));
        newcomer.begin_flush();
        newcomer.end_flush();
        newcomer.note_recorded();
        assert_eq!(newcomer.recorded(), 15);
        newcomer.check_invariants(16);
    }

    #[test]
    fn of_a_member_that_came_back_all_counts_but_what_it_missed() {
        let mut newcomer = Newcomer::returned_at(0, Missed::new([4..8, 20..24]));
        assert!(newcomer.counts(3) && !newcomer.counts(4) && newcomer.counts(8) && !newcomer.counts(23));
        assert!(newcomer.counts_all(8..20) && !newcomer.counts_all(7..9));
        assert_eq!((newcomer.next_lacking(0), newcomer.next_lacking(24)), (Some(4), None));
        newcomer.note_done(4);
        (4..8).for_each(|row| newcomer.note_row(row, row == 5));
        assert!(newcomer.counts(4) && !newcomer.counts(5) && newcomer.prefix() == 4);
    }

    #[test]
    #[should_panic(expected = "Active after Active")]
    fn stages_follow_one_another() {
        Newcomer::recorded_at(0).advance(Stage::Active);
    }
}
