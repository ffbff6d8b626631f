//! Opening of a cache's drives.

use super::directory::{CacheDirectory, CacheDrive};
use crate::candidates;
use crate::exit::Exit;
use crate::hosting::Hosting;
use crate::lack;
use crate::patience::Patience;
use crate::sighting::{self, Sighting};
use anyhow::{Context, Result};
use drive::any::{AnyDrive, Peek};
use drive::emulated::{DriveProblem, Pace};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use zone::device::{Geometry, ZonedDevice};

/// Drives in order, none where one is missing.
pub struct CacheDrives {
    /// The drives.
    pub devices: Vec<Option<Box<dyn ZonedDevice>>>,
    /// Readable when one of them has something to say.
    pub wake_fds: Vec<OwnedFd>,
    /// Clocks of drives that take the time of a profile.
    pub paces: Vec<Pace>,
}

impl CacheDrives {
    /// Geometries of the slices that each of so many shards has.
    pub fn slices(&self, shards: usize) -> Vec<Option<Geometry>> {
        let slice = |whole: Geometry| whole.slice(shards);
        self.geometries().into_iter().map(|whole| whole.map(slice)).collect()
    }

    /// Geometries of all places.
    pub fn geometries(&self) -> Vec<Option<Geometry>> {
        self.devices.iter().map(|device| device.as_ref().map(|device| *device.geometry())).collect()
    }
}

/// Bytes of all places together, for which the index of a shard with these slices is made.
///
/// # Errors
/// When a shard cannot be made of them.
pub fn flash_bytes(slices: &[Option<Geometry>]) -> Result<u64> {
    cache::flash_of(slices).map_err(|error| Exit::Failed.error(error))
}

/// Opens all drives; one that cannot be had is left out, one in use is an error.
pub fn open(directory: &CacheDirectory, hosting: Option<&Hosting>) -> Result<CacheDrives> {
    let patience = Patience::begin();
    let mut search = Search { directory, seen: None };
    let mut open = CacheDrives { devices: Vec::new(), wake_fds: Vec::new(), paces: Vec::new() };
    for (index, entry) in directory.file.drive.iter().enumerate() {
        let drive = match entry.is_free() {
            true => None,
            false => open_one(directory, (index, entry), patience, &mut search)?,
        };
        let device = match (drive, hosting) {
            (None, _) => None,
            (Some(drive), None) => Some(drive.into_device()),
            (Some(drive), Some(hosting)) => {
                let hosted = hosting.host(drive, index as u64)?;
                open.wake_fds.extend(hosted.wake_fd);
                open.paces.extend(hosted.pace);
                Some(hosted.device)
            }
        };
        open.devices.push(device);
    }
    if open.devices.iter().all(Option::is_none) {
        let dir = directory.path.display();
        return Err(Exit::Failed.error(format!("{dir}: none of the drives that cache.toml names can be had")));
    }
    Ok(open)
}

/// Opens a drive where `cache.toml` has it, or where it is now; none where it cannot be had.
fn open_one(
    directory: &CacheDirectory,
    (index, entry): (usize, &CacheDrive),
    patience: Patience,
    search: &mut Search<'_>,
) -> Result<Option<AnyDrive>> {
    let is_in_use = |problem: &DriveProblem| matches!(problem, DriveProblem::InUse | DriveProblem::Held(_));
    let uuid = *entry.uuid.as_bytes();
    let mut path = directory.drive_path(entry);
    // It is looked at before it is opened: another drive of this cache that is there now may be open already.
    let is_elsewhere = match Peek::open(&path) {
        Ok(peek) => peek.uuid() != uuid,
        Err(error) => matches!(error.problem, DriveProblem::NotFound),
    };
    if is_elsewhere && let Some(moved) = search.find(entry) {
        log::info!("drive {index} is not {} any more, but {}", path.display(), moved.display());
        path = moved;
    }
    let opened = patience.open(|| AnyDrive::open_as(&path, uuid), |error| is_in_use(&error.problem));
    match opened {
        Ok(drive) => Ok(Some(drive)),
        Err(error) if is_in_use(&error.problem) => {
            Err(Exit::Busy.because(error)).with_context(|| format!("drive {index}"))
        }
        Err(error) if lack::is_of_host(&error) => Err(lack::error(error)),
        Err(error) => {
            log::warn!("drive {index} is left out: {error}");
            Ok(None)
        }
    }
}

/// Drives that are looked for by their identities, when the first one is not where it was.
struct Search<'a> {
    directory: &'a CacheDirectory,
    seen: Option<Vec<Sighting>>,
}

/// Folders of drives in files, or of those that were.
fn folders(directory: &CacheDirectory) -> BTreeSet<PathBuf> {
    let drives = directory.file.drive.iter().filter(|drive| !drive.is_free());
    drives.filter_map(|drive| Some(directory.drive_path(drive).parent()?.to_owned())).collect()
}

impl Search<'_> {
    /// Path of a drive now; `None` when nobody sees it, or two places say that they are it.
    fn find(&mut self, entry: &CacheDrive) -> Option<PathBuf> {
        let seen = self.seen.get_or_insert_with(|| {
            let mut seen = candidates::on_devices();
            sighting::add_in_folders(folders(self.directory), &mut seen);
            seen
        });
        let mut found = seen.iter().filter(|sighting| sighting.uuid == entry.uuid);
        found.next().filter(|_| found.next().is_none()).map(|sighting| sighting.path.clone())
    }
}
