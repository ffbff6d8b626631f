//! `--record`: what clients ask for is noted in a new file.

use crate::exit::Exit;
use anyhow::{Context, Result};
use server::recorder::Recording;
use std::path::Path;

/// Refuses a file that exists, before anything else is done.
///
/// # Errors
/// When there is something of that name.
pub fn expect_new(path: Option<&Path>) -> Result<()> {
    let Some(path) = path.filter(|path| path.symlink_metadata().is_ok()) else { return Ok(()) };
    Err(Exit::Usage
        .error(format!("--record {}: it exists already: name a file that does not", path.display())))
}

/// Begins the record that is asked for, if one is.
///
/// # Errors
/// When the file cannot be made.
pub fn begin(path: Option<&Path>) -> Result<Option<Recording>> {
    let begin = |path: &Path| Recording::begin(path).with_context(|| format!("--record {}", path.display()));
    path.map(begin).transpose()
}
