//! Whole stripes against parts of them (StRAID figure 16).

use super::super::Experiment;
use super::super::draft::{Cell, Draft};
use super::super::measurement::WRITE_THROUGHPUT;
use super::super::setting::Setting;
use super::{CLIENTS, RANDOM_WRITE, SEQUENTIAL_WRITE, cell, measure};
use crate::characterise::plot::{Horizontal, Plot, Shape};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "straid-fig16",
    title: "StRAID figure 16: RAID-6, 64-KiB writes, chunks of 8 and 64 KiB",
    statement: "Two whole stripes of 32 KiB are written much faster than a chunk of 64 KiB.",
    run_ms: 500,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

const CHUNKS_KIB: [u32; 2] = [8, 64];
const WORKLOADS: [&str; 2] = [RANDOM_WRITE, SEQUENTIAL_WRITE];

fn of_chunk(chunk_kib: u32, workload: &'static str) -> Cell {
    let own = cell(6, 64, CLIENTS, workload);
    Cell { setting: Setting { chunk_kib, ..own.setting }, ..own }
}

fn cells() -> Vec<Cell> {
    WORKLOADS.into_iter().flat_map(|workload| CHUNKS_KIB.map(|chunk| of_chunk(chunk, workload))).collect()
}

fn judge(draft: &mut Draft) {
    let [whole, partial] = CHUNKS_KIB.map(|chunk| of_chunk(chunk, RANDOM_WRITE));
    draft.ratio("straid-whole-over-partial", (&whole, &partial), WRITE_THROUGHPUT, "chunk_kib=64");
    let series = WORKLOADS.map(|workload| {
        draft.bars(workload, &CHUNKS_KIB.map(|chunk| of_chunk(chunk, workload)), WRITE_THROUGHPUT)
    });
    draft.plot(Plot {
        id: "straid-16",
        title: "RAID-6, 4+2, 64-KiB writes of 64 clients",
        caption: "With chunks of 8 KiB each request is two whole stripes (figure 16).",
        x_title: "chunk (KiB)",
        y_title: "throughput (MiB/s)",
        x: Horizontal::Names(CHUNKS_KIB.iter().map(u32::to_string).collect()),
        shape: Shape::Bars,
        series: series.to_vec(),
    });
}
