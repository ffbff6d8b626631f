//! Asking the server to stop: from another thread, or by SIGINT, SIGTERM, SIGHUP and SIGQUIT.
//!
//! The first request makes it finish what is in flight, flush and leave. A second signal ends the
//! process at once, whatever the server is doing.

use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Exit status after a second signal: 128 + SIGINT, as shells have it.
const EXIT_STATUS_SIGNALLED: i32 = 130;

/// Descriptor that the server listens to: becomes readable when it should stop.
#[derive(Debug)]
pub struct Stop(OwnedFd);

/// Asks the server to stop; may be cloned and moved to other threads.
#[derive(Clone, Debug)]
pub struct StopHandle(Arc<UnixStream>);

impl Stop {
    /// A pair of ends.
    ///
    /// # Errors
    /// When the system has no sockets left.
    pub fn new() -> io::Result<(Stop, StopHandle)> {
        let (asking, listening) = UnixStream::pair()?;
        asking.set_nonblocking(true)?;
        listening.set_nonblocking(true)?;
        Ok((Stop(listening.into()), StopHandle(Arc::new(asking))))
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        self.0
    }
}

impl StopHandle {
    /// Asks the server to stop. Asking again changes nothing.
    pub fn request(&self) {
        // A full socket means that it was asked before; a closed one, that it has stopped.
        match rustix::io::write(&*self.0, b"s") {
            Ok(_) | Err(Errno::AGAIN | Errno::PIPE) => {}
            Err(error) => log::warn!("cannot ask the server to stop: {error}"),
        }
    }

    /// Makes SIGINT, SIGTERM, SIGHUP and SIGQUIT ask for a stop, and the second of them end the process. A hangup that
    /// `nohup` had ignored stays so.
    ///
    /// # Errors
    /// When the system refuses signal handlers.
    pub fn on_signals(&self) -> io::Result<()> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            if signal == SIGHUP && ignores_hangup() {
                continue;
            }
            // The order matters: the check comes before the mark, so the first signal only marks.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                EXIT_STATUS_SIGNALLED,
                Arc::clone(&asked),
            )?;
            signal_hook::flag::register(signal, Arc::clone(&asked))?;
            signal_hook::low_level::pipe::register(signal, self.0.try_clone()?)?;
        }
        Ok(())
    }
}

/// True when this process was told to ignore SIGHUP before it began (`nohup`).
#[must_use]
pub fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_ignored(&status, SIGHUP)
}

/// The mask in the line `SigIgn` has a bit for each signal, from 1 on.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_told_from_others() {
        let status =
            "Name:\tx\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n";
        assert!(is_ignored(status, SIGHUP) && !is_ignored(status, SIGQUIT));
        assert!(!is_ignored("", SIGHUP));
    }
}
