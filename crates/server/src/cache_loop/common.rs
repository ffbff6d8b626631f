//! What all parts of the loop use: ring, cache, what sessions share, doors, and the phase of the service. It knows no client.

use super::node::Node;
use super::stopping::Phase;
use super::{CacheServerConfig, Seat};
use crate::doors::{Doors, Token};
use crate::resp::front::Front;
use crate::ring::Ring;
use base::time::Instant;

/// See the module.
pub(super) struct Common<'a> {
    pub(super) config: &'a CacheServerConfig,
    pub(super) ring: Ring<Token>,
    pub(super) cache: Node<'a>,
    pub(super) front: Front,
    pub(super) doors: Doors,
    pub(super) seat: Seat,
    pub(super) phase: Phase,
    pub(super) cache_is_busy: bool,
    /// Time of the next look at clients that wait, or rest.
    pub(super) next_sweep: Option<Instant>,
}

impl Common<'_> {
    /// True while the service is open.
    pub(super) fn is_serving(&self) -> bool {
        self.phase == Phase::Serving
    }

    /// Makes sure that a sweep comes at `due`.
    pub(super) fn look_again(&mut self, due: Instant) {
        self.next_sweep = Some(self.next_sweep.map_or(due, |next| next.min(due)));
    }

    /// True when it is time for a sweep, which is then no more to come.
    pub(super) fn takes_sweep(&mut self) -> bool {
        let is_due = self.next_sweep.is_some_and(|due| due <= self.front.now);
        if is_due {
            self.next_sweep = None;
        }
        is_due
    }
}
