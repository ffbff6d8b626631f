//! Experiment 6: throughput by queue depth, on real and on emulated drives (section 5.2, figure 11).

use super::draft::{Cell, Draft};
use super::measurement::WRITE_THROUGHPUT;
use super::scheme::{self, Scheme};
use super::setting::Setting;
use super::{Experiment, SIZES_KIB, write_load};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "exp6",
    title: "Exp#6: throughput by queue depth (figure 11)",
    statement: "Throughput rises with the queue depth: on four real drives up to a depth of 16, on seven emulated ones \
                without write buffers up to 128.",
    run_ms: 250,
    cells,
    alike: Cell::clone,
    measure: write_load::measure,
    judge,
};

/// The paper begins at 4; below that is where padded stripes cost most.
const REAL_DEPTHS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
const FEMU_DEPTHS: [u32; 6] = [4, 8, 16, 32, 64, 128];

/// By chunk size, on the emulated drives: what is quoted at depth 4, at depth 128, and their ratio.
const FEMU_QUOTED: [[&str; 3]; 3] = [
    ["exp6-femu-4k-qd4", "exp6-femu-4k-qd128", "exp6-femu-4k-ratio"],
    ["exp6-femu-8k-qd4", "exp6-femu-8k-qd128", "exp6-femu-8k-ratio"],
    ["exp6-femu-16k-qd4", "exp6-femu-16k-qd128", "exp6-femu-16k-ratio"],
];

fn real(scheme: Scheme, depth: u32, size_kib: u32) -> Cell {
    Cell { scheme, setting: Setting { queue_depth: Some(depth), ..Setting::paper(size_kib, size_kib) } }
}

fn femu(depth: u32, size_kib: u32) -> Cell {
    emulated(Scheme::ZapRaid, depth, size_kib)
}

fn emulated(scheme: Scheme, depth: u32, size_kib: u32) -> Cell {
    let Cell { scheme, setting } = real(scheme, depth, size_kib);
    Cell { scheme, setting: Setting { profile: "femu-zapraid", drives: 7, ..setting } }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for size in SIZES_KIB {
        // What a shallow queue costs the baseline shows best where requests are smallest.
        let schemes = if size == 4 { &scheme::WITH_RAIZN[..] } else { &scheme::ALL[..] };
        for scheme in schemes.iter().copied() {
            cells.extend(REAL_DEPTHS.map(|depth| real(scheme, depth, size)));
        }
        cells.extend(REAL_DEPTHS.map(|depth| real(Scheme::Adaptive, depth, size)));
        for scheme in [Scheme::ZapRaid, Scheme::Adaptive] {
            cells.extend(FEMU_DEPTHS.map(|depth| emulated(scheme, depth, size)));
        }
    }
    cells
}

fn judge(draft: &mut Draft) {
    let zap = |depth, size| real(Scheme::ZapRaid, depth, size);
    let ids = ["exp6-real-4k", "exp6-real-8k", "exp6-real-16k"];
    for (size, id) in SIZES_KIB.into_iter().zip(ids) {
        draft.ratio(id, (&zap(16, size), &zap(4, size)), WRITE_THROUGHPUT, "queue_depth=4");
        let [before, at, after] = [4, 16, 64].map(|depth| draft.mean(&zap(depth, size), WRITE_THROUGHPUT));
        draft.check(format!("{size} KiB: throughput rises from depth 4 to 16"), before < at);
        draft.check(format!("{size} KiB: and by less than 10 % from 16 to 64"), after < 1.1 * at);
    }
    for (size, [shallow, deep, ratio]) in SIZES_KIB.into_iter().zip(FEMU_QUOTED) {
        draft.value(shallow, &femu(4, size), WRITE_THROUGHPUT);
        draft.value(deep, &femu(128, size), WRITE_THROUGHPUT);
        draft.ratio(ratio, (&femu(128, size), &femu(4, size)), WRITE_THROUGHPUT, "queue_depth=4");
        let found = FEMU_DEPTHS.map(|depth| draft.mean(&femu(depth, size), WRITE_THROUGHPUT));
        // At the limit of the chips it may stay.
        let rises = found.windows(2).all(|pair| pair[1] > 0.98 * pair[0]) && found[5] > 1.5 * found[2];
        draft.check(format!("emulated, {size} KiB: throughput rises with the depth"), rises);
    }
    plots(draft);
}

fn plots(draft: &mut Draft) {
    let by_size = |depths: &[u32], cell: fn(u32, u32) -> Cell, draft: &Draft| {
        SIZES_KIB.map(|size| {
            let values = depths.iter().map(|depth| Some(draft.mean(&cell(*depth, size), WRITE_THROUGHPUT)));
            Series::by_name(format!("{size} KiB"), values)
        })
    };
    let on_real = by_size(&REAL_DEPTHS, |depth, size| real(Scheme::ZapRaid, depth, size), draft).to_vec();
    let mut on_femu = by_size(&FEMU_DEPTHS, femu, draft).to_vec();
    let quoted = FEMU_QUOTED.iter().flat_map(|[shallow, deep, _]| [(0.0, *shallow), (5.0, *deep)]);
    let quoted: Vec<_> = quoted.map(|(x, id)| (x, Some(draft.quoted(id)))).collect();
    on_femu.push(Series::quoted(quoted));
    let figures = [
        ("exp6-11a", "Four ZN540 4 TB, 3+1", REAL_DEPTHS.as_slice(), on_real),
        ("exp6-11b", "Seven emulated drives, 6+1", FEMU_DEPTHS.as_slice(), on_femu),
    ];
    for (id, title, depths, series) in figures {
        draft.plot(Plot {
            id,
            title,
            caption: "Random writes to one open segment under Zone Append in groups of 256 (figure 11).",
            x_title: "queue depth",
            y_title: "throughput (MiB/s)",
            x: Horizontal::Names(depths.iter().map(u32::to_string).collect()),
            shape: Shape::Lines,
            series,
        });
    }
}
