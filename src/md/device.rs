//! Closed members: files and block devices, opened for reading only.

use crate::exit::Exit;
use anyhow::{Context, Result};
use block::md::{Media, ReadFailed, SECTOR_BYTES_U64};
use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opening must not wait: for the other end of a pipe, or for a medium.
const NONBLOCK: i32 = 0o4000;

/// Member that is open for reading.
#[derive(Debug)]
pub struct Device {
    file: File,
    sectors: u64,
}

impl Device {
    /// Opens a file or a block device.
    pub fn open(path: &Path) -> Result<Device> {
        let opened = File::options().read(true).custom_flags(NONBLOCK).open(path);
        let mut file = opened.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Exit::Absent.error(format!("cannot open {}: {error}", path.display())),
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
