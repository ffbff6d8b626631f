//! Contests: what adapts against the best of the fixed schemes that were measured in the same setting, cell by cell.

use super::Outcome;
use super::draft::Measured;
use super::measurement::{Metric, P95, THROUGHPUT, WRITE_THROUGHPUT};
use super::scheme::Scheme;
use super::setting::Setting;
use super::student::mean_and_ci95;
use crate::characterise::readable;
use std::fmt::Write;

/// What is contested, and from which ratio to the best on it counts as lost.
const CONTESTED: [(Metric, f64); 3] = [(WRITE_THROUGHPUT, 1.0), (THROUGHPUT, 1.0), (P95, 1.05)];
/// Ratios are rounded to so many digits, as they are shown: what a tenth of a percent decides is no defeat.
const ROUNDING: f64 = 0.0005;
/// Columns of settings.
const SETTING_COLUMNS: usize = 76;

/// One metric of one setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Contest {
    /// Of the adaptive cell.
    pub setting: Setting,
    /// What is contested.
    pub metric: Metric,
    /// What `adaptive` has, the mean over the seeds.
    pub adaptive: f64,
    /// What the best fixed scheme has.
    pub best: f64,
    /// Which that is.
    pub scheme: Scheme,
    /// No less throughput, and a tail no longer than a twentieth more.
    pub is_won: bool,
}

/// The contests of an experiment: none where `adaptive` or all else was not measured.
#[must_use]
pub fn contests(measured: &[Measured]) -> Vec<Contest> {
    let adaptive = measured.iter().filter(|measured| measured.cell.scheme == Scheme::Adaptive);
    adaptive
        .flat_map(|of| CONTESTED.iter().filter_map(|(metric, limit)| contest(measured, of, *metric, *limit)))
        .collect()
}

fn contest(all: &[Measured], adaptive: &Measured, metric: Metric, limit: f64) -> Option<Contest> {
    let setting = &adaptive.cell.setting;
    let is_tail = metric == P95;
    let others = all.iter().filter(|of| of.cell.scheme != Scheme::Adaptive && of.cell.setting == *setting);
    let values = others.filter_map(|of| Some((mean_of(of, metric)?, of.cell.scheme)));
    let (best, scheme) = values.reduce(|a, b| if (b.0 > a.0) == is_tail { a } else { b })?;
    let value = mean_of(adaptive, metric)?;
    let ratio = value / best;
    let is_won = if is_tail { ratio < limit + ROUNDING } else { ratio >= limit - ROUNDING };
    Some(Contest { setting: setting.clone(), metric, adaptive: value, best, scheme, is_won })
}

/// The mean of a metric over the seeds, if the cell has it.
fn mean_of(measured: &Measured, metric: Metric) -> Option<f64> {
    Some(mean_and_ci95(&measured.values(metric)?).0)
}

/// A table of them.
pub fn render(text: &mut String, outcome: &Outcome) {
    let contests = contests(&outcome.measured);
    if contests.is_empty() {
        return;
    }
    let _ = writeln!(text, "  adaptive against the best fixed scheme of the same setting:");
    for contest in &contests {
        let Contest { setting, metric, adaptive, best, scheme, is_won } = contest;
        let mark = if *is_won { "won " } else { "LOST" };
        let _ = writeln!(
            text,
            "  {mark} {:SETTING_COLUMNS$} {:24} {:>9} over {:>9} {:17} {:.3}",
            setting.to_string(),
            metric.name,
            readable(*adaptive),
            readable(*best),
            scheme.name(),
            adaptive / best
        );
    }
    let won = contests.iter().filter(|contest| contest.is_won).count();
    let _ = writeln!(
        text,
        "  {won} of {} won: at least as much throughput, and a 95th percentile at most 5 % higher.\n",
        contests.len()
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::draft::Cell;
    use crate::experiment::measurement::Value;

    fn measured(scheme: Scheme, request_kib: u32, mib_s: f64, p95: f64) -> Measured {
        let run = vec![Value { metric: WRITE_THROUGHPUT, value: mib_s }, Value { metric: P95, value: p95 }];
        Measured { cell: Cell { scheme, setting: Setting::paper(request_kib, 4) }, runs: vec![run] }
    }

    #[test]
    fn each_metric_has_a_best_of_its_own_in_the_same_setting() {
        let all = [
            measured(Scheme::ZapRaid, 4, 100.0, 20.0),
            measured(Scheme::ZoneWriteOnly, 4, 90.0, 10.0),
            measured(Scheme::ZoneWriteOnly, 8, 500.0, 1.0),
            measured(Scheme::Adaptive, 4, 100.0, 10.6),
            measured(Scheme::Adaptive, 16, 1.0, 1.0),
        ];
        let found: Vec<(f64, Scheme, bool)> =
            contests(&all).iter().map(|contest| (contest.best, contest.scheme, contest.is_won)).collect();
        assert_eq!(found, [(100.0, Scheme::ZapRaid, true), (10.0, Scheme::ZoneWriteOnly, false)]);
    }

    #[test]
    fn less_throughput_is_lost_and_a_little_longer_tail_is_not() {
        let all = [measured(Scheme::ZapRaid, 4, 100.0, 20.0), measured(Scheme::Adaptive, 4, 99.9, 20.9)];
        let won: Vec<bool> = contests(&all).iter().map(|contest| contest.is_won).collect();
        assert_eq!(won, [false, true]);
    }
}
