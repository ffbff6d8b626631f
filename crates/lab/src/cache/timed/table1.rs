//! `table1`: Table I of the ZonedStore paper. Values of 100 KB under keys of 32 bytes fill the cache; then half of the requests are gets,
//! half are sets, 32 at a time, of keys drawn evenly, two for three objects that it was filled with.

use super::report::{Bar, Bound, Column, Report, Row, column};
use super::rig::{Answer, CacheRig, Drives, Load, Measured, Objects, must_be_done};
use super::{Cell, Run, alone, profile};
use crate::precise::{precise, precise_u64};
use anyhow::Result;
use base::random::Random;
use base::time::Instant;
use base::units::BLOCK_BYTES_U64;
use cache::Options;
use cache::request::{Op, Outcome};

pub(super) const OBJECTS: Objects = Objects { key_bytes: 32, value_bytes: 100_000 };
pub(super) const IN_FLIGHT: usize = 32;
/// Kinds of requests.
const GETS: usize = 0;
const SETS: usize = 1;
/// Capacities of the paper, in GB, with its P50 and P99 in ms, QPS and GiB/s.
const PAPER: [(u64, [f64; 4]); 3] = [
    (450, [1.1749, 21.8444, 17_719.0, 1.6502]),
    (600, [1.1822, 21.9372, 17_733.0, 1.6515]),
    (750, [1.1789, 21.7754, 17_736.0, 1.6518]),
];
/// Bytes that a cache has at scale 1 for each GB of the paper's, and blocks of a zone: a 200th.
const BYTES_PER_GB: u64 = 5_000_000;
const ZONE_BLOCKS: u64 = 1378;
/// Blocks of a zone where a drive has several groups: 32 MiB. Zones that its buffer of 12 MiB holds would be programmed by all groups, though
/// one zone is written after the other.
const ZONE_BLOCKS_OF_GROUPS: u64 = 8192;

const COLUMNS: &[Column] = &[
    column("p50", "ms", 3),
    column("p99", "ms", 3),
    column("qps", "1/s", 0),
    column("throughput", "GiB/s", 3),
    column("get_p99", "ms", 3),
    column("set_p99", "ms", 3),
    column("hits", "", 3),
    column("stored", "MiB/s", 0),
    column("drive_alone", "MiB/s", 0),
    column("share", "", 3),
    column("written", "MiB/s", 0),
    column("drive_beside_reads", "MiB/s", 0),
];

pub(super) fn run(run: &Run) -> Result<Report> {
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for name in ["zn540-1tb", "zn540-4tb"] {
        let alone = alone::writes_mib_s(&profile(name), 0.0, run.seed);
        let (mut shares, mut rates, mut tails) = (Vec::new(), Vec::new(), Vec::new());
        for (gigabytes, _) in PAPER {
            let drives = drives(run, name, gigabytes);
            let (measured, hits) = measure(&drives, zones_for_more(name), run.seed)?;
            let found = hits * precise_u64(measured.times[GETS].count());
            let read_mib_s = mib(found * precise(OBJECTS.value_bytes)) / measured.seconds;
            let beside = alone::writes_mib_s(&profile(name), read_mib_s, run.seed);
            let row = row(format!("{name}, {gigabytes} GB"), &measured, hits, [alone, beside]);
            rates.extend(row.values[2]);
            tails.extend(row.values[1]);
            shares.extend(row.values[9]);
            rows.push(row);
        }
        let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let bar = |name, value, bound, unit| Bar { name, value, bound, unit };
        let of_drive = format!("{name}, stores over what the drive alone takes");
        bars.push(bar(of_drive, least(&shares), Bound::AtLeast(0.9), ""));
        if name == "zn540-1tb" {
            bars.push(bar(format!("{name}, P99"), most(&tails), Bound::AtMost(6.0), "ms"));
        }
        let spread = most(&rates) / least(&rates) - 1.0;
        bars.push(bar(format!("{name}, spread of the QPS over capacities"), spread, Bound::AtMost(0.01), ""));
    }
    rows.extend(PAPER.map(|(gigabytes, [p50, p99, qps, throughput])| {
        let mut values = vec![Some(p50), Some(p99), Some(qps), Some(throughput)];
        values.resize(COLUMNS.len(), None);
        Row { setting: format!("paper, {gigabytes} GB"), values }
    }));
    let scale = format!(
        "capacities, zones and requests a {:.0}th of the paper's, but zones of {} MiB on zn540-4tb",
        200.0 / run.scale,
        run.scaled(ZONE_BLOCKS_OF_GROUPS, 64) / 256
    );
    Ok(Report { cell: Cell::Table1, seed: run.seed, scale, columns: COLUMNS, rows, bars })
}

