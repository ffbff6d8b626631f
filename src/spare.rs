//! `zoneweave drive add-spare` and `remove-spare`: blank drives that take the place of the next that fails.
//!
//! Spares are named in `array.toml` and nowhere else. A spare is opened when it is needed, by a server that finds a
//! member failed; one that cannot be used then is passed over, with a word in the log.

use crate::candidates;
use crate::cli::{AddSpare, RemoveSpare};
use crate::directory::{Directory, DriveTable};
use crate::exit::Exit;
use crate::replace::Newcomer;
use crate::roster::{Absence, Roster};
use crate::seek::Seek;
use crate::sighting::Sighting;
use crate::status;
use anyhow::{Context, Result, ensure};
use array::log::mount_read_only;
use base::time::Instant;
use drive::any::Peek;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use zone::device::Geometry;

/// The JSON object of `zoneweave drive add-spare --json`.
#[derive(Debug, Deserialize, Serialize)]
pub struct Added {
    /// File of the spare.
    pub path: PathBuf,
    /// Spares there are now.
    pub spares: usize,
}

/// Adds a spare, through the server if there is one.
pub fn run(options: &AddSpare) -> Result<Exit> {
    let mut directory = Directory::open(&options.dir)?;
    let seek = Seek::of(options.path.as_deref(), options.identity_journal.as_deref(), &options.force)?;
    let line = format!("add-spare {seek}");
    let added = match status::ask(&directory, line.trim_end())? {
        Some(answer) => serde_json::from_str(&answer).context("the server's answer")?,
        None => {
            let drives = Roster::find(&mut directory)?.open(Absence::Accepted, None)?;
            let (looked, ..) = mount_read_only(drives.devices, Instant(0))?;
            add(&mut directory, &seek, looked.geometry())?
        }
    };
    if options.json {
        println!("{}", serde_json::to_string_pretty(&added)?);
    } else {
        println!("{} is a spare: it takes the place of the next drive that fails", added.path.display());
    }
    Ok(Exit::Well)
}

/// The JSON object of `zoneweave drive remove-spare --json`.
#[derive(Debug, Deserialize, Serialize)]
pub struct Removed {
    /// File of the drive that is no spare any more; it stays.
    pub path: PathBuf,
    /// Spares there are now.
    pub spares: usize,
}

/// Takes a spare away, through the server if there is one.
pub fn remove(options: &RemoveSpare) -> Result<Exit> {
    let mut directory = Directory::open(&options.dir)?;
    let given = options.path.to_str().context("PATH is not text")?;
    let removed: Removed = match status::ask(&directory, &format!("remove-spare {given}"))? {
        Some(answer) => serde_json::from_str(&answer).context("the server's answer")?,
        None => take_away(&mut directory, &options.path)?,
    };
    if options.json {
        println!("{}", serde_json::to_string_pretty(&removed)?);
    } else {
        println!("{} is no spare any more; the file is yours to remove", removed.path.display());
    }
    Ok(Exit::Well)
}

/// Number of the spare at a path: as `zoneweave status` has it, or from wherever the command is run.
fn position(directory: &Directory, path: &Path) -> Option<usize> {
    let wanted = directory.path.join(path);
    let absolute = std::path::absolute(path).ok();
    let is_it = |spare: &DriveTable| {
        let full = directory.path.join(&spare.path);
        spare.path == path
            || full == wanted
            || absolute.is_some() && std::path::absolute(&full).ok() == absolute
    };
    directory.file.spare.iter().position(is_it)
}

/// The spare at a path.
pub fn at<'a>(directory: &'a Directory, path: &Path) -> Option<&'a DriveTable> {
    position(directory, path).map(|index| &directory.file.spare[index])
}

/// Finds a spare by its identity, wherever it is now.
///
/// # Errors
/// When it is not there, or somebody has made something else of it.
pub fn locate(directory: &Directory, spare: &DriveTable) -> Result<Sighting> {
    let path = directory.path.join(&spare.path);
    let mut why = String::new();
    let mut seen = Vec::new();
    match Sighting::of(&path) {
        Ok(sighting) => seen.push(sighting),
        // Such as an identity journal that is missing.
        Err(error) => why = format!(": {}", error.problem),
    }
    let is_it = |sighting: &Sighting| sighting.uuid == spare.uuid;
    if !seen.iter().any(is_it) && spare.is_device() {
        candidates::find(&[spare], &mut seen);
    }
    let Some(found) = seen.into_iter().find(is_it) else {
        let said = format!(
            "{}: the spare of uuid {} is not there, nor on another device{why}",
            path.display(),
            spare.uuid
        );
        return Err(Exit::Absent.error(said));
    };
    if let Some(array) = found.array() {
        let said = format!("{}: the spare is a drive of array {array} meanwhile", found.path.display());
        return Err(Exit::Failed.error(said));
    }
    if found.path != path {
        log::warn!("spare {} is {} now", path.display(), found.path.display());
    }
    Ok(found)
}

/// Forgets a spare.
pub fn take_away(directory: &mut Directory, path: &Path) -> Result<Removed> {
    let Some(index) = position(directory, path) else {
        let said = format!("{}: is no spare of the array; `zoneweave status` lists them", path.display());
        return Err(Exit::Absent.error(said));
    };
    let removed = directory.file.spare.remove(index);
    directory.save()?;
    Ok(Removed { path: directory.path.join(removed.path), spares: directory.file.spare.len() })
}

/// Names a drive as a spare, and makes it if it does not exist.
pub fn add(directory: &mut Directory, seek: &Seek, geometry: &Geometry) -> Result<Added> {
    let table = Newcomer::find(directory, None, seek, geometry)?.table;
    let full = directory.path.join(&table.path);
    let known = directory.file.drive.iter().chain(&directory.file.spare);
    ensure!(
        known.into_iter().all(|known| known.uuid != table.uuid),
        "{}: is part of the array already",
        full.display()
    );
    expect_usable(&full, geometry)?;
    directory.file.spare.push(table);
    directory.save()?;
    Ok(Added { path: full, spares: directory.file.spare.len() })
}

/// A spare that cannot be used is refused at once, not when it is needed.
fn expect_usable(path: &Path, wanted: &Geometry) -> Result<()> {
    let peek = Peek::open(path)?;
    ensure!(
        peek.geometry().covers(wanted),
        "{}: has another zone geometry than the array, fewer zones, or lower limits: give a drive like the others",
        path.display()
    );
    for zone in 0..peek.geometry().zones {
        ensure!(
            peek.written_blocks(zone)? == 0,
            "{}: is not blank: give a file that does not exist, or a new drive",
            path.display()
        );
    }
    Ok(())
}

/// The first spare that was not refused yet.
pub fn next<'a>(spares: &'a [DriveTable], refused: &[uuid::Uuid]) -> Option<&'a DriveTable> {
    spares.iter().find(|spare| !refused.contains(&spare.uuid))
}
