//! BIZA's figure 14 as far as its rows exist here: bytes of flash for each byte of clients, by how it is told which blocks are worth
//! a slot of the write area (ADR 54). Loads, sizes of the area and manners of writing are drawn at random, once and for all. Beside BIZA as
//! published: `biza14/peer.rs`.

mod peer;

use super::Conditions;
use super::Experiment;
use super::biza_rig::BizaRig;
use super::clients::{Chooser, Load, Places, Sizes, fill, run};
use super::draft::{Cell, Draft};
use super::measurement::{FLASH_BYTES, Metric, P95, P9999, Value, WRITE_THROUGHPUT, values_of};
use super::rig::{Array, Plan, Rig, Space};
use super::scheme::{Scheme, Stack};
use super::setting::Setting;
use super::slots;
use super::stacks::StackRig;
use super::wear::{Worn, costs};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};
use crate::dmzap::VictimPolicy;
use crate::precise::{precise, precise_u64};
use crate::workload::Measured;
use anyhow::{Result, ensure};
use array::log::lifetime::Lifetimes;
use array::log::policy::slots::SlotUse;
use base::random::Random;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "biza14",
    title: "Write area: bytes of flash by load, area and selector",
    statement: "Telling which blocks will be overwritten soon makes the write area absorb more, and costs nothing where none will.",
    run_ms: 2_500,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Loads: hot sets get 90 % of writes, the others go anywhere in 1 GiB.
pub(super) const WORKLOADS: [(&str, Places); 15] = [
    ("uniform", Places::Uniform),
    ("hot-1m", Places::Hot(1 << 8)),
    ("hot-2m", Places::Hot(1 << 9)),
    ("hot-4m", Places::Hot(1 << 10)),
    ("hot-8m", Places::Hot(1 << 11)),
    ("hot-16m", Places::Hot(1 << 12)),
    ("hot-32m", Places::Hot(1 << 13)),
    ("hot-64m", Places::Hot(1 << 14)),
    ("hot-128m", Places::Hot(1 << 15)),
    ("hot-256m", Places::Hot(1 << 16)),
    ("zipf-0.8", Places::Zipf(0.8)),
    ("zipf-0.9", Places::Zipf(0.9)),
    ("zipf-0.99", Places::Zipf(0.99)),
    ("zipf-1.1", Places::Zipf(1.1)),
    ("zipf-1.2", Places::Zipf(1.2)),
];
/// Manners of writing.
const MANNERS: [Manner; 3] = [Manner::Flushed, Manner::Lone, Manner::Deep];
/// Zones of each drive.
const ZONES: [u32; 4] = [2, 4, 6, 8];
/// Selectors, by name, and what slots are for.
const SELECTORS: [(&str, Lifetimes, SlotUse); 4] = [
    ("off", Lifetimes::Off, SlotUse::Wear),
    ("levels", Lifetimes::Levels, SlotUse::Wear),
    ("queues", Lifetimes::Queues, SlotUse::Wear),
    ("levels-at-any-depth", Lifetimes::Levels, SlotUse::AnyDepth),
];
/// Settings that are drawn, and the seed that draws them.
const DRAWN: usize = 24;
const SEED: u64 = 14;
/// Loads of an array that chooses and collects for itself, zones of its area and its reserve.
const COLLECTED: [usize; 4] = [0, 3, 7, 12];
const COLLECTED_ZONES: u32 = 2;
const RESERVED_PERCENT: u32 = 20;
/// Zones of this array: its volume is as large as that of the others.
const ZONE_BLOCKS: u32 = 1_408;
/// Writes before those that are measured: several times as many as there are slots.
const WARM_UP: u64 = 40_000;
const MEASURED: u64 = 60_000;
const VOLUME_BLOCKS: u64 = 1 << 18;
/// Flash bytes may be so many times those of another row, throughput so low a part of it.
const TIMES_FLASH: f64 = 1.03;
const PART_OF_THROUGHPUT: f64 = 0.98;

