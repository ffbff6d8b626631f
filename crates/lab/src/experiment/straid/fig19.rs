//! Slower and faster drives (StRAID figure 19).

use super::super::draft::{Cell, Draft};
use super::super::measurement::{DRIVE_READS, DRIVE_WRITES, Metric, P99, Value, WRITE_THROUGHPUT, values_of};
use super::super::scheme::InPlace;
use super::super::setting::Setting;
use super::super::{Conditions, Experiment};
use super::{
    CLIENTS, DRIVES, FAST, PROFILE, RANDOM_WRITE, SECTORS, SLOW, STREAM_WRITE, member_blocks, run_clients,
    setup,
};
use crate::characterise::plot::{Horizontal, Plot, Shape};
use crate::md_speed::bare::{self, Part};
use anyhow::Result;
use base::random::Random;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "straid-fig19",
    title: "StRAID figure 19: slower and faster drives",
    statement: "The array is faster by as much as its drives are.",
    run_ms: 600,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Throughput of six drives in writes of 64 KiB.
pub const DRIVES_THROUGHPUT: Metric = Metric { name: "drives_write_throughput_mib_s", unit: "MiB/s" };

/// Slow to fast.
const PROFILES: [&str; 3] = [SLOW, PROFILE, FAST];
/// Parts of stripes at random and in one stream, and whole stripes.
const LOADS: [(u32, &str); 3] = [(64, RANDOM_WRITE), (64, STREAM_WRITE), (1280, RANDOM_WRITE)];
const VARIANTS: [InPlace; 3] = [InPlace::Adaptive, InPlace::Straid, InPlace::NoTwoPhase];
/// Share of data in what drives take: of six blocks one is a parity.
const WHOLE_SHARE: f64 = 5.0 / 6.0;
const CHUNK_BLOCKS: u64 = 16;

fn of(variant: InPlace, profile: &'static str, (size, workload): (u32, &'static str)) -> Cell {
    let own = super::of(variant, workload, size, CLIENTS);
    Cell { setting: Setting { profile, ..own.setting }, ..own }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for profile in PROFILES {
        for load in LOADS {
            cells.extend(VARIANTS.map(|variant| of(variant, profile, load)));
        }
    }
    cells
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let (measured, counters) = run_clients(cell, conditions)?;
    let mut values = values_of(&measured, WRITE_THROUGHPUT);
    values.extend(member_blocks(&counters));
    let setup = setup(&cell.setting, conditions)?;
    let members = u32::try_from(DRIVES)?;
    let mut draw = |random: &mut Random| {
        let block = random.below(SECTORS / 8 / CHUNK_BLOCKS) * CHUNK_BLOCKS;
        let part = |member| Part { member, is_read: false, block, blocks: CHUNK_BLOCKS };
        vec![(0..DRIVES).map(part).collect()]
    };
    let bytes = u64::from(members) * CHUNK_BLOCKS * 4096;
    let drives = bare::run(&setup, (members, SECTORS), (CLIENTS, bytes), &mut draw)?;
    values.push(Value { metric: DRIVES_THROUGHPUT, value: drives.mib_s() });
    Ok(values)
}

fn judge(draft: &mut Draft) {
    for load in LOADS {
        let [fast, usual] = [FAST, PROFILE].map(|profile| of(InPlace::Adaptive, profile, load));
        draft.ratio("straid-faster-drives", (&fast, &usual), WRITE_THROUGHPUT, "profile=conventional-nvme");
    }
    for profile in PROFILES {
        let whole = of(InPlace::Adaptive, profile, LOADS[2]);
        let [ours, drives] = [WRITE_THROUGHPUT, DRIVES_THROUGHPUT].map(|metric| draft.mean(&whole, metric));
        let rule = format!("{profile}: whole stripes reach 0.95 of what the drives take for data");
        draft.check(rule, ours >= 0.95 * WHOLE_SHARE * drives);
    }
    for (id, profile) in ["straid-19a", "straid-19b", "straid-19c"].into_iter().zip(PROFILES) {
        plot(draft, id, profile, ("throughput (MiB/s)", WRITE_THROUGHPUT));
    }
    plot(draft, "straid-19-p99", PROFILE, ("99th percentile (us)", P99));
    plot(draft, "straid-19-read", PROFILE, ("blocks read per block written", DRIVE_READS));
    plot(draft, "straid-19-written", PROFILE, ("blocks written per block", DRIVE_WRITES));
}

fn plot(
    draft: &mut Draft,
    id: &'static str,
    profile: &'static str,
    (y_title, metric): (&'static str, Metric),
) {
    let bars = |variant: InPlace| {
        let cells = LOADS.map(|load| of(variant, profile, load));
        draft.bars(cells[0].scheme.name(), &cells, metric)
    };
    let mut series = VARIANTS.map(bars).to_vec();
    if metric == WRITE_THROUGHPUT {
        let cells = LOADS.map(|load| of(InPlace::Adaptive, profile, load));
        series.push(draft.bars("the drives, without parities", &cells, DRIVES_THROUGHPUT));
    }
    draft.plot(Plot {
        id,
        title: profile,
        caption: "Writes of 64 clients to RAID-5, 5+1, chunks of 64 KiB (figure 19).",
        x_title: "request",
        y_title,
        x: Horizontal::Names(
            ["64 KiB at random", "64 KiB, one stream", "1280 KiB at random"].map(str::to_owned).to_vec(),
        ),
        shape: Shape::Bars,
        series,
    });
}
