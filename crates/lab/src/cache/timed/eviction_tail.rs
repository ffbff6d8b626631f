//! `eviction-tail`: gets of 4 KiB beside stores, while there is room, and while zones are evicted, what was hit of them is written anew,
//! and they are reset; and by `fifo`, which writes nothing anew. Stores come at the same rate in both; gets are of all that was stored lately, and those count that find it.

use super::report::{Bar, Bound, Column, Report, Row, column};
use super::rig::{Answer, CacheRig, Drives, Load, Measured, Objects, must_be_done};
use super::{Cell, Run, profile};
use crate::precise::precise_u64;
use anyhow::{Result, ensure};
use base::random::Random;
use base::time::{Instant, Nanos};
use cache::Options;
use cache::policy::Eviction;
use cache::request::{Op, Outcome};

const OBJECTS: Objects = Objects { key_bytes: 16, value_bytes: 4096 };
/// Connections that get without a pause; one more stores.
const READERS: usize = 16;
/// From one store to the next: 200 MiB/s.
const THINK: Nanos = Nanos(19_531);
const ZONES: u32 = 16;
/// Blocks of a zone at scale 1: 256 MiB, a quarter of what is asked for.
const ZONE_BLOCKS: u64 = 65_536;
/// Kinds of requests.
const GETS: usize = 0;
const SETS: usize = 1;

const COLUMNS: &[Column] = &[
    column("p50", "us", 1),
    column("p99", "us", 1),
    column("p999", "us", 1),
    column("gets", "1/s", 0),
    column("hits", "", 3),
    column("written", "MiB/s", 0),
    column("evicted", "zones", 0),
    column("reinserted", "objects", 0),
];

pub(super) fn run(run: &Run) -> Result<Report> {
    let zone_blocks = u32::try_from(run.scaled(ZONE_BLOCKS, 1024))?;
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for name in ["zn540-1tb", "zn540-4tb"] {
        let drives = Drives::new(&profile(name), (1, ZONES, zone_blocks), run.seed);
        let [with_room, evicting] = measure(&drives, Eviction::S3Fifo, run.seed)?;
        let [_, resetting] = measure(&drives, Eviction::Fifo, run.seed)?;
        let tail = |measured: &Measured| measured.times[GETS].percentile_us(99.0).unwrap_or(f64::NAN);
        let value = tail(&evicting) / tail(&with_room);
        let bar = format!("{name}, P99 of gets during eviction over that without");
        bars.push(Bar { name: bar, value, bound: Bound::AtMost(1.5), unit: "" });
        let phases = [("with room", with_room), ("evicting", evicting), ("evicting by fifo", resetting)];
        for (phase, measured) in phases {
            rows.push(Row { setting: format!("{name}, {phase}"), values: values(&measured) });
        }
    }
    let scale = format!("{ZONES} zones of {} MiB, where zones of 1 GiB are asked for", zone_blocks / 256);
    Ok(Report { cell: Cell::EvictionTail, seed: run.seed, scale, columns: COLUMNS, rows, bars })
}

/// While there is room, and while zones go.
fn measure(drives: &Drives, eviction: Eviction, seed: u64) -> Result<[Measured; 2]> {
    let capacity = drives.bytes() / OBJECTS.bytes();
    let zone = capacity / u64::from(ZONES);
    let mut rig = CacheRig::new(drives, Options { eviction, ..OBJECTS.options() })?;
    let mut beside = Beside {
        random: Random::from_seed(seed),
        stored: 0,
        until: 0,
        window: capacity * 2 / 5,
        asked: vec![0; READERS],
    };
    rig.fill(OBJECTS, 0..zone * 4)?;
    beside.stored = zone * 4;
    // An object that comes alone takes two pages, so that these fill twice as many zones.
    let with_room = beside.run(&mut rig, zone * 2)?;
    ensure!(with_room.after.counters.zones_evicted == 0, "a zone went though there was room");
    // Until all zones were used, and some of those that were asked for have gone.
    beside.run(&mut rig, zone * 6)?;
    let evicting = beside.run(&mut rig, zone * 2)?;
    Ok([with_room, evicting])
}

fn values(measured: &Measured) -> Vec<Option<f64>> {
    let gets = &measured.times[GETS];
    let counted = |of: fn(&cache::Status) -> u64| measured.counted(of);
    let [hits, misses] =
        [counted(|status| status.namespaces[0].counters.hits), counted(|status| status.counters.misses)];
    vec![
        gets.percentile_us(50.0),
        gets.percentile_us(99.0),
        gets.percentile_us(99.9),
        Some(precise_u64(gets.count()) / measured.seconds),
        Some(hits / (hits + misses)),
        Some(counted(|status| status.counters.bytes_written()) / measured.seconds / 1_048_576.0),
        Some(counted(|status| status.counters.zones_evicted)),
        Some(counted(|status| status.counters.reinserted)),
    ]
}

/// Readers, and one who stores objects that were never there.
struct Beside {
    random: Random,
    /// Objects that were stored.
    stored: u64,
    /// Objects after which all connections end.
    until: u64,
    /// Gets are of so many that were stored last.
    window: u64,
    /// Object that each reader gets.
    asked: Vec<u64>,
}

impl Beside {
    /// Readers read while so many objects are stored.
    fn run(&mut self, rig: &mut CacheRig, stores: u64) -> Result<Measured> {
        self.until = self.stored + stores;
        rig.run(self, READERS + 1)
    }
}

impl Load for Beside {
    fn next(&mut self, _now: Instant, connection: usize) -> Option<Op> {
        if self.stored >= self.until {
            return None;
        }
        if connection == READERS {
            self.stored += 1;
            return Some(OBJECTS.set(self.stored - 1));
        }
        let number = self.stored - 1 - self.random.below(self.window.min(self.stored));
        self.asked[connection] = number;
        Some(OBJECTS.get(number))
    }

    fn answered(&mut self, _now: Instant, connection: usize, outcome: Outcome) -> Result<Answer> {
        if connection == READERS {
            must_be_done(&outcome)?;
            return Ok(Answer::Counts(SETS));
        }
        let is_found = OBJECTS.is_found(self.asked[connection], &outcome)?;
        Ok(if is_found { Answer::Counts(GETS) } else { Answer::Passes })
    }

    fn think(&self, connection: usize) -> Nanos {
        if connection == READERS { THINK } else { Nanos(0) }
    }
}
