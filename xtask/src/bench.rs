//! `cargo xtask bench`: what a write costs, and how the server compares with nbdkit.

use crate::phase::{cargo, output, run as run_program};
use crate::tools::program_is_here;
use anyhow::Result;

/// More options of the two experiments.
struct Effort {
    null_write: &'static [&'static str],
    nbd_compare: &'static [&'static str],
}

/// What they take by default.
const FULL: Effort = Effort { null_write: &[], nbd_compare: &[] };

/// Enough to see that they work, and a large change.
const SHORT: Effort =
    Effort { null_write: &["--seconds", "1"], nbd_compare: &["--seconds", "2", "--rounds", "1"] };

/// Runs the experiments and prints their results.
///
/// # Errors
/// When one of them fails.
pub fn run() -> Result<()> {
    run_with(&FULL)
}

/// As [`run`], in seconds instead of a minute.
///
/// # Errors
/// When one of them fails.
pub fn run_short() -> Result<()> {
    run_with(&SHORT)
}

fn run_with(effort: &Effort) -> Result<()> {
    run_program(cargo().args(["build", "--release", "--package", "zoneweave"]))?;
    println!("{}", experiment("null-write", effort.null_write)?);
    if program_is_here("fio") && program_is_here("nbdkit") {
        println!("{}", experiment("nbd-compare", effort.nbd_compare)?);
    } else {
        println!("nbd-compare is skipped: it needs fio and nbdkit");
    }
    Ok(())
}

fn experiment(name: &str, options: &[&str]) -> Result<String> {
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "--package", "zoneweave", "--", "lab", name, "--json"]);
    output(command.args(options))
}
