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

use super::host_disk::HostDisk;
use super::{RunError, Server};
use array::request::Outcome;
use base::time::{Instant, Nanos};
use std::io;

/// Time for the kernel to give back the buffers of closed connections.
const HOMECOMING_ROUNDS_MAX: u32 = 40;
const HOMECOMING_ROUND: Nanos = Nanos(25_000_000);
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
        let now = self.desk.now;
        if self.phase.due().is_some() && self.has_no_clients() && self.desk.is_idle() {
            self.desk.volume.begin_leave();
        }
        match self.phase {
            Phase::Serving if self.phase_is_over() => {
                self.close_doors()?;
                self.role.stop_others();
                self.begin_disk_stop()?;
                let due = now + self.stop_limit();
                self.phase.enter(Phase::Draining { due });
                self.drain_clients()
            }
            Phase::Draining { due } if self.phase_is_over() || now >= due => {
                self.drop_clients();
                let due = now + self.stop_limit();
                if !self.role.is_last() {
                    self.phase.enter(Phase::Draining { due });
                    return Ok(());
                }
                if self.role.is_first() {
                    self.desk.begin_final_flush();
                }
                self.phase.enter(Phase::Flushing { due });
                Ok(())
            }
            Phase::Flushing { due } if self.phase_is_over() || now >= due => {
                self.phase.enter(Phase::Done);
                Ok(())
            }
            Phase::Serving | Phase::Draining { .. } | Phase::Flushing { .. } | Phase::Done => Ok(()),
        }
    }

    /// Time for requests in flight, and for the last flush. A drive that is away may be waited for longer than a stop may take: what
    /// waits for it was never acknowledged.
    fn stop_limit(&self) -> Nanos {
        let limit = self.config.stop_limit;
        if self.desk.volume.awaits_drive() { limit.min(STOP_LIMIT_AWAY) } else { limit }
    }

    /// True when the phase has nothing left to wait for.
    pub(super) fn phase_is_over(&self) -> bool {
        match self.phase {
            Phase::Serving => self.is_stop_asked || self.role.has_lost_one(),
            Phase::Draining { .. } => self.has_no_clients() && self.role.is_last(),
            Phase::Flushing { .. } if self.role.is_first() => self.desk.final_flush_outcome().is_some(),
            Phase::Flushing { .. } => self.desk.is_idle() && self.desk.volume.has_left(),
            Phase::Done => true,
        }
    }

    fn has_no_clients(&self) -> bool {
        self.clients.len() == 0 && self.guests.len() == 0 && self.disk_is_gone()
    }

    fn close_doors(&mut self) -> io::Result<()> {
        log::info!("stopping: {} clients are connected", self.clients.len());
        self.doors.close(&mut self.ring)
    }

    /// Tells all clients to finish: those between requests have only answers to wait for.
    fn drain_clients(&mut self) -> io::Result<()> {
        let mut keys = std::mem::take(&mut self.keys);
        self.clients.keys(&mut keys);
        for key in keys.drain(..) {
            self.serve_last(key)?;
        }
        self.guests.keys(&mut keys);
        for key in keys.drain(..) {
            self.end_guest(key);
        }
        self.keys = keys;
        Ok(())
    }

    fn serve_last(&mut self, key: crate::slab::Key) -> io::Result<()> {
        let Some(client) = self.clients.at(key) else { return Ok(()) };
        client.finish_if_resting();
        // Those who are ready are served in this turn anyway, and twice would be once too often.
        if !client.inbox.is_receiving() && client.pause.is_none() && !client.is_ready {
            self.serve(key)?;
        }
        self.mark_dirty(key);
        Ok(())
    }

    fn drop_clients(&mut self) {
        if self.clients.len() > 0 {
            log::warn!("stopping: {} clients are cut off with requests in flight", self.clients.len());
        }
        let mut keys = std::mem::take(&mut self.keys);
        self.clients.keys(&mut keys);
        for key in keys.drain(..) {
            self.end_client(key);
        }
        self.guests.keys(&mut keys);
        for key in keys.drain(..) {
            self.forget_guest(key);
        }
        self.questions.keys(&mut keys);
        for key in keys.drain(..) {
            self.close_question(key);
        }
        self.keys = keys;
        if let Some(disk) = &mut self.host_disk {
            disk.leave();
        }
    }

    /// The volume answers nothing any more: clients are cut off without answers, as when the process dies.
    pub(super) fn cut_off(&mut self) -> io::Result<()> {
        self.phase = Phase::Done;
        self.doors.close(&mut self.ring)?;
        self.drop_clients();
        Ok(())
    }

    /// Waits for the kernel to be done with our buffers and says how it went.
    pub(super) fn leave(mut self) -> Result<(), RunError> {
        let disk_failure = self.host_disk.as_mut().and_then(|disk| disk.failure.take());
        for _ in 0..HOMECOMING_ROUNDS_MAX {
            if self.ring.transfers_in_flight() == 0 {
                break;
            }
            self.ring.wait(Some(HOMECOMING_ROUND))?;
            self.take_completions()?;
        }
        if self.desk.volume.has_ended() {
            return Err(RunError::VolumeEnded);
        }
        if self.config.cores > 1 && self.desk.is_idle() && self.ring.transfers_in_flight() == 0 {
            debug_assert_eq!(self.desk.volume.frames().frames_out(), 0, "all frames of this core are home");
        }
        let outcome = self.desk.final_flush_outcome();
        let is_first = self.role.is_first();
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
        if self.host_disk.as_ref().is_some_and(HostDisk::is_left_behind) {
            std::mem::forget(self.ring);
        }
    }
}
