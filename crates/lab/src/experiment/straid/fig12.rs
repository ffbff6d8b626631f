//! Latencies of writes (StRAID figure 12): mean, tail, and how far they are spread.

use super::super::draft::{Cell, Draft};
use super::super::measurement::{MEAN, Metric, P99, Value, WRITE_THROUGHPUT, values_of};
use super::super::scheme::InPlace;
use super::super::{Conditions, Experiment};
use super::{CLIENTS, RANDOM_WRITE, STREAM_WRITE, of, of_all, run_clients};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};
use crate::workload::variation;
use anyhow::Result;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "straid-fig12",
    title: "StRAID figure 12: latencies of writes",
    statement: "Waiting for the rest of a stripe costs writes at random nothing, and those of a stream less than it saves.",
    run_ms: 400,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Standard deviation of latencies over their mean.
pub const SPREAD: Metric = Metric { name: "latency_deviation_over_mean", unit: "x" };

const COUNTS: [u32; 4] = [1, 4, 16, CLIENTS];
const SIZES_KIB: [u32; 3] = [4, 64, 1024];
const WORKLOADS: [&str; 2] = [RANDOM_WRITE, STREAM_WRITE];
const VARIANTS: [InPlace; 3] = [InPlace::Adaptive, InPlace::Straid, InPlace::MdWindow];
/// Latencies that differ by less are taken for the same.
const ALIKE: f64 = 1.05;

fn cells() -> Vec<Cell> {
    of_all(&WORKLOADS, &SIZES_KIB, &COUNTS, &VARIANTS)
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let (measured, _) = run_clients(cell, conditions)?;
    let mut values = values_of(&measured, WRITE_THROUGHPUT);
    values.push(Value { metric: MEAN, value: measured.mean_us() });
    values.push(Value { metric: SPREAD, value: variation(&measured.latencies_us) });
    Ok(values)
}

fn judge(draft: &mut Draft) {
    for workload in WORKLOADS {
        for size in SIZES_KIB {
            for metric in [MEAN, P99] {
                let all = VARIANTS.map(|variant| draft.mean(&of(variant, workload, size, CLIENTS), metric));
                let least = all.into_iter().fold(f64::INFINITY, f64::min);
                let rule = format!(
                    "{workload} of {size} KiB, 64 clients: {} of adaptive is at most {ALIKE} of the least",
                    metric.name
                );
                draft.check(rule, all[0] <= ALIKE * least);
            }
        }
    }
    for (id, title, workload, metric) in [
        ("straid-12-mean", "Mean latency, one stream", STREAM_WRITE, MEAN),
        ("straid-12-p99", "99th percentile, one stream", STREAM_WRITE, P99),
        ("straid-12-random-mean", "Mean latency, at random", RANDOM_WRITE, MEAN),
        ("straid-12-random-p99", "99th percentile, at random", RANDOM_WRITE, P99),
    ] {
        let line = |variant: InPlace| {
            let point =
                |clients: u32| (f64::from(clients), draft.mean(&of(variant, workload, 64, clients), metric));
            let name = of(variant, workload, 64, 1).scheme.name();
            Series::by_number(name, COUNTS.map(point).to_vec())
        };
        let series = VARIANTS.map(line).to_vec();
        draft.plot(Plot {
            id,
            title,
            caption: "64-KiB writes to RAID-5, 5+1, chunks of 64 KiB (figure 12).",
            x_title: "clients",
            y_title: "latency (us)",
            x: Horizontal::Numbers,
            shape: Shape::Lines,
            series,
        });
    }
}
