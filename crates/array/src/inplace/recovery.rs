//! Recovery: writes the content of members that are new in their roles, strip by strip, beside what clients do.
//!
//! ```text
//!   rows    |....done of the newcomer........|##=#=##|.................
//!                                      lowest strip  └ cursor: the next strip
//!                                      in work
//! ```
//! Strips are recovered by rounds of their own, so that a write of a strip comes before or after, never between. A row counts when
//! its round is through: its data and parities are then written with every write, and read from it. On its superblock a member
//! has fewer rows: those that were flushed when it was written last ([`super::newcomer`]). Data beyond are sent to it too, as md does.
//!
//! *Several newcomers* go together: one that joins takes the cursor back, those before it stay where they were. Strips that are in
//! work when one joins do not count for anybody: they may have been written to another device.
//!
//! *A row that cannot be decoded*, for a sector of another member cannot be read or its parities are in doubt, becomes a bad block of
//! the newcomer. Where its log has no room the row is stuck: the member stays a newcomer, until a write makes the row whole and its
//! strip is tried again.

use super::core::Core;
use super::map::Strip;
use super::members;
use super::newcomer::{Newcomer, Stage};
use super::places::Places;
use super::row_set::RowSet;
use super::rows::Rows;
use base::time::{Instant, Nanos};
use block::md::Role;
use block::md::reader::ROW_SECTORS;
use block::md::superblock::Superblock;
use std::collections::BTreeSet;
use std::fmt;

/// Time between two records of how far a recovery is.
const RECORD_EVERY: Nanos = Nanos(30_000_000_000);

/// Most strips between the lowest in work and the cursor: rows in between are kept one by one.
const AHEAD_STRIPS_MAX: u64 = 64;

/// State of the recovery, of all newcomers together.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Row from which on the next strip is taken.
    cursor: u64,
    /// Strips in work.
    in_flight: BTreeSet<Strip>,
    /// Strips with stuck rows that were written since.
    retry: BTreeSet<Strip>,
    /// A newcomer joined: strips in work count for nobody, then the cursor goes back.
    is_restarting: bool,
    /// Time of the next record.
    record_at: Instant,
}

impl Recovery {
    /// A recovery that goes on from a row.
    #[must_use]
    pub fn from_row(cursor: u64) -> Recovery {
        Recovery { cursor, record_at: Instant(0) + RECORD_EVERY, ..Recovery::default() }
    }

    /// A newcomer is on the superblocks.
    pub(super) fn restart(&mut self, now: Instant) {
        self.is_restarting = true;
        self.record_at = now + RECORD_EVERY;
    }

    /// How far it is was recorded.
    pub(super) fn note_record(&mut self, now: Instant) {
        self.record_at = now + RECORD_EVERY;
    }
}

/// Reason why a member is not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddRefused {
    /// No member is missing.
    NoneMissing,
    /// The role has a member.
    Present(Role),
    /// There is no such role, of so many.
    NoRole(Role, usize),
    /// More members are missing than there are parities.
    Broken,
    /// Commands of the member before are not answered.
    Busy(Role),
    /// The consistency policy is being changed.
    Changing,
    /// The array is being stopped.
    Stopping,
}

impl fmt::Display for AddRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddRefused::NoneMissing => f.write_str("no member is missing"),
            AddRefused::Present(role) => {
                write!(f, "role {role} has a member: take that one out first, with `zoneweave md fail`")
            }
            AddRefused::NoRole(role, count) => write!(f, "there is no role {role}: the array has {count}"),
            AddRefused::Broken => f.write_str(
                "more members are missing than the array has parities: a new one has nothing to be rebuilt from",
            ),
            AddRefused::Busy(role) => {
                write!(f, "the member that had role {role} has commands under way: try again in a moment")
            }
            AddRefused::Changing => {
                f.write_str("the consistency policy is being changed: try again in a moment")
            }
            AddRefused::Stopping => f.write_str("the array is being stopped"),
        }
    }
}

impl std::error::Error for AddRefused {}

/// Member that is being rebuilt, as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuilding {
    /// Role.
    pub role: Role,
    /// The superblocks name it.
    pub is_active: bool,
    /// Sectors of it that count.
    pub sectors_done: u64,
    /// Sectors of a member.
    pub sectors_total: u64,
    /// Rows that cannot be rebuilt as long as nobody writes them.
    pub rows_stuck: usize,
}

impl Core {
    /// Role that a new member gets: the one that was asked for, or the first that is missing.
    ///
    /// # Errors
    /// When there is none.
    pub fn role_for(&self, wanted: Option<Role>) -> Result<Role, AddRefused> {
        let vacant = self.members.vacant();
        if self.is_stopping {
            return Err(AddRefused::Stopping);
        }
        if self.members.is_broken() {
            return Err(AddRefused::Broken);
        }
        if self.policy.is_changing() {
            return Err(AddRefused::Changing);
        }
        match wanted {
            Some(role) if role.index() >= self.members.count() => {
                Err(AddRefused::NoRole(role, self.members.count()))
            }
            Some(role) if !vacant.contains(role.index()) => Err(AddRefused::Present(role)),
            Some(role) => Ok(role),
            None => vacant.iter().next().map(members::role).ok_or(AddRefused::NoneMissing),
        }
    }

