//! Reads one at a time of a volume that was filled, perhaps with a drive missing.

use super::Conditions;
use super::clients::{self, Load, Places, Sizes};
use super::draft::Cell;
use super::measurement::{READ_THROUGHPUT, Value, values_of};
use super::rig::{Plan, Rig, Space, blocks_of_kib};
use anyhow::{Context, Result};
use base::time::Nanos;

/// The volume: the paper fills 200 GiB. What matters is that reads meet all dies of the drives.
const VOLUME_BLOCKS: u64 = (192 << 20) / 4096;
/// Reads measured; the paper reads 16 GiB.
const READS: u64 = 4000;
/// After filling, until drives have written what they hold in their buffers.
const SETTLE: Nanos = Nanos(2_000_000_000);
/// The drive that fails.
const FAILED: usize = 1;

/// Workload of reads with all drives.
pub const NORMAL: &str = "randread";
/// Workload of reads of blocks that are lost, with a drive missing.
pub const DEGRADED: &str = "randread-degraded";

/// Fills, perhaps fails a drive, reads and measures, by the setting of the cell.
///
/// # Errors
/// When a request fails or there can be no such array.
pub fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let setting = &cell.setting;
    let request_blocks = blocks_of_kib(setting.request_kib.context("a size of requests")?);
    let mut plan = Plan::new(cell.scheme, setting, conditions.seed)?;
    let short = Conditions { scale: conditions.scale.min(1.0), ..conditions };
    plan.volume_blocks = short.scaled(VOLUME_BLOCKS).max(64).next_multiple_of(64);
    plan.space = Space::Stripes(plan.volume_blocks);
    let mut rig = Rig::new(plan)?;
    clients::fill(&mut rig, request_blocks)?;
    let is_degraded = setting.workload == Some(DEGRADED);
    if is_degraded {
        rig.fail(FAILED)?;
    }
    rig.idle(SETTLE)?;
    let load = Load {
        writes: false,
        places: Places::Uniform,
        sizes: Sizes::Equal(request_blocks),
        queue_depth: 1,
        warm_up: 1,
        requests: conditions.scaled(READS),
        only_degraded: is_degraded,
    };
    let mut measured = clients::run(&mut rig, &load, conditions.seed)?;
    // Reads of other drives lie between those that count: one at a time, throughput follows from latency.
    measured.span_us = measured.latencies_us.iter().sum();
    Ok(values_of(&measured, READ_THROUGHPUT))
}
