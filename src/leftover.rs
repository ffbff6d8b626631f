//! Leftovers: the files of drives that a `create` left when it was killed. They hold nothing.

use crate::exit::Exit;
use crate::sighting::Sighting;
use anyhow::{Context, Result};
use drive::any::AnyDrive;
use drive::emulated::DriveProblem;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Bytes of the header of a drive, which is written last of all.
const HEADER_BYTES: u64 = 4096;

/// Removes leftovers among the files of an array that is to be made, when it is forced; refuses anything else.
pub fn clear(paths: &[PathBuf], force: bool) -> Result<()> {
    let mut leftovers = Vec::new();
    for path in paths {
        match std::fs::symlink_metadata(path) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            found => found.with_context(|| format!("{}", path.display()))?,
        };
        let shown = path.display();
        if !is_leftover(path)? {
            return Err(Exit::Failed.error(format!(
                "drive {shown}: the file exists, holds something, and will not be overwritten: choose another name, or \
                 remove it if nothing on it is needed"
            )));
        }
        if !force {
            return Err(Exit::Failed.error(format!(
                "drive {shown}: the file exists; an interrupted `create` left it, or a drive that was never used: --force \
                 begins anew"
            )));
        }
        leftovers.push(path);
    }
    for path in leftovers {
        std::fs::remove_file(path).with_context(|| format!("{}", path.display()))?;
        log::info!("{}: what was left of a drive is removed", path.display());
    }
    Ok(())
}

/// True of a drive that holds nothing: without a header yet, blank, or of an array that was never mounted.
fn is_leftover(path: &Path) -> Result<bool> {
    match Sighting::of(path) {
        Ok(sighting) => {
            let was_mounted = sighting.record.as_ref().is_some_and(|record| record.generation > 1);
            if was_mounted || !sighting.holds_no_data {
                return Ok(false);
            }
            // One that is in use is somebody's.
            AnyDrive::open(path).map(|_| true).map_err(anyhow::Error::from)
        }
        Err(error) => match error.problem {
            DriveProblem::NotADrive | DriveProblem::TooShort { .. } => begins_with_zeros(path),
            _ => Ok(false),
        },
    }
}

/// True when nothing was written where the header will be.
fn begins_with_zeros(path: &Path) -> Result<bool> {
    let said = || format!("{}", path.display());
    let mut begin = Vec::new();
    File::open(path).with_context(said)?.take(HEADER_BYTES).read_to_end(&mut begin).with_context(said)?;
    Ok(begin.iter().all(|byte| *byte == 0))
}
