//! Cells of `zoneweave lab cache` that run the engine over modelled drives in virtual time.

use crate::characterise::write;
use crate::experiment::on_signals;
use crate::steps::Steps;
use anyhow::{Result, ensure};
use clap::Args;
use lab::cache::timed::report::Report;
use lab::cache::timed::several::{self, Outcome};
use lab::cache::timed::{Cell, Run};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Whatever cells are run, and how.
#[derive(Debug, Args)]
pub struct Timed {
    /// More cells in virtual time: table1, eviction-tail, invalidate, batch, sizes, admission, drives, recovery, usage, ttl, tenants,
    /// policies
    #[arg(value_name = "CELL")]
    cells: Vec<Cell>,
    /// Seed of drives and clients; the same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Runs of each cell, with this seed, the next one and so on: means and 95 % confidence intervals
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: Option<u64>,
    /// Size of the run: capacities and requests times this [default: 1]
    #[arg(long, value_name = "X", value_parser = scale)]
    scale: Option<f64>,
    /// Print one JSON object a line for each cell
    #[arg(long)]
    pub json: bool,
    /// Write the report as one self-contained page
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
}

impl Timed {
    /// True when more is asked for than a cell by itself.
    pub fn asks_for_more(&self) -> bool {
        self.asks_for_runs() || self.out.is_some()
    }

    /// True when other cells, seeds or sizes are asked for.
    pub fn asks_for_runs(&self) -> bool {
        let Timed { cells, seeds, scale, .. } = self;
        !cells.is_empty() || seeds.is_some() || scale.is_some()
    }

    /// Writes a report as a page, if one is asked for.
    pub fn write_page(&self, report: impl FnOnce() -> Report) -> Result<()> {
        write_page(self.out.as_deref(), || [report()])
    }
}

/// Writes reports as a page, if one is asked for.
pub fn write_page<R: IntoIterator<Item = Report>>(
    path: Option<&Path>,
    reports: impl FnOnce() -> R,
) -> Result<()> {
    match path {
        Some(path) => write(path, &Outcome::of(reports())?.to_html()),
        None => Ok(()),
    }
}

/// Runs a cell, and those that are named behind it, and prints them; exit code 1 when a bar is missed.
pub fn run(cell: Cell, options: &Timed) -> Result<ExitCode> {
    let cells: Vec<Cell> = std::iter::once(cell).chain(options.cells.iter().copied()).collect();
    let run = Run { seed: options.seed, scale: options.scale.unwrap_or(1.0) };
    let interrupted = Arc::new(AtomicBool::new(false));
    on_signals(&[SIGINT, SIGTERM], &interrupted, true)?;
    let steps = Steps::new("runs");
    let progress = |done: usize, all: usize, last: &str| steps.show(done, all, last);
    let outcome = several::run(&cells, &run, options.seeds.unwrap_or(1), &progress, &interrupted)?;
    steps.end();
    if let Some(path) = &options.out {
        write(path, &outcome.to_html())?;
    }
    print(&outcome, options.json);
    ensure!(outcome.left_out.is_empty(), "interrupted, without: {}", outcome.left_out.join(", "));
    Ok(if outcome.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(outcome: &Outcome, json: bool) {
    for (place, summary) in outcome.summaries.iter().enumerate() {
        match json {
            true => println!("{}", summary.to_json()),
            false if place == 0 => print!("{summary}"),
            false => print!("\n{summary}"),
        }
    }
}

fn scale(text: &str) -> Result<f64, String> {
    let scale: f64 = text.parse().map_err(|error| format!("{error}"))?;
    // Drives lie in memory; below, a cache would have no room for what it is asked.
    if (0.05..=4.0).contains(&scale) { Ok(scale) } else { Err("use 0.05 to 4".to_owned()) }
}
