//! What bounds md, and what a request costs here (StRAID figures 1, 4 and 5).
//!
//! The paper shows md's throughput by user threads and worker threads, and that its lock takes 54.6 % of the processors' time with 64 of
//! them. md's workers cannot be measured here: what its requests cost on one processor, where no lock is waited for, is beside ours, which
//! has no lock.

use super::super::draft::{Cell, Draft};
use super::super::measurement::Value;
use super::super::{Conditions, Experiment};
use super::counted::{INSTRUCTIONS, LOCK_SHARE, LOCKS, MD_OVER, cells as cells_of, count, md_cell, name};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};
use anyhow::Result;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    id: "straid-fig1",
    title: "StRAID figures 1, 4 and 5: what a request costs, beside Linux md as measured",
    statement: "md spends half of its processor time with its lock; there is none here, and requests take fewer instructions.",
    run_ms: 12_000,
    cells,
    alike: Cell::clone,
    measure,
    judge,
};

/// Cells of md's cost table: parts of stripes at random and in a stream, chunks, whole stripes, and a degraded read.
const NAMES: [&str; 13] = [
    "r5-3+1/random-write-4k-qd32",
    "r5-5+1/random-write-4k-qd32",
    "r6-4+2/random-write-4k-qd32",
    "r5-3+1/sequential-write-4k-qd32",
    "r5-5+1/sequential-write-4k-qd32",
    "r6-4+2/sequential-write-4k-qd32",
    "r5-3+1/random-write-64k-qd16",
    "r5-5+1/random-write-64k-qd16",
    "r6-4+2/random-write-64k-qd16",
    "r5-3+1/random-write-192k-qd8",
    "r5-5+1/random-write-320k-qd8",
    "r6-4+2/random-write-256k-qd8",
    "r5-3+1-one-lost/random-read-4k-qd32",
];

fn cells() -> Vec<Cell> {
    cells_of(&NAMES)
}

fn measure(cell: &Cell, _: Conditions) -> Result<Vec<Value>> {
    Ok(count(cell)?.2)
}

fn judge(draft: &mut Draft) {
    for cell in cells() {
        let (all, locks) = (draft.values(&cell, INSTRUCTIONS), draft.values(&cell, LOCKS));
        let share: Vec<f64> = locks.iter().zip(&all).map(|(locks, all)| 100.0 * locks / all).collect();
        draft.number("straid-md-lock", cell.clone(), LOCK_SHARE, &share);
        let Some(md) = md_cell(&cell).md_instructions else { continue };
        let over: Vec<f64> = all.iter().map(|all| md / all).collect();
        draft.number("straid-md-cpu", cell.clone(), MD_OVER, &over);
        let is_less = all.iter().all(|all| *all < md);
        draft.check(format!("{}: fewer instructions than md", name(&cell)), is_less);
    }
    let is_free = cells().iter().all(|cell| draft.mean(cell, LOCKS) == 0.0);
    draft.check("no request takes a lock", is_free);
    plot(draft, "straid-1-small", "Requests of 4 KiB", |cell| cell.setting.request_kib == Some(4));
    plot(draft, "straid-1-large", "Chunks and whole stripes", |cell| cell.setting.request_kib > Some(4));
}

fn plot(draft: &mut Draft, id: &'static str, title: &'static str, is_in: impl Fn(&Cell) -> bool) {
    let cells: Vec<Cell> = cells().into_iter().filter(is_in).collect();
    let thousand = |value: f64| (value / 100.0).round() / 10.0;
    let ours = cells.iter().map(|cell| Some(thousand(draft.mean(cell, INSTRUCTIONS))));
    let ours = Series::by_name("ours", ours);
    let md = cells.iter().map(|cell| md_cell(cell).md_instructions.map(thousand));
    let md = Series { published: true, ..Series::by_name("Linux md, measured", md) };
    draft.plot(Plot {
        id,
        title,
        caption: "Instructions from submit to reply, members that answer at once; md's with its client and null_blk, one processor (figures 1, 4, 5).",
        x_title: "array and request",
        y_title: "thousand instructions per request",
        x: Horizontal::Names(cells.iter().map(name).collect()),
        shape: Shape::Bars,
        series: vec![ours, md],
    });
}
