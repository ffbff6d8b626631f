//! `zoneweave lab md-speed`: the in-place engine on modelled drives, beside what these leave possible.

use crate::exit::Exit;
use anyhow::Result;
use clap::Args;
use drive::timing::Profile;
use lab::md_speed::{ROWS, Report, Row, Setup};
use std::io::{self, Write};
use std::process::ExitCode;

/// Virtual seconds that can be measured.
const SECONDS: std::ops::RangeInclusive<f64> = 0.001..=60.0;

#[derive(Debug, Args)]
pub struct MdSpeed {
    /// Rows by parts of their names; all without
    pub rows: Vec<String>,
    /// Members: a drive without zones, by name or as a TOML file
    #[arg(long, default_value = "conventional-nvme")]
    pub profile: String,
    /// Virtual time of each measurement, after a quarter as much that is not counted
    #[arg(long, default_value_t = 0.5)]
    pub seconds: f64,
    /// Seed of drives and clients
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON object for each row
    #[arg(long)]
    pub json: bool,
}

/// Measures and prints; exit code 1 when a bar is missed.
pub fn run(options: &MdSpeed) -> Result<ExitCode> {
    if !SECONDS.contains(&options.seconds) {
        let said = format!("--seconds {}: from {} to {}", options.seconds, SECONDS.start(), SECONDS.end());
        return Err(Exit::Usage.error(said));
    }
    let profile = Profile::load(&options.profile)?;
    if profile.has_zones() {
        let said = format!("--profile {}: it has zones; members of md arrays have none", profile.name());
        return Err(Exit::Usage.error(said));
    }
    let setup = Setup { profile, span_us: options.seconds * 1e6, seed: options.seed };
    let rows = chosen(&options.rows)?;
    let mut out = io::stdout().lock();
    let mut is_missed = false;
    for row in rows {
        let report = row.report(&setup)?;
        is_missed |= !report.met;
        match options.json {
            true => writeln!(out, "{}", serde_json::to_string(&report)?)?,
            false => print(&mut out, row, &report)?,
        }
    }
    Ok(if is_missed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn chosen(words: &[String]) -> Result<Vec<&'static Row>> {
    if let Some(word) = words.iter().find(|word| !ROWS.iter().any(|row| row.name.contains(word.as_str()))) {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        return Err(
            Exit::Usage.error(format!("no row has `{word}` in its name: there are {}", names.join(", ")))
        );
    }
    let is_meant = |row: &&Row| words.is_empty() || words.iter().any(|word| row.name.contains(word.as_str()));
    Ok(ROWS.iter().filter(is_meant).collect())
}

fn print(out: &mut impl Write, row: &Row, report: &Report) -> Result<()> {
    let verdict = if report.met { "met" } else { "missed" };
    writeln!(out, "{}: {}", row.name, row.words)?;
    for (number, figure) in report.figures.iter().enumerate() {
        let bar = if number == 0 { format!("   bar {}, {verdict}", report.bar) } else { String::new() };
        let value = format!("{:.*}", if figure.unit.is_empty() { 3 } else { 1 }, figure.value);
        writeln!(out, "    {:36} {value:>9} {}{bar}", figure.what, figure.unit)?;
    }
    Ok(())
}
