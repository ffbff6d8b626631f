//! BIZA's figure 10: writes of 4, 64 and 192 KiB, in order and at random, 32 in flight.

use super::biza_rig::BizaRig;
use super::clients::{self, Load, Places, Sizes};
use super::draft::{Cell, Draft};
use super::measurement::{DRIVE_WRITES, FLASH_BYTES, Metric, P95, Value, WRITE_THROUGHPUT, values_of};
use super::rig::{Array, Plan, Rig, Space, blocks_of_kib};
use super::scheme::{Raizn, Scheme, Stack};
use super::setting::Setting;
use super::stacks::StackRig;
use super::student::mean_and_ci95;
use super::wear::{Worn, costs};
use super::write_load::{MEASURED_BYTES, WARM_UP_BYTES};
use super::{Conditions, Experiment, fig2, raizn_load};
use crate::characterise::plot::{Horizontal, Plot, Shape};
use crate::dmzap::VictimPolicy;
use crate::precise::precise;
use anyhow::{Context, Result};
use base::units::BLOCK_BYTES_U64;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "biza10",
    title: "BIZA figure 10: writes of 4, 64 and 192 KiB",
    statement: "BIZA takes most of what four drives can take.",
    run_ms: 600,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

pub(super) const SIZES_KIB: [u32; 3] = [4, 64, 192];
const WRITE: &str = "write";
const RANDOM_WRITE: &str = "randwrite";
const WORKLOADS: [(&str, Places); 2] = [(WRITE, Places::Sequential), (RANDOM_WRITE, Places::Uniform)];
pub(super) const QUEUE_DEPTH: u32 = 32;
/// Chunks of schemes that do not choose them.
const CHUNK_KIB_MAX: u32 = 16;
/// Open segments of these schemes: a zone of each channel of each drive is written at least.
const OPEN_SEGMENTS: u32 = 4;
/// Zones of each drive for the write area of `biza`, as published.
const BIZA_AREA_ZONES: u32 = 2;
/// Written in all beside the size of the volume.
const VOLUME_TIMES: u64 = 3;
/// All open zones of one drive, writes of 128 KiB: what a drive can take.
const DRIVE_CAN_TAKE: (u32, u32) = (14, 128);
/// Drives of data in each stripe.
const DATA_DRIVES: f64 = 3.0;
/// Bars.
const PART_OF_DRIVES: f64 = 0.95;
const TIMES_THROUGHPUT: f64 = 1.03;

/// Rows. `adaptive` has no write area here: it opens as many segments as drives can have open.
const ROWS: [Scheme; 12] = [
    Scheme::Biza,
    Scheme::Adaptive,
    Scheme::ZapRaid,
    Scheme::ZoneWriteOnly,
    Scheme::Raizn(Raizn::Merged),
    Scheme::Stack(Stack::DmZapRaizn),
    Scheme::Stack(Stack::DmZapRaiznMerged),
    Scheme::Stack(Stack::MdDmZap),
    Scheme::Stack(Stack::MdDmZapMerged),
    Scheme::Stack(Stack::MdDmZapVolatile),
    Scheme::Stack(Stack::MdConventional),
    Scheme::BizaPolicy,
];
/// Rows that the paper has, the number that says how many times as fast BIZA is, and that many times.
const STACKS: [(usize, &str, f64); 3] = [
    (5, "biza10-dmzap-raizn", 2.7),
    (7, "biza10-mdraid-dmzap", 2.5),
    (10, "biza10-mdraid-conventional", 1.4),
];

fn cell(row: usize, workload: &'static str, size_kib: u32) -> Cell {
    let scheme = ROWS[row];
    let setting = Setting {
        workload: Some(workload),
        queue_depth: Some(QUEUE_DEPTH),
        small_segments: OPEN_SEGMENTS,
        write_area_zones: (scheme == Scheme::BizaPolicy).then_some(BIZA_AREA_ZONES),
        ..Setting::paper(size_kib, size_kib.min(CHUNK_KIB_MAX))
    };
    Cell { scheme, setting }
}

/// Cell of a drive alone, without an array.
fn drive() -> Cell {
    let (zones, size_kib) = DRIVE_CAN_TAKE;
    let setting = Setting {
        drives: 1,
        level: 0,
        small_segments: zones,
        queue_depth: Some(1),
        ..Setting::paper(size_kib, size_kib)
    };
    Cell { scheme: Scheme::ZoneWriteOnly, setting }
}

