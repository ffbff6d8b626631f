//! A die: it programs or reads, one at a time, and programs make way for reads.
//!
//! ```text
//!            read waits                 wait over            register empty
//!   Programming ------> Yielding ------------> Idle --> Reading -----> Idle
//!        ^                                      |
//!        +--------------------------------------+  no reads, or enough of them
//! ```

use std::collections::VecDeque;

/// Owner of a program: who gets what when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Data from the write buffer, whose space is given back.
    Buffer,
    /// A write that waits for its pages.
    Command { slot: u32 },
    /// Padding of a zone that a command finishes.
    Padding { slot: u32 },
    /// Data that the collector moves, or an erasure.
    Collector,
}

/// A program on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) bytes: u64,
    pub(super) owner: Owner,
}

/// The program that a die is at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) job: Job,
    pub(super) parts_left: u32,
    /// Nanoseconds of a part, and what is left of the current one.
    pub(super) part: u64,
    pub(super) left: u64,
    /// Nanoseconds for which it has made way to reads, and since when it does now.
    pub(super) suspended: u64,
    pub(super) since: Option<u64>,
}

/// Activity of a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    Idle,
    /// Since `started`.
    Programming {
        started: u64,
    },
    /// Programming still; it will have gone on for `wait` when it yields.
    Yielding {
        wait: u64,
    },
    Reading,
}

/// A read, or a piece of one, at its die.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) slot: u32,
    pub(super) pages: u32,
}

/// A die and its queues.
#[derive(Debug)]
pub(super) struct Die {
    pub(super) group: u32,
    pub(super) channel: usize,
    pub(super) activity: Activity,
    /// Makes planned events void.
    pub(super) version: u32,
    pub(super) jobs: VecDeque<Job>,
    pub(super) running: Option<Running>,
    pub(super) reads: VecDeque<Piece>,
    /// Pieces that are being sensed or leave the register.
    pub(super) batch: Vec<Piece>,
    /// Programs since the last padding.
    pub(super) since_padding: u32,
}

impl Die {
    pub(super) fn new(group: u32, channel: usize) -> Die {
        Die {
            group,
            channel,
            activity: Activity::Idle,
            version: 0,
            jobs: VecDeque::new(),
            running: None,
            reads: VecDeque::new(),
            batch: Vec::new(),
            since_padding: 0,
        }
    }

    /// True when the program at work has made way for long enough.
    #[inline]
    pub(super) fn insists(&self, now: u64, suspended_max: u64) -> bool {
        self.running.is_some_and(|running| {
            running.suspended + running.since.map_or(0, |since| now - since) >= suspended_max
        })
    }
}
