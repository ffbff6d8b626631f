//! Verdicts: the adaptive policy against the expert of a cell, and all cells against the bar.

use super::cell::Cell;
use super::{Contestant, Scores};
use crate::precise::precise;
use serde::Serialize;

/// A cell meets the bar with at least this share of the expert's throughput ..
const THROUGHPUT_MIN: f64 = 0.97;
/// .. and at most so many times its 99th and 99.9th percentile.
const TAIL_MAX: f64 = 1.1;
/// Share of cells that must meet it.
const CELLS_MIN: f64 = 0.95;
/// In no cell less throughput than this, of the expert's ..
const THROUGHPUT_WORST: f64 = 0.85;
/// .. nor longer tails.
const TAIL_WORST: f64 = 2.0;
/// A fixed configuration dominates when it has so much more throughput, and tails so much shorter.
const DOMINATES_THROUGHPUT: f64 = 1.03;
const DOMINATES_TAIL: f64 = 1.1;
/// Geometric means over all cells.
const THROUGHPUT_MEAN_MIN: f64 = 1.15;
const TAIL_MEAN_MAX: f64 = 0.8;

/// The adaptive policy in one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Cell in words.
    pub name: String,
    /// The cell.
    pub cell: Cell,
    /// Scores of the adaptive policy.
    pub adaptive: Scores,
    /// Fixed configuration with the highest throughput.
    pub expert: Contestant,
    /// Scores of all fixed configurations that are possible here.
    pub fixed: Vec<(Contestant, Scores)>,
    /// Ratios of the adaptive policy to the expert.
    pub versus_expert: Ratios,
    /// A fixed configuration that is better in throughput and both tails at once.
    pub dominated_by: Option<Contestant>,
    /// The cell meets the bar.
    pub meets: bool,
}

/// Ratios of scores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratios {
    /// Throughput.
    pub throughput: f64,
    /// Median latency.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Write amplification.
    pub write_amplification: f64,
}

impl Ratios {
    fn of(own: &Scores, other: &Scores) -> Ratios {
        Ratios {
            throughput: own.mib_s / other.mib_s,
            p50: own.p50_us / other.p50_us,
            p99: own.p99_us / other.p99_us,
            p999: own.p999_us / other.p999_us,
            write_amplification: own.write_amplification / other.write_amplification,
        }
    }

    fn meets(&self) -> bool {
        self.throughput >= THROUGHPUT_MIN && self.p99 <= TAIL_MAX && self.p999 <= TAIL_MAX
    }

    fn is_bearable(&self) -> bool {
        self.throughput >= THROUGHPUT_WORST && self.p99 <= TAIL_WORST && self.p999 <= TAIL_WORST
    }
}

impl Judged {
    /// Throughput of the expert.
    #[must_use]
    pub fn expert_mib_s(&self) -> f64 {
        self.fixed
            .iter()
            .find(|(contestant, _)| *contestant == self.expert)
            .map_or(0.0, |(_, scores)| scores.mib_s)
    }

    /// Judges a cell; `None` when the adaptive policy or every fixed configuration is missing.
    pub fn new(cell: &Cell, all: impl Iterator<Item = (Contestant, Option<Scores>)>) -> Option<Judged> {
        let scored: Vec<(Contestant, Scores)> =
            all.filter_map(|(contestant, scores)| Some((contestant, scores?))).collect();
        let (adaptive, fixed): (Vec<_>, Vec<_>) =
            scored.into_iter().partition(|(contestant, _)| *contestant == Contestant::Adaptive);
        let (_, adaptive) = *adaptive.first()?;
        let (expert, best) = *fixed.iter().max_by(|(_, a), (_, b)| a.mib_s.total_cmp(&b.mib_s))?;
        let dominates = |(_, scores): &&(Contestant, Scores)| {
            scores.mib_s >= DOMINATES_THROUGHPUT * adaptive.mib_s
                && DOMINATES_TAIL * scores.p99_us <= adaptive.p99_us
                && DOMINATES_TAIL * scores.p999_us <= adaptive.p999_us
        };
        let dominated_by = fixed.iter().find(dominates).map(|(contestant, _)| *contestant);
        let versus_expert = Ratios::of(&adaptive, &best);
        let meets = versus_expert.meets();
        let (name, cell) = (cell.to_string(), cell.clone());
        Some(Judged { name, cell, adaptive, expert, fixed, versus_expert, dominated_by, meets })
    }
}

/// All cells against the bar.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Count of cells.
    pub cells: usize,
    /// Cells that meet the bar.
    pub meeting: usize,
    /// Cells far below the expert: less than 0.85 of its throughput, or a tail more than twice as long.
    pub unbearable: usize,
    /// Cells in which a fixed configuration is better in throughput and both tails at once.
    pub dominated: usize,
    /// Geometric mean of throughput, as a multiple of the expert's.
    pub throughput_mean: f64,
    /// The same of the 99th percentile.
    pub p99_mean: f64,
    /// The same of the 99.9th percentile.
    pub p999_mean: f64,
    /// Least throughput.
    pub throughput_min: f64,
    /// Longest 99.9th percentile.
    pub p999_max: f64,
    /// The whole bar is met.
    pub passes: bool,
}

impl Summary {
    /// Puts cells together.
    #[must_use]
    pub fn of(cells: &[Judged]) -> Summary {
        let ratios = |value: fn(&Ratios) -> f64| cells.iter().map(move |judged| value(&judged.versus_expert));
        let count = |is: fn(&&Judged) -> bool| cells.iter().filter(is).count();
        let meeting = count(|judged| judged.meets);
        let unbearable = count(|judged| !judged.versus_expert.is_bearable());
        let dominated = count(|judged| judged.dominated_by.is_some());
        let throughput_mean = geometric_mean(ratios(|ratios| ratios.throughput));
        let p999_mean = geometric_mean(ratios(|ratios| ratios.p999));
        let is_met = precise(meeting) >= CELLS_MIN * precise(cells.len());
        Summary {
            cells: cells.len(),
            meeting,
            unbearable,
            dominated,
            throughput_mean,
            p99_mean: geometric_mean(ratios(|ratios| ratios.p99)),
            p999_mean,
            throughput_min: ratios(|ratios| ratios.throughput).fold(f64::INFINITY, f64::min),
            p999_max: ratios(|ratios| ratios.p999).fold(0.0, f64::max),
            passes: is_met
                && unbearable == 0
                && dominated == 0
                && throughput_mean >= THROUGHPUT_MEAN_MIN
                && p999_mean <= TAIL_MEAN_MAX,
        }
    }
}

/// Geometric mean of ratios.
pub(super) fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0, 0.0), |(count, sum), value| (count + 1, sum + value.ln()));
    (sum / precise(count)).exp()
}
