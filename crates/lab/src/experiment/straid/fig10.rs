//! Writes of one to 64 clients (StRAID figures 10 and 12).

use super::super::Experiment;
use super::super::draft::{Cell, Draft};
use super::super::measurement::{Metric, P99, WRITE_THROUGHPUT};
use super::{CLIENTS, RANDOM_WRITE, SEQUENTIAL_WRITE, cell, measure};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "straid-fig10",
    title: "StRAID figures 10 and 12: writes by count of clients",
    statement: "Throughput grows with clients, and whole stripes saturate the drives with eight of them.",
    run_ms: 700,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Clients for whom whole stripes saturate the drives.
const SATURATING: Metric = Metric { name: "saturating_clients", unit: "clients" };
/// Share of the best throughput from which the drives count as saturated.
const SATURATED: f64 = 0.95;

const COUNTS: [u32; 7] = [1, 2, 4, 8, 16, 32, CLIENTS];
/// Requests: part of a chunk, a chunk, the paper's 1 MiB, and whole stripes of both levels.
const SIZES_KIB: [u32; 4] = [4, 64, 1024, 1280];
const LEVELS: [u8; 2] = [5, 6];
const WORKLOADS: [&str; 2] = [RANDOM_WRITE, SEQUENTIAL_WRITE];

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for level in LEVELS {
        for workload in WORKLOADS {
            for size in SIZES_KIB {
                cells.extend(COUNTS.map(|clients| cell(level, size, clients, workload)));
            }
        }
    }
    cells
}

fn judge(draft: &mut Draft) {
    for level in LEVELS {
        let whole = |clients| cell(level, 1280, clients, RANDOM_WRITE);
        let best = COUNTS
            .map(|clients| draft.mean(&whole(clients), WRITE_THROUGHPUT))
            .into_iter()
            .fold(0.0, f64::max);
        let is_enough = |clients: &u32| draft.mean(&whole(*clients), WRITE_THROUGHPUT) >= SATURATED * best;
        let first = COUNTS.into_iter().find(is_enough).unwrap_or(CLIENTS);
        let seeds = draft.values(&whole(1), WRITE_THROUGHPUT).len();
        draft.number("straid-saturating-clients", whole(CLIENTS), SATURATING, &vec![f64::from(first); seeds]);
        for workload in WORKLOADS {
            for size in SIZES_KIB {
                let of = |clients| draft.mean(&cell(level, size, clients, workload), WRITE_THROUGHPUT);
                let grows = of(CLIENTS) >= SATURATED * of(8) && of(8) > of(1);
                draft.check(
                    format!("RAID-{level}, {workload} of {size} KiB: more clients are not slower"),
                    grows,
                );
            }
        }
    }
    for (level, workload, ids) in [
        (5, RANDOM_WRITE, ["straid-10a", "straid-12a"]),
        (5, SEQUENTIAL_WRITE, ["straid-10b", "straid-12b"]),
        (6, RANDOM_WRITE, ["straid-10c", "straid-12c"]),
        (6, SEQUENTIAL_WRITE, ["straid-10d", "straid-12d"]),
    ] {
        for (id, y_title, metric) in
            [(ids[0], "throughput (MiB/s)", WRITE_THROUGHPUT), (ids[1], "99th percentile (us)", P99)]
        {
            let line = |size: u32| {
                let point = |clients: u32| {
                    (f64::from(clients), draft.mean(&cell(level, size, clients, workload), metric))
                };
                Series::by_number(format!("{size} KiB"), COUNTS.map(point).to_vec())
            };
            let series = SIZES_KIB.map(line).to_vec();
            draft.plot(Plot {
                id,
                title: if level == 5 { "RAID-5, 5+1" } else { "RAID-6, 4+2" },
                caption: if workload == RANDOM_WRITE {
                    "Random writes in a closed loop (figures 10 and 12)."
                } else {
                    "Sequential writes, each client in a part of its own (figures 10 and 12)."
                },
                x_title: "clients",
                y_title,
                x: Horizontal::Numbers,
                shape: Shape::Lines,
                series,
            });
        }
    }
}
