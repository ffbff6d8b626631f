//! `cargo xtask md`: arrays in md's format held against Linux md, mdadm and arrays that the kernel wrote.

use crate::phase::{cargo, run as run_program};
use crate::tools;
use anyhow::{Context, Result};

/// Rounds of each match when nothing is said.
const ROUNDS: u64 = 2;

/// Plays so many rounds of each match with a kernel in user mode, after the tests that need no rounds.
///
/// # Errors
/// When a promise was broken, or a tool is missing.
pub fn run(rounds: Option<&str>) -> Result<()> {
    let rounds = rounds.map(|text| text.parse().with_context(|| format!("`{text}` is no number of rounds")));
    let rounds: u64 = rounds.transpose()?.unwrap_or(ROUNDS);
    tools::provide()?;
    run_program(
        cargo()
            .args(["test", "--release", "--no-fail-fast", "--package", "zoneweave", "--test", "md"])
            .args(["--", "--nocapture"])
            .env("ZONEWEAVE_MD_ROUNDS", rounds.max(1).to_string())
            .env("ZONEWEAVE_REQUIRE_TOOLS", "1"),
    )
}
