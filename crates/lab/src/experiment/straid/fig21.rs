//! A missing member, and the bitmap (StRAID figure 21 and section 4.5).

use super::super::Experiment;
use super::super::draft::{Cell, Draft};
use super::super::measurement::{Metric, READ_THROUGHPUT, WRITE_THROUGHPUT};
use super::{BITMAP_WRITE, CLIENTS, DEGRADED_READ, DEGRADED_WRITE, RANDOM_READ, RANDOM_WRITE, cell, measure};
use crate::characterise::plot::{Horizontal, Plot, Shape};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "straid-fig21",
    title: "StRAID figure 21 and section 4.5: a missing member, and the bitmap",
    statement: "Writes without a member are not slower than with it; the bitmap costs nearly nothing.",
    run_ms: 500,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Slowdown of writes by a bitmap, in percent.
const OVERHEAD: Metric = Metric { name: "bitmap_overhead", unit: "percent" };

const SIZES_KIB: [u32; 3] = [4, 64, 1280];
const WRITES: [(&str, &str); 3] =
    [("whole", RANDOM_WRITE), ("without a member", DEGRADED_WRITE), ("with a bitmap", BITMAP_WRITE)];
const READS: [(&str, &str); 2] = [("whole", RANDOM_READ), ("without a member", DEGRADED_READ)];

fn of(size: u32, workload: &'static str) -> Cell {
    cell(5, size, CLIENTS, workload)
}

fn cells() -> Vec<Cell> {
    let workloads = WRITES.into_iter().chain(READS).map(|(_, workload)| workload);
    workloads.flat_map(|workload| SIZES_KIB.map(|size| of(size, workload))).collect()
}

fn judge(draft: &mut Draft) {
    for size in SIZES_KIB {
        let [without, with] =
            [RANDOM_WRITE, BITMAP_WRITE].map(|workload| draft.values(&of(size, workload), WRITE_THROUGHPUT));
        let slower = without.iter().zip(&with).map(|(without, with)| (1.0 - with / without).max(0.0) * 100.0);
        draft.number(
            "straid-bitmap-overhead",
            of(size, BITMAP_WRITE),
            OVERHEAD,
            &slower.collect::<Vec<f64>>(),
        );
        let [whole, degraded] =
            [RANDOM_WRITE, DEGRADED_WRITE].map(|workload| draft.mean(&of(size, workload), WRITE_THROUGHPUT));
        draft.check(
            format!("{size} KiB: writes without a member reach 0.95 of those with it"),
            degraded >= 0.95 * whole,
        );
    }
    let names = SIZES_KIB.iter().map(u32::to_string).collect::<Vec<String>>();
    for (id, title, kinds, metric) in [
        ("straid-21a", "Random writes of 64 clients, 5+1", &WRITES[..], WRITE_THROUGHPUT),
        ("straid-21b", "Random reads of 64 clients, 5+1", &READS[..], READ_THROUGHPUT),
    ] {
        let bars = |(name, workload): &(&str, &'static str)| {
            draft.bars(name, &SIZES_KIB.map(|size| of(size, workload)), metric)
        };
        let series = kinds.iter().map(bars).collect();
        draft.plot(Plot {
            id,
            title,
            caption: "With all members, without one, with a bitmap of 64-MiB regions (figure 21, section 4.5).",
            x_title: "request (KiB)",
            y_title: "throughput (MiB/s)",
            x: Horizontal::Names(names.clone()),
            shape: Shape::Bars,
            series,
        });
    }
}
