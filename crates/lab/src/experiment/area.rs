//! Area mode: writes to a single open segment whose zones have random write areas (ADR 52), beside the schemes of
//! experiment 1. The numbers to reach are this project's own; no paper has such a scheme.

use super::draft::{Cell, Draft};
use super::measurement::{P95, WRITE_THROUGHPUT};
use super::scheme::Scheme;
use super::setting::Setting;
use super::{Experiment, SIZES_KIB, write_load};
use crate::characterise::plot::{Horizontal, Plot, Shape};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "area",
    title: "Area mode: writes to a single open segment",
    statement: "One segment in area mode does what several under Zone Write do.",
    run_ms: 150,
    cells,
    alike: Cell::clone,
    measure: write_load::measure,
    judge,
};

const SCHEMES: [Scheme; 3] = [Scheme::ZoneWriteOnly, Scheme::ZapRaid, Scheme::Area];
/// Times the throughput of Zone Write alone and of Zone Append in groups that area mode is to reach, for each size.
const TIMES_WRITE_ONLY: [f64; 3] = [1.9, 1.9, 1.0];
const TIMES_ZAPRAID: [f64; 3] = [1.2, 1.2, 1.0];

fn cell(scheme: Scheme, size_kib: u32) -> Cell {
    Cell { scheme, setting: Setting::paper(size_kib, size_kib) }
}

fn cells() -> Vec<Cell> {
    SCHEMES.into_iter().flat_map(|scheme| SIZES_KIB.map(|size| cell(scheme, size))).collect()
}

fn judge(draft: &mut Draft) {
    for (place, size) in SIZES_KIB.into_iter().enumerate() {
        let of = |draft: &Draft, metric| SCHEMES.map(|scheme| draft.mean(&cell(scheme, size), metric));
        let [write, zap, area] = of(draft, WRITE_THROUGHPUT);
        let (times_write, times_zap) = (TIMES_WRITE_ONLY[place], TIMES_ZAPRAID[place]);
        let rule = |times: f64, other: Scheme| {
            format!("{size} KiB: area mode writes at least {times} times what {} does", other.name())
        };
        draft.check(rule(times_write, Scheme::ZoneWriteOnly), area >= times_write * write);
        draft.check(rule(times_zap, Scheme::ZapRaid), area >= times_zap * zap);
        let [write, zap, area] = of(draft, P95);
        let rule = format!("{size} KiB: its 95th percentile is no higher than the better of the two");
        draft.check(rule, area <= write.min(zap));
    }
    let titles = [
        ("area-throughput", "Write throughput", "throughput (MiB/s)", WRITE_THROUGHPUT),
        ("area-p95", "95th percentile", "95th percentile (us)", P95),
    ];
    for (id, title, y_title, metric) in titles {
        let bars =
            |scheme: Scheme| draft.bars(scheme.name(), &SIZES_KIB.map(|size| cell(scheme, size)), metric);
        let plot = Plot {
            id,
            title,
            caption: "Random writes at queue depth 64 to one open segment, requests as large as chunks.",
            x_title: "chunk size (KiB)",
            y_title,
            x: Horizontal::Names(SIZES_KIB.iter().map(u32::to_string).collect()),
            shape: Shape::Bars,
            series: SCHEMES.into_iter().map(bars).collect(),
        };
        draft.plot(plot);
    }
}
