//! `cargo xtask guest`: virtual machines under QEMU, whose disk is a volume (tests/machine.rs), that have drives for arrays
//! (tests/zns.rs), or a volume as a disk of their own (tests/ublk.rs).

use crate::phase::{cargo, run as run_program};
use anyhow::Result;

/// Boots the machines, one after the other: two at a time would starve each other without KVM.
///
/// # Errors
/// When a machine lost something, or QEMU is not there.
pub fn run() -> Result<()> {
    run_program(
        cargo()
            .args([
                "test",
                "--release",
                "--package",
                "zoneweave",
                "--test",
                "machine",
                "--test",
                "zns",
                "--test",
                "ublk",
            ])
            .args(["--", "--nocapture", "--test-threads", "1"])
            .env("ZONEWEAVE_GUEST", "1")
            .env("ZONEWEAVE_REQUIRE_TOOLS", "1"),
    )
}
