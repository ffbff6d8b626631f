//! `--record`: what clients ask for is noted in a new file.

use crate::exit::Exit;
use anyhow::{Context, Result};
use server::recorder::Recording;
use std::path::Path;

/// Refuses a file that exists, or whose directory does not, before anything else is done.
///
/// # Errors
/// When it cannot be made for that.
pub fn expect_new(path: Option<&Path>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let refused = |why: &str| Err(Exit::Usage.error(format!("--record {}: {why}", path.display())));
    if path.symlink_metadata().is_ok() {
        return refused("it exists already: name a file that does not");
    }
    let folder = std::path::absolute(path)?;
    match folder.parent().is_some_and(Path::is_dir) {
        true => Ok(()),
        false => refused("its directory does not exist: create the directory first"),
    }
}

/// Begins the record that is asked for, if one is.
///
/// # Errors
/// When the file cannot be made.
pub fn begin(path: Option<&Path>) -> Result<Option<Recording>> {
    let begin = |path: &Path| Recording::begin(path).with_context(|| format!("--record {}", path.display()));
    path.map(begin).transpose()
}
