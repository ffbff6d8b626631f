//! BIZA's figure 11: reads of 4, 64 and 192 KiB, in order and at random, 32 in flight.

use super::biza_rig::BizaRig;
use super::biza10::{QUEUE_DEPTH, SIZES_KIB};
use super::clients::{self, Load, Places, Sizes};
use super::draft::{Cell, Draft};
use super::measurement::{P95, READ_THROUGHPUT, Value, values_of};
use super::rig::{Plan, Rig, Space, blocks_of_kib};
use super::scheme::{Scheme, Stack};
use super::setting::Setting;
use super::stacks::StackRig;
use super::{Conditions, Experiment};
use crate::characterise::plot::{Horizontal, Plot, Shape};
use crate::dmzap::VictimPolicy;
use anyhow::{Context, Result};
use base::time::Nanos;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "biza11",
    title: "BIZA figure 11: reads of 4, 64 and 192 KiB",
    statement: "All arrays read alike, for they read the same drives.",
    run_ms: 300,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

const READ: &str = "read";
const RANDOM_READ: &str = "randread";
const WORKLOADS: [(&str, Places); 2] = [(READ, Places::Sequential), (RANDOM_READ, Places::Uniform)];
/// The volume, which is written in order before: reads meet all dies of the drives, and few of them a window.
const VOLUME_BLOCKS: u64 = (768 << 20) / 4096;
/// Requests of the writes before.
const WRITTEN_KIB: u32 = 64;
/// After filling, until drives have written what they hold in their buffers.
const SETTLE: Nanos = Nanos(2_000_000_000);
/// Blocks read, for each of two halves: before the measurement, and in it.
const READ_BLOCKS: u64 = 192 << 8;
const READS_MAX: u64 = 20_000;
/// Reads of all rows differ by at most so much.
const ALIKE: f64 = 0.1;
const SCHEMES: [Scheme; 6] = [
    Scheme::Biza,
    Scheme::Adaptive,
    Scheme::ZapRaid,
    Scheme::Stack(Stack::DmZapRaizn),
    Scheme::Stack(Stack::MdDmZap),
    Scheme::Stack(Stack::MdConventional),
];

fn cell(scheme: Scheme, workload: &'static str, size_kib: u32) -> Cell {
    let setting =
        Setting { workload: Some(workload), queue_depth: Some(QUEUE_DEPTH), ..Setting::paper(size_kib, 4) };
    Cell { scheme, setting }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (workload, _) in WORKLOADS {
        for size in SIZES_KIB {
            cells.extend(SCHEMES.map(|scheme| cell(scheme, workload, size)));
        }
    }
    cells
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let setting = &cell.setting;
    let blocks = blocks_of_kib(setting.request_kib.context("a size of requests")?);
    let mut plan = Plan::new(cell.scheme, setting, conditions.seed)?;
    let short = Conditions { scale: conditions.scale.min(1.0), ..conditions };
    plan.volume_blocks = short.scaled(VOLUME_BLOCKS).next_multiple_of(768);
    plan.space = Space::Stripes(plan.volume_blocks);
    let places = WORKLOADS.into_iter().find(|(name, _)| setting.workload == Some(*name));
    let requests = (conditions.scaled(READ_BLOCKS) / u64::from(blocks)).clamp(1, READS_MAX);
    let load = Load {
        writes: false,
        places: places.context("a workload")?.1,
        sizes: Sizes::Equal(blocks),
        queue_depth: QUEUE_DEPTH,
        warm_up: requests,
        requests,
        only_degraded: false,
    };
    let written = blocks_of_kib(WRITTEN_KIB);
    let measured = if cell.scheme == Scheme::Biza {
        let mut rig = BizaRig::new(&plan, true)?;
        clients::fill(&mut rig, written)?;
        // Twice the span: docs/experiments.md has figures that were measured so.
        rig.idle(SETTLE)?;
        rig.idle(SETTLE)?;
        clients::run(&mut rig, &load, conditions.seed)?
    } else if let Scheme::Stack(_) = cell.scheme {
        let mut rig = StackRig::new(&plan, VictimPolicy::Greedy)?;
        clients::fill(&mut rig, written)?;
        rig.idle(SETTLE)?;
        clients::run(&mut rig, &load, conditions.seed)?
    } else {
        let mut rig = Rig::new(plan)?;
        clients::fill(&mut rig, written)?;
        rig.idle(SETTLE)?;
        clients::run(&mut rig, &load, conditions.seed)?
    };
    Ok(values_of(&measured, READ_THROUGHPUT))
}

fn judge(draft: &mut Draft) {
    for (id, size) in [("biza11-64k", 64), ("biza11-192k", 192)] {
        draft.value(id, &cell(Scheme::Biza, READ, size), READ_THROUGHPUT);
    }
    for (workload, _) in WORKLOADS {
        for size in SIZES_KIB {
            let all = SCHEMES.map(|scheme| draft.mean(&cell(scheme, workload, size), READ_THROUGHPUT));
            let [biza, adaptive, zapraid, dmzap, md, conventional] = all;
            // Those of the paper that are alike at all sizes, and md, which is at 4 KiB.
            let alike = [biza, adaptive, zapraid, dmzap];
            let (least, most) =
                (alike.into_iter().fold(biza, f64::min), alike.into_iter().fold(biza, f64::max));
            draft.check(
                format!("{workload}, {size} KiB: all but md read alike"),
                least >= (1.0 - ALIKE) * most,
            );
            for (name, md) in [("mdraid+dmzap", md), ("mdraid+conventional", conventional)] {
                let (rule, holds) = if size == SIZES_KIB[0] {
                    ("reads as much as biza-published", (md - biza).abs() <= ALIKE * biza)
                } else {
                    ("is behind biza-published", md < biza)
                };
                draft.check(format!("{workload}, {size} KiB: {name} {rule}"), holds);
            }
            draft.check(
                format!("{workload}, {size} KiB: biza-published is at most 1.03 times as fast"),
                biza <= 1.03 * adaptive,
            );
        }
    }
    let titles = [
        (["biza11-read", "biza11-randread"], "throughput (MiB/s)", READ_THROUGHPUT),
        (["biza11-read-p95", "biza11-randread-p95"], "95th percentile (us)", P95),
    ];
    for (ids, y_title, metric) in titles {
        for (id, (workload, _)) in ids.into_iter().zip(WORKLOADS) {
            let bars = |scheme: Scheme| {
                draft.bars(scheme.name(), &SIZES_KIB.map(|size| cell(scheme, workload, size)), metric)
            };
            draft.plot(Plot {
                id,
                title: if workload == READ { "Reads in order" } else { "Random reads" },
                caption: "32 reads in flight of what was written in order (figure 11).",
                x_title: "request size (KiB)",
                y_title,
                x: Horizontal::Names(SIZES_KIB.iter().map(u32::to_string).collect()),
                shape: Shape::Bars,
                series: SCHEMES.into_iter().map(bars).collect(),
            });
        }
    }
}
