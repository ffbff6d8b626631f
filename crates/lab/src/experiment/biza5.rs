//! BIZA's figure 5: one zone of one drive, with so many writes in flight in its window, beside a zone without one. Measured as
//! `zoneweave lab characterise` measures drives.

use super::draft::{Cell, Draft};
use super::measurement::{Metric, P50, P95, Value, WRITE_THROUGHPUT};
use super::scheme::Scheme;
use super::setting::Setting;
use super::{Conditions, Experiment};
use crate::characterise::bench::{Bench, ModelBench};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};
use crate::characterise::setting::{Load, Setting as DriveSetting};
use crate::precise::precise;
use crate::workload::{Order, What};
use anyhow::{Context, Result};
use drive::timing::Profile;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "biza5",
    title: "BIZA figure 5: one zone, 1 to 32 writes in flight",
    statement: "A zone takes one write at a time and leaves most of its bandwidth unused; in a window many are in flight.",
    run_ms: 75,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

const SIZES_KIB: [u32; 5] = [4, 8, 16, 32, 64];
const DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Bandwidth of a zone: writes of this size.
const LARGE_KIB: u32 = 128;
const SHARE: Metric = Metric { name: "share_of_zone", unit: "x" };

/// Zone Write in a zone without a window, or writes in a window.
fn cell(scheme: Scheme, size_kib: u32, queue_depth: u32) -> Cell {
    let setting =
        Setting { drives: 1, level: 0, queue_depth: Some(queue_depth), ..Setting::paper(size_kib, size_kib) };
    Cell { scheme, setting }
}

fn without(size_kib: u32) -> Cell {
    cell(Scheme::ZoneWriteOnly, size_kib, 1)
}

fn cells() -> Vec<Cell> {
    let windows = SIZES_KIB.into_iter().flat_map(|size| DEPTHS.map(|depth| cell(Scheme::Area, size, depth)));
    windows.chain(SIZES_KIB.map(without)).chain([without(LARGE_KIB)]).collect()
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let profile = Profile::load(cell.setting.profile)?;
    let bench = ModelBench::new(&profile, None, conditions.seed, conditions.scale <= 1.0);
    let what = if cell.scheme == Scheme::Area { What::Area(Order::Growing) } else { What::Write };
    let load = Load::new(what, u64::from(cell.setting.chunk_kib) << 10)
        .zones(1)
        .depth(cell.setting.queue_depth.context("a queue depth")?);
    let summaries = bench.measure(&DriveSetting::Load(load)).context("the drive cannot do this")?;
    let found = &summaries[0];
    let values = [(WRITE_THROUGHPUT, found.mib_s), (P50, found.p50_us), (P95, found.p95_us)];
    Ok(values.map(|(metric, value)| Value { metric, value }).to_vec())
}

/// Share of the zone's bandwidth, the mean over all sizes, seed by seed.
fn shares(draft: &Draft, of: impl Fn(u32) -> Cell) -> Vec<f64> {
    let whole = draft.values(&without(LARGE_KIB), WRITE_THROUGHPUT);
    let all = SIZES_KIB.map(|size| draft.values(&of(size), WRITE_THROUGHPUT));
    let mean =
        |seed: usize| all.iter().map(|values| values[seed]).sum::<f64>() / precise(all.len()) / whole[seed];
    (0..whole.len()).map(mean).collect()
}

fn judge(draft: &mut Draft) {
    let deepest = DEPTHS[DEPTHS.len() - 1];
    let of_mean = |scheme, depth| {
        let Cell { setting, .. } = cell(scheme, 0, depth);
        Cell {
            scheme,
            setting: Setting { request_kib: None, chunk_kib: 0, workload: Some("mean-of-sizes"), ..setting },
        }
    };
    let one = shares(draft, without);
    draft.number("biza5-one", of_mean(Scheme::ZoneWriteOnly, 1), SHARE, &one);
    let many = shares(draft, |size| cell(Scheme::Area, size, deepest));
    draft.number("biza5-many", of_mean(Scheme::Area, deepest), SHARE, &many);
    for size in SIZES_KIB {
        let of = |depth| draft.mean(&cell(Scheme::Area, size, depth), WRITE_THROUGHPUT);
        let grows = DEPTHS.windows(2).all(|pair| of(pair[1]) >= 0.99 * of(pair[0]));
        draft.check(format!("{size} KiB: more in flight in a window are not slower"), grows);
    }
    let line = |size: u32| {
        let point =
            |depth| (f64::from(depth), draft.mean(&cell(Scheme::Area, size, depth), WRITE_THROUGHPUT));
        Series::by_number(format!("{size} KiB"), DEPTHS.map(point).to_vec())
    };
    let plot = Plot {
        id: "biza5",
        title: "One zone",
        caption: "Writes in the window of one zone (figure 5); a zone without one takes one at a time.",
        x_title: "writes in flight",
        y_title: "throughput (MiB/s)",
        x: Horizontal::Numbers,
        shape: Shape::Lines,
        series: SIZES_KIB.map(line).to_vec(),
    };
    draft.plot(plot);
}
