//! Leaving in good order.
//!
//! ```text
//! Serving --asked--> Draining --nobody left--> Writing --written--> Done
//!                    (at most stop_limit)      (at most stop_limit)
//! ```
//!
//! With more cores than one, a loop whose clients have left says so to those that have shards, and these write what they have when all have
//! said it. The first one ends last: each of the others keeps the limits above.

use super::CacheServer;
use crate::core_loop::RunError;
use base::time::Instant;
use std::io;

/// Phase of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Open.
    Serving,
    /// The doors are closed; what was begun is answered.
    Draining {
        /// Time at which clients still connected are cut off.
        due: Instant,
    },
    /// The cache writes what it has in memory.
    Writing {
        /// Time at which that is given up.
        due: Instant,
    },
    /// Over.
    Done,
}

impl Phase {
    /// Moves on. Writing begins anew while other loops have not ended; nothing follows the end.
    fn enter(&mut self, next: Phase) {
        let is_next = matches!(
            (*self, next),
            (Phase::Serving, Phase::Draining { .. })
                | (Phase::Draining { .. } | Phase::Writing { .. }, Phase::Writing { .. })
                | (Phase::Writing { .. }, Phase::Done)
        );
        assert!(is_next, "{next:?} does not follow {self:?}");
        *self = next;
    }

    pub(super) fn due(self) -> Option<Instant> {
        match self {
            Phase::Draining { due } | Phase::Writing { due } => Some(due),
            Phase::Serving | Phase::Done => None,
        }
    }
}

impl CacheServer<'_> {
    /// Moves on if it is time to.
    pub(super) fn advance_phase(&mut self) -> io::Result<()> {
        let now = self.common.front.now;
        let due = now + self.common.config.stop_limit;
        match self.common.phase {
            Phase::Serving if self.phase_is_over() => {
                log::info!("stopping: {} clients are connected", self.clients.len());
                self.common.doors.close(&mut self.common.ring)?;
                self.common.seat.role.stop_others();
                self.common.phase.enter(Phase::Draining { due });
                self.clients.drain(&mut self.common)?;
            }
            Phase::Draining { due: end } if self.phase_is_over() || now >= end => {
                self.clients.end_all(&mut self.common, "the server stops");
                self.questions.close_all();
                self.common.cache.begin_stop();
                self.common.phase.enter(Phase::Writing { due });
            }
            Phase::Writing { .. } if self.phase_is_over() => self.common.phase.enter(Phase::Done),
            Phase::Writing { due: end } if now >= end && !self.common.seat.role.is_last() => {
                self.common.phase.enter(Phase::Writing { due });
            }
            Phase::Writing { due: end } if now >= end => self.common.phase.enter(Phase::Done),
            Phase::Writing { .. } if self.common.seat.role.is_last() => self.common.cache.others_have_ended(),
            Phase::Serving | Phase::Draining { .. } | Phase::Writing { .. } | Phase::Done => {}
        }
        Ok(())
    }

    /// True when the phase has nothing left to wait for.
    pub(super) fn phase_is_over(&self) -> bool {
        match self.common.phase {
            Phase::Serving => self.is_stop_asked || self.common.seat.role.has_lost_one(),
            Phase::Draining { .. } => self.clients.len() == 0,
            Phase::Writing { .. } => {
                self.common.front.is_idle()
                    && self.common.cache.has_stopped()
                    && self.common.seat.role.is_last()
            }
            Phase::Done => true,
        }
    }

    /// Says how it went.
    pub(super) fn outcome(&self) -> Result<(), RunError> {
        assert!(self.common.phase == Phase::Done, "a service ends when it is over");
        if self.common.front.is_idle() && self.common.cache.has_stopped() {
            Ok(())
        } else {
            Err(RunError::FinalFlushTimeout)
        }
    }
}
