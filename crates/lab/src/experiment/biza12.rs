//! BIZA's figures 12 and 14 with traces: throughput and bytes of flash of all rows that take random writes, 64 requests in flight; and latencies
//! where each request of a trace comes at its time.

use super::biza_rig::BizaRig;
use super::clients;
use super::draft::{Cell, Draft};
use super::measurement::{FLASH_BYTES, Metric, P95, P9999, THROUGHPUT, Value, values_of};
use super::replay;
use super::rig::{Array, Plan, Rig, Space, blocks_of_kib};
use super::scheme::{Scheme, Stack};
use super::setting::Setting;
use super::stacks::StackRig;
use super::student::mean_and_ci95;
use super::wear::{Worn, costs};
use super::{Conditions, Experiment};
use crate::characterise::plot::{Horizontal, Plot, Shape};
use crate::dmzap::VictimPolicy;
use crate::precise::{precise, precise_u64};
use crate::trace::reuse::Reuse;
use crate::trace::{self, Event};
use anyhow::{Context, Result};
use base::time::Nanos;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "biza12",
    title: "BIZA figures 12 and 14: traces",
    statement: "BIZA writes more than stacks of layers, and programs less.",
    run_ms: 2_500,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Traces that are given, by their order. Without any, the first is made up.
const TRACES: [&str; TRACES_MAX] = ["trace", "trace-2", "trace-3", "trace-4"];
/// So many may be given.
pub const TRACES_MAX: usize = 4;
/// The made-up trace of experiment 10, or the one that is given; and writes by reuse distance, as quoted: 91.7 and 9.8 % within 56 MiB, 17 %
/// within 14.
const WORKLOADS: [(&str, Option<Reuse>); 4] = [
    (TRACES[0], None),
    ("reuse-91.7-in-56m", Some(Reuse { within_blocks: 56 << 8, per_mille: 917 })),
    ("reuse-9.8-in-56m", Some(Reuse { within_blocks: 56 << 8, per_mille: 98 })),
    ("reuse-17-in-14m", Some(Reuse { within_blocks: 14 << 8, per_mille: 170 })),
];
const ROWS: [(Scheme, u32); 8] = [
    (Scheme::Biza, 0),
    (Scheme::Adaptive, AREA_ZONES),
    (Scheme::ZoneWriteOnly, AREA_ZONES),
    (Scheme::Stack(Stack::DmZapRaiznMerged), 0),
    (Scheme::Stack(Stack::MdDmZap), 0),
    (Scheme::Stack(Stack::MdDmZapVolatile), 0),
    (Scheme::Stack(Stack::MdConventional), 0),
    (Scheme::BizaPolicy, BIZA_AREA_ZONES),
];
/// Places of rows that are compared.
const BIZA: usize = 0;
const ADAPTIVE: usize = 1;
const MD: usize = 4;
const MD_VOLATILE: usize = 5;
/// Zones of each drive for our write area, or as many as the array can afford.
const AREA_ZONES: u32 = 8;
/// And where it is as published.
const BIZA_AREA_ZONES: u32 = 2;
const QUEUE_DEPTH: u32 = 64;
/// Requests before those that are measured, and these.
const WARM_UP: u64 = 40_000;
const MEASURED: u64 = 60_000;
const VOLUME_BLOCKS: u64 = 1 << 18;
/// Bars.
const TIMES_THROUGHPUT: f64 = 1.77;
const TIMES_FLASH_VOLATILE: f64 = 0.67;
const TIMES_FLASH_BIZA: f64 = 1.00;
const TIMES_FLASH_EACH: f64 = 1.03;

fn cell(row: usize, workload: &'static str) -> Cell {
    let (scheme, zones) = ROWS[row];
    let setting = Setting {
        request_kib: None,
        queue_depth: Some(QUEUE_DEPTH),
        workload: Some(workload),
        write_area_zones: (zones > 0).then_some(zones),
        ..Setting::paper(4, 4)
    };
    Cell { scheme, setting }
}

/// Each request of a trace at its time.
fn timed(row: usize, trace: &'static str) -> Cell {
    let Cell { scheme, setting } = cell(row, trace);
    Cell { scheme, setting: Setting { queue_depth: None, ..setting } }
}