/// Zones of the baseline are written in order: no random writes.
fn has(row: usize, workload: &str) -> bool {
    workload == WRITE || !matches!(ROWS[row], Scheme::Raizn(_))
}

fn cells() -> Vec<Cell> {
    let mut cells = vec![drive()];
    for (workload, _) in WORKLOADS {
        for size in SIZES_KIB {
            let rows = (0..ROWS.len()).filter(|row| has(*row, workload));
            cells.extend(rows.map(|row| cell(row, workload, size)));
        }
    }
    cells
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let setting = &cell.setting;
    if setting.drives == 1 {
        return fig2::measure(cell, conditions);
    }
    if let Scheme::Raizn(raizn) = cell.scheme {
        let mut values = raizn_load::measure(raizn, cell, conditions)?;
        let of = |values: &[Value], metric| {
            values.iter().find(|value| value.metric == metric).map(|value| value.value)
        };
        let written = of(&values, DRIVE_WRITES).context("the baseline counts what it writes")?;
        values.retain(|value| value.metric != DRIVE_WRITES);
        values.push(Value { metric: FLASH_BYTES, value: written });
        return Ok(values);
    }
    let (plan, load) = plan_of(cell, conditions)?;
    if cell.scheme == Scheme::Biza {
        let mut rig = BizaRig::new(&plan, true)?;
        return run(&mut rig, &load, conditions.seed);
    }
    if matches!(cell.scheme, Scheme::Stack(_)) {
        // Nothing is collected: any policy is the same.
        let mut rig = StackRig::new(&plan, VictimPolicy::Greedy)?;
        rig.write_volume()?;
        return run(&mut rig, &load, conditions.seed);
    }
    let mut rig = Rig::new(plan)?;
    run(&mut rig, &load, conditions.seed)
}

fn plan_of(cell: &Cell, conditions: Conditions) -> Result<(Plan, Load)> {
    let setting = &cell.setting;
    let size_kib = setting.request_kib.context("a size of requests")?;
    let bytes = u64::from(size_kib) << 10;
    let short = Conditions { scale: conditions.scale.min(1.0), ..conditions };
    let (warm_up, requests) =
        (short.scaled(WARM_UP_BYTES) / bytes, conditions.scaled(MEASURED_BYTES) / bytes);
    let mut plan = Plan::new(cell.scheme, setting, conditions.seed)?;
    let chunks = u64::from(blocks_of_kib(size_kib).div_ceil(plan.chunk_blocks));
    let all = warm_up + requests + u64::from(QUEUE_DEPTH);
    plan.space = Space::Stripes(all * chunks);
    plan.volume_blocks = VOLUME_TIMES * all * bytes / BLOCK_BYTES_U64;
    plan.busy = true;
    let places = WORKLOADS.into_iter().find(|(name, _)| setting.workload == Some(*name));
    let load = Load {
        writes: true,
        places: places.context("a workload")?.1,
        sizes: Sizes::Equal(blocks_of_kib(size_kib)),
        queue_depth: QUEUE_DEPTH,
        warm_up,
        requests: requests.max(1),
        only_degraded: false,
    };
    Ok((plan, load))
}

/// Runs the clients; what is programmed is counted over the whole run.
fn run<A: Array + Worn>(rig: &mut A, load: &Load, seed: u64) -> Result<Vec<Value>> {
    let before = rig.counts_now().of_none_written();
    let measured = clients::run(rig, load, seed)?;
    let costs = costs(&before, &rig.counts_now(), &measured);
    Ok(values_of(&measured, WRITE_THROUGHPUT).into_iter().chain(costs).collect())
}

