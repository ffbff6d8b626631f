//! `zoneweave lab cache fig5`: the cache beside RocksDB with blobs.

use super::timed::write_page;
use crate::steps::Steps;
use anyhow::{Context, Result};
use clap::Args;
use lab::cache::peers::fig5::{self, Fig5Options, Row};
use lab::cache::timed::measured;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct CacheFig5 {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
    /// Measurements of each side of a mix
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Directory for the files of both, 2 GB; in memory if it is not given
    #[arg(long, value_name = "DIR")]
    pub place: Option<PathBuf>,
    /// Print one JSON object a mix
    #[arg(long)]
    pub json: bool,
    /// Write the report as one self-contained page, too
    #[arg(long, value_name = "FILE.html")]
    pub out: Option<PathBuf>,
}

/// Measures and prints; the exit code says whether every bar is met.
pub fn run(options: &CacheFig5) -> Result<ExitCode> {
    let steps = Steps::new("measurements");
    let fig5 = Fig5Options {
        binary: std::env::current_exe().context("this program's path")?,
        place: options.place.clone(),
        seconds: options.seconds,
        rounds: options.rounds,
        progress: &|done, all, last| steps.show(done, all, last),
    };
    if !options.json {
        println!(
            "values of 100 KB, 4 clients, medians of {}: ours, RocksDB's; of latencies P50/P99 in us",
            options.rounds
        );
        println!(
            "{:5} {:>15} {:>6} {:>5}  {:>13}  {:>21}  {:>21}  {:>9}  {:>9}  hits",
            "mix", "CPU us", "ratio", "bar", "operations/s", "reads", "writes", "written", "space"
        );
    }
    let rows = fig5::run(&fig5, |row| {
        if options.json {
            println!("{}", serde_json::to_string(row).expect("numbers and names"));
        } else {
            println!("{}", in_words(row));
        }
    });
    steps.end();
    let rows = rows?;
    write_page(options.out.as_deref(), || [measured::of_fig5(&rows)])?;
    let is_good = rows.iter().all(|row| row.cost.is_good());
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn in_words(row: &Row) -> String {
    let cost = &row.cost;
    let latency = |sides: [[f64; 2]; 2]| {
        let [ours, peers] = sides.map(|[half, most]| format!("{half:.0}/{most:.0}"));
        format!("{ours} {peers}")
    };
    let pair = |[ours, peers]: [f64; 2]| format!("{ours:.2} {peers:.2}");
    format!(
        "{:5} {:>15} {:>6.2} {:>5.2}  {:>13}  {:>21}  {:>21}  {:>9}  {:>9}  {}{}",
        cost.name,
        format!("{:.1} {:.1}", cost.us_per_request, cost.peer_us_per_request),
        cost.ratio,
        cost.ratio_max,
        format!("{:.0} {:.0}", row.rates[0], row.rates[1]),
        latency(row.reads_us),
        latency(row.writes_us),
        row.write_amplification.map_or(String::new(), pair),
        pair(row.space),
        row.hit_ratio.map_or("     ".to_owned(), |ratio| format!("{ratio:.3}")),
        if cost.is_good() { "" } else { "  above" }
    )
}
