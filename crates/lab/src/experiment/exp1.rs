//! Experiment 1: writes to a single open segment (section 5.2, figure 6).

use super::draft::{Cell, Draft};
use super::measurement::{Metric, P50, P95, WRITE_THROUGHPUT};
use super::scheme::{self, Raizn, Scheme};
use super::setting::Setting;
use super::{Experiment, SIZES_KIB, write_load};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape, bar_middle};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "exp1",
    title: "Exp#1: writes to a single open segment (figure 6)",
    statement: "For writes of 4 and 8 KiB, Zone Append in groups reaches far more than Zone Write, with lower \
                latencies; for 16 KiB both reach the same, and the 95th percentile of Zone Append is higher.",
    run_ms: 150,
    cells,
    alike: Cell::clone,
    measure: write_load::measure,
    judge,
};

fn cell(scheme: Scheme, request_kib: u32, chunk_kib: u32) -> Cell {
    Cell { scheme, setting: Setting::paper(request_kib, chunk_kib) }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for scheme in scheme::WITH_RAIZN.into_iter().chain([Scheme::Adaptive]) {
        cells.extend(SIZES_KIB.map(|size| cell(scheme, size, size)));
        // Requests of 4 KiB in chunks of 4 KiB are there already.
        cells.extend([8, 16].map(|chunk| cell(scheme, 4, chunk)));
    }
    cells
}

fn judge(draft: &mut Draft) {
    let zap = SIZES_KIB.map(|size| cell(Scheme::ZapRaid, size, size));
    let write = SIZES_KIB.map(|size| cell(Scheme::ZoneWriteOnly, size, size));
    let append = SIZES_KIB.map(|size| cell(Scheme::ZoneAppendOnly, size, size));
    draft.value("exp1-zapraid-4k", &zap[0], WRITE_THROUGHPUT);
    draft.value("exp1-zone-write-4k", &write[0], WRITE_THROUGHPUT);
    draft.value("exp1-zone-write-8k", &write[1], WRITE_THROUGHPUT);
    let over_write = [
        ["exp1-gain-4k", "exp1-p50-4k", "exp1-p95-4k"],
        ["exp1-gain-8k", "exp1-p50-8k", "exp1-p95-8k"],
        ["exp1-gain-16k", "exp1-p50-16k", "exp1-p95-16k"],
    ];
    for (place, ids) in over_write.into_iter().enumerate() {
        for (id, metric) in ids.into_iter().zip([WRITE_THROUGHPUT, P50, P95]) {
            draft.ratio(id, (&zap[place], &write[place]), metric, Scheme::ZoneWriteOnly.name());
        }
    }
    for (place, id) in ["exp1-append-4k", "exp1-append-8k", "exp1-append-16k"].into_iter().enumerate() {
        draft.ratio(id, (&zap[place], &append[place]), WRITE_THROUGHPUT, Scheme::ZoneAppendOnly.name());
    }
    let small = [4, 8, 16].map(|chunk| cell(Scheme::ZapRaid, 4, chunk));
    draft.ratio("exp1-p95-chunk-16k", (&small[2], &small[1]), P95, "chunk_kib=8");
    for place in 0..2 {
        let (zap, write) = (&zap[place], &write[place]);
        let size = SIZES_KIB[place];
        let faster = draft.mean(zap, WRITE_THROUGHPUT) > draft.mean(write, WRITE_THROUGHPUT);
        draft.check(format!("{size} KiB: zapraid writes more than zone-write-only"), faster);
        let sooner =
            draft.mean(zap, P50) < draft.mean(write, P50) && draft.mean(zap, P95) < draft.mean(write, P95);
        draft.check(
            format!("{size} KiB: zapraid answers sooner, in the median and at the 95th percentile"),
            sooner,
        );
    }
    let later = draft.mean(&zap[2], P95) > draft.mean(&write[2], P95);
    draft.check("16 KiB: the 95th percentile of zapraid is above that of zone-write-only", later);
    // "All other three schemes show much higher performance" than a RAIZN with one write in flight; ours has many.
    for (zap, size) in zap.iter().zip(SIZES_KIB) {
        let raizn = cell(Scheme::Raizn(Raizn::HeaderBlock), size, size);
        let slower = draft.mean(&raizn, WRITE_THROUGHPUT) < draft.mean(zap, WRITE_THROUGHPUT);
        draft.check(format!("{size} KiB: raizn writes less than zapraid"), slower);
    }
    plots(draft);
}

fn plots(draft: &mut Draft) {
    let titles = [
        ("exp1-6a", "Write throughput, request = chunk", "throughput (MiB/s)", WRITE_THROUGHPUT),
        ("exp1-6b", "Median latency, request = chunk", "median latency (us)", P50),
        ("exp1-6c", "95th percentile, request = chunk", "95th percentile (us)", P95),
    ];
    for (id, title, y_title, metric) in titles {
        let mut plot = by_size(draft, (id, title, y_title), metric, |scheme, size| cell(scheme, size, size));
        if metric == WRITE_THROUGHPUT {
            plot.series.push(quoted(draft, plot.series.len()));
        }
        draft.plot(plot);
    }
    let titles = [
        ("exp1-6d", "Write throughput, requests of 4 KiB", "throughput (MiB/s)", WRITE_THROUGHPUT),
        ("exp1-6e", "Median latency, requests of 4 KiB", "median latency (us)", P50),
        ("exp1-6f", "95th percentile, requests of 4 KiB", "95th percentile (us)", P95),
    ];
    for (id, title, y_title, metric) in titles {
        let plot = by_size(draft, (id, title, y_title), metric, |scheme, chunk| cell(scheme, 4, chunk));
        draft.plot(plot);
    }
}

/// The throughputs that the paper quotes, over their bars.
fn quoted(draft: &Draft, bars: usize) -> Series {
    let bars = u32::try_from(bars).expect("a handful of schemes");
    let numbers = [
        ("exp1-zapraid-4k", 0, 0),
        ("exp1-zone-write-4k", 0, 1),
        ("exp3-g256-8k", 1, 0),
        ("exp1-zone-write-8k", 1, 1),
    ];
    let at = |(id, size, scheme)| (bar_middle(size, scheme, bars), Some(draft.quoted(id)));
    Series::quoted(numbers.map(at))
}

fn by_size(
    draft: &Draft,
    (id, title, y_title): (&'static str, &'static str, &'static str),
    metric: Metric,
    cell: impl Fn(Scheme, u32) -> Cell,
) -> Plot {
    let series = scheme::WITH_RAIZN.into_iter().chain([Scheme::Adaptive]).map(|scheme| {
        let cells = SIZES_KIB.map(|size| cell(scheme, size));
        draft.bars(scheme.name(), &cells, metric)
    });
    Plot {
        id,
        title,
        caption: "Random writes at queue depth 64 to one open segment (figure 6); adaptive opens its own.",
        x_title: "chunk size (KiB)",
        y_title,
        x: Horizontal::Names(SIZES_KIB.iter().map(u32::to_string).collect()),
        shape: Shape::Bars,
        series: series.collect(),
    }
}
