//! Outcome of a run: what was done, and how it failed.

use std::time::Duration;

/// A failure of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In words.
    pub what: String,
    /// The block concerned, if it is one.
    pub lba: Option<u64>,
    /// A call that does not end: whoever runs it again waits as long again, and leaves another thread behind.
    pub is_endless: bool,
}

impl Failure {
    /// Something that concerns no single block.
    pub fn new(what: impl Into<String>) -> Failure {
        Failure { what: what.into(), lba: None, is_endless: false }
    }

    /// Something that concerns a block.
    pub fn at(lba: u64, what: impl Into<String>) -> Failure {
        Failure { what: what.into(), lba: Some(lba), is_endless: false }
    }

    /// A call that was given up after this time.
    pub(crate) fn endless(run_max: Duration) -> Failure {
        let what =
            format!("does not end: still within one call after {} s of a processor", run_max.as_secs());
        Failure { is_endless: true, ..Failure::new(what) }
    }
}

/// Counts of what a run did.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Requests answered.
    pub requests: u64,
    /// Blocks whose contents were held against the oracle.
    pub blocks_verified: u64,
    /// Requests that failed, as they may when too much is broken.
    pub requests_failed: u64,
    /// Times the power failed.
    pub power_failures: u64,
    /// Mounts that succeeded.
    pub mounts: u64,
    /// Checks of everything at rest.
    pub checks: u64,
    /// Virtual time that went by, in nanoseconds.
    pub virtual_ns: u64,
}
