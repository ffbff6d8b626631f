//! `cargo xtask siege`: one array through one trouble after the other, with an oracle on every block (tests/siege.rs).

use crate::phase::{cargo, run as run_program};
use anyhow::{Context, Result};

/// Seconds when nothing is said.
const SECONDS: u64 = 600;

/// Besieges an array for so many seconds.
///
/// # Errors
/// When a promise was broken.
pub fn run(seconds: Option<&str>) -> Result<()> {
    let seconds =
        seconds.map(|text| text.parse().with_context(|| format!("`{text}` is no number of seconds")));
    let seconds: u64 = seconds.transpose()?.unwrap_or(SECONDS);
    run_program(
        cargo()
            .args(["test", "--release", "--package", "zoneweave", "--test", "siege", "--", "--nocapture"])
            .env("ZONEWEAVE_SIEGE_SECONDS", seconds.to_string()),
    )
}
