//! Contests: what adapts against the best of the fixed schemes that were measured in the same setting, cell by cell.

use super::Outcome;
use super::draft::Measured;
use super::measurement::{Metric, P95, THROUGHPUT, WRITE_THROUGHPUT};
use super::scheme::Scheme;
use super::setting::Setting;
use super::student::mean_and_ci95;
use crate::characterise::readable;
use std::fmt::Write;

/// Metrics that are contested, each with the ratio to the best from which on it counts as lost.
const CONTESTED: [(Metric, f64); 3] = [(WRITE_THROUGHPUT, 1.0), (THROUGHPUT, 1.0), (P95, 1.05)];
/// Ratios are rounded to so many digits, as they are shown: what a tenth of a percent decides is no defeat.
const ROUNDING: f64 = 0.0005;
/// Columns of settings.
const SETTING_COLUMNS: usize = 76;

/// Contest over one metric in one setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Contest {
    /// Setting of the adaptive cell.
    pub setting: Setting,
    /// Metric that is contested.
    pub metric: Metric,
    /// Value of `adaptive`, the mean over the seeds.
    pub adaptive: f64,
    /// Value of the best fixed scheme.
    pub best: f64,
    /// The best fixed scheme.
    pub scheme: Scheme,
    /// The ratio of both, the mean of those of each seed: the same requests on the same drives.
    pub ratio: f64,
    /// Half the width of its 95 % confidence interval; none for one seed.
    pub ci95: Option<f64>,
    /// Verdict of the contest.
    pub result: Verdict,
}

/// Verdict of a contest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No less throughput, or a tail no longer than a twentieth more.
    Won,
    /// The interval of the ratio holds the limit: seeds differ by more than schemes do.
    Drawn,
    /// Neither.
    Lost,
}

impl Verdict {
    /// `margin` is by how much the ratio is on the good side of the limit.
    fn of(margin: f64, ci95: Option<f64>) -> Verdict {
        match ci95 {
            Some(ci95) if margin.abs() < ci95 => Verdict::Drawn,
            _ if margin >= -ROUNDING => Verdict::Won,
            _ => Verdict::Lost,
        }
    }

    fn mark(self) -> &'static str {
        match self {
            Verdict::Won => "won ",
            Verdict::Drawn => "draw",
            Verdict::Lost => "LOST",
        }
    }
}

/// The contests of an experiment: none where `adaptive` or all else was not measured.
#[must_use]
pub fn contests(measured: &[Measured]) -> Vec<Contest> {
    let adaptive = measured.iter().filter(|measured| measured.cell.scheme.adapts());
    adaptive
        .flat_map(|of| CONTESTED.iter().filter_map(|(metric, limit)| contest(measured, of, *metric, *limit)))
        .collect()
}

fn contest(all: &[Measured], adaptive: &Measured, metric: Metric, limit: f64) -> Option<Contest> {
    let setting = &adaptive.cell.setting;
    let is_tail = metric == P95;
    let mean = |values: &[f64]| mean_and_ci95(values).0;
    let others = all.iter().filter(|of| !of.cell.scheme.adapts() && of.cell.setting == *setting);
    let values = others.filter_map(|of| Some((of.values(metric)?, of.cell.scheme)));
    let (best, scheme) = values.reduce(|a, b| if (mean(&b.0) > mean(&a.0)) == is_tail { a } else { b })?;
    let ours = adaptive.values(metric)?;
    let ratios: Vec<f64> = ours.iter().zip(&best).map(|(ours, best)| ours / best).collect();
    let (ratio, ci95) = mean_and_ci95(&ratios);
    let margin = if is_tail { limit - ratio } else { ratio - limit };
    Some(Contest {
        setting: setting.clone(),
        metric,
        adaptive: mean(&ours),
        best: mean(&best),
        scheme,
        ratio,
        ci95,
        result: Verdict::of(margin, ci95),
    })
}

/// A table of them.
pub fn render(text: &mut String, outcome: &Outcome) {
    let contests = contests(&outcome.measured);
    if contests.is_empty() {
        return;
    }
    let _ = writeln!(text, "  adaptive against the best fixed scheme of the same setting:");
    for contest in &contests {
        let Contest { setting, metric, adaptive, best, scheme, ratio, ci95, result } = contest;
        let interval = ci95.map(|ci95| format!(" \u{b1} {ci95:.3}")).unwrap_or_default();
        let _ = writeln!(
            text,
            "  {} {:SETTING_COLUMNS$} {:24} {:>9} over {:>9} {:17} {ratio:.3}{interval}",
            result.mark(),
            setting.to_string(),
            metric.name,
            readable(*adaptive),
            readable(*best),
            scheme.name(),
        );
    }
    let count = |result| contests.iter().filter(|contest| contest.result == result).count();
    let _ = writeln!(
        text,
        "  {} of {} won: at least as much throughput, or a 95th percentile at most 5 % higher. {} drawn: that lies \
         within the 95 % interval. {} lost.\n",
        count(Verdict::Won),
        contests.len(),
        count(Verdict::Drawn),
        count(Verdict::Lost)
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

    fn results(all: &[Measured]) -> Vec<Verdict> {
        contests(all).iter().map(|contest| contest.result).collect()
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
        let found: Vec<(f64, Scheme)> =
            contests(&all).iter().map(|contest| (contest.best, contest.scheme)).collect();
        assert_eq!(found, [(100.0, Scheme::ZapRaid), (10.0, Scheme::ZoneWriteOnly)]);
        assert_eq!(results(&all), [Verdict::Won, Verdict::Lost]);
    }

    #[test]
    fn less_throughput_is_lost_and_a_little_longer_tail_is_not() {
        let all = [measured(Scheme::ZapRaid, 4, 100.0, 20.0), measured(Scheme::Adaptive, 4, 99.9, 20.9)];
        assert_eq!(results(&all), [Verdict::Lost, Verdict::Won]);
    }

    /// Seeds differ by a half, and by less than that in both schemes alike: what counts is the ratio in each.
    #[test]
    fn seeds_are_compared_one_by_one() {
        let with_seeds = |scheme, mib_s: [f64; 3]| {
            let runs = mib_s.map(|mib_s| measured(scheme, 4, mib_s, 10.0).runs.remove(0));
            Measured { runs: runs.to_vec(), ..measured(scheme, 4, 0.0, 0.0) }
        };
        let against = |ours| {
            results(&[with_seeds(Scheme::ZapRaid, [100.0, 150.0, 200.0]), with_seeds(Scheme::Adaptive, ours)])
                [0]
        };
        assert_eq!(against([99.0, 148.5, 198.0]), Verdict::Lost);
        assert_eq!(against([101.0, 152.0, 202.0]), Verdict::Won);
        assert_eq!(against([99.0, 152.0, 198.0]), Verdict::Drawn);
        assert_eq!(against([101.0, 148.0, 202.0]), Verdict::Drawn);
        assert_eq!(against([100.0, 150.0, 200.0]), Verdict::Won);
    }
}
