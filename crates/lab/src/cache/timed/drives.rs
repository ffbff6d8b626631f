//! `drives`: one of 2, 4 and 8 drives is lost, and replaced by an empty one: hit ratio over time, against the share of the others.
//!
//! Clients get objects by their popularity and store what they miss, so what was lost comes back by and by, on the drives that are left.

use super::aside::Aside;
use super::report::{Bar, Bound, Column, Report, Row, column};
use super::rig::{CacheRig, Drives, Objects};
use super::{Cell, Run, profile};
use crate::cache::rig::Popularity;
use crate::precise::precise_u64;
use anyhow::Result;
use base::time::Nanos;
use base::units::{BLOCK_BYTES_U64, human_bytes};
use cache::Options;

const OBJECTS: Objects = Objects { key_bytes: 16, value_bytes: 4000 };
const COUNTS: [u8; 3] = [2, 4, 8];
/// Zones of 2 MiB.
const ZONES: u32 = 32;
const ZONE_BLOCKS: u64 = 512;
const CLIENTS: usize = 64;
const SKEW: f64 = 0.7;
/// Least memory of a cache.
const MEMORY_MIN: u64 = 1 << 20;
/// Place of the drive that is lost.
const LOST: usize = 0;
/// Windows without the drive, and with the new one; ends of those that are told.
const WINDOWS: u64 = 16;
const TOLD: [u64; 5] = [1, 2, 4, 8, 16];

const COLUMNS: &[Column] = &[
    column("since", "ms", 1),
    column("gets", "", 0),
    column("hits", "", 4),
    column("of_before", "", 4),
    column("share", "", 4),
];

pub(super) fn run(run: &Run) -> Result<Report> {
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for count in COUNTS {
        let share = f64::from(count - 1) / f64::from(count);
        let windows = measure(run, count)?;
        let before = windows[0].hits;
        for window in &windows {
            let values = vec![
                Some(window.since_ms),
                Some(precise_u64(window.gets)),
                Some(window.hits),
                Some(window.hits / before),
                Some(if window.phase == "lost" { share } else { 1.0 }),
            ];
            rows.push(Row { setting: format!("{count} drives, {}", window.name()), values });
        }
        bars.push(Bar {
            name: format!("{count} drives, hits of the first window without one over those before"),
            value: windows[1].hits / before,
            bound: Bound::AtLeast(share),
            unit: "",
        });
    }
    let scale = format!(
        "zn540-1tb of {} each, one and a half times as many keys (Zipf {SKEW}) of {} B as fit, windows of a 20th of the keys",
        human_bytes(u64::from(ZONES) * run.scaled(ZONE_BLOCKS, 64) * BLOCK_BYTES_U64),
        OBJECTS.bytes()
    );
    Ok(Report { cell: Cell::Drives, seed: run.seed, scale, columns: COLUMNS, rows, bars })
}

/// Gets between two instants.
struct Window {
    phase: &'static str,
    /// Number of the last window of the phase that it covers.
    number: u64,
    /// Time since the phase began.
    since_ms: f64,
    gets: u64,
    hits: f64,
}

impl Window {
    fn name(&self) -> String {
        match self.phase {
            "before" => self.phase.to_owned(),
            phase => format!("{phase}, window {}", self.number),
        }
    }
}

fn measure(run: &Run, count: u8) -> Result<Vec<Window>> {
    let zone_blocks = u32::try_from(run.scaled(ZONE_BLOCKS, 64))?;
    let drives = Drives::new(&profile("zn540-1tb"), (count, ZONES, zone_blocks), run.seed);
    let keys = drives.bytes() / OBJECTS.bytes() * 3 / 2;
    let popularity = Popularity::new(usize::try_from(keys)?, SKEW);
    // Buffers, of which a tenth of this is full, hold next to nothing of what the drives hold.
    let memory_bytes = (drives.bytes() / 16).max(MEMORY_MIN);
    let mut rig = CacheRig::new(&drives, Options { memory_bytes, ..OBJECTS.options() })?;
    let mut aside = Aside::new(OBJECTS, popularity, (CLIENTS, Nanos(0)), run.seed);
    aside.begin(keys * 4);
    rig.run(&mut aside, CLIENTS)?;
    let window = keys / 20;
    let mut windows = watch(&mut rig, &mut aside, "before", (window * 4, 1))?;
    rig.lose(LOST)?;
    windows.extend(watch(&mut rig, &mut aside, "lost", (window, WINDOWS))?);
    rig.replace(LOST, &drives)?;
    windows.extend(watch(&mut rig, &mut aside, "replaced", (window, WINDOWS))?);
    Ok(windows)
}

/// Windows of so many gets, of which some are told.
fn watch(
    rig: &mut CacheRig,
    aside: &mut Aside,
    phase: &'static str,
    (gets, count): (u64, u64),
) -> Result<Vec<Window>> {
    let (mut windows, mut since_ms) = (Vec::new(), 0.0);
    for number in 1..=count {
        aside.begin(gets);
        since_ms += rig.run(aside, CLIENTS)?.seconds * 1e3;
        if TOLD.contains(&number) {
            let hits = precise_u64(aside.found()) / precise_u64(gets);
            windows.push(Window { phase, number, since_ms, gets, hits });
        }
    }
    Ok(windows)
}
