//! `cargo xtask test`: the crates' tests, then the end-to-end tests against a release build.

use crate::phase::{Phases, cargo, run as run_program};
use crate::tools;
use anyhow::{Result, bail};

/// Provides the clients, runs everything, and ends with one line that says how it went.
///
/// # Errors
/// When anything failed; everything is run nevertheless.
pub fn run() -> Result<()> {
    let mut phases = Phases::default();
    phases.time("tools", tools::provide)?;
    // A failure of one must not hide those of the other; the summary has both.
    let crates = phases.time("crates", test_crates);
    let end_to_end = phases.time("end to end", test_end_to_end);
    for error in [crates, end_to_end].into_iter().filter_map(Result::err) {
        eprintln!("xtask: {error:#}");
    }
    println!("tests: {}", phases.summary());
    if !phases.all_succeeded() {
        bail!("tests failed");
    }
    Ok(())
}

fn test_crates() -> Result<()> {
    run_program(cargo().args(["test", "--no-fail-fast", "--workspace", "--exclude", "zoneweave"]))?;
    // The binary's own unit tests; its tests/ need a release build and come next.
    run_program(cargo().args(["test", "--no-fail-fast", "--package", "zoneweave", "--bins"]))
}

fn test_end_to_end() -> Result<()> {
    let mut command = cargo();
    command.args(["test", "--release", "--no-fail-fast", "--package", "zoneweave", "--test", "*"]);
    // What a test skips, or how many rounds it did, is worth a line.
    run_program(command.args(["--", "--nocapture"]))
}
