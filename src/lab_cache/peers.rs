//! `zoneweave lab cache peers`: the cache beside memcached's extstore and Redis.

use super::Rounds;
use super::timed::write_page;
use crate::steps::Steps;
use anyhow::{Context, Result};
use clap::Args;
use lab::cache::peers::{self, Found, Foyer, Memory, PeersOptions, Restarts, Row};
use lab::cache::timed::measured;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct CachePeers {
    #[command(flatten)]
    pub measure: Rounds,
    /// Program of `peers/foyer`, which tells what foyer finds after kills
    #[arg(long, value_name = "PATH")]
    pub foyer: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Write the report as one self-contained page, too
    #[arg(long, value_name = "FILE.html")]
    pub out: Option<PathBuf>,
}

/// Measures and prints; the exit code says whether every bar is met.
pub fn run(options: &CachePeers) -> Result<ExitCode> {
    let steps = Steps::new("measurements");
    let peers = PeersOptions {
        binary: std::env::current_exe().context("this program's path")?,
        seconds: options.measure.seconds,
        rounds: options.measure.rounds,
        foyer: options.foyer.clone(),
        progress: &|done, all, last| steps.show(done, all, last),
    };
    if !options.json {
        println!(
            "us of the server's processors per request, 16 connections, medians of {}; hits: ours, of them from flash, the other's \
             (after writes: what is found of the objects)",
            options.measure.rounds
        );
        println!("{:50} {:>7} {:>7} {:>6} {:>6}  hits   flash  other", "", "ours", "other", "ratio", "bar");
    }
    let report = peers::run(&peers, |row| {
        if !options.json {
            println!("{}", in_words(row));
        }
    });
    steps.end();
    let report = report?;
    write_page(options.out.as_deref(), || measured::of_peers(&report))?;
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!("{}", restarts_in_words(&report.restarts));
        print!("{}", memory_in_words(&report.memory));
        print!("{}", foyer_in_words(&report.foyer));
    }
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn in_words(row: &Row) -> String {
    let cost = &row.cost;
    let verdict = if cost.is_good() { "" } else { "  above" };
    let [ours, peers] = row.hit_ratios;
    let flash = row.flash_share.map_or("     ".to_owned(), |flash| format!("{flash:.3}"));
    let hits = format!("  {ours:.3}  {flash}  {peers:.3}");
    format!(
        "{:50} {:>7.2} {:>7.2} {:>6.2} {:>6.2}{hits}{verdict}",
        cost.name, cost.us_per_request, cost.peer_us_per_request, cost.ratio, cost.ratio_max
    )
}

fn restarts_in_words(restarts: &Restarts) -> String {
    let verdict = if restarts.is_good() { "" } else { "  missed" };
    let found = |who: &str, found: &Found| {
        format!(
            "  {who:10} {:.4} of the others found; {} older, {} removed and {} other objects' values\n",
            found.share, found.older, found.removed, found.wrong
        )
    };
    format!(
        "kill -9 and start, {} objects of 100 B, 1000 overwritten and 1000 removed before, to redis with appendonly\n\
         {:50} {:>7.3} {:>7.3} {:>6.2} {:>6.2}{verdict}\n{}{}",
        restarts.objects,
        "seconds to the first answer",
        restarts.seconds,
        restarts.peer_seconds,
        restarts.ratio,
        restarts.ratio_max,
        found("zoneweave", &restarts.found),
        found("redis", &restarts.peer_found)
    )
}

fn memory_in_words(all: &[Memory]) -> String {
    let mut text = format!(
        "resident memory of the servers, drives and files left out: bytes for each object that is found\n{:38} {:>9} {:>7} {:>9} {:>7}\n",
        "", "objects", "added", "resident", "index"
    );
    for memory in all {
        let index = memory.index_an_object.map_or(String::new(), |bytes| format!("{bytes:.2}"));
        // Writing to memory does not fail.
        let _ = writeln!(
            text,
            "{:38} {:>9} {:>7.1} {:>9.1} {index:>7}",
            format!("{} B under keys of 32 B, {}", memory.value_bytes, memory.server),
            memory.objects,
            memory.added_an_object,
            memory.resident_an_object
        );
    }
    text
}

fn foyer_in_words(all: &[Foyer]) -> String {
    let mut text = String::new();
    for foyer in all {
        let _ = writeln!(
            text,
            "foyer, {}, {} kills: {:.3} s at most; {:.4} of the others found; {} older, {} removed and {} other objects' values",
            foyer.setting, foyer.kills, foyer.seconds, foyer.share, foyer.older, foyer.removed, foyer.wrong
        );
    }
    text
}
