//! Experiment 9: an index of which only some is in memory (section 5.2, figure 14).

use super::clients::{self, Load, Places, Sizes};
use super::draft::{Cell, Draft};
use super::measurement::{INDEX_RESIDENT, P95, Value, WRITE_AMPLIFICATION, WRITE_THROUGHPUT, values_of};
use super::rig::{Plan, Rig, blocks_of_kib};
use super::scheme::Scheme;
use super::setting::Setting;
use super::{Conditions, Experiment};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};
use crate::precise::precise_u64;
use anyhow::{Context, Result, ensure};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "exp9",
    title: "Exp#9: an index of which only some is in memory (figure 14)",
    statement: "With half of the index in memory, small random writes lose more than half of their throughput, large \
                ones less, skewed and sequential ones little.",
    cells,
    measure,
    judge,
};

/// 50 to 200 MiB of an index of 200 MiB.
const INDEX_PERCENT: [u32; 4] = [25, 50, 75, 100];
const SCHEMES: [Scheme; 2] = [Scheme::ZapRaid, Scheme::Adaptive];
/// Name, size of requests, where they go, and the number that the paper quotes for half of the index.
const WORKLOADS: [(&str, u32, Places, &str); 4] = [
    ("randwrite-4k", 4, Places::Uniform, "exp9-random-4k"),
    ("randwrite-64k", 64, Places::Uniform, "exp9-random-64k"),
    ("zipf-0.99-64k", 64, Places::Zipf(0.99), "exp9-skewed-64k"),
    ("write-64k", 64, Places::Sequential, "exp9-sequential-64k"),
];
const RESERVED_PERCENT: u32 = 50;
const SMALL_CHUNK_KIB: u32 = 8;
const LARGE_CHUNK_KIB: u32 = 16;
/// Zones of 4 MiB in place of 1,077; fewer blocks at small scales.
const ZONE_BLOCKS_MAX: u32 = 1024;
/// Of the volume, one part in so many is written to warm up, and as much measured: of small requests less, for each of them
/// may need a mapping block.
const VOLUME_SHARE: u64 = 8;
const VOLUME_SHARE_SMALL: u64 = 16;
/// Entries of a group in place of 1,024, so that a volume of three quarters of a GiB has some hundreds of groups. Each is
/// read and written as a block of its own all the same.
const GROUP_ENTRIES: usize = 256;
const ENTRY_BYTES: u64 = 4;

fn cell(scheme: Scheme, workload: usize, index_percent: u32) -> Cell {
    let (name, request_kib, ..) = WORKLOADS[workload];
    let setting = Setting {
        workload: Some(name),
        large_chunk_kib: Some(LARGE_CHUNK_KIB),
        small_segments: 2,
        large_segments: 2,
        reserved_percent: Some(RESERVED_PERCENT),
        index_percent: Some(index_percent),
        ..Setting::paper(request_kib, SMALL_CHUNK_KIB)
    };
    Cell { scheme, setting }
}

fn cells() -> Vec<Cell> {
    let of = |scheme, workload| INDEX_PERCENT.map(|percent| cell(scheme, workload, percent));
    SCHEMES.into_iter().flat_map(|scheme| (0..WORKLOADS.len()).flat_map(move |at| of(scheme, at))).collect()
}

