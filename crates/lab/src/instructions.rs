//! Instructions this thread executes, where the machine counts them.

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

/// A counter that runs from its start.
#[derive(Debug)]
pub struct Instructions(Counter);

impl Instructions {
    /// Starts to count, user and kernel; `None` where the machine has no such counter (most virtual ones) or
    /// the kernel does not let us (`/proc/sys/kernel/perf_event_paranoid`).
    #[must_use]
    pub fn start() -> Option<Instructions> {
        let mut counter = Builder::new(Hardware::INSTRUCTIONS).build().ok()?;
        counter.enable().ok()?;
        Some(Instructions(counter))
    }

    /// Instructions since the start; `None` when the counter stopped counting.
    #[must_use]
    pub fn count(&mut self) -> Option<u64> {
        self.0.read().ok().filter(|count| *count > 0)
    }
}
