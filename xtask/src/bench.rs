//! `cargo xtask bench`: what a write costs, how the server compares with nbdkit, and that every experiment runs.

use crate::phase::{cargo, output, run as run_program};
use crate::tools::program_is_here;
use anyhow::Result;

/// More options of what is run.
struct Effort {
    null_write: &'static [&'static str],
    nbd_compare: &'static [&'static str],
    /// Options of `lab run all`: every experiment in virtual time.
    all: &'static [&'static str],
}

/// Options of full runs, as they are by default.
const FULL: Effort = Effort { null_write: &[], nbd_compare: &[], all: &["--seeds", "1"] };

/// Enough to see that they work, and a large change.
const SHORT: Effort = Effort {
    null_write: &["--seconds", "1"],
    nbd_compare: &["--seconds", "2", "--rounds", "1"],
    all: &["--seeds", "1", "--scale", "0.01"],
};

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
    println!("{}", lab(&["null-write"], effort.null_write)?);
    if program_is_here("fio") && program_is_here("nbdkit") {
        println!("{}", lab(&["nbd-compare"], effort.nbd_compare)?);
    } else {
        println!("nbd-compare is skipped: it needs fio and nbdkit");
    }
    let measurements = lab(&["run", "all"], effort.all)?;
    println!("lab run all: {} measurements", measurements.lines().count());
    Ok(())
}

fn lab(command: &[&str], options: &[&str]) -> Result<String> {
    let mut zoneweave = cargo();
    zoneweave.args(["run", "--quiet", "--release", "--package", "zoneweave", "--", "lab"]);
    output(zoneweave.args(command).arg("--json").args(options))
}
