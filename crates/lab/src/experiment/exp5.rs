//! Experiment 5: recovery from a crash and of a whole drive (section 5.2, figure 10).

use super::clients;
use super::draft::{Cell, Draft};
use super::measurement::{Metric, Value};
use super::rig::{Plan, Rig, Space, blocks_of_kib};
use super::scheme::Scheme;
use super::setting::Setting;
use super::student::mean_and_ci95;
use super::{Conditions, Experiment, SIZES_KIB};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};
use crate::precise::precise_u64;
use anyhow::{Result, ensure};
use array::log::config::SummaryEvery;
use base::units::BLOCK_BYTES_U64;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "exp5",
    title: "Exp#5: recovery from a crash and of a whole drive (figure 10)",
    statement: "Both take time in proportion to the volume; that of a crash does not depend on the size of chunks, \
                that of a drive is shorter with larger ones.",
    run_ms: 900,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Volumes, in place of the paper's 100 to 1,000 GiB.
const VOLUMES_MIB: [u32; 3] = [288, 576, 1152];
/// Small zones, so that a volume takes several segments.
const ZONE_BLOCKS: u32 = (32 << 20) / 4096;
/// MiB of data in a segment of small zones: one zone per data drive.
const SEGMENT_MIB: u32 = 96;
/// Blocks written beyond whole segments: a mount reads all of a segment that is not sealed, and volumes must not
/// differ in that.
const OPEN_BLOCKS: u64 = 1536;
/// Data chunks of a stripe: a volume is so many times what a drive of it holds.
const DATA_DRIVES: f64 = 3.0;
/// Blocks in flight when the power goes.
const IN_FLIGHT: u64 = 64;
/// The drive that is lost.
const FAILED: usize = 1;

/// Data in a segment that is still open, in zones of the drive.
const OPEN_MIB: [u32; 2] = [288, 1152];
/// Most that is open of a segment: three zones of data. After a crash with one segment for clients there is that, and the
/// collector's.
const OPEN_MIB_MAX: f64 = 3.0 * 1077.0;

/// Volumes of drives that are filled before they are used, in zones of the drive: a mount with a checkpoint.
const FILLED_GIB: [u32; 3] = [8, 16, 32];
/// Blocks that clients write after the checkpoint.
const SINCE_BLOCKS: u64 = (256 << 20) / BLOCK_BYTES_U64;

const CRASH: &str = "crash";
const CRASH_CHECKPOINT: &str = "crash-checkpoint";
const CRASH_OPEN: &str = "crash-open";
/// A segment without summaries, as the collector's are.
const CRASH_OPEN_UNDESCRIBED: &str = "crash-open-undescribed";
const DRIVE: &str = "drive";

pub const MOUNT: Metric = Metric { name: "recovery_time_ms", unit: "ms" };
/// With nothing in flight: the same but for torn stripes, whose repair differs from run to run.
pub const MOUNT_AT_REST: Metric = Metric { name: "recovery_time_at_rest_ms", unit: "ms" };
/// Without a checkpoint and with nothing open: footers alone.
pub const MOUNT_FOOTERS: Metric = Metric { name: "recovery_time_footers_ms", unit: "ms" };
pub const REBUILD: Metric = Metric { name: "rebuild_time_ms", unit: "ms" };
pub const RATE: Metric = Metric { name: "rebuild_rate_mib_s", unit: "MiB/s" };

fn cell(workload: &'static str, chunk_kib: u32, volume_mib: u32) -> Cell {
    let setting = Setting {
        request_kib: None,
        queue_depth: None,
        workload: Some(workload),
        volume_mib: Some(volume_mib),
        ..Setting::paper(0, chunk_kib)
    };
    Cell { scheme: Scheme::ZapRaid, setting }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for workload in [CRASH, DRIVE] {
        for chunk in SIZES_KIB {
            cells.extend(VOLUMES_MIB.map(|volume| cell(workload, chunk, volume)));
        }
    }
    for chunk in SIZES_KIB {
        cells.extend(FILLED_GIB.map(|gib| filled_cell(chunk, gib)));
    }
    for workload in [CRASH_OPEN, CRASH_OPEN_UNDESCRIBED] {
        cells.extend(OPEN_MIB.map(|data| cell(workload, 4, data)));
    }
    cells
}