/// Share of what the drives can take, the mean over sizes and both orders, seed by seed.
fn shares(draft: &Draft, row: usize) -> Vec<f64> {
    let whole = draft.values(&drive(), WRITE_THROUGHPUT);
    let of = |(workload, _): (&'static str, Places)| SIZES_KIB.map(|size| cell(row, workload, size));
    let all: Vec<Vec<f64>> =
        WORKLOADS.into_iter().flat_map(of).map(|cell| draft.values(&cell, WRITE_THROUGHPUT)).collect();
    let mean = |seed: usize| all.iter().map(|values| values[seed]).sum::<f64>() / precise(all.len());
    (0..whole.len()).map(|seed| mean(seed) / (DATA_DRIVES * whole[seed])).collect()
}

/// Geometric mean over sizes and both orders of how many times as fast one row is as another, seed by seed.
fn times(draft: &Draft, fast: usize, slow: usize) -> Vec<f64> {
    let both = |(workload, _): (&'static str, Places)| {
        SIZES_KIB
            .map(|size| [fast, slow].map(|row| draft.values(&cell(row, workload, size), WRITE_THROUGHPUT)))
    };
    let all: Vec<[Vec<f64>; 2]> = WORKLOADS.into_iter().flat_map(both).collect();
    let mean = |seed: usize| {
        let logarithms: f64 = all.iter().map(|[fast, slow]| (fast[seed] / slow[seed]).ln()).sum();
        (logarithms / precise(all.len())).exp()
    };
    (0..all[0][0].len()).map(mean).collect()
}

/// Stacks of layers: how many times as fast BIZA is beside the paper, and `adaptive` beside the bars.
fn judge_stacks(draft: &mut Draft) {
    for (row, id, bar) in STACKS {
        let versus = Some(ROWS[row].name().to_owned());
        let setting = Setting {
            workload: Some("mean-of-six"),
            queue_depth: Some(QUEUE_DEPTH),
            versus,
            ..Setting::paper(0, 0)
        };
        let metric = Metric { name: "write_throughput_ratio", unit: "x" };
        let of_biza = times(draft, 0, row);
        draft.number(id, Cell { scheme: ROWS[0], setting }, metric, &of_biza);
        let ours = mean_and_ci95(&times(draft, 1, row)).0;
        let name = ROWS[row].name();
        draft.check(
            format!("adaptive is at least {bar} times as fast as {name}, the mean of six"),
            ours >= bar,
        );
    }
}

fn judge(draft: &mut Draft) {
    judge_stacks(draft);
    let scheme = ROWS[0];
    let setting = Setting {
        workload: Some("mean-of-six"),
        queue_depth: Some(QUEUE_DEPTH),
        versus: Some("drives".to_owned()),
        ..Setting::paper(0, 0)
    };
    let metric = Metric { name: "share_of_drives", unit: "x" };
    let of_drives = shares(draft, 0);
    draft.number("biza10-share", Cell { scheme, setting }, metric, &of_drives);
    let whole = DATA_DRIVES * draft.mean(&drive(), WRITE_THROUGHPUT);
    for (workload, _) in WORKLOADS {
        for size in SIZES_KIB {
            let of = |row: usize| draft.mean(&cell(row, workload, size), WRITE_THROUGHPUT);
            let (biza, adaptive) = (of(0), of(1));
            let rule =
                format!("{workload}, {size} KiB: biza-published is at most {TIMES_THROUGHPUT} times as fast");
            draft.check(rule, biza <= TIMES_THROUGHPUT * adaptive);
            if size > SIZES_KIB[0] {
                let rule = format!(
                    "{workload}, {size} KiB: adaptive takes at least {PART_OF_DRIVES} of what four drives can"
                );
                draft.check(rule, adaptive >= PART_OF_DRIVES * whole);
            }
        }
    }
    let titles = [
        (["biza10-write", "biza10-randwrite"], "throughput (MiB/s)", WRITE_THROUGHPUT),
        (["biza10-write-p95", "biza10-randwrite-p95"], "95th percentile (us)", P95),
        (["biza10-write-flash", "biza10-randwrite-flash"], "bytes of flash per byte", FLASH_BYTES),
    ];
    for (ids, y_title, metric) in titles {
        for (id, (workload, _)) in ids.into_iter().zip(WORKLOADS) {
            let rows = (0..ROWS.len()).filter(|row| has(*row, workload));
            let bars = |row: usize| {
                draft.bars(ROWS[row].name(), &SIZES_KIB.map(|size| cell(row, workload, size)), metric)
            };
            draft.plot(Plot {
                id,
                title: if workload == WRITE { "Writes in order" } else { "Random writes" },
                caption: "32 writes in flight to four drives, 3+1 (figure 10).",
                x_title: "request size (KiB)",
                y_title,
                x: Horizontal::Names(SIZES_KIB.iter().map(u32::to_string).collect()),
                shape: Shape::Bars,
                series: rows.map(bars).collect(),
            });
        }
    }
}
