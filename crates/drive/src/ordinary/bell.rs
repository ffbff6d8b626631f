//! Bell of a device: an event descriptor that its answers make readable, and how code before service sleeps on it.

use base::time::Instant;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use std::io;

/// Time after which an answer is looked for, should no bell have rung.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// A bell.
///
/// # Errors
/// When the kernel has no descriptor left.
pub fn new() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)
}

/// Waits until something can be taken, asleep until the bell rings. `take` is told the time since then, for what is tried again.
pub fn wait_for<T>(bell: &OwnedFd, mut take: impl FnMut(Instant) -> Option<T>) -> T {
    let begun = std::time::Instant::now();
    let mut take = || take(Instant(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)));
    loop {
        if let Some(taken) = take() {
            return taken;
        }
        // The count is news that the next look takes, whatever it is.
        let mut count = [0; 8];
        let _ = rustix::io::read(bell, &mut count);
        if let Some(taken) = take() {
            return taken;
        }
        let _ = poll(&mut [PollFd::new(bell, PollFlags::IN)], Some(&LOOK_AGAIN));
    }
}
