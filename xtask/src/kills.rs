//! `cargo xtask kills`: caches that are killed at random instants under load, with an oracle on every key (tests/cache/kills.rs), and arrays that are
//! killed under fio, with one on every block (tests/clients/kill9_fio.rs).

use crate::phase::{cargo, run as run_program};
use anyhow::{Context, Result};

/// Kills of each cache when nothing is said.
const KILLS: u64 = 200;

/// Kills a cache of one shard, one of two, and two whose drives lose what they had not flushed, so many times; and an array on files and one in
/// memory a quarter as often.
///
/// # Errors
/// When a promise was broken.
pub fn run(kills: Option<&str>) -> Result<()> {
    let kills = kills.map(|text| text.parse().with_context(|| format!("`{text}` is no number of kills")));
    let kills: u64 = kills.transpose()?.unwrap_or(KILLS);
    let tests = ["test", "--release", "--package", "zoneweave", "--test", "cache", "--test", "clients"];
    let chosen = ["--", "--nocapture", "kills::", "kill9_fio::"];
    run_program(cargo().args(tests).args(chosen).env("ZONEWEAVE_KILLS", kills.to_string()))
}
