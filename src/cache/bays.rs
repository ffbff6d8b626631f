//! `zoneweave cache drive fail` and `replace`: drives of a cache are taken out and put in.
//!
//! `cache.toml` names the new drive before superblocks do: a crash between the two leaves a blank drive in the place, which
//! joins when the cache is served the next time.

use super::directory::{CacheDirectory, CacheDrive};
use super::drives;
use super::options::{CacheBay, CacheDriveCommand};
use super::serve::wall;
use crate::exit::Exit;
use crate::hosting::Hosting;
use crate::replace::{Attempt, ask_at_until_done, new_name};
use anyhow::{Context, Result};
use base::time::Instant;
use base::units::DriveIndex;
use cache::CacheVolume;
use cache::shard::BayRefusal;
use drive::any::AnyDrive;
use drive::emulated::{CreateOptions, EmulatedDrive};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use zone::device::Geometry;
use zone::drives::DriveSet;

/// What became of a drive, as a JSON object.
#[derive(Debug, Deserialize, Serialize)]
pub struct BayReport {
    /// The drive's number.
    pub drive: usize,
    /// File of the new drive; none when one was only taken out.
    pub path: Option<PathBuf>,
    /// File of the old one, which nobody needs any more.
    pub old_path: PathBuf,
    /// A server did it.
    pub served: bool,
}

/// Runs a command.
pub fn run(command: &CacheDriveCommand) -> Result<Exit> {
    let (word, bay) = match command {
        CacheDriveCommand::Fail(bay) => ("fail", bay),
        CacheDriveCommand::Replace(bay) => ("replace", bay),
    };
    let directory = CacheDirectory::open(&bay.dir)?;
    let line = format!("{word} {}", bay.drive);
    let report = match (ask_at_until_done(&directory.control_path(), "cache", &line)?, command) {
        (Some(report), _) => report,
        (None, CacheDriveCommand::Replace(_)) => replace_offline(directory, bay)?,
        (None, CacheDriveCommand::Fail(_)) => {
            let dir = bay.dir.display();
            return Err(Exit::Absent.error(format!(
                "{dir}: nobody serves the cache; a drive that cannot be opened is left out when it is served, and \
                 `zoneweave cache drive replace` puts another in its place"
            )));
        }
    };
    if bay.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(Exit::Well);
    }
    let BayReport { drive, path, old_path, served } = report;
    let old_path = old_path.display();
    match path {
        None => println!(
            "drive {drive} is taken out; what it held is forgotten, and {old_path} is not written any more"
        ),
        Some(path) => {
            println!("drive {drive} is now {}; {old_path} is no longer part of the cache", path.display());
            if !served {
                println!("it joins, empty, with the next `zoneweave cache serve {}`", bay.dir.display());
            }
        }
    }
    Ok(Exit::Well)
}

fn refused(place: usize, refusal: BayRefusal) -> anyhow::Error {
    let exit = if let BayRefusal::NoPlace { .. } = refusal { Exit::Usage } else { Exit::Failed };
    exit.error(format!("drive {place}: {refusal}"))
}

/// Takes a drive of a served cache out.
///
/// # Errors
/// When it may not be.
pub fn take_out(
    directory: &CacheDirectory,
    volume: &mut CacheVolume,
    place: usize,
) -> Result<Attempt<BayReport>> {
    match volume.take_out(place) {
        Ok(()) => {}
        Err(BayRefusal::Busy) => return Ok(Attempt::Busy),
        Err(refusal) => return Err(refused(place, refusal)),
    }
    log::warn!("drive {place} was taken out by an operator");
    let old_path = directory.drive_path(&directory.file.drive[place]);
    Ok(Attempt::Done(BayReport { drive: place, path: None, old_path, served: true }))
}

