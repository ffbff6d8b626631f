//! `zoneweave drive add-spare` and `remove-spare`: blank drives that take the place of the next that fails.
//!
//! Spares are named in `array.toml` and nowhere else. A spare is opened when it is needed, by a server that finds a
//! member failed; one that cannot be used then is passed over, with a word in the log.

use crate::cli::{AddSpare, RemoveSpare};
use crate::directory::{Directory, DriveTable};
use crate::exit::Exit;
use crate::replace::Newcomer;
use crate::roster::{Absence, Roster};
use crate::status;
use anyhow::{Context, Result, ensure};
use array::log::mount_read_only;
use base::time::Instant;
use drive::any::Kind;
use drive::emulated::describe;
use drive::nvme::open;
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
    let path = options.path.as_ref().map(std::path::absolute).transpose().context("PATH")?;
    let line = path.as_ref().map_or("add-spare".to_owned(), |path| format!("add-spare {}", path.display()));
    let added = match status::ask(&directory, &line)? {
        Some(answer) => serde_json::from_str(&answer).context("the server's answer")?,
        None => {
            let drives = Roster::find(&mut directory)?.open(Absence::Accepted, None)?;
            let (looked, ..) = mount_read_only(drives.devices, Instant(0))?;
            add(&mut directory, path.as_deref(), looked.geometry())?
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

/// Forgets a spare: named as `zoneweave status` has it, or by a path.
pub fn take_away(directory: &mut Directory, path: &Path) -> Result<Removed> {
    let wanted = directory.path.join(path);
    let absolute = std::path::absolute(path).context("PATH")?;
    let is_it = |spare: &DriveTable| {
        let full = directory.path.join(&spare.path);
        spare.path == path || full == wanted || std::path::absolute(&full).is_ok_and(|full| full == absolute)
    };
    let Some(index) = directory.file.spare.iter().position(is_it) else {
        let said = format!("{}: is no spare of the array; `zoneweave status` lists them", path.display());
        return Err(Exit::Absent.error(said));
    };
    let removed = directory.file.spare.remove(index);
    directory.save()?;
    Ok(Removed { path: directory.path.join(removed.path), spares: directory.file.spare.len() })
}

/// Names a drive as a spare, and makes it if it does not exist.
pub fn add(directory: &mut Directory, path: Option<&Path>, geometry: &Geometry) -> Result<Added> {
    let table = Newcomer::find(directory, "spare", path, geometry)?.table;
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
    let (geometry, is_blank) = match Kind::of(path) {
        Kind::Nvme => {
            let found = open::look(path)?;
            (found.geometry, found.written_zones() == 0)
        }
        Kind::Emulated | Kind::Conventional => {
            let found = describe(path)?;
            (found.geometry, found.zones.empty == found.geometry.zones)
        }
    };
    let is_alike = geometry.zones == wanted.zones
        && geometry.zone_size_blocks == wanted.zone_size_blocks
        && geometry.zone_capacity_blocks == wanted.zone_capacity_blocks;
    ensure!(
        is_alike,
        "{}: has another zone geometry than the array: give a drive like the others",
        path.display()
    );
    ensure!(is_blank, "{}: is not blank: give a file that does not exist, or a new drive", path.display());
    Ok(())
}

/// The first spare that was not refused yet.
pub fn next<'a>(spares: &'a [DriveTable], refused: &[uuid::Uuid]) -> Option<&'a DriveTable> {
    spares.iter().find(|spare| !refused.contains(&spare.uuid))
}
