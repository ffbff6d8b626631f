//! Figure 2: Zone Write against Zone Append on one drive, without an array (section 2.2). Measured as
//! `zoneweave lab characterise` measures it, which also plots it.

use super::draft::{Cell, Draft};
use super::measurement::{P50, P95, Value, WRITE_THROUGHPUT};
use super::scheme::Scheme;
use super::setting::Setting;
use super::{Conditions, Experiment, SIZES_KIB};
use crate::characterise::bench::{Bench, ModelBench};
use crate::characterise::setting::{Load, Setting as DriveSetting};
use crate::workload::What;
use anyhow::{Context, Result};
use drive::timing::Profile;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "fig2",
    title: "Figure 2: Zone Write against Zone Append on one drive",
    statement: "In a single zone, appends of 4 and 8 KiB achieve more than writes, and four in flight are enough; over \
                several zones writes achieve more than appends. For 16 KiB both are similar.",
    run_ms: 75,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

const ZONES: [u32; 5] = [1, 2, 4, 6, 8];
/// Appends in flight in each zone.
const APPEND_DEPTH: u32 = 4;
/// More than the paper found to be of use.
const DEEP: u32 = 16;
/// Best case of the paper's footnote: all zones that a ZN540 allows, writes of 128 KiB.
const BEST_CASE: (u32, u32) = (14, 128);

/// The queue depth is that of each zone.
fn cell(scheme: Scheme, zones: u32, size_kib: u32, queue_depth: u32) -> Cell {
    let setting = Setting {
        drives: 1,
        level: 0,
        small_segments: zones,
        queue_depth: Some(queue_depth),
        ..Setting::paper(size_kib, size_kib)
    };
    Cell { scheme, setting }
}

fn writes(zones: u32, size_kib: u32) -> Cell {
    cell(Scheme::ZoneWriteOnly, zones, size_kib, 1)
}

fn appends(zones: u32, size_kib: u32) -> Cell {
    cell(Scheme::ZoneAppendOnly, zones, size_kib, APPEND_DEPTH)
}

/// Returns a cell of one zone with more in flight than four.
fn deep_appends(size_kib: u32) -> Cell {
    cell(Scheme::ZoneAppendOnly, 1, size_kib, DEEP)
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for size in SIZES_KIB {
        cells.extend(ZONES.map(|zones| writes(zones, size)));
        cells.extend(ZONES.map(|zones| appends(zones, size)));
    }
    cells.extend([4, 8].map(deep_appends));
    cells.push(writes(BEST_CASE.0, BEST_CASE.1));
    cells
}

/// Measures the drive of a cell without an array.
///
/// # Errors
/// When the drive cannot do it.
pub fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let profile = Profile::load(cell.setting.profile)?;
    let bench = ModelBench::new(&profile, None, conditions.seed, conditions.scale <= 1.0);
    let what = if cell.scheme == Scheme::ZoneWriteOnly { What::Write } else { What::Append };
    let bytes = u64::from(cell.setting.chunk_kib) << 10;
    let load = Load::new(what, bytes)
        .zones(cell.setting.small_segments)
        .depth(cell.setting.queue_depth.context("a queue depth")?);
    let summaries = bench.measure(&DriveSetting::Load(load)).context("the drive cannot do this")?;
    let found = &summaries[0];
    let values = [(WRITE_THROUGHPUT, found.mib_s), (P50, found.p50_us), (P95, found.p95_us)];
    Ok(values.map(|(metric, value)| Value { metric, value }).to_vec())
}

fn judge(draft: &mut Draft) {
    for (id, cell) in [
        ("zapraid-write-4k-1", writes(1, 4)),
        ("zapraid-write-8k-1", writes(1, 8)),
        ("zapraid-write-16k-1", writes(1, 16)),
        ("zapraid-append-4k-1", appends(1, 4)),
        ("zapraid-append-8k-1", appends(1, 8)),
        ("zapraid-append-16k-1", appends(1, 16)),
        ("zapraid-write-4k-6", writes(6, 4)),
        ("zapraid-append-4k-2", appends(2, 4)),
        ("zapraid-write-8k-8", writes(8, 8)),
        ("zapraid-append-8k-2", appends(2, 8)),
        ("zapraid-write-16k-8", writes(8, 16)),
        ("zapraid-append-16k-8", appends(8, 16)),
        ("zapraid-best-case", writes(BEST_CASE.0, BEST_CASE.1)),
    ] {
        draft.value(id, &cell, WRITE_THROUGHPUT);
    }
    let reaches = |draft: &Draft, cell: &Cell| draft.mean(cell, WRITE_THROUGHPUT);
    for size in [4, 8] {
        let [write, append] = [writes(1, size), appends(1, size)].map(|cell| reaches(draft, &cell));
        draft.check(format!("{size} KiB, one zone: appends reach 10 % more or better"), append > 1.1 * write);
        let [write, append_8] = [writes(8, size), appends(8, size)].map(|cell| reaches(draft, &cell));
        draft.check(
            format!("{size} KiB, eight zones: writes reach 10 % more or better"),
            write > 1.1 * append_8,
        );
        let deep = reaches(draft, &deep_appends(size));
        let rule =
            format!("{size} KiB, one zone: {DEEP} appends in flight gain less than 5 % over {APPEND_DEPTH}");
        draft.check(rule, deep < 1.05 * append);
    }
    let similar = ZONES.iter().all(|zones| {
        let [write, append] = [writes(*zones, 16), appends(*zones, 16)].map(|cell| reaches(draft, &cell));
        (write / append - 1.0).abs() < 0.1
    });
    draft.check("16 KiB: both within 10 % for every number of zones", similar);
}