/// Puts an empty drive into a place of a served cache.
///
/// # Errors
/// When it may not be, or the drive cannot be made.
pub fn put_in(
    directory: &mut CacheDirectory,
    volume: &mut CacheVolume,
    place: usize,
    hosting: &Hosting,
) -> Result<Attempt<BayReport>> {
    let drives = volume.drives_mut();
    // Like the one before it, or any other.
    let places = (0..drives.len()).filter(|other| *other == place).chain(0..drives.len());
    let geometry = places.filter_map(|other| drives.geometry(DriveIndex::at(other))).next().copied();
    let geometry = geometry.context("no drive is there to make one like")?;
    match volume.may_join(place, &geometry) {
        Ok(()) => {}
        Err(BayRefusal::Busy) => return Ok(Attempt::Busy),
        Err(refusal) => return Err(refused(place, refusal)),
    }
    let (drive, entry) = make(directory, place, geometry)?;
    let (path, uuid) = (directory.drive_path(&entry), *entry.uuid.as_bytes());
    let hosted = hosting.host(AnyDrive::Emulated(Box::new(drive)), place as u64);
    let device = hosted.inspect_err(|_| drop(std::fs::remove_file(&path)))?.device;
    let old = name(directory, place, entry)?;
    volume.join(place, device, uuid);
    log::info!("drive {place} joins: {}", path.display());
    let old_path = directory.drive_path(&old);
    Ok(Attempt::Done(BayReport { drive: place, path: Some(path), old_path, served: true }))
}

/// Records that a drive which cannot be opened is left out, and names an empty one in its place.
fn replace_offline(mut directory: CacheDirectory, bay: &CacheBay) -> Result<BayReport> {
    let (place, count) = (bay.drive, directory.file.drive.len());
    let Some(old) = directory.file.drive.get(place) else {
        return Err(refused(place, BayRefusal::NoPlace { drives: count }));
    };
    let (old_path, dir) = (directory.drive_path(old), bay.dir.display());
    if EmulatedDrive::open(&old_path).is_ok() {
        return Err(Exit::Failed.error(format!(
            "drive {place}: {} can be opened; serve the cache, and take the drive out if it is to go \
             (`zoneweave cache drive fail {dir} {place}`)",
            old_path.display()
        )));
    }
    let mut open = drives::open(&directory, None)?;
    open.devices[place] = None;
    let geometry = open.devices.iter().flatten().next().map(|device| *device.geometry());
    let geometry = geometry.context("no drive is there to make one like")?;
    let mounted = cache::mount_whole(DriveSet::new(open.devices), Instant(0), wall());
    drop(mounted.map_err(|error| Exit::Failed.error(format!("{dir}: {error}")))?);
    let (_, entry) = make(&directory, place, geometry)?;
    let path = directory.drive_path(&entry);
    name(&mut directory, place, entry)?;
    Ok(BayReport { drive: place, path: Some(path), old_path, served: false })
}

/// Makes an empty drive beside the others.
fn make(directory: &CacheDirectory, place: usize, geometry: Geometry) -> Result<(EmulatedDrive, CacheDrive)> {
    let path = new_name(&directory.path, &format!("drive-{place}"));
    let entry = CacheDrive { path, uuid: uuid::Uuid::new_v4() };
    let path = directory.drive_path(&entry);
    drive::emulated::create(&path, &CreateOptions::new(geometry, *entry.uuid.as_bytes()))?;
    let drive = EmulatedDrive::open(&path).inspect_err(|_| drop(std::fs::remove_file(&path)))?;
    Ok((drive, entry))
}

/// Names a drive in `cache.toml`, in the place of another one.
fn name(directory: &mut CacheDirectory, place: usize, entry: CacheDrive) -> Result<CacheDrive> {
    let path = directory.drive_path(&entry);
    let old = std::mem::replace(&mut directory.file.drive[place], entry);
    if let Err(error) = directory.save() {
        directory.file.drive[place] = old;
        drop(std::fs::remove_file(path));
        return Err(error);
    }
    Ok(old)
}
