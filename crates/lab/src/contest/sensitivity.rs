//! Sensitivity: what the adaptive policy is worth with each of its tuned constants halved and doubled, over the same cells.
//!
//! ```text
//!   cells x (defaults, and each constant halved, doubled) ─> scores ─> geometric mean of variant / defaults, by constant
//! ```
//! A constant that may be half or twice as large for little needs no tuning; one that may not is a guess about drives and loads, and
//! a rule should take its place. The bar: neither throughput nor the 99.9th percentile costs more than 5 % in the mean.

use super::cell::Cell;
use super::verdict::geometric_mean;
use super::{Contestant, Scores, draw, measure_plan};
use crate::experiment::rig::Constants;
use crate::pool;
use anyhow::{Context, Result};
use serde::Serialize;

/// Most that a constant may cost when it is halved or doubled.
const COST_MAX: f64 = 0.05;

/// Place of a constant.
type Place = fn(&mut Constants) -> &mut u32;

/// Names constants with their places.
macro_rules! constants {
    ($($part:ident.$name:ident,)*) => {
        [$((stringify!($name), (|all| &mut all.$part.$name) as Place)),*]
    };
}

/// All tuned constants.
const CONSTANTS: [(&str, Place); 18] = constants![
    shape.small_segments_max,
    shape.large_segments_max,
    shape.spare_per_two_segments,
    shape.small_chunk_blocks,
    shape.large_chunk_blocks,
    shape.append_group_stripes,
    tuned.large_fill_sixths,
    tuned.appends_worth,
    tuned.demand_writes,
    tuned.reaction_ns,
    tuned.stripes_in_flight_least,
    tuned.stripes_in_flight_most,
    tuned.joined_blocks_max,
    tuned.loads_min,
    tuned.lead_eighths,
    tuned.live_per_evidence,
    tuned.skew_eighths,
    tuned.strong_times,
];

/// Cells to run in.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of the cells.
    pub seed: u64,
    /// First cell.
    pub first: u64,
    /// Count of cells.
    pub cells: u64,
    /// Amount written, as a multiple of what is usual.
    pub scale: f64,
}

/// Cost of another value of a constant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the constant.
    pub constant: &'static str,
    /// Default value.
    pub default: u32,
    /// Half of it, or twice as much.
    pub value: u32,
    /// Cells in which there can be an array with this value.
    pub cells: usize,
    /// Cells in which this value gives other figures.
    pub changed: usize,
    /// Geometric mean of throughput over that with the default.
    pub throughput: f64,
    /// The same of the 99th percentile.
    pub p99: f64,
    /// The same of the 99.9th percentile.
    pub p999: f64,
}

impl Row {
    /// True when the value costs more than a constant may.
    #[must_use]
    pub fn costs_too_much(&self) -> bool {
        self.throughput < 1.0 - COST_MAX || self.p999 > 1.0 + COST_MAX
    }

    fn of(variant: &Variant, defaults: &[Option<Scores>], varied: &[Option<Scores>]) -> Row {
        assert_eq!(defaults.len(), varied.len(), "the same cells");
        let pairs: Vec<(Scores, Scores)> =
            defaults.iter().zip(varied).filter_map(|(one, other)| Some(((*one)?, (*other)?))).collect();
        let mean = |value: fn(&Scores) -> f64| {
            geometric_mean(pairs.iter().map(|(default, varied)| value(varied) / value(default)))
        };
        Row {
            constant: variant.name,
            default: variant.default,
            value: variant.value,
            cells: pairs.len(),
            changed: pairs.iter().filter(|(default, varied)| default != varied).count(),
            throughput: mean(|scores| scores.mib_s),
            p99: mean(|scores| scores.p99_us),
            p999: mean(|scores| scores.p999_us),
        }
    }
}

/// Outcome of all runs.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Seed of the cells.
    pub seed: u64,
    /// Amount written, as a multiple of what is usual.
    pub scale: f64,
    /// Cells by name.
    pub cells: Vec<String>,
    /// Constants, each halved and doubled.
    pub rows: Vec<Row>,
    /// No constant costs too much.
    pub passes: bool,
}

/// Constants with one of them changed, or none.
#[derive(Clone, Copy, Debug)]
struct Variant {
    name: &'static str,
    default: u32,
    value: u32,
    constants: Constants,
}

/// The defaults, then each constant halved and doubled; one cannot be halved.
fn variants() -> Vec<Variant> {
    let mut variants =
        vec![Variant { name: "defaults", default: 0, value: 0, constants: Constants::default() }];
    for (name, place) in CONSTANTS {
        let default = *place(&mut Constants::default());
        for value in [default / 2, default * 2].into_iter().filter(|value| *value > 0) {
            let mut constants = Constants::default();
            *place(&mut constants) = value;
            variants.push(Variant { name, default, value, constants });
        }
    }
    variants
}

