//! `zoneweave drive add-spare`: a blank drive that takes the place of the next that fails.
//!
//! Spares are named in `array.toml` and nowhere else. A spare is opened when it is needed, by a server that finds a
//! member failed; one that cannot be used then is passed over, with a word in the log.

use crate::cli::AddSpare;
use crate::directory::{Directory, DriveTable};
use crate::replace::Newcomer;
use crate::status;
use anyhow::{Context, Result, ensure};
use array::log::mount_read_only;
use base::time::Instant;
use drive::emulated::describe;
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
pub fn run(options: &AddSpare) -> Result<()> {
    let mut directory = Directory::open(&options.dir)?;
    let path = options.path.as_ref().map(std::path::absolute).transpose().context("PATH")?;
    let line = path.as_ref().map_or("add-spare".to_owned(), |path| format!("add-spare {}", path.display()));
    let added = match status::ask(&directory, &line)? {
        Some(answer) => serde_json::from_str(&answer).context("the server's answer")?,
        None => {
            let (looked, ..) = mount_read_only(directory.open_drives()?.devices, Instant(0))?;
            add(&mut directory, path.as_deref(), looked.geometry())?
        }
    };
    if options.json {
        println!("{}", serde_json::to_string_pretty(&added)?);
    } else {
        println!("{} is a spare: it takes the place of the next drive that fails", added.path.display());
    }
    Ok(())
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
    let found = describe(path)?;
    let is_alike = found.geometry.zones == wanted.zones
        && found.geometry.zone_size_blocks == wanted.zone_size_blocks
        && found.geometry.zone_capacity_blocks == wanted.zone_capacity_blocks;
    ensure!(
        is_alike,
        "{}: has another zone geometry than the array: give a drive like the others",
        path.display()
    );
    ensure!(
        found.zones.empty == wanted.zones,
        "{}: is not blank: give a file that does not exist, or a new drive",
        path.display()
    );
    Ok(())
}

/// The first spare that was not refused yet.
pub fn next<'a>(spares: &'a [DriveTable], refused: &[uuid::Uuid]) -> Option<&'a DriveTable> {
    spares.iter().find(|spare| !refused.contains(&spare.uuid))
}
