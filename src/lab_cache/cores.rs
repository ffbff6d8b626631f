//! `zoneweave lab cache cores`: what more cores bring.

use super::Rounds;
use super::timed::write_page;
use crate::steps::Steps;
use anyhow::{Context, Result};
use clap::Args;
use lab::cache::locked::{self, LockOptions};
use lab::cache::peers::cores::{self, CoresOptions, Row};
use lab::cache::timed::measured;
use std::path::PathBuf;
use std::process::ExitCode;

/// Requests of a measurement of the engine alone.
const REQUESTS: usize = 100_000;

#[derive(Debug, Args)]
pub struct CacheCores {
    /// Most cores
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub cores_max: u32,
    #[command(flatten)]
    pub measure: Rounds,
    /// Only loads in whose names this is
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// The engine alone instead: a shard for each thread, and one shard behind a lock that all threads take
    #[arg(long, conflicts_with_all = ["out", "seconds", "only"])]
    pub lock: bool,
    /// Print one JSON object a row
    #[arg(long)]
    pub json: bool,
    /// Write the report as one self-contained page, too
    #[arg(long, value_name = "FILE.html")]
    pub out: Option<PathBuf>,
}

/// Measures and prints; the exit code says whether the bar is met.
pub fn run(options: &CacheCores) -> Result<ExitCode> {
    if options.lock {
        return run_locked(options);
    }
    let steps = Steps::new("measurements");
    let cores = CoresOptions {
        binary: std::env::current_exe().context("this program's path")?,
        cores_max: usize::try_from(options.cores_max).expect("64 at most"),
        seconds: options.measure.seconds,
        rounds: options.measure.rounds,
        only: options.only.clone().unwrap_or_default(),
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
    let rows = rows?;
    write_page(options.out.as_deref(), || [measured::of_cores(&rows)])?;
    let is_good = rows.iter().all(Row::is_good);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_locked(options: &CacheCores) -> Result<ExitCode> {
    let lock = LockOptions {
        threads_max: usize::try_from(options.cores_max).expect("64 at most"),
        requests: REQUESTS,
        rounds: options.measure.rounds,
    };
    if !options.json {
        println!("us of processor time per request, and requests/s; medians of {}", lock.rounds);
        println!("{:41} {:>7} {:>7} {:>7}  {:>12} {:>12}", "", "threads", "shards", "lock", "shards", "lock");
    }
    locked::run(&lock, |row| match options.json {
        true => println!("{}", serde_json::to_string(row).expect("numbers and names")),
        false => println!(
            "{:41} {:>7} {:>7.2} {:>7.2}  {:>12.0} {:>12.0}",
            row.name, row.threads, row.shards_us, row.lock_us, row.shards_per_second, row.lock_per_second
        ),
    })?;
    Ok(ExitCode::SUCCESS)
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
