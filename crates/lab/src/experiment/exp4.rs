//! Experiment 4: RAID levels (section 5.2, figure 9).

use super::draft::{Cell, Draft};
use super::measurement::WRITE_THROUGHPUT;
use super::rig::Plan;
use super::scheme::Scheme;
use super::setting::Setting;
use super::{Experiment, SIZES_KIB, write_load};
use crate::characterise::plot::{Horizontal, Plot, Shape};
use zone::stripe::Level;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "exp4",
    title: "Exp#4: RAID levels (figure 9)",
    statement: "With every RAID level, Zone Append in groups reaches as much more than Zone Write as with RAID-5.",
    run_ms: 250,
    cells,
    alike: Cell::clone,
    measure: write_load::measure,
    judge,
};

const SCHEMES: [Scheme; 3] = [Scheme::ZapRaid, Scheme::ZoneWriteOnly, Scheme::Adaptive];
/// Published gains by chunk size.
const GAINS: [(u32, &str); 3] = [(4, "exp4-gain-4k"), (8, "exp4-gain-8k"), (16, "exp4-gain-16k")];

/// Every level that four drives can have.
fn levels() -> Vec<u8> {
    let works = |level: &u8| {
        let plan = Plan::new(Scheme::ZapRaid, &cell(Scheme::ZapRaid, *level, 4).setting, 1);
        plan.is_ok_and(|plan| Plan { volume_blocks: 1, ..plan }.config().is_ok())
    };
    (0..=u8::MAX).filter(|code| Level::from_code(*code).is_some()).filter(works).collect()
}

fn cell(scheme: Scheme, level: u8, size_kib: u32) -> Cell {
    Cell { scheme, setting: Setting { level, ..Setting::paper(size_kib, size_kib) } }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for level in levels() {
        for scheme in SCHEMES {
            cells.extend(SIZES_KIB.map(|size| cell(scheme, level, size)));
        }
    }
    cells
}

/// As `--level` takes it.
fn name(level: u8) -> String {
    let drives = Setting::paper(0, 0).drives;
    Level::from_code(level).map_or_else(|| level.to_string(), |level| level.name(drives))
}

fn judge(draft: &mut Draft) {
    let levels = levels();
    for (size, id) in GAINS {
        for level in &levels {
            let [zap, write, _] = SCHEMES.map(|scheme| cell(scheme, *level, size));
            draft.ratio(id, (&zap, &write), WRITE_THROUGHPUT, Scheme::ZoneWriteOnly.name());
        }
    }
    let figures =
        [("exp4-9a", "4-KiB chunks", 4), ("exp4-9b", "8-KiB chunks", 8), ("exp4-9c", "16-KiB chunks", 16)];
    for (id, title, size) in figures {
        let series = SCHEMES.map(|scheme| {
            let cells: Vec<Cell> = levels.iter().map(|level| cell(scheme, *level, size)).collect();
            draft.bars(scheme.name(), &cells, WRITE_THROUGHPUT)
        });
        draft.plot(Plot {
            id,
            title,
            caption: "Random writes at queue depth 64, request size = chunk size, on four drives (figure 9).",
            x_title: "RAID level",
            y_title: "throughput (MiB/s)",
            x: Horizontal::Names(levels.iter().map(|level| name(*level)).collect()),
            shape: Shape::Bars,
            series: series.to_vec(),
        });
    }
}
