//! `usage`: the motive of the ZonedStore paper. The same flash as a drive with zones and as a conventional one, of which more and more is
//! used: what is not used is spare for the conventional drive's collector.
//!
//! The load is the five mixes of `fig5`, one after the other on the same cache: values of 100 KB, 32 in flight. The collector works as that
//! of a drive of usual size ([`Profile::collecting_as`]), so rates follow from the share that is used, and not from the scale.

use super::flat::Flat;
use super::report::{Column, Report, Row, column};
use super::rig::{CacheRig, Drives, Measured};
use super::table1::{IN_FLIGHT, Mix, OBJECTS};
use super::{Cell, Run, profile};
use crate::precise::precise_u64;
use anyhow::Result;
use base::units::BLOCK_BYTES_U64;
use drive::timing::Profile;

const PROFILE: &str = "zn540-1tb";
/// All flash at scale 1.
const FLASH_BYTES: u64 = 2 << 30;
const ZONE_BLOCKS: u32 = 4096;
/// A conventional drive erases so much at a time.
const ERASE_BYTES: u64 = 4 << 20;
/// Percent of the flash that the cache has.
const USED: [u64; 6] = [50, 60, 70, 80, 90, 95];
/// Mixes, and how many of ten requests are gets.
const MIXES: [(&str, u64); 5] = [("WO", 0), ("W8R2", 2), ("W5R5", 5), ("W2R8", 8), ("RO", 10)];

pub(super) const COLUMNS: &[Column] = &[
    column("qps", "1/s", 0),
    column("p50", "ms", 3),
    column("p99", "ms", 3),
    column("hits", "", 3),
    column("stored", "MiB/s", 0),
    column("wa_cache", "", 3),
    column("wa_drive", "", 3),
];

pub(super) fn run(run: &Run) -> Result<Report> {
    let flash = run.scaled(FLASH_BYTES, 256 << 20);
    let mut rows = Vec::new();
    for used in USED {
        for erase_bytes in [None, Some(ERASE_BYTES)] {
            rows.extend(measure(flash, used, erase_bytes, run.seed)?);
        }
    }
    let scale = format!(
        "{} MiB of flash in zones of {} MiB, or erased {} MiB at a time",
        flash >> 20,
        zone_bytes() >> 20,
        ERASE_BYTES >> 20
    );
    Ok(Report { cell: Cell::Usage, seed: run.seed, scale, columns: COLUMNS, rows, bars: Vec::new() })
}

fn zone_bytes() -> u64 {
    u64::from(ZONE_BLOCKS) * BLOCK_BYTES_U64
}

/// The cache is filled and written once more, so that the collector has come to its steady state, then asked by each mix. The drive has
/// zones unless it erases blocks of so many bytes.
pub(super) fn measure(flash: u64, used: u64, erase_bytes: Option<u64>, seed: u64) -> Result<Vec<Row>> {
    let profile: Profile = profile(PROFILE);
    let zones = u32::try_from(flash * used / 100 / zone_bytes()).expect("a u32 of zones");
    let mut drives = Drives::new(&profile, (1, zones, ZONE_BLOCKS), seed);
    let bytes = drives.bytes();
    let spare = precise_u64(flash) / precise_u64(bytes) - 1.0;
    let flat = erase_bytes.map(|erased| Flat::of(&profile, drives.geometry(), spare, erased)).transpose()?;
    drives.flat.clone_from(&flat);
    let keys = bytes / OBJECTS.bytes();
    let mut rig = CacheRig::new(&drives, OBJECTS.options())?;
    rig.fill(OBJECTS, 0..keys)?;
    rig.run(&mut Mix::new(seed, (0, 10), keys, keys), IN_FLIGHT)?;
    let name = if flat.is_some() { "conventional" } else { "zoned" };
    let programmed = || flat.as_ref().map(Flat::programmed);
    let mut rows = Vec::new();
    for (place, (mix, gets)) in (1..).zip(MIXES) {
        let before = programmed();
        let mut load = Mix::new(seed + place, (gets, 10), keys, keys);
        let measured = rig.run(&mut load, IN_FLIGHT)?;
        let moved = programmed().zip(before).map(|(after, before)| after - before);
        rows.push(row(format!("{used} % used, {name}, {mix}"), &measured, load.hit_ratio(), moved));
    }
    Ok(rows)
}

/// A drive with zones moves nothing; where nothing is stored, or nothing read, there is no ratio.
fn row(setting: String, measured: &Measured, hits: f64, programmed: Option<u64>) -> Row {
    let all = measured.all();
    let written = measured.counted(|status| status.counters.bytes_written());
    let stored = measured.counted(|status| status.counters.bytes_stored);
    let stores = stored > 0.0;
    let values = vec![
        Some(precise_u64(all.count()) / measured.seconds),
        all.percentile_us(50.0).map(|us| us / 1e3),
        all.percentile_us(99.0).map(|us| us / 1e3),
        hits.is_finite().then_some(hits),
        stores.then(|| stored / 1_048_576.0 / measured.seconds),
        stores.then(|| written / stored),
        programmed.filter(|_| stores).map(|bytes| precise_u64(bytes) / written),
    ];
    Row { setting, values }
}
