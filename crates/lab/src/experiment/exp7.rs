//! Experiment 7: several open segments, with chunks of two sizes (section 5.2, figure 12).

use super::draft::{Cell, Draft};
use super::measurement::{Metric, P95, WRITE_THROUGHPUT};
use super::scheme::{self, Scheme};
use super::setting::Setting;
use super::write_load::{self, HYBRID};
use super::{Experiment, SIZES_KIB};
use crate::characterise::plot::{Horizontal, Plot, Shape};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "exp7",
    title: "Exp#7: several open segments, small and large chunks (figure 12)",
    statement: "Neither Zone Write nor Zone Append alone writes most in all cases; one small-chunk segment under Zone \
                Append and all others under Zone Write reach the better of both, with low 95th percentiles.",
    run_ms: 200,
    cells,
    alike: Cell::clone,
    measure: write_load::measure,
    judge,
};

/// Open segments of small and of large chunks.
const SEGMENTS: [(u32, u32); 5] = [(4, 0), (3, 1), (2, 2), (1, 3), (0, 4)];
const SMALL_CHUNK_KIB: u32 = 8;
const LARGE_CHUNK_KIB: u32 = 16;
/// Zapraid's throughput is similar to the best scheme's from this share of it on: the tolerance of ratios.
const SIMILAR: f64 = 0.9;

/// A load: requests of one size, or of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Kib(u32),
    Hybrid,
}

const LOADS: [Load; 4] = [Load::Kib(4), Load::Kib(8), Load::Kib(16), Load::Hybrid];

fn cell(scheme: Scheme, load: Load, (small, large): (u32, u32)) -> Cell {
    let request_kib = match load {
        Load::Kib(kib) => Some(kib),
        Load::Hybrid => None,
    };
    let setting = Setting {
        request_kib,
        large_chunk_kib: Some(LARGE_CHUNK_KIB),
        small_segments: small,
        large_segments: large,
        workload: (load == Load::Hybrid).then_some(HYBRID),
        ..Setting::paper(0, SMALL_CHUNK_KIB)
    };
    Cell { scheme, setting }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for load in LOADS {
        for scheme in scheme::ALL.into_iter().chain([Scheme::Adaptive]) {
            cells.extend(SEGMENTS.map(|segments| cell(scheme, load, segments)));
        }
    }
    cells
}

fn judge(draft: &mut Draft) {
    use Load::Kib;
    use Scheme::{ZapRaid, ZoneAppendOnly, ZoneWriteOnly};
    let [append, write] =
        [ZoneAppendOnly, ZoneWriteOnly].map(|scheme| move |load, at| cell(scheme, load, at));
    let zap = |load, at| cell(ZapRaid, load, at);
    let over = Scheme::name;
    draft.ratio(
        "exp7-append-4k",
        (&append(Kib(4), (1, 3)), &write(Kib(4), (1, 3))),
        WRITE_THROUGHPUT,
        over(ZoneWriteOnly),
    );
    draft.ratio(
        "exp7-write-16k",
        (&write(Kib(16), (1, 3)), &append(Kib(16), (1, 3))),
        WRITE_THROUGHPUT,
        over(ZoneAppendOnly),
    );
    least_and_most(draft);
    draft.ratio(
        "exp7-p95-8k-one-small",
        (&zap(Kib(8), (1, 3)), &append(Kib(8), (1, 3))),
        P95,
        over(ZoneAppendOnly),
    );
    let by_segments = [
        ("exp7-append-p95-16k-one-large", ZoneAppendOnly, (3, 1), (4, 0), "small_segments=4"),
        ("exp7-append-p95-16k-four-large", ZoneAppendOnly, (0, 4), (3, 1), "small_segments=3"),
        ("exp7-zapraid-p95-16k", ZapRaid, (2, 2), (3, 1), "small_segments=3"),
        ("exp7-zone-write-p95-16k", ZoneWriteOnly, (2, 2), (3, 1), "small_segments=3"),
    ];
    for (id, scheme, above, below, versus) in by_segments {
        draft.ratio(id, (&cell(scheme, Kib(16), above), &cell(scheme, Kib(16), below)), P95, versus);
    }
    rules(draft);
    plots(draft);
}

