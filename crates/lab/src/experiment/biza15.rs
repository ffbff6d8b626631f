//! BIZA's figure 15: latencies of writes beside collection, and without it, where clients are bound by throughput and where by latency.
//!
//! ```text
//!   fill, write anew at depth 32 until space is collected ─> rate ─ a fifth ─> writes by the clock
//!                                                       └─────────────────────> writes at depth 32
//! ```
//! Every row is asked for a fifth of what itself can take while it collects: with collection and without, avoidance on and off, the writes
//! are the same ones at the same times.
//!
//! `biza-published` has its avoidance of busy channels on and off. **The log-structured engine has none**: it spreads open segments over
//! channels by the numbers of zones, and what it collects goes where clients' blocks might. So its rows say what that costs, and there is
//! none of it with avoidance.

use super::biza_rig::BizaRig;
use super::clients::{self, Chooser, Load, Places, Sizes};
use super::draft::{Cell, Draft};
use super::measurement::{FLASH_BYTES, Metric, P9999, Value, WRITE_THROUGHPUT, values_of};
use super::replay;
use super::rig::{Array, Plan, Rig, Space, blocks_of_kib};
use super::scheme::{Scheme, Stack};
use super::setting::Setting;
use super::stacks::StackRig;
use super::wear::{Worn, costs};
use super::{Conditions, Experiment};
use crate::characterise::plot::{Horizontal, Plot, Shape};
use crate::dmzap::VictimPolicy;
use crate::precise::{precise, precise_u64};
use crate::trace::{Event, Op};
use crate::workload::{Measured, whole_ns};
use anyhow::{Context, Result, bail};
use base::time::Nanos;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "biza15",
    title: "BIZA figure 15: latencies of writes beside collection",
    statement: "Who collects on other channels than clients write to keeps their tails as without collection.",
    run_ms: 5_000,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Sizes of requests, and how many are measured.
const SIZES: [(u32, u64); 3] = [(4, 60_000), (64, 20_000), (192, 12_000)];
/// Clients bound by throughput: so many in flight. By latency: so much of what the array takes while it collects.
const DEEP: &str = "randwrite";
const PACED: &str = "randwrite-at-20-percent";
const BOUNDS: [&str; 2] = [DEEP, PACED];
const QUEUE_DEPTH: u32 = 32;
const PART_OF_RATE: f64 = 0.2;
/// Per cent in reserve where space is collected, and zones, as in `biza14`.
const RESERVED_PERCENT: u32 = 40;
const ZONE_BLOCKS: u32 = 1_408;
/// Chunks of schemes that do not choose them.
const CHUNK_KIB_MAX: u32 = 16;
/// Zones of each drive for our write area, or as many as the array can afford.
const AREA_ZONES: u32 = 8;
/// And where it is as published.
const BIZA_AREA_ZONES: u32 = 2;
/// Written at random before the measurement, in volumes; the last part of it says what the array takes. Where nothing is collected less
/// is enough.
const WARM_UP_VOLUMES: u64 = 1;
const RATED_PART: u64 = 4;
const WARM_UP_PART: u64 = 8;
/// Bars for `adaptive`, by size: 99.99th percentile beside collection over that without, where latency binds.
const TIMES_TAIL: [f64; 3] = [1.05, 1.1, 1.4];
/// Avoidance keeps so much of the throughput.
const PART_OF_THROUGHPUT: f64 = 0.98;

/// A row: scheme, whether it avoids busy channels (where it can be told), zones for the write area.
type Row = (Scheme, Option<bool>, Option<u32>);

