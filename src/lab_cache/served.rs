//! Cells of `zoneweave lab cache` that run in virtual time, and ask a server on the wall clock if they are told to.

use super::timed::{self, Timed};
use crate::steps::Steps;
use anyhow::{Context, Result};
use clap::Args;
use lab::cache::peers::served::{self, ServedOptions};
use lab::cache::timed::Cell;
use std::process::ExitCode;

const SECONDS: u32 = 2;
const ROUNDS: u32 = 5;

#[derive(Debug, Args)]
pub struct TimedOrServed {
    #[command(flatten)]
    timed: Timed,
    /// Ask a server on this host instead: requests a second, processor time and latency, as clients see them
    #[arg(long, conflicts_with_all = ["cells", "seed", "seeds", "scale"])]
    wall: bool,
    /// With --wall: seconds of each measurement, at most [default: 2]
    #[arg(long, requires = "wall", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: Option<u32>,
    /// With --wall: measurements of each setting [default: 5]
    #[arg(long, requires = "wall", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// With --wall: only settings in whose names this is
    #[arg(long, requires = "wall", value_name = "TEXT")]
    only: Option<String>,
}

/// Runs the first of the cells, or the second one with `--wall`.
pub fn run([timed, wall]: [Cell; 2], options: &TimedOrServed) -> Result<ExitCode> {
    if !options.wall {
        return timed::run(timed, &options.timed);
    }
    let steps = Steps::new("measurements");
    let served = ServedOptions {
        binary: std::env::current_exe().context("this program's path")?,
        seconds: options.seconds.unwrap_or(SECONDS),
        rounds: options.rounds.unwrap_or(ROUNDS),
        only: options.only.clone().unwrap_or_default(),
        progress: &|done, all, last| steps.show(done, all, last),
    };
    let report = served::run(wall, &served)?;
    steps.end();
    match options.timed.json {
        true => println!("{}", report.to_json()),
        false => print!("{report}"),
    }
    options.timed.write_page(|| report)?;
    Ok(ExitCode::SUCCESS)
}
