//! Experiment 8: garbage collection by reserved space (section 5.2, figure 13).

use super::clients::{self, Load, Places, Sizes};
use super::draft::{Cell, Draft};
use super::measurement::{P95, P999, Value, WRITE_AMPLIFICATION, WRITE_THROUGHPUT, amplification, values_of};
use super::rig::{Plan, Rig, blocks_of_kib, bytes_of};
use super::scheme::Scheme;
use super::setting::Setting;
use super::{Conditions, Experiment};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};
use anyhow::{Context, Result};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "exp8",
    title: "Exp#8: garbage collection by reserved space (figure 13)",
    statement: "Throughput rises with the space in reserve, and is higher for skewed and for sequential writes than for \
                random ones.",
    run_ms: 1800,
    cells,
    alike,
    measure,
    judge,
};

/// A segment in zones of this experiment has fewer stripes than a group: `zone-append-only` would write what `zapraid` does.
const SCHEMES: [Scheme; 3] = [Scheme::ZapRaid, Scheme::ZoneWriteOnly, Scheme::Adaptive];
const RESERVED_PERCENT: [u32; 5] = [20, 40, 60, 80, 100];
const CHUNKS_KIB: [u32; 2] = [4, 16];
/// Name, size of requests, where they go.
const WORKLOADS: [(&str, u32, Places); 4] = [
    ("randwrite-4k", 4, Places::Uniform),
    ("randwrite-64k", 64, Places::Uniform),
    ("zipf-0.99-64k", 64, Places::Zipf(0.99)),
    ("write-64k", 64, Places::Sequential),
];
/// Zones of 2 MiB in place of 1,077. Larger ones give the same, smaller ones do not: what a zone of 1 MiB holds is five
/// programs, so that dies are loaded unevenly.
pub(super) const ZONE_BLOCKS: u32 = 512;
/// Written between the filling and the measurement; less below a quarter of the usual scale. In order, victims are as free after
/// the first time as after the third.
const fn warm_up_volumes(places: Places) -> u64 {
    match places {
        Places::Sequential => 1,
        _ => 3,
    }
}

fn cell(workload: &'static str, request_kib: u32, chunk_kib: u32, reserved_percent: u32) -> Cell {
    of_scheme(Scheme::ZapRaid, workload, request_kib, chunk_kib, reserved_percent)
}

/// A cell of this experiment.
pub(super) fn of_scheme(
    scheme: Scheme,
    workload: &'static str,
    request_kib: u32,
    chunk_kib: u32,
    reserved_percent: u32,
) -> Cell {
    let setting = Setting {
        workload: Some(workload),
        reserved_percent: Some(reserved_percent),
        ..Setting::paper(request_kib, chunk_kib)
    };
    Cell { scheme, setting }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for chunk in CHUNKS_KIB {
        for (name, request, _) in WORKLOADS {
            for scheme in SCHEMES {
                cells
                    .extend(RESERVED_PERCENT.map(|percent| of_scheme(scheme, name, request, chunk, percent)));
            }
        }
    }
    cells
}

/// Returns the cell that stands for this one: the adaptive scheme is told no size of chunks.
fn alike(cell: &Cell) -> Cell {
    let mut alike = cell.clone();
    if cell.scheme == Scheme::Adaptive {
        alike.setting.chunk_kib = CHUNKS_KIB[0];
    }
    alike
}

/// Fills the volume, writes it three times more so that collection has found its rhythm, and measures half of another
/// time: nearly five times the volume in all where writes are random, as the paper's 1 TiB to 200 GiB.
pub(super) fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    measure_in_zones(ZONE_BLOCKS, cell, conditions)
}