    /// Bytes of the bitmap on each member; none without one.
    #[must_use]
    pub fn bitmap_bytes(&self) -> u64 {
        let pages = self.pages.as_ref().map_or(0, super::pages::Pages::count);
        u64::try_from(pages * super::pages::PAGE_BYTES).expect("bitmaps fit memory")
    }

    /// Superblock of a member that is in sync: what a new one is made after.
    #[must_use]
    pub fn template(&self) -> Option<&Superblock> {
        self.members.live().iter().find_map(|role| self.scribe.roster.superblock(role))
    }

    /// Adds an empty member: it is named on all superblocks, then rebuilt. `superblock` says where things lie on it.
    ///
    /// # Errors
    /// When the role is none that lacks a member.
    pub fn add_member(
        &mut self,
        role: Role,
        superblock: Superblock,
        is_volatile: bool,
    ) -> Result<(), AddRefused> {
        let role = self.role_for(Some(role))?;
        assert!(!self.members.is_live(role), "role {role} has a member that is in sync");
        self.bad_blocks.set_member(role.index(), Vec::new(), &superblock);
        self.members.add(role, Newcomer::waiting(superblock), is_volatile);
        Ok(())
    }

    /// True while members are being rebuilt.
    #[must_use]
    pub fn is_rebuilding(&self) -> bool {
        let has_newcomer = !self.members.newcomers_from(Stage::Active).is_empty();
        let has_work = self.background.recovery.cursor < self.map.rows()
            || self.background.recovery.is_restarting
            || !self.background.recovery.retry.is_empty()
            || !self.background.recovery.in_flight.is_empty();
        has_newcomer && has_work && !self.is_stopping && !self.members.is_broken()
    }

    /// The strip that is rebuilt next.
    pub(super) fn next_to_rebuild(&mut self) -> Option<Strip> {
        if !self.is_rebuilding() {
            return None;
        }
        if self.background.recovery.is_restarting {
            if !self.background.recovery.in_flight.is_empty() {
                return None;
            }
            self.background.recovery.cursor = self.members.active().map(Newcomer::done).min().unwrap_or(0);
            self.background.recovery.is_restarting = false;
        }
        if let Some(strip) = self
            .background
            .recovery
            .retry
            .first()
            .filter(|strip| !self.background.recovery.in_flight.contains(strip))
        {
            return Some(*strip);
        }
        self.pass_over_what_counts();
        let next = (self.background.recovery.cursor < self.map.rows())
            .then(|| self.map.strip_of(self.background.recovery.cursor));
        let lowest = self.background.recovery.in_flight.first();
        let is_near = |strip: &Strip| lowest.is_none_or(|lowest| strip.0 < lowest.0 + AHEAD_STRIPS_MAX);
        next.filter(|strip| is_near(strip) && !self.background.recovery.in_flight.contains(strip))
    }

    /// Rows that no newcomer lacks are not looked at.
    fn pass_over_what_counts(&mut self) {
        let cursor = self.background.recovery.cursor;
        let next = self.members.active().filter_map(|newcomer| newcomer.next_lacking(cursor)).min();
        self.background.recovery.cursor = next.unwrap_or(u64::MAX).min(self.map.rows()).max(cursor);
        assert!(self.background.recovery.cursor <= self.map.rows(), "a recovery beyond the last row");
        if self.background.recovery.cursor > cursor {
            self.note_done();
        }
    }

    /// All strips before the lowest in work are through.
    fn note_done(&mut self) {
        let lowest = self.background.recovery.in_flight.first().map(|strip| self.map.rows_of(*strip).start);
        let done = lowest
            .map_or(self.background.recovery.cursor, |lowest| lowest.min(self.background.recovery.cursor));
        let active = self.members.newcomers_mut().filter(|(_, newcomer)| newcomer.stage() == Stage::Active);
        active.for_each(|(_, newcomer)| newcomer.note_done(done));
    }

    /// A strip is begun.
    pub(super) fn begin_rebuild(&mut self, strip: Strip) {
        if !self.background.recovery.retry.remove(&strip) {
            self.background.recovery.cursor = self.map.rows_of(strip).end;
        }
        let is_new = self.background.recovery.in_flight.insert(strip);
        assert!(is_new, "{strip:?} is rebuilt already");
    }

