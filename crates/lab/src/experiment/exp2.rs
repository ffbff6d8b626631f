//! Experiment 2: normal and degraded reads (section 5.2, figure 7).

use super::draft::{Cell, Draft};
use super::measurement::{Metric, P50, P95, READ_THROUGHPUT};
use super::read_load::{self, DEGRADED, NORMAL};
use super::scheme::Scheme;
use super::setting::Setting;
use super::{Experiment, SIZES_KIB};
use crate::characterise::plot::{Horizontal, Plot, Shape};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "exp2",
    title: "Exp#2: normal and degraded reads (figure 7)",
    statement: "Reads of blocks on a missing drive take little longer than normal reads, with static mapping and with \
                stripe groups alike: all differ by less than 6 %.",
    run_ms: 150,
    cells,
    alike: Cell::clone,
    measure: read_load::measure,
    judge,
};

/// Normal reads, degraded ones with static mapping, degraded ones with stripe groups.
const KINDS: [(&str, Scheme, &str); 3] = [
    ("normal reads", Scheme::ZapRaid, NORMAL),
    ("degraded, static mapping", Scheme::ZoneWriteOnly, DEGRADED),
    ("degraded, stripe groups", Scheme::ZapRaid, DEGRADED),
];

fn cell(scheme: Scheme, size_kib: u32, workload: &'static str) -> Cell {
    let setting = Setting::paper(size_kib, size_kib);
    Cell { scheme, setting: Setting { queue_depth: Some(1), workload: Some(workload), ..setting } }
}

fn cells() -> Vec<Cell> {
    let of_kind = |(_, scheme, workload)| SIZES_KIB.map(|size| cell(scheme, size, workload));
    KINDS.into_iter().flat_map(of_kind).collect()
}

fn judge(draft: &mut Draft) {
    for size in SIZES_KIB {
        let normal = cell(Scheme::ZapRaid, size, NORMAL);
        for (_, scheme, workload) in &KINDS[1..] {
            let degraded = cell(*scheme, size, workload);
            for metric in [READ_THROUGHPUT, P50, P95] {
                let [ours, theirs] = [&degraded, &normal].map(|cell| draft.values(cell, metric));
                let differences: Vec<f64> = ours
                    .iter()
                    .zip(&theirs)
                    .map(|(ours, theirs)| (ours / theirs - 1.0).abs() * 100.0)
                    .collect();
                let setting = Setting { versus: Some(NORMAL.to_owned()), ..degraded.setting.clone() };
                let cell = Cell { scheme: *scheme, setting };
                draft.number("exp2-difference", cell, difference_of(metric), &differences);
            }
        }
    }
    for (id, title, y_title, metric) in [
        ("exp2-7a", "Read throughput", "throughput (MiB/s)", READ_THROUGHPUT),
        ("exp2-7b", "Median read latency", "median latency (us)", P50),
        ("exp2-7c", "95th percentile of read latency", "95th percentile (us)", P95),
    ] {
        let series = KINDS.map(|(name, scheme, workload)| {
            draft.bars(name, &SIZES_KIB.map(|size| cell(scheme, size, workload)), metric)
        });
        draft.plot(Plot {
            id,
            title,
            caption: "Random reads of one chunk, one at a time, of a volume that was filled (figure 7).",
            x_title: "read size = chunk size (KiB)",
            y_title,
            x: Horizontal::Names(SIZES_KIB.iter().map(u32::to_string).collect()),
            shape: Shape::Bars,
            series: series.to_vec(),
        });
    }
}

fn difference_of(metric: Metric) -> Metric {
    let name = match metric.name {
        "p50_latency_us" => "p50_latency_difference",
        "p95_latency_us" => "p95_latency_difference",
        _ => "read_throughput_difference",
    };
    Metric { name, unit: "percent" }
}
