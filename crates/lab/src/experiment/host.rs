//! A host: the modelled drive as a program reaches it, with the time the program's thread takes per command.
//!
//! The engine takes no virtual time. What a driver in user space takes between a completion and the next
//! submission is part of the drive's profile (`[host.spdk] think_us`), and was there when the profile was fitted;
//! without it, a zone would take more writes than the published figures say.
//!
//! It also keeps a clock that all drives of an array share. Straight-line code (format, mount) runs its commands
//! from the instant it was given; with the shared clock each step begins when the one before has ended, so that
//! the time of a whole mount can be told.

use super::wear::Meter;
use base::time::{Instant, Nanos};
use drive::emulated::TimedDrive;
use drive::timing::Wear;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zone::device::{Command, Completion, Geometry, ZonedDevice};

/// The time of all drives of an array, and the meter of what they are written with.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<AtomicU64>, Meter);

impl Clock {
    /// The latest instant any drive was told.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant(self.0.load(Ordering::Relaxed))
    }

    /// Meter of the writes to drives.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.1
    }

    /// Time never goes back.
    fn forward(&self, now: Instant) -> Instant {
        Instant(self.0.fetch_max(now.0, Ordering::Relaxed).max(now.0))
    }
}

/// A drive behind its host.
pub struct HostedDrive {
    drive: TimedDrive,
    clock: Clock,
    think: Nanos,
    /// Time until which the thread is busy with completions.
    free_at: Instant,
    /// Commands that the thread has yet to submit, and when.
    waiting: VecDeque<(Instant, Command)>,
    /// Time at which the drive's write buffer becomes full.
    busy_from: Option<Instant>,
    /// Time of the next event in the drive.
    next: Option<Instant>,
    /// Wear of the drive that the meter knows of.
    metered: Wear,
}

impl HostedDrive {
    /// A drive whose host takes `think` for each completion before it submits anything else.
    #[must_use]
    pub fn new(drive: TimedDrive, think: Nanos, clock: Clock) -> HostedDrive {
        let (free_at, waiting, busy_from, next) = (Instant(0), VecDeque::new(), None, None);
        let metered = Wear::default();
        HostedDrive { drive, clock, think, free_at, waiting, busy_from, next, metered }
    }

    /// At this instant the drive is as one that has been written to for long: its write buffer is full, and the
    /// flash sets the pace. One that is written to more slowly soon has room again.
    #[must_use]
    pub fn busy_from(mut self, at: Option<Instant>) -> HostedDrive {
        self.busy_from = at;
        self
    }

    /// Begins to be busy when it is time.
    fn fill_buffer(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        if self.busy_from.is_some_and(|at| at <= now) {
            self.busy_from = None;
            self.drive.poll(now, completions);
            self.drive.model_mut().prefill_write_buffer();
        }
    }
}

impl ZonedDevice for HostedDrive {
    fn geometry(&self) -> &Geometry {
        self.drive.geometry()
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let now = self.clock.forward(now);
        if self.free_at <= now && self.waiting.is_empty() {
            self.drive.submit(now, command);
            self.next = self.drive.next_event();
        } else {
            self.waiting.push_back((self.free_at.max(now), command));
        }
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        // Most polls find nothing.
        if [self.next_event(), self.busy_from].into_iter().flatten().all(|next| next > now) {
            return;
        }
        let now = self.clock.forward(now);
        while let Some((at, _)) = self.waiting.front()
            && *at <= now
        {
            let (at, command) = self.waiting.pop_front().expect("it was looked at");
            self.drive.submit(at, command);
        }
        let before = completions.len();
        self.fill_buffer(now, completions);
        self.drive.poll(now, completions);
        for _ in before..completions.len() {
            self.free_at = self.free_at.max(now) + self.think;
        }
        self.next = self.drive.next_event();
        let wear = self.drive.wear();
        self.clock.meter().note(&wear.since(&self.metered));
        self.metered = wear;
    }

    fn next_event(&self) -> Option<Instant> {
        let waiting = self.waiting.front().map(|(at, _)| *at);
        [self.next, waiting].into_iter().flatten().min()
    }
}
