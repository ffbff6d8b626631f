//! Several cells by several seeds: side by side on all processors, and what is left of them when somebody stops the runs.

use super::page;
use super::report::Report;
use super::summary::Summary;
use super::{Cell, Run};
use crate::pool;
use anyhow::{Context, Result, ensure};
use std::sync::atomic::AtomicBool;

/// Outcome of the runs.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Size of the runs.
    pub scale: f64,
    /// Cells in their order.
    pub summaries: Vec<Summary>,
    /// Cells without all of their seeds because somebody stopped the runs: `sizes (2 of 5 seeds)`.
    pub left_out: Vec<String>,
}

/// Runs cells by `seeds` seeds each, from that of the run on. `progress` is told how many runs are done of how many, and the last one. Once
/// `stop` is set, none is begun; what has a seed by then is reported.
///
/// # Errors
/// When a run fails; the message says which.
pub fn run(
    cells: &[Cell],
    run: &Run,
    seeds: u64,
    progress: &(dyn Fn(usize, usize, &str) + Sync),
    stop: &AtomicBool,
) -> Result<Outcome> {
    ensure!(seeds > 0, "--seeds is at least 1");
    let mut distinct: Vec<Cell> = Vec::new();
    cells.iter().for_each(|cell| distinct.extend((!distinct.contains(cell)).then_some(*cell)));
    let seeds_of = (0..seeds).map(|more| run.seed.wrapping_add(more));
    let runs: Vec<(Cell, Run)> =
        distinct.iter().flat_map(|cell| seeds_of.clone().map(|seed| (*cell, Run { seed, ..*run }))).collect();
    let describe = |(cell, run): &(Cell, Run)| format!("{cell} seed {}", run.seed);
    let measure = |job: &(Cell, Run)| job.0.run(&job.1).with_context(|| describe(job));
    let tell = |done: usize, job: &(Cell, Run)| progress(done, runs.len(), &describe(job));
    let mut reports = pool::map_until(stop, &runs, measure, tell).into_iter();
    let wanted = usize::try_from(seeds).context("--seeds is too large")?;
    let (mut summaries, mut left_out) = (Vec::new(), Vec::new());
    for cell in distinct {
        let own: Vec<Report> = reports.by_ref().take(wanted).collect::<Result<_>>()?;
        if own.len() < wanted {
            left_out.push(format!("{cell} ({} of {wanted} seeds)", own.len()));
        }
        if !own.is_empty() {
            summaries.push(Summary::of(&own)?);
        }
    }
    Ok(Outcome { scale: run.scale, summaries, left_out })
}

impl Outcome {
    /// Outcome of one report for each cell.
    ///
    /// # Errors
    /// None today: a report agrees with itself.
    pub fn of(reports: impl IntoIterator<Item = Report>) -> Result<Outcome> {
        let summaries = reports.into_iter().map(|report| Summary::of(&[report])).collect::<Result<_>>()?;
        Ok(Outcome { scale: 1.0, summaries, left_out: Vec::new() })
    }

    /// True when every bar is reached.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.summaries.iter().all(Summary::is_good)
    }

    /// As one page that needs nothing else: plots are inline, styles too.
    #[must_use]
    pub fn to_html(&self) -> String {
        page::render(self)
    }
}
