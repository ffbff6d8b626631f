//! Experiment 5: recovery from a crash and of a whole drive (section 5.2, figure 10).

use super::clients;
use super::draft::{Cell, Draft};
use super::measurement::{Metric, Value};
use super::rig::{Ask, Plan, Rig, Space, blocks_of_kib};
use super::scheme::Scheme;
use super::setting::Setting;
use super::student::mean_and_ci95;
use super::{Conditions, Experiment, SIZES_KIB};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};
use crate::precise::precise_u64;
use anyhow::Result;
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

const CRASH: &str = "crash";
const DRIVE: &str = "drive";

pub const MOUNT: Metric = Metric { name: "recovery_time_ms", unit: "ms" };
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
    cells
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let setting = &cell.setting;
    let mut plan = Plan::new(cell.scheme, setting, conditions.seed)?;
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

/// The power goes while clients write.
fn crash(mut rig: Rig) -> Result<Vec<Value>> {
    // No segment is half sealed: volumes must not differ in that.
    rig.quiesce()?;
    for lba in 0..IN_FLIGHT.min(rig.volume_blocks()) {
        rig.submit(Ask { writes: true, lba, blocks: 1 });
    }
    // The first answers are there, the others are on their way.
    rig.wait(None, &mut Vec::new())?;
    let (_, took) = rig.crash()?;
    Ok(vec![Value { metric: MOUNT, value: precise_u64(took.0) / 1e6 }])
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

/// Seconds that 100 GiB more take, by seed.
fn slope(draft: &Draft, chunk_kib: u32) -> Vec<f64> {
    let [small, large] = [VOLUMES_MIB[0], VOLUMES_MIB[2]];
    let [before, after] = [small, large].map(|volume| draft.values(&cell(CRASH, chunk_kib, volume), MOUNT));
    let gibs = f64::from(large - small) / 1024.0;
    before.iter().zip(&after).map(|(before, after)| (after - before) / 1000.0 / gibs * 100.0).collect()
}

fn judge(draft: &mut Draft) {
    let [_, _, largest] = VOLUMES_MIB;
    let metric = Metric { name: "recovery_time_per_100_gib_s", unit: "s" };
    let slopes = SIZES_KIB.map(|chunk| slope(draft, chunk));
    for (chunk, values) in SIZES_KIB.into_iter().zip(&slopes) {
        draft.number("exp5-crash-slope", cell(CRASH, chunk, largest), metric, values);
    }
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
            shape: Shape::Lines,
            series: series.to_vec(),
        });
    }
}
