//! ZRAID's figures 7 and 8: writes in order to some logical zones, of RAIZN and of ZRAID.

use super::draft::{Cell, Draft};
use super::host::Clock;
use super::measurement::{DRIVE_WRITES, FLASH_BYTES, Metric, P95, P9999, Value, WRITE_THROUGHPUT, values_of};
use super::rig::{Answer, Array, Ask, MOUNTED_AT, Plan, blocks_of_kib, bytes_of, new_drive};
use super::scheme::{Raizn, Scheme};
use super::setting::Setting;
use super::volume_rig::{Timed, VolumeRig};
use super::write_load::{MEASURED_BYTES, WARM_UP_BYTES};
use super::{Conditions, Experiment};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};
use crate::precise::{precise, precise_u64};
use crate::workload::Measured;
use anyhow::{Context, Result, bail};
use array::driven::Driven;
use base::time::Instant;
use baseline::config::{Header, LOG_ZONES, RaiznConfig, Tuning};
use baseline::volume::RaiznVolume;
use baseline::zraid::{self, Zraid, ZraidVolume};
use std::collections::BTreeMap;
use zone::device::{Geometry, ZonedDevice};
use zone::drives::DriveSet;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "zraid7",
    title: "ZRAID figures 7 and 8: writes in order to logical zones",
    statement: "Partial parity in windows of data zones makes small writes faster, and costs nothing where writes are large.",
    run_ms: 700,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

const SIZES_KIB: [u32; 7] = [4, 8, 16, 32, 64, 128, 256];
/// Logical zones that are written at a time. Our RAIZN keeps three zones of each drive open for its logs, so it has eleven.
const ZONES: [u32; 5] = [1, 2, 4, 8, 11];
const MOST_ZONES: u32 = 12;
/// Drives, their profile and chunks, as the paper has them. In flight in all, dealt out to the zones by turns: its depth is not known.
const DRIVES: usize = 5;
const PROFILE: &str = "zn540-1tb";
const CHUNK_KIB: u32 = 64;
const QUEUE_DEPTH: u32 = 64;
/// Marks of first chunks, one for each logical zone, weigh something in runs as short as these.
const TIMES_FLASH: f64 = 1.001;
const RAIZN: Scheme = Scheme::Raizn(Raizn::HeaderBlock);
/// Numbers of the paper: how many times as fast ZRAID is, the mean of some sizes.
const PUBLISHED: [(&str, &[u32]); 3] =
    [("zraid7-8k", &[8]), ("zraid7-up-to-64k", &[4, 8, 16, 32, 64]), ("zraid7-256k", &[256])];

fn cell(scheme: Scheme, zones: u32, size_kib: u32) -> Cell {
    let setting = Setting {
        profile: PROFILE,
        drives: DRIVES,
        workload: Some("write"),
        queue_depth: Some(QUEUE_DEPTH),
        logical_zones: Some(zones),
        ..Setting::paper(size_kib, CHUNK_KIB)
    };
    Cell { scheme, setting }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for size in SIZES_KIB {
        for zones in ZONES {
            cells.extend([RAIZN, Scheme::Zraid].map(|scheme| cell(scheme, zones, size)));
        }
        cells.push(cell(Scheme::Zraid, MOST_ZONES, size));
    }
    cells
}

impl Timed for RaiznVolume {
    fn pass_time(&mut self, now: Instant, until: Option<Instant>) -> Option<Instant> {
        Driven::pass_time(self, now, until)
    }
}

impl Timed for ZraidVolume {
    fn pass_time(&mut self, now: Instant, until: Option<Instant>) -> Option<Instant> {
        Driven::pass_time(self, now, until)
    }
}

/// Load of clients: so many requests, to so many logical zones by turns.
struct Load {
    blocks: u32,
    zones: u32,
    warm_up: u64,
    requests: u64,
}

impl Load {
    fn of(cell: &Cell, conditions: Conditions) -> Result<Load> {
        let size_kib = cell.setting.request_kib.context("a size of requests")?;
        let bytes = u64::from(size_kib) << 10;
        let short = Conditions { scale: conditions.scale.min(1.0), ..conditions };
        Ok(Load {
            blocks: blocks_of_kib(size_kib),
            zones: cell.setting.logical_zones.context("logical zones")?,
            warm_up: short.scaled(WARM_UP_BYTES) / bytes,
            requests: (conditions.scaled(MEASURED_BYTES) / bytes).max(1),
        })
    }

    fn all(&self) -> u64 {
        self.warm_up + self.requests + u64::from(QUEUE_DEPTH)
    }

