//! More than one core: the loop, once per thread.
//!
//! The *first* loop runs where it always does: it has the volume, the doors, the control socket and
//! the signal to stop. Every *front* is a thread with the same loop, without doors; the first one
//! hands it connections, each to whoever has the fewest clients.
//!
//! ```text
//! door -> first -- Newcomer --> front          see `bridge` for the way to the volume and back
//!         first -- stop ------> front
//!         first <- has_ended -- front
//! ```
//!
//! Stopping: the first loop tells all fronts; each finishes with its clients and ends; when all
//! have ended, the first flushes the volume and leaves. A front that ends without being told takes
//! the service with it: what it serves would wait for ever.

#[cfg(test)]
mod tests;

use super::bridge::{self, Hub, Remote};
use super::{RunError, Server, Service};
use crate::config::{ServerConfig, WallClock};
use crate::ports::Presence;
use crate::stop::{Stop, StopHandle};
use array::request::Controlled;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, ScopedJoinHandle};

/// An accepted connection.
#[derive(Debug)]
pub(super) struct Newcomer {
    pub(super) socket: OwnedFd,
    pub(super) presence: Presence,
}

/// State that a front shows to the first loop.
#[derive(Debug, Default)]
struct Bulletin {
    clients_count: AtomicUsize,
    has_ended: AtomicBool,
}

/// A front as the first loop knows it.
#[derive(Debug)]
pub(super) struct Colleague {
    newcomers: Sender<Newcomer>,
    /// Wakes the front; a newcomer is rare enough to ring each time.
    bell: OwnedFd,
    bulletin: Arc<Bulletin>,
    stop: StopHandle,
}

impl Colleague {
    fn clients_count(&self) -> usize {
        self.bulletin.clients_count.load(Ordering::Relaxed)
    }

    fn has_ended(&self) -> bool {
        self.bulletin.has_ended.load(Ordering::Acquire)
    }

    fn hand_over(&self, newcomer: Newcomer) {
        self.bulletin.clients_count.fetch_add(1, Ordering::Relaxed);
        // Fails when the front has ended: the connection closes, as all others are about to.
        if self.newcomers.send(newcomer).is_ok()
            && let Err(error) = rustix::io::write(&self.bell, &1_u64.to_ne_bytes())
        {
            log::warn!("cannot wake another core's thread: {error}");
        }
    }
}

/// Role of a loop among the loops of the server.
#[derive(Debug)]
pub(super) enum Role {
    /// The first, or the only one.
    First(Vec<Colleague>),
    /// A loop that is handed its connections.
    Front(Arrivals),
}

/// Source of a front's clients.
#[derive(Debug)]
pub(super) struct Arrivals {
    newcomers: Receiver<Newcomer>,
    bulletin: Arc<Bulletin>,
}

impl Role {
    /// Clients of all other loops, as far as this one knows.
    pub(super) fn clients_elsewhere(&self) -> usize {
        match self {
            Role::First(colleagues) => colleagues.iter().map(Colleague::clients_count).sum(),
            Role::Front(_) => 0,
        }
    }

    /// Gives a connection to a loop that has fewer clients than this one, the first of those with
    /// the fewest; back it comes if there is none.
    pub(super) fn hand_over(&self, newcomer: Newcomer, clients_here: usize) -> Option<Newcomer> {
        let Role::First(colleagues) = self else { return Some(newcomer) };
        let idlest = colleagues.iter().min_by_key(|colleague| colleague.clients_count());
        match idlest.filter(|colleague| colleague.clients_count() < clients_here) {
            Some(colleague) => {
                colleague.hand_over(newcomer);
                None
            }
            None => Some(newcomer),
        }
    }

    /// The next connection that was handed over.
    pub(super) fn next_arrival(&self) -> Option<Newcomer> {
        match self {
            Role::First(_) => None,
            Role::Front(arrivals) => arrivals.newcomers.try_recv().ok(),
        }
    }

