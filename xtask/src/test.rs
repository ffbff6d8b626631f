//! `cargo xtask test`: the crates' tests, then the end-to-end tests against a release build.

use crate::phase::{Phases, cargo, run as run_program};
use crate::{root, tools};
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

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

/// Everything but the tests of the program in `tests/`, which want a release build and come next: of the whole workspace at once, for
/// cargo builds all dependencies anew for packages that are chosen, whose features are others.
fn test_crates() -> Result<()> {
    let workspace = ["test", "--no-fail-fast", "--workspace"];
    let mut command = cargo();
    command.args(workspace).args(["--lib", "--bins"]);
    for name in tests_of_crates()? {
        command.args(["--test", &name]);
    }
    run_program(&mut command)?;
    run_program(cargo().args(workspace).arg("--doc"))
}

/// Names of the tests in `tests/` of all crates.
fn tests_of_crates() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in files_of_tests()? {
        let name = entry.file_stem().and_then(OsStr::to_str).context("the name of a test is no text")?;
        let beside = [format!("tests/{name}.rs"), format!("tests/{name}")];
        if let Some(other) = beside.iter().find(|other| root().join(other).exists()) {
            bail!("{} has the name of {other}, which would be built twice: give it another", entry.display());
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

/// Files `crates/*/tests/*.rs`, by name.
fn files_of_tests() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for of_crate in fs::read_dir(root().join("crates")).context("crates")? {
        let Ok(tests) = fs::read_dir(of_crate?.path().join("tests")) else { continue };
        for test in tests {
            files.push(test?.path());
        }
    }
    files.retain(|file| file.extension() == Some(OsStr::new("rs")));
    files.sort();
    Ok(files)
}

fn test_end_to_end() -> Result<()> {
    let mut command = cargo();
    command.args(["test", "--release", "--no-fail-fast", "--package", "zoneweave", "--test", "*"]);
    // What a test skips, or how many rounds it did, is worth a line.
    run_program(command.args(["--", "--nocapture"]))
}
