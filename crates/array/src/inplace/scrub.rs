//! Scrub: compares the parities of all rows with their data, strip by strip, as md's `check` and `repair` do.
//!
//! A row counts as one mismatch of 8 sectors whichever of its parities are wrong. A repair writes parities that were wrong, as
//! durable as FUA makes it; data are believed. Sectors that cannot be read are rebuilt and rewritten by both. Rows in doubt are not
//! compared, and without all members there is nothing to compare: a member that fails ends the scrub. Where RAID-6 can tell which
//! member is wrong ([`super::locate`]) that is counted; a repair writes parities all the same.

use super::core::Core;
use super::map::Strip;
use block::md::Role;
use block::md::reader::ROW_SECTORS;
use std::fmt;

/// Most members of an array.
const MEMBERS: usize = block::md::MEMBERS_MAX as usize;

/// State of a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubState {
    /// It goes on.
    Running,
    /// Every row was looked at.
    Done,
    /// It was stopped, by an operator or with the array.
    Stopped,
    /// A member failed meanwhile.
    Interrupted,
}

/// Scrub as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubStatus {
    /// Parities that are wrong are written anew.
    pub repairs: bool,
    /// State.
    pub state: ScrubState,
    /// Sectors of each member that were looked at.
    pub sectors_done: u64,
    /// Sectors of each member.
    pub sectors_total: u64,
    /// Sectors that do not match, as md's `mismatch_cnt`.
    pub mismatches: u64,
    /// Sectors among those looked at that could not be compared.
    pub sectors_not_compared: u64,
    /// Of the sectors that do not match those by role whose member alone is wrong: RAID-6 can tell.
    pub located: [u64; MEMBERS],
}

/// Reason why no scrub begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubRefused {
    /// Members are missing: how many.
    Degraded(usize),
    /// A resync goes on, which makes all parities right.
    Resyncing,
    /// A scrub goes on, or its last strips are still in work.
    Running,
    /// The consistency policy is being changed.
    Changing,
    /// The journal failed, and nothing can be repaired.
    ReadOnly,
    /// The array is being stopped.
    Stopping,
}

impl fmt::Display for ScrubRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScrubRefused::Degraded(missing) => {
                write!(f, "{missing} members are missing: parities can be compared when they are back")
            }
            ScrubRefused::Resyncing => {
                f.write_str("a resync goes on, which makes parities right: wait for its end")
            }
            ScrubRefused::Running => f.write_str("a scrub goes on: stop it first"),
            ScrubRefused::Changing => {
                f.write_str("the consistency policy is being changed: try again in a moment")
            }
            ScrubRefused::ReadOnly => f.write_str(
                "the journal failed, and the array is read-only: parities can be compared, not repaired",
            ),
            ScrubRefused::Stopping => f.write_str("the array is being stopped"),
        }
    }
}

impl std::error::Error for ScrubRefused {}

/// Last scrub since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scrub {
    pub(super) repairs: bool,
    state: Option<ScrubState>,
    /// Strips that were begun.
    begun: u64,
    /// Strips in work.
    in_flight: u64,
    mismatches: u64,
    rows_not_compared: u64,
    /// Sectors by role of the member that is wrong.
    located: [u64; MEMBERS],
}

impl Scrub {
    fn is_running(&self) -> bool {
        self.state == Some(ScrubState::Running)
    }

    /// True while it looks at strips, or is about to.
    pub(super) fn is_active(&self) -> bool {
        self.is_running() || self.in_flight > 0
    }

    /// The next strip of so many.
    pub(super) fn next(&self, strips: u64) -> Option<Strip> {
        (self.is_running() && self.begun < strips).then_some(Strip(self.begun))
    }

    /// A strip is begun.
    pub(super) fn begin(&mut self, strip: Strip) {
        assert!(self.is_running() && strip.0 == self.begun, "{strip:?} after {} strips", self.begun);
        self.begun += 1;
        self.in_flight += 1;
    }

    /// Strips have another count of rows from now on. No strip is in work.
    pub(super) fn rescale(&mut self, rows_before: u64, rows: u64) {
        assert!(self.in_flight == 0, "strips in work");
        self.begun = self.begun * rows_before / rows;
    }

    /// A row does not match, for this member is wrong, where that can be told.
    pub(super) fn note_mismatch(&mut self, wrong: Option<Role>) {
        self.mismatches += ROW_SECTORS;
        if let Some(role) = wrong {
            self.located[role.index()] += ROW_SECTORS;
        }
    }

    /// A strip is through, of which so many rows were not compared.
    pub(super) fn end(&mut self, rows_not_compared: u64) {
        assert!(self.in_flight > 0, "a strip that was not begun");
        self.in_flight -= 1;
        self.rows_not_compared += rows_not_compared;
    }
}

impl Core {
    /// Begins a scrub; `repairs` says whether parities that are wrong are written anew.
    ///
    /// # Errors
    /// When none can begin now.
    pub fn begin_scrub(&mut self, repairs: bool) -> Result<(), ScrubRefused> {
        let missing = self.members.lacking().count();
        if self.is_stopping {
            Err(ScrubRefused::Stopping)
        } else if self.policy.is_changing() {
            Err(ScrubRefused::Changing)
        } else if missing > 0 {
            Err(ScrubRefused::Degraded(missing))
        } else if repairs && self.ahead.has_journal_failed() {
            Err(ScrubRefused::ReadOnly)
        } else if self.sync.has_work() {
            Err(ScrubRefused::Resyncing)
        } else if self.background.scrub.is_active() {
            Err(ScrubRefused::Running)
        } else {
            self.background.scrub = Scrub { repairs, state: Some(ScrubState::Running), ..Scrub::default() };
            Ok(())
        }
    }

    /// Stops a scrub; strips in work are still done. False when none goes on.
    pub fn stop_scrub(&mut self) -> bool {
        let was_running = self.background.scrub.is_running();
        if was_running {
            self.background.scrub.state = Some(ScrubState::Stopped);
        }
        was_running
    }

    /// Ends a scrub that is through, or cannot go on.
    pub(super) fn watch_scrub(&mut self) {
        if !self.background.scrub.is_running() {
            return;
        }
        if self.is_stopping {
            self.background.scrub.state = Some(ScrubState::Stopped);
        } else if self.members.is_degraded() {
            self.background.scrub.state = Some(ScrubState::Interrupted);
        } else if self.background.scrub.begun == self.map.strips() && self.background.scrub.in_flight == 0 {
            self.background.scrub.state = Some(ScrubState::Done);
        }
    }

    /// Last scrub since the start; `None` without one.
    pub(super) fn scrub_status(&self) -> Option<ScrubStatus> {
        let Scrub { repairs, state, begun, in_flight, mismatches, rows_not_compared, located } =
            self.background.scrub;
        let sectors = self.map.strip_rows() * ROW_SECTORS;
        Some(ScrubStatus {
            repairs,
            state: state?,
            sectors_done: (begun - in_flight) * sectors,
            sectors_total: self.map.strips() * sectors,
            mismatches,
            sectors_not_compared: rows_not_compared * ROW_SECTORS,
            located,
        })
    }
}