/// Blocks of a zone at scale 1.
fn zone_blocks_of(name: &str) -> u64 {
    if profile(name).channel_groups() > 1 { ZONE_BLOCKS_OF_GROUPS } else { ZONE_BLOCKS }
}

/// Zones for each more open one: fewer where zones are larger than a 200th, so that as many are open as of a whole drive.
fn zones_for_more(name: &str) -> u32 {
    let whole = u64::from(Options::default().zones_for_more);
    u32::try_from(whole * ZONE_BLOCKS / zone_blocks_of(name)).expect("no more than of a whole drive")
}

fn drives(run: &Run, name: &str, gigabytes: u64) -> Drives {
    let blocks = run.scaled(gigabytes * BYTES_PER_GB, 1) / BLOCK_BYTES_U64;
    let profile = profile(name);
    // A zone holds two objects, with its header and its directory.
    let zone_blocks = run.scaled(zone_blocks_of(name), 64);
    let zones = u32::try_from(blocks.div_ceil(zone_blocks)).expect("a u32 of zones");
    Drives::new(&profile, (1, zones, u32::try_from(zone_blocks).expect("few blocks")), run.seed)
}

/// The cache is filled, then asked; share of gets that found something.
fn measure(drives: &Drives, zones_for_more: u32, seed: u64) -> Result<(Measured, f64)> {
    let keys = drives.bytes() / OBJECTS.bytes();
    let mut rig = CacheRig::new(drives, Options { zones_for_more, ..OBJECTS.options() })?;
    rig.fill(OBJECTS, 0..keys)?;
    let mut mix = Mix::new(seed, (1, 2), keys, keys * 2 / 3);
    let measured = rig.run(&mut mix, IN_FLIGHT)?;
    Ok((measured, mix.hit_ratio()))
}

fn mib(bytes: f64) -> f64 {
    bytes / 1_048_576.0
}

fn row(setting: String, measured: &Measured, hits: f64, [alone, beside]: [f64; 2]) -> Row {
    let all = measured.all();
    let ms = |percentile: Option<f64>| percentile.map(|us| us / 1e3);
    let qps = precise_u64(all.count()) / measured.seconds;
    let stored = mib(measured.counted(|status| status.counters.bytes_stored)) / measured.seconds;
    // As the paper counts: every request, a miss too, is a value.
    let throughput = qps * precise(OBJECTS.value_bytes) / 1_073_741_824.0;
    let values = vec![
        ms(all.percentile_us(50.0)),
        ms(all.percentile_us(99.0)),
        Some(qps),
        Some(throughput),
        ms(measured.times[GETS].percentile_us(99.0)),
        ms(measured.times[SETS].percentile_us(99.0)),
        Some(hits),
        Some(stored),
        Some(alone),
        Some(stored / alone),
        Some(mib(measured.counted(|status| status.counters.bytes_written())) / measured.seconds),
        Some(beside),
    ];
    Row { setting, values }
}

/// Gets and sets of keys drawn evenly.
pub(super) struct Mix {
    random: Random,
    keys: u64,
    /// So many of so many requests are gets.
    gets: (u64, u64),
    /// Requests that are left.
    requests: u64,
    /// Keys that connections get.
    asked: Vec<Option<u64>>,
    /// Gets that found nothing, and something.
    found: [u64; 2],
}

impl Mix {
    /// So many requests by [`IN_FLIGHT`] connections, of which so many of so many are gets.
    pub(super) fn new(seed: u64, gets: (u64, u64), keys: u64, requests: u64) -> Mix {
        let random = Random::from_seed(seed);
        Mix { random, keys, gets, requests, asked: vec![None; IN_FLIGHT], found: [0; 2] }
    }

    /// Share of gets that found something; not a number without gets.
    pub(super) fn hit_ratio(&self) -> f64 {
        let [misses, hits] = self.found.map(precise_u64);
        hits / (hits + misses)
    }
}

impl Load for Mix {
    fn next(&mut self, _now: Instant, connection: usize) -> Option<Op> {
        self.requests = self.requests.checked_sub(1)?;
        let key = self.random.below(self.keys);
        let gets = self.random.below(self.gets.1) < self.gets.0;
        self.asked[connection] = gets.then_some(key);
        Some(if gets { OBJECTS.get(key) } else { OBJECTS.set(key) })
    }

    fn answered(&mut self, _now: Instant, connection: usize, outcome: Outcome) -> Result<Answer> {
        let Some(key) = self.asked[connection].take() else {
            must_be_done(&outcome)?;
            return Ok(Answer::Counts(SETS));
        };
        self.found[usize::from(OBJECTS.is_found(key, &outcome)?)] += 1;
        Ok(Answer::Counts(GETS))
    }
}
