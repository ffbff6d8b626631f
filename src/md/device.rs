//! Members as files and block devices, for commands.

use crate::exit::Exit;
use anyhow::{Context, Result};
use block::md::{Media, ReadFailed, SECTOR_BYTES_U64};
use drive::ordinary::OrdinaryDrive;
use drive::ordinary::open::{OpenError, OpenProblem, Opened};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Member that is open.
#[derive(Debug)]
pub struct Device(Opened);

impl Device {
    /// Opens a file or a block device for reading.
    pub fn open(path: &Path) -> Result<Device> {
        Opened::to_read(path).map(Device).map_err(with_exit)
    }

    /// Opens a file or a block device that nobody else uses, and keeps others from it while it is open.
    pub fn open_to_write(path: &Path) -> Result<Device> {
        Opened::to_write(path).map(Device).map_err(with_exit)
    }

    /// Opens what nobody else uses for reading alone, and keeps others from it while it is open.
    pub fn open_to_read_alone(path: &Path) -> Result<Device> {
        Opened::to_read_alone(path).map(Device).map_err(with_exit)
    }

    /// Makes reads and writes go past the page cache, where the device allows it.
    pub fn make_direct(&mut self) -> std::io::Result<()> {
        self.0.make_direct()
    }

    /// The device as one that is served; completions make the descriptor readable.
    pub fn into_drive(self, descriptor: &OwnedFd) -> Result<OrdinaryDrive> {
        let drive = OrdinaryDrive::new(self.0, descriptor);
        drive.context("io_uring does not work here (Linux 6.0 or later is needed)")
    }

    /// Writes bytes at a sector.
    pub fn write(&self, sector: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.0.file().write_all_at(bytes, sector.saturating_mul(SECTOR_BYTES_U64))
    }

    /// Waits until what was written is durable.
    pub fn sync(&self) -> std::io::Result<()> {
        self.0.file().sync_all()
    }
}

fn with_exit(error: OpenError) -> anyhow::Error {
    let exit = match error.problem {
        OpenProblem::Absent(_) => Exit::Absent,
        OpenProblem::InUse(_) => Exit::Busy,
        OpenProblem::WrongKind | OpenProblem::NotPermitted(_) => Exit::Usage,
        OpenProblem::Io(_) => Exit::Failed,
    };
    exit.because(error)
}

impl Media for Device {
    fn sectors(&self) -> u64 {
        self.0.sectors()
    }

    fn read(&self, sector: u64, into: &mut [u8]) -> std::result::Result<(), ReadFailed> {
        let failed = |reason: String| ReadFailed { sector, reason };
        let start = sector.checked_mul(SECTOR_BYTES_U64).filter(|_| sector < self.0.sectors());
        let start = start.ok_or_else(|| failed("beyond the end of the device".to_owned()))?;
        self.0.file().read_exact_at(into, start).map_err(|error| failed(error.to_string()))
    }
}