    /// Rounds of logical zones, of so many blocks each, that all requests take. None crosses the end of a zone.
    fn rounds(&self, zone_blocks: u32) -> Result<u32> {
        let in_zone = u64::from(zone_blocks / self.blocks);
        Ok(u32::try_from(self.all().div_ceil(u64::from(self.zones)).div_ceil(in_zone))?)
    }

    /// The request of a number.
    fn ask(&self, number: u64, zone_blocks: u32) -> Ask {
        let (turn, zone) = (number / u64::from(self.zones), number % u64::from(self.zones));
        let in_zone = u64::from(zone_blocks / self.blocks);
        let zone = turn / in_zone * u64::from(self.zones) + zone;
        let lba = zone * u64::from(zone_blocks) + turn % in_zone * u64::from(self.blocks);
        Ask { writes: true, lba, blocks: self.blocks }
    }
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let load = Load::of(cell, conditions)?;
    let mut plan = Plan::new(cell.scheme, &cell.setting, conditions.seed)?;
    plan.busy = true;
    match cell.scheme {
        Scheme::Raizn(Raizn::HeaderBlock) => {
            let mut rig = raizn(&plan, &load)?;
            let zone_blocks = rig.volume().engine.zone_blocks();
            let measured = run(&mut rig, &load, zone_blocks)?;
            let counters = rig.volume().engine.counters();
            Ok(values(&measured, counters.user_blocks, counters.drive_blocks(), counters.drive_blocks()))
        }
        Scheme::Zraid => {
            let mut rig = zraid_rig(&plan, &load)?;
            let zone_blocks = rig.volume().engine.zone_blocks();
            let measured = run(&mut rig, &load, zone_blocks)?;
            let counters = rig.volume().engine.counters();
            Ok(values(&measured, counters.user, counters.drive_blocks(), counters.flash_blocks()))
        }
        other => bail!("{} is no row of this experiment", other.name()),
    }
}

fn drives(plan: &Plan, geometry: Geometry) -> Result<DriveSet> {
    let clock = Clock::default();
    let mut devices: Vec<Option<Box<dyn ZonedDevice>>> = Vec::new();
    for number in 1..=plan.drives as u64 {
        devices.push(Some(new_drive(plan, geometry, &clock, number)?.0));
    }
    Ok(DriveSet::new(devices))
}

/// The drives' geometry, with enough zones for a load and for logs.
fn geometry(plan: &Plan, load: &Load, log_zones: u32, has_areas: bool) -> Result<Geometry> {
    let data = u32::try_from(plan.drives - 1)? * plan.zone_capacity_blocks;
    let whole = plan.profile.geometry_with_areas();
    Ok(Geometry {
        zones: load.rounds(data)? * load.zones + log_zones,
        zone_size_blocks: plan.zone_capacity_blocks,
        zone_capacity_blocks: plan.zone_capacity_blocks,
        volatile_cache: false,
        areas: whole.areas.filter(|_| has_areas),
        ..whole
    })
}

fn raizn(plan: &Plan, load: &Load) -> Result<VolumeRig<RaiznVolume>> {
    let geometry = geometry(plan, load, LOG_ZONES, false)?;
    let config = config(plan, geometry);
    let tuning = Tuning::usual(&config, Header::Block);
    config.validate(&tuning)?;
    let mut drives = drives(plan, geometry)?;
    baseline::format(&mut drives, &config, &tuning)?;
    let (engine, drives) = baseline::mount(drives.into_inner(), tuning, MOUNTED_AT)?;
    Ok(VolumeRig::over(RaiznVolume::new(engine, drives)))
}

fn zraid_rig(plan: &Plan, load: &Load) -> Result<VolumeRig<ZraidVolume>> {
    let geometry = geometry(plan, load, zraid::config::LOG_ZONES, true)?;
    let engine = Zraid::new(config(plan, geometry))?;
    Ok(VolumeRig::over(ZraidVolume::new(engine, drives(plan, geometry)?)))
}

fn config(plan: &Plan, geometry: Geometry) -> RaiznConfig {
    let (members, chunk_blocks) = (plan.drives, plan.chunk_blocks);
    RaiznConfig { array: *b"virtual array 02", members, chunk_blocks, geometry }
}

