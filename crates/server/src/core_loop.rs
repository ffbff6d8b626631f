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
mod clients;
mod common;
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
pub(crate) mod questions;
mod shards;
mod stopping;
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
use crate::stop::Stop;
use crate::ublk::Attached;
use array::request::{Controlled, Reply};
use backend::Backend;
use base::time::{Instant, Nanos};
use client::Pause;
use clients::Clients;
use common::Common;
use cores::Newcomer;
use desk::{Desk, Party};
use guests::Guests;
use host_disk::HostDisk;
use host_disks::HostDisks;
use questions::Questions;

use std::io;
use std::os::fd::OwnedFd;
use stopping::Phase;
use thiserror::Error;
use write_gate::{Gated, MERGES_ACTIVE_MAX};

pub use shards::{ServedShard, run_shards};

/// Turns of the volume within one turn of the loop, so that a volume with a lot to do does not
/// keep its clients waiting.
const VOLUME_TURNS_MAX: u32 = 64;

/// Time for the kernel to give back the buffers of closed connections.
const HOMECOMING_ROUNDS_MAX: u32 = 40;
const HOMECOMING_ROUND: Nanos = Nanos(25_000_000);

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

/// The loop: parties that are served, and what they share.
struct Server<'a> {
    common: Common<'a>,
    clients: Clients,
    guests: Guests,
    disk: HostDisks,
    questions: Questions,
    clock: WallClock,
    is_stop_asked: bool,
    volume_is_busy: bool,
    /// Since when clients wait for frames that others hold.
    short_since: Option<Instant>,
    last_completion: Instant,
    completions: Vec<Completion<Token>>,
    replies: Vec<Reply>,
}

