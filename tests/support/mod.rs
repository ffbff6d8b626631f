//! What the end-to-end tests share: the real binary as a child, real clients, and a client of our
//! own that can have many requests in flight or misbehave.
//!
//! Nothing here waits without a limit. A test that lacks a tool says so and passes, unless
//! `ZONEWEAVE_REQUIRE_TOOLS=1`. `ZONEWEAVE_SEED` repeats a run, `ZONEWEAVE_TEST_DIR` says where
//! arrays are made and `ZONEWEAVE_KEEP=1` keeps them.

// Every program of tests uses a part of this.
#![allow(dead_code, clippy::unwrap_used)]

pub mod cache;
pub mod cache_shadow;
pub mod disk;
pub mod guest;
pub mod kernel;
pub mod loop_device;
pub mod machine;
pub mod md;
pub mod mount;
pub mod nbd;
pub mod nvme;
pub mod outside;
pub mod reader;
pub mod recorded_disks;
pub mod run;
pub mod scratch;
pub mod server;
pub mod stamp;
pub mod witness;
pub mod writer;

use base::random::Random;
use std::path::Path;

/// Returns true when all `tools` are here. If not, the test is to return: that is its way to be skipped.
pub fn have(tools: &[&str]) -> bool {
    let missing: Vec<_> = tools.iter().filter(|tool| !is_here(tool)).collect();
    if missing.is_empty() {
        return true;
    }
    skip(&format!("{missing:?} not found; `cargo xtask test` says what to install"))
}

/// Says why a test does nothing; fails it where nothing may be skipped.
pub fn skip(reason: &str) -> bool {
    assert!(std::env::var_os("ZONEWEAVE_REQUIRE_TOOLS").is_none(), "may not be skipped: {reason}");
    println!("skipped: {reason}");
    false
}

fn is_here(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let administrators = ["/usr/sbin", "/sbin"].map(Into::into);
    std::env::split_paths(&path).chain(administrators).any(|folder| folder.join(tool).is_file())
}

/// Returns true when we may mount.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// The randomness of a test, printed so that a failure can be repeated.
pub fn random(default_seed: u64) -> Random {
    let seed = number_from("ZONEWEAVE_SEED", default_seed);
    println!("ZONEWEAVE_SEED={seed}");
    Random::from_seed(seed)
}

/// The number in an environment variable.
pub fn number_from(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}=`{text}` is not a number")),
        Err(_) => default,
    }
}

/// `count` random bytes.
pub fn random_bytes(random: &mut Random, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    random.fill(&mut bytes);
    bytes
}

/// A path as text, for command lines.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are text")
}
