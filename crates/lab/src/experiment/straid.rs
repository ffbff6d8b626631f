//! Experiments of the StRAID paper on modelled drives without zones: the in-place engine in virtual time.
//!
//! The paper has six Samsung 980 Pro; ours are of the profile `conventional-nvme`, whose ratios and knees are compared, not its
//! throughputs. Linux md is not modelled: what the paper says against it is not judged here. Processor time is not part of
//! virtual time.

pub mod counted;
pub mod fig1;
pub mod fig10;
pub mod fig11;
pub mod fig12;
pub mod fig13;
pub mod fig15;
pub mod fig16;
pub mod fig17;
pub mod fig18;
pub mod fig19;
pub mod fig20;
pub mod fig21;
pub mod made_up;
pub mod table4;
pub mod table5;
pub mod traces;

use super::Conditions;
use super::draft::Cell;
use super::measurement::{DRIVE_READS, DRIVE_WRITES, READ_THROUGHPUT, Value, WRITE_THROUGHPUT, values_of};
use super::scheme::{InPlace, Scheme};
use super::setting::Setting;
use crate::md_array::{Ahead, NewArray};
use crate::md_speed::Setup;
use crate::md_speed::rig::{Load, MdRig, Places};
use crate::precise::precise_u64;
use crate::workload::Measured;
use anyhow::{Context, Result, bail};
use array::inplace::Counters;
use array::inplace::cache::CACHE_BYTES;
use array::inplace::start::Tuning;
use array::inplace::window::Manner;
use drive::timing::Profile;

const PROFILE: &str = "conventional-nvme";
/// A slower drive.
const SLOW: &str = "conventional-sata";
/// A faster drive: dies and buffers of the ZN540 4 TB behind the translation layer of the former.
const FAST: &str = "zn540-4tb-conventional";
/// Capacity of the faster drive, spare flash as a share of that, and the size of erase blocks: as the former has them.
const FAST_BYTES: u64 = 64 << 30;
const FAST_SPARE: f64 = 0.42;
const FAST_ERASED_BYTES: u64 = 48 << 20;
/// Drives of all arrays: 5+1 in RAID-5, 4+2 in RAID-6.
const DRIVES: usize = 6;
/// Sectors of a drive, 8 GiB.
const SECTORS: u64 = 1 << 24;
/// Virtual time of a measurement, and the least of it: 64 requests of a MiB take some milliseconds.
const SPAN_US: f64 = 50_000.0;
const SPAN_MIN_US: f64 = 10_000.0;
const CLIENTS: u32 = 64;

/// Workloads, as they are named in settings.
const RANDOM_WRITE: &str = "random-write";
const SEQUENTIAL_WRITE: &str = "sequential-write";
const STREAM_WRITE: &str = "sequential-write-one-stream";
const RANDOM_READ: &str = "random-read";
const DEGRADED_WRITE: &str = "random-write-degraded";
const DEGRADED_READ: &str = "random-read-degraded";
const BITMAP_WRITE: &str = "random-write-bitmap";

fn cell(level: u8, request_kib: u32, clients: u32, workload: &'static str) -> Cell {
    let setting = Setting {
        profile: PROFILE,
        drives: DRIVES,
        level,
        request_kib: Some(request_kib),
        chunk_kib: 64,
        queue_depth: Some(clients),
        workload: Some(workload),
        ..Setting::default()
    };
    cell_of(setting)
}

/// A setting of the engine as it is served.
fn cell_of(setting: Setting) -> Cell {
    Cell { scheme: Scheme::InPlace(InPlace::Adaptive), setting }
}

/// The same setting with another window or cache.
fn with(variant: InPlace, cell: Cell) -> Cell {
    Cell { scheme: Scheme::InPlace(variant), ..cell }
}

/// Clients on RAID-5, with this window or cache.
fn of(variant: InPlace, workload: &'static str, size_kib: u32, clients: u32) -> Cell {
    with(variant, cell(5, size_kib, clients, workload))
}

