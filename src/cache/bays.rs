//! `zoneweave cache drive fail` and `replace`: drives of a cache are taken out and put in.
//!
//! `cache.toml` names the new drive before superblocks do: a crash between the two leaves a blank drive in the place, which
//! joins when the cache is served the next time.

use super::directory::{CacheDirectory, CacheDrive};
use super::drives;
use super::options::{CacheBay, CacheDriveCommand};
use crate::exit::Exit;
use crate::hosting::Hosting;
use crate::status;
use anyhow::{Context, Result};
use base::time::Instant;
use base::units::DriveIndex;
use cache::request::WallMillis;
use cache::shard::BayRefusal;
use cache::{CacheVolume, Options};
use drive::any::AnyDrive;
use drive::emulated::{CreateOptions, EmulatedDrive};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use zone::device::Geometry;
use zone::drives::DriveSet;

/// Time between two questions to a server that is recording a change, and the most of them.
const ASK_AGAIN_EVERY: Duration = Duration::from_millis(50);
const ASK_AGAIN_MAX: u32 = 200;

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
    let report = match (ask_until_done(&directory, &format!("{word} {}", bay.drive))?, command) {
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

/// Asks the server, again while it is busy; `None` when there is none.
fn ask_until_done(directory: &CacheDirectory, line: &str) -> Result<Option<BayReport>> {
    for _ in 0..ASK_AGAIN_MAX {
        let asked = status::ask_at(&directory.control_path(), line);
        match asked {
            Ok(None) => return Ok(None),
            Ok(Some(answer)) => {
                return serde_json::from_str(&answer).context("the server's answer").map(Some);
            }
            Err(error) if Exit::of(&error) == Exit::Busy => std::thread::sleep(ASK_AGAIN_EVERY),
            Err(error) => return Err(error),
        }
    }
    Err(Exit::Busy
        .error(format!("`{line}`: the cache is still recording what changed before; try again later")))
}

fn refused(place: usize, refusal: BayRefusal) -> anyhow::Error {
    let exit = match refusal {
        BayRefusal::NoPlace { .. } => Exit::Usage,
        BayRefusal::Busy => Exit::Busy,
        _ => Exit::Failed,
    };
    exit.error(format!("drive {place}: {refusal}"))
}

/// Takes a drive of a served cache out.
///
/// # Errors
/// When it may not be: [`Exit::Busy`] when it may in a moment.
pub fn take_out(directory: &CacheDirectory, volume: &mut CacheVolume, place: usize) -> Result<BayReport> {
    volume.take_out(place).map_err(|refusal| refused(place, refusal))?;
    log::warn!("drive {place} was taken out by an operator");
    let old_path = directory.drive_path(&directory.file.drive[place]);
    Ok(BayReport { drive: place, path: None, old_path, served: true })
}

/// Puts an empty drive into a place of a served cache.
///
/// # Errors
/// When it may not be, or there is no room for the drive: [`Exit::Busy`] when it may in a moment.
pub fn put_in(
    directory: &mut CacheDirectory,
    volume: &mut CacheVolume,
    place: usize,
    hosting: &Hosting,
) -> Result<BayReport> {
    let drives = volume.drives_mut();
    let there = (0..drives.len()).filter_map(|other| drives.geometry(DriveIndex::at(other)).copied());
    let alike = place.min(drives.len() - 1);
    let geometry = drives.geometry(DriveIndex::at(alike)).copied().or(there.into_iter().next());
    let geometry = geometry.context("no drive is there to make one like")?;
    volume.may_join(place, &geometry).map_err(|refusal| refused(place, refusal))?;
    let (drive, entry) = make(directory, place, geometry)?;
    let (path, uuid) = (directory.drive_path(&entry), *entry.uuid.as_bytes());
    let hosted = hosting.host(AnyDrive::Emulated(Box::new(drive)), place as u64);
    let device = hosted.inspect_err(|_| drop(std::fs::remove_file(&path)))?.device;
    let old = name(directory, place, entry)?;
    volume.join(place, device, uuid);
    log::info!("drive {place} joins: {}", path.display());
    Ok(BayReport { drive: place, path: Some(path), old_path: directory.drive_path(&old), served: true })
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
    let mounted = cache::mount(DriveSet::new(open.devices), Instant(0), WallMillis(0), Options::default());
    drop(mounted.map_err(|error| Exit::Failed.error(format!("{dir}: {error}")))?);
    let (_, entry) = make(&directory, place, geometry)?;
    let path = directory.drive_path(&entry);
    name(&mut directory, place, entry)?;
    Ok(BayReport { drive: place, path: Some(path), old_path, served: false })
}

/// Makes an empty drive beside the others.
fn make(directory: &CacheDirectory, place: usize, geometry: Geometry) -> Result<(EmulatedDrive, CacheDrive)> {
    let names = (1_u64..).map(|count| PathBuf::from(format!("drive-{place}-{count}.zns")));
    let mut free = names.filter(|name| !directory.path.join(name).exists());
    let entry = CacheDrive { path: free.next().expect("names do not run out"), uuid: uuid::Uuid::new_v4() };
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
