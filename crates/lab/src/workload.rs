//! Programs that keep a drive busy, and what they measure.
//!
//! ```text
//!   job --> [host stack: submit, merge] --> target (a model, or a drive on the wall clock)
//!    ^                                          |
//!    +----- think <-- [host stack: complete] <--+      latency is what the job sees
//! ```
//! A [`Job`] is one thread of a benchmark: it keeps commands in flight in a closed loop, perhaps at
//! a limited rate. [`Loop`] runs jobs against a [`Target`] and counts what completes after the warm-up.

mod closed_loop;
mod latencies;
pub mod model;
pub mod timed;
pub mod wall;

pub use closed_loop::Loop;
pub use latencies::{Figures, Measured, join, percentile, variation};

use base::time::Instant;
use drive::timing::{Access, Done, StackCosts, ZoneCondition};

/// Work of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// Writes at the write pointer, zone after zone.
    Write,
    /// Writes anywhere, on a drive without zones.
    WriteRandom,
    /// Zone appends, zone after zone.
    Append,
    /// Reads anywhere in its zones.
    ReadRandom,
    /// Reads its zones from start to end.
    ReadSequential,
    /// Writes into windows of zones with a random write area.
    Area(Order),
    /// A management command on zones in a given state.
    Manage(Manage),
}

/// Order of writes into windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// At growing offsets, zone after zone.
    Growing,
    /// In any order within each half of a window, one half after the other.
    Shuffled {
        /// Size of the window.
        window_bytes: u64,
    },
    /// Anywhere in the first window of a zone, again and again.
    Again {
        /// Size of the window.
        window_bytes: u64,
    },
}

/// A management command and the state of the zone it meets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Manage {
    /// The command.
    pub op: ManageOp,
    /// Bytes the host has written to the zone.
    pub written_bytes: u64,
    /// State of the zone.
    pub condition: ZoneCondition,
}

/// Commands on whole zones, and the first or last write of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManageOp {
    /// Empties the zone.
    Reset,
    /// Makes it full.
    Finish,
    /// Opens it.
    Open,
    /// Closes it.
    Close,
    /// Commits what was written to its window.
    Commit,
    /// A write of the job's size.
    Write,
    /// An append of the job's size.
    Append,
}

/// A program thread.
#[derive(Clone, Debug)]
pub struct Job {
    /// Work of the job.
    pub what: What,
    /// Bytes of each request.
    pub bytes: u64,
    /// Requests in flight.
    pub depth: u32,
    /// Writes fill one after the other; reads go to all.
    pub zones: Vec<u32>,
    /// At most this much per second.
    pub rate_bytes_per_s: Option<f64>,
    /// Costs that the host adds to each request.
    pub costs: StackCosts,
    /// Full zones are reset and written again; otherwise they count as empty at no cost.
    pub resets: bool,
}

/// Length of a measurement, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Not counted.
    pub warm_up_us: f64,
    /// Counted.
    pub measured_us: f64,
}

/// Target of jobs: a model in virtual time, or a drive on the wall clock.
pub trait Target {
    /// Bytes that can be written to a zone.
    fn zone_capacity_bytes(&self) -> u64;

    /// A command reaches the drive.
    fn submit(&mut self, now: Instant, tag: u64, access: Access);

    /// Waits until `until`, or until the drive may have completed something, whichever is first; returns
    /// the time. `None` when nobody waits for a time and the drive has nothing to do.
    fn wait(&mut self, until: Option<Instant>) -> Option<Instant>;

    /// Commands that completed by `now`.
    fn advance(&mut self, now: Instant, done: &mut Vec<Done>);

    /// Puts a zone into a state, outside the measurement.
    fn preset_zone(&mut self, zone: u32, written_bytes: u64, condition: ZoneCondition);

    /// Empties a zone and opens it with a random write area, outside the measurement. So many bytes from the begin of its window are
    /// written.
    fn preset_area(&mut self, zone: u32, held_bytes: u64);
}

/// Whole nanoseconds of a time in microseconds.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, and never negative")]
#[must_use]
pub fn whole_ns(us: f64) -> u64 {
    (us * 1000.0).round().max(0.0) as u64
}
