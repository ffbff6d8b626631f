//! `cargo xtask kills`: caches that are killed at random instants under load, with an oracle on every key (tests/cache/kills.rs).

use crate::phase::{cargo, run as run_program};
use anyhow::{Context, Result};

/// Kills of each cache when nothing is said.
const KILLS: u64 = 200;

/// Kills a cache of one shard, one of two, and two whose drives lose what they had not flushed, so many times.
///
/// # Errors
/// When a promise was broken.
pub fn run(kills: Option<&str>) -> Result<()> {
    let kills = kills.map(|text| text.parse().with_context(|| format!("`{text}` is no number of kills")));
    let kills: u64 = kills.transpose()?.unwrap_or(KILLS);
    let test =
        ["test", "--release", "--package", "zoneweave", "--test", "cache", "kills::", "--", "--nocapture"];
    run_program(cargo().args(test).env("ZONEWEAVE_KILLS", kills.to_string()))
}
