//! Traces: throughput of all windows and caches (StRAID figure 17).

use super::super::Experiment;
use super::super::draft::{Cell, Draft};
use super::super::measurement::{DRIVE_READS, Metric, THROUGHPUT};
use super::super::scheme::InPlace;
use super::made_up::{PRXY_0, TRACES};
use super::traces::{cell, measure};
use crate::characterise::plot::{Horizontal, Plot, Shape};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "straid-fig17",
    title: "StRAID figure 17: traces",
    statement: "What adapts is at least as fast as any fixed window or cache; the smallest writes are the slowest.",
    run_ms: 900,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// The first adapts.
pub const VARIANTS: [InPlace; 5] =
    [InPlace::Adaptive, InPlace::Straid, InPlace::MdWindow, InPlace::NoTwoPhase, InPlace::NoCache];
const LEVELS: [u8; 2] = [5, 6];
/// Share of the best from which on a variant is as fast.
const ALIKE: f64 = 0.99;

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for level in LEVELS {
        for trace in &TRACES {
            cells.extend(VARIANTS.map(|variant| cell(variant, level, trace.name)));
        }
    }
    cells
}

fn judge(draft: &mut Draft) {
    let of = |draft: &Draft, level, trace: &'static str| {
        VARIANTS.map(|variant| draft.mean(&cell(variant, level, trace), THROUGHPUT))
    };
    for level in LEVELS {
        for trace in &TRACES {
            let all = of(draft, level, trace.name);
            let best = all[1..].iter().copied().fold(0.0, f64::max);
            let rule = format!(
                "RAID-{level}, {}: adaptive has at least {ALIKE} of the best fixed scheme",
                trace.name
            );
            draft.check(rule, all[0] >= ALIKE * best);
        }
    }
    let all = TRACES.map(|trace| of(draft, 5, trace.name)[0]);
    let least = all.into_iter().fold(f64::INFINITY, f64::min);
    draft.check("prxy_0 has the lowest throughput of all traces", of(draft, 5, PRXY_0)[0] <= least);
    for trace in &TRACES {
        let [r5, r6] = LEVELS.map(|level| cell(InPlace::Adaptive, level, trace.name));
        draft.ratio("straid-raid5-over-raid6", (&r5, &r6), THROUGHPUT, "level=6");
    }
    for (id, level, y_title, metric) in [
        ("straid-17a", 5, "throughput (MiB/s)", THROUGHPUT),
        ("straid-17b", 6, "throughput (MiB/s)", THROUGHPUT),
        ("straid-17c", 5, "blocks read per block written", DRIVE_READS),
    ] {
        plot(draft, id, level, (y_title, metric));
    }
}

fn plot(draft: &mut Draft, id: &'static str, level: u8, (y_title, metric): (&'static str, Metric)) {
    let bars = |variant: InPlace| {
        let cells = TRACES.map(|trace| cell(variant, level, trace.name));
        draft.bars(cells[0].scheme.name(), &cells, metric)
    };
    let series = VARIANTS.map(bars).to_vec();
    draft.plot(Plot {
        id,
        title: if level == 5 { "RAID-5, 5+1" } else { "RAID-6, 4+2" },
        caption: "Traces that are made up, 32 requests in flight, chunks of 8 KiB (figure 17).",
        x_title: "trace",
        y_title,
        x: Horizontal::Names(TRACES.map(|trace| trace.name.to_owned()).to_vec()),
        shape: Shape::Bars,
        series,
    });
}
