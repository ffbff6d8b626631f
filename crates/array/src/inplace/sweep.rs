//! Sweeps over all strips beside what clients do: the resync after an unclean stop, the recovery of new members, and the scrub that
//! an operator asks for.
//!
//! One at a time, in this order: what is not known to be right is not compared. All begin strips as the throttle allows, a few
//! at once.

use super::InPlace;
use super::map::Strip;
use super::table::{Job, Kind, Work};
use crate::pacer::{Rates, Throttle};
use base::time::Instant;
use base::units::BLOCK_BYTES_U64;

/// Most strips of a sweep that are in work at once.
const STRIPS_MAX: u32 = 8;

/// Sweeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sweeps {
    pub(super) throttle: Throttle,
    /// Row from which on the next strip of a resync is looked for.
    cursor: u64,
    /// Strips in work.
    pub(super) in_flight: u32,
}

impl Sweeps {
    /// Sweeps that keep to these rates.
    #[must_use]
    pub fn new(rates: Rates) -> Sweeps {
        let mut sweeps = Sweeps::default();
        sweeps.throttle.set_rates(rates);
        sweeps
    }

    /// A resync that was ended by a member's failure looks at all again: strips in work then were passed and not made right.
    pub(super) fn resync_anew(&mut self) {
        self.cursor = 0;
    }
}

impl InPlace {
    /// True when a resync goes on: not without a member, for what could be made right with fewer is decoded from what may be
    /// wrong. An operator may have said that it is right.
    #[must_use]
    pub fn is_resyncing(&self) -> bool {
        let goes_on = self.sync.goes_on_without(self.members.lacking()) && !self.members.is_broken();
        self.sync.has_work() && goes_on && !self.has_journal_failed() && !self.is_stopping
    }

    /// Rates of resync, recovery and scrub from now on, in bytes of each member.
    pub fn set_rates(&mut self, rates: Rates) {
        self.sweeps.throttle.set_rates(rates);
    }

    /// Rates of resync, recovery and scrub.
    #[must_use]
    pub fn rates(&self) -> Rates {
        self.sweeps.throttle.rates()
    }

    /// Begins with more strips; true when there were some.
    pub(super) fn begin_sweeps(&mut self, now: Instant) -> bool {
        self.sweeps.throttle.notice(now, self.requests.load());
        self.watch_scrub();
        if !self.table.backlog.is_empty() || self.shares_strips() {
            return false;
        }
        let bytes = self.map.strip_rows() * BLOCK_BYTES_U64;
        let mut has_begun = false;
        while self.sweeps.in_flight < STRIPS_MAX && self.table.has_room() {
            let Some((strip, work)) = self.next_to_sweep() else { break };
            if !self.sweeps.throttle.may_begin(now) {
                break;
            }
            self.sweeps.throttle.begin(now, bytes);
            match work.kind() {
                Kind::Resync => self.sweeps.cursor = self.map.rows_of(strip).end,
                Kind::Rebuild => self.begin_rebuild(strip),
                _ => self.scrub.begin(strip),
            }
            self.sweeps.in_flight += 1;
            self.offer(strip, Job { request: None, work });
            has_begun = true;
        }
        has_begun
    }

    /// The strip that a sweep looks at next, and what it does there.
    fn next_to_sweep(&mut self) -> Option<(Strip, Work)> {
        if self.is_resyncing() {
            return self.sync.next(self.sweeps.cursor).map(|row| (self.map.strip_of(row), Work::Resync));
        }
        if let Some(strip) = self.next_to_rebuild() {
            return Some((strip, Work::Rebuild));
        }
        self.scrub.next(self.map.strips()).map(|strip| (strip, Work::Scrub))
    }
}