impl<'a> Server<'a> {
    fn new(
        config: &'a ServerConfig,
        mut service: Service,
        volume: &'a mut dyn Backend,
        role: Role<Newcomer>,
    ) -> Result<Server<'a>, RunError> {
        let (clock, now) = (service.clock, service.clock.now());
        let disk = match service.disk.take().map(HostDisk::new).transpose()? {
            Some((disk, bell)) => {
                service.wake_fds.push(bell);
                Some(disk)
            }
            None => None,
        };
        let common = Common {
            config,
            role,
            ring: Ring::new()?,
            desk: Desk::new(volume, now).ok_or(RunError::NoFrames)?.configured(config),
            doors: Doors::of(service),
            phase: Phase::Serving,
            parties_seen: 0,
            next_sweep: None,
        };
        Ok(Server {
            common,
            clients: Clients::new(),
            guests: Guests::new(),
            disk: HostDisks::of(disk),
            questions: Questions::new(),
            clock,
            is_stop_asked: false,
            volume_is_busy: false,
            short_since: None,
            last_completion: now,
            completions: Vec::new(),
            replies: Vec::new(),
        })
    }

    fn run(mut self) -> Result<(), RunError> {
        assert!(self.common.phase == Phase::Serving, "a loop begins with its service");
        self.common.doors.open(&mut self.common.ring)?;
        self.disk.open(&mut self.common)?;
        while self.common.phase != Phase::Done {
            self.turn()?;
            if self.common.desk.volume.has_ended() {
                self.cut_off()?;
                break;
            }
            let timeout = self.time_to_wait();
            self.common.ring.wait(timeout)?;
        }
        let disk_failure = self.disk.take_failure();
        self.wait_for_buffers()?;
        self.outcome(disk_failure)
    }

    fn turn(&mut self) -> io::Result<()> {
        self.common.desk.now = self.clock.now_after(self.common.desk.now);
        self.take_completions()?;
        self.is_stop_asked |= self.disk.hear(&mut self.common)?;
        self.advance_phase()?;
        self.clients.serve_ready(&mut self.common)?;
        self.guests.serve_all(&mut self.common)?;
        self.disk.serve(&mut self.common);
        self.turn_volume();
        self.serve_waiting()?;
        self.clients.send_answers(&mut self.common)?;
        self.guests.call_all(&mut self.common)?;
        self.disk.commit(&mut self.common)?;
        self.sweep()
    }

    /// Time for which the thread may sleep; zero when there is work, nothing when only a completion can bring some.
    fn time_to_wait(&mut self) -> Option<Nanos> {
        let now = self.common.desk.now;
        let spin = self.common.config.spin;
        let has_parties_to_serve = self.clients.are_busy() || self.guests.are_busy() || self.disk.is_busy();
        let has_work = self.volume_is_busy || has_parties_to_serve || self.phase_is_over();
        let spins = spin.0 > 0 && now.since(self.last_completion) < spin;
        if has_work || spins || !self.common.desk.volume.may_sleep() {
            return Some(Nanos(0));
        }
        let relief = self.short_since.map(|since| since + self.common.config.shortage_limit);
        let common = &self.common;
        let dues = [common.desk.volume.next_deadline(), common.next_sweep, common.phase.due(), relief];
        let wait = dues.into_iter().flatten().min().map(|due| due.since(now));
        // The kernel's timers are coarse: what is due soon is waited for awake, where that is asked for.
        wait.map(|wait| if wait < spin { Nanos(0) } else { wait })
    }

    fn take_completions(&mut self) -> io::Result<()> {
        let mut completions = std::mem::take(&mut self.completions);
        assert!(completions.is_empty(), "{} completions were not heeded", completions.len());
        self.common.ring.completions(&mut completions);
        if !completions.is_empty() {
            self.last_completion = self.common.desk.now;
        }
        for completion in completions.drain(..) {
            self.on_completion(completion)?;
        }
        self.completions = completions;
        Ok(())
    }

    fn on_completion(&mut self, completion: Completion<Token>) -> io::Result<()> {
        let Completion { token, event, more } = completion;
        let common = &mut self.common;
        match (token, event) {
            (Token::Door(_) | Token::GuestDoor(_) | Token::ControlDoor, Event::Accepted(result)) => {
                self.on_accepted(token, result, more)
            }
            (Token::Wake(index), Event::Readable(result)) => {
                // The volume has something to do, and gets its turn anyway; or clients were handed over.
                self.clients.take_arrivals(common)?;
                let more = more || common.phase == Phase::Done;
                common.doors.on_wake(&mut common.ring, index, result, more)
            }
            (Token::Stop, Event::Readable(_)) => {
                self.is_stop_asked = true;
                Ok(())
            }
            (Token::Client(key), event) => self.clients.on_event(common, key, event),
            (Token::Question(key), event) => {
                let desk = &mut common.desk;
                let next = self.questions.on_event(key, event, |line| desk.volume.control(desk.now, line));
                let Some(next) = next else { return Ok(()) };
                changes::make(common, &mut self.disk)?;
                self.questions.act(&mut common.ring, key, next)
            }
            (Token::Guest(key), Event::Readable(result)) => self.guests.on_socket(common, key, result, more),
            (Token::Kick(key, queue, number), Event::Readable(result)) => {
                self.guests.on_kick(common, (key, queue, number), result, more)
            }
            (Token::Call(key, queue), Event::Signalled(result)) => {
                self.guests.on_called(common, key, queue, &result)
            }
            (Token::HostDisk(tag), Event::Answered(result)) => {
                self.disk.on_fetched(common, tag, result);
                Ok(())
            }
            (token, event) => unreachable!("{token:?} never starts what ends in {event:?}"),
        }
    }

    /// Somebody has come in by a door, or the door has failed.
    fn on_accepted(&mut self, token: Token, result: io::Result<OwnedFd>, more: bool) -> io::Result<()> {
        let has_failed = result.is_err();
        match result {
            // The socket closes again as it is dropped.
            Ok(socket) if !self.common.is_serving() => drop(socket),
            Ok(socket) => match token {
                // Nobody else comes in by this door until the guest has left.
                Token::GuestDoor(door) => return self.guests.welcome(&mut self.common, door, socket),
                Token::Door(door) => self.clients.welcome(&mut self.common, door, socket)?,
                _ => {
                    let Common { ring, desk, .. } = &mut self.common;
                    let due = self.questions.welcome(ring, desk.now, socket)?;
                    self.common.look_again(due);
                }
            },
            Err(error) if self.common.is_serving() && !self.common.doors.is_closed(token) => {
                log::warn!("cannot accept a connection: {error}");
            }
            Err(_) => {}
        }
        if more || !self.common.is_serving() || self.common.doors.is_closed(token) {
            return Ok(());
        }
        if !has_failed {
            return self.common.doors.accept_at(&mut self.common.ring, token);
        }
        let due = self.common.doors.pause_at(token, self.common.desk.now);
        self.common.look_again(Some(due));
        Ok(())
    }

    /// Gives the volume its turns and its answers to whoever has asked.
    fn turn_volume(&mut self) {
        assert!(self.replies.is_empty(), "replies of the turn before were given");
        self.volume_is_busy = true;
        let mut turns_left = VOLUME_TURNS_MAX;
        while self.volume_is_busy && turns_left > 0 {
            turns_left -= 1;
            let desk = &mut self.common.desk;
            self.volume_is_busy = desk.volume.turn(desk.now, &mut self.replies);
            self.volume_is_busy |= !self.replies.is_empty();
            for reply in self.replies.drain(..) {
                let Some(answer) = self.common.desk.on_reply(reply) else { continue };
                match answer.party {
                    Party::Client(key) => self.clients.on_answer(&mut self.common, key, answer),
                    Party::Guest(key) => self.guests.on_answer(&mut self.common, key, answer),
                    Party::HostDisk => self.disk.on_answer(&mut self.common, answer),
                }
            }
        }
    }

    /// Gives the parties that wait for frames what there is, in the order they came.
    fn serve_waiting(&mut self) -> io::Result<()> {
        assert!(self.common.desk.granted.is_none(), "nobody has the word when a turn begins");
        while let Some(&party) = self.common.desk.waiting.front() {
            let wanted = match party {
                Party::Client(key) => self.clients.pause_of(key),
                Party::Guest(key) => self.guests.pause_of(key),
                Party::HostDisk => self.disk.pause(),
            };
            let Some(Pause::Frames(count)) = wanted else {
                self.common.desk.waiting.pop_front();
                continue;
            };
            if usize::try_from(count).is_ok_and(|count| count > self.common.desk.frames_available()) {
                self.relieve_shortage();
                return Ok(());
            }
            let first = self.common.desk.waiting.pop_front();
            assert!(first == Some(party), "{first:?} is served before {party:?}");
            self.common.desk.granted = Some(party);
            match party {
                Party::Client(key) => self.clients.serve(&mut self.common, key)?,
                Party::Guest(key) => self.guests.serve(&mut self.common, key)?,
                Party::HostDisk => self.disk.serve(&mut self.common),
            }
            self.common.desk.granted = None;
            // It may have submitted something.
            self.volume_is_busy = true;
        }
        self.short_since = None;
        Ok(())
    }

    /// Cuts off clients that hold frames and do not move, when others have waited for frames too long: while memory is
    /// short, patience is.
    fn relieve_shortage(&mut self) {
        let now = self.common.desk.now;
        let since = *self.short_since.get_or_insert(now);
        if now.since(since) < self.common.config.shortage_limit {
            return;
        }
        self.short_since = Some(now);
        self.clients.drop_idle_holders(&mut self.common);
    }

    /// Closes the connections we have lost patience with, and opens doors again that had paused.
    fn sweep(&mut self) -> io::Result<()> {
        if !self.common.takes_sweep() {
            return Ok(());
        }
        let now = self.common.desk.now;
        let retry_due = self.common.doors.reopen(&mut self.common.ring, now)?;
        self.common.look_again(retry_due);
        self.clients.sweep(&mut self.common)?;
        let due = self.questions.sweep(now);
        self.common.look_again(due);
        Ok(())
    }

    /// Waits for the kernel to be done with our buffers, while that takes no longer than it should.
    fn wait_for_buffers(&mut self) -> io::Result<()> {
        for _ in 0..HOMECOMING_ROUNDS_MAX {
            if self.common.ring.transfers_in_flight() == 0 {
                break;
            }
            self.common.ring.wait(Some(HOMECOMING_ROUND))?;
            self.take_completions()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::memory_volume::{MemoryVolume, Options};
    use super::*;

    #[test]
    fn a_clock_that_goes_back_stands_still_for_the_loop() {
        let options = Options { blocks: 64, frames_max: 64, delay_max: Nanos(0) };
        let (mut volume, _shared) = MemoryVolume::new(options);
        let (stop, _stop_handle) = crate::stop::Stop::new().unwrap();
        let config = ServerConfig::default();
        let mut gated = Gated::new(&mut volume, MERGES_ACTIVE_MAX);
        let service = Service::new(stop, WallClock::start());
        let mut server = Server::new(&config, service, &mut gated, Role::First(Vec::new())).unwrap();
        let ahead = server.clock.now() + Nanos(2_000_000_000);
        server.common.desk.now = ahead;
        server.turn().unwrap();
        assert_eq!(server.common.desk.now, ahead);
    }
}
