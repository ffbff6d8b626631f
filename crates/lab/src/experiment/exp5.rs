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
use base::units::BLOCK_BYTES_U64;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "exp5",
    title: "Exp#5: recovery from a crash and of a whole drive (figure 10)",
    statement: "Both take time in proportion to the volume; that of a crash does not depend on the size of chunks, \
                that of a drive is shorter with larger ones.",
    cells,
    measure,
    judge,
};

/// Volumes, in place of the paper's 100 to 1,000 GiB.
const VOLUMES_MIB: [u32; 3] = [288, 576, 1152];
/// Small zones, so that a volume takes several segments.
const ZONE_BLOCKS: u32 = (32 << 20) / 4096;
/// Of these a segment takes one per data drive.
const SEGMENT_MIB: u32 = 96;
/// What is written beyond whole segments: a mount reads all of a segment that is not sealed, and volumes must not
/// differ in that.
const OPEN_BLOCKS: u64 = 1536;
/// What is in flight when the power goes.
const IN_FLIGHT: u64 = 64;
/// The drive that is lost.
const FAILED: usize = 1;

/// Data in a segment that is still open, in zones of the drive.
const OPEN_MIB: [u32; 2] = [288, 1152];
/// Most that is open after a crash with one segment for clients: that, and the collector's; each of three zones of data.
const OPEN_MIB_MAX: f64 = 2.0 * 3.0 * 1077.0;

/// Volumes of drives that are filled before they are used, in zones of the drive: a mount with a checkpoint.
const FILLED_GIB: [u32; 3] = [16, 32, 64];
/// What clients write after the checkpoint.
const SINCE_BLOCKS: u64 = (256 << 20) / BLOCK_BYTES_U64;

const CRASH: &str = "crash";
const CRASH_CHECKPOINT: &str = "crash-checkpoint";
const CRASH_OPEN: &str = "crash-open";
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
    cells.extend(FILLED_GIB.map(filled_cell));
    cells.extend(OPEN_MIB.map(|data| cell(CRASH_OPEN, 4, data)));
    cells
}

fn filled_cell(gib: u32) -> Cell {
    cell(CRASH_CHECKPOINT, 4, gib * 1024)
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let setting = &cell.setting;
    let mut plan = Plan::new(cell.scheme, setting, conditions.seed)?;
    if setting.workload == Some(CRASH_CHECKPOINT) {
        let blocks = u64::from(blocks_of_kib(setting.volume_mib.unwrap_or(0) * 1024));
        return crash_with_checkpoint(Rig::new(plan.filled(conditions.scaled(blocks))?)?, conditions);
    }
    if setting.workload == Some(CRASH_OPEN) {
        let blocks = u64::from(blocks_of_kib(setting.volume_mib.unwrap_or(0) * 1024));
        plan.volume_blocks = conditions.scaled(blocks).next_multiple_of(16);
        plan.space = Space::Stripes(plan.volume_blocks);
        let mut rig = Rig::new(plan)?;
        clients::fill(&mut rig, blocks_of_kib(64))?;
        return crash(rig);
    }
    plan.profile = plan.profile.with_small_zones(ZONE_BLOCKS);
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
    ensure!(rig.volume().shard().has_checkpoint(), "the checkpoint was not used");
    let times = [(MOUNT, took), (MOUNT_AT_REST, at_rest), (MOUNT_FOOTERS, footers)];
    Ok(times.into_iter().map(|(metric, took)| Value { metric, value: precise_u64(took.0) / 1e6 }).collect())
}

fn lose_drive(mut rig: Rig) -> Result<Vec<Value>> {
    rig.quiesce()?;
    rig.fail(FAILED)?;
    let took = rig.rebuild(FAILED)?;
    let bytes = rig.volume().shard().counters().blocks_rebuilt * BLOCK_BYTES_U64;
    let rate = precise_u64(bytes) / 1_048_576.0 / (precise_u64(took.0) / 1e9);
    let time = Value { metric: REBUILD, value: precise_u64(took.0) / 1e6 };
    Ok(vec![time, Value { metric: RATE, value: rate }])
}

