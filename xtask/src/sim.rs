//! `cargo xtask sim`: the simulator on seeds nobody has tried yet.

use crate::phase::{cargo, output, run as run_program, target};
use anyhow::{Context, Result, bail};
use std::process::Command;
use std::time::SystemTime;

/// Runs when nothing is said.
const RUNS: u64 = 100_000;
/// Runs of CI: less than a minute on 2 cores.
const RUNS_SHORT: u64 = 800;
/// Runs of the log engine for each run of another world.
const RUNS_PER_OTHER: u64 = 2;
/// Runs of the log engine without random write areas for each run with them: about ten seconds of CI on 2 cores.
const RUNS_PER_AREAS: u64 = 4;
/// Runs whose event logs must be the same in every build.
const RUNS_COMPARED: u64 = 40;
/// Distance between the first seeds of two days.
const SEEDS_PER_DAY: u64 = 1_000_000;

/// All scenarios and `runs` seeds of today.
///
/// # Errors
/// When a run fails, or builds do not agree.
pub fn run(runs: Option<&str>) -> Result<()> {
    let runs = runs.map(|text| text.parse().with_context(|| format!("`{text}` is no number of runs")));
    simulate(runs.transpose()?.unwrap_or(RUNS))
}

/// The share of CI.
///
/// # Errors
/// As [`run`].
pub fn run_short() -> Result<()> {
    simulate(RUNS_SHORT)
}

fn simulate(runs: u64) -> Result<()> {
    compare_builds()?;
    let seed = first_seed_of_today()?;
    println!("sim: seeds {seed} to {}", seed + runs - 1);
    run_program(zoneweave().args(["sim", "--runs", &runs.to_string(), "--seed", &seed.to_string()]))?;
    let other = runs.div_ceil(RUNS_PER_OTHER);
    let areas = runs.div_ceil(RUNS_PER_AREAS);
    let others = [
        ("--areas", areas),
        ("--inplace", other),
        ("--conventional", other),
        ("--inband", other),
        ("--cache", other),
    ];
    for (world, runs) in others {
        let (runs, seed) = (runs.to_string(), seed.to_string());
        run_program(zoneweave().args(["sim", world, "--runs", &runs, "--seed", &seed]))?;
    }
    Ok(())
}

/// The same seeds give the same event logs whatever the compiler's options.
fn compare_builds() -> Result<()> {
    let hash = |mut program: Command| -> Result<String> {
        let runs = RUNS_COMPARED.to_string();
        let text = output(program.args(["sim", "--seed", "0", "--runs", &runs, "--json"]))?;
        let report: serde_json::Value = serde_json::from_str(&text).context("the report of the simulator")?;
        Ok(report["hash"].as_str().context("the report has no hash")?.to_owned())
    };
    // As the tests of crates were built: alone, or without the features of tests, cargo builds all dependencies anew. It builds the
    // program beside one of its tests.
    run_program(cargo().args(["test", "--quiet", "--no-run", "--workspace", "--test", "cli"]))?;
    let (debug, release) = (hash(Command::new(target().join("debug/zoneweave")))?, hash(zoneweave())?);
    if debug != release {
        bail!(
            "seeds 0 to {} give hash {debug} with debug assertions and {release} without",
            RUNS_COMPARED - 1
        );
    }
    println!("sim: hash {release} with and without debug assertions");
    Ok(())
}

fn zoneweave() -> Command {
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "--package", "zoneweave", "--"]);
    command
}

fn first_seed_of_today() -> Result<u64> {
    let since =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("the clock is before 1970")?;
    Ok(since.as_secs() / 86_400 * SEEDS_PER_DAY)
}
