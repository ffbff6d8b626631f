//! `zoneweave lab md-cost`: what requests of the in-place engine cost beside Linux md.

use anyhow::Result;
use clap::Args;
use lab::md_cost::{Cell, Cells, Counter, Report, measure, report};
use std::io::{self, Write};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct MdCost {
    /// Cells by parts of their names; all without
    pub cells: Vec<String>,
    /// Cell by its whole name, nothing printed: for a program that counts instructions from outside
    #[arg(long, hide = true, requires = "requests", conflicts_with = "cells")]
    pub exact: Option<String>,
    /// Measure so many requests
    #[arg(long, hide = true, requires = "exact")]
    pub requests: Option<u64>,
    /// Do not count instructions where the machine does not, which takes two runs of valgrind for each cell
    #[arg(long)]
    pub blocks_only: bool,
    /// Print one JSON object for each cell
    #[arg(long)]
    pub json: bool,
}

/// Measures and prints; exit code 1 when a bar is missed.
pub fn run(options: &MdCost) -> Result<ExitCode> {
    let cells = Cells::load()?;
    if let Some(name) = &options.exact {
        let chosen = cells.named(std::slice::from_ref(name))?;
        for cell in chosen.into_iter().filter(|cell| cell.name == *name) {
            measure(cell, options.requests)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let counter = if options.blocks_only { Counter::Machine } else { Counter::find() };
    let mut out = io::stdout().lock();
    if !options.json {
        writeln!(out, "md: {}", cells.source)?;
        writeln!(out, "{:45} {:>17} {:>17} {:>19} {:>6}", "", "blocks read", "written", "instructions", "")?;
        writeln!(
            out,
            "{:45} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>6}",
            "per request", "ours", "md", "ours", "md", "ours", "md", "alloc"
        )?;
    }
    let mut is_missed = false;
    for cell in cells.named(&options.cells)? {
        let report = report(cell, counter)?;
        is_missed |= !report.missed.is_empty();
        if options.json {
            writeln!(out, "{}", serde_json::to_string(&report)?)?;
        } else {
            print(&mut out, cell, &report)?;
        }
    }
    Ok(if is_missed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn print(out: &mut impl Write, cell: &Cell, report: &Report) -> Result<()> {
    let whole = |count: Option<f64>| count.map_or("-".to_owned(), |count| format!("{count:.0}"));
    let (ours, md) = (whole(report.instructions), whole(report.md_instructions));
    writeln!(
        out,
        "{:45} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {ours:>9} {md:>9} {:>6.2}",
        cell.name, report.read, report.md_read, report.written, report.md_written, report.allocations
    )?;
    report.missed.iter().try_for_each(|missed| writeln!(out, "    missed: {missed}"))?;
    Ok(())
}
