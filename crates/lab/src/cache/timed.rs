//! Experiments with the cache in virtual time: the engine over modelled drives.
//!
//! ```text
//!   cell: settings, and what connections ask ──> rig: engine, drives, connections, clock ──> report: rows and bars
//!                                                alone: what a drive takes from one who only writes
//!   choices: policies as a cell · measured: cells on the wall clock as reports
//!   several: cells by seeds, side by side ──> summary: means and intervals ──> text, JSON, or page with drawings
//! ```
//! A connection asks, waits for the answer, and asks again: at once, or when it has thought. The clock jumps from event to event, so a
//! report is a function of code, cell, seed and scale. What the host's processors and the network take is not modelled: what memory
//! answers takes no time.

mod admission;
mod alone;
mod aside;
mod batch;
pub mod choices;
mod compared;
mod drawing;
mod drives;
mod eviction_tail;
mod flat;
mod invalidate;
pub mod measured;
mod page;
mod recovery;
pub mod report;
mod rig;
pub mod several;
mod sizes;
pub mod summary;
mod table1;
mod usage;

use anyhow::{Result, bail};
use drive::timing::Profile;
use report::Report;
use std::fmt;
use std::str::FromStr;

/// Seed and size of the run of a cell.
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
    /// Admission to flash.
    Admission,
    /// A drive is lost, and replaced.
    Drives,
    /// A mount after the process has ended.
    Recovery,
    /// The same flash with zones and as a conventional drive, by how much of it is used.
    Usage,
    /// Objects that expire together in zones of their own, and not.
    Ttl,
    /// A namespace beside one that floods the cache.
    Tenants,
    /// Policies of eviction beside models.
    Policies,
    /// Hits on a trace beside extstore, on the wall clock as those that follow.
    Hits,
    /// Processor time beside extstore and Redis.
    Peers,
    /// More cores than one.
    Cores,
    /// Figure 5 of the ZonedStore paper.
    Fig5,
    /// Memory of an object beside extstore and Redis.
    Memory,
    /// Objects that foyer finds after kills.
    Foyer,
    /// Objects from small to large, by a server.
    SizesWall,
    /// Changes of what lies on flash, by a server.
    InvalidateWall,
}

/// All cells, with their names and what they are about.
const CELLS: [(Cell, &str, &str); 20] = [
    (Cell::Table1, "table1", "Table I of the ZonedStore paper"),
    (Cell::EvictionTail, "eviction-tail", "Gets while zones are evicted"),
    (Cell::Invalidate, "invalidate", "Changes of what lies on flash"),
    (Cell::Batch, "batch", "Stores by few and by many connections"),
    (Cell::Sizes, "sizes", "Objects from small to large"),
    (Cell::Admission, "admission", "What goes to flash"),
    (Cell::Drives, "drives", "A drive is lost, and replaced"),
    (Cell::Recovery, "recovery", "A mount after the process has ended"),
    (Cell::Usage, "usage", "The same flash with zones and as a conventional drive"),
    (Cell::Ttl, "ttl", "Objects that expire together in zones of their own"),
    (Cell::Tenants, "tenants", "A namespace beside one that floods the cache"),
    (Cell::Policies, "policies", "Which zones go"),
    (Cell::Hits, "hits", "Hits on a trace beside extstore"),
    (Cell::Peers, "peers", "Processor time beside extstore and Redis"),
    (Cell::Cores, "cores", "What more cores bring"),
    (Cell::Fig5, "fig5", "Figure 5 of the ZonedStore paper beside RocksDB"),
    (Cell::Memory, "memory", "Memory of an object beside extstore and Redis"),
    (Cell::Foyer, "foyer", "What foyer finds after kills"),
    (Cell::SizesWall, "sizes-wall", "Objects from small to large, by a server"),
    (Cell::InvalidateWall, "invalidate-wall", "Changes of what lies on flash, by a server"),
];

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Cell {
    type Err = String;

    fn from_str(text: &str) -> Result<Cell, String> {
        let virtual_ones = CELLS.iter().filter(|(cell, ..)| !cell.is_measured());
        let names: Vec<&str> = virtual_ones.map(|(_, name, _)| *name).collect();
        let names = names.join(", ");
        match CELLS.iter().find(|(_, name, _)| *name == text) {
            Some((cell, ..)) if cell.is_measured() => Err(format!(
                "{cell} is measured on the wall clock, where runs side by side disturb each other: run it by itself; beside \
                 others use {names}"
            )),
            Some((cell, ..)) => Ok(*cell),
            None => Err(format!("no cell in virtual time: use {names}")),
        }
    }
}

impl Cell {
    fn about(self) -> &'static (Cell, &'static str, &'static str) {
        CELLS.iter().find(|(cell, ..)| *cell == self).expect("all cells are listed")
    }

    /// Name of the cell on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.about().1
    }

    /// Title of the cell, for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.about().2
    }

    /// True on the wall clock.
    #[must_use]
    pub fn is_measured(self) -> bool {
        use Cell::{Cores, Fig5, Foyer, Hits, InvalidateWall, Memory, Peers, SizesWall};
        matches!(self, Hits | Peers | Cores | Fig5 | Memory | Foyer | SizesWall | InvalidateWall)
    }

    /// Runs it.
    ///
    /// # Errors
    /// When there can be no such cache, it answers what it should not, or the cell is one of the wall clock.
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
            Cell::Ttl => compared::ttl(run),
            Cell::Tenants => compared::tenants(run),
            Cell::Policies => choices::run(run),
            _ => bail!("{self} is not run in virtual time"),
        }
    }
}

/// A built-in profile.
fn profile(name: &str) -> Profile {
    Profile::named(name).expect("a built-in profile")
}

#[cfg(test)]
mod tests;
