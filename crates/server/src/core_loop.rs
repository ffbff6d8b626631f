//! The loop: one thread, one ring, one volume, many clients.
//!
//! One *turn* is: what the kernel has completed -> requests parsed -> the volume's turn -> answers
//! queued -> operations submitted. Between turns the thread sleeps in the kernel until a
//! completion, the volume's deadline or the end of its patience with a client.
//!
//! ```text
//! ring --completions--> clients --parts--> desk --requests--> volume
//!   ^--receive, send--- clients <-answers- desk <--replies---
//! ```
//!
//! Nothing here blocks, and nobody can make it wait for one client: a client that cannot go on,
//! for lack of bytes, frames or room for replies, is left alone until that changes. Those that
//! wait for frames wait in one queue, first come, first served, a part at a time.
//!
//! Stopping: listeners close, requests that have arrived are finished, the volume is flushed.
//!
//! With more than one core there is one such loop per thread (`cores`), and those that do not have
//! the volume reach it over a `bridge`. A volume of several shards has one in each loop (`shards`), and each loop ways to all (`node`).

mod backend;
mod bridge;
mod changes;
mod client;
mod cores;
mod desk;
mod guest;
mod guests;
mod held;
mod host_disk;
mod host_disks;
mod inbox;
mod node;
mod outbox;
pub(crate) mod question;
mod shards;
mod stopping;
mod traffic;
pub(crate) mod watch;
mod write_gate;

#[cfg(test)]
#[path = "../tests/support/memory_volume.rs"]
#[allow(dead_code, missing_docs)]
mod memory_volume;

use crate::colleagues::Role;
use crate::config::{ConfigError, ServerConfig, WallClock};
use crate::doors::{Doors, Token};
use crate::listen::Listener;
use crate::ports::{GuestPort, Ports};
use crate::ring::{Completion, Event, Ring};
use crate::slab::{Key, Slab};
use crate::stop::Stop;
use crate::ublk::Attached;
use array::request::{Controlled, Reply};
use backend::Backend;
use base::time::{Instant, Nanos};
use client::{Client, Pause};
use cores::Newcomer;
use desk::{Desk, Party};
use guest::Guest;
use host_disk::HostDisk;
use question::Question;

use std::io;
use std::os::fd::OwnedFd;
use stopping::Phase;
use thiserror::Error;
use write_gate::{Gated, MERGES_ACTIVE_MAX};

pub use shards::{ServedShard, run_shards};

/// Turns of the volume within one turn of the loop, so that a volume with a lot to do does not
/// keep its clients waiting.
const VOLUME_TURNS_MAX: u32 = 64;

/// Sockets, descriptors and clock that the server needs besides its configuration and the volume.
#[derive(Debug)]
pub struct Service {
    /// Listeners for clients.
    pub listeners: Vec<Listener>,
    /// Listeners for front ends of virtual machines (vhost-user), one of them at a time on each.
    pub guests: Vec<GuestPort>,
    /// Disk of this host (ublk).
    pub disk: Option<Attached>,
    /// Listener for questions, see [`crate::control`].
    pub control: Option<Listener>,
    /// Descriptors that become readable when the volume has something to do: eventfds, or the
    /// rings of drives. The loop polls them edge by edge and never reads them.
    pub wake_fds: Vec<OwnedFd>,
    /// Exports that come and go while the service is under way; those of a cache do not.
    pub ports: Ports,
    /// Ends the service.
    pub stop: Stop,
    /// The clock of server, volume and drives.
    pub clock: WallClock,
}

impl Service {
    /// One without doors: what it has more is set by whoever has it.
    #[must_use]
    pub fn new(stop: Stop, clock: WallClock) -> Service {
        Service {
            listeners: Vec::new(),
            guests: Vec::new(),
            disk: None,
            control: None,
            wake_fds: Vec::new(),
            ports: Ports::default(),
            stop,
            clock,
        }
    }
}

