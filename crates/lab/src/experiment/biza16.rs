//! BIZA's figure 16 and its like for our write area: bytes of flash by the size of windows, and by the zones of the area.

use super::biza_rig::BizaRig;
use super::clients::{self, Load, Places, Sizes};
use super::draft::{Cell, Draft};
use super::measurement::{DATA_BYTES, FLASH_BYTES, Metric, PARITY_BYTES, Value, WRITE_THROUGHPUT, values_of};
use super::rig::{Array, Plan, Rig, Space};
use super::scheme::Scheme;
use super::setting::Setting;
use super::wear::{Worn, costs};
use super::{Conditions, Experiment};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};
use crate::workload::Measured;
use anyhow::{Context, Result};
use zone::device::{Areas, Geometry};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "biza16",
    title: "BIZA figure 16: windows of 4 KiB to 4 MiB, areas of 0 to 8 zones",
    statement: "Larger windows absorb more, and the smallest is enough for partial parities.",
    run_ms: 2_000,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Loads of 4 KiB to 1 GiB, one write after the other, so that each stripe is filled block by block.
const WORKLOADS: [(&str, Places); 2] = [("uniform", Places::Uniform), ("zipf-0.99", Places::Zipf(0.99))];
const WINDOWS_KIB: [u32; 6] = [4, 16, 64, 256, 1024, 4096];
/// Our smallest window: the first block of each is a marker.
const OWN_WINDOWS_KIB: [u32; 5] = [16, 64, 256, 1024, 4096];
/// The windows of the drive.
const USUAL_KIB: u32 = 1024;
/// Eight is what an array with one open segment affords on drives with 14 active zones: more are asked for in vain.
const ZONES: [u32; 6] = [0, 1, 2, 4, 6, 8];
const USUAL_ZONES: u32 = 8;
/// Blocks of a granule, or of a window where that is smaller.
const GRANULE_BLOCKS: u32 = 4;
const WARM_UP: u64 = 40_000;
const MEASURED: u64 = 60_000;
const VOLUME_BLOCKS: u64 = 1 << 18;
/// Larger windows may program so many times what smaller ones do: the order of evictions is another one.
const TIMES_FLASH: f64 = 1.02;
/// A parity block for three of data, and little more.
const PARITY_MAX: f64 = 0.34;

/// Zones of the area that the array could afford.
pub(super) const AREA_ZONES: Metric = Metric { name: "write_area_zones_open", unit: "zones" };

fn cell(scheme: Scheme, workload: &'static str, window_kib: u32, zones: Option<u32>) -> Cell {
    let setting = Setting {
        workload: Some(workload),
        queue_depth: Some(1),
        window_kib: Some(window_kib),
        write_area_zones: zones,
        ..Setting::paper(4, 4)
    };
    Cell { scheme, setting }
}

fn published(workload: &'static str, window_kib: u32) -> Cell {
    cell(Scheme::Biza, workload, window_kib, None)
}

fn own(workload: &'static str, window_kib: u32, zones: u32) -> Cell {
    cell(Scheme::ZoneWriteOnly, workload, window_kib, Some(zones))
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (workload, _) in WORKLOADS {
        cells.extend(WINDOWS_KIB.map(|window| published(workload, window)));
        cells.extend(OWN_WINDOWS_KIB.map(|window| own(workload, window, USUAL_ZONES)));
        let others = ZONES.into_iter().filter(|zones| *zones != USUAL_ZONES);
        cells.extend(others.map(|zones| own(workload, USUAL_KIB, zones)));
    }
    cells
}

/// The array of a cell: drives with windows of that size.
fn plan_of(cell: &Cell, conditions: Conditions) -> Result<Plan> {
    let mut plan = Plan::new(cell.scheme, &cell.setting, conditions.seed)?;
    let window_blocks = cell.setting.window_kib.context("a size of windows")? / 4;
    let geometry = plan.profile.geometry_with_areas();
    let areas = Areas {
        window_blocks,
        granule_blocks: GRANULE_BLOCKS.min(window_blocks),
        ..geometry.areas.context("a drive with windows")?
    };
    plan.profile = plan.profile.with_geometry(&Geometry { areas: Some(areas), ..geometry });
    plan.volume_blocks = VOLUME_BLOCKS;
    // Without the write area a stripe holds one block.
    plan.space = Space::Stripes(VOLUME_BLOCKS + conditions.scaled(WARM_UP) + conditions.scaled(MEASURED));
    plan.busy = true;
    plan.afford_write_area()?;
    Ok(plan)
}

fn measure(cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let plan = plan_of(cell, conditions)?;
    if cell.scheme == Scheme::Biza {
        let mut rig = BizaRig::new(&plan, true)?;
        return measure_on(&mut rig, cell, conditions);
    }
    let zones = plan.write_area_zones;
    let mut rig = Rig::new(plan)?;
    let mut values = measure_on(&mut rig, cell, conditions)?;
    let open = rig.volume().engine.no_write_area(zones).map_or(zones, |_| 0);
    values.push(Value { metric: AREA_ZONES, value: f64::from(open) });
    Ok(values)
}

