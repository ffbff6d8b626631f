//! Counts of what a run of the in-place engine did.

use crate::acted::Counts;
use serde::Serialize;

/// Counts of what a run did.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Tally {
    /// Requests answered.
    pub requests: u64,
    /// Requests that failed, as they may.
    pub requests_failed: u64,
    /// Blocks held against the oracle.
    pub blocks_verified: u64,
    /// Power failures.
    pub crashes: u64,
    /// Servers that were killed.
    pub kills: u64,
    /// Starts that succeeded.
    pub starts: u64,
    /// Starts of arrays whose parities were taken for right.
    pub forced: u64,
    /// Starts that were refused, as they must be.
    pub refusals: u64,
    /// Checks of all parities at rest.
    pub checks: u64,
    /// Members that failed.
    pub failures: u64,
    /// Starts that applied a log.
    pub replays: u64,
    /// Blocks that could not be read, for what was in flight as the power failed.
    pub torn: u64,
    /// Members that were rebuilt.
    pub rebuilt: u64,
    /// Members that were replaced while they worked.
    pub replaced: u64,
    /// Spares that took the role of a member.
    pub stepped_in: u64,
    /// Rows of members that were listed as bad.
    pub listed: u64,
    /// Members that came back.
    pub returned: u64,
    /// Starts with members that were not yet rebuilt.
    pub resumed: u64,
    /// Consistency policies that were changed.
    pub policies: u64,
    /// Times that md had the array between two starts.
    pub taken_over: u64,
    /// Scrubs that looked at every row.
    pub scrubs: u64,
    /// Rows in which a write was not done where it was to be.
    pub lied: u64,
    /// Rows that do not match for that, and were counted.
    pub exposed: u64,
    /// Members that hung.
    pub hangs: u64,
    /// Commands of members.
    pub commands: u64,
}

impl Counts for Tally {
    fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.requests_failed += other.requests_failed;
        self.blocks_verified += other.blocks_verified;
        self.crashes += other.crashes;
        self.kills += other.kills;
        self.starts += other.starts;
        self.forced += other.forced;
        self.refusals += other.refusals;
        self.checks += other.checks;
        self.failures += other.failures;
        self.replays += other.replays;
        self.torn += other.torn;
        self.rebuilt += other.rebuilt;
        self.replaced += other.replaced;
        self.stepped_in += other.stepped_in;
        self.listed += other.listed;
        self.returned += other.returned;
        self.resumed += other.resumed;
        self.policies += other.policies;
        self.taken_over += other.taken_over;
        self.scrubs += other.scrubs;
        self.lied += other.lied;
        self.exposed += other.exposed;
        self.hangs += other.hangs;
        self.commands += other.commands;
    }
}