/// Rows, by name.
const ROWS: [(&str, Row); 10] = [
    ("biza-published", (Scheme::Biza, Some(true), None)),
    ("biza-published, no avoidance", (Scheme::Biza, Some(false), None)),
    ("adaptive", (Scheme::Adaptive, None, Some(0))),
    ("adaptive, write area", (Scheme::Adaptive, None, Some(AREA_ZONES))),
    ("zapraid", (Scheme::ZapRaid, None, None)),
    ("dmzap+raizn-merged", (Scheme::Stack(Stack::DmZapRaiznMerged), None, None)),
    ("mdraid+dmzap", (Scheme::Stack(Stack::MdDmZap), None, None)),
    ("mdraid+dmzap, 56 MiB volatile", (Scheme::Stack(Stack::MdDmZapVolatile), None, None)),
    ("mdraid+conventional", (Scheme::Stack(Stack::MdConventional), None, None)),
    ("biza", (Scheme::BizaPolicy, None, Some(BIZA_AREA_ZONES))),
];
const BIZA: usize = 0;
const BLIND: usize = 1;
const ADAPTIVE: usize = 2;
const WITH_AREA: usize = 3;
/// Numbers of the paper: beside collection over without, by size; and avoidance on over off, by bound.
const TAILS: [&str; 3] = ["biza15-tail-4k", "biza15-tail-64k", "biza15-tail-192k"];
const AVOIDANCE: [&str; 2] = ["biza15-avoidance-throughput", "biza15-avoidance-latency"];

fn cell(row: usize, bound: &'static str, size_kib: u32, collects: bool) -> Cell {
    let (_, (scheme, avoids_channels, write_area_zones)) = ROWS[row];
    let setting = Setting {
        workload: Some(bound),
        queue_depth: (bound == DEEP).then_some(QUEUE_DEPTH),
        reserved_percent: collects.then_some(RESERVED_PERCENT),
        write_area_zones,
        avoids_channels,
        ..Setting::paper(size_kib, size_kib.min(CHUNK_KIB_MAX))
    };
    Cell { scheme, setting }
}

/// Without collection there is nothing to avoid, and `adaptive` affords no write area where space is plentiful.
fn has(row: usize, collects: bool) -> bool {
    collects || ![BLIND, WITH_AREA].contains(&row)
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for bound in BOUNDS {
        for (size, _) in SIZES {
            for collects in [true, false] {
                let rows = (0..ROWS.len()).filter(|row| has(*row, collects));
                cells.extend(rows.map(|row| cell(row, bound, size, collects)));
            }
        }
    }
    cells
}

/// An array of any row, and what was programmed for its clients.
trait Counting: Array + Worn {}

impl<A: Array + Worn> Counting for A {}

/// Requests of clients in a cell.
struct Requests<'a> {
    size_kib: u32,
    measured: u64,
    conditions: Conditions<'a>,
}

impl Requests<'_> {
    fn of<'a>(cell: &Cell, conditions: Conditions<'a>) -> Result<Requests<'a>> {
        let size = SIZES.into_iter().find(|(size, _)| cell.setting.request_kib == Some(*size));
        let (size_kib, count) = size.context("a size of this experiment")?;
        Ok(Requests { size_kib, measured: conditions.scaled(count), conditions })
    }

    fn blocks(&self) -> u32 {
        blocks_of_kib(self.size_kib)
    }

    fn load(&self, requests: u64) -> Load {
        Load {
            writes: true,
            places: Places::Uniform,
            sizes: Sizes::Equal(self.blocks()),
            queue_depth: QUEUE_DEPTH,
            warm_up: 0,
            requests: requests.max(1),
            only_degraded: false,
        }
    }

    /// Requests that write a volume of so many blocks once.
    fn volume(&self, volume_blocks: u64) -> u64 {
        let all = volume_blocks / u64::from(self.blocks());
        self.conditions.scaled(all).min(all)
    }

    /// Requests before those that are measured.
    fn warm_up(&self, volume_blocks: u64, collects: bool) -> u64 {
        let volume = self.volume(volume_blocks);
        if collects { WARM_UP_VOLUMES * volume } else { volume / WARM_UP_PART }
    }

    /// Requests by the clock at a rate in MiB/s, none of them late.
    fn events(&self, volume_blocks: u64, mib_s: f64) -> Vec<Event> {
        let mut chooser = Chooser::new(&self.load(self.measured), volume_blocks, self.seed(2));
        let apart_us = f64::from(self.size_kib) / 1024.0 / mib_s * 1e6;
        let count = self.measured + self.measured / WARM_UP_PART;
        let event = |number: u64| {
            let ask = chooser.next_ask();
            let at = Nanos(whole_ns(precise_u64(number) * apart_us));
            Event { at, op: Op::Write, lba: ask.lba, blocks: ask.blocks }
        };
        (0..count).map(event).collect()
    }

    /// Seeds of the parts of a run.
    fn seed(&self, part: u64) -> u64 {
        self.conditions.seed << 2 | part
    }
}

