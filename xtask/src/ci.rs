//! `cargo xtask ci`: what CI runs, and what to run before pushing.

use crate::phase::Phases;
use crate::{bench, check_workspace, clients, conformance, fuzz, guest, mutants, sim, test};
use anyhow::{Result, bail};

/// Environment of the end-to-end tests that turns a missing client into a failure.
const REQUIRE_TOOLS: &str = "ZONEWEAVE_REQUIRE_TOOLS";

/// Runs everything, also after a failure, and ends with the time each part took.
///
/// # Errors
/// When any part failed.
pub fn run() -> Result<()> {
    if std::env::var_os(REQUIRE_TOOLS).is_none() {
        return again_with_tools_required();
    }
    let mut phases = Phases::default();
    let results = [
        phases.time("check", check_workspace),
        phases.time("test", test::run),
        phases.time("conformance", conformance::run_short),
        phases.time("clients", clients::run_short),
        phases.time("guest", guest::run_short),
        phases.time("sim", sim::run_short),
        phases.time("mutants", mutants::run_short),
        phases.time("fuzz", fuzz::run_short),
        phases.time("bench", bench::run_short),
    ];
    for error in results.into_iter().filter_map(Result::err) {
        eprintln!("xtask: {error:#}");
    }
    println!("ci: {}", phases.summary());
    if !phases.all_succeeded() {
        bail!("ci failed");
    }
    Ok(())
}

/// Changing one's own environment is unsafe; a child's is not.
fn again_with_tools_required() -> Result<()> {
    let ourselves = std::env::current_exe()?;
    let status = std::process::Command::new(ourselves).arg("ci").env(REQUIRE_TOOLS, "1").status()?;
    if !status.success() {
        bail!("see above");
    }
    Ok(())
}