fn filled_cell(chunk_kib: u32, gib: u32) -> Cell {
    cell(CRASH_CHECKPOINT, chunk_kib, gib * 1024)
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let setting = &cell.setting;
    let mut plan = Plan::new(cell.scheme, setting, conditions.seed)?;
    if setting.workload == Some(CRASH_CHECKPOINT) {
        let blocks = u64::from(blocks_of_kib(setting.volume_mib.unwrap_or(0) * 1024));
        return crash_with_checkpoint(Rig::new(plan.filled(conditions.scaled(blocks))?)?, conditions);
    }
    if setting.workload == Some(CRASH_OPEN_UNDESCRIBED) {
        plan.summaries = SummaryEvery::Never;
    }
    if [Some(CRASH_OPEN), Some(CRASH_OPEN_UNDESCRIBED)].contains(&setting.workload) {
        let blocks = u64::from(blocks_of_kib(setting.volume_mib.unwrap_or(0) * 1024));
        plan.volume_blocks = conditions.scaled(blocks).next_multiple_of(16);
        plan.space = Space::Stripes(plan.volume_blocks);
        let mut rig = Rig::new(plan)?;
        clients::fill(&mut rig, blocks_of_kib(64))?;
        return crash(rig);
    }
    plan.profile = plan.profile.with_small_zones(ZONE_BLOCKS).with_one_group();
    plan.zone_capacity_blocks = ZONE_BLOCKS;
    plan.volume_blocks = 1;
    let segment_blocks = u64::from(plan.config()?.user_layout().segment_data_blocks());
    let segments = conditions.scaled(u64::from(setting.volume_mib.unwrap_or(0) / SEGMENT_MIB));
    plan.volume_blocks = (segments * segment_blocks + OPEN_BLOCKS).next_multiple_of(16);
    plan.space = Space::Stripes(plan.volume_blocks / u64::from(blocks_of_kib(setting.chunk_kib)));
    let mut rig = Rig::new(plan)?;
    clients::fill(&mut rig, blocks_of_kib(64))?;
    if setting.workload == Some(CRASH) { crash(rig) } else { lose_drive(rig) }
}

/// The power goes at rest, and again while clients write.
fn crash(mut rig: Rig) -> Result<Vec<Value>> {
    // No segment is half sealed: volumes must not differ in that.
    rig.quiesce()?;
    let (rig, at_rest) = rig.crash()?;
    let (_, took) = rig.crash_in_writes(IN_FLIGHT)?;
    let times = [(MOUNT, took), (MOUNT_AT_REST, at_rest)];
    Ok(times.into_iter().map(|(metric, took)| Value { metric, value: precise_u64(took.0) / 1e6 }).collect())
}

/// The power goes when a checkpoint was written, and again while clients write.
fn crash_with_checkpoint(mut rig: Rig, conditions: Conditions) -> Result<Vec<Value>> {
    let footers = rig.mount_time();
    rig.write_checkpoint()?;
    let (mut rig, at_rest) = rig.crash()?;
    clients::write_at_random(&mut rig, conditions.scaled(SINCE_BLOCKS), conditions.seed)?;
    let (rig, took) = rig.crash_in_writes(IN_FLIGHT)?;
    ensure!(rig.volume().engine.has_checkpoint(), "the checkpoint was not used");
    let times = [(MOUNT, took), (MOUNT_AT_REST, at_rest), (MOUNT_FOOTERS, footers)];
    Ok(times.into_iter().map(|(metric, took)| Value { metric, value: precise_u64(took.0) / 1e6 }).collect())
}

fn lose_drive(mut rig: Rig) -> Result<Vec<Value>> {
    rig.quiesce()?;
    rig.fail(FAILED)?;
    let took = rig.rebuild(FAILED)?;
    let bytes = rig.volume().engine.counters().blocks_rebuilt * BLOCK_BYTES_U64;
    let rate = precise_u64(bytes) / 1_048_576.0 / (precise_u64(took.0) / 1e9);
    let time = Value { metric: REBUILD, value: precise_u64(took.0) / 1e6 };
    Ok(vec![time, Value { metric: RATE, value: rate }])
}

/// Milliseconds that a mount takes for each GiB more between two volumes, by seed.
fn slope(draft: &Draft, (smaller, larger): (&Cell, &Cell), metric: Metric) -> Vec<f64> {
    let mib = |cell: &Cell| f64::from(cell.setting.volume_mib.unwrap_or(0));
    let gib = (mib(larger) - mib(smaller)) / 1024.0;
    let [before, after] = [smaller, larger].map(|cell| draft.values(cell, metric));
    before.iter().zip(&after).map(|(before, after)| (after - before) / gib).collect()
}

/// Returns the slope of sealed segments: of volumes that are filled.
fn slope_of_filled(draft: &Draft, chunk_kib: u32, metric: Metric) -> Vec<f64> {
    let [smallest, _, largest] = FILLED_GIB.map(|gib| filled_cell(chunk_kib, gib));
    slope(draft, (&smallest, &largest), metric)
}

/// Returns the slope of a segment that is open.
fn slope_of_open(draft: &Draft, workload: &'static str) -> Vec<f64> {
    let [few, many] = OPEN_MIB.map(|data| cell(workload, 4, data));
    slope(draft, (&few, &many), MOUNT_AT_REST)
}

