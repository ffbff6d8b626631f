//! Beyond the paper: loads that ZapRAID as published does not measure, or does not do well.
//!
//! ```text
//!   randwrite-4k        queue depth 1 to 8; at 1, each write waits for company that never comes
//!   randwrite-4k-flush  one client that flushes after each write, as a database does with its log
//!   mixed-30, mixed-50  4-KiB reads and writes, so many percent of them writes, at queue depth 64
//!   randwrite-4k with reserved_percent   collection without end, as in experiment 8
//! ```

use super::clients;
use super::draft::{Cell, Draft};
use super::exp8;
use super::measurement::{Metric, P95, P99, P999, THROUGHPUT, Value, WRITE_THROUGHPUT, values_of};
use super::rig::{Answer, Ask, Plan, Rig, Space, blocks_of_kib, bytes_of};
use super::scheme::{self, Raizn, Scheme};
use super::setting::Setting;
use super::{Conditions, Experiment, write_load};
use crate::characterise::plot::{Horizontal, Plot, Shape};
use crate::precise::precise_u64;
use crate::workload::Measured;
use anyhow::{Context, Result};
use base::random::Random;
use base::time::Instant;
use std::collections::BTreeMap;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "beyond",
    title: "Beyond the paper: few requests at a time, flushes, reads beside writes, collection",
    statement: "Not in the paper. What adapts is at least as fast as the best fixed scheme where few requests are in \
                flight, and its tails are no longer.",
    run_ms: 850,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// 99 % of the latencies of reads, and of writes, are at most this.
pub const READ_P99: Metric = Metric { name: "read_p99_latency_us", unit: "us" };
/// See [`READ_P99`].
pub const WRITE_P99: Metric = Metric { name: "write_p99_latency_us", unit: "us" };

const REQUEST_KIB: u32 = 4;
const DEPTHS: [u32; 4] = [1, 2, 4, 8];
const FLUSHED: &str = "randwrite-4k-flush";
/// Name, and how many of a hundred requests are writes.
const MIXES: [(&str, u64); 2] = [("mixed-30", 30), ("mixed-50", 50)];
const RESERVED_PERCENT: u32 = 20;
/// Requests of a run where each is followed by a flush, and of one with reads and writes.
const FLUSHED_REQUESTS: u64 = 20_000;
const MIXED_REQUESTS: u64 = 60_000;
/// Blocks of the volume that reads and writes of a mix go to: 192 MiB.
const MIXED_VOLUME_BLOCKS: u64 = (192 << 20) / 4096;

fn depth_cell(scheme: Scheme, depth: u32) -> Cell {
    let setting = Setting { queue_depth: Some(depth), ..Setting::paper(REQUEST_KIB, REQUEST_KIB) };
    Cell { scheme, setting }
}

fn flushed_cell(scheme: Scheme) -> Cell {
    let Cell { scheme, setting } = depth_cell(scheme, 1);
    Cell { scheme, setting: Setting { workload: Some(FLUSHED), ..setting } }
}

fn mixed_cell(scheme: Scheme, name: &'static str) -> Cell {
    let setting = Setting { workload: Some(name), ..Setting::paper(REQUEST_KIB, REQUEST_KIB) };
    Cell { scheme, setting }
}

fn collected_cell(scheme: Scheme) -> Cell {
    exp8::of_scheme(scheme, "randwrite-4k", REQUEST_KIB, REQUEST_KIB, RESERVED_PERCENT)
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for scheme in scheme::ALL.into_iter().chain([Scheme::Adaptive]) {
        cells.extend(DEPTHS.map(|depth| depth_cell(scheme, depth)));
        cells.push(flushed_cell(scheme));
        cells.extend(MIXES.map(|(name, _)| mixed_cell(scheme, name)));
        cells.push(collected_cell(scheme));
    }
    // The baseline after RAIZN is only written to.
    cells.extend(DEPTHS.map(|depth| depth_cell(Scheme::Raizn(Raizn::Merged), depth)));
    cells
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let mix = MIXES.iter().find(|(name, _)| cell.setting.workload == Some(name));
    match (cell.setting.workload, mix) {
        (None, _) => write_load::measure(cell, conditions),
        (Some(FLUSHED), _) => flushed(cell, conditions),
        (_, Some((_, writes_percent))) => mixed(cell, conditions, *writes_percent),
        _ => exp8::measure(cell, conditions),
    }
}

/// A rig whose volume has been written once, with room for so many stripes more.
fn filled_rig(cell: &Cell, conditions: Conditions, stripes: u64) -> Result<Rig> {
    let mut plan = Plan::new(cell.scheme, &cell.setting, conditions.seed)?;
    plan.volume_blocks = MIXED_VOLUME_BLOCKS;
    plan.space = Space::Stripes(MIXED_VOLUME_BLOCKS + stripes);
    plan.busy = true;
    let mut rig = Rig::new(plan)?;
    clients::fill(&mut rig, blocks_of_kib(64))?;
    Ok(rig)
}