/// Runs the adaptive policy in each cell with each variant. `done` is told how many runs of how many are over, and which was the last.
///
/// # Errors
/// When a run fails.
pub fn run(options: &Options, done: impl Fn(usize, usize, &str) + Sync) -> Result<Outcome> {
    run_variants(options, &variants(), done)
}

/// Runs these variants, of which the first is the defaults.
fn run_variants(
    options: &Options,
    variants: &[Variant],
    done: impl Fn(usize, usize, &str) + Sync,
) -> Result<Outcome> {
    let Options { seed, first, cells, scale } = *options;
    let cells: Vec<Cell> = (first..first + cells).map(|index| draw(seed, index)).collect::<Result<_>>()?;
    let runs: Vec<(&Variant, &Cell)> =
        variants.iter().flat_map(|variant| cells.iter().map(move |cell| (variant, cell))).collect();
    let measure = |(variant, cell): &(&Variant, &Cell)| {
        let mut plan = Contestant::Adaptive.plan(cell)?;
        plan.constants = variant.constants;
        let context = || format!("{cell}: {} of {}", variant.name, variant.value);
        measure_plan(cell, plan, scale).with_context(context)
    };
    let scores = pool::map(&runs, measure, |count, (variant, cell)| {
        done(count, runs.len(), &format!("setting {}, {} of {}", cell.index, variant.name, variant.value));
    });
    let scores: Vec<Option<Scores>> = scores.into_iter().collect::<Result<_>>()?;
    let mut by_variant = scores.chunks(cells.len());
    let defaults = by_variant.next().context("no cell was run")?;
    let rows: Vec<Row> = variants[1..]
        .iter()
        .zip(by_variant)
        .map(|(variant, varied)| Row::of(variant, defaults, varied))
        .collect();
    let passes = !rows.iter().any(Row::costs_too_much);
    Ok(Outcome { seed, scale, cells: cells.iter().map(ToString::to_string).collect(), rows, passes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_constant_is_listed_once() {
        let constants = Constants::default();
        let all = format!("{:?} {:?}", constants.shape, constants.tuned);
        let named: BTreeSet<&str> =
            all.split([' ', ',', '{', '}']).filter_map(|word| word.strip_suffix(':')).collect();
        let listed: BTreeSet<&str> = CONSTANTS.iter().map(|(name, _)| *name).collect();
        assert_eq!(listed, named);
        assert_eq!(listed.len(), CONSTANTS.len());
    }

    #[test]
    fn each_variant_differs_in_one_constant() {
        for variant in &variants()[1..] {
            let differs = |(_, place): &&(&str, Place)| {
                *place(&mut variant.constants.clone()) != *place(&mut Constants::default())
            };
            let changed: Vec<&str> = CONSTANTS.iter().filter(differs).map(|(name, _)| *name).collect();
            assert_eq!(changed, [variant.name]);
            assert!([variant.default / 2, variant.default * 2].contains(&variant.value), "{variant:?}");
        }
        assert_eq!(variants().len(), 1 + 2 * CONSTANTS.len() - 1, "one block is not halved");
    }

    #[test]
    fn a_row_is_of_the_cells_that_both_have() {
        let scores = |mib_s, p999_us| {
            Some(Scores { mib_s, p50_us: 1.0, p99_us: 1.0, p999_us, write_amplification: 1.0 })
        };
        let variant = variants()[1];
        let defaults = [scores(100.0, 10.0), scores(100.0, 10.0), scores(7.0, 7.0)];
        let row = Row::of(&variant, &defaults, &[scores(90.0, 20.0), scores(100.0, 10.0), None]);
        assert_eq!((row.cells, row.changed), (2, 1));
        assert!((row.throughput - 0.9_f64.sqrt()).abs() < 1e-9 && (row.p999 - 2.0_f64.sqrt()).abs() < 1e-9);
        assert!(row.costs_too_much());
        assert!(!Row::of(&variant, &defaults, &defaults).costs_too_much());
    }

    #[test]
    fn a_constant_that_matters_gives_other_figures() {
        let options = Options { seed: 1, first: 0, cells: 1, scale: 0.02 };
        let wanted = |variant: &Variant| ["defaults", "large_chunk_blocks"].contains(&variant.name);
        let some: Vec<Variant> = variants().into_iter().filter(wanted).collect();
        let outcome = run_variants(&options, &some, |_, _, _| {}).expect("all runs");
        assert_eq!(outcome.rows.iter().map(|row| row.value).collect::<Vec<_>>(), [2, 8]);
        assert!(outcome.rows.iter().all(|row| (row.cells, row.changed) == (1, 1)), "{:?}", outcome.rows);
    }
}
