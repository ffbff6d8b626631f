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
    run_ms: 850,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// 50 to 200 MiB of an index of 200 MiB.
const INDEX_PERCENT: [u32; 4] = [25, 50, 75, 100];
const SCHEMES: [Scheme; 2] = [Scheme::ZapRaid, Scheme::Adaptive];
const WORKLOADS: [Workload; 5] = [
    Workload::beside("randwrite-4k", 4, Places::Uniform, "exp9-random-4k"),
    Workload::beside("randwrite-64k", 64, Places::Uniform, "exp9-random-64k"),
    Workload::beside("zipf-0.99-64k", 64, Places::Zipf(0.99), "exp9-skewed-64k"),
    Workload::beside("write-64k", 64, Places::Sequential, "exp9-sequential-64k"),
    Workload {
        name: "randwrite-4k",
        request_kib: 4,
        places: Places::Uniform,
        reserved_percent: 30,
        paper: None,
    },
];

/// Workload of clients.
#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    request_kib: u32,
    places: Places,
    /// Space beside the volume.
    reserved_percent: u32,
    /// The number that the paper quotes for half of the index; without one, the volume is overwritten first, and the
    /// collector is at work all the time.
    paper: Option<&'static str>,
}

impl Workload {
    /// Returns one of the paper's workloads: all that is written fits beside the volume.
    const fn beside(name: &'static str, request_kib: u32, places: Places, paper: &'static str) -> Workload {
        Workload { name, request_kib, places, reserved_percent: 50, paper: Some(paper) }
    }

    fn is_collected(&self) -> bool {
        self.paper.is_none()
    }

    fn title(&self) -> String {
        let collected = if self.is_collected() { ", collected" } else { "" };
        format!("{}{collected}", self.name)
    }

    fn zone_blocks(&self) -> u32 {
        if self.is_collected() { ZONE_BLOCKS_COLLECTED } else { ZONE_BLOCKS_MAX }
    }

    /// Returns the number of parts of the volume of which one is measured.
    fn share(&self) -> u64 {
        match (self.is_collected(), self.request_kib) {
            (true, _) => COLLECTED_SHARE,
            (false, 4) => VOLUME_SHARE_SMALL,
            (false, _) => VOLUME_SHARE,
        }
    }
}

const SMALL_CHUNK_KIB: u32 = 8;
const LARGE_CHUNK_KIB: u32 = 16;
/// Zones of 4 MiB in place of 1,077; fewer blocks at small scales.
const ZONE_BLOCKS_MAX: u32 = 1024;
/// Zones of 1 MiB where all of the volume is written again.
const ZONE_BLOCKS_COLLECTED: u32 = 256;
/// Parts of the volume of which one is written to warm up, and as much measured: less for small requests, for each of
/// them may need a mapping block.
const VOLUME_SHARE: u64 = 8;
const VOLUME_SHARE_SMALL: u64 = 16;
const COLLECTED_SHARE: u64 = 4;
/// Entries of a group in place of 1,024, so that a volume of three quarters of a GiB has some hundreds of groups. Each is
/// read and written as a block of its own all the same.
const GROUP_ENTRIES: usize = 256;
const ENTRY_BYTES: u64 = 4;

fn cell(scheme: Scheme, workload: &Workload, index_percent: u32) -> Cell {
    let setting = Setting {
        workload: Some(workload.name),
        large_chunk_kib: Some(LARGE_CHUNK_KIB),
        small_segments: 2,
        large_segments: 2,
        reserved_percent: Some(workload.reserved_percent),
        index_percent: Some(index_percent),
        ..Setting::paper(workload.request_kib, SMALL_CHUNK_KIB)
    };
    Cell { scheme, setting }
}

fn cells() -> Vec<Cell> {
    let of = |scheme, workload| INDEX_PERCENT.map(|percent| cell(scheme, workload, percent));
    let all = SCHEMES.into_iter().flat_map(|scheme| WORKLOADS.iter().map(move |workload| (scheme, workload)));
    all.flat_map(|(scheme, workload)| of(scheme, workload)).collect()
}