/// Manner in which clients write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Lone writes, one after the other, each flushed.
    Flushed,
    /// Lone writes, one after the other.
    Lone,
    /// 32 in flight.
    Deep,
}

impl Manner {
    fn queue_depth(self) -> u32 {
        if self == Manner::Deep { 32 } else { 1 }
    }
}

/// A load of some manner beside an area of so many zones; on an array that chooses and collects for itself, with so much in reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Drawn {
    workload: usize,
    manner: Manner,
    zones: u32,
    reserved_percent: Option<u32>,
}

/// The settings, each once.
fn drawn() -> Vec<Drawn> {
    let random = &mut Random::from_seed(SEED);
    let mut all: Vec<Drawn> = Vec::new();
    while all.len() < DRAWN {
        let workload = random.index(WORKLOADS.len());
        let (manner, zones) = (MANNERS[random.index(MANNERS.len())], ZONES[random.index(ZONES.len())]);
        let one = Drawn { workload, manner, zones, reserved_percent: None };
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all.sort_by_key(|one| (one.workload, one.manner as u8, one.zones));
    let collected = COLLECTED.into_iter().flat_map(|workload| {
        [Manner::Flushed, Manner::Deep].map(|manner| Drawn {
            workload,
            manner,
            zones: COLLECTED_ZONES,
            reserved_percent: Some(RESERVED_PERCENT),
        })
    });
    all.extend(collected);
    all
}

/// The cell of a setting with a selector, or without an area.
fn cell(one: Drawn, selector: Option<&'static str>) -> Cell {
    let Drawn { workload, manner, zones, reserved_percent } = one;
    let setting = Setting {
        queue_depth: Some(manner.queue_depth()),
        workload: Some(WORKLOADS[workload].0),
        write_area_zones: Some(if selector.is_some() { zones } else { 0 }),
        flushes: (manner == Manner::Flushed).then_some(true),
        lifetimes: selector,
        reserved_percent,
        ..Setting::paper(4, 4)
    };
    let scheme = if reserved_percent.is_some() { Scheme::Adaptive } else { Scheme::ZoneWriteOnly };
    Cell { scheme, setting }
}

fn cells() -> Vec<Cell> {
    let rows = || std::iter::once(None).chain(SELECTORS.map(|(name, ..)| Some(name)));
    let own = drawn().into_iter().flat_map(|one| rows().map(move |selector| cell(one, selector)));
    let mut all: Vec<Cell> = Vec::new();
    for cell in own.chain(peer::cells()) {
        // Several areas may be drawn for one load, which is measured without one once.
        if !all.contains(&cell) {
            all.push(cell);
        }
    }
    all
}

/// The array of a cell.
pub(super) fn plan_of(cell: &Cell, conditions: Conditions) -> Result<Plan> {
    let mut plan = Plan::new(cell.scheme, &cell.setting, conditions.seed)?;
    match cell.setting.reserved_percent {
        None => {
            plan.volume_blocks = VOLUME_BLOCKS;
            // Without the write area a stripe holds one block.
            let written = conditions.scaled(WARM_UP) + conditions.scaled(MEASURED);
            plan.space = Space::Stripes(VOLUME_BLOCKS + written);
            plan.busy = true;
        }
        Some(percent) => plan.fill_segments(ZONE_BLOCKS, percent)?,
    }
    let selector = SELECTORS.into_iter().find(|(name, ..)| cell.setting.lifetimes == Some(*name));
    if let Some((_, lifetimes, slot_use)) = selector {
        (plan.lifetimes, plan.slot_use) = (lifetimes, slot_use);
    }
    plan.afford_write_area()?;
    Ok(plan)
}

/// Measures a cell: 4-KiB writes of one of [`WORKLOADS`] at the cell's depth, flushed or not.
pub(super) fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    measure_plan(plan_of(cell, conditions)?, cell, conditions)
}

