//! `cargo xtask test`: the crates' tests, then the end-to-end tests against a release build.

pub mod programs;

use crate::phase::{Phases, cargo, run as run_program};
use crate::{tidy, tools};
use anyhow::{Result, bail};
use std::collections::BTreeSet;

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
    let names = tests_of_crates()?;
    let mut options = vec!["--workspace", "--lib", "--bins"];
    options.extend(names.iter().flat_map(|name| ["--test", name]));
    programs::run(&options, &["lab", "array"], &[], &[])?;
    run_program(cargo().args(["test", "--workspace", "--doc"]))
}

/// Names of the tests in `tests/` of all crates: files, and folders with a `main.rs`.
fn tests_of_crates() -> Result<Vec<String>> {
    let paths = tidy::paths()?;
    let names: BTreeSet<&str> = paths.iter().filter_map(|path| name_of_test(path)).collect();
    for name in &names {
        let beside = [format!("tests/{name}.rs"), format!("tests/{name}/main.rs")];
        if let Some(other) = paths.iter().find(|path| beside.contains(path)) {
            bail!("a crate has a test with the name of {other}, which would be built twice: give it another");
        }
    }
    Ok(names.into_iter().map(str::to_owned).collect())
}

/// Name of the test of a crate that a file is, or begins.
fn name_of_test(path: &str) -> Option<&str> {
    match path.split('/').collect::<Vec<_>>()[..] {
        ["crates", _, "tests", file] => file.strip_suffix(".rs"),
        ["crates", _, "tests", folder, "main.rs"] => Some(folder),
        _ => None,
    }
}

fn test_end_to_end() -> Result<()> {
    let options = ["--release", "--package", "zoneweave", "--test", "*"];
    // What a test skips, or how many rounds it did, is worth a line.
    programs::run(&options, &["md", "lab", "clients", "drives"], &["--nocapture"], &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_crates_are_files_and_folders() {
        assert_eq!(name_of_test("crates/block/tests/golden.rs"), Some("golden"));
        assert_eq!(name_of_test("crates/array/tests/mistakes/main.rs"), Some("mistakes"));
        for path in ["crates/array/tests/mistakes/read.rs", "tests/md/main.rs", "crates/sim/src/lib.rs"] {
            assert_eq!(name_of_test(path), None, "{path}");
        }
        let names = tests_of_crates().unwrap();
        assert!(["mistakes", "golden", "scenarios"].iter().all(|name| names.iter().any(|own| own == name)));
    }
}