fn measure_on<A: Array + Worn>(rig: &mut A, cell: &Cell, conditions: Conditions) -> Result<Vec<Value>> {
    let places = WORKLOADS.into_iter().find(|(name, _)| cell.setting.workload == Some(*name));
    let load = |requests| Load {
        writes: true,
        places: places.map_or(Places::Uniform, |(_, places)| places),
        sizes: Sizes::Equal(1),
        queue_depth: 1,
        warm_up: 0,
        requests,
        only_degraded: false,
    };
    let run = |rig: &mut A, requests: u64, seed: u64| -> Result<Measured> {
        clients::run(rig, &load(conditions.scaled(requests)), seed)
    };
    run(rig, WARM_UP, conditions.seed << 1)?;
    let before = rig.counts_now();
    let figures = run(rig, MEASURED, conditions.seed << 1 | 1)?;
    let costs = costs(&before, &rig.counts_now(), &figures);
    Ok(values_of(&figures, WRITE_THROUGHPUT).into_iter().chain(costs).collect())
}

fn judge(draft: &mut Draft) {
    for (workload, _) in WORKLOADS {
        let falls = |draft: &Draft, cells: &[Cell]| {
            let flash: Vec<f64> = cells.iter().map(|cell| draft.mean(cell, FLASH_BYTES)).collect();
            flash.windows(2).all(|pair| pair[1] <= TIMES_FLASH * pair[0])
        };
        let peer = WINDOWS_KIB.map(|window| published(workload, window));
        let holds = falls(draft, &peer);
        draft.check(format!("{workload}: biza-published programs no more with larger windows"), holds);
        let ours = OWN_WINDOWS_KIB.map(|window| own(workload, window, USUAL_ZONES));
        let holds = falls(draft, &ours);
        draft.check(format!("{workload}: the write area programs no more with larger windows"), holds);
        let areas = ZONES.map(|zones| own(workload, USUAL_KIB, zones));
        let holds = falls(draft, &areas);
        draft.check(format!("{workload}: larger areas program no more"), holds);
    }
    let smallest = draft.mean(&published("uniform", WINDOWS_KIB[0]), PARITY_BYTES);
    draft.check("uniform: windows of 4 KiB absorb all partial parities", smallest <= PARITY_MAX);
    plot_windows(draft);
    plot_zones(draft);
}

fn plot_windows(draft: &mut Draft) {
    let line = |name: &str, cells: &[(f64, Cell)], metric: Metric| {
        let points = cells.iter().map(|(at, cell)| (*at, draft.mean(cell, metric)));
        Series::by_number(name.to_owned(), points.collect())
    };
    let mut plots = Vec::new();
    for (id, (workload, _)) in ["biza16-uniform", "biza16-zipf"].into_iter().zip(WORKLOADS) {
        // By powers of two: the axis counts doublings from 4 KiB on.
        let at = |window: u32| f64::from((window / 4).ilog2());
        let peer = WINDOWS_KIB.map(|window| (at(window), published(workload, window)));
        let ours = OWN_WINDOWS_KIB.map(|window| (at(window), own(workload, window, USUAL_ZONES)));
        plots.push(Plot {
            id,
            title: if workload == "uniform" { "Windows, uniform writes" } else { "Windows, Zipf 0.99" },
            caption: "Lone writes of 4 KiB to 1 GiB, windows of 4 KiB to 4 MiB (figure 16).",
            x_title: "doublings of a window of 4 KiB",
            y_title: "bytes of flash per byte",
            x: Horizontal::Numbers,
            shape: Shape::Lines,
            series: vec![
                line("biza-published", &peer, FLASH_BYTES),
                line("of it data", &peer, DATA_BYTES),
                line("of it parity", &peer, PARITY_BYTES),
                line("write area of 8 zones", &ours, FLASH_BYTES),
            ],
        });
    }
    plots.into_iter().for_each(|plot| draft.plot(plot));
}

fn plot_zones(draft: &mut Draft) {
    let line = |(workload, _): (&'static str, Places)| {
        let point = |zones| (f64::from(zones), draft.mean(&own(workload, USUAL_KIB, zones), FLASH_BYTES));
        Series::by_number(workload.to_owned(), ZONES.map(point).to_vec())
    };
    let plot = Plot {
        id: "biza16-zones",
        title: "Zones of the write area",
        caption: "Lone writes of 4 KiB to 1 GiB, windows of 1 MiB.",
        x_title: "zones of each drive",
        y_title: "bytes of flash per byte",
        x: Horizontal::Numbers,
        shape: Shape::Lines,
        series: WORKLOADS.map(line).to_vec(),
    };
    draft.plot(plot);
}
