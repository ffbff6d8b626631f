//! The write area by default: what adapts with as many zones as `--write-area auto` would take, beside the same without (ADR 85).
//!
//! Arrays of 63 segments of ZN540s have 12 or 25 to spare, and an area of one zone of each drive is felt there. Those of 500 segments of
//! PM1731as have hundreds, and active zones besides: there the area gets a fiftieth of what is to spare.

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
/// Per cent in reserve. With the last, small arrays open as many segments for clients as leave no active zones for an area.
const RESERVES: [u32; 3] = [20, 40, 100];
const NO_AREA_FROM: u32 = 100;
/// Writes in flight.
const DEPTHS: [u32; 5] = [1, 2, 8, 32, 64];
/// Settings that are drawn of large arrays, and their seed.
const LARGE_DRAWN: usize = 12;
const LARGE_SEED: u64 = 86;
/// Segments of a large array's volume, and blocks of its zones.
const LARGE_SEGMENTS: u64 = 500;
const LARGE_ZONE_BLOCKS: u32 = 352;
const LARGE_MIB: u32 = 2_062;
/// Segments to spare for each zone of the area. With one of fifty less, the collector moves a fiftieth more where all it does is for want
/// of space.
const SPARE_OF_ZONE: u32 = 50;
/// Zones of the area of each drive; 40 % in reserve leave room for one.
const ZONES: [u32; 2] = [1, 4];
const LARGE_ZONES: [u32; 1] = [8];
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
    let mut small = draw(SEED, DRAWN, false);
    // More of them open as many segments as leave no active zones for an area: that is not measured.
    small.retain(|one| one.reserved_percent < NO_AREA_FROM);
    [small, draw(LARGE_SEED, LARGE_DRAWN, true)].concat()
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

/// Zones of an area that are asked for in a setting.
fn zones_of(one: Drawn) -> &'static [u32] {
    if one.is_large { &LARGE_ZONES } else { &ZONES }
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
    let with =
        |one| std::iter::once(0).chain(zones_of(one).iter().copied()).map(move |zones| cell(one, zones));
    drawn().into_iter().flat_map(with).collect()
}

/// As `auto` uses slots.
fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let mut plan = plan_of(cell, conditions)?;
    plan.slot_use = SlotUse::Idle;
    if let Setting { volume_mib: Some(_), reserved_percent: Some(percent), .. } = cell.setting {
        plan.write_area_zones = 0;
        plan.fill_so_many(LARGE_SEGMENTS, LARGE_ZONE_BLOCKS, percent)?;
        let zones = plan.config()?.segments_spare() / SPARE_OF_ZONE;
        plan.write_area_zones = cell.setting.write_area_zones.unwrap_or(0).min(zones);
        plan.afford_write_area()?;
    }
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
        let without = cell(one, 0);
        for zones in zones_of(one).iter().copied() {
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
    let small: Vec<Drawn> = all.iter().copied().filter(|one| !one.is_large).collect();
    let titles = [
        ("slots-auto-flash", "Bytes of flash", "bytes of flash per byte", FLASH_BYTES),
        ("slots-auto-throughput", "Throughput", "throughput (MiB/s)", WRITE_THROUGHPUT),
        ("slots-auto-p95", "95th percentile", "95th percentile (us)", P95),
        ("slots-auto-p9999", "99.99th percentile", "99.99th percentile (us)", P9999),
    ];
    for (id, title, y_title, metric) in titles {
        let row = |zones: u32| {
            let cells: Vec<Cell> = small.iter().map(|one| cell(*one, zones)).collect();
            draft.bars(&format!("{zones} zones"), &cells, metric)
        };
        let plot = Plot {
            id,
            title,
            caption: "Writes of 4 KiB to an array that adapts and collects.",
            x_title: "setting",
            y_title,
            x: Horizontal::Names(small.iter().map(|one| name_of(*one)).collect()),
            shape: Shape::Bars,
            series: std::iter::once(0).chain(ZONES).map(row).collect(),
        };
        draft.plot(plot);
    }
}
