//! Sweeps over all strips beside what clients do: the resync after an unclean stop, the recovery of new members, and the scrub that
//! an operator asks for.
//!
//! One at a time, in this order: what is not known to be right is not compared. All begin strips as the throttle allows, a few
//! at once.

use super::core::Core;
use super::map::Strip;
use super::strips::Strips;
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

impl Core {
    /// True when a resync goes on: not without a member, for what could be made right with fewer is decoded from what may be
    /// wrong. An operator may have said that it is right.
    #[must_use]
    pub fn is_resyncing(&self) -> bool {
        let goes_on = self.sync.goes_on_without(self.members.lacking()) && !self.members.is_broken();
        self.sync.has_work() && goes_on && !self.ahead.has_journal_failed() && !self.is_stopping
    }

    /// Rates of resync, recovery and scrub from now on, in bytes of each member.
    pub fn set_rates(&mut self, rates: Rates) {
        self.background.sweeps.throttle.set_rates(rates);
    }

    /// Rates of resync, recovery and scrub.
    #[must_use]
    pub fn rates(&self) -> Rates {
        self.background.sweeps.throttle.rates()
    }

    /// The strip that a sweep looks at next, and what it does there.
    fn next_to_sweep(&mut self) -> Option<(Strip, Work)> {
        if self.is_resyncing() {
            return self
                .sync
                .next(self.background.sweeps.cursor)
                .map(|row| (self.map.strip_of(row), Work::Resync));
        }
        if let Some(strip) = self.next_to_rebuild() {
            return Some((strip, Work::Rebuild));
        }
        self.background.scrub.next(self.map.strips()).map(|strip| (strip, Work::Scrub))
    }
}

impl Strips {
    /// Begins with more strips; true when there were some.
    pub(super) fn begin_sweeps(&mut self, now: Instant) -> bool {
        self.core.background.sweeps.throttle.notice(now, self.core.requests.load());
        self.core.watch_scrub();
        if !self.core.table.backlog.is_empty() || self.core.place.shares_strips() {
            return false;
        }
        let bytes = self.core.map.strip_rows() * BLOCK_BYTES_U64;
        let mut has_begun = false;
        while self.core.background.sweeps.in_flight < STRIPS_MAX && self.core.table.has_room() {
            let Some((strip, work)) = self.core.next_to_sweep() else { break };
            if !self.core.background.sweeps.throttle.may_begin(now) {
                break;
            }
            self.core.background.sweeps.throttle.begin(now, bytes);
            match work.kind() {
                Kind::Resync => self.core.background.sweeps.cursor = self.core.map.rows_of(strip).end,
                Kind::Rebuild => self.core.begin_rebuild(strip),
                _ => self.core.background.scrub.begin(strip),
            }
            self.core.background.sweeps.in_flight += 1;
            self.offer(strip, Job { request: None, work });
            has_begun = true;
        }
        has_begun
    }
}