/// Fills the volume, writes some of it again so that what is in memory is what is used, and measures as much once more. All
/// this fits beside the volume: where the collector is at work the limit gives way (ADR 17), and the same was measured.
fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let setting = &cell.setting;
    let known = WORKLOADS.iter().find(|(name, ..)| setting.workload == Some(name));
    let (_, request_kib, places, _) = *known.context("a workload of this experiment")?;
    let share = if request_kib == 4 { VOLUME_SHARE_SMALL } else { VOLUME_SHARE };
    let request_blocks = blocks_of_kib(request_kib);
    let mut plan = Plan::new(cell.scheme, setting, conditions.seed)?;
    plan.fill_segments(conditions.zone_blocks(ZONE_BLOCKS_MAX), RESERVED_PERCENT)?;
    let percent = u64::from(setting.index_percent.context("a share of the index")?);
    plan.index_memory = (percent < 100).then_some(plan.volume_blocks * ENTRY_BYTES * percent / 100);
    plan.index_group_entries = Some(GROUP_ENTRIES);
    let mut rig = Rig::new(plan)?;
    clients::fill(&mut rig, blocks_of_kib(64))?;
    let requests = rig.volume_blocks() / u64::from(request_blocks) / share;
    let load = Load {
        writes: true,
        places,
        sizes: Sizes::Equal(request_blocks),
        queue_depth: setting.queue_depth.context("a queue depth")?,
        warm_up: requests,
        requests,
        only_degraded: false,
    };
    let before = *rig.volume().shard().counters();
    let measured = clients::run(&mut rig, &load, conditions.seed)?;
    let after = *rig.volume().shard().counters();
    ensure!(after.segments_collected == 0, "the collector was at work: less must be written");
    let mut values = values_of(&measured, WRITE_THROUGHPUT);
    // The filling is left out; what the warm-up wrote is not, for it is the same load.
    let written = after.user_blocks_written - before.user_blocks_written;
    let more = after.moved_blocks_written + after.mapping_blocks_written + after.padding_blocks_written
        - before.moved_blocks_written
        - before.mapping_blocks_written
        - before.padding_blocks_written;
    let amplification = precise_u64(written + more) / precise_u64(written);
    values.push(Value { metric: WRITE_AMPLIFICATION, value: amplification });
    let whole = rig.volume_blocks() * ENTRY_BYTES;
    let resident = rig.volume().shard().status().index.map_or(whole, |index| index.resident_bytes);
    let value = 100.0 * precise_u64(resident) / precise_u64(whole);
    values.push(Value { metric: INDEX_RESIDENT, value });
    Ok(values)
}

fn judge(draft: &mut Draft) {
    for (at, (name, .., id)) in WORKLOADS.into_iter().enumerate() {
        let [half, whole] = [50, 100].map(|percent| cell(Scheme::ZapRaid, at, percent));
        draft.ratio(id, (&half, &whole), WRITE_THROUGHPUT, "index_percent=100");
        for scheme in SCHEMES {
            let found = INDEX_PERCENT.map(|percent| draft.mean(&cell(scheme, at, percent), WRITE_THROUGHPUT));
            let rises = found.windows(2).all(|pair| pair[1] > 0.97 * pair[0]);
            draft.check(format!("{}, {name}: more memory is not slower", scheme.name()), rises);
            let resident =
                INDEX_PERCENT.map(|percent| draft.mean(&cell(scheme, at, percent), INDEX_RESIDENT));
            let holds =
                resident.iter().zip(INDEX_PERCENT).all(|(found, most)| *found < f64::from(most) + 0.5);
            draft.check(format!("{}, {name}: the limit holds", scheme.name()), holds);
        }
    }
    let kept = [0, 1, 2].map(|at| {
        let [half, whole] =
            [50, 100].map(|percent| draft.mean(&cell(Scheme::ZapRaid, at, percent), WRITE_THROUGHPUT));
        half / whole
    });
    draft.check("random writes of 64 KiB keep more than those of 4 KiB", kept[1] > kept[0]);
    draft.check("skewed writes keep more than random ones", kept[2] > kept[1]);
    let figures = [
        ("exp9-14", "Throughput", "throughput (MiB/s)", WRITE_THROUGHPUT),
        ("exp9-wa", "Write amplification", "blocks per block", WRITE_AMPLIFICATION),
        ("exp9-memory", "Index in memory at the end", "index in memory (%)", INDEX_RESIDENT),
        ("exp9-p95", "95th percentile", "95th percentile (us)", P95),
    ];
    for (id, title, y_title, metric) in figures {
        let series = [0, 1, 2, 3].map(|at| {
            let cells = INDEX_PERCENT.map(|percent| cell(Scheme::ZapRaid, at, percent));
            Series::by_name(WORKLOADS[at].0, cells.iter().map(|cell| Some(draft.mean(cell, metric))))
        });
        draft.plot(Plot {
            id,
            title,
            caption: "Zapraid with two open segments of small and two of large chunks, 50 % of space in reserve, queue \
                      depth 64 (figure 14).",
            x_title: "index in memory (%)",
            y_title,
            x: Horizontal::Names(INDEX_PERCENT.iter().map(u32::to_string).collect()),
            shape: Shape::Lines,
            series: series.to_vec(),
        });
    }
}
