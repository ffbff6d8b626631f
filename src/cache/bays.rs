//! `zoneweave cache drive fail`, `replace`, `add` and `remove`: drives of a cache are taken out and put in.
//!
//! `cache.toml` names the new drive before superblocks do: a crash between the two leaves a blank drive in the place, which
//! joins when the cache is served the next time.

use super::directory::{CacheDirectory, CacheDrive};
use super::memory;
use super::offline::Offline;
use super::options::{CacheBay, CacheDriveCommand, CacheReplace};
use crate::exit::Exit;
use crate::force::Force;
use crate::hosting::Hosting;
use crate::raw;
use crate::replace::{Attempt, ask_at_until_done, new_name};
use anyhow::{Context, Result};
use cache::MemoryShort;
use cache::shard::BayRefusal;
use cache::volumes::Volumes;
use drive::any::{AnyDrive, Peek};
use drive::emulated::{CreateOptions, Pace};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use zone::device::{Geometry, ZonedDevice};

const LIKE_NONE: &str = "no drive is there to make one like";

/// Report of a drive that was added, replaced or removed, as a JSON object.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct BayReport {
    /// The drive's number.
    pub drive: usize,
    /// File of the new drive; none when one was only taken out.
    pub path: Option<PathBuf>,
    /// File of the old one, which nobody needs any more; none when there was none.
    pub old_path: Option<PathBuf>,
    /// A server did it.
    pub served: bool,
    /// Part of the objects on the drives for which the index has room until the next start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_share: Option<f64>,
    /// `--memory` that the next start needs; none where the default does, or a server has judged that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_needed: Option<String>,
}

/// Options of a drive that is to be made.
#[derive(Debug, Default)]
pub struct Said {
    /// Path; `None` for a file beside the others.
    path: Option<PathBuf>,
    /// Losses that are allowed there.
    force: Force,
}

impl Said {
    fn of(command: &CacheDriveCommand) -> Result<Said> {
        let (path, force) = match command {
            CacheDriveCommand::Add(options) => (&options.path, &options.force),
            CacheDriveCommand::Replace(options) => (&options.with, &options.force),
            CacheDriveCommand::Fail(_) | CacheDriveCommand::Remove(_) => return Ok(Said::default()),
        };
        Ok(Said { path: path.as_deref().map(raw::absolute).transpose()?, force: Force::of(force) })
    }

    /// Reads it out of a question to a server.
    ///
    /// # Errors
    /// When it makes no sense.
    pub fn parse(words: &str) -> Result<Said> {
        let (force, path) = Force::take(words)?;
        Ok(Said { path: Some(path).filter(|path| !path.is_empty()).map(PathBuf::from), force })
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.force)?;
        self.path.iter().try_for_each(|path| write!(f, "{}", path.display()))
    }
}

/// A drive that is in no cache yet.
struct Newcomer {
    entry: CacheDrive,
    drive: AnyDrive,
    /// File that was made for it.
    made: Option<PathBuf>,
}

impl Newcomer {
    /// Makes an empty drive like the others: of a device, or in a new file.
    fn make(directory: &CacheDirectory, place: usize, said: &Said, geometry: &Geometry) -> Result<Newcomer> {
        let path = match &said.path {
            Some(path) => path.clone(),
            None => new_name(&directory.path, &format!("drive-{place}")),
        };
        let device = raw::device_of(&path);
        let is_device = device.is_some();
        let path = device.unwrap_or(path);
        let (full, uuid) = (directory.path.join(&path), *uuid::Uuid::new_v4().as_bytes());
        let mut made = None;
        if is_device {
            expect_no_part(directory, place, &full)?;
            raw::expect_free(&full, &said.force, Some(directory.file.uuid))?;
            raw::format_like(&full, None, geometry, uuid)?;
        } else if full.exists() {
            let full = full.display();
            return Err(Exit::Failed.error(format!(
                "{full}: is there already; a drive is made in a new file: remove this one, name another, or say raw:{full} to use \
                 it as a device"
            )));
        } else {
            drive::emulated::create(&full, &CreateOptions::new(*geometry, uuid))?;
            made = Some(full.clone());
        }
        let undo = |_: &_| made.iter().for_each(|path| drop(std::fs::remove_file(path)));
        let drive = AnyDrive::open(&full).inspect_err(undo)?;
        let uuid = uuid::Uuid::from_bytes(drive.uuid());
        Ok(Newcomer { entry: CacheDrive { path, uuid }, drive, made })
    }

