//! Leaving in good order.
//!
//! ```text
//! Serving --asked--> Draining --nobody left--> Flushing --flushed--> Done
//!                    (at most stop_limit)      (at most stop_limit)
//! ```
//!
//! With more cores than one, the first drains until all others have ended, each within the limits
//! above. Those do not flush: where the first waits for its flush, they wait for the volume's last
//! answers. Those that have a shard wait, too, until all loops have said that they ask nothing more.
//!
//! When the volume has ended, there is nothing to wait for: all loops cut their clients off.

use super::{RunError, Server};
use array::request::Outcome;
use base::time::{Instant, Nanos};
use std::io;

/// Most time that a stop waits for requests, and for the last flush, while a drive is away.
const STOP_LIMIT_AWAY: Nanos = Nanos(500_000_000);

/// Phase of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Open.
    Serving,
    /// The doors are closed; clients are answered what they have asked.
    Draining {
        /// Time at which clients still connected are cut off.
        due: Instant,
    },
    /// The last flush is in flight, or the last answers.
    Flushing {
        /// Time at which the flush, or the wait for answers, is given up.
        due: Instant,
    },
    /// Over.
    Done,
}

impl Phase {
    /// Moves on. Draining begins anew while other loops have not ended; nothing follows the end.
    fn enter(&mut self, next: Phase) {
        let is_next = matches!(
            (*self, next),
            (Phase::Serving | Phase::Draining { .. }, Phase::Draining { .. })
                | (Phase::Draining { .. }, Phase::Flushing { .. })
                | (Phase::Flushing { .. }, Phase::Done)
        );
        assert!(is_next, "{next:?} does not follow {self:?}");
        *self = next;
    }

    pub(super) fn due(self) -> Option<Instant> {
        match self {
            Phase::Draining { due } | Phase::Flushing { due } => Some(due),
            Phase::Serving | Phase::Done => None,
        }
    }
}

impl Server<'_> {
    /// Moves on if it is time to.
    pub(super) fn advance_phase(&mut self) -> io::Result<()> {
        let now = self.common.desk.now;
        if self.common.phase.due().is_some() && self.has_no_clients() && self.common.desk.is_idle() {
            self.common.desk.volume.begin_leave();
        }
        match self.common.phase {
            Phase::Serving if self.phase_is_over() => {
                self.close_doors()?;
                self.common.role.stop_others();
                self.disk.begin_stop()?;
                let due = now + self.stop_limit();
                self.common.phase.enter(Phase::Draining { due });
                self.drain()
            }
            Phase::Draining { due } if self.phase_is_over() || now >= due => {
                self.drop_all();
                let due = now + self.stop_limit();
                if !self.common.role.is_last() {
                    self.common.phase.enter(Phase::Draining { due });
                    return Ok(());
                }
                if self.common.role.is_first() {
                    self.common.desk.begin_final_flush();
                }
                self.common.phase.enter(Phase::Flushing { due });
                Ok(())
            }
            Phase::Flushing { due } if self.phase_is_over() || now >= due => {
                self.common.phase.enter(Phase::Done);
                Ok(())
            }
            Phase::Serving | Phase::Draining { .. } | Phase::Flushing { .. } | Phase::Done => Ok(()),
        }
    }

    /// Time for requests in flight, and for the last flush. A drive that is away may be waited for longer than a stop may take: what
    /// waits for it was never acknowledged.
    fn stop_limit(&self) -> Nanos {
        let limit = self.common.config.stop_limit;
        if self.common.desk.volume.awaits_drive() { limit.min(STOP_LIMIT_AWAY) } else { limit }
    }

    /// True when the phase has nothing left to wait for.
    pub(super) fn phase_is_over(&self) -> bool {
        match self.common.phase {
            Phase::Serving => self.is_stop_asked || self.common.role.has_lost_one(),
            Phase::Draining { .. } => self.has_no_clients() && self.common.role.is_last(),
            Phase::Flushing { .. } if self.common.role.is_first() => {
                self.common.desk.final_flush_outcome().is_some()
            }
            Phase::Flushing { .. } => self.common.desk.is_idle() && self.common.desk.volume.has_left(),
            Phase::Done => true,
        }
    }

    fn has_no_clients(&self) -> bool {
        self.clients.len() == 0 && self.guests.len() == 0 && self.disk.is_gone()
    }

    fn close_doors(&mut self) -> io::Result<()> {
        log::info!("stopping: {} clients are connected", self.clients.len());
        self.common.doors.close(&mut self.common.ring)
    }

    /// Tells all to finish.
    fn drain(&mut self) -> io::Result<()> {
        self.clients.drain(&mut self.common)?;
        self.guests.drain(&mut self.common);
        Ok(())
    }

    /// Cuts all off.
    fn drop_all(&mut self) {
        self.clients.end_all(&mut self.common);
        self.guests.forget_all(&mut self.common);
        self.questions.close_all();
        self.disk.leave();
    }

    /// The volume answers nothing any more: clients are cut off without answers, as when the process dies.
    pub(super) fn cut_off(&mut self) -> io::Result<()> {
        self.common.phase = Phase::Done;
        self.common.doors.close(&mut self.common.ring)?;
        self.drop_all();
        Ok(())
    }

    /// Says how it went.
    pub(super) fn outcome(self, disk_failure: Option<io::Error>) -> Result<(), RunError> {
        assert!(self.common.phase == Phase::Done, "a service ends when it is over");
        if self.common.desk.volume.has_ended() {
            return Err(RunError::VolumeEnded);
        }
        if self.common.config.cores > 1
            && self.common.desk.is_idle()
            && self.common.ring.transfers_in_flight() == 0
        {
            debug_assert_eq!(
                self.common.desk.volume.frames().frames_out(),
                0,
                "all frames of this core are home"
            );
        }
        let outcome = self.common.desk.final_flush_outcome();
        let is_first = self.common.role.is_first();
        self.let_go();
        if !is_first {
            return Ok(());
        }
        match outcome {
            Some(Outcome::Done) => disk_failure.map_or(Ok(()), |error| Err(RunError::HostDisk(error))),
            Some(Outcome::IoError) => Err(RunError::FinalFlush),
            None => Err(RunError::FinalFlushTimeout),
        }
    }

    /// The end of the ring, but where the kernel keeps a disk for the next server: that ring ends with its thread. A ring that is closed
    /// by a thread which lives on may still give it a request, after the kernel has collected those that nobody answered (Linux 6.12:
    /// task work of the ring becomes that of the thread); such a request is never answered, and nothing frees the disk of it.
    fn let_go(self) {
        if self.disk.is_left_behind() {
            std::mem::forget(self.common.ring);
        }
    }
}
