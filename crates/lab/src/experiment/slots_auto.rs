//! The write area by default: what adapts with as many zones as `--write-area auto` takes, beside the same without (ADR 85).
//!
//! Arrays of 63 segments of ZN540s have 12 to 63 to spare, and an area of one zone of each drive takes a twelfth of it. Those of 500 segments of
//! PM1731as have a hundred and more: there the area has eight zones of each drive, the most.

use super::Conditions;
use super::Experiment;
use super::biza14::{WORKLOADS, measure_plan, plan_of};
use super::draft::{Cell, Draft};
use super::measurement::{FLASH_BYTES, Metric, P95, P9999, Value, WRITE_THROUGHPUT};
use super::scheme::Scheme;
use super::setting::Setting;
use crate::characterise::plot::{Horizontal, Plot, Shape};
use anyhow::Result;
use array::log::policy::slots::SlotUse;
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
/// Per cent in reserve.
const RESERVES: [u32; 3] = [20, 40, 100];
/// Writes in flight.
const DEPTHS: [u32; 5] = [1, 2, 8, 32, 64];
/// Settings that are drawn of large arrays, and their seed.
const LARGE_DRAWN: usize = 12;
const LARGE_SEED: u64 = 86;
/// Segments of a large array's volume, and blocks of its zones.
const LARGE_SEGMENTS: u64 = 500;
const LARGE_ZONE_BLOCKS: u32 = 352;
const LARGE_MIB: u32 = 2_062;
/// Zones of each drive that are asked for, and segments to spare for each, as with `--write-area auto`.
const ZONES: u32 = 8;
const SPARE_OF_ZONE: u32 = 10;
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
    is_large: bool,
}

/// The settings, each once.
fn drawn() -> Vec<Drawn> {
    [draw(SEED, DRAWN, false), draw(LARGE_SEED, LARGE_DRAWN, true)].concat()
}

fn draw(seed: u64, count: usize, is_large: bool) -> Vec<Drawn> {
    let random = &mut Random::from_seed(seed);
    let mut all: Vec<Drawn> = Vec::new();
    while all.len() < count {
        let workload = random.index(WORKLOADS.len());
        let depth = DEPTHS[random.index(DEPTHS.len())];
        let is_flushed = depth == 1 && random.chance(1, 2);
        let reserved_percent = RESERVES[random.index(RESERVES.len())];
        let one = Drawn { workload, depth, is_flushed, reserved_percent, is_large };
        if !all.contains(&one) {
            all.push(one);
        }
    }
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
        volume_mib: one.is_large.then_some(LARGE_MIB),
        profile: if one.is_large { "pm1731a" } else { "zn540-4tb" },
        ..Setting::paper(4, 4)
    };
    Cell { scheme: Scheme::Adaptive, setting }
}

fn cells() -> Vec<Cell> {
    drawn().into_iter().flat_map(|one| [cell(one, 0), cell(one, ZONES)]).collect()
}

/// As `auto` takes zones and uses slots.
fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let mut plan = plan_of(cell, conditions)?;
    plan.slot_use = SlotUse::Idle;
    let Setting { volume_mib, reserved_percent, write_area_zones, .. } = cell.setting;
    if let (Some(_), Some(percent)) = (volume_mib, reserved_percent) {
        plan.write_area_zones = write_area_zones.unwrap_or(0);
        plan.fill_so_many(LARGE_SEGMENTS, LARGE_ZONE_BLOCKS, percent)?;
        plan.afford_write_area()?;
    }
    plan.write_area_zones = plan.write_area_zones.min(plan.config()?.write_area_zones_worth(SPARE_OF_ZONE));
    measure_plan(plan, cell, conditions)
}

fn name_of(one: Drawn) -> String {
    let flushed = if one.is_flushed { ", flushed" } else { "" };
    let Drawn { depth, reserved_percent, .. } = one;
    let large = if one.is_large { ", large" } else { "" };
    format!("{}, depth {depth}{flushed}, {reserved_percent} % in reserve{large}", WORKLOADS[one.workload].0)
}

fn judge(draft: &mut Draft) {
    let all = drawn();
    for one in all.iter().copied() {
        let (without, with) = (cell(one, 0), cell(one, ZONES));
        let times = |draft: &Draft, metric: Metric| draft.mean(&with, metric) / draft.mean(&without, metric);
        let name = name_of(one);
        let holds = times(draft, FLASH_BYTES) <= TIMES_FLASH;
        draft.check(format!("{name}: no more bytes of flash than without"), holds);
        let holds = times(draft, WRITE_THROUGHPUT) >= PART_OF_THROUGHPUT;
        draft.check(format!("{name}: at least {PART_OF_THROUGHPUT} of the throughput without"), holds);
    }
    let titles = [
        ("slots-auto-flash", "Bytes of flash", "bytes of flash per byte", FLASH_BYTES),
        ("slots-auto-throughput", "Throughput", "throughput (MiB/s)", WRITE_THROUGHPUT),
        ("slots-auto-p95", "95th percentile", "95th percentile (us)", P95),
        ("slots-auto-p9999", "99.99th percentile", "99.99th percentile (us)", P9999),
    ];
    for (id, title, y_title, metric) in titles {
        let row = |(name, zones): (&str, u32)| {
            let cells: Vec<Cell> = all.iter().map(|one| cell(*one, zones)).collect();
            draft.bars(name, &cells, metric)
        };
        let plot = Plot {
            id,
            title,
            caption: "Writes of 4 KiB to an array that adapts and collects.",
            x_title: "setting",
            y_title,
            x: Horizontal::Names(all.iter().map(|one| name_of(*one)).collect()),
            shape: Shape::Bars,
            series: [("without", 0), ("auto", ZONES)].map(row).into(),
        };
        draft.plot(plot);
    }
}