    /// Names the drive in `cache.toml`, in the place of another one, which is returned with the device.
    fn settle(
        self,
        directory: &mut CacheDirectory,
        place: usize,
        hosting: Option<&Hosting>,
    ) -> Result<(CacheDrive, Box<dyn ZonedDevice>)> {
        let Newcomer { entry, drive, made } = self;
        let device = match hosting {
            Some(hosting) => hosting.host(drive, place as u64).map(|hosted| {
                hosted.pace.iter().for_each(Pace::start);
                hosted.device
            }),
            None => Ok(drive.into_device()),
        };
        let named = device.and_then(|device| {
            let old = std::mem::replace(&mut directory.file.drive[place], entry);
            match directory.save() {
                Ok(()) => Ok((old, device)),
                Err(error) => {
                    directory.file.drive[place] = old;
                    Err(error)
                }
            }
        });
        named.inspect_err(|_| made.iter().for_each(|path| drop(std::fs::remove_file(path))))
    }
}

/// Refuses a drive of the cache itself, but the one whose place is given to another.
fn expect_no_part(directory: &CacheDirectory, place: usize, path: &Path) -> Result<()> {
    let Ok(found) = Peek::open(path) else { return Ok(()) };
    let is_it =
        |(other, drive): (usize, &CacheDrive)| other != place && drive.uuid.into_bytes() == found.uuid();
    match directory.file.drive.iter().enumerate().any(is_it) {
        true => Err(Exit::Failed.error(format!("{}: is part of the cache already", path.display()))),
        false => Ok(()),
    }
}

/// Runs a command.
pub fn run(command: &CacheDriveCommand) -> Result<Exit> {
    let (dir, is_json) = match command {
        CacheDriveCommand::Fail(bay)
        | CacheDriveCommand::Replace(CacheReplace { bay, .. })
        | CacheDriveCommand::Remove(bay) => (&bay.dir, bay.json),
        CacheDriveCommand::Add(options) => (&options.dir, options.json),
    };
    let mut directory = CacheDirectory::open(dir)?;
    let said = Said::of(command)?;
    let line = match command {
        CacheDriveCommand::Fail(bay) => format!("fail {}", bay.drive),
        CacheDriveCommand::Replace(CacheReplace { bay, .. }) => format!("replace {} {said}", bay.drive),
        CacheDriveCommand::Remove(bay) => format!("remove {}", bay.drive),
        CacheDriveCommand::Add(_) => format!("add {said}"),
    };
    let report = match (ask_at_until_done(&directory.control_path(), "cache", line.trim_end())?, command) {
        (Some(report), _) => report,
        (None, CacheDriveCommand::Replace(CacheReplace { bay, .. })) => {
            replace_offline(directory, bay, &said)?
        }
        (None, CacheDriveCommand::Add(_)) => {
            let mut offline = Offline::mount(&directory)?;
            offline.settle(|volumes| add(&mut directory, volumes, &said, None))?
        }
        (None, CacheDriveCommand::Remove(bay)) => {
            let mut offline = Offline::mount(&directory)?;
            let report = offline.settle(|volumes| remove(&mut directory, volumes, bay.drive))?;
            BayReport { served: false, ..report }
        }
        (None, CacheDriveCommand::Fail(_)) => {
            let dir = dir.display();
            return Err(Exit::Absent.error(format!(
                "{dir}: nobody serves the cache; a drive that cannot be opened is left out when it is served, and \
                 `zoneweave cache drive replace` puts another in its place"
            )));
        }
    };
    if is_json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(command, dir, report);
    }
    Ok(Exit::Well)
}

fn print(command: &CacheDriveCommand, dir: &Path, report: BayReport) {
    let BayReport { drive, path, old_path, served, index_share, memory_needed } = report;
    let old_path = old_path.unwrap_or_default();
    let old_path = old_path.display();
    match (command, path) {
        (CacheDriveCommand::Add(_), Some(path)) => {
            println!("drive {drive} is {}; it is filled by use", path.display());
        }
        (CacheDriveCommand::Remove(_), _) => println!(
            "drive {drive} is removed; what it held is forgotten, nobody needs {old_path} any more, and its number is free"
        ),
        (_, Some(path)) => {
            println!("drive {drive} is now {}; {old_path} is no longer part of the cache", path.display());
            if !served {
                println!("it joins, empty, with the next `zoneweave cache serve {}`", dir.display());
            }
        }
        (_, None) => println!(
            "drive {drive} is taken out; what it held is forgotten, and {old_path} is not written any more"
        ),
    }
    if let Some(share) = index_share {
        println!(
            "the index was made for fewer drives: until the cache is served anew it names {:.0} % of the objects that they hold",
            share * 100.0
        );
    }
    if let Some(memory) = memory_needed {
        let dir = dir.display();
        println!(
            "its index needs `zoneweave cache serve {dir} --memory {memory}`, or a larger --object-mean"
        );
    }
}

