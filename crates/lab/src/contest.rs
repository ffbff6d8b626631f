//! The contest: the adaptive policy against every fixed configuration, in settings that nobody tuned for.
//!
//! ```text
//!   seed ─> cells (drives, array, load) ─> one run of each contestant, same requests ─> scores ─> verdict
//! ```
//! Experiments measure cells that somebody chose, and whoever tunes a policy sees them. Here a seed draws them, and any seed
//! will do. The *expert* of a cell is the fixed configuration with the highest throughput there: what somebody would have
//! chosen who knew the load. All is virtual time, and a seed repeats a contest to the bit.

pub mod cell;
pub mod earlier;
pub mod sensitivity;
pub mod traffic;
pub mod verdict;

use crate::experiment::clients;
use crate::experiment::measurement::amplification;
use crate::experiment::rig::{Decided, Plan, Rig, blocks_of_kib};
use crate::experiment::scheme::Scheme;
use crate::experiment::setting::Setting;
use crate::pool;
use crate::precise::precise_u64;
use anyhow::{Context, Result};
use base::time::Instant;
use cell::Cell;
use drive::timing::Profile;
use earlier::Earlier;
use serde::{Deserialize, Serialize};
use std::fmt;
use verdict::{Judged, Summary};

/// Zones of 2 MiB, as in experiment 8: larger ones give the same.
const ZONE_BLOCKS: u32 = 512;
/// Chunks of fixed configurations.
const CHUNKS_KIB: [u32; 4] = [4, 8, 16, 32];
/// Open segments of fixed configurations.
const OPEN_SEGMENTS: [u32; 2] = [1, 4];
/// Schemes of fixed configurations. In zones of this size, `zone-append-only` writes what `zapraid` does.
const SCHEMES: [Scheme; 2] = [Scheme::ZapRaid, Scheme::ZoneWriteOnly];
/// Requests of the fill.
const FILL_KIB: u32 = 64;
/// Turnovers that are written before the measurement, and in it: one is as much as the drives hold, the reserve included. Segments that were
/// filled in order are collected in order, so the collector's work comes in waves, which are over after two turnovers. Half a volume after one
/// and a half others was a crest for one contestant and a trough for another (docs/experiments.md).
const TURNOVERS: [f64; 2] = [2.0, 1.0];

/// Contest to hold.
#[derive(Debug)]
pub struct Options {
    /// Seed of the cells.
    pub seed: u64,
    /// First cell.
    pub first: u64,
    /// Count of cells.
    pub cells: u64,
    /// Amount written, as a multiple of what is usual.
    pub scale: f64,
    /// Contest of the same cells, whose fixed configurations need not run again.
    pub earlier: Option<Earlier>,
}

/// A way to place stripes that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contestant {
    /// The policy that is judged.
    Adaptive,
    /// A fixed configuration.
    Fixed {
        /// Scheme.
        scheme: Scheme,
        /// Chunk size.
        chunk_kib: u32,
        /// Open segments.
        segments: u32,
    },
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contestant::Adaptive => f.write_str("adaptive"),
            Contestant::Fixed { scheme, chunk_kib, segments } => {
                write!(f, "{} {chunk_kib}k x{segments}", scheme.name())
            }
        }
    }
}

impl Serialize for Contestant {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Contestant {
    /// Returns all contestants, the one that is judged first.
    #[must_use]
    pub fn all() -> Vec<Contestant> {
        let mut all = vec![Contestant::Adaptive];
        for scheme in SCHEMES {
            for chunk_kib in CHUNKS_KIB {
                all.extend(OPEN_SEGMENTS.map(|segments| Contestant::Fixed { scheme, chunk_kib, segments }));
            }
        }
        all
    }

    /// Returns the array of a cell as this contestant makes it.
    ///
    /// # Errors
    /// When there can be no such array.
    fn plan(self, cell: &Cell) -> Result<Plan> {
        let (scheme, chunk_kib, small_segments) = match self {
            Contestant::Adaptive => (Scheme::Adaptive, CHUNKS_KIB[0], 1),
            Contestant::Fixed { scheme, chunk_kib, segments } => (scheme, chunk_kib, segments),
        };
        let setting = Setting {
            profile: cell.profile,
            drives: cell.drives,
            level: cell.level,
            chunk_kib,
            small_segments,
            ..Setting::default()
        };
        let mut plan = Plan::new(scheme, &setting, cell.seed)?;
        plan.odd_profile = cell.odd_profile.map(Profile::load).transpose()?;
        plan.fill_segments(ZONE_BLOCKS, cell.reserved_percent)?;
        Ok(plan)
    }
}

/// Figures of one contestant in one cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Throughput, reads and writes together.
    pub mib_s: f64,
    /// Median latency.
    pub p50_us: f64,
    /// 99 % are at most this.
    pub p99_us: f64,
    /// 99.9 % are at most this.
    pub p999_us: f64,
    /// Blocks written to drives per block of clients, parity not counted.
    pub write_amplification: f64,
}

/// Outcome of a contest.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Seed of the cells.
    pub seed: u64,
    /// Amount written, as a multiple of what is usual.
    pub scale: f64,
    /// Turnovers that were written before the measurement, and in it, at scale 1.
    pub turnovers: [f64; 2],
    /// Verdicts by cell.
    pub cells: Vec<Judged>,
    /// All of them together.
    pub summary: Summary,
}

