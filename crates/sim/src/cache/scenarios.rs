//! Runs that were found by a seed once, or that a mistake asks for: each by name.

use super::Run;

/// All scenarios with their names.
#[must_use]
pub fn all() -> Vec<(&'static str, Run)> {
    Vec::new()
}
