//! Experiments of the StRAID paper on modelled drives without zones: the in-place engine in virtual time.
//!
//! The paper has six Samsung 980 Pro; ours are of the profile `conventional-nvme`, whose ratios and knees are compared, not its
//! throughputs. Linux md is not modelled: what the paper says against it is not judged here. Processor time is not part of
//! virtual time.

pub mod fig10;
pub mod fig11;
pub mod fig16;
pub mod fig21;

use super::Conditions;
use super::draft::Cell;
use super::measurement::{DRIVE_READS, DRIVE_WRITES, READ_THROUGHPUT, Value, WRITE_THROUGHPUT, values_of};
use super::scheme::Scheme;
use super::setting::Setting;
use crate::md_array::NewArray;
use crate::md_speed::Setup;
use crate::md_speed::rig::{Load, Places, Rig};
use crate::precise::precise_u64;
use anyhow::{Context, Result};
use drive::timing::Profile;

const PROFILE: &str = "conventional-nvme";
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
    Cell { scheme: Scheme::InPlace, setting }
}

fn setup(conditions: Conditions) -> Result<Setup> {
    let span_us = (SPAN_US * conditions.scale).max(SPAN_MIN_US);
    Ok(Setup { profile: Profile::load(PROFILE)?, span_us, seed: conditions.seed })
}

fn array(setting: &Setting) -> Result<NewArray> {
    Ok(NewArray {
        level: i32::from(setting.level),
        members: u32::try_from(setting.drives)?,
        chunk_sectors: setting.chunk_kib * 2,
        sectors: SECTORS,
        bitmap: (setting.workload == Some(BITMAP_WRITE)).then_some(Some(64 << 20)),
        is_clean: true,
    })
}

/// Runs the clients of a cell.
fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let setup = setup(conditions)?;
    let setting = &cell.setting;
    let workload = setting.workload.context("a workload")?;
    let load = Load {
        places: if workload == SEQUENTIAL_WRITE { Places::Sequential } else { Places::Random },
        is_read: [RANDOM_READ, DEGRADED_READ].contains(&workload),
        blocks: u64::from(setting.request_kib.context("a size of requests")?) / 4,
        clients: setting.queue_depth.context("a count of clients")?,
    };
    let lost = u16::from([DEGRADED_READ, DEGRADED_WRITE].contains(&workload));
    let mut rig = Rig::new(&setup, &array(setting)?, lost)?;
    let measured = rig.run(load, setup.span_us)?;
    if load.is_read {
        return Ok(values_of(&measured, READ_THROUGHPUT));
    }
    let counters = rig.volume.engine.status().counters;
    let per = |blocks: u64| precise_u64(blocks) / precise_u64(counters.written.max(1));
    let mut values = values_of(&measured, WRITE_THROUGHPUT);
    values.push(Value { metric: DRIVE_READS, value: per(counters.read_for_writes) });
    values.push(Value { metric: DRIVE_WRITES, value: per(counters.member_written) });
    Ok(values)
}