/// So many traces have to be given for a cell of any experiment.
pub fn needs_traces(cell: &Cell) -> usize {
    let more = TRACES.iter().skip(1).position(|name| cell.setting.workload == Some(*name));
    more.map_or(0, |place| place + 2)
}

fn cells() -> Vec<Cell> {
    let names = WORKLOADS.map(|(workload, _)| workload).into_iter().chain(TRACES.into_iter().skip(1));
    let closed = names.flat_map(|workload| (0..ROWS.len()).map(move |row| cell(row, workload)));
    let timed = TRACES.into_iter().flat_map(|trace| (0..ROWS.len()).map(move |row| timed(row, trace)));
    closed.chain(timed).collect()
}

fn events_of(cell: &Cell, conditions: Conditions) -> Result<Vec<Event>> {
    if let Some(number) = TRACES.iter().position(|name| cell.setting.workload == Some(*name))
        && let Some(given) = conditions.traces.get(number)
    {
        return Ok(given.clone());
    }
    let workload = WORKLOADS.into_iter().find(|(name, _)| cell.setting.workload == Some(*name));
    let count = usize::try_from(conditions.scaled(WARM_UP + MEASURED)).context("a count of requests")?;
    Ok(match workload.context("a workload")?.1 {
        Some(reuse) => trace::reuse::events(count, VOLUME_BLOCKS, reuse, conditions.seed),
        None => trace::generated::events(count, VOLUME_BLOCKS, conditions.seed),
    })
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let events = events_of(cell, conditions)?;
    let mut plan = Plan::new(cell.scheme, &cell.setting, conditions.seed)?;
    plan.volume_blocks = trace::volume_blocks(&events).max(VOLUME_BLOCKS);
    let written: u64 = events.iter().map(|event| u64::from(event.blocks + plan.chunk_blocks)).sum();
    // At the worst each request is alone in its stripe.
    plan.space = Space::Stripes(plan.volume_blocks + written);
    plan.afford_write_area()?;
    let depth = cell.setting.queue_depth;
    match cell.scheme {
        Scheme::Biza => {
            let mut rig = BizaRig::new(&plan, true)?;
            replay_on(&mut rig, (&events, depth))
        }
        Scheme::Stack(_) => {
            // Nothing is collected: any policy is the same.
            replay_on(&mut StackRig::new(&plan, VictimPolicy::Greedy)?, (&events, depth))
        }
        _ => replay_on(&mut Rig::new(plan)?, (&events, depth)),
    }
}

/// Writes the volume in order, then replays: the first part does not count.
fn replay_on<A: Array + Worn>(rig: &mut A, (events, depth): (&[Event], Option<u32>)) -> Result<Vec<Value>> {
    clients::fill(rig, blocks_of_kib(64))?;
    let share = precise_u64(WARM_UP) / precise_u64(WARM_UP + MEASURED);
    let first = events.iter().enumerate().find(|(at, _)| precise(*at) >= share * precise(events.len()));
    let (warm_up, measured) = events.split_at(first.map_or(0, |(at, _)| at));
    let replay = |rig: &mut A, events: &[Event]| match depth {
        Some(depth) => replay::closed_loop(rig, events, depth),
        None => replay::open_loop(rig, &from_zero(events)),
    };
    replay(rig, warm_up)?;
    let before = rig.counts_now();
    let figures = replay(rig, measured)?;
    let costs = costs(&before, &rig.counts_now(), &figures);
    Ok(values_of(&figures, THROUGHPUT).into_iter().chain(costs).collect())
}

/// The same events, the first at time 0.
fn from_zero(events: &[Event]) -> Vec<Event> {
    let first = events.first().map_or(Nanos(0), |event| event.at);
    events.iter().map(|event| Event { at: Nanos(event.at.0 - first.0), ..*event }).collect()
}

/// Workloads in a closed loop, and traces by their times, that were measured.
fn measured(draft: &Draft, is_timed: bool) -> Vec<&'static str> {
    let of_first_row = draft.measured().iter().filter(|measured| measured.cell.scheme == ROWS[BIZA].0);
    let wanted = of_first_row.filter(|measured| measured.cell.setting.queue_depth.is_none() == is_timed);
    wanted.filter_map(|measured| measured.cell.setting.workload).collect()
}

