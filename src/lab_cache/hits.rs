//! `zoneweave lab cache hits`: hit ratio on a trace beside extstore, and what admission saves.

use super::timed::write_page;
use super::traced::Traced;
use crate::steps::Steps;
use anyhow::{Context, Result};
use clap::Args;
use lab::cache::peers::hits::{self, Row, Side};
use lab::cache::timed::measured;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct CacheHits {
    #[command(flatten)]
    pub trace: Traced,
    /// Print one JSON object a line for each comparison
    #[arg(long)]
    pub json: bool,
    /// Write the report as one self-contained page, too
    #[arg(long, value_name = "FILE.html")]
    pub out: Option<PathBuf>,
}

/// Replays the trace and prints; the exit code says whether every bar is met.
pub fn run(options: &CacheHits) -> Result<ExitCode> {
    let trace = options.trace.load()?;
    let binary = std::env::current_exe().context("this program's path")?;
    let steps = Steps::new("comparisons");
    if !options.json {
        println!("{:14} {:>20} {:>20} {:>6} {:>5}", "memory, flash", "hits", "hits", "ahead", "bar");
    }
    let mut done = 0;
    let rows = hits::run(&binary, &trace, |row| {
        done += 1;
        steps.show(done, hits::COMPARISONS, &row.setting);
        match options.json {
            true => println!("{}", serde_json::to_string(row).expect("a row is numbers and names")),
            false => println!("{}", in_words(row)),
        }
    });
    steps.end();
    let rows = rows?;
    write_page(options.out.as_deref(), || [measured::of_hits(&rows)])?;
    let all_met = rows.iter().all(Row::is_good);
    Ok(if all_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn in_words(row: &Row) -> String {
    let side = |side: &Side| format!("{} {:.4}", side.name, side.hit_ratio);
    let verdict = if row.is_good() { "" } else { "  missed" };
    let written = match (row.written_share, row.written_share_max) {
        (Some(share), Some(most)) => format!("; {share:.3} of its bytes, at most {most}"),
        _ => String::new(),
    };
    let amplified =
        row.sides[0].write_amplification.map_or(String::new(), |own| format!("; amplified {own:.3}"));
    format!(
        "{:14} {:>20} {:>20} {:>+6.3} {:>5.2}{written}{amplified}{verdict}",
        row.setting,
        side(&row.sides[0]),
        side(&row.sides[1]),
        row.ahead,
        row.ahead_min
    )
}
