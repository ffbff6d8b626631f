//! The write area at other depths, on other arrays and with small windows: numbers to reach that are this project's own.

use super::Experiment;
use super::biza14::measure;
use super::draft::{Cell, Draft};
use super::measurement::{FLASH_BYTES, P95, WRITE_THROUGHPUT};
use super::scheme::Scheme;
use super::setting::Setting;
use crate::characterise::plot::{Horizontal, Plot, Shape};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "slots-bars",
    title: "Write area: depths of 1 to 64, wider arrays, small windows",
    statement: "Small writes cost the flash little more than their size at any depth, on arrays of any width and with small windows.",
    run_ms: 2_000,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Writes in flight, none of them flushed.
const DEPTHS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Zones of each drive where the depth is varied, and where drives or profile are.
const ZONES: u32 = 4;
const MANY_ZONES: u32 = 8;
/// Zones of drives with small windows: 8 MiB of them on each drive.
const SMALL_WINDOW_ZONES: u32 = 128;
/// Members and level: 6+1, and RAID-6 of 4+2.
const ARRAYS: [(usize, u8); 2] = [(7, 5), (6, 6)];
const WORKLOADS: [&str; 2] = ["hot-4m", "zipf-0.99"];
const SMALL_WINDOWS: &str = "pm1731a";
/// Bytes of flash per byte at most: with one or two writes in flight or many, and between.
const FLASH_MAX: f64 = 1.45;
const FLASH_MAX_BETWEEN: f64 = 1.75;
/// On other arrays, of those without.
const PART_OF_FLASH: f64 = 0.50;

fn at_depth(depth: u32, zones: u32) -> Cell {
    let setting = Setting {
        queue_depth: Some(depth),
        workload: Some("uniform"),
        write_area_zones: Some(zones),
        ..Setting::paper(4, 4)
    };
    Cell { scheme: Scheme::ZoneWriteOnly, setting }
}

/// Flushed writes, one after the other.
fn on_array((drives, level): (usize, u8), workload: &'static str, zones: u32) -> Cell {
    let setting = Setting {
        drives,
        level,
        queue_depth: Some(1),
        workload: Some(workload),
        flushes: Some(true),
        write_area_zones: Some(zones),
        ..Setting::paper(4, 4)
    };
    Cell { scheme: Scheme::ZoneWriteOnly, setting }
}

fn with_small_windows(workload: &'static str, zones: u32) -> Cell {
    let Cell { scheme, setting } = at_depth(1, zones);
    Cell { scheme, setting: Setting { profile: SMALL_WINDOWS, workload: Some(workload), ..setting } }
}

fn cells() -> Vec<Cell> {
    let depths = DEPTHS.into_iter().flat_map(|depth| [at_depth(depth, 0), at_depth(depth, ZONES)]);
    let arrays = ARRAYS.into_iter().flat_map(|array| {
        WORKLOADS
            .into_iter()
            .flat_map(move |workload| [0, MANY_ZONES].map(|zones| on_array(array, workload, zones)))
    });
    let windows = ["uniform", "hot-4m"].into_iter().flat_map(|workload| {
        [0, MANY_ZONES, SMALL_WINDOW_ZONES].map(|zones| with_small_windows(workload, zones))
    });
    depths.chain(arrays).chain(windows).collect()
}

fn judge(draft: &mut Draft) {
    for depth in DEPTHS {
        let (without, with) = (at_depth(depth, 0), at_depth(depth, ZONES));
        let flash_max = if matches!(depth, 4 | 8) { FLASH_MAX_BETWEEN } else { FLASH_MAX };
        let rule = format!("depth {depth}: at most {flash_max} bytes of flash for each byte");
        draft.check(rule, draft.mean(&with, FLASH_BYTES) <= flash_max);
        let holds = draft.mean(&with, WRITE_THROUGHPUT) >= draft.mean(&without, WRITE_THROUGHPUT);
        draft.check(format!("depth {depth}: no slower than without"), holds);
    }
    for (drives, level) in ARRAYS {
        for workload in WORKLOADS {
            let of = |zones| draft.mean(&on_array((drives, level), workload, zones), FLASH_BYTES);
            let holds = of(MANY_ZONES) <= PART_OF_FLASH * of(0);
            let rule = format!(
                "RAID-{level} of {drives}, {workload}: at most {PART_OF_FLASH} of the bytes of flash without"
            );
            draft.check(rule, holds);
        }
    }
    for zones in [MANY_ZONES, SMALL_WINDOW_ZONES] {
        let holds = draft.mean(&with_small_windows("uniform", zones), FLASH_BYTES) <= FLASH_MAX;
        let rule =
            format!("{SMALL_WINDOWS}, {zones} zones: at most {FLASH_MAX} bytes of flash for each byte");
        draft.check(rule, holds);
    }
    let titles = [
        ("slots-bars-flash", "Bytes of flash by depth", "bytes of flash per byte", FLASH_BYTES),
        ("slots-bars-throughput", "Throughput by depth", "throughput (MiB/s)", WRITE_THROUGHPUT),
        ("slots-bars-p95", "95th percentile by depth", "95th percentile (us)", P95),
    ];
    for (id, title, y_title, metric) in titles {
        let row = |name: &str, zones: u32| {
            let cells: Vec<Cell> = DEPTHS.into_iter().map(|depth| at_depth(depth, zones)).collect();
            draft.bars(name, &cells, metric)
        };
        let plot = Plot {
            id,
            title,
            caption: "Writes of 4 KiB anywhere in 1 GiB, none of them flushed.",
            x_title: "writes in flight",
            y_title,
            x: Horizontal::Names(DEPTHS.iter().map(u32::to_string).collect()),
            shape: Shape::Bars,
            series: vec![row("without", 0), row("with the write area", ZONES)],
        };
        draft.plot(plot);
    }
}
