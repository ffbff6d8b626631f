//! `cargo xtask bench`: what a write costs, and how the server compares with nbdkit.

use crate::phase::{cargo, output, run as run_program};
use crate::tools::program_is_here;
use anyhow::Result;

/// Runs the experiments and prints their results.
///
/// # Errors
/// When one of them fails.
pub fn run() -> Result<()> {
    run_program(cargo().args(["build", "--release", "--package", "zoneweave"]))?;
    println!("{}", experiment("null-write")?);
    if program_is_here("fio") && program_is_here("nbdkit") {
        println!("{}", experiment("nbd-compare")?);
    } else {
        println!("nbd-compare is skipped: it needs fio and nbdkit");
    }
    Ok(())
}

fn experiment(name: &str) -> Result<String> {
    let more = std::env::var("XTASK_BENCH_ARGS").unwrap_or_default();
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "--package", "zoneweave", "--", "lab", name, "--json"]);
    output(command.args(more.split_whitespace()))
}