/// The same on any array.
pub(super) fn measure_plan(plan: Plan, cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    if cell.scheme == Scheme::Biza {
        let mut rig = BizaRig::new(&plan, cell.setting.lifetimes != Some("off"))?;
        return measure_on(&mut rig, cell, conditions);
    }
    if matches!(cell.scheme, Scheme::Stack(_)) {
        return measure_stack(&plan, cell, conditions);
    }
    let zones = plan.write_area_zones;
    let mut rig = Rig::new(plan)?;
    let values = measure_on(&mut rig, cell, conditions)?;
    let has_slots = rig.volume().engine.counters().slot_blocks_written > 0;
    ensure!(
        zones == 0 || has_slots || cell.setting.flushes.is_none(),
        "no write area of {zones} zones was opened"
    );
    Ok(values)
}

/// A stack of layers: where space is collected, under the policy that programs less.
fn measure_stack(plan: &Plan, cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let under = |policy| -> Result<Vec<Value>> {
        let mut rig = StackRig::new(plan, policy)?;
        if cell.setting.reserved_percent.is_none() {
            rig.write_volume()?;
        }
        measure_on(&mut rig, cell, conditions)
    };
    let greedy = under(VictimPolicy::Greedy)?;
    if cell.setting.reserved_percent.is_none() || cell.scheme == Scheme::Stack(Stack::MdConventional) {
        return Ok(greedy);
    }
    let cost_benefit = under(VictimPolicy::CostBenefit)?;
    let flash = |values: &[Value]| {
        values.iter().find(|value| value.metric == FLASH_BYTES).map_or(f64::MAX, |value| value.value)
    };
    Ok(if flash(&cost_benefit) < flash(&greedy) { cost_benefit } else { greedy })
}

fn measure_on<A: Array + Worn>(rig: &mut A, cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let Setting { workload, queue_depth, flushes, .. } = cell.setting;
    let (warm_up, requests) = (conditions.scaled(WARM_UP), conditions.scaled(MEASURED).max(1));
    let places = WORKLOADS.into_iter().find(|(name, _)| workload == Some(*name)).map(|(_, places)| places);
    let load = |requests| Load {
        writes: true,
        places: places.unwrap_or(Places::Uniform),
        sizes: Sizes::Equal(1),
        queue_depth: queue_depth.unwrap_or(1),
        warm_up: 0,
        requests,
        only_degraded: false,
    };
    let clients = |rig: &mut A, requests: u64, seed: u64| match flushes {
        Some(true) => flushed(rig, &load(requests), seed),
        _ => run(rig, &load(requests), seed),
    };
    if cell.setting.reserved_percent.is_some() {
        fill(rig, 16)?;
    }
    clients(rig, warm_up, conditions.seed << 1)?;
    let before = rig.counts_now();
    let figures = clients(rig, requests, conditions.seed << 1 | 1)?;
    let costs = costs(&before, &rig.counts_now(), &figures);
    Ok(values_of(&figures, WRITE_THROUGHPUT).into_iter().chain(costs).collect())
}

/// Writes one after the other, each flushed.
fn flushed(rig: &mut impl Array, load: &Load, seed: u64) -> Result<Measured> {
    let mut chooser = Chooser::new(load, rig.volume_blocks(), seed);
    let (mut measured, begin) = (Measured::default(), rig.now());
    for _ in 0..load.requests {
        slots::write(rig, chooser.next_ask().lba, &mut measured)?;
    }
    measured.span_us = precise_u64(rig.now().since(begin).0) / 1000.0;
    Ok(measured)
}

fn name_of(one: Drawn) -> String {
    let manner = match one.manner {
        Manner::Flushed => "flushed",
        Manner::Lone => "lone",
        Manner::Deep => "depth 32",
    };
    let collected = if one.reserved_percent.is_some() { ", collected" } else { "" };
    format!("{} {manner}, {} zones{collected}", WORKLOADS[one.workload].0, one.zones)
}

