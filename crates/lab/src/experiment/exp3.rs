//! Experiment 3: the size of stripe groups (section 5.2, figure 8).

use super::draft::{Cell, Draft};
use super::measurement::{Metric, P50, WRITE_THROUGHPUT};
use super::read_load::{self, DEGRADED};
use super::scheme::Scheme;
use super::setting::Setting;
use super::{Conditions, Experiment, SIZES_KIB, write_load};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "exp3",
    title: "Exp#3: the size of stripe groups (figure 8)",
    statement: "Throughput of 4- and 8-KiB writes rises with the group size up to 256 stripes and is stable beyond; \
                that of 16-KiB writes does not depend on it. Degraded reads take longer when groups are large.",
    run_ms: 150,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

const GROUPS: [u32; 6] = [4, 16, 64, 256, 1024, 4096];

fn writes(group: u32, size_kib: u32) -> Cell {
    let setting = Setting { group: Some(group), ..Setting::paper(size_kib, size_kib) };
    Cell { scheme: Scheme::ZapRaid, setting }
}

fn reads(group: u32, size_kib: u32) -> Cell {
    let Cell { scheme, setting } = writes(group, size_kib);
    Cell { scheme, setting: Setting { queue_depth: Some(1), workload: Some(DEGRADED), ..setting } }
}

/// Degraded reads without groups.
fn reads_of_append_only() -> Cell {
    let setting = Setting { group: None, ..reads(256, 4).setting };
    Cell { scheme: Scheme::ZoneAppendOnly, setting }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for size in SIZES_KIB {
        cells.extend(GROUPS.map(|group| writes(group, size)));
        cells.extend(GROUPS.map(|group| reads(group, size)));
    }
    cells.push(reads_of_append_only());
    cells
}

fn measure(cell: &Cell, conditions: Conditions) -> anyhow::Result<Vec<super::measurement::Value>> {
    match cell.setting.workload {
        Some(_) => read_load::measure(cell, conditions),
        None => write_load::measure(cell, conditions),
    }
}

fn judge(draft: &mut Draft) {
    draft.value("exp3-g256-4k", &writes(256, 4), WRITE_THROUGHPUT);
    draft.value("exp3-g256-8k", &writes(256, 8), WRITE_THROUGHPUT);
    draft.ratio("exp3-over-g4-4k", (&writes(256, 4), &writes(4, 4)), WRITE_THROUGHPUT, "group=4");
    draft.ratio("exp3-over-g4-8k", (&writes(256, 8), &writes(4, 8)), WRITE_THROUGHPUT, "group=4");
    for size in [4, 8] {
        for group in [1024, 4096] {
            let pair = (&writes(group, size), &writes(256, size));
            draft.ratio("exp3-stable", pair, WRITE_THROUGHPUT, "group=256");
        }
        let found = GROUPS.map(|group| draft.mean(&writes(group, size), WRITE_THROUGHPUT));
        let rises = found[..4].windows(2).all(|pair| pair[1] > pair[0]);
        draft.check(format!("{size} KiB: throughput rises with the group size up to 256"), rises);
    }
    for group in GROUPS.into_iter().filter(|group| *group != 256) {
        let pair = (&writes(group, 16), &writes(256, 16));
        draft.ratio("exp3-16k-unchanged", pair, WRITE_THROUGHPUT, "group=256");
    }
    for size in SIZES_KIB {
        draft.ratio("exp3-degraded-g4096", (&reads(4096, size), &reads(256, size)), P50, "group=256");
    }
    draft.value("exp3-degraded-g256", &reads(256, 4), P50);
    draft.value("exp3-degraded-append-latency", &reads_of_append_only(), P50);
    draft.ratio("exp3-degraded-append", (&reads_of_append_only(), &reads(256, 4)), P50, "zapraid group=256");
    plots(draft);
}

fn plots(draft: &mut Draft) {
    let lines = |draft: &Draft, cell: fn(u32, u32) -> Cell, metric: Metric| {
        SIZES_KIB.map(|size| {
            let values = GROUPS.map(|group| Some(draft.mean(&cell(group, size), metric)));
            Series::by_name(format!("{size} KiB"), values)
        })
    };
    let mut throughput = lines(draft, writes, WRITE_THROUGHPUT).to_vec();
    let quoted = ["exp3-g256-4k", "exp3-g256-8k"].map(|id| (3.0, Some(draft.quoted(id))));
    throughput.push(Series::quoted(quoted));
    let latency = lines(draft, reads, P50).to_vec();
    let figures = [
        ("exp3-8a", "Write throughput by group size", "throughput (MiB/s)", throughput),
        ("exp3-8b", "Median latency of degraded reads by group size", "median latency (us)", latency),
    ];
    for (id, title, y_title, series) in figures {
        draft.plot(Plot {
            id,
            title,
            caption: "Request size = chunk size; writes at queue depth 64, degraded reads one at a time (figure 8).",
            x_title: "stripes of a group",
            y_title,
            x: Horizontal::Names(GROUPS.iter().map(u32::to_string).collect()),
            shape: Shape::Lines,
            series,
        });
    }
}
