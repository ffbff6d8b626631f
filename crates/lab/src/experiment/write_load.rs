//! The load of most experiments: random writes in a closed loop, before anything needs to be collected.

use super::Conditions;
use super::clients::{self, Load, Places, Sizes};
use super::draft::Cell;
use super::measurement::{Value, WRITE_THROUGHPUT, values_of};
use super::raizn_load;
use super::rig::{Plan, Rig, Space, blocks_of_kib};
use super::scheme::Scheme;
use super::setting::Setting;
use crate::workload::Measured;
use anyhow::{Context, Result};
use base::units::BLOCK_BYTES_U64;

/// Written before the measurement: the loop has found its rhythm, and drives that began with full write buffers have
/// room again unless the flash sets the pace.
pub(super) const WARM_UP_BYTES: u64 = 128 << 20;
/// Written while measured; the paper writes 64 GiB.
pub(super) const MEASURED_BYTES: u64 = 256 << 20;
/// The volume, as a multiple of what is written: 200 GiB for 64 in the paper.
const VOLUME_TIMES: u64 = 3;

/// Workload of 75 % requests of 4 KiB and 25 % of 16 KiB (experiment 7).
pub const HYBRID: &str = "hybrid-4k-16k";

/// Returns the sizes of a setting's requests.
fn sizes_of(setting: &Setting) -> Result<Sizes> {
    if setting.workload == Some(HYBRID) {
        return Ok(Sizes::Split([4, 16].map(blocks_of_kib), 75));
    }
    Ok(Sizes::Equal(blocks_of_kib(setting.request_kib.context("a size of requests")?)))
}

/// Writes and measures, by the setting of the cell.
///
/// # Errors
/// When a request fails or there can be no such array.
pub fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    if let Scheme::Raizn(raizn) = cell.scheme {
        return raizn_load::measure(raizn, cell, conditions);
    }
    Ok(values_of(&run(cell, conditions)?, WRITE_THROUGHPUT))
}

fn run(cell: &Cell, conditions: Conditions) -> Result<Measured> {
    let setting = &cell.setting;
    let sizes = sizes_of(setting)?;
    let request_bytes = sizes.bytes_mean();
    let queue_depth = setting.queue_depth.context("a queue depth")?;
    let short = Conditions { scale: conditions.scale.min(1.0), ..conditions };
    let warm_up = short.scaled(WARM_UP_BYTES) / request_bytes;
    let requests = conditions.scaled(MEASURED_BYTES) / request_bytes;
    let mut plan = Plan::new(cell.scheme, setting, conditions.seed)?;
    // At low depth a stripe may hold one request and padding.
    let chunks = u64::from(sizes.blocks_max().div_ceil(plan.chunk_blocks));
    let all = warm_up + requests + u64::from(queue_depth);
    plan.space = Space::Stripes(all * chunks);
    plan.volume_blocks = VOLUME_TIMES * all * request_bytes / BLOCK_BYTES_U64;
    plan.busy = true;
    let mut rig = Rig::new(plan)?;
    let load = Load {
        writes: true,
        places: Places::Uniform,
        sizes,
        queue_depth,
        warm_up,
        requests: requests.max(1),
        only_degraded: false,
    };
    clients::run(&mut rig, &load, conditions.seed)
}
