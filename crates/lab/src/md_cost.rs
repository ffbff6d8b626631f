//! What requests of the in-place engine cost beside Linux md: blocks that members read and write, instructions and allocations.
//!
//! The real engine, on one core, over members that do nothing, in a closed loop. Members answer everything at the next poll, each in an
//! order that a seed draws, as md's figures are of `null_blk`, which answers at once; time goes on by a microsecond with each
//! turn, and jumps to the next deadline when nothing else happens. Blocks are exact: the same in every run of a commit.
//!
//! Instructions are those of this thread, from submit to reply, where the machine counts them. Where it does not, `valgrind` runs the
//! cell twice, with requests and without; the difference is theirs.

pub mod cells;
mod count;
mod member;
pub mod profile;
mod run;

pub use cells::{Cell, Cells};
pub use count::Counter;
pub use run::{Measured, measure};

use crate::precise::precise_u64;
use anyhow::Result;
use serde::Serialize;

/// Figures of a cell beside those of md.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the cell.
    pub cell: String,
    /// Requests that were measured.
    pub requests: u64,
    /// Blocks of 4 KiB that members read, per request.
    pub read: f64,
    /// Blocks that members wrote, per request.
    pub written: f64,
    /// Allocations per request.
    pub allocations: f64,
    /// Instructions per request; `None` where nobody counts them.
    pub instructions: Option<f64>,
    /// Instructions per block of a request.
    pub instructions_per_block: Option<f64>,
    /// Program that counted the instructions.
    pub counted_by: Option<&'static str>,
    /// Blocks of 4 KiB that md's members read, per request.
    pub md_read: f64,
    /// Blocks that md's members wrote, per request.
    pub md_written: f64,
    /// Instructions of md per request.
    pub md_instructions: Option<f64>,
    /// Most instructions per block.
    pub bar: Option<f64>,
    /// Bars that are missed, in words.
    pub missed: Vec<String>,
}

/// Measures a cell, and counts its instructions by whoever can.
///
/// # Errors
/// When there can be no such array, a request fails, or the counter does not run.
pub fn report(cell: &Cell, counter: Counter) -> Result<Report> {
    let measured = run::measure(cell, None)?;
    let counted = match (measured.instructions, counter) {
        (Some(count), _) => Some((count, "the machine")),
        (None, Counter::Machine) => None,
        (None, Counter::Valgrind) => Some((count::by_valgrind(cell)?, "valgrind")),
    };
    let per = |count: u64| precise_u64(count) / precise_u64(measured.requests);
    let instructions = counted.map(|(count, _)| per(count));
    let mut report = Report {
        cell: cell.name.clone(),
        requests: measured.requests,
        read: per(measured.blocks_read),
        written: per(measured.blocks_written),
        allocations: per(measured.allocations),
        instructions,
        instructions_per_block: instructions.map(|count| count / precise_u64(cell.blocks())),
        counted_by: counted.map(|(_, by)| by),
        md_read: cell.md_read,
        md_written: cell.md_written,
        md_instructions: cell.md_instructions,
        bar: cell.bar,
        missed: Vec::new(),
    };
    report.missed = report.missed_bars(cell);
    Ok(report)
}

impl Report {
    /// Bars that are missed. Blocks are held against md's as its table has them, with two decimals.
    fn missed_bars(&self, cell: &Cell) -> Vec<String> {
        let rounded = |value: f64| (value * 100.0).round();
        let mut missed = Vec::new();
        for (what, ours, theirs) in
            [("read", self.read, self.md_read), ("written", self.written, self.md_written)]
        {
            if rounded(ours) > rounded(theirs * cell.tolerance()) && cell.note.is_none() {
                missed.push(format!("{ours:.2} blocks {what}, md {theirs:.2}"));
            }
        }
        if let Some((count, bar)) =
            self.instructions_per_block.zip(self.bar).filter(|(count, bar)| count > bar)
        {
            missed.push(format!("{count:.0} instructions per block, bar {bar:.0}"));
        }
        if self.allocations >= 0.01 {
            missed.push(format!("{:.2} allocations", self.allocations));
        }
        missed
    }
}
