//! `sizes --wall`: objects of 64 B to 1 MiB, most of them on flash; gets of any, and stores over any.

use super::{Figures, ServedOptions};
use crate::cache::peers::load::{self, Keys, Kind, Load, Way};
use crate::cache::peers::protocol::Protocol;
use crate::cache::peers::servers::{Cost, Drives, Hits, Own, Served, bytes_written_and_stored};
use crate::cache::timed::Cell;
use crate::cache::timed::report::{Column, Report, column};
use crate::wall::process::WorkDirectory;
use anyhow::{Result, ensure};
use std::path::Path;

/// Bytes of values.
const VALUES: [usize; 9] = [64, 100, 256, 1024, 4096, 16_384, 65_536, 100_000, 1 << 20];
const KEY_BYTES: usize = 32;
/// Bytes of all objects together: several times as much as memory has for copies of them.
const OBJECTS_BYTES: usize = 512 << 20;
const FLASH: &str = "1GiB";
const MEMORY: &str = "160MiB";
const CONNECTIONS: usize = 16;
/// Least share of objects that is found: all are there but those that no slot was left for.
const HITS_MIN: f64 = 0.9;

const COLUMNS: &[Column] = &[
    column("gets", "1/s", 0),
    column("get_processor", "us", 2),
    column("get_p50", "us", 0),
    column("get_p99", "us", 0),
    column("hits", "", 3),
    column("from_flash", "", 3),
    column("stores", "1/s", 0),
    column("store_processor", "us", 2),
    column("store_p50", "us", 0),
    column("store_p99", "us", 0),
    column("written", "B/B", 3),
];
/// Columns about gets, which come first.
const OF_GETS: usize = 6;

pub(super) fn run(options: &ServedOptions<'_>) -> Result<Report> {
    let settings = VALUES.map(|value_bytes| (format!("{value_bytes} B"), value_bytes)).to_vec();
    options.report(Cell::SizesWall, COLUMNS, settings, |value_bytes, told| {
        measure_size(options, *value_bytes, told)
    })
}

fn measure_size(
    options: &ServedOptions<'_>,
    value_bytes: usize,
    told: &mut dyn FnMut(),
) -> Result<Vec<Option<f64>>> {
    let object_bytes = KEY_BYTES + value_bytes;
    let objects = u64::try_from(OBJECTS_BYTES / object_bytes)?;
    let directory = WorkDirectory::new("cache-sizes")?;
    let dir = directory.join("own");
    let object_mean = object_bytes.to_string();
    let own = Own { drives: Drives::Emulated, flash: FLASH, memory: MEMORY, object_mean: &object_mean };
    let server = own.start(&options.binary, &dir, Protocol::Resp)?;
    let load = |way, keys| Load {
        protocol: Protocol::Resp,
        way,
        keys,
        value_bytes,
        version: 0,
        connections: CONNECTIONS,
        depth: 1,
    };
    load::apply(server.port, &load(Way::Set, Keys::Each(0, objects)), 0)?;
    let any = Keys::Any(objects, options.time());
    let [mut gets, mut stores] = [Figures::new(OF_GETS), Figures::new(COLUMNS.len() - OF_GETS)];
    // Stores make room in which objects were: gets come first.
    for round in 0..options.rounds {
        gets.push(of_gets(&server, &dir, &load(Way::Get, any), round)?);
    }
    for round in 0..options.rounds {
        stores.push(of_stores(&server, &dir, &load(Way::Set, any), round)?);
        told();
    }
    Ok([gets.medians(), stores.medians()].concat())
}

fn of_gets(server: &Served, dir: &Path, load: &Load, round: u32) -> Result<Vec<Option<f64>>> {
    let before = Hits::now(dir)?;
    let mut cost = server.measure(load, u64::from(round) * 2 + 1)?;
    let hits = cost.answered.hit_ratio();
    ensure!(hits >= HITS_MIN, "{hits:.3} of the objects are found");
    let from_flash = Hits::now(dir)?.flash_share_since(&before);
    Ok([&figures(&mut cost, Kind::Read)[..], &[Some(hits), Some(from_flash)]].concat())
}

fn of_stores(server: &Served, dir: &Path, load: &Load, round: u32) -> Result<Vec<Option<f64>>> {
    let [written, stored] = bytes_written_and_stored(dir)?;
    let mut cost = server.measure(load, u64::from(round) * 2 + 2)?;
    let [written_since, stored_since] = bytes_written_and_stored(dir)?;
    let written = (written_since - written) / (stored_since - stored);
    Ok([&figures(&mut cost, Kind::Store)[..], &[Some(written)]].concat())
}

fn figures(cost: &mut Cost, kind: Kind) -> [Option<f64>; 4] {
    let [p50, p99] = cost.answered.percentiles_us(kind);
    [Some(cost.requests_per_second), Some(cost.us_per_request), p50, p99]
}
