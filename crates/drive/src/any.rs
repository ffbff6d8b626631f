//! A drive by its path, of whatever kind: the one place that knows which kinds there are.

use crate::conventional::device::{self, DeviceDrive, is_conventional};
use crate::conventional::{OpenError, Trouble};
use crate::emulated::{self, DriveError, DriveProblem, EmulatedDrive};
use base::xor::Block;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use zone::device::{Geometry, ZonedDevice};

/// A drive that is open.
#[derive(Debug)]
pub enum AnyDrive {
    /// An emulated drive in a file.
    Emulated(Box<EmulatedDrive>),
    /// A conventional drive: a device that is cut into zones.
    Conventional(Box<DeviceDrive>),
}

impl AnyDrive {
    /// Opens the drive at a path, for this process alone.
    ///
    /// # Errors
    /// When there is none that can be opened.
    pub fn open(path: &Path) -> Result<AnyDrive, DriveError> {
        if is_conventional(path) {
            return device::open_path(path).map(|drive| AnyDrive::Conventional(Box::new(drive)));
        }
        EmulatedDrive::open(path).map(|drive| AnyDrive::Emulated(Box::new(drive)))
    }

    /// Identity of the drive.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        match self {
            AnyDrive::Emulated(drive) => drive.uuid(),
            AnyDrive::Conventional(drive) => drive.drive.uuid(),
        }
    }

    /// The drive as it is, in the caller's thread.
    #[must_use]
    pub fn into_device(self) -> Box<dyn ZonedDevice> {
        match self {
            AnyDrive::Emulated(drive) => drive,
            AnyDrive::Conventional(drive) => Box::new(drive.drive),
        }
    }
}

/// A drive that is looked at without opening it; it may be in use.
#[derive(Debug)]
pub struct Peek {
    path: PathBuf,
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Emulated(emulated::Peek),
    Conventional(Box<device::Peek>),
}

impl Peek {
    /// Looks at the drive at a path.
    ///
    /// # Errors
    /// As for opening the drive, but that it may be in use.
    pub fn open(path: &Path) -> Result<Peek, DriveError> {
        let inner = match is_conventional(path) {
            true => Inner::Conventional(Box::new(device::Peek::open(path)?)),
            false => Inner::Emulated(emulated::Peek::open(path)?),
        };
        Ok(Peek { path: path.to_owned(), inner })
    }

    /// Identity of the drive.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        match &self.inner {
            Inner::Emulated(peek) => peek.uuid(),
            Inner::Conventional(peek) => peek.uuid(),
        }
    }

    /// Zones and limits of the drive.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        match &self.inner {
            Inner::Emulated(peek) => peek.geometry(),
            Inner::Conventional(peek) => peek.geometry(),
        }
    }

    /// Device and inode: the same under each name of the drive.
    #[must_use]
    pub fn file_id(&self) -> (u64, u64) {
        match &self.inner {
            Inner::Emulated(peek) => peek.file_id,
            Inner::Conventional(peek) => peek.file_id,
        }
    }

    /// Time at which the drive was last written, where that is known.
    #[must_use]
    pub fn modified(&self) -> Option<SystemTime> {
        match &self.inner {
            Inner::Emulated(peek) => peek.modified,
            Inner::Conventional(peek) => peek.modified,
        }
    }

    /// Blocks of a zone that may hold something.
    ///
    /// # Errors
    /// When the drive cannot be read.
    pub fn written_blocks(&self, zone: u32) -> Result<u32, DriveError> {
        match &self.inner {
            Inner::Emulated(peek) => peek.written_blocks(zone),
            Inner::Conventional(peek) => Ok(peek.written_blocks(zone)),
        }
    }

    /// The data of a block, whatever it is.
    ///
    /// # Errors
    /// When the drive cannot be read.
    pub fn block(&self, zone: u32, offset: u32) -> Result<Box<Block>, DriveError> {
        match &self.inner {
            Inner::Emulated(peek) => peek.block(zone, offset),
            Inner::Conventional(peek) => match peek.block(zone, offset) {
                Ok(block) => Ok(block),
                // One block says nothing about the others.
                Err(Trouble::Unreadable) => Ok(Box::new([0xff; base::units::BLOCK_BYTES])),
                Err(Trouble::Gone) => {
                    Err(DriveError::new(&self.path, DriveProblem::Conventional(OpenError::Gone)))
                }
            },
        }
    }
}