    /// A strip is through; rows among `lost` could not be rebuilt.
    pub(super) fn end_rebuild(&mut self, strip: Strip, rows: &Rows, lost: RowSet) {
        assert!(
            lost.without(rows.set()).is_empty(),
            "rows {lost:?} of {strip:?} were lost, and not all of them rebuilt"
        );
        let was_there = self.background.recovery.in_flight.remove(&strip);
        assert!(was_there, "{strip:?} was not begun");
        if self.background.recovery.is_restarting || self.members.is_broken() {
            return;
        }
        let start = self.map.rows_of(strip).start;
        let unmade = self.unmade(strip, rows, lost);
        // What cannot be had is a bad block of its device, as md has it.
        let stuck: BTreeSet<(usize, u16)> = unmade
            .into_iter()
            .filter(|(place, row)| !self.list_stuck(*place, start + u64::from(*row)))
            .collect();
        let active = self.members.newcomers_mut().filter(|(_, newcomer)| newcomer.stage() == Stage::Active);
        for (place, newcomer) in active {
            for row in rows.set().iter() {
                newcomer.note_row(start + u64::from(row), stuck.contains(&(place, row)));
            }
        }
        self.note_done();
        self.counters.rebuilt += u64::try_from(rows.len() - lost.count()).expect("at most 128 rows");
    }

    /// Rows of a strip that newcomers lack and did not get, by place and row: for they could not be rebuilt, or not be read to
    /// be copied.
    fn unmade(&self, strip: Strip, rows: &Rows, lost: RowSet) -> Vec<(usize, u16)> {
        let order = self.map.order(strip);
        let mut unmade = Vec::new();
        for (place, newcomer) in self.members.newcomers() {
            let is_active = newcomer.stage() == Stage::Active;
            let place = members::role(place);
            let piece = order.members.iter().position(|member| *member == place.of_member());
            let piece = piece.expect("a piece of each member");
            for (number, row) in rows.iter().filter(|_| is_active) {
                let is_lost = (lost.contains(number) && !place.is_replacement()) || !row.sent.contains(piece);
                if is_lost && !newcomer.counts(self.map.row_of(strip, number)) {
                    unmade.push((place.index(), number));
                }
            }
        }
        unmade
    }

    /// Rows of a strip were written: those that were stuck are tried again.
    pub(super) fn note_written(&mut self, strip: Strip) {
        if self.members.if_settled().is_some() {
            return;
        }
        let rows = self.map.rows_of(strip);
        let is_stuck = self
            .members
            .newcomers()
            .any(|(_, newcomer)| newcomer.stuck().range(rows.clone()).next().is_some());
        if is_stuck {
            self.background.recovery.retry.insert(strip);
        }
    }

    /// Newcomers that are recovered, and durable; their superblocks do not say so yet.
    pub(super) fn recovered(&self) -> Places {
        let is_whole = |newcomer: &super::newcomer::Newcomer| {
            newcomer.stage() == Stage::Active
                && newcomer.flushed() == self.map.rows()
                && newcomer.stuck().is_empty()
        };
        self.members.newcomers().filter(|(_, newcomer)| is_whole(newcomer)).map(|(role, _)| role).collect()
    }

    /// Time at which it is to be recorded how far the recovery is; `None` when there is nothing new.
    pub(super) fn recovery_record_at(&self) -> Option<Instant> {
        let active = || self.members.newcomers().filter(|(_, newcomer)| newcomer.stage() == Stage::Active);
        let is_ahead = active().any(|(_, newcomer)| newcomer.prefix() > newcomer.recorded());
        let is_through = active().any(|(_, newcomer)| newcomer.prefix() == self.map.rows());
        match (is_through || (is_ahead && self.is_stopping), is_ahead) {
            (true, _) => Some(Instant(0)),
            (false, true) => Some(self.background.recovery.record_at),
            (false, false) => None,
        }
    }

    /// True when a stop has to wait for a record.
    pub(super) fn has_unrecorded_recovery(&self) -> bool {
        self.is_stopping && self.recovery_record_at().is_some()
    }

    /// Members that are being rebuilt.
    pub(super) fn rebuilding(&self) -> Vec<Rebuilding> {
        let of = |(index, newcomer): (usize, &super::newcomer::Newcomer)| Rebuilding {
            role: members::role(index),
            is_active: newcomer.stage() == Stage::Active,
            sectors_done: newcomer.done() * ROW_SECTORS,
            sectors_total: self.map.rows() * ROW_SECTORS,
            rows_stuck: newcomer.stuck().len(),
        };
        let is_member = |(place, _): &(usize, &Newcomer)| !members::role(*place).is_replacement();
        self.members.newcomers().filter(is_member).map(of).collect()
    }

    /// Asserts what must hold between events.
    pub(super) fn check_recovery(&self) {
        for (role, newcomer) in self.members.newcomers() {
            newcomer.check_invariants(self.map.rows());
            let place = members::role(role);
            let is_beside = self.members.is_live(place.of_member());
            assert!(is_beside == place.is_replacement(), "{newcomer:?} at place {place}");
        }
    }
}
