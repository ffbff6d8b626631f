//! `cargo xtask same`: whether two commits do the same, to the byte.
//!
//! ```text
//! two commits ─> source   each checked out and built in target/same
//!                measure  seeds, scenarios, lab run all, instructions of lab null-write
//!                record   kept as target/same/TREE.json: a base is measured once
//!                compare  what differs, by name
//! ```
//! A refactoring shows with it that it changed nothing. Only the command line is used, and every seed is a process of its
//! own, so that commits from before this command can be compared, and a seed that crashes or hangs is named as well.

mod compare;
mod measure;
mod options;
mod record;
mod source;

use anyhow::Result;
use compare::Comparison;
use options::Options;
use record::Record;
use source::{Commit, Workshop};
use std::process::ExitCode;

/// Exit code of a question that could not be answered: wrong usage, a commit that is not there or does not build.
const NO_ANSWER: u8 = 2;

/// Compares. Exit code 0: the same, 1: they differ, 2: no answer.
///
/// # Errors
/// None: an error is printed, for its exit code is not that of a difference.
pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let answer = Options::parse(arguments).and_then(|options| answer(&options));
    Ok(answer.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        NO_ANSWER.into()
    }))
}

fn answer(options: &Options) -> Result<ExitCode> {
    let workshop = Workshop::open()?;
    let (base, head) = workshop.commits(options.base.as_deref(), options.head.as_deref())?;
    eprintln!("same: base {base}\nsame: head {head}");
    let base = record(&workshop, &base, options)?;
    let head = record(&workshop, &head, options)?;
    let comparison = Comparison::of(&base, &head);
    if options.json {
        println!("{}", serde_json::to_string_pretty(&comparison)?);
    } else {
        print!("{comparison}");
    }
    Ok(if comparison.is_same() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The record of a commit: what is kept of it, and measured what that lacks.
fn record(workshop: &Workshop, commit: &Commit, options: &Options) -> Result<Record> {
    let path = workshop.record_path(commit);
    let rustc = source::rustc()?;
    let kept = if options.again { None } else { Record::load(&path).filter(|record| record.rustc == rustc) };
    let mut record = kept.unwrap_or_else(|| Record::new(commit, rustc));
    let wanted = options.wanted(&record);
    if !wanted.is_empty() {
        let program = workshop.build(commit)?;
        // Each part is kept as soon as it is there: the next start goes on after it.
        for part in &wanted {
            part.measure(&program, &workshop.scenarios(), &mut record)?;
            record.save(&path)?;
        }
    }
    options.narrow(&mut record);
    Ok(record)
}
