//! What all parties of the loop use: ring, desk, doors, and the phase of the service. It knows none of them.
//!
//! ```text
//! loop -> clients, guests, disk of this host, questions -> common: doors, desk, ring
//! ```

use super::cores::Newcomer;
use super::desk::Desk;
use super::stopping::Phase;
use crate::colleagues::Role;
use crate::config::ServerConfig;
use crate::doors::{Doors, Token};
use crate::ring::Ring;
use base::time::Instant;

/// See the module.
pub(super) struct Common<'a> {
    pub(super) config: &'a ServerConfig,
    pub(super) role: Role<Newcomer>,
    pub(super) ring: Ring<Token>,
    pub(super) desk: Desk<'a>,
    pub(super) doors: Doors,
    pub(super) phase: Phase,
    /// Clients and guests so far, from which each has its number.
    pub(super) parties_seen: u64,
    /// Time at which patience with some party may end; an earlier look does no harm.
    pub(super) next_sweep: Option<Instant>,
}

impl Common<'_> {
    /// True while the service is open.
    pub(super) fn is_serving(&self) -> bool {
        self.phase == Phase::Serving
    }

    /// Makes sure that a sweep comes at `due`.
    pub(super) fn look_again(&mut self, due: Option<Instant>) {
        self.next_sweep = [self.next_sweep, due].into_iter().flatten().min();
    }

    /// True when it is time for a sweep, which is then no more to come.
    pub(super) fn takes_sweep(&mut self) -> bool {
        let is_due = self.next_sweep.is_some_and(|due| due <= self.desk.now);
        if is_due {
            self.next_sweep = None;
        }
        is_due
    }
}
