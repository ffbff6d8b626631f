//! Traces: distributions of latencies (StRAID figure 18).

use super::super::draft::{Cell, Draft};
use super::super::measurement::{MEAN, Metric, P50, P95, P99, P999, Value};
use super::super::{Conditions, Experiment};
use super::fig17::VARIANTS;
use super::made_up::TRACES;
use super::traces;
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};
use anyhow::Result;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "straid-fig18",
    title: "StRAID figure 18: latencies of traces",
    statement: "What adapts has latencies no longer than any fixed window or cache.",
    run_ms: 900,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Percentiles that others do not measure.
pub const P10: Metric = Metric { name: "p10_latency_us", unit: "us" };
pub const P25: Metric = Metric { name: "p25_latency_us", unit: "us" };
pub const P75: Metric = Metric { name: "p75_latency_us", unit: "us" };
pub const P90: Metric = Metric { name: "p90_latency_us", unit: "us" };

/// Points of a distribution.
const POINTS: [(f64, Metric); 8] =
    [(10.0, P10), (25.0, P25), (50.0, P50), (75.0, P75), (90.0, P90), (95.0, P95), (99.0, P99), (99.9, P999)];
/// Latencies that differ by less are taken for the same.
const ALIKE: f64 = 1.05;

const PLOTS: [&str; 6] = ["straid-18a", "straid-18b", "straid-18c", "straid-18d", "straid-18e", "straid-18f"];

fn cells() -> Vec<Cell> {
    let of = |name| VARIANTS.map(|variant| traces::cell(variant, 5, name));
    TRACES.iter().flat_map(|trace| of(trace.name)).collect()
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let (measured, _) = traces::run(cell, conditions)?;
    let percentiles = measured.percentiles_us(POINTS.map(|(percent, _)| percent));
    let of_points =
        POINTS.iter().zip(percentiles).map(|((_, metric), value)| Value { metric: *metric, value });
    Ok([Value { metric: MEAN, value: measured.mean_us() }].into_iter().chain(of_points).collect())
}

fn judge(draft: &mut Draft) {
    for (trace, id) in TRACES.iter().zip(PLOTS) {
        let own = VARIANTS.map(|variant| traces::cell(variant, 5, trace.name));
        for metric in [MEAN, P99] {
            let all = own.each_ref().map(|cell| draft.mean(cell, metric));
            let least = all[1..].iter().copied().fold(f64::INFINITY, f64::min);
            let rule = format!(
                "{}: {} of adaptive is at most {ALIKE} of the least of fixed schemes",
                trace.name, metric.name
            );
            draft.check(rule, all[0] <= ALIKE * least);
        }
        let curve = |cell: &Cell| {
            let point = |(percent, metric): (f64, Metric)| (draft.mean(cell, metric), percent);
            Series::by_number(cell.scheme.name(), POINTS.map(point).to_vec())
        };
        let series = own.iter().map(curve).collect();
        draft.plot(Plot {
            id,
            title: trace.name,
            caption: "RAID-5, 5+1, chunks of 8 KiB, 32 requests in flight: 10 to 99.9 % of requests (figure 18).",
            x_title: "latency (us)",
            y_title: "requests (%)",
            x: Horizontal::Numbers,
            shape: Shape::Lines,
            series,
        });
    }
}