fn refused(place: usize, refusal: BayRefusal) -> anyhow::Error {
    if let BayRefusal::Memory(MemoryShort { needed, enough, .. }) = refusal {
        let memory = memory::for_engine(needed);
        return Exit::Failed.error(format!(
            "drive {place}: the index for one drive more needs --memory {memory} at this --object-mean: serve the cache with \
             that, or with --object-mean {enough} if objects are that large"
        ));
    }
    let exit = if let BayRefusal::NoPlace { .. } = refusal { Exit::Usage } else { Exit::Failed };
    exit.error(format!("drive {place}: {refusal}"))
}

/// Refuses a place whose drive was removed: it holds nothing.
fn refuse_free(directory: &CacheDirectory, place: usize) -> Result<()> {
    if directory.file.drive.get(place).is_some_and(CacheDrive::is_free) {
        let dir = directory.path.display();
        return Err(Exit::Failed.error(format!(
            "drive {place}: it was removed, and its number is free; `zoneweave cache drive add {dir}` makes one"
        )));
    }
    Ok(())
}

/// Takes a drive of a served cache out.
///
/// # Errors
/// When it may not be.
pub fn take_out(
    directory: &CacheDirectory,
    volumes: &mut Volumes<'_>,
    place: usize,
) -> Result<Attempt<BayReport>> {
    refuse_free(directory, place)?;
    match volumes.take_out(place) {
        Ok(()) => {}
        Err(BayRefusal::Busy) => return Ok(Attempt::Busy),
        Err(refusal) => return Err(refused(place, refusal)),
    }
    log::warn!("drive {place} was taken out by an operator");
    let old_path = Some(directory.drive_path(&directory.file.drive[place]));
    Ok(Attempt::Done(BayReport { drive: place, old_path, served: true, ..BayReport::default() }))
}

/// Removes a drive: it is taken out if it is there, and once superblocks say so its place is free. A crash before that leaves a drive
/// that begins empty with the next mount.
///
/// # Errors
/// When it may not be.
pub fn remove(
    directory: &mut CacheDirectory,
    volumes: &mut Volumes<'_>,
    place: usize,
) -> Result<Attempt<BayReport>> {
    refuse_free(directory, place)?;
    let drives = directory.file.drive.len();
    let entry =
        directory.file.drive.get(place).ok_or_else(|| refused(place, BayRefusal::NoPlace { drives }))?;
    match volumes.take_out(place) {
        Ok(()) => {
            log::warn!("drive {place} was taken out by an operator, to be removed");
            return Ok(Attempt::Busy);
        }
        Err(BayRefusal::Busy) => return Ok(Attempt::Busy),
        Err(BayRefusal::Failed) if volumes.is_frozen() => return Err(refused(place, BayRefusal::Frozen)),
        Err(BayRefusal::Failed) if !volumes.has_recorded() => return Ok(Attempt::Busy),
        Err(BayRefusal::Failed) => {}
        Err(refusal) => return Err(refused(place, refusal)),
    }
    let old_path = Some(directory.drive_path(entry));
    let old = std::mem::take(&mut directory.file.drive[place]);
    directory.save().inspect_err(|_| directory.file.drive[place] = old)?;
    log::info!("drive {place} is removed");
    Ok(Attempt::Done(BayReport { drive: place, old_path, served: true, ..BayReport::default() }))
}