fn plan_of(cell: &Cell, requests: &Requests) -> Result<Plan> {
    let mut plan = Plan::new(cell.scheme, &cell.setting, requests.conditions.seed)?;
    plan.fill_segments(ZONE_BLOCKS, RESERVED_PERCENT)?;
    if cell.setting.reserved_percent.is_none() {
        let all =
            requests.warm_up(plan.volume_blocks, false) + 2 * requests.measured + u64::from(QUEUE_DEPTH);
        // At the worst each request is alone in its stripes.
        let chunks = u64::from(requests.blocks().div_ceil(plan.chunk_blocks));
        plan.space = Space::Stripes(plan.volume_blocks / u64::from(plan.chunk_blocks) + all * chunks);
    }
    plan.afford_write_area()?;
    Ok(plan)
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let requests = Requests::of(cell, conditions)?;
    let mut rig = rig_of(cell, &requests)?;
    let collects = cell.setting.reserved_percent.is_some();
    let own_rate = prepare(&mut rig, &requests, collects)?;
    if cell.setting.workload == Some(DEEP) {
        let load = requests.load(requests.measured);
        return values(&mut rig, |rig| clients::run(rig, &load, requests.seed(1)));
    }
    let reference = reference_of(cell);
    let rate = if *cell == reference {
        own_rate
    } else {
        prepare(&mut rig_of(&reference, &requests)?, &requests, true)?
    };
    let events = requests.events(rig.volume_blocks(), PART_OF_RATE * rate);
    let late = events.len() - usize::try_from(requests.measured)?;
    let (before, measured) = events.split_at(late);
    // The collector may have been behind: clients are at their pace for a while before it counts.
    replay::open_loop(&mut rig, before)?;
    let first = measured.first().context("a request at least")?.at;
    let shifted: Vec<Event> =
        measured.iter().map(|event| Event { at: Nanos(event.at.0 - first.0), ..*event }).collect();
    values(&mut rig, |rig| replay::open_loop(rig, &shifted))
}

/// The cell whose array says at which rate clients come.
fn reference_of(cell: &Cell) -> Cell {
    let mut reference = cell.clone();
    reference.setting.reserved_percent = Some(RESERVED_PERCENT);
    reference.setting.avoids_channels = cell.setting.avoids_channels.map(|_| true);
    reference
}

fn rig_of(cell: &Cell, requests: &Requests) -> Result<Box<dyn Counting>> {
    let plan = plan_of(cell, requests)?;
    Ok(match cell.scheme {
        Scheme::Biza => Box::new(BizaRig::with(&plan, true, cell.setting.avoids_channels != Some(false))?),
        // Where all blocks are alike, the fewest live ones are the best victim by either policy.
        Scheme::Stack(_) => Box::new(StackRig::new(&plan, VictimPolicy::Greedy)?),
        Scheme::Adaptive | Scheme::ZapRaid | Scheme::BizaPolicy => Box::new(Rig::new(plan)?),
        other => bail!("{} is no row of this experiment", other.name()),
    })
}

/// Writes the volume in order, then at random. Returns what the array took in the last part, in MiB/s.
fn prepare(rig: &mut Box<dyn Counting>, requests: &Requests, collects: bool) -> Result<f64> {
    clients::fill(rig, blocks_of_kib(64))?;
    let all = requests.warm_up(rig.volume_blocks(), collects);
    let rated = (all / RATED_PART).max(1);
    if all > rated {
        clients::run(rig, &requests.load(all - rated), requests.seed(3))?;
    }
    Ok(clients::run(rig, &requests.load(rated), requests.seed(0))?.mib_s())
}

/// Values of a run: what clients saw, and what was programmed for them.
fn values(
    rig: &mut Box<dyn Counting>,
    run: impl FnOnce(&mut Box<dyn Counting>) -> Result<Measured>,
) -> Result<Vec<Value>> {
    let before = rig.counts_now();
    let measured = run(rig)?;
    let costs = costs(&before, &rig.counts_now(), &measured);
    Ok(values_of(&measured, WRITE_THROUGHPUT).into_iter().chain(costs).collect())
}

