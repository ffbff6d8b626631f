//! `zoneweave lab export-compare`: what a request costs over each kind of export.

use crate::cli::ExportCompare;
use anyhow::{Context, Result};
use lab::export_compare;
use lab::paired::Row;
use std::process::ExitCode;

/// Measures and prints; the exit code says whether every row keeps its bar.
pub fn run(options: &ExportCompare) -> Result<ExitCode> {
    let compare = export_compare::ExportCompare {
        binary: std::env::current_exe().context("this program's path")?,
        seconds: options.seconds,
        rounds: options.rounds,
        size_bytes: options.size,
    };
    if !options.json {
        println!("us of the server's processors per request of 4 KiB, medians of {}", options.rounds);
        println!("{:54} {:>7} {:>7} {:>6} {:>6}", "", "ours", "other", "ratio", "bar");
    }
    let report = export_compare::run(&compare, |row| {
        if !options.json {
            let verdict = if row.is_good() { "" } else { "  above" };
            println!(
                "{:54} {:>7.2} {:>7.2} {:>6.2} {:>6.2}{verdict}",
                row.name, row.us_per_request, row.peer_us_per_request, row.ratio, row.ratio_max
            );
        }
    })?;
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
    } else if let Some(missing) = report.missing {
        println!(
            "{missing} is not installed, so its rows are left out (Debian: apt-get install qemu-system-common)"
        );
    }
    let is_good = report.rows.iter().all(Row::is_good);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
