//! `zoneweave lab cache policies`: which zones go, and what it costs to choose whole zones.

use super::timed::{self, Timed};
use super::traced;
use crate::exit::Exit;
use crate::steps::Steps;
use anyhow::Result;
use base::units::human_bytes;
use clap::Args;
use lab::cache::policies::{self, Case, Outcome, Row};
use lab::cache::timed::{Cell, choices};
use lab::cache::trace::Format;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct CachePolicies {
    /// As a cell beside others, by several seeds: hit ratios, four drawn settings (times the scale) as their mean
    #[command(flatten)]
    pub timed: Timed,
    /// Settings to draw beside the named loads: 32 to 1,024 zones, and any share of a zone that is written anew
    #[arg(long = "cells", id = "settings", default_value_t = 6, value_name = "N", conflicts_with_all = ["cells", "seeds", "scale"], value_parser = clap::value_parser!(u64).range(..=10_000))]
    pub settings: u64,
    /// Replay a trace instead; - is the standard input
    #[arg(long, value_name = "FILE", requires = "trace_format", conflicts_with_all = ["cells", "seeds", "scale", "settings"])]
    pub trace: Option<PathBuf>,
    /// Format of the trace: adaptsize, twitter, meta, oraclegeneral, u32 or u64be
    #[arg(long, value_name = "FORMAT", requires = "trace")]
    pub trace_format: Option<Format>,
    /// Multiply sizes of a trace's objects
    #[arg(long, default_value_t = 1, value_name = "N", requires = "trace", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub size_factor: u32,
    /// Flash, of a hundred bytes of a trace's objects
    #[arg(long, default_value = "5,10,30", value_delimiter = ',', value_name = "PERCENT,...", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub flash: Vec<u32>,
    /// Zones of the drive for a trace
    #[arg(long, default_value = "128", value_delimiter = ',', value_name = "N,...", value_parser = clap::value_parser!(u32).range(8..=65_536))]
    pub zones: Vec<u32>,
}

/// Runs the cell and prints it; exit code 1 when a bar is missed.
pub fn run(options: &CachePolicies) -> Result<ExitCode> {
    if options.timed.asks_for_runs() {
        return timed::run(Cell::Policies, &options.timed);
    }
    let cases = cases(options)?;
    let steps = Steps::new("settings");
    let ran = policies::run(&cases, |done, all, last| steps.show(done, all, last));
    steps.end();
    let outcomes = ran.map_err(|error| Exit::Usage.error(format!("{error:#}")))?;
    options.timed.write_page(|| choices::report(options.timed.seed, &outcomes))?;
    let mut out = io::stdout().lock();
    for outcome in &outcomes {
        match options.timed.json {
            true => writeln!(out, "{}", serde_json::to_string(outcome)?)?,
            false => print(&mut out, outcome)?,
        }
    }
    let met = outcomes.iter().filter(|outcome| outcome.met).count();
    if !options.timed.json {
        writeln!(out, "both bars are met in {met} of {} settings", outcomes.len())?;
    }
    Ok(if met == outcomes.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn cases(options: &CachePolicies) -> Result<Vec<Case>> {
    let (Some(path), Some(format)) = (&options.trace, options.trace_format) else {
        let drawn = (0..options.settings).map(|cell| Case::drawn(options.timed.seed.wrapping_add(cell)));
        return Ok(Case::named(options.timed.seed).into_iter().chain(drawn).collect());
    };
    let load = traced::load(path, format, options.size_factor)?;
    Ok(Case::of_trace(load, &options.flash, &options.zones))
}

fn print(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    writeln!(out, "{}, seed {}", outcome.load, outcome.seed)?;
    writeln!(
        out,
        "{} requests of {}; flash {}, {:.1} %; {} zones",
        outcome.requests,
        human_bytes(outcome.footprint_bytes),
        human_bytes(outcome.flash_bytes),
        outcome.flash_percent,
        outcome.zones
    )?;
    writeln!(
        out,
        "  {:14} {:>6} {:>6} {:>7} {:>10} {:>7}",
        "policy", "hits", "bytes", "written", "reinserted", "zones"
    )?;
    outcome.rows.iter().try_for_each(|row| print_row(out, row))?;
    let verdict = if outcome.met { "met" } else { "missed" };
    writeln!(
        out,
        "  s3fifo is {:+.3} to regions, {:+.3} to objects: {verdict}\n",
        outcome.ahead_of_regions, outcome.ahead_of_objects
    )
}

fn print_row(out: &mut impl Write, row: &Row) -> io::Result<()> {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    let zones = row.zones_evicted.map_or("-".to_owned(), |zones| zones.to_string());
    writeln!(
        out,
        "  {:14} {:>6.3} {:>6.3} {:>7} {:>10} {zones:>7} {:>6}",
        row.policy,
        row.hit_ratio,
        row.byte_hit_ratio,
        number(row.write_amplification),
        number(row.reinserted_share),
        number(row.data_share)
    )
}
