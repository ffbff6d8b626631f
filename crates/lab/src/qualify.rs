//! Does a drive do what the engine relies on? The same checks for every kind of drive, on the wall clock, and what they found.
//!
//! ```text
//!   transfers    all sizes, at all alignments, read back block by block
//!   appends      all sizes, and many in flight, read back at the places that they report
//!   unwritten    zeros beyond the write pointer, behind a finish, after a reset
//!   statuses     every rule broken on its own: the status, and the zone as it was
//!   limits       as many zones open and active as the drive says, and one more
//!   random walk  commands drawn by a seed, held against `zone::rules` status by status and state by state
//!   common walk  the same of what drives of all kinds have, told step by step, so that two of them can be compared
//! ```
//! The drive is written all over, and left empty. A check that finds a difference ends there, empties the drive, and the next one begins.

mod bench;
mod common;
mod pattern;
mod reads;
mod statuses;
#[cfg(test)]
mod tests;
mod traits;
mod transfers;
mod walk;

use bench::Bench;
use serde::Serialize;
use std::fmt;
pub use traits::Traits;
use zone::device::{Geometry, ZonedDevice};

/// Options of a qualification.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of contents and of the random walk.
    pub seed: u64,
    /// Commands of the random walk.
    pub steps: u64,
}

/// Outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// The drive does as it should.
    Passed {
        /// Answers that were compared.
        compared: u64,
    },
    /// The drive does otherwise.
    Differs {
        /// Behaviour of the drive, and what it should have been.
        what: String,
    },
    /// The drive has nothing that could be checked.
    Skipped {
        /// Why.
        why: String,
    },
}

/// A check with its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Name of the check.
    pub check: &'static str,
    /// Outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Why it matters.
    pub why: &'static str,
}

/// Report of a qualification.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Seed of contents and of the random walk.
    pub seed: u64,
    /// Zones and limits, as the drive has them.
    pub zones: u32,
    /// Blocks of a zone that can be written.
    pub zone_capacity_blocks: u32,
    /// Most open zones.
    pub open_zones_max: u32,
    /// Most active zones.
    pub active_zones_max: u32,
    /// Most blocks of a Zone Append.
    pub append_blocks_max: u32,
    /// Most blocks of another transfer.
    pub transfer_blocks_max: u32,
    /// Completed writes may be lost on power failure until a flush.
    pub volatile_cache: bool,
    /// All checks.
    pub checks: Vec<Row>,
    /// Traits for the adaptive policy; `None` when a check failed.
    pub traits: Option<Traits>,
    /// Nothing differs.
    pub passed: bool,
    /// Steps of the common walk with statuses and states, each a line.
    #[serde(skip)]
    pub trace: Vec<String>,
}

/// A difference, in words.
type Difference = String;
/// A check: returns the number of answers that were compared, or why there is nothing to compare.
type Check = fn(&mut Bench) -> Result<Result<u64, String>, Difference>;

const CHECKS: [(&str, Check, &str); 7] = [
    ("transfers", transfers::sizes, "blocks or their metadata would be lost or mixed up"),
    ("appends", transfers::appends, "stripes would be looked for where they are not"),
    ("unwritten blocks", reads::unwritten, "recovery takes zeros for what was never written"),
    (
        "statuses",
        statuses::rules,
        "the engine would not notice its own mistakes, or fail a drive without need",
    ),
    ("limits", statuses::limits, "segments could not be opened"),
    ("random walk", walk::walk, "zones would be in other states than the engine thinks"),
    ("common walk", common::walk, "kinds of drives would differ where the engine takes them for alike"),
];

/// Checks a drive. Everything on it is lost.
pub fn run(device: &mut dyn ZonedDevice, options: Options, progress: &dyn Fn(&str)) -> Report {
    let geometry: Geometry = *device.geometry();
    let mut bench = Bench::new(device, options);
    let mut checks = Vec::new();
    for (check, compare, why) in CHECKS {
        progress(check);
        let compared = bench.empty_all().map_err(|what| format!("before the check: {what}"));
        let outcome = match compared.and_then(|()| compare(&mut bench)) {
            Ok(Ok(compared)) => Outcome::Passed { compared },
            Ok(Err(why)) => Outcome::Skipped { why },
            Err(what) => Outcome::Differs { what },
        };
        checks.push(Row { check, outcome, why });
    }
    let passed = checks.iter().all(|row| !matches!(row.outcome, Outcome::Differs { .. }));
    progress("latencies");
    let traits = passed.then(|| bench.empty_all().and_then(|()| traits::measure(&mut bench)).ok()).flatten();
    let is_emptied = bench.empty_all();
    if let Err(what) = &is_emptied {
        let outcome = Outcome::Differs { what: what.clone() };
        checks.push(Row { check: "resets", outcome, why: "space could not be used again" });
    }
    Report {
        seed: options.seed,
        zones: geometry.zones,
        zone_capacity_blocks: geometry.zone_capacity_blocks,
        open_zones_max: geometry.open_zones_max,
        active_zones_max: geometry.active_zones_max,
        append_blocks_max: geometry.append_blocks_max,
        transfer_blocks_max: geometry.transfer_blocks_max,
        volatile_cache: geometry.volatile_cache,
        checks,
        traits,
        passed: passed && is_emptied.is_ok(),
        trace: bench.trace,
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { zones, zone_capacity_blocks, open_zones_max, active_zones_max, .. } = self;
        let Report { append_blocks_max, transfer_blocks_max, volatile_cache, .. } = self;
        let cache = if *volatile_cache { "a volatile cache" } else { "no volatile cache" };
        writeln!(
            f,
            "  {zones} zones of {zone_capacity_blocks} blocks, {open_zones_max} open, {active_zones_max} active, {cache}"
        )?;
        writeln!(
            f,
            "  appends of up to {append_blocks_max} blocks, other transfers of up to {transfer_blocks_max}"
        )?;
        for Row { check, outcome, why } in &self.checks {
            match outcome {
                Outcome::Passed { compared } => {
                    writeln!(f, "  {check:<17} passed   {compared} answers compared")?;
                }
                Outcome::Skipped { why } => writeln!(f, "  {check:<17} skipped  {why}")?,
                Outcome::Differs { what } => {
                    writeln!(
                        f,
                        "  {check:<17} DIFFERS  {what}\n  {:<17}          why it matters: {why}",
                        ""
                    )?;
                }
            }
        }
        if let Some(traits) = &self.traits {
            writeln!(f, "  {traits}")?;
        }
        f.write_str(if self.passed { "passed" } else { "the drive differs from what the engine relies on" })
    }
}
