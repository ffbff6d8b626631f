//! Experiments with the cache in virtual time: the engine over modelled drives.
//!
//! ```text
//!   cell: settings, and what connections ask ──> rig: engine, drives, connections, clock ──> report: rows and bars
//!                                                alone: what a drive takes from one who only writes
//! ```
//! A connection asks, waits for the answer, and asks again: at once, or when it has thought. The clock jumps from event to event, so a
//! report is a function of code, cell, seed and scale. What the host's processors and the network take is not modelled: what memory
//! answers takes no time.

mod admission;
mod alone;
mod aside;
mod batch;
mod drives;
mod eviction_tail;
mod flat;
mod invalidate;
mod recovery;
pub mod report;
mod rig;
mod sizes;
mod table1;
mod usage;

use anyhow::Result;
use drive::timing::Profile;
use report::Report;

/// How a cell is run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Seed of drives and clients.
    pub seed: u64,
    /// Size of a run: 1 is what the cell is meant for.
    pub scale: f64,
}

impl Run {
    /// So many of something at scale 1, and no fewer than a cell needs.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, and never negative")]
    fn scaled(&self, count: u64, least: u64) -> u64 {
        ((crate::precise::precise_u64(count) * self.scale).round() as u64).max(least)
    }
}

/// A cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Table I of the ZonedStore paper.
    Table1,
    /// Gets while zones are evicted.
    EvictionTail,
    /// Changes of what lies on flash.
    Invalidate,
    /// Stores by few and by many connections.
    Batch,
    /// Objects from small to large.
    Sizes,
    /// What goes to flash.
    Admission,
    /// A drive is lost, and replaced.
    Drives,
    /// A mount after the process has ended.
    Recovery,
    /// The same flash with zones and as a conventional drive, by how much of it is used.
    Usage,
}

impl Cell {
    /// Runs it.
    ///
    /// # Errors
    /// When there can be no such cache, or it answers what it should not.
    pub fn run(self, run: &Run) -> Result<Report> {
        match self {
            Cell::Table1 => table1::run(run),
            Cell::EvictionTail => eviction_tail::run(run),
            Cell::Invalidate => invalidate::run(run),
            Cell::Batch => batch::run(run),
            Cell::Sizes => sizes::run(run),
            Cell::Admission => admission::run(run),
            Cell::Drives => drives::run(run),
            Cell::Recovery => recovery::run(run),
            Cell::Usage => usage::run(run),
        }
    }
}

/// A built-in profile.
fn profile(name: &str) -> Profile {
    Profile::named(name).expect("a built-in profile")
}

#[cfg(test)]
mod tests;