    /// A client has left.
    pub(super) fn on_client_gone(&self) {
        if let Role::Front(arrivals) = self {
            arrivals.bulletin.clients_count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Tells the others to stop.
    pub(super) fn stop_others(&self) {
        if let Role::First(colleagues) = self {
            colleagues.iter().for_each(|colleague| colleague.stop.request());
        }
    }

    /// True when some front has ended.
    pub(super) fn has_lost_one(&self) -> bool {
        matches!(self, Role::First(colleagues) if colleagues.iter().any(Colleague::has_ended))
    }

    /// True when no other loop needs this one any more.
    pub(super) fn is_last(&self) -> bool {
        match self {
            Role::First(colleagues) => colleagues.iter().all(Colleague::has_ended),
            Role::Front(_) => true,
        }
    }

    /// True when this loop flushes the volume before it leaves.
    pub(super) fn is_first(&self) -> bool {
        matches!(self, Role::First(_))
    }
}

/// All that a front takes along into its thread.
struct Front {
    remote: Remote,
    service: Service,
    arrivals: Arrivals,
}

impl Front {
    fn new(remote: Remote, clock: WallClock) -> io::Result<(Front, Colleague)> {
        let (stop, stop_handle) = Stop::new()?;
        let (sender, newcomers) = channel();
        let bulletin = Arc::new(Bulletin::default());
        let colleague = Colleague {
            newcomers: sender,
            bell: remote.bell()?,
            bulletin: Arc::clone(&bulletin),
            stop: stop_handle,
        };
        let wake_fds = vec![remote.bell()?];
        let service = Service { wake_fds, ..Service::new(stop, clock) };
        Ok((Front { remote, service, arrivals: Arrivals { newcomers, bulletin } }, colleague))
    }

    /// The thread of a front.
    fn serve(mut self, config: &ServerConfig) -> Result<(), RunError> {
        Server::new(config, self.service, &mut self.remote, Role::Front(self.arrivals))?.run()
    }
}

/// Says that a front has ended, however it does.
struct LastWord<W: Fn()> {
    bulletin: Arc<Bulletin>,
    wake_first: W,
}

impl<W: Fn()> Drop for LastWord<W> {
    fn drop(&mut self) {
        self.bulletin.has_ended.store(true, Ordering::Release);
        (self.wake_first)();
    }
}

/// Serves `volume` with `config.cores` threads, of which this is one.
pub(super) fn run(
    config: &ServerConfig,
    service: Service,
    volume: &mut dyn Controlled,
) -> Result<(), RunError> {
    run_with(config, service, volume, Front::serve)
}

fn run_with(
    config: &ServerConfig,
    mut service: Service,
    volume: &mut dyn Controlled,
    body: fn(Front, &ServerConfig) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let bridge = bridge::build(volume, config.cores - 1).map_err(RunError::Cores)?;
    let (mut hub, remotes) = bridge.ok_or(RunError::NoFrames)?;
    service.wake_fds.push(hub.bell().map_err(RunError::Cores)?);
    std::thread::scope(|scope| {
        let mut colleagues = Vec::new();
        let mut threads = Vec::new();
        // Fronts that have started are stopped by the loss of their colleague, should one fail to.
        for (remote, core) in remotes.into_iter().zip(2_u32..) {
            let (front, colleague) = Front::new(remote, service.clock).map_err(RunError::Cores)?;
            colleagues.push(colleague);
            let thread = Builder::new().name(format!("core-{core}"));
            let serve = move || {
                let bulletin = Arc::clone(&front.arrivals.bulletin);
                let _last_word = LastWord { bulletin, wake_first: front.remote.waker() };
                body(front, config)
            };
            threads.push(thread.spawn_scoped(scope, serve).map_err(RunError::Cores)?);
        }
        let result = serve_first(config, service, &mut hub, colleagues);
        join(threads, result)
    })
}

fn serve_first(
    config: &ServerConfig,
    service: Service,
    hub: &mut Hub<'_>,
    colleagues: Vec<Colleague>,
) -> Result<(), RunError> {
    Server::new(config, service, hub, Role::First(colleagues))?.run()
}

/// Waits for all fronts. What went wrong in the first loop counts, then what did in a front.
fn join(
    threads: Vec<ScopedJoinHandle<'_, Result<(), RunError>>>,
    mut result: Result<(), RunError>,
) -> Result<(), RunError> {
    for thread in threads {
        let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match (&result, ended) {
            (Ok(()), Err(error)) => result = Err(error),
            (Err(RunError::VolumeEnded), Err(RunError::VolumeEnded)) => {}
            (Err(_), Err(error)) => log::error!("another core's thread ended: {error}"),
            (_, Ok(())) => {}
        }
    }
    result
}