/// Fills the volume, writes some of it again so that what is in memory is what is used, and measures as much once more. All
/// this fits beside the volume, but where the collector is to be at work: then all of the volume is written again.
fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let setting = &cell.setting;
    let is_meant = |workload: &&Workload| {
        setting.workload == Some(workload.name) && setting.reserved_percent == Some(workload.reserved_percent)
    };
    let workload = WORKLOADS.iter().find(is_meant).context("a workload of this experiment")?;
    let request_blocks = blocks_of_kib(workload.request_kib);
    let mut plan = Plan::new(cell.scheme, setting, conditions.seed)?;
    plan.fill_segments(conditions.zone_blocks(workload.zone_blocks()), workload.reserved_percent)?;
    // One zone at a time is open for clients, and in most cells for nobody else.
    plan.profile = plan.profile.with_one_group();
    let percent = u64::from(setting.index_percent.context("a share of the index")?);
    plan.index_memory = (percent < 100).then_some(plan.volume_blocks * ENTRY_BYTES * percent / 100);
    plan.index_group_entries = Some(GROUP_ENTRIES);
    let mut rig = Rig::new(plan)?;
    clients::fill(&mut rig, blocks_of_kib(64))?;
    let all = rig.volume_blocks() / u64::from(request_blocks);
    let requests = all / workload.share();
    let load = Load {
        writes: true,
        places: workload.places,
        sizes: Sizes::Equal(request_blocks),
        queue_depth: setting.queue_depth.context("a queue depth")?,
        warm_up: if workload.is_collected() { all } else { requests },
        requests,
        only_degraded: false,
    };
    let before = *rig.volume().engine.counters();
    let measured = clients::run(&mut rig, &load, conditions.seed)?;
    let after = *rig.volume().engine.counters();
    let is_collected = after.segments_collected > 0;
    ensure!(is_collected == workload.is_collected(), "{} segments collected", after.segments_collected);
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
    let resident = rig.volume().engine.status().index.map_or(whole, |index| index.resident_bytes);
    let value = 100.0 * precise_u64(resident) / precise_u64(whole);
    values.push(Value { metric: INDEX_RESIDENT, value });
    Ok(values)
}

fn judge(draft: &mut Draft) {
    for workload in &WORKLOADS {
        let [half, whole] = [50, 100].map(|percent| cell(Scheme::ZapRaid, workload, percent));
        if let Some(id) = workload.paper {
            draft.ratio(id, (&half, &whole), WRITE_THROUGHPUT, "index_percent=100");
        }
        for scheme in SCHEMES {
            let what = format!("{}, {}", scheme.name(), workload.title());
            let found =
                INDEX_PERCENT.map(|percent| draft.mean(&cell(scheme, workload, percent), WRITE_THROUGHPUT));
            let rises = found.windows(2).all(|pair| pair[1] > 0.97 * pair[0]);
            draft.check(format!("{what}: more memory is not slower"), rises);
            let resident =
                INDEX_PERCENT.map(|percent| draft.mean(&cell(scheme, workload, percent), INDEX_RESIDENT));
            let holds =
                resident.iter().zip(INDEX_PERCENT).all(|(found, most)| *found < f64::from(most) + 0.5);
            draft.check(format!("{what}: the limit holds"), holds);
        }
    }
    let kept = [0, 1, 2].map(|at| {
        let [half, whole] = [50, 100]
            .map(|percent| draft.mean(&cell(Scheme::ZapRaid, &WORKLOADS[at], percent), WRITE_THROUGHPUT));
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
        let series = WORKLOADS.each_ref().map(|workload| {
            let cells = INDEX_PERCENT.map(|percent| cell(Scheme::ZapRaid, workload, percent));
            Series::by_name(workload.title(), cells.iter().map(|cell| Some(draft.mean(cell, metric))))
        });
        draft.plot(Plot {
            id,
            title,
            caption: "Zapraid with two open segments of small and two of large chunks, 50 % of space in reserve, or 30 % \
                      and the collector at work all the time; queue depth 64 (figure 14).",
            x_title: "index in memory (%)",
            y_title,
            x: Horizontal::Names(INDEX_PERCENT.iter().map(u32::to_string).collect()),
            shape: Shape::Lines,
            series: series.to_vec(),
        });
    }
}
