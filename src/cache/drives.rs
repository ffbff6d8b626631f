//! Opening of a cache's drives.

use super::directory::CacheDirectory;
use crate::exit::Exit;
use crate::hosting::Hosting;
use anyhow::{Context, Result};
use base::units::BLOCK_BYTES_U64;
use drive::emulated::{DriveProblem, EmulatedDrive};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use zone::device::{Geometry, ZonedDevice};

/// Longest wait for the drives of a server that was killed: the kernel closes its files a little later.
const IN_USE_LIMIT: Duration = Duration::from_secs(2);
const IN_USE_LOOK_EVERY: Duration = Duration::from_millis(20);

/// Drives in order, none where one is missing.
pub struct CacheDrives {
    /// The drives.
    pub devices: Vec<Option<Box<dyn ZonedDevice>>>,
    /// Readable when one of them has something to say.
    pub wake_fds: Vec<OwnedFd>,
    /// Bytes of a zone of the first drive that is there.
    pub zone_bytes: u64,
}

impl CacheDrives {
    /// Bytes of all places, for which the index is made.
    pub fn flash_bytes(&self) -> Result<u64> {
        cache::flash_of(&self.geometries()).map_err(|error| Exit::Failed.error(error))
    }

    /// Geometries of all places.
    pub fn geometries(&self) -> Vec<Option<Geometry>> {
        self.devices.iter().map(|device| device.as_ref().map(|device| *device.geometry())).collect()
    }
}

/// Opens all drives; one that cannot be had is left out, one in use is an error.
pub fn open(directory: &CacheDirectory, hosting: Option<&Hosting>) -> Result<CacheDrives> {
    let patience_ends = Instant::now() + IN_USE_LIMIT;
    let mut open = CacheDrives { devices: Vec::new(), wake_fds: Vec::new(), zone_bytes: 0 };
    for (index, entry) in directory.file.drive.iter().enumerate() {
        if entry.is_free() {
            open.devices.push(None);
            continue;
        }
        let path = directory.drive_path(entry);
        let drive = loop {
            match EmulatedDrive::open(&path) {
                Ok(drive) => break Some(drive),
                Err(error) if matches!(error.problem, DriveProblem::InUse) => {
                    if Instant::now() >= patience_ends {
                        return Err(Exit::Busy.because(error)).with_context(|| format!("drive {index}"));
                    }
                    std::thread::sleep(IN_USE_LOOK_EVERY);
                }
                Err(error) => {
                    log::warn!("drive {index} is left out: {error}");
                    break None;
                }
            }
        };
        if let Some(drive) = &drive {
            open.zone_bytes = u64::from(drive.geometry().zone_capacity_blocks) * BLOCK_BYTES_U64;
        }
        let device = match (drive, hosting) {
            (None, _) => None,
            (Some(drive), None) => Some(Box::new(drive) as Box<dyn ZonedDevice>),
            (Some(drive), Some(hosting)) => {
                let hosted = hosting.host(drive::any::AnyDrive::Emulated(Box::new(drive)), index as u64)?;
                open.wake_fds.extend(hosted.wake_fd);
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