/// Adds an empty drive: in the place of one that was removed, or behind the others.
///
/// # Errors
/// When there may be none, or it cannot be made.
pub fn add(
    directory: &mut CacheDirectory,
    volumes: &mut Volumes<'_>,
    said: &Said,
    hosting: Option<&Hosting>,
) -> Result<Attempt<BayReport>> {
    let geometry = volumes.geometry_like(0).context(LIKE_NONE)?;
    let free = (0..).zip(&directory.file.drive).find(|(_, drive)| drive.is_free()).map(|(place, _)| place);
    let judged = match free {
        Some(place) => volumes.may_join(place, &geometry),
        None => volumes.may_grow(&geometry),
    };
    let place = free.unwrap_or(directory.file.drive.len());
    match judged {
        Ok(()) => {}
        Err(BayRefusal::Busy) => return Ok(Attempt::Busy),
        Err(refusal) => return Err(refused(place, refusal)),
    }
    let newcomer = Newcomer::make(directory, place, said, &geometry)?;
    let uuid = *newcomer.entry.uuid.as_bytes();
    if free.is_none() {
        directory.file.drive.push(CacheDrive::default());
    }
    let settled = newcomer.settle(directory, place, hosting);
    if settled.is_err() && free.is_none() {
        directory.file.drive.pop();
    }
    let (_, device) = settled?;
    if free.is_none() {
        assert!(volumes.grow(&geometry) == place, "places are numbered alike");
    }
    volumes.join(place, device, uuid);
    let path = directory.drive_path(&directory.file.drive[place]);
    log::info!("drive {place} joins: {}", path.display());
    let index_share = Some(volumes.index_share()).filter(|share| *share < 1.0 && hosting.is_some());
    let served = hosting.is_some();
    // Who serves it next, and with what, only the operator knows.
    let memory_needed =
        (!served).then(|| memory::beyond_default(volumes.flash_bytes(), volumes.shards())).flatten();
    let path = Some(path);
    Ok(Attempt::Done(BayReport { drive: place, path, old_path: None, served, index_share, memory_needed }))
}

/// Puts an empty drive into a place of a served cache.
///
/// # Errors
/// When it may not be, or the drive cannot be made.
pub fn put_in(
    directory: &mut CacheDirectory,
    volumes: &mut Volumes<'_>,
    (place, said): (usize, &Said),
    hosting: &Hosting,
) -> Result<Attempt<BayReport>> {
    refuse_free(directory, place)?;
    let geometry = volumes.geometry_like(place).context(LIKE_NONE)?;
    match volumes.may_join(place, &geometry) {
        Ok(()) => {}
        Err(BayRefusal::Busy) => return Ok(Attempt::Busy),
        Err(refusal) => return Err(refused(place, refusal)),
    }
    expect_named(directory, place, said)?;
    let newcomer = Newcomer::make(directory, place, said, &geometry)?;
    let uuid = *newcomer.entry.uuid.as_bytes();
    let (old, device) = newcomer.settle(directory, place, Some(hosting))?;
    volumes.join(place, device, uuid);
    let path = directory.drive_path(&directory.file.drive[place]);
    log::info!("drive {place} joins: {}", path.display());
    let old_path = Some(directory.drive_path(&old));
    Ok(Attempt::Done(BayReport {
        drive: place,
        path: Some(path),
        old_path,
        served: true,
        ..BayReport::default()
    }))
}

/// A device is not replaced by a file beside `cache.toml`, unless somebody wants that.
fn expect_named(directory: &CacheDirectory, place: usize, said: &Said) -> Result<()> {
    let was_device = directory.file.drive[place].path.is_absolute();
    match was_device && said.path.is_none() {
        true => {
            let path = directory.file.drive[place].path.display();
            Err(Exit::Usage.error(format!("drive {place} was {path}: name another one, --with PATH")))
        }
        false => Ok(()),
    }
}

/// Records that a drive which cannot be opened is left out, and names an empty one in its place.
fn replace_offline(mut directory: CacheDirectory, bay: &CacheBay, said: &Said) -> Result<BayReport> {
    let (place, count) = (bay.drive, directory.file.drive.len());
    let Some(old) = directory.file.drive.get(place).filter(|old| !old.is_free()) else {
        return Err(refused(place, BayRefusal::NoPlace { drives: count }));
    };
    let (old_path, dir) = (directory.drive_path(old), bay.dir.display());
    expect_named(&directory, place, said)?;
    if AnyDrive::open_as(&old_path, *old.uuid.as_bytes()).is_ok() {
        return Err(Exit::Failed.error(format!(
            "drive {place}: {} can be opened; serve the cache, and take the drive out if it is to go \
             (`zoneweave cache drive fail {dir} {place}`)",
            old_path.display()
        )));
    }
    let mut offline = Offline::mount_without(&directory, Some(place))?;
    let geometry = offline.volumes().geometry_like(place).context(LIKE_NONE)?;
    drop(offline);
    let newcomer = Newcomer::make(&directory, place, said, &geometry)?;
    drop(newcomer.settle(&mut directory, place, None)?);
    let path = directory.drive_path(&directory.file.drive[place]);
    Ok(BayReport { drive: place, path: Some(path), old_path: Some(old_path), ..BayReport::default() })
}
