//! `zoneweave lab contest`: the adaptive policy against fixed configurations, or against itself with other constants, in settings that a
//! seed draws.

use crate::steps::Steps;
use anyhow::{Context, Result};
use clap::Args;
use lab::contest::earlier::Earlier;
use lab::contest::sensitivity::{self, Row};
use lab::contest::verdict::{Judged, Summary};
use lab::contest::{self, Options};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct Contest {
    /// Seed of the settings; the same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Settings to draw
    #[arg(long, default_value_t = 12, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub cells: u64,
    /// Number of the first setting, to look at one again
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u64).range(..=100_000))]
    pub first: u64,
    /// Amount written and read, as a multiple of what is usual: three times what the drives hold. Little of it, and nothing is collected
    #[arg(long, default_value_t = 1.0, value_parser = parse_scale, value_name = "X")]
    pub scale: f64,
    /// Take the scores of the fixed configurations from an earlier contest of these settings, printed with --json
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Halve and double each tuned constant of the adaptive policy instead, and tell what that costs: exit code 1 when it is more than
    /// 5 % of throughput or of the 99.9th percentile, in the geometric mean over all settings
    #[arg(long, conflicts_with = "against")]
    pub sensitivity: bool,
    /// Print one JSON object, with the scores of every configuration
    #[arg(long)]
    pub json: bool,
}

pub fn parse_scale(text: &str) -> Result<f64, String> {
    let scale: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    if scale > 0.0 && scale <= 100.0 { Ok(scale) } else { Err(format!("`{text}`: above 0, 100 at most")) }
}

/// Holds a contest and prints who won. Exit code 1: the bar is missed.
pub fn run(options: &Contest) -> Result<ExitCode> {
    let Contest { seed, cells, first, scale, json, .. } = *options;
    if options.sensitivity {
        return run_sensitivity(&sensitivity::Options { seed, first, cells, scale }, json);
    }
    let earlier = options.against.as_deref().map(read_earlier).transpose()?;
    let steps = Steps::new("runs");
    let outcome = contest::run(&Options { seed, first, cells, scale, earlier }, |done, all, last| {
        steps.show(done, all, last)
    })?;
    steps.end();
    if json {
        println!("{}", serde_json::to_string(&outcome)?);
    } else {
        outcome.cells.iter().for_each(print_cell);
        print_summary(&outcome.summary);
    }
    Ok(if outcome.summary.passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Varies each constant and prints what it costs. Exit code 1: one costs too much.
fn run_sensitivity(options: &sensitivity::Options, json: bool) -> Result<ExitCode> {
    let steps = Steps::new("runs");
    let outcome = sensitivity::run(options, |done, all, last| steps.show(done, all, last))?;
    steps.end();
    if json {
        println!("{}", serde_json::to_string(&outcome)?);
    } else {
        println!(
            "{:26} {:>7} {:>7} {:>9} {:>11} {:>8} {:>8}",
            "constant", "is", "with", "settings", "throughput", "p99", "p99.9"
        );
        outcome.rows.iter().for_each(print_row);
        println!(
            "{}",
            if outcome.passes {
                "no constant costs more than 5 %"
            } else {
                "some constants cost more than 5 %"
            }
        );
    }
    Ok(if outcome.passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_row(row: &Row) {
    let percent = |ratio: f64| format!("{:+.1} %", 100.0 * (ratio - 1.0));
    println!(
        "{:26} {:>7} {:>7} {:>9} {:>11} {:>8} {:>8}{}",
        row.constant,
        row.default,
        row.value,
        format!("{} of {}", row.changed, row.cells),
        percent(row.throughput),
        percent(row.p99),
        percent(row.p999),
        if row.costs_too_much() { "  COSTS" } else { "" }
    );
}

fn read_earlier(path: &Path) -> Result<Earlier> {
    let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{}: not what `lab contest --json` printed", path.display()))
}

fn print_cell(judged: &Judged) {
    let versus = judged.versus_expert;
    println!("{}", judged.name);
    println!(
        "  adaptive {:.0} MiB/s, p99 {:.0} us, p99.9 {:.0} us, {:.2} blocks per block",
        judged.adaptive.mib_s,
        judged.adaptive.p99_us,
        judged.adaptive.p999_us,
        judged.adaptive.write_amplification
    );
    println!(
        "  of {}: throughput {:.2}, p50 {:.2}, p99 {:.2}, p99.9 {:.2}, amplification {:.2}",
        judged.expert, versus.throughput, versus.p50, versus.p99, versus.p999, versus.write_amplification
    );
    match judged.dominated_by {
        Some(better) => println!("  MISSED, and {better} is better in all three"),
        None if judged.meets => {}
        None => println!("  MISSED"),
    }
}

fn print_summary(summary: &Summary) {
    println!(
        "{} of {} settings meet the bar (95 % wanted); {} below 0.85 or above 2, {} dominated (none wanted)",
        summary.meeting, summary.cells, summary.unbearable, summary.dominated
    );
    println!(
        "geometric means: throughput {:.2} (1.15 wanted), p99 {:.2}, p99.9 {:.2} (0.80 wanted); worst: throughput {:.2}, p99.9 {:.2}",
        summary.throughput_mean,
        summary.p99_mean,
        summary.p999_mean,
        summary.throughput_min,
        summary.p999_max
    );
    println!("{}", if summary.passes { "the bar is met" } else { "the bar is missed" });
}