/// Requests in a closed loop, measured once those of the warm-up are answered.
fn run(rig: &mut impl Array, load: &Load, zone_blocks: u32) -> Result<Measured> {
    let mut submitted: BTreeMap<u64, Instant> = BTreeMap::new();
    let mut answers: Vec<Answer> = Vec::new();
    let (mut measured, mut begin) = (Measured::default(), rig.now());
    let (mut asked, mut answered) = (0, 0);
    while answered < load.warm_up + load.requests {
        while submitted.len() < QUEUE_DEPTH as usize {
            let id = rig.submit(load.ask(asked, zone_blocks));
            submitted.insert(id, rig.now());
            asked += 1;
        }
        rig.wait(None, &mut answers)?;
        for answer in answers.drain(..) {
            let since = submitted.remove(&answer.id).context("answered once")?;
            answered += 1;
            if answered <= load.warm_up {
                begin = answer.at;
            } else if answered <= load.warm_up + load.requests {
                measured.latencies_us.push(precise_u64(answer.at.since(since).0) / 1000.0);
                measured.bytes += bytes_of(load.blocks);
                measured.span_us = precise_u64(answer.at.since(begin).0) / 1000.0;
            }
        }
    }
    // What was asked for is counted, and so it is to be written.
    let mut left = submitted.len();
    while left > 0 {
        rig.wait(None, &mut answers)?;
        left -= answers.len();
        answers.clear();
    }
    Ok(measured)
}

fn values(measured: &Measured, user: u64, written: u64, programmed: u64) -> Vec<Value> {
    let mut values = values_of(measured, WRITE_THROUGHPUT);
    let of = |metric, blocks| Value { metric, value: precise_u64(blocks) / precise_u64(user) };
    values.push(Value { metric: P9999, value: measured.percentile_us(99.99) });
    values.push(of(DRIVE_WRITES, written));
    values.push(of(FLASH_BYTES, programmed));
    values
}

/// Speed of ZRAID over RAIZN's, seed by seed: the geometric mean over numbers of zones and some sizes.
fn times(draft: &Draft, sizes: &[u32]) -> Vec<f64> {
    let cells = || sizes.iter().flat_map(|size| ZONES.map(|zones| (zones, *size)));
    let of = |scheme: Scheme| -> Vec<Vec<f64>> {
        cells().map(|(zones, size)| draft.values(&cell(scheme, zones, size), WRITE_THROUGHPUT)).collect()
    };
    let (own, other) = (of(Scheme::Zraid), of(RAIZN));
    let mean = |seed: usize| {
        let logarithms: f64 = own.iter().zip(&other).map(|(own, other)| (own[seed] / other[seed]).ln()).sum();
        (logarithms / precise(own.len())).exp()
    };
    (0..own[0].len()).map(mean).collect()
}

fn judge(draft: &mut Draft) {
    for (id, sizes) in PUBLISHED {
        let setting = Setting {
            profile: PROFILE,
            drives: DRIVES,
            workload: Some("mean-of-zones"),
            queue_depth: Some(QUEUE_DEPTH),
            versus: Some(RAIZN.name().to_owned()),
            ..Setting::paper(*sizes.last().expect("some sizes"), CHUNK_KIB)
        };
        let metric = Metric { name: "write_throughput_ratio", unit: "x" };
        let ratios = times(draft, sizes);
        draft.number(id, Cell { scheme: Scheme::Zraid, setting }, metric, &ratios);
    }
    for size in SIZES_KIB {
        let holds = ZONES.iter().all(|zones| {
            let [raizn, zraid] =
                [RAIZN, Scheme::Zraid].map(|scheme| draft.mean(&cell(scheme, *zones, size), FLASH_BYTES));
            zraid <= TIMES_FLASH * raizn
        });
        let rule = format!(
            "{size} KiB: zraid programs at most {TIMES_FLASH} times what raizn does, with any number of zones"
        );
        draft.check(rule, holds);
    }
    let titles = [
        ("zraid7", "Throughput", "throughput (MiB/s)", WRITE_THROUGHPUT),
        ("zraid7-p95", "95th percentile", "95th percentile (us)", P95),
        ("zraid7-flash", "Bytes of flash", "bytes of flash per byte", FLASH_BYTES),
    ];
    for (id, title, y_title, metric) in titles {
        let line = |(scheme, zones): (Scheme, u32)| {
            let values = SIZES_KIB.map(|size| Some(draft.mean(&cell(scheme, zones, size), metric)));
            Series::by_name(format!("{}, {zones} zones", scheme.name()), values)
        };
        let rows = ZONES.into_iter().flat_map(|zones| [(RAIZN, zones), (Scheme::Zraid, zones)]);
        let series = rows.chain([(Scheme::Zraid, MOST_ZONES)]).map(line).collect();
        draft.plot(Plot {
            id,
            title,
            caption: "Writes in order, 64 in flight, five ZN540 1 TB, chunks of 64 KiB (ZRAID, figures 7 and 8).",
            x_title: "request size (KiB)",
            y_title,
            x: Horizontal::Names(SIZES_KIB.iter().map(u32::to_string).collect()),
            shape: Shape::Lines,
            series,
        });
    }
}
