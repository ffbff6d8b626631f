//! One stream of writes with and without two phases (StRAID figure 20).

use super::super::Experiment;
use super::super::draft::{Cell, Draft};
use super::super::measurement::{DRIVE_READS, Metric, WRITE_THROUGHPUT};
use super::super::scheme::InPlace;
use super::{CLIENTS, STREAM_WRITE, measure, of_all};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "straid-fig20",
    title: "StRAID figure 20: one stream of writes, with two phases and without",
    statement: "Parts of stripes that gather are written several times as fast as one by one; whole stripes gain nothing.",
    run_ms: 500,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Gain of whole stripes by two phases, in percent.
const GAIN: Metric = Metric { name: "two_phase_gain", unit: "percent" };

const COUNTS: [u32; 4] = [1, 4, 16, CLIENTS];
/// Requests: a chunk, the paper's 1 MiB, and four whole stripes.
const SIZES_KIB: [u32; 3] = [64, 1024, 1280];
/// With two phases in some manner, then without.
const VARIANTS: [InPlace; 4] = [InPlace::Adaptive, InPlace::Straid, InPlace::MdWindow, InPlace::NoTwoPhase];

fn of(variant: InPlace, size: u32, clients: u32) -> Cell {
    super::of(variant, STREAM_WRITE, size, clients)
}

fn cells() -> Vec<Cell> {
    of_all(&[STREAM_WRITE], &SIZES_KIB, &COUNTS, &VARIANTS)
}

fn judge(draft: &mut Draft) {
    let none = |size| of(InPlace::NoTwoPhase, size, CLIENTS);
    for variant in [InPlace::Adaptive, InPlace::Straid] {
        let partial = of(variant, 64, CLIENTS);
        draft.ratio("straid-two-phase-partial", (&partial, &none(64)), WRITE_THROUGHPUT, "no-two-phase");
        for size in [1024, 1280] {
            let own = of(variant, size, CLIENTS);
            let [with, without] = [&own, &none(size)].map(|cell| draft.values(cell, WRITE_THROUGHPUT));
            let gains: Vec<f64> = with.iter().zip(&without).map(|(a, b)| (a / b - 1.0) * 100.0).collect();
            draft.number("straid-two-phase-whole", own, GAIN, &gains);
        }
    }
    let gain = |draft: &Draft| {
        let [with, without] = [of(InPlace::Adaptive, 64, CLIENTS), none(64)];
        draft.mean(&with, WRITE_THROUGHPUT) / draft.mean(&without, WRITE_THROUGHPUT)
    };
    let is_enough = gain(draft) >= draft.quoted("straid-two-phase-partial");
    draft.check(
        "64 KiB, 64 clients: adaptive gains at least as much over no-two-phase as the paper",
        is_enough,
    );
    plot(draft, "straid-20a", 64, "throughput (MiB/s)", WRITE_THROUGHPUT);
    plot(draft, "straid-20b", 1280, "throughput (MiB/s)", WRITE_THROUGHPUT);
    plot(draft, "straid-20c", 64, "blocks read per block written", DRIVE_READS);
}

fn plot(draft: &mut Draft, id: &'static str, size: u32, y_title: &'static str, metric: Metric) {
    let line = |variant: InPlace| {
        let point = |clients: u32| (f64::from(clients), draft.mean(&of(variant, size, clients), metric));
        Series::by_number(of(variant, size, 1).scheme.name(), COUNTS.map(point).to_vec())
    };
    let series = VARIANTS.map(line).to_vec();
    draft.plot(Plot {
        id,
        title: if size == 64 { "Requests of a chunk, 64 KiB" } else { "Requests of four stripes, 1280 KiB" },
        caption: "All clients write one stream to RAID-5, 5+1, chunks of 64 KiB (figure 20).",
        x_title: "clients",
        y_title,
        x: Horizontal::Numbers,
        shape: Shape::Lines,
        series,
    });
}
