//! Counts of what a run of a conventional drive did.

use crate::acted::Counts;
use serde::Serialize;

/// See the module.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Tally {
    /// Commands answered.
    pub commands: u64,
    /// Commands that failed, as they may.
    pub failed: u64,
    /// Blocks held against the model.
    pub blocks_verified: u64,
    /// Power failures.
    pub crashes: u64,
    /// Servers killed.
    pub kills: u64,
    /// Of these, while the drive was opened.
    pub openings_cut: u64,
    /// Blocks that were written and not durable, and lost.
    pub blocks_lost: u64,
    /// Blocks that were not durable, and found.
    pub blocks_found: u64,
    /// Times that the disk was away for a while.
    pub outages: u64,
    /// Reads that were asked again because of that.
    pub stalled: u64,
    /// Commands of the disk.
    pub disk_commands: u64,
}

impl Counts for Tally {
    fn add(&mut self, other: &Tally) {
        self.commands += other.commands;
        self.failed += other.failed;
        self.blocks_verified += other.blocks_verified;
        self.crashes += other.crashes;
        self.kills += other.kills;
        self.openings_cut += other.openings_cut;
        self.blocks_lost += other.blocks_lost;
        self.blocks_found += other.blocks_found;
        self.outages += other.outages;
        self.stalled += other.stalled;
        self.disk_commands += other.disk_commands;
    }
}
