//! The write area: bytes programmed for each byte of clients where every write is flushed, without and with it (ADR 53). The
//! numbers to reach are this project's own.

use super::Conditions;
use super::Experiment;
use super::draft::{Cell, Draft};
use super::measurement::{FLASH_BYTES, P50, P95, Value, WRITE_THROUGHPUT, values_of};
use super::rig::{Answer, Array, Ask, Plan, Rig, Space};
use super::scheme::Scheme;
use super::setting::Setting;
use super::wear::{Worn, costs};
use crate::characterise::plot::{Horizontal, Plot, Shape};
use crate::precise::precise_u64;
use crate::workload::Measured;
use anyhow::{Result, ensure};
use base::random::Random;
use base::units::BLOCK_BYTES_U64;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "slots",
    title: "Write area: flushed writes of 4 KiB, one after the other",
    statement: "Small writes that are flushed cost the flash little more than their size, and hot blocks a fraction of it.",
    run_ms: 1_500,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Writes anywhere in the volume.
const ANYWHERE: &str = "flushed-4k";
/// 90 % of writes to 4 MiB, the others anywhere.
const HOT: &str = "flushed-4k-hot-4m";
const HOT_BLOCKS: u64 = 1_024;
const HOT_PERCENT: u64 = 90;
/// Load, zones of each drive for the write area, and flash bytes per user byte that are to be reached.
const LOADS: [(&str, u32, f64); 2] = [(ANYWHERE, 4, 1.45), (HOT, 6, 0.25)];
/// Latencies with the write area are at most so many times those without.
const TIMES_P95: f64 = 1.05;
/// Writes before those that are measured: several times as many as there are slots.
const WARM_UP: u64 = 24_000;
const MEASURED: u64 = 40_000;
const VOLUME_BLOCKS: u64 = 1 << 18;

fn cell(workload: &'static str, zones: u32) -> Cell {
    let setting = Setting {
        queue_depth: Some(1),
        workload: Some(workload),
        write_area_zones: Some(zones),
        ..Setting::paper(4, 4)
    };
    Cell { scheme: Scheme::ZoneWriteOnly, setting }
}

fn cells() -> Vec<Cell> {
    LOADS.into_iter().flat_map(|(workload, zones, _)| [cell(workload, 0), cell(workload, zones)]).collect()
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let mut plan = Plan::new(cell.scheme, &cell.setting, conditions.seed)?;
    let (warm_up, measured) = (conditions.scaled(WARM_UP), conditions.scaled(MEASURED).max(1));
    plan.volume_blocks = VOLUME_BLOCKS;
    // Without the write area a stripe holds one block.
    plan.space = Space::Stripes(VOLUME_BLOCKS + warm_up + measured);
    plan.busy = true;
    let zones = plan.write_area_zones;
    let mut rig = Rig::new(plan)?;
    let mut random = Random::from_seed(conditions.seed);
    let is_hot = cell.setting.workload == Some(HOT);
    let mut lba = || match is_hot && random.chance(HOT_PERCENT, 100) {
        true => random.below(HOT_BLOCKS),
        false => random.below(VOLUME_BLOCKS),
    };
    let mut figures = Measured::default();
    for _ in 0..warm_up {
        write(&mut rig, lba(), &mut Measured::default())?;
    }
    let before = rig.counts_now();
    let begin = rig.now();
    for _ in 0..measured {
        write(&mut rig, lba(), &mut figures)?;
    }
    figures.span_us = precise_u64(rig.now().since(begin).0) / 1000.0;
    let has_slots = rig.volume().engine.counters().slot_blocks_written > 0;
    ensure!(zones == 0 || has_slots, "no write area of {zones} zones was opened");
    let costs = costs(&before, &rig.counts_now(), &figures);
    Ok(values_of(&figures, WRITE_THROUGHPUT).into_iter().chain(costs).collect())
}

/// A write, and the flush behind it.
pub fn write(rig: &mut impl Array, lba: u64, measured: &mut Measured) -> Result<()> {
    let begin = rig.now();
    rig.submit(Ask { writes: true, lba, blocks: 1 });
    rig.flush();
    let (mut answers, mut answered): (Vec<Answer>, usize) = (Vec::new(), 0);
    while answered < 2 {
        rig.wait(None, &mut answers)?;
        answered += answers.len();
        answers.clear();
    }
    measured.latencies_us.push(precise_u64(rig.now().since(begin).0) / 1000.0);
    measured.bytes += BLOCK_BYTES_U64;
    Ok(())
}

fn judge(draft: &mut Draft) {
    for (workload, zones, flash_max) in LOADS {
        let (without, with) = (cell(workload, 0), cell(workload, zones));
        let rule = format!("{workload}: at most {flash_max} bytes of flash for each byte");
        draft.check(rule, draft.mean(&with, FLASH_BYTES) <= flash_max);
        let rule = format!("{workload}: the 95th percentile is at most {TIMES_P95} times that without");
        draft.check(rule, draft.mean(&with, P95) <= TIMES_P95 * draft.mean(&without, P95));
    }
    let titles = [
        ("slots-flash", "Bytes of flash", "bytes of flash per byte", FLASH_BYTES),
        ("slots-p50", "Median latency", "median latency (us)", P50),
        ("slots-p95", "95th percentile", "95th percentile (us)", P95),
    ];
    for (id, title, y_title, metric) in titles {
        let without: Vec<Cell> = LOADS.into_iter().map(|(workload, ..)| cell(workload, 0)).collect();
        let with: Vec<Cell> = LOADS.into_iter().map(|(workload, zones, _)| cell(workload, zones)).collect();
        let plot = Plot {
            id,
            title,
            caption: "Writes of 4 KiB one after the other, each flushed: anywhere, and 90 % to 4 MiB.",
            x_title: "load",
            y_title,
            x: Horizontal::Names(LOADS.into_iter().map(|(workload, ..)| workload.to_owned()).collect()),
            shape: Shape::Bars,
            series: vec![
                draft.bars("without", &without, metric),
                draft.bars("with the write area", &with, metric),
            ],
        };
        draft.plot(plot);
    }
}
