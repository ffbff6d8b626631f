//! Channels: what it brings that zones of open segments lie on unlike channel groups. Where a drive places zones by number,
//! `take_zones` keeps them apart; where it places them in the order of opening or at random, no choice of a zone can, for the drive has
//! chosen when it is opened (ADR 76). So the first stands for what a map that is known can bring, the others for what is lost without.

use super::clients::{self, Load, Places, Sizes};
use super::draft::{Cell, Draft};
use super::measurement::{
    P50, P99, P999, P9999, Value, WRITE_AMPLIFICATION, WRITE_THROUGHPUT, amplification, values_of,
};
use super::rig::{Plan, Rig, blocks_of_kib};
use super::scheme::Scheme;
use super::setting::Setting;
use super::{Conditions, Experiment};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};
use anyhow::{Context, Result};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "channels-map",
    title: "Channels: writes beside collection, by how drives place zones",
    statement: "Latencies beside collection are lower where it is known which zones share a channel group.",
    run_ms: 4000,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// The map that numbers tell, and those that they do not.
const MAPS: [&str; 3] = ["number", "opening", "random"];
/// Size of requests in KiB, requests in flight: two loads bound by latency, one by throughput.
const LOADS: [(u32, u32); 3] = [(4, 1), (64, 4), (64, 32)];
/// Space in reserve and blocks of a zone, as in `biza15`.
const RESERVED_PERCENT: u32 = 40;
const ZONE_BLOCKS: u32 = 1_408;
/// Times the volume is written before the measurement.
const WARM_UP_VOLUMES: u64 = 2;

fn cell(map: &'static str, (request_kib, queue_depth): (u32, u32)) -> Cell {
    let setting = Setting {
        queue_depth: Some(queue_depth),
        reserved_percent: Some(RESERVED_PERCENT),
        zone_map: Some(map),
        ..Setting::paper(request_kib, 4)
    };
    Cell { scheme: Scheme::Adaptive, setting }
}

fn cells() -> Vec<Cell> {
    MAPS.into_iter().flat_map(|map| LOADS.map(|load| cell(map, load))).collect()
}

/// Fills the volume, writes it until collection has found its rhythm, and measures half of another time.
fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let setting = &cell.setting;
    let request_blocks = blocks_of_kib(setting.request_kib.context("a size of requests")?);
    let mut plan = Plan::new(cell.scheme, setting, conditions.seed)?;
    plan.fill_segments(ZONE_BLOCKS, setting.reserved_percent.context("space in reserve")?)?;
    let mut rig = Rig::new(plan)?;
    clients::fill(&mut rig, blocks_of_kib(64))?;
    let requests = rig.volume_blocks() / u64::from(request_blocks);
    let load = Load {
        writes: true,
        places: Places::Uniform,
        sizes: Sizes::Equal(request_blocks),
        queue_depth: setting.queue_depth.context("a queue depth")?,
        warm_up: WARM_UP_VOLUMES * conditions.scaled(4 * requests).min(requests),
        requests: conditions.scaled(requests / 2),
        only_degraded: false,
    };
    let before = *rig.volume().engine.counters();
    let measured = clients::run(&mut rig, &load, conditions.seed)?;
    let after = *rig.volume().engine.counters();
    let mut values = values_of(&measured, WRITE_THROUGHPUT);
    values.push(Value { metric: P9999, value: measured.percentile_us(99.99) });
    values.push(Value { metric: WRITE_AMPLIFICATION, value: amplification(&before, &after) });
    Ok(values)
}

fn judge(draft: &mut Draft) {
    let name = |(request_kib, depth): (u32, u32)| format!("{request_kib} KiB, {depth} in flight");
    for load in LOADS {
        let [known, opening, random] = MAPS.map(|map| draft.mean(&cell(map, load), P9999));
        let rule = format!("{}: p99.99 is lower where the map is known", name(load));
        draft.check(rule, known < opening.min(random));
    }
    for (id, title, metric) in [
        ("channels-map-p50", "Median", P50),
        ("channels-map-p99", "99th percentile", P99),
        ("channels-map-p999", "99.9th percentile", P999),
        ("channels-map-p9999", "99.99th percentile", P9999),
    ] {
        let series = |map: &'static str| {
            let cells = LOADS.map(|load| cell(map, load));
            Series::by_name(map, cells.iter().map(|cell| Some(draft.mean(cell, metric))))
        };
        let plot = Plot {
            id,
            title,
            caption: "Random writes beside collection, by how drives place zones on channel groups.",
            x_title: "load",
            y_title: "latency (us)",
            x: Horizontal::Names(LOADS.map(name).to_vec()),
            shape: Shape::Bars,
            series: MAPS.into_iter().map(series).collect(),
        };
        draft.plot(plot);
    }
}