/// Geometric mean over the traces of one row over another, seed by seed.
fn times(draft: &Draft, (above, below): (usize, usize), metric: Metric) -> Vec<f64> {
    let both = |workload| [above, below].map(|row| draft.values(&cell(row, workload), metric));
    let all: Vec<[Vec<f64>; 2]> = measured(draft, false).into_iter().map(both).collect();
    let mean = |seed: usize| {
        let logarithms: f64 = all.iter().map(|[above, below]| (above[seed] / below[seed]).ln()).sum();
        (logarithms / precise(all.len())).exp()
    };
    (0..all[0][0].len()).map(mean).collect()
}

fn judge(draft: &mut Draft) {
    let mean = |draft: &Draft, rows, metric| mean_and_ci95(&times(draft, rows, metric)).0;
    let versus = |row: usize| Setting {
        workload: Some("mean-of-traces"),
        queue_depth: Some(QUEUE_DEPTH),
        versus: Some(ROWS[row].0.name().to_owned()),
        ..Setting::paper(0, 0)
    };
    let of_biza = |row| Cell { scheme: Scheme::Biza, setting: versus(row) };
    let metric = Metric { name: "throughput_ratio", unit: "x" };
    let values = times(draft, (BIZA, MD), THROUGHPUT);
    draft.number("biza12-mdraid-dmzap", of_biza(MD), metric, &values);
    let metric = Metric { name: "flash_bytes_ratio", unit: "x" };
    let values = times(draft, (BIZA, MD_VOLATILE), FLASH_BYTES);
    draft.number("biza14-mdraid-dmzap-volatile", of_biza(MD_VOLATILE), metric, &values);
    let holds = mean(draft, (ADAPTIVE, MD), THROUGHPUT) >= TIMES_THROUGHPUT;
    draft.check(format!("adaptive is at least {TIMES_THROUGHPUT} times as fast as mdraid+dmzap"), holds);
    let holds = mean(draft, (ADAPTIVE, MD_VOLATILE), FLASH_BYTES) <= TIMES_FLASH_VOLATILE;
    draft.check(
        format!("adaptive programs at most {TIMES_FLASH_VOLATILE} of mdraid+dmzap with its volatile buffer"),
        holds,
    );
    let holds = mean(draft, (ADAPTIVE, BIZA), FLASH_BYTES) <= TIMES_FLASH_BIZA;
    draft.check("adaptive programs at most as much as biza-published, in the mean", holds);
    for workload in measured(draft, false) {
        let of = |row| draft.mean(&cell(row, workload), FLASH_BYTES);
        let holds = of(ADAPTIVE) <= TIMES_FLASH_EACH * of(BIZA);
        draft.check(
            format!("{workload}: adaptive programs at most {TIMES_FLASH_EACH} of biza-published"),
            holds,
        );
    }
    plots(draft);
}

fn plots(draft: &mut Draft) {
    let closed = "Traces in a closed loop, 64 requests in flight (figures 12 and 14).";
    let by_times = "Traces, each request at its time.";
    let titles = [
        ("biza12", "Throughput", "throughput (MiB/s)", THROUGHPUT, closed),
        ("biza12-flash", "Bytes of flash", "bytes of flash per byte", FLASH_BYTES, closed),
        ("biza12-p95", "95th percentile", "95th percentile (us)", P95, closed),
        ("biza12-timed", "99.99th percentile by timestamps", "99.99th percentile (us)", P9999, by_times),
    ];
    for (id, title, y_title, metric, caption) in titles {
        let is_timed = caption == by_times;
        let workloads = measured(draft, is_timed);
        let bars = |row: usize| {
            let of = |workload| if is_timed { timed(row, workload) } else { cell(row, workload) };
            let cells: Vec<Cell> = workloads.iter().copied().map(of).collect();
            draft.bars(ROWS[row].0.name(), &cells, metric)
        };
        let series = (0..ROWS.len()).map(bars).collect();
        let x = Horizontal::Names(workloads.iter().map(|workload| (*workload).to_owned()).collect());
        draft.plot(Plot { id, title, caption, x_title: "trace", y_title, x, shape: Shape::Bars, series });
    }
}
