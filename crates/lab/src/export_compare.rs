//! Exports under the same load, in turn: what a request costs the server's processors.
//!
//! ```text
//! own volume    RAID-5 over four emulated drives in memory: vhost-user by our front end, NBD by fio, of one server
//! null volume   a volume that does nothing, served by a thread of ours; qemu-storage-daemon with null-co
//! whole         own volume; qemu-storage-daemon with a file in memory, io_uring, unprotected
//! ```
//!
//! Requests of 4 KiB at random places. Each row is a ratio of medians of one run, whose measurements alternate, so a machine
//! whose speed drifts is fair to both. Times are those that the kernel accounts to the server.

mod load;
mod null_volume;
mod servers;

#[path = "../../server/tests/support/front_end.rs"]
#[allow(clippy::unwrap_used, dead_code, missing_docs)]
mod front_end;

use crate::paired::{Paired, Row};
use anyhow::{Result, ensure};
use load::{Load, Way};
use serde::Serialize;
use servers::Servers;
use std::path::PathBuf;

/// Options of a comparison.
#[derive(Clone, Debug)]
pub struct ExportCompare {
    /// The zoneweave binary.
    pub binary: PathBuf,
    /// Seconds of each measurement.
    pub seconds: u32,
    /// Measurements of each side of a row.
    pub rounds: u32,
    /// Size of the volumes.
    pub size_bytes: u64,
}

/// All rows.
#[derive(Clone, Debug, Serialize)]
pub struct ExportCompareReport {
    /// Comparisons, in the order they were made.
    pub rows: Vec<Row>,
    /// Peer that is not installed, so that its rows are missing.
    pub missing: Option<&'static str>,
}

/// Side of a comparison: server and transport.
#[derive(Clone, Copy, Debug)]
enum Side {
    OwnVhostUser,
    OwnNbd,
    OwnNull,
    PeerNull,
    PeerFile,
}

struct Plan {
    name: &'static str,
    load: Load,
    sides: [Side; 2],
    ratio_max: f64,
}

const fn plan(name: &'static str, way: Way, depth: u16, sides: [Side; 2], ratio_max: f64) -> Plan {
    Plan { name, load: Load { way, depth }, sides, ratio_max }
}

const OWN: [Side; 2] = [Side::OwnVhostUser, Side::OwnNbd];
const NULL: [Side; 2] = [Side::OwnNull, Side::PeerNull];
const WHOLE: [Side; 2] = [Side::OwnVhostUser, Side::PeerFile];

const PLANS: &[Plan] = &[
    plan("write, depth 32, to own NBD", Way::Write, 32, OWN, 0.50),
    plan("read, depth 32, to own NBD", Way::Read, 32, OWN, 0.45),
    plan("write, depth 1, to own NBD", Way::Write, 1, OWN, 0.60),
    plan("null volume, write, depth 8, to qemu-storage-daemon", Way::Write, 8, NULL, 1.3),
    plan("null volume, write, depth 32, to qemu-storage-daemon", Way::Write, 32, NULL, 1.6),
    plan("whole, write, depth 32, to qemu-storage-daemon", Way::Write, 32, WHOLE, 0.5),
    plan("whole, read, depth 32, to qemu-storage-daemon", Way::Read, 32, WHOLE, 0.5),
];

/// Runs the comparison; `progress` is told each row as it is there.
///
/// # Errors
/// When fio is missing, or a server or a load fails.
pub fn run(options: &ExportCompare, mut progress: impl FnMut(&Row)) -> Result<ExportCompareReport> {
    ensure!(options.rounds > 0, "--rounds must be at least 1");
    let mut servers = Servers::start(options)?;
    let missing = (!servers.has_peer()).then_some("qemu-storage-daemon");
    let mut rows = Vec::new();
    for plan in PLANS {
        let needs_peer = plan.sides.iter().any(|side| matches!(side, Side::PeerNull | Side::PeerFile));
        if needs_peer && missing.is_some() {
            continue;
        }
        let row = measure(options, &mut servers, plan)?;
        progress(&row);
        rows.push(row);
    }
    servers.stop()?;
    Ok(ExportCompareReport { rows, missing })
}

fn measure(options: &ExportCompare, servers: &mut Servers, plan: &Plan) -> Result<Row> {
    let measured = Paired::measure(options.rounds, |is_peer| {
        servers.us_per_request(plan.sides[usize::from(is_peer)], plan.load, options)
    })?;
    Ok(measured.into_row(plan.name, plan.ratio_max))
}