/// Why the server ended other than as asked.
#[derive(Debug, Error)]
pub enum RunError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The volume leaves its clients no frames.
    #[error("the volume's frame pool leaves its clients fewer than two frames for each core: enlarge it")]
    NoFrames,
    /// No io_uring.
    #[error(
        "io_uring does not work here: {0} (Linux 6.0 or later is needed; see /proc/sys/kernel/io_uring_disabled)"
    )]
    Ring(#[from] io::Error),
    /// No threads for more cores.
    #[error("the threads of more cores cannot be started: {0}")]
    Cores(#[source] io::Error),
    /// The kernel does not show the disk of this host.
    #[error("the disk of this host cannot be started: {0}; the kernel may say more (dmesg)")]
    HostDisk(#[source] io::Error),
    /// The volume answers nothing any more, and says why.
    #[error("the volume has ended")]
    VolumeEnded,
    /// The last flush failed: acknowledged writes may not survive a power failure.
    #[error("the volume could not be flushed before leaving")]
    FinalFlush,
    /// The last flush did not end in time.
    #[error("the volume did not finish its last flush within the stop limit")]
    FinalFlushTimeout,
}

/// Serves `volume` until asked to stop.
///
/// # Errors
/// When the service cannot begin, when the kernel refuses to work for us, or when the volume
/// cannot be flushed at the end.
pub fn run(config: &ServerConfig, service: Service, volume: &mut dyn Controlled) -> Result<(), RunError> {
    config.validate()?;
    if config.cores > 1 {
        return cores::run(config, service, volume);
    }
    let mut gated = Gated::new(volume, MERGES_ACTIVE_MAX);
    Server::new(config, service, &mut gated, Role::First(Vec::new()))?.run()
}

struct Server<'a> {
    config: &'a ServerConfig,
    role: Role<Newcomer>,
    clock: WallClock,
    ring: Ring<Token>,
    desk: Desk<'a>,
    doors: Doors,
    phase: Phase,
    is_stop_asked: bool,
    clients: Slab<Client>,
    clients_seen: u64,
    guests: Slab<Guest>,
    host_disk: Option<HostDisk>,
    questions: Slab<Question>,
    /// Clients with bytes to parse, and clients with something to send.
    ready: Vec<Key>,
    dirty: Vec<Key>,
    volume_is_busy: bool,
    /// Some guest has, or may have, requests that are not taken yet.
    guests_are_busy: bool,
    /// Time at which patience with some client may end; an earlier look does no harm.
    next_sweep: Option<Instant>,
    /// Since when clients wait for frames that others hold.
    short_since: Option<Instant>,
    last_completion: Instant,
    completions: Vec<Completion<Token>>,
    replies: Vec<Reply>,
    keys: Vec<Key>,
    calls: Vec<usize>,
}

impl<'a> Server<'a> {
    fn new(
        config: &'a ServerConfig,
        mut service: Service,
        volume: &'a mut dyn Backend,
        role: Role<Newcomer>,
    ) -> Result<Server<'a>, RunError> {
        let now = service.clock.now();
        let host_disk = match service.disk.take().map(HostDisk::new).transpose()? {
            Some((disk, bell)) => {
                service.wake_fds.push(bell);
                Some(disk)
            }
            None => None,
        };
        Ok(Server {
            config,
            role,
            clock: service.clock,
            ring: Ring::new()?,
            desk: Desk::new(volume, now).ok_or(RunError::NoFrames)?.configured(config),
            doors: Doors::of(service),
            phase: Phase::Serving,
            is_stop_asked: false,
            clients: Slab::new(),
            clients_seen: 0,
            guests: Slab::new(),
            host_disk,
            questions: Slab::new(),
            ready: Vec::new(),
            dirty: Vec::new(),
            volume_is_busy: false,
            guests_are_busy: false,
            next_sweep: None,
            short_since: None,
            last_completion: now,
            completions: Vec::new(),
            replies: Vec::new(),
            keys: Vec::new(),
            calls: Vec::new(),
        })
    }

    fn run(mut self) -> Result<(), RunError> {
        self.doors.open(&mut self.ring)?;
        self.open_disk()?;
        while self.phase != Phase::Done {
            self.turn()?;
            if self.desk.volume.has_ended() {
                self.cut_off()?;
                break;
            }
            let timeout = self.time_to_wait();
            self.ring.wait(timeout)?;
        }
        self.leave()
    }

    fn turn(&mut self) -> io::Result<()> {
        self.desk.now = self.clock.now();
        self.take_completions()?;
        self.hear_of_disk()?;
        self.advance_phase()?;
        self.serve_ready()?;
        self.serve_guests()?;
        self.serve_disk();
        self.turn_volume();
        self.serve_waiting()?;
        self.send_answers()?;
        self.call_guests()?;
        self.commit_to_disk()?;
        self.sweep()
    }

    /// Time for which the thread may sleep; zero when there is work, nothing when only a completion can bring some.
    fn time_to_wait(&mut self) -> Option<Nanos> {
        let now = self.desk.now;
        let has_clients_to_serve =
            !self.ready.is_empty() || !self.dirty.is_empty() || self.guests_are_busy || self.disk_is_busy();
        let has_work = self.volume_is_busy || has_clients_to_serve || self.phase_is_over();
        let spins = self.config.spin.0 > 0 && now.since(self.last_completion) < self.config.spin;
        if has_work || spins || !self.desk.volume.may_sleep() {
            return Some(Nanos(0));
        }
        let relief = self.short_since.map(|since| since + self.config.shortage_limit);
        let dues = [self.desk.volume.next_deadline(), self.next_sweep, self.phase.due(), relief];
        let wait = dues.into_iter().flatten().min().map(|due| due.since(now));
        // The kernel's timers are coarse: what is due soon is waited for awake, where that is asked for.
        wait.map(|wait| if wait < self.config.spin { Nanos(0) } else { wait })
    }

    fn take_completions(&mut self) -> io::Result<()> {
        let mut completions = std::mem::take(&mut self.completions);
        self.ring.completions(&mut completions);
        if !completions.is_empty() {
            self.last_completion = self.desk.now;
        }
        for completion in completions.drain(..) {
            self.on_completion(completion)?;
        }
        self.completions = completions;
        Ok(())
    }

    fn on_completion(&mut self, completion: Completion<Token>) -> io::Result<()> {
        let Completion { token, event, more } = completion;
        match (token, event) {
            (Token::Door(_) | Token::GuestDoor(_) | Token::ControlDoor, Event::Accepted(result)) => {
                self.on_accepted(token, result, more)
            }
            (Token::Wake(index), Event::Readable(result)) => self.on_wake(index, result, more),
            (Token::Stop, Event::Readable(_)) => {
                self.is_stop_asked = true;
                Ok(())
            }
            (Token::Client(key), event) => self.on_client_event(key, event),
            (Token::Question(key), event) => self.on_question_event(key, event),
            (Token::Guest(key), Event::Readable(result)) => self.on_guest_socket(key, result, more),
            (Token::Kick(key, queue, number), Event::Readable(result)) => {
                self.on_kick((key, queue, number), result, more)
            }
            (Token::Call(key, queue), Event::Signalled(result)) => self.on_called(key, queue, &result),
            (Token::HostDisk(tag), Event::Answered(result)) => {
                self.on_fetched(tag, result);
                Ok(())
            }
            (token, event) => unreachable!("{token:?} never starts what ends in {event:?}"),
        }
    }

    /// The volume has something to do, and gets its turn anyway; or clients were handed over.
    fn on_wake(&mut self, index: usize, result: io::Result<()>, more: bool) -> io::Result<()> {
        self.take_arrivals()?;
        self.doors.on_wake(&mut self.ring, index, result, more || self.phase == Phase::Done)
    }

    /// Parses what clients have sent.
    fn serve_ready(&mut self) -> io::Result<()> {
        let mut ready = std::mem::take(&mut self.ready);
        for key in ready.drain(..) {
            if let Some(client) = self.clients.at(key) {
                client.is_ready = false;
                self.serve(key)?;
            }
        }
        // Serving one client does not make another ready.
        assert!(self.ready.is_empty());
        self.ready = ready;
        Ok(())
    }

    /// Gives the volume its turns and its answers to the clients.
    fn turn_volume(&mut self) {
        self.volume_is_busy = true;
        let mut turns_left = VOLUME_TURNS_MAX;
        while self.volume_is_busy && turns_left > 0 {
            turns_left -= 1;
            self.volume_is_busy = self.desk.volume.turn(self.desk.now, &mut self.replies);
            self.volume_is_busy |= !self.replies.is_empty();
            let mut replies = std::mem::take(&mut self.replies);
            for reply in replies.drain(..) {
                self.on_reply(reply);
            }
            self.replies = replies;
        }
    }

    /// Gives the clients that wait for frames what there is, in the order they came.
    fn serve_waiting(&mut self) -> io::Result<()> {
        while let Some(&party) = self.desk.waiting.front() {
            let wanted = match party {
                Party::Client(key) => self.clients.at(key).and_then(|client| client.pause),
                Party::Guest(key) => self.guests.at(key).and_then(|guest| guest.pause),
                Party::HostDisk => self.host_disk.as_ref().and_then(|disk| disk.pause),
            };
            let Some(Pause::Frames(count)) = wanted else {
                self.desk.waiting.pop_front();
                continue;
            };
            if usize::try_from(count).is_ok_and(|count| count > self.desk.frames_available()) {
                self.relieve_shortage();
                return Ok(());
            }
            self.desk.waiting.pop_front();
            self.desk.granted = Some(party);
            match party {
                Party::Client(key) => self.serve(key)?,
                Party::Guest(key) => self.serve_guest(key)?,
                Party::HostDisk => self.serve_disk(),
            }
            self.desk.granted = None;
            // It may have submitted something.
            self.volume_is_busy = true;
        }
        self.short_since = None;
        Ok(())
    }

    /// Cuts off clients that hold frames and do not move, when others have waited for frames too long: while memory is
    /// short, patience is.
    fn relieve_shortage(&mut self) {
        let now = self.desk.now;
        let since = *self.short_since.get_or_insert(now);
        if now.since(since) < self.config.shortage_limit {
            return;
        }
        self.short_since = Some(now);
        let mut keys = std::mem::take(&mut self.keys);
        self.clients.keys(&mut keys);
        for key in keys.drain(..) {
            let idle = self.clients.at(key).and_then(|client| client.holds_frames_idly(now, self.config));
            if let Some(reason) = idle {
                self.drop_client(key, &reason);
            }
        }
        self.keys = keys;
    }

    /// Closes the connections we have lost patience with.
    fn sweep(&mut self) -> io::Result<()> {
        let now = self.desk.now;
        if self.next_sweep.is_none_or(|due| due > now) {
            return Ok(());
        }
        self.next_sweep = None;
        let retry_due = self.doors.reopen(&mut self.ring, now)?;
        self.look_again(retry_due);
        let mut keys = std::mem::take(&mut self.keys);
        self.clients.keys(&mut keys);
        for key in keys.drain(..) {
            let Some(client) = self.clients.at(key) else { continue };
            if client.give_up_staging(now)
                && let Some(id) = client.receiving
            {
                self.ring.cancel(id)?;
            }
            let due = client.due();
            match client.overdue(now) {
                Some(reason) => self.drop_client(key, &reason),
                None => self.look_again(due),
            }
        }
        self.questions.keys(&mut keys);
        for key in keys.drain(..) {
            let due = self.questions.at(key).map(|question| question.due);
            if due.is_some_and(|due| due <= now) {
                self.close_question(key);
            } else {
                self.look_again(due);
            }
        }
        self.keys = keys;
        Ok(())
    }

    /// Makes sure that a sweep comes at `due`.
    fn look_again(&mut self, due: Option<Instant>) {
        self.next_sweep = [self.next_sweep, due].into_iter().flatten().min();
    }
}