/// Measures one client that writes and, when that is answered, flushes. The latency is that of both.
fn flushed(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let requests = conditions.scaled(FLUSHED_REQUESTS);
    let mut rig = filled_rig(cell, conditions, requests)?;
    let mut random = Random::from_seed(conditions.seed);
    let (mut measured, mut answers, begin) = (Measured::default(), Vec::new(), rig.now());
    for _ in 0..requests {
        let since = rig.now();
        rig.submit(Ask { writes: true, lba: random.below(rig.volume_blocks()), blocks: 1 });
        rig.wait(None, &mut answers)?;
        rig.flush();
        answers.clear();
        rig.wait(None, &mut answers)?;
        answers.clear();
        measured.latencies_us.push(precise_u64(rig.now().since(since).0) / 1000.0);
        measured.bytes += bytes_of(1);
    }
    measured.span_us = precise_u64(rig.now().since(begin).0) / 1000.0;
    Ok(values_of(&measured, WRITE_THROUGHPUT))
}

/// Reads and writes anywhere in a closed loop.
fn mixed(cell: &Cell, conditions: Conditions, writes_percent: u64) -> Result<Vec<Value>> {
    let requests = conditions.scaled(MIXED_REQUESTS);
    let depth = cell.setting.queue_depth.context("a queue depth")?;
    let mut rig = filled_rig(cell, conditions, requests)?;
    let mut random = Random::from_seed(conditions.seed);
    let mut asked: BTreeMap<u64, (Instant, bool)> = BTreeMap::new();
    let mut of_kind = [Measured::default(), Measured::default()];
    let (mut measured, mut answers, begin): (_, Vec<Answer>, _) =
        (Measured::default(), Vec::new(), rig.now());
    let mut left = requests;
    while left > 0 || !asked.is_empty() {
        while left > 0 && asked.len() < depth as usize {
            let writes = random.below(100) < writes_percent;
            let id = rig.submit(Ask { writes, lba: random.below(rig.volume_blocks()), blocks: 1 });
            asked.insert(id, (rig.now(), writes));
            left -= 1;
        }
        rig.wait(None, &mut answers)?;
        for answer in answers.drain(..) {
            let (since, writes) = asked.remove(&answer.id).context("answered once")?;
            let latency_us = precise_u64(answer.at.since(since).0) / 1000.0;
            of_kind[usize::from(writes)].latencies_us.push(latency_us);
            measured.latencies_us.push(latency_us);
            measured.bytes += bytes_of(1);
        }
    }
    measured.span_us = precise_u64(rig.now().since(begin).0) / 1000.0;
    let mut values = values_of(&measured, THROUGHPUT);
    for (metric, measured) in [READ_P99, WRITE_P99].into_iter().zip(of_kind) {
        values.push(Value { metric, value: measured.figures().p99_us });
    }
    Ok(values)
}

/// A load as it is judged.
struct Judged {
    name: String,
    setting: Setting,
    throughput: Metric,
    /// The tails that count.
    tails: [Metric; 2],
}

fn judged() -> Vec<Judged> {
    let of = |name: &str, cell: Cell, throughput, tails| Judged {
        name: name.to_owned(),
        setting: cell.setting,
        throughput,
        tails,
    };
    let any = Scheme::Adaptive;
    let mut all: Vec<Judged> = DEPTHS
        .map(|depth| {
            of(&format!("queue depth {depth}"), depth_cell(any, depth), WRITE_THROUGHPUT, [P95, P99])
        })
        .into();
    all.push(of("a flush after each write", flushed_cell(any), WRITE_THROUGHPUT, [P95, P99]));
    all.extend(MIXES.map(|(name, _)| of(name, mixed_cell(any, name), THROUGHPUT, [READ_P99, WRITE_P99])));
    all.push(of("collection", collected_cell(any), WRITE_THROUGHPUT, [P95, P999]));
    all
}

fn judge(draft: &mut Draft) {
    for Judged { name, setting, throughput, tails } in judged() {
        let mean =
            |draft: &Draft, scheme, metric| draft.mean(&Cell { scheme, setting: setting.clone() }, metric);
        let fixed = |draft: &Draft, metric| scheme::ALL.map(|scheme| mean(draft, scheme, metric));
        let most = fixed(draft, throughput).into_iter().fold(0.0, f64::max);
        let as_much = mean(draft, Scheme::Adaptive, throughput) >= most;
        draft.check(format!("{name}: adaptive is at least as fast as the best fixed scheme"), as_much);
        for tail in tails {
            let least = fixed(draft, tail).into_iter().fold(f64::INFINITY, f64::min);
            let is_short = mean(draft, Scheme::Adaptive, tail) <= 1.05 * least;
            draft.check(format!("{name}: {} of adaptive is at most 1.05 of the best", tail.name), is_short);
        }
    }
    let schemes = scheme::ALL.into_iter().chain([Scheme::Adaptive]);
    let bars = schemes.map(|scheme| {
        draft.bars(scheme.name(), &DEPTHS.map(|depth| depth_cell(scheme, depth)), WRITE_THROUGHPUT)
    });
    draft.plot(Plot {
        id: "beyond-depth",
        title: "Throughput, 4-KiB writes, few at a time",
        caption: "Random writes of 4 KiB to 3+1 drives; fixed schemes have one open segment of 4-KiB chunks.",
        x_title: "queue depth",
        y_title: "throughput (MiB/s)",
        x: Horizontal::Names(DEPTHS.iter().map(u32::to_string).collect()),
        shape: Shape::Bars,
        series: bars.collect(),
    });
}
