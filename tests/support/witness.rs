//! A well-behaved client that works beside others who are not: they must not keep it from its work.

use super::run::until;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Tells a client how far it is, and when to stop.
pub struct Rounds {
    stop: AtomicBool,
    done: AtomicU64,
}

impl Rounds {
    /// The number of the next round, from 1 on; `None` when there is to be none.
    pub fn begin(&self) -> Option<u64> {
        (!self.stop.load(Ordering::Relaxed)).then(|| self.done.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Rounds so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

/// See the module.
pub struct Witness {
    rounds: Arc<Rounds>,
    thread: JoinHandle<()>,
    /// Time beyond which it suffers from others.
    patience: Duration,
}

impl Witness {
    /// A client that does this, round by round, and panics where an answer is wrong.
    pub fn start(patience: Duration, work: impl FnOnce(&Rounds) + Send + 'static) -> Witness {
        let rounds = Arc::new(Rounds { stop: AtomicBool::new(false), done: AtomicU64::new(0) });
        let thread = std::thread::spawn({
            let rounds = Arc::clone(&rounds);
            move || work(&rounds)
        });
        Witness { rounds, thread, patience }
    }

    /// Asserts that it gets on with its work.
    #[track_caller]
    pub fn assert_served(&self) {
        let before = self.rounds.done();
        let gets_on = until(self.patience, || self.rounds.done() > before + 10);
        assert!(gets_on && !self.thread.is_finished(), "a well-behaved client is not served");
    }

    /// Ends its work, in which all answers were right.
    pub fn finish(self) {
        self.rounds.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("a well-behaved client was served with the right data");
    }
}