/// Milliseconds that a mount at rest takes for each GiB more between two volumes, by seed.
fn slope(draft: &Draft, (workload, chunk_kib): (&'static str, u32), mib: (u32, u32)) -> Vec<f64> {
    let [before, after] =
        [mib.0, mib.1].map(|mib| draft.values(&cell(workload, chunk_kib, mib), MOUNT_AT_REST));
    let gib = f64::from(mib.1 - mib.0) / 1024.0;
    before.iter().zip(&after).map(|(before, after)| (after - before) / gib).collect()
}

/// Seconds that a mount of so many GiB takes, by seed: footers by their slope, and two segments that are open and full
/// by that of open ones, over what the smallest volume takes under load.
fn extrapolated(draft: &Draft, gib: f64) -> Vec<f64> {
    let sealed = slope(draft, (CRASH, 4), (VOLUMES_MIB[0], VOLUMES_MIB[2]));
    let open = slope(draft, (CRASH_OPEN, 4), (OPEN_MIB[0], OPEN_MIB[1]));
    let least = draft.values(&cell(CRASH, 4, VOLUMES_MIB[0]), MOUNT);
    let all = sealed.iter().zip(&open).zip(&least);
    all.map(|((sealed, open), least)| (least + sealed * gib + open * OPEN_MIB_MAX / 1024.0) / 1000.0)
        .collect()
}

/// Seconds that a mount of 1 TiB with a checkpoint takes, by seed: its image by its slope, and a segment of clients' and one
/// of the collector's that are open and full, over what the smallest volume takes under load.
fn extrapolated_with_checkpoint(draft: &Draft) -> Vec<f64> {
    let [first, _, last] = FILLED_GIB.map(|gib| draft.values(&filled_cell(gib), MOUNT_AT_REST));
    let gib = f64::from(FILLED_GIB[2] - FILLED_GIB[0]);
    let image = first.iter().zip(&last).map(|(first, last)| (last - first) / gib);
    let open = slope(draft, (CRASH_OPEN, 4), (OPEN_MIB[0], OPEN_MIB[1]));
    let least = draft.values(&filled_cell(FILLED_GIB[0]), MOUNT);
    let all = image.zip(&open).zip(&least);
    all.map(|((image, open), least)| (least + image * 1024.0 + open * OPEN_MIB_MAX / 1024.0) / 1000.0)
        .collect()
}

fn judge(draft: &mut Draft) {
    let [_, _, largest] = VOLUMES_MIB;
    let metric = Metric { name: "recovery_time_per_100_gib_s", unit: "s" };
    let slopes = SIZES_KIB.map(|chunk| {
        let slopes = slope(draft, (CRASH, chunk), (VOLUMES_MIB[0], VOLUMES_MIB[2]));
        slopes.iter().map(|ms_per_gib| ms_per_gib / 10.0).collect::<Vec<f64>>()
    });
    for (chunk, values) in SIZES_KIB.into_iter().zip(&slopes) {
        draft.number("exp5-crash-slope", cell(CRASH, chunk, largest), metric, values);
    }
    let metric = Metric { name: "recovery_time_1000_gib_s", unit: "s" };
    draft.number("exp5-crash-1000-gib", cell(CRASH, 4, largest), metric, &extrapolated(draft, 1000.0));
    let tib = mean_and_ci95(&extrapolated(draft, 1024.0)).0;
    draft.check("1 TiB and two open segments are mounted in at most 3 s (extrapolated)", tib <= 3.0);
    let with = mean_and_ci95(&extrapolated_with_checkpoint(draft)).0;
    draft.check(
        "1 TiB and two open segments are mounted in at most 1 s with a checkpoint (extrapolated)",
        with <= 1.0,
    );
    draft.value("exp5-rebuild-rate-4k", &cell(DRIVE, 4, largest), RATE);
    for (chunk, id) in [(8, "exp5-rebuild-8k"), (16, "exp5-rebuild-16k")] {
        draft.ratio(id, (&cell(DRIVE, chunk, largest), &cell(DRIVE, 4, largest)), REBUILD, "chunk_kib=4");
    }
    let means = slopes.map(|values| mean_and_ci95(&values).0);
    let near = means.iter().all(|mean| (mean / means[0] - 1.0).abs() < 0.25);
    draft.check("the time of a mount hardly depends on the size of chunks (25 %)", near);
    for (id, title, y_title, workload, metric) in [
        ("exp5-10a", "Recovery from a crash", "recovery time (ms)", CRASH, MOUNT),
        ("exp5-10b", "Recovery of a whole drive", "recovery time (ms)", DRIVE, REBUILD),
    ] {
        let series = SIZES_KIB.map(|chunk| {
            let values = VOLUMES_MIB.map(|volume| Some(draft.mean(&cell(workload, chunk, volume), metric)));
            Series::by_name(format!("chunks of {chunk} KiB"), values)
        });
        draft.plot(Plot {
            id,
            title,
            caption: "A volume that was written in order (figure 10, with volumes of a thousandth).",
            x_title: "volume (MiB)",
            y_title,
            x: Horizontal::Names(VOLUMES_MIB.iter().map(u32::to_string).collect()),
            shape: Shape::Bars,
            series: series.to_vec(),
        });
    }
}
