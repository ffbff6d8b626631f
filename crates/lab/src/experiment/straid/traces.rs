//! Traces replayed on the in-place engine, so many requests in flight (StRAID section 5.3).

use super::super::Conditions;
use super::super::draft::Cell;
use super::super::measurement::{Metric, THROUGHPUT, Value, values_of};
use super::super::replay;
use super::super::scheme::InPlace;
use super::super::setting::Setting;
use super::super::volume_rig::VolumeRig;
use super::made_up::{self, PRXY_0, TRACES};
use super::{DRIVES, PROFILE, array, member_blocks, setup, tuning, with};
use crate::md_speed::rig;
use crate::precise::{precise, precise_u64};
use crate::trace::{self, Event};
use crate::workload::Measured;
use anyhow::{Context, Result, ensure};
use array::inplace::Counters;
use array::inplace::volume::InPlaceVolume;
use array::request::Volume;
use std::borrow::Cow;

/// Threads that replay, in the paper.
pub const CLIENTS: u32 = 32;
const CHUNK_KIB: u32 = 8;
/// Blocks that are moved before those that are measured, and these: 256 and 512 MiB.
const WARM_UP: u64 = 1 << 16;
const MEASURED: u64 = 1 << 17;

/// Blocks that writes needed and the cache had, of all that they needed.
pub const CACHE_HITS: Metric = Metric { name: "cache_hit_ratio", unit: "" };

/// A trace of table 4 on RAID-5 or RAID-6.
pub fn cell(variant: InPlace, level: u8, trace: &'static str) -> Cell {
    let setting = Setting {
        profile: PROFILE,
        drives: DRIVES,
        level,
        chunk_kib: CHUNK_KIB,
        queue_depth: Some(CLIENTS),
        workload: Some(trace),
        ..Setting::default()
    };
    with(variant, super::cell_of(setting))
}

/// The requests of a cell: those of a given trace stand for `prxy_0`.
pub fn events<'a>(cell: &Cell, conditions: Conditions<'a>) -> Result<Cow<'a, [Event]>> {
    let workload = cell.setting.workload;
    if let Some(given) = conditions.traces.first().filter(|_| workload == Some(PRXY_0)) {
        return Ok(Cow::Borrowed(given));
    }
    let trace = TRACES.iter().find(|trace| workload == Some(trace.name)).context("a trace of table 4")?;
    let blocks = conditions.scaled(WARM_UP + MEASURED);
    Ok(Cow::Owned(made_up::events(trace, blocks, conditions.seed)))
}

/// Replays the trace of a cell: what was measured after a third of it, and what the engine counted since.
pub fn run(cell: &Cell, conditions: Conditions) -> Result<(Measured, Counters)> {
    let events = events(cell, conditions)?;
    let setup = setup(&cell.setting, conditions)?;
    let volume = rig::volume(&setup, &array(&cell.setting)?, tuning(cell)?)?;
    ensure!(trace::volume_blocks(&events) <= volume.blocks(), "the trace reaches beyond the array");
    let mut rig = VolumeRig::over(volume);
    let depth = cell.setting.queue_depth.context("a count of clients")?;
    let share = precise_u64(WARM_UP) / precise_u64(WARM_UP + MEASURED);
    let first = (0..events.len()).find(|at| precise(*at) >= share * precise(events.len()));
    let (warm_up, measured) = events.split_at(first.unwrap_or(0));
    let counters = |rig: &VolumeRig<InPlaceVolume>| rig.volume().engine.status().counters;
    replay::closed_loop(&mut rig, warm_up, depth)?;
    let before = counters(&rig);
    let figures = replay::closed_loop(&mut rig, measured, depth)?;
    let after = counters(&rig);
    let since = Counters {
        written: after.written - before.written,
        read_for_writes: after.read_for_writes - before.read_for_writes,
        member_written: after.member_written - before.member_written,
        cache_hits: after.cache_hits - before.cache_hits,
        cache_misses: after.cache_misses - before.cache_misses,
        ..after
    };
    Ok((figures, since))
}

/// Share of what writes needed that the cache had; nothing was needed when all was whole.
fn hit_ratio(counters: &Counters) -> f64 {
    let needed = counters.cache_hits + counters.cache_misses;
    precise_u64(counters.cache_hits) / precise_u64(needed.max(1))
}

/// Throughput, latencies, blocks of members, and what the cache had.
pub fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let (measured, counters) = run(cell, conditions)?;
    let mut values = values_of(&measured, THROUGHPUT);
    values.extend(member_blocks(&counters));
    values.push(Value { metric: CACHE_HITS, value: hit_ratio(&counters) });
    Ok(values)
}
