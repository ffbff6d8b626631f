//! `zoneweave lab cache cores`: what more cores bring.

use super::Rounds;
use crate::steps::Steps;
use anyhow::{Context, Result};
use clap::Args;
use lab::cache::peers::cores::{self, CoresOptions, Row};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct CacheCores {
    /// Most cores
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub cores_max: u32,
    #[command(flatten)]
    pub measure: Rounds,
    /// Print one JSON object a row
    #[arg(long)]
    pub json: bool,
}

/// Measures and prints; the exit code says whether the bar is met.
pub fn run(options: &CacheCores) -> Result<ExitCode> {
    let steps = Steps::new("measurements");
    let cores = CoresOptions {
        binary: std::env::current_exe().context("this program's path")?,
        cores_max: usize::try_from(options.cores_max).expect("64 at most"),
        seconds: options.measure.seconds,
        rounds: options.measure.rounds,
        progress: &|done, all, last| steps.show(done, all, last),
    };
    if !options.json {
        println!("us of processor time per request, 16 connections, medians of {}", options.measure.rounds);
        println!(
            "{:36} {:>5} {:>6} {:>11} {:>14} {:>6} {:>5}  {:>12}",
            "", "cores", "shards", "all threads", "busiest thread", "gain", "bar", "requests/s"
        );
    }
    let rows = cores::run(&cores, |row| {
        if options.json {
            println!("{}", serde_json::to_string(row).expect("numbers and names"));
        } else {
            println!("{}", in_words(row));
        }
    });
    steps.end();
    let is_good = rows?.iter().all(Row::is_good);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn in_words(row: &Row) -> String {
    format!(
        "{:36} {:>5} {:>6} {:>11.2} {:>14.2} {:>6.2} {:>5}  {:>12.0}{}",
        row.name,
        row.cores,
        row.shards,
        row.us_per_request,
        row.busiest_us_per_request,
        row.gain,
        row.gain_min.map_or(String::new(), |least| format!("{least:.2}")),
        row.requests_per_second,
        if row.is_good() { "" } else { "  below" }
    )
}