/// Holds a contest. `done` is told how many runs of how many are over, and which was the last.
///
/// # Errors
/// When a run fails.
pub fn run(options: &Options, done: impl Fn(usize, usize, &str) + Sync) -> Result<Outcome> {
    let last = options.first + options.cells;
    let cells: Vec<Cell> =
        (options.first..last).map(|index| draw(options.seed, index)).collect::<Result<_>>()?;
    if let Some(earlier) = &options.earlier {
        earlier.check(options, &cells)?;
    }
    let contestants = Contestant::all();
    let runs: Vec<(&Cell, Contestant)> =
        cells.iter().flat_map(|cell| contestants.iter().map(move |contestant| (cell, *contestant))).collect();
    let measure = |(cell, contestant): &(&Cell, Contestant)| {
        if let Some(earlier) = options.earlier.as_ref().filter(|_| *contestant != Contestant::Adaptive) {
            return Ok(earlier.scores(cell.index, *contestant));
        }
        measure(cell, *contestant, options.scale).with_context(|| format!("{cell}: {contestant}"))
    };
    let scores = pool::map(&runs, measure, |count, (cell, contestant)| {
        done(count, runs.len(), &format!("setting {}, {contestant}", cell.index));
    });
    let scores: Vec<Option<Scores>> = scores.into_iter().collect::<Result<_>>()?;
    let judge = |(cell, scores): (&Cell, &[Option<Scores>])| {
        let all = contestants.iter().copied().zip(scores.iter().copied());
        Judged::new(cell, all).with_context(|| format!("{cell}: nobody to compare with"))
    };
    let cells: Vec<Judged> =
        cells.iter().zip(scores.chunks(contestants.len())).map(judge).collect::<Result<_>>()?;
    let summary = Summary::of(&cells);
    Ok(Outcome { seed: options.seed, scale: options.scale, turnovers: TURNOVERS, cells, summary })
}

/// Decisions of the adaptive policy in a cell.
pub struct Explained {
    /// The cell.
    pub cell: Cell,
    /// Time at which clients began, warm-up included.
    pub begin: Instant,
    /// Decisions, in the order of time.
    pub decided: Vec<Decided>,
}

/// Runs the adaptive policy in one cell.
///
/// # Errors
/// When the run fails.
pub fn explain(seed: u64, cell: u64, scale: f64) -> Result<Explained> {
    let cell = draw(seed, cell)?;
    let mut rig = Rig::new(Contestant::Adaptive.plan(&cell)?)?;
    let mut load = prepare(&mut rig, &cell)?;
    rig.keep_decisions();
    let begin = rig.now();
    let requests = load_requests(&cell, rig.volume_blocks(), TURNOVERS.iter().sum::<f64>() * scale);
    traffic::run(&mut rig, &mut load, requests)?;
    Ok(Explained { begin, decided: rig.take_decisions(), cell })
}

/// Draws a cell in which there can be an array: that of the adaptive policy, and one fixed configuration at least.
fn draw(seed: u64, index: u64) -> Result<Cell> {
    let is_possible =
        |contestant: &Contestant, cell: &Cell| contestant.plan(cell).and_then(|plan| plan.config()).is_ok();
    let drawn = (0..100).map(|attempt| Cell::draw(seed, index, attempt)).find(|cell| {
        let all = Contestant::all();
        is_possible(&all[0], cell) && all[1..].iter().any(|fixed| is_possible(fixed, cell))
    });
    drawn.with_context(|| format!("no array is possible in cell {index} of seed {seed}"))
}

/// Measures a contestant; `None` when there can be no such array.
fn measure(cell: &Cell, contestant: Contestant, scale: f64) -> Result<Option<Scores>> {
    match contestant.plan(cell) {
        Ok(plan) => measure_plan(cell, plan, scale),
        Err(_) => Ok(None),
    }
}

/// Measures the array of a plan under the load of a cell; `None` when there can be no such array.
fn measure_plan(cell: &Cell, plan: Plan, scale: f64) -> Result<Option<Scores>> {
    if plan.config().is_err() {
        return Ok(None);
    }
    let mut rig = Rig::new(plan)?;
    let mut load = prepare(&mut rig, cell)?;
    let requests = |turnovers: f64| load_requests(cell, rig.volume_blocks(), turnovers * scale);
    let [warm_up, measured] = TURNOVERS.map(requests);
    traffic::run(&mut rig, &mut load, warm_up)?;
    let before = *rig.volume().engine.counters();
    let measured = traffic::run(&mut rig, &mut load, measured)?;
    let after = *rig.volume().engine.counters();
    let [p50_us, p99_us, p999_us] = measured.percentiles_us([50.0, 99.0, 99.9]);
    let write_amplification = amplification(&before, &after);
    Ok(Some(Scores { mib_s: measured.mib_s(), p50_us, p99_us, p999_us, write_amplification }))
}

/// Fills the volume, and loses the member that the cell wants missing.
fn prepare<'a>(rig: &mut Rig, cell: &'a Cell) -> Result<traffic::Generator<'a>> {
    clients::fill(rig, blocks_of_kib(FILL_KIB))?;
    if cell.is_degraded {
        rig.fail(cell.drives - 1)?;
    }
    Ok(traffic::Generator::new(&cell.traffic, rig.volume_blocks(), cell.seed))
}

/// Requests that write so many turnovers, beside the reads that come with them.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of requests")]
fn load_requests(cell: &Cell, volume_blocks: u64, turnovers: f64) -> u64 {
    let volumes = turnovers * f64::from(100 + cell.reserved_percent) / 100.0;
    let write_blocks = cell.traffic.blocks_mean() * precise_u64(100 - cell.traffic.reads_percent) / 100.0;
    (precise_u64(volume_blocks) * volumes / write_blocks).ceil().max(1.0) as u64
}

#[cfg(test)]
mod tests;
