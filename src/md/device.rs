//! Closed members: files and block devices, opened for reading, or by nobody else for writing.

use crate::exit::Exit;
use anyhow::{Context, Result};
use block::md::{Media, ReadFailed, SECTOR_BYTES_U64};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opening must not wait: for the other end of a pipe, or for a medium.
const NONBLOCK: i32 = 0o4000;
/// Opening a block device that the kernel uses must fail.
const EXCLUSIVE: i32 = 0o200;

/// Member that is open.
#[derive(Debug)]
pub struct Device {
    file: File,
    sectors: u64,
}

impl Device {
    /// Opens a file or a block device for reading.
    pub fn open(path: &Path) -> Result<Device> {
        Device::opened(path, File::options().read(true).custom_flags(NONBLOCK))
    }

    /// Opens a file or a block device that nobody else uses, and keeps others from it while it is open.
    pub fn open_to_write(path: &Path) -> Result<Device> {
        let is_block = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device());
        // The kernel refuses what is mounted, a member of md or held by device mapper; of files this flag says nothing.
        let exclusive = if is_block { EXCLUSIVE } else { 0 };
        let device =
            Device::opened(path, File::options().read(true).write(true).custom_flags(NONBLOCK | exclusive))?;
        let in_use = |why: &str| Exit::Busy.error(format!("{} is in use: {why}", path.display()));
        device.file.try_lock().map_err(|_| in_use("another program has locked it, or it is given twice"))?;
        if let Some(device) = loop_over(path) {
            return Err(in_use(&format!("it is the file behind {device}")));
        }
        Ok(device)
    }

    /// Writes bytes at a sector.
    pub fn write(&self, sector: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.file.write_all_at(bytes, sector.saturating_mul(SECTOR_BYTES_U64))
    }

    /// Waits until what was written is durable.
    pub fn sync(&self) -> std::io::Result<()> {
        self.file.sync_all()
    }

    fn opened(path: &Path, options: &OpenOptions) -> Result<Device> {
        let opened = options.open(path);
        let mut file = opened.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Exit::Absent.error(format!("cannot open {}: {error}", path.display())),
            ErrorKind::ResourceBusy => Exit::Busy.error(format!("{} is in use: {error}", path.display())),
            _ => Exit::Failed.error(format!("cannot open {}: {error}", path.display())),
        })?;
        let kind = file.metadata().with_context(|| path.display().to_string())?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(Exit::Usage.error(format!("{} is neither a file nor a block device", path.display())));
        }
        // Of a block device the metadata have no size.
        let bytes = file.seek(SeekFrom::End(0)).with_context(|| path.display().to_string())?;
        Ok(Device { file, sectors: bytes / SECTOR_BYTES_U64 })
    }
}

/// Loop device over a file.
fn loop_over(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mut devices = std::fs::read_dir("/sys/block").ok()?.filter_map(std::result::Result::ok);
    let found = devices.find(|device| {
        let backing = std::fs::read_to_string(device.path().join("loop/backing_file"));
        backing.is_ok_and(|backing| Path::new(backing.trim_end()) == path)
    })?;
    Some(format!("/dev/{}", found.file_name().display()))
}

impl Media for Device {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn read(&self, sector: u64, into: &mut [u8]) -> std::result::Result<(), ReadFailed> {
        let failed = |reason: String| ReadFailed { sector, reason };
        let start = sector.checked_mul(SECTOR_BYTES_U64).filter(|_| sector < self.sectors);
        let start = start.ok_or_else(|| failed("beyond the end of the device".to_owned()))?;
        self.file.read_exact_at(into, start).map_err(|error| failed(error.to_string()))
    }
}
