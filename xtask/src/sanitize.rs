//! `cargo xtask sanitize`: code with `unsafe`, under AddressSanitizer.
//!
//! Miri would see more, but knows neither io_uring nor shared mappings of files, which is what most of our
//! `unsafe` is about, and needs a component of a nightly toolchain. AddressSanitizer comes with the stable
//! one; the option that turns it on is called unstable.

use crate::fuzz::host;
use crate::phase::{cargo, run as run_program};
use anyhow::Result;

/// Tests that go through unsafe code, by package; `tidy/unsafe_code.rs` has the list of files.
const TESTS: &[(&str, &[&str])] = &[
    ("zoneweave-base", &["--lib"]),
    ("zoneweave-drive", &["--lib", "--test", "model"]),
    ("zoneweave-server", &["--lib", "--test", "protocol", "--test", "cores"]),
];

/// Random sequences of each property: a sanitizer looks at every access, not at rare orders.
const PROPTEST_CASES: &str = "64";

/// Runs the tests.
///
/// # Errors
/// When one fails, or touches memory that is not its own.
pub fn run() -> Result<()> {
    let host = host()?;
    for (package, tests) in TESTS {
        let mut command = cargo();
        command.args(["test", "--target", &host, "--package", package]).args(*tests);
        command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
        run_program(command.env("PROPTEST_CASES", PROPTEST_CASES))?;
    }
    Ok(())
}
