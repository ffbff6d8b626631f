//! Loops beside one another, one a thread.
//!
//! The *first* has what is served, the doors, the control socket and the signal to stop. A *front* is a thread with the same loop, without
//! doors; the first one hands it connections.
//!
//! ```text
//! door -> first -- newcomer --> front
//!         first -- stop ------> front
//!         first <- has_ended -- front
//! ```
//!
//! A front that ends without being told takes the service with it: what it serves would wait for ever. A front whose first is gone is
//! told to stop by that.

use crate::core_loop::RunError;
use crate::stop::{Stop, StopHandle};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::ScopedJoinHandle;

/// State that a front shows to the first loop.
#[derive(Debug, Default)]
struct Bulletin {
    clients_count: AtomicUsize,
    has_ended: AtomicBool,
}

/// A front as the first loop knows it.
#[derive(Debug)]
pub(crate) struct Colleague<N> {
    newcomers: Sender<N>,
    /// Wakes the front; a newcomer is rare enough to ring each time.
    bell: OwnedFd,
    bulletin: Arc<Bulletin>,
    stop: StopHandle,
}

impl<N> Colleague<N> {
    fn clients_count(&self) -> usize {
        self.bulletin.clients_count.load(Ordering::Relaxed)
    }

    fn has_ended(&self) -> bool {
        self.bulletin.has_ended.load(Ordering::Acquire)
    }

    fn hand_over(&self, newcomer: N) {
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
pub(crate) enum Role<N> {
    /// The first, or the only one.
    First(Vec<Colleague<N>>),
    /// A loop that is handed its connections.
    Front(Arrivals<N>),
}

/// Source of a front's clients.
#[derive(Debug)]
pub(crate) struct Arrivals<N> {
    newcomers: Receiver<N>,
    bulletin: Arc<Bulletin>,
}

impl<N> Role<N> {
    /// Clients of all other loops, as far as this one knows.
    pub(crate) fn clients_elsewhere(&self) -> usize {
        match self {
            Role::First(colleagues) => colleagues.iter().map(Colleague::clients_count).sum(),
            Role::Front(_) => 0,
        }
    }

    /// Gives a connection to a loop that has fewer clients than this one, the first of those with
    /// the fewest, but to none of the first `without`; back it comes if there is none.
    pub(crate) fn hand_over(&self, newcomer: N, clients_here: usize, without: usize) -> Option<N> {
        let Role::First(colleagues) = self else { return Some(newcomer) };
        let idlest = colleagues.iter().skip(without).min_by_key(|colleague| colleague.clients_count());
        match idlest.filter(|colleague| colleague.clients_count() < clients_here) {
            Some(colleague) => {
                colleague.hand_over(newcomer);
                None
            }
            None => Some(newcomer),
        }
    }

    /// The next connection that was handed over.
    pub(crate) fn next_arrival(&self) -> Option<N> {
        match self {
            Role::First(_) => None,
            Role::Front(arrivals) => arrivals.newcomers.try_recv().ok(),
        }
    }

    /// A client has left.
    pub(crate) fn on_client_gone(&self) {
        if let Role::Front(arrivals) = self {
            let before = arrivals.bulletin.clients_count.fetch_sub(1, Ordering::Relaxed);
            assert!(before > 0, "a client leaves that was handed over");
        }
    }

    /// Tells the others to stop.
    pub(crate) fn stop_others(&self) {
        if let Role::First(colleagues) = self {
            colleagues.iter().for_each(|colleague| colleague.stop.request());
        }
    }

    /// True when some front has ended.
    pub(crate) fn has_lost_one(&self) -> bool {
        matches!(self, Role::First(colleagues) if colleagues.iter().any(Colleague::has_ended))
    }

    /// True when no other loop needs this one any more.
    pub(crate) fn is_last(&self) -> bool {
        match self {
            Role::First(colleagues) => colleagues.iter().all(Colleague::has_ended),
            Role::Front(_) => true,
        }
    }

    /// True for the loop that has what is served.
    pub(crate) fn is_first(&self) -> bool {
        matches!(self, Role::First(_))
    }
}

/// The two ends between the first loop and a front that `bell` wakes, and the signal by which the front is stopped.
///
/// # Errors
/// When the system has no sockets left.
pub(crate) fn hire<N>(bell: OwnedFd) -> io::Result<(Colleague<N>, Arrivals<N>, Stop)> {
    let (stop, stop_handle) = Stop::new()?;
    let (sender, newcomers) = channel();
    let bulletin = Arc::new(Bulletin::default());
    let colleague = Colleague { newcomers: sender, bell, bulletin: Arc::clone(&bulletin), stop: stop_handle };
    Ok((colleague, Arrivals { newcomers, bulletin }, stop))
}

impl<N> Arrivals<N> {
    /// What says, as it is dropped, that the front has ended, however it does.
    pub(crate) fn last_word<W: Fn()>(&self, wake_first: W) -> LastWord<W> {
        LastWord { bulletin: Arc::clone(&self.bulletin), wake_first }
    }
}

/// See [`Arrivals::last_word`].
pub(crate) struct LastWord<W: Fn()> {
    bulletin: Arc<Bulletin>,
    wake_first: W,
}

impl<W: Fn()> Drop for LastWord<W> {
    fn drop(&mut self) {
        self.bulletin.has_ended.store(true, Ordering::Release);
        (self.wake_first)();
    }
}

/// Waits for all fronts. What went wrong in the first loop counts, then what did in a front.
pub(crate) fn join(
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