/// Seconds that a mount of so many GiB takes, by seed: sealed segments by their slope (footers, or the image of a
/// checkpoint), a segment of clients' and one of the collector's that are open and full by those of open ones, with
/// summaries and without, over what the smallest volume takes under load.
fn extrapolated(draft: &Draft, smallest: &Cell, sealed: Metric, gib: f64) -> Vec<f64> {
    let sealed = slope_of_filled(draft, 4, sealed);
    let open = slope_of_open(draft, CRASH_OPEN);
    let undescribed = slope_of_open(draft, CRASH_OPEN_UNDESCRIBED);
    let least = draft.values(smallest, MOUNT);
    let all = sealed.iter().zip(open.iter().zip(&undescribed)).zip(&least);
    all.map(|((sealed, (open, undescribed)), least)| {
        (least + sealed * gib + (open + undescribed) * OPEN_MIB_MAX / 1024.0) / 1000.0
    })
    .collect()
}

fn judge(draft: &mut Draft) {
    judge_crash(draft);
    judge_rebuild(draft);
    plot(draft, "exp5-10a", "Recovery from a crash", (CRASH, MOUNT));
    plot(draft, "exp5-10b", "Recovery of a whole drive", (DRIVE, REBUILD));
}

fn judge_crash(draft: &mut Draft) {
    let [smallest, _, largest] = VOLUMES_MIB.map(|volume| cell(CRASH, 4, volume));
    let metric = Metric { name: "recovery_time_per_100_gib_s", unit: "s" };
    let slopes = SIZES_KIB.map(|chunk| {
        let slopes = slope_of_filled(draft, chunk, MOUNT_FOOTERS);
        slopes.iter().map(|ms_per_gib| ms_per_gib / 10.0).collect::<Vec<f64>>()
    });
    for (chunk, values) in SIZES_KIB.into_iter().zip(&slopes) {
        draft.number("exp5-crash-slope", filled_cell(chunk, FILLED_GIB[2]), metric, values);
    }
    let means = slopes.map(|values| mean_and_ci95(&values).0);
    let near = means.iter().all(|mean| (mean / means[0] - 1.0).abs() < 0.25);
    draft.check("the time of a mount hardly depends on the size of chunks (25 %)", near);
    for (id, name, gib) in [
        ("exp5-crash-100-gib", "recovery_time_100_gib_s", 100.0),
        ("exp5-crash-1000-gib", "recovery_time_1000_gib_s", 1000.0),
    ] {
        let times = extrapolated(draft, &smallest, MOUNT_FOOTERS, gib);
        draft.number(id, largest.clone(), Metric { name, unit: "s" }, &times);
    }
    let seconds_of_tib = |draft: &Draft, smallest: &Cell, sealed| {
        mean_and_ci95(&extrapolated(draft, smallest, sealed, 1024.0)).0
    };
    let without = seconds_of_tib(draft, &smallest, MOUNT_FOOTERS);
    draft.check("1 TiB and two open segments are mounted in at most 3 s (extrapolated)", without <= 3.0);
    let with = seconds_of_tib(draft, &filled_cell(4, FILLED_GIB[0]), MOUNT_AT_REST);
    draft.check(
        "1 TiB and two open segments are mounted in at most 1 s with a checkpoint (extrapolated)",
        with <= 1.0,
    );
}

fn judge_rebuild(draft: &mut Draft) {
    let [_, _, largest] = VOLUMES_MIB;
    let of_chunks = |chunk| cell(DRIVE, chunk, largest);
    draft.value("exp5-rebuild-rate-4k", &of_chunks(4), RATE);
    let rates = draft.values(&of_chunks(4), RATE);
    for (id, name, gib) in [
        ("exp5-rebuild-100-gib", "rebuild_time_100_gib_s", 100.0),
        ("exp5-rebuild-1000-gib", "rebuild_time_1000_gib_s", 1000.0),
    ] {
        let seconds: Vec<f64> = rates.iter().map(|rate| gib * 1024.0 / DATA_DRIVES / rate).collect();
        draft.number(id, of_chunks(4), Metric { name, unit: "s" }, &seconds);
    }
    for (chunk, id) in [(8, "exp5-rebuild-8k"), (16, "exp5-rebuild-16k")] {
        draft.ratio(id, (&of_chunks(chunk), &of_chunks(4)), REBUILD, "chunk_kib=4");
    }
}

fn plot(draft: &mut Draft, id: &'static str, title: &'static str, of: (&'static str, Metric)) {
    let (workload, metric) = of;
    let series = SIZES_KIB.map(|chunk| {
        let values = VOLUMES_MIB.map(|volume| Some(draft.mean(&cell(workload, chunk, volume), metric)));
        Series::by_name(format!("chunks of {chunk} KiB"), values)
    });
    draft.plot(Plot {
        id,
        title,
        caption: "A volume that was written in order (figure 10, with volumes of a thousandth).",
        x_title: "volume (MiB)",
        y_title: "recovery time (ms)",
        x: Horizontal::Names(VOLUMES_MIB.iter().map(u32::to_string).collect()),
        shape: Shape::Bars,
        series: series.to_vec(),
    });
}