/// The same in zones of another size.
pub(super) fn measure_in_zones(zone_blocks: u32, cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let setting = &cell.setting;
    let known = WORKLOADS.iter().find(|(name, ..)| setting.workload == Some(name));
    let (_, request_kib, places) = *known.context("a workload of this experiment")?;
    let request_blocks = blocks_of_kib(request_kib);
    let mut plan = Plan::new(cell.scheme, setting, conditions.seed)?;
    plan.fill_segments(zone_blocks, setting.reserved_percent.unwrap_or(0))?;
    let mut rig = Rig::new(plan)?;
    clients::fill(&mut rig, blocks_of_kib(64))?;
    let requests = rig.volume_blocks() / u64::from(request_blocks);
    let load = Load {
        writes: true,
        places,
        sizes: Sizes::Equal(request_blocks),
        queue_depth: setting.queue_depth.context("a queue depth")?,
        warm_up: warm_up_volumes(places) * conditions.scaled(4 * requests).min(requests),
        requests: conditions.scaled(requests / 2),
        only_degraded: false,
    };
    let before = *rig.volume().engine.counters();
    let measured = clients::run(&mut rig, &load, conditions.seed)?;
    let after = *rig.volume().engine.counters();
    assert!(measured.bytes == load.requests * bytes_of(request_blocks));
    let mut values = values_of(&measured, WRITE_THROUGHPUT);
    values.push(Value { metric: WRITE_AMPLIFICATION, value: amplification(&before, &after) });
    Ok(values)
}

fn judge(draft: &mut Draft) {
    for chunk in CHUNKS_KIB {
        let mean = |draft: &Draft, place: usize, percent| {
            let (name, request, _) = WORKLOADS[place];
            draft.mean(&cell(name, request, chunk, percent), WRITE_THROUGHPUT)
        };
        for (place, (name, ..)) in WORKLOADS.into_iter().enumerate().take(3) {
            let found = RESERVED_PERCENT.map(|percent| mean(draft, place, percent));
            // Where little is left to gain, seeds differ by more.
            let rises = found.windows(2).all(|pair| pair[1] > 0.97 * pair[0]) && found[4] > found[0];
            draft.check(format!("chunks of {chunk} KiB, {name}: throughput rises with the reserve"), rises);
        }
        let skewed =
            RESERVED_PERCENT.iter().all(|percent| mean(draft, 2, *percent) > mean(draft, 1, *percent));
        draft.check(format!("chunks of {chunk} KiB: skewed writes are faster than random ones"), skewed);
        let ordered =
            RESERVED_PERCENT.iter().all(|percent| mean(draft, 3, *percent) > mean(draft, 2, *percent));
        draft.check(format!("chunks of {chunk} KiB: sequential writes are faster than skewed ones"), ordered);
    }
    let figures = [
        ("exp8-13a", "Throughput, 4-KiB chunks", "throughput (MiB/s)", 4, WRITE_THROUGHPUT),
        ("exp8-13b", "Throughput, 16-KiB chunks", "throughput (MiB/s)", 16, WRITE_THROUGHPUT),
        ("exp8-wa", "Write amplification, 4-KiB chunks", "blocks per block", 4, WRITE_AMPLIFICATION),
        ("exp8-p95", "95th percentile, 4-KiB chunks", "95th percentile (us)", 4, P95),
        ("exp8-p999", "99.9th percentile, 4-KiB chunks", "99.9th percentile (us)", 4, P999),
    ];
    for (id, title, y_title, chunk, metric) in figures {
        let series = WORKLOADS.map(|(name, request, _)| {
            let cells = RESERVED_PERCENT.map(|percent| cell(name, request, chunk, percent));
            Series::by_name(name, cells.iter().map(|cell| Some(draft.mean(cell, metric))))
        });
        draft.plot(Plot {
            id,
            title,
            caption: "A volume of 63 segments, written five times over at queue depth 64 (figure 13).",
            x_title: "reserved space (%)",
            y_title,
            x: Horizontal::Names(RESERVED_PERCENT.iter().map(u32::to_string).collect()),
            shape: Shape::Lines,
            series: series.to_vec(),
        });
    }
}
