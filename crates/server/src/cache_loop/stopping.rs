//! Leaving in good order.
//!
//! ```text
//! Serving --asked--> Draining --nobody left--> Writing --written--> Done
//!                    (at most stop_limit)      (at most stop_limit)
//! ```
//!
//! With more cores than one, a loop whose clients have left says so to those that have shards, and these write what they have when all have
//! said it. The first one ends last: each of the others keeps the limits above.

use super::Server;
use crate::core_loop::RunError;
use base::time::{Instant, Nanos};
use std::io;

/// Time for the kernel to give back the buffers of closed connections.
const HOMECOMING_ROUNDS_MAX: u32 = 40;
const HOMECOMING_ROUND: Nanos = Nanos(25_000_000);

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

impl Server<'_> {
    /// Moves on if it is time to.
    pub(super) fn advance_phase(&mut self) -> io::Result<()> {
        let now = self.front.now;
        let due = now + self.config.stop_limit;
        match self.phase {
            Phase::Serving if self.phase_is_over() => {
                log::info!("stopping: {} clients are connected", self.connections.len());
                self.doors.close(&mut self.ring)?;
                self.seat.role.stop_others();
                self.phase.enter(Phase::Draining { due });
                for (key, survey) in self.seat.peers.give_up() {
                    self.tell(key, survey)?;
                }
                let mut keys = Vec::new();
                self.connections.keys(&mut keys);
                for key in keys {
                    self.take_leave(key)?;
                }
            }
            Phase::Draining { due: end } if self.phase_is_over() || now >= end => {
                let mut keys = Vec::new();
                self.connections.keys(&mut keys);
                for key in keys.drain(..) {
                    self.end(key, "the server stops");
                }
                self.questions.keys(&mut keys);
                for key in keys {
                    self.close_question(key);
                }
                self.cache.begin_stop();
                self.phase.enter(Phase::Writing { due });
            }
            Phase::Writing { .. } if self.phase_is_over() => self.phase.enter(Phase::Done),
            Phase::Writing { due: end } if now >= end && !self.seat.role.is_last() => {
                self.phase.enter(Phase::Writing { due });
            }
            Phase::Writing { due: end } if now >= end => self.phase.enter(Phase::Done),
            Phase::Writing { .. } if self.seat.role.is_last() => self.cache.others_have_ended(),
            Phase::Serving | Phase::Draining { .. } | Phase::Writing { .. } | Phase::Done => {}
        }
        Ok(())
    }

    /// True when the phase has nothing left to wait for.
    pub(super) fn phase_is_over(&self) -> bool {
        match self.phase {
            Phase::Serving => self.is_stop_asked || self.seat.role.has_lost_one(),
            Phase::Draining { .. } => self.connections.len() == 0,
            Phase::Writing { .. } => {
                self.front.is_idle() && self.cache.has_stopped() && self.seat.role.is_last()
            }
            Phase::Done => true,
        }
    }

    /// Waits for the kernel to be done with our buffers and says how it went.
    pub(super) fn leave(mut self) -> Result<(), RunError> {
        for _ in 0..HOMECOMING_ROUNDS_MAX {
            if self.ring.transfers_in_flight() == 0 {
                break;
            }
            self.ring.wait(Some(HOMECOMING_ROUND))?;
            self.take_completions()?;
        }
        if self.front.is_idle() && self.cache.has_stopped() {
            Ok(())
        } else {
            Err(RunError::FinalFlushTimeout)
        }
    }
}
