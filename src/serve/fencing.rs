//! Another host has taken a drive of the array that is served: the server ends, and writes nothing more (ADR 73).

use crate::directory::Directory;
use crate::exit::Exit;
use crate::fence_note;
use anyhow::Result;
use array::fence::Fenced;
use array::log::volume::LogVolume;
use base::time::Instant;
use base::units::DriveIndex;

/// An error when another host has taken a drive; a note keeps the array from being mounted here again.
pub(super) fn expect_not_fenced(volume: &LogVolume, directory: &Directory) -> Result<()> {
    let Some(fenced) = volume.fenced() else { return Ok(()) };
    let found = in_words(&fenced, directory);
    fence_note::leave(&directory.path, &found);
    Err(Exit::Failed.error(found))
}

/// The same, of an array at rest that is about to be mounted again: its drives are asked, for a mount takes them from whoever
/// has them.
pub(super) fn expect_ours(volume: &mut LogVolume, now: Instant, directory: &Directory) -> Result<()> {
    volume.look_for_others(now);
    expect_not_fenced(volume, directory)
}

/// Logs commands that drives refused though they follow the rules as far as this server knows: the first of each drive and
/// answer in full, and how many there were.
pub(super) fn say_refusals(volume: &mut LogVolume, directory: &Directory) {
    let mut refusals = volume.take_refusals();
    while let Some(first) = refusals.first().copied() {
        let before = refusals.len();
        refusals.retain(|refusal| (refusal.drive, refusal.status) != (first.drive, first.status));
        let others = match before - refusals.len() - 1 {
            0 => String::new(),
            others => format!(", and {others} more in the same way"),
        };
        log::error!("{first}{others} ({})", path_of(first.drive, directory));
    }
}

fn in_words(fenced: &Fenced, directory: &Directory) -> String {
    format!("{} ({})", fenced, path_of(fenced.drive, directory))
}

fn path_of(drive: DriveIndex, directory: &Directory) -> String {
    let table = directory.file.drive.get(drive.index());
    table.map_or_else(String::new, |table| directory.path.join(&table.path).display().to_string())
}
