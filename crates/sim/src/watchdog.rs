//! Watchdog: a run that goes on for ever within one call is given up by name, and the other runs go on.
//!
//! ```text
//!   who asks for a run ─── scenario ──> thread of the run ─── step 17 ──> place
//!          │ <──────── outcome ──────────────┘                              │
//!          └── nothing for so long: "no end of step 17" <───────────────────┘
//! ```
//! Loops of a world count what they do and end by themselves ("stuck"). Nothing counts within a call of the engine, and a thread
//! cannot be ended from outside: that of an endless run is left behind, and turns until the process ends. What counts is the
//! processor time of the run: where processors are busy with others, a run of a second takes minutes.

use crate::tally::Failure;
use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::Builder;
use std::time::Duration;

/// Time of a processor after which a run is taken for endless: most take less than a tenth of a second, the longest a few
/// seconds.
pub const RUN_MAX: Duration = Duration::from_secs(120);
/// That time again and again on the wall clock, after which it is, too: one that sleeps takes no processor.
const WAITS_MAX: usize = 5;

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

/// Processor time of a thread.
struct Spent(PathBuf);

impl Spent {
    /// That of the thread that asks, where the system tells it.
    fn here() -> Option<Spent> {
        let thread = fs::read_link("/proc/thread-self").ok()?;
        Some(Spent(Path::new("/proc").join(thread).join("schedstat")))
    }

    fn read(&self) -> Option<Duration> {
        let told = fs::read_to_string(&self.0).ok()?;
        told.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    }
}

/// Runs something on a thread of its own and waits for it, until it took `run_max` of a processor: then it has failed where it is.
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
    let (tell, told) = sync_channel(1);
    let reached = place.clone();
    let thread = Builder::new().name("run".to_owned()).spawn(move || {
        tell.send(Spent::here()).expect("it is waited for");
        // Nobody listens any more to a run that was given up and ends after all.
        let _ = done.send(run(&reached));
    });
    let thread = thread.expect("a thread for a run");
    let spent = told.recv().expect("a thread tells it before it runs");
    // Where nobody tells what it took, the wall clock counts.
    let is_starved = || spent.as_ref().and_then(Spent::read).is_some_and(|time| time < run_max);
    let mut ended = waiting.recv_timeout(run_max);
    for _ in 1..WAITS_MAX {
        if !matches!(ended, Err(RecvTimeoutError::Timeout)) || !is_starved() {
            break;
        }
        ended = waiting.recv_timeout(run_max);
    }
    match ended {
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
    fn a_run_without_a_processor_is_waited_for() {
        let time = Duration::from_millis(50);
        assert_eq!(watch(time, move |_| std::thread::sleep(time * 4)), Ok(()));
    }

    #[test]
    fn a_run_that_sleeps_for_ever_is_given_up() {
        let watched = watch(Duration::from_millis(5), |_| std::thread::sleep(RUN_MAX));
        assert!(watched.is_err_and(|(_, failure)| failure.is_endless));
    }

    #[test]
    #[should_panic(expected = "of the run")]
    fn a_panic_is_that_of_the_run() {
        let _ = watch(RUN_MAX, |_| panic!("panic of the run"));
    }
}
