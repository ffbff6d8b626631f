//! The write area by default: what adapts with as many zones as `--write-area auto` would take, beside the same without (ADR 85).

use super::Experiment;
use super::biza14::{WORKLOADS, measure};
use super::draft::{Cell, Draft};
use super::measurement::{FLASH_BYTES, Metric, P95, P9999, WRITE_THROUGHPUT};
use super::scheme::Scheme;
use super::setting::Setting;
use crate::characterise::plot::{Horizontal, Plot, Shape};
use base::random::Random;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "slots-auto",
    title: "Write area by default: what adapts, with and without",
    statement: "An array that takes a write area without being told to loses nowhere by it.",
    run_ms: 2_500,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Settings that are drawn, and the seed that draws them.
const DRAWN: usize = 24;
const SEED: u64 = 85;
/// Per cent in reserve. With the last, as many segments are open for clients as leave no active zones for an area: that is not measured.
const RESERVES: [u32; 3] = [20, 40, 100];
const NO_AREA_FROM: u32 = 100;
/// Writes in flight.
const DEPTHS: [u32; 5] = [1, 2, 8, 32, 64];
/// Zones of the area of each drive; 40 % in reserve leave room for one.
const ZONES: [u32; 2] = [1, 4];
/// Throughput is at least so much of that without, bytes of flash at most so many times those.
const PART_OF_THROUGHPUT: f64 = 0.98;
const TIMES_FLASH: f64 = 1.0;

/// A load on an array that adapts, with so much in reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Drawn {
    workload: usize,
    depth: u32,
    is_flushed: bool,
    reserved_percent: u32,
}

/// The settings, each once.
fn drawn() -> Vec<Drawn> {
    let random = &mut Random::from_seed(SEED);
    let mut all: Vec<Drawn> = Vec::new();
    while all.len() < DRAWN {
        let workload = random.index(WORKLOADS.len());
        let depth = DEPTHS[random.index(DEPTHS.len())];
        let is_flushed = depth == 1 && random.chance(1, 2);
        let reserved_percent = RESERVES[random.index(RESERVES.len())];
        let one = Drawn { workload, depth, is_flushed, reserved_percent };
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all.retain(|one| one.reserved_percent < NO_AREA_FROM);
    all.sort_by_key(|one| (one.reserved_percent, one.depth, one.workload));
    all
}

fn cell(one: Drawn, zones: u32) -> Cell {
    let setting = Setting {
        queue_depth: Some(one.depth),
        workload: Some(WORKLOADS[one.workload].0),
        write_area_zones: Some(zones),
        flushes: one.is_flushed.then_some(true),
        reserved_percent: Some(one.reserved_percent),
        ..Setting::paper(4, 4)
    };
    Cell { scheme: Scheme::Adaptive, setting }
}

fn cells() -> Vec<Cell> {
    let with = |one| std::iter::once(0).chain(ZONES).map(move |zones| cell(one, zones));
    drawn().into_iter().flat_map(with).collect()
}

fn name_of(one: Drawn) -> String {
    let flushed = if one.is_flushed { ", flushed" } else { "" };
    let Drawn { depth, reserved_percent, .. } = one;
    format!("{}, depth {depth}{flushed}, {reserved_percent} % in reserve", WORKLOADS[one.workload].0)
}

fn judge(draft: &mut Draft) {
    let all = drawn();
    for one in all.iter().copied() {
        let without = cell(one, 0);
        for zones in ZONES {
            let with = cell(one, zones);
            let times =
                |draft: &Draft, metric: Metric| draft.mean(&with, metric) / draft.mean(&without, metric);
            let name = format!("{}, {zones} zones", name_of(one));
            let holds = times(draft, FLASH_BYTES) <= TIMES_FLASH;
            draft.check(format!("{name}: no more bytes of flash than without"), holds);
            let holds = times(draft, WRITE_THROUGHPUT) >= PART_OF_THROUGHPUT;
            draft.check(format!("{name}: at least {PART_OF_THROUGHPUT} of the throughput without"), holds);
        }
    }
    let titles = [
        ("slots-auto-flash", "Bytes of flash", "bytes of flash per byte", FLASH_BYTES),
        ("slots-auto-throughput", "Throughput", "throughput (MiB/s)", WRITE_THROUGHPUT),
        ("slots-auto-p95", "95th percentile", "95th percentile (us)", P95),
        ("slots-auto-p9999", "99.99th percentile", "99.99th percentile (us)", P9999),
    ];
    for (id, title, y_title, metric) in titles {
        let row = |zones: u32| {
            let cells: Vec<Cell> = all.iter().map(|one| cell(*one, zones)).collect();
            draft.bars(&format!("{zones} zones"), &cells, metric)
        };
        let plot = Plot {
            id,
            title,
            caption: "Writes of 4 KiB to an array that adapts and collects.",
            x_title: "setting",
            y_title,
            x: Horizontal::Names(all.iter().map(|one| name_of(*one)).collect()),
            shape: Shape::Bars,
            series: std::iter::once(0).chain(ZONES).map(row).collect(),
        };
        draft.plot(plot);
    }
}
