//! Cells of `zoneweave lab cache` that run the engine over modelled drives in virtual time.

use anyhow::Result;
use clap::Args;
use lab::cache::timed::{Cell, Run};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct Timed {
    /// Seed of drives and clients; the same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Size of the run: capacities and requests times this
    #[arg(long, default_value_t = 1.0, value_name = "X", value_parser = scale)]
    scale: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs a cell and prints it; exit code 1 when a bar is missed.
pub fn run(cell: Cell, options: &Timed) -> Result<ExitCode> {
    let report = cell.run(&Run { seed: options.seed, scale: options.scale })?;
    match options.json {
        true => println!("{}", report.to_json()),
        false => print!("{report}"),
    }
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn scale(text: &str) -> Result<f64, String> {
    let scale: f64 = text.parse().map_err(|error| format!("{error}"))?;
    // Drives lie in memory; below, a cache would have no room for what it is asked.
    if (0.05..=4.0).contains(&scale) { Ok(scale) } else { Err("use 0.05 to 4".to_owned()) }
}
