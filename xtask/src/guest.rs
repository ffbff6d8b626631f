//! `cargo xtask guest`: virtual machines under QEMU, whose disk is a volume (tests/machine.rs), that have drives for arrays
//! (tests/zns.rs, tests/zoned.rs), which are yanked (tests/yank.rs) or answer too late (tests/slow.rs), and lose their power (tests/power.rs), or a volume as a disk of
//! their own (tests/ublk.rs), whose drives have formats that cannot be used (tests/formats.rs) or are of all kinds (tests/differential.rs), or a newer md (tests/newer_md.rs).

use crate::phase::{cargo, run as run_program};
use anyhow::{Result, bail};
use std::process::ExitCode;

/// Programs of tests that boot machines.
const PROGRAMS: [&str; 10] =
    ["machine", "zns", "zoned", "yank", "slow", "power", "ublk", "formats", "differential", "newer_md"];
/// Those of the short form.
const SHORT_PROGRAMS: [&str; 3] = ["machine", "zns", "power"];

/// Boots the machines, one after the other: two at a time would starve each other without KVM.
///
/// # Errors
/// When a machine lost something, QEMU is not there, or a name is none of a program of tests.
pub fn run(words: &[String]) -> Result<ExitCode> {
    let (options, names): (Vec<&str>, Vec<&str>) =
        words.iter().map(String::as_str).partition(|word| word.starts_with("--"));
    if let Some(unknown) = options.iter().find(|option| **option != "--short") {
        bail!("`{unknown}` is not an option; there is --short");
    }
    let is_short = !options.is_empty();
    if let Some(unknown) = names.iter().find(|name| !PROGRAMS.contains(name)) {
        bail!("`{unknown}` is not one of {}", PROGRAMS.join(", "));
    }
    let programs = match (names.is_empty(), is_short) {
        (false, _) => names,
        (true, true) => SHORT_PROGRAMS.to_vec(),
        (true, false) => PROGRAMS.to_vec(),
    };
    let mut tests = cargo();
    tests.args(["test", "--release", "--package", "zoneweave"]);
    tests.args(programs.iter().flat_map(|program| ["--test", program]));
    run_program(
        tests
            .args(["--", "--nocapture", "--test-threads", "1"])
            .env("ZONEWEAVE_GUEST", "1")
            .env("ZONEWEAVE_GUEST_SHORT", if is_short { "1" } else { "0" })
            .env("ZONEWEAVE_REQUIRE_TOOLS", "1"),
    )?;
    Ok(ExitCode::SUCCESS)
}