/// All of them with each other.
fn of_all(workloads: &[&'static str], sizes: &[u32], counts: &[u32], variants: &[InPlace]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for workload in workloads {
        for size in sizes {
            for clients in counts {
                cells.extend(variants.iter().map(|variant| of(*variant, workload, *size, *clients)));
            }
        }
    }
    cells
}

fn profile(name: &str) -> Result<Profile> {
    if name != FAST {
        return Ok(Profile::load(name)?);
    }
    let shape = (FAST_SPARE, FAST_ERASED_BYTES);
    Ok(Profile::load("zn540-4tb")?.as_conventional(&Profile::load(PROFILE)?, FAST_BYTES, shape)?)
}

fn setup(setting: &Setting, conditions: Conditions) -> Result<Setup> {
    // So that as much is written.
    let times = if setting.profile == SLOW { 4.0 } else { 1.0 };
    let span_us = times * (SPAN_US * conditions.scale).max(SPAN_MIN_US);
    Ok(Setup { profile: profile(setting.profile)?, span_us, seed: conditions.seed })
}

fn array(setting: &Setting) -> Result<NewArray> {
    Ok(NewArray {
        level: i32::from(setting.level),
        members: u32::try_from(setting.drives)?,
        chunk_sectors: setting.chunk_kib * 2,
        sectors: SECTORS,
        bitmap: (setting.workload == Some(BITMAP_WRITE)).then_some(Some(64 << 20)),
        is_clean: true,
        ahead: Ahead::Nothing,
    })
}

/// Window and cache of a cell's engine.
fn tuning(cell: &Cell) -> Result<Tuning> {
    let Scheme::InPlace(variant) = cell.scheme else { bail!("another engine's scheme") };
    let window = match variant {
        InPlace::Adaptive | InPlace::NoCache => Manner::Adaptive,
        InPlace::Straid => Manner::Paper,
        InPlace::MdWindow => Manner::Md,
        InPlace::NoTwoPhase => Manner::Alone,
    };
    let usual = if variant == InPlace::NoCache { 0 } else { CACHE_BYTES };
    let cache_bytes = cell.setting.cache_mib.map_or(usual, |mib| u64::from(mib) << 20);
    Ok(Tuning { window, cache_bytes, ..Tuning::default() })
}

/// Load of a cell's clients.
fn load_of(setting: &Setting) -> Result<Load> {
    let workload = setting.workload.context("a workload")?;
    Ok(Load {
        places: match workload {
            SEQUENTIAL_WRITE => Places::Sequential,
            STREAM_WRITE => Places::Together,
            _ => Places::Random,
        },
        is_read: [RANDOM_READ, DEGRADED_READ].contains(&workload),
        blocks: u64::from(setting.request_kib.context("a size of requests")?) / 4,
        clients: setting.queue_depth.context("a count of clients")?,
    })
}

/// Runs the clients of a cell: what they measured, and what the engine counted.
fn run_clients(cell: &Cell, conditions: Conditions) -> Result<(Measured, Counters)> {
    let setting = &cell.setting;
    let setup = setup(setting, conditions)?;
    let lost =
        u16::from(setting.workload.is_some_and(|name| [DEGRADED_READ, DEGRADED_WRITE].contains(&name)));
    let mut rig = MdRig::tuned(&setup, &array(setting)?, lost, tuning(cell)?)?;
    let measured = rig.run(load_of(setting)?, setup.span_us)?;
    Ok((measured, rig.volume.engine.status().counters))
}

/// Blocks that members read and wrote for each that clients wrote.
fn member_blocks(counters: &Counters) -> [Value; 2] {
    let per = |blocks: u64| precise_u64(blocks) / precise_u64(counters.written.max(1));
    [(DRIVE_READS, counters.read_for_writes), (DRIVE_WRITES, counters.member_written)]
        .map(|(metric, blocks)| Value { metric, value: per(blocks) })
}

/// Runs the clients of a cell.
fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let (measured, counters) = run_clients(cell, conditions)?;
    if load_of(&cell.setting)?.is_read {
        return Ok(values_of(&measured, READ_THROUGHPUT));
    }
    let mut values = values_of(&measured, WRITE_THROUGHPUT);
    values.extend(member_blocks(&counters));
    Ok(values)
}
