//! Watchdog: a run that goes on for ever within one call is given up by name, and the other runs go on.
//!
//! ```text
//!   who asks for a run ─── scenario ──> thread of the run ─── step 17 ──> place
//!          │ <──────── outcome ──────────────┘                              │
//!          └── nothing for so long: "no end of step 17" <───────────────────┘
//! ```
//! Loops of a world count what they do and end by themselves ("stuck"). Nothing counts within a call of the engine, and a thread
//! cannot be ended from outside: that of an endless run is left behind, and turns until the process ends.

use crate::tally::Failure;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::Builder;
use std::time::Duration;

/// Time on the wall clock after which a run is taken for endless: most take less than a tenth of a second, the longest a few
/// seconds.
pub const RUN_MAX: Duration = Duration::from_secs(120);

/// How far a run is.
#[derive(Clone, Default)]
pub(crate) struct Place(Arc<AtomicUsize>);

impl Place {
    /// The run begins a step, or an act; one beyond the last is its end.
    pub(crate) fn reach(&self, index: usize) {
        assert!(index >= self.index(), "a run goes forward");
        self.0.store(index, Ordering::Relaxed);
    }

    fn index(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs something on a thread of its own and waits for it, but no longer than `run_max`: then it has failed where it is.
///
/// # Errors
/// The step that does not end, and the failure.
///
/// # Panics
/// When the run panics, or there is no thread for it.
pub(crate) fn watch<T: Send + 'static>(
    run_max: Duration,
    run: impl FnOnce(&Place) -> T + Send + 'static,
) -> Result<T, (usize, Failure)> {
    let place = Place::default();
    let (done, waiting) = sync_channel(1);
    let reached = place.clone();
    let thread = Builder::new().name("run".to_owned()).spawn(move || {
        // Nobody listens any more to a run that was given up and ends after all.
        let _ = done.send(run(&reached));
    });
    let thread = thread.expect("a thread for a run");
    match waiting.recv_timeout(run_max) {
        Err(RecvTimeoutError::Timeout) => Err((place.index(), Failure::endless(run_max))),
        ended => {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
            Ok(ended.expect("a run that does not panic has an outcome"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    #[test]
    fn a_run_that_ends_is_as_if_nobody_watched() {
        let place = watch(RUN_MAX, |place| {
            place.reach(3);
            place.index()
        });
        assert_eq!(place, Ok(3));
    }

    #[test]
    fn an_endless_call_is_given_up_where_it_is() {
        let (begun, stop) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let watched = watch(Duration::from_millis(100), move |place| {
            place.reach(17);
            while !stopped.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let (index, failure) = watched.expect_err("a run that does not end");
        assert_eq!(index, 17);
        assert!(failure.is_endless && failure.what.contains("does not end"), "{failure:?}");
        assert!(begun.elapsed() < RUN_MAX, "nobody waits for it");
        stop.store(true, Ordering::Relaxed);
    }

    #[test]
    #[should_panic(expected = "of the run")]
    fn a_panic_is_that_of_the_run() {
        let _ = watch(RUN_MAX, |_| panic!("panic of the run"));
    }
}