/// By how much levels alone make flash bytes fewer, seed by seed: geometric means over all settings.
fn compare(draft: &mut Draft, all: &[Drawn]) {
    let of = |selector| {
        let cells: Vec<Cell> = all.iter().map(|one| cell(*one, Some(selector))).collect();
        cells.iter().map(|cell| draft.values(cell, FLASH_BYTES)).collect::<Vec<Vec<f64>>>()
    };
    let (levels, off) = (of("levels"), of("off"));
    let seeds = levels[0].len();
    let mean = |seed: usize| {
        let logarithms = levels.iter().zip(&off).map(|(levels, off)| (levels[seed] / off[seed]).ln());
        (logarithms.sum::<f64>() / precise(all.len())).exp()
    };
    let ratios: Vec<f64> = (0..seeds).map(mean).collect();
    let setting = Setting { versus: Some("lifetimes=off".to_owned()), ..Setting::paper(4, 4) };
    let metric = Metric { name: "flash_bytes_ratio", unit: "x" };
    draft.number("biza14-selector", Cell { scheme: Scheme::ZoneWriteOnly, setting }, metric, &ratios);
}

/// Bars of each row beside one another, by setting.
fn plot_of(
    (id, title, y_title): (&'static str, &'static str, &'static str),
    settings: impl Iterator<Item = String>,
    rows: impl Iterator<Item = Series>,
) -> Plot {
    Plot {
        id,
        title,
        caption: "Writes of 4 KiB to 1 GiB: hot sets get 90 % of them.",
        x_title: "setting",
        y_title,
        x: Horizontal::Names(settings.collect()),
        shape: Shape::Bars,
        series: rows.collect(),
    }
}

fn judge(draft: &mut Draft) {
    judge_selectors(draft);
    peer::judge(draft);
}

fn judge_selectors(draft: &mut Draft) {
    let all = drawn();
    compare(draft, &all);
    for one in all.iter().copied() {
        let without = cell(one, None);
        for (selector, ..) in SELECTORS {
            let own = cell(one, Some(selector));
            let times = |draft: &Draft, than: &Cell, metric: Metric| {
                draft.mean(&own, metric) / draft.mean(than, metric)
            };
            let name = format!("{}, {selector}", name_of(one));
            let holds = times(draft, &without, FLASH_BYTES) <= 1.0;
            draft.check(format!("{name}: no more bytes of flash than without area"), holds);
            let holds = times(draft, &without, WRITE_THROUGHPUT) >= PART_OF_THROUGHPUT;
            draft.check(
                format!("{name}: at least {PART_OF_THROUGHPUT} of the throughput without area"),
                holds,
            );
            if selector != "off" {
                let off = cell(one, Some("off"));
                let holds = times(draft, &off, FLASH_BYTES) <= TIMES_FLASH;
                draft.check(format!("{name}: at most {TIMES_FLASH} times the bytes of flash of off"), holds);
                let holds = times(draft, &off, WRITE_THROUGHPUT) >= PART_OF_THROUGHPUT;
                draft.check(format!("{name}: at least {PART_OF_THROUGHPUT} of the throughput of off"), holds);
            }
        }
    }
    let titles = [
        ("biza14-flash", "Bytes of flash", "bytes of flash per byte", FLASH_BYTES),
        ("biza14-throughput", "Throughput", "throughput (MiB/s)", WRITE_THROUGHPUT),
        ("biza14-p95", "95th percentile", "95th percentile (us)", P95),
        ("biza14-p9999", "99.99th percentile", "99.99th percentile (us)", P9999),
    ];
    for (id, title, y_title, metric) in titles {
        let bars = |selector: Option<&'static str>| -> Series {
            let cells: Vec<Cell> = all.iter().map(|one| cell(*one, selector)).collect();
            draft.bars(selector.unwrap_or("without area"), &cells, metric)
        };
        let rows = std::iter::once(None).chain(SELECTORS.map(|(name, ..)| Some(name)));
        let plot = plot_of((id, title, y_title), all.iter().map(|one| name_of(*one)), rows.map(bars));
        draft.plot(plot);
    }
}