/// 99.99th percentiles with avoidance over those without, seed by seed: geometric means over the sizes.
fn avoidance(draft: &Draft, bound: &'static str) -> Vec<f64> {
    let of = |row: usize| SIZES.map(|(size, _)| draft.values(&cell(row, bound, size, true), P9999));
    let (on, off) = (of(BIZA), of(BLIND));
    let mean = |seed: usize| {
        let logarithms = on.iter().zip(&off).map(|(on, off)| (on[seed] / off[seed]).ln());
        (logarithms.sum::<f64>() / precise(SIZES.len())).exp()
    };
    (0..on[0].len()).map(mean).collect()
}

fn judge(draft: &mut Draft) {
    for (bound, id) in BOUNDS.into_iter().zip(AVOIDANCE) {
        let setting = Setting {
            workload: Some(bound),
            queue_depth: None,
            versus: Some("avoids_channels=false".to_owned()),
            ..Setting::paper(0, 0)
        };
        let ratios = avoidance(draft, bound);
        let metric = Metric { name: "p9999_latency_ratio", unit: "x" };
        draft.number(id, Cell { scheme: Scheme::Biza, setting }, metric, &ratios);
    }
    for (((size, _), id), bar) in SIZES.into_iter().zip(TAILS).zip(TIMES_TAIL) {
        let both = |row: usize| [true, false].map(|collects| cell(row, PACED, size, collects));
        let [with, without] = both(BIZA);
        draft.ratio(id, (&with, &without), P9999, "no collection");
        let [with, without] = both(ADAPTIVE).map(|cell| draft.mean(&cell, P9999));
        let rule = format!(
            "{size} KiB, bound by latency: the 99.99th percentile of adaptive beside collection is at most {bar} times that without"
        );
        draft.check(rule, with <= bar * without);
        let [on, off] = [BIZA, BLIND].map(|row| draft.mean(&cell(row, DEEP, size, true), WRITE_THROUGHPUT));
        let rule = format!(
            "{size} KiB: biza-published keeps {PART_OF_THROUGHPUT} of its throughput when it avoids channels"
        );
        draft.check(rule, on >= PART_OF_THROUGHPUT * off);
    }
    judge_collection(draft);
    plot(draft);
}

/// The experiment says something only where space was collected, and was not.
fn judge_collection(draft: &mut Draft) {
    for (row, (name, _)) in ROWS.iter().enumerate().filter(|(row, _)| has(*row, false)) {
        let collects = |bound: &'static str| {
            SIZES.iter().all(|(size, _)| {
                let [with, without] =
                    [true, false].map(|collects| draft.mean(&cell(row, bound, *size, collects), FLASH_BYTES));
                with > without
            })
        };
        let holds = BOUNDS.into_iter().all(collects);
        draft.check(format!("{name} programs more beside collection than without, in all cells"), holds);
    }
}

fn plot(draft: &mut Draft) {
    let titles = [
        (DEEP, "biza15-throughput", "Beside collection, 32 in flight"),
        (PACED, "biza15-latency", "Beside collection, a fifth of what the array takes"),
    ];
    for (bound, id, title) in titles {
        let bars = |(row, collects): (usize, bool)| {
            let cells = SIZES.map(|(size, _)| cell(row, bound, size, collects));
            let name = ROWS[row].0;
            let name = if collects { name.to_owned() } else { format!("{name}, not collected") };
            draft.bars(&name, &cells, P9999)
        };
        let rows = (0..ROWS.len()).flat_map(|row| [(row, true), (row, false)]);
        let series = rows.filter(|(row, collects)| has(*row, *collects)).map(bars).collect();
        draft.plot(Plot {
            id,
            title,
            caption: "Writes anywhere in 63 segments, with 40 % in reserve or with all that is written (figure 15).",
            x_title: "request size (KiB)",
            y_title: "99.99th percentile (us)",
            x: Horizontal::Names(SIZES.iter().map(|(size, _)| size.to_string()).collect()),
            shape: Shape::Bars,
            series,
        });
    }
}