/// The paper quotes by how much zapraid's tail is below that of zone-append-only, for writes of 8 KiB and two or more
/// small-chunk segments: the least and the most of three settings.
fn least_and_most(draft: &mut Draft) {
    let metric = Metric { name: "p95_latency_ratio", unit: "x" };
    let of = |scheme, at| cell(scheme, Load::Kib(8), at);
    let ratios: Vec<Vec<f64>> = SEGMENTS[..3]
        .iter()
        .map(|at| {
            let [above, below] =
                [Scheme::ZapRaid, Scheme::ZoneAppendOnly].map(|scheme| draft.values(&of(scheme, *at), P95));
            above.iter().zip(&below).map(|(above, below)| above / below).collect()
        })
        .collect();
    let by_seed = |choose: fn(f64, f64) -> f64| -> Vec<f64> {
        let of_seed = |seed: usize| ratios.iter().map(|of_setting| of_setting[seed]).reduce(choose);
        (0..ratios[0].len()).filter_map(of_seed).collect()
    };
    let numbers = [
        ("exp7-p95-8k-least", by_seed(f64::max), "the largest ratio to zone-append-only"),
        ("exp7-p95-8k-most", by_seed(f64::min), "the smallest ratio to zone-append-only"),
    ];
    for (id, values, versus) in numbers {
        let Cell { scheme, setting } = of(Scheme::ZapRaid, SEGMENTS[0]);
        let setting = Setting { versus: Some(versus.to_owned()), ..setting };
        draft.number(id, Cell { scheme, setting }, metric, &values);
    }
}

fn rules(draft: &mut Draft) {
    for load in LOADS {
        let name = name_of(load);
        let near = SEGMENTS.iter().all(|at| {
            let [zap, write, append] =
                scheme::ALL.map(|scheme| draft.mean(&cell(scheme, load, *at), WRITE_THROUGHPUT));
            zap >= SIMILAR * write.max(append)
        });
        draft.check(format!("{name}: zapraid writes as much as the better of both, or similar (10 %)"), near);
    }
    for load in [Load::Kib(4), Load::Hybrid] {
        let [zap, write, append] = scheme::ALL.map(|scheme| draft.mean(&cell(scheme, load, (1, 3)), P95));
        let rule = "with one small-chunk segment, zone-write-only has the highest 95th percentile";
        draft.check(format!("{}: {rule}", name_of(load)), write > zap.max(append));
    }
    let lower = SEGMENTS.iter().all(|at| {
        let [zap, write, append] =
            scheme::ALL.map(|scheme| draft.mean(&cell(scheme, Load::Kib(16), *at), P95));
        zap.max(write) < append
    });
    let rule = "16 KiB: zapraid and zone-write-only have lower 95th percentiles than zone-append-only";
    draft.check(rule, lower);
}

fn name_of(load: Load) -> String {
    match load {
        Load::Kib(kib) => format!("{kib} KiB"),
        Load::Hybrid => String::from("4 and 16 KiB"),
    }
}

fn plots(draft: &mut Draft) {
    let figures = [
        ("exp7-12a", "Throughput, 4-KiB writes", Load::Kib(SIZES_KIB[0]), WRITE_THROUGHPUT),
        ("exp7-12b", "Throughput, 8-KiB writes", Load::Kib(SIZES_KIB[1]), WRITE_THROUGHPUT),
        ("exp7-12c", "Throughput, 16-KiB writes", Load::Kib(SIZES_KIB[2]), WRITE_THROUGHPUT),
        ("exp7-12d", "Throughput, 75 % of 4 KiB and 25 % of 16 KiB", Load::Hybrid, WRITE_THROUGHPUT),
        ("exp7-12e", "95th percentile, 4-KiB writes", Load::Kib(SIZES_KIB[0]), P95),
        ("exp7-12f", "95th percentile, 8-KiB writes", Load::Kib(SIZES_KIB[1]), P95),
        ("exp7-12g", "95th percentile, 16-KiB writes", Load::Kib(SIZES_KIB[2]), P95),
        ("exp7-12h", "95th percentile, 75 % of 4 KiB and 25 % of 16 KiB", Load::Hybrid, P95),
    ];
    for (id, title, load, metric) in figures {
        let y_title = if metric == P95 { "95th percentile (us)" } else { "throughput (MiB/s)" };
        let series = scheme::ALL
            .into_iter()
            .chain([Scheme::Adaptive])
            .map(|scheme| draft.bars(scheme.name(), &SEGMENTS.map(|at| cell(scheme, load, at)), metric))
            .collect();
        draft.plot(Plot {
            id,
            title,
            caption: "Random writes at queue depth 64 to four open segments, chunks of 8 and 16 KiB (figure 12); adaptive \
                      opens its own.",
            x_title: "open segments of small and of large chunks",
            y_title,
            x: Horizontal::Names(SEGMENTS.iter().map(|(small, large)| format!("({small},{large})")).collect()),
            shape: Shape::Bars,
            series,
        });
    }
}
