//! A drive by its path, of whatever kind: the one place that knows which kinds there are.

use crate::conventional::OpenError;
use crate::conventional::device::{self, DeviceDrive, is_conventional};
use crate::emulated::{self, DriveError, DriveProblem, EmulatedDrive};
use crate::hosted::Heard;
use crate::inband;
use crate::nvme::node;
use crate::nvme::open::{self, OpenDrive, WornZones};
use crate::ordinary::open::Opened;
use crate::units::Trouble;
use crate::zoned;
use base::time::Instant;
use base::units::{BLOCK_BYTES, DriveIndex, ZoneIndex};
use base::xor::Block;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use zone::device::{Command, Geometry, Op, Status, Token, ZoneState, ZonedDevice};
use zone::drives::{DriveCommand, DriveSet};

/// A drive that is open.
#[derive(Debug)]
pub enum AnyDrive {
    /// An emulated drive in a file.
    Emulated(Box<EmulatedDrive>),
    /// A conventional drive: a device that is cut into zones.
    Conventional(Box<DeviceDrive>),
    /// An NVMe drive with zones.
    Nvme(Box<OpenDrive>),
    /// A zoned block device without metadata.
    Zoned(Box<zoned::DiskDrive>),
}

/// Kind of a drive, by what is at its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file, or what would be one.
    Emulated,
    /// A device, or a file as one, that is cut into zones.
    Conventional,
    /// An NVMe namespace.
    Nvme,
    /// A zoned block device with a drive whose identities lie in-band.
    Zoned,
}

impl Kind {
    /// Kind of the drive at a path.
    #[must_use]
    pub fn of(path: &Path) -> Kind {
        if node::is_nvme(path) {
            return Kind::Nvme;
        }
        if zoned::is_inband(path) {
            return Kind::Zoned;
        }
        if is_conventional(path) { Kind::Conventional } else { Kind::Emulated }
    }
}

/// Says of a block device without a drive, or that this user may not read, that it is one: emulated drives are files.
fn expect_no_device(path: &Path) -> Result<(), DriveError> {
    let is_device = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device());
    if !is_device {
        return Ok(());
    }
    let problem =
        Opened::to_read(path).map_or_else(|error| error.problem.into(), |_| DriveProblem::NoDriveOnDevice);
    Err(DriveError::new(path, problem))
}

/// What emptying a drive came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Emptied {
    /// Zones that were reset.
    pub zones_reset: usize,
    /// Zones that can be written no more, and stay as they are.
    pub zones_worn: usize,
}

/// Takes a drive that nobody uses away from its array: a file is removed, a device loses what it holds, and so does that of its identity
/// journal.
///
/// # Errors
/// When it is in use, or cannot be written.
pub fn discard(path: &Path) -> Result<(), DriveError> {
    match Kind::of(path) {
        Kind::Nvme | Kind::Conventional => wipe(path, &mut |_, _| {}).map(|_| ()),
        Kind::Zoned => {
            let peek = zoned::Peek::open(path).ok();
            let journal = peek.as_ref().and_then(|peek| peek.journal_path()).map(Path::to_owned);
            drop(peek);
            wipe(path, &mut |_, _| {})?;
            journal.map_or(Ok(()), |journal| device::wipe(&journal))
        }
        Kind::Emulated => std::fs::remove_file(path)
            .map_err(|source| DriveError::new(path, DriveProblem::Io { doing: "remove the file", source })),
    }
}

/// Empties a device that nobody uses, whether it is a drive or something else. `show` is told how many zones of how many are done.
///
/// # Errors
/// When it is in use, or cannot be written.
pub fn wipe(path: &Path, show: &mut dyn FnMut(usize, usize)) -> Result<Emptied, DriveError> {
    if node::is_nvme(path) {
        return open::erase(path, WornZones::Left, show);
    }
    if zoned::is_zoned(path) {
        return zoned::wipe(path, show);
    }
    device::wipe(path).map(|()| Emptied::default())
}

/// Empties an emulated drive that nobody uses, which stays the one that it is. `show` is told how many zones of how many are done.
///
/// # Errors
/// When there is none, it is in use, or fails.
pub fn reset_all(path: &Path, show: &mut dyn FnMut(usize, usize)) -> Result<Emptied, DriveError> {
    let drive = EmulatedDrive::open(path)?;
    let zones = drive.geometry().zones;
    let mut drives = DriveSet::new(vec![Some(Box::new(drive))]);
    let mut ask = |zone: u32, op: Op| {
        let command = Command { token: Token(0), zone: ZoneIndex(zone), op };
        let completion = drives.execute(Instant(0), DriveCommand { drive: DriveIndex(0), command });
        match completion.status {
            Status::Success => Ok(completion.report),
            status => {
                let source = std::io::Error::other(format!("zone {zone}: {status:?}"));
                Err(DriveError::new(path, DriveProblem::Io { doing: "reset zones", source }))
            }
        }
    };
    let mut emptied = Emptied::default();
    let report = ask(0, Op::Report { count: zones })?;
    for (zone, descriptor) in (0..).zip(&report) {
        match descriptor.state {
            ZoneState::Empty => {}
            ZoneState::ReadOnly | ZoneState::Offline => emptied.zones_worn += 1,
            _ => {
                ask(zone, Op::Reset)?;
                emptied.zones_reset += 1;
            }
        }
        show(zone as usize + 1, report.len());
    }
    ask(0, Op::Flush)?;
    Ok(emptied)
}

impl AnyDrive {
    /// Opens the drive at a path, for this process alone.
    ///
    /// # Errors
    /// When there is none that can be opened.
    pub fn open(path: &Path) -> Result<AnyDrive, DriveError> {
        AnyDrive::open_if(path, None)
    }

    /// Opens the drive of this identity. Another one that has come to its path meanwhile is not written to.
    ///
    /// # Errors
    /// When it is another drive, or cannot be opened.
    pub fn open_as(path: &Path, uuid: [u8; 16]) -> Result<AnyDrive, DriveError> {
        AnyDrive::open_if(path, Some(uuid))
    }

    fn open_if(path: &Path, wanted: Option<[u8; 16]>) -> Result<AnyDrive, DriveError> {
        match Kind::of(path) {
            Kind::Nvme => open::open_if(path, wanted).map(|drive| AnyDrive::Nvme(Box::new(drive))),
            Kind::Conventional => {
                device::open_if(path, wanted).map(|drive| AnyDrive::Conventional(Box::new(drive)))
            }
            Kind::Zoned => zoned::open_if(path, wanted).map(|drive| AnyDrive::Zoned(Box::new(drive))),
            Kind::Emulated => {
                expect_no_device(path)?;
                EmulatedDrive::open_if(path, wanted).map(|drive| AnyDrive::Emulated(Box::new(drive)))
            }
        }
    }

    /// Identity of the drive.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        match self {
            AnyDrive::Emulated(drive) => drive.uuid(),
            AnyDrive::Conventional(drive) => drive.drive.uuid(),
            AnyDrive::Nvme(drive) => drive.found.uuid(),
            AnyDrive::Zoned(drive) => drive.drive.uuid(),
        }
    }

    /// Until somebody sleeps until the drive's bell rings, a poll waits a moment for answers of a device.
    pub fn wait_until(&mut self, heard: Heard) {
        match self {
            // Either it is done at once, or it has a thread, which knows.
            AnyDrive::Emulated(_) => {}
            AnyDrive::Conventional(drive) => drive.drive.device_mut().wait_until(heard),
            AnyDrive::Nvme(drive) => drive.drive.wait_until(heard),
            AnyDrive::Zoned(drive) => drive.wait_until(heard),
        }
    }

    /// The drive as it is, in the caller's thread: nobody listens to its bell.
    #[must_use]
    pub fn into_device(mut self) -> Box<dyn ZonedDevice> {
        self.wait_until(Heard::default());
        match self {
            AnyDrive::Emulated(drive) => drive,
            AnyDrive::Conventional(drive) => Box::new(drive.drive),
            AnyDrive::Nvme(drive) => Box::new(drive.drive),
            AnyDrive::Zoned(drive) => Box::new(drive.drive),
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
    Nvme(Box<open::Peek>),
    Zoned(Box<zoned::Peek>),
}

impl Peek {
    /// Looks at the drive at a path.
    ///
    /// # Errors
    /// As for opening the drive, but that it may be in use.
    pub fn open(path: &Path) -> Result<Peek, DriveError> {
        let inner = match Kind::of(path) {
            Kind::Nvme => Inner::Nvme(Box::new(open::Peek::open(path)?)),
            Kind::Conventional => Inner::Conventional(Box::new(device::Peek::open(path)?)),
            Kind::Zoned => Inner::Zoned(Box::new(zoned::Peek::open(path)?)),
            Kind::Emulated => {
                expect_no_device(path)?;
                Inner::Emulated(emulated::Peek::open(path)?)
            }
        };
        Ok(Peek { path: path.to_owned(), inner })
    }

    /// Identity of the drive.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        match &self.inner {
            Inner::Emulated(peek) => peek.uuid(),
            Inner::Conventional(peek) => peek.uuid(),
            Inner::Nvme(peek) => peek.found.uuid(),
            Inner::Zoned(peek) => peek.label().uuid,
        }
    }

    /// Kind of the drive.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match &self.inner {
            Inner::Emulated(_) => Kind::Emulated,
            Inner::Conventional(_) => Kind::Conventional,
            Inner::Nvme(_) => Kind::Nvme,
            Inner::Zoned(_) => Kind::Zoned,
        }
    }

    /// Name that an NVMe namespace has by itself.
    #[must_use]
    pub fn own_name(&self) -> Option<String> {
        match &self.inner {
            Inner::Emulated(_) | Inner::Conventional(_) | Inner::Zoned(_) => None,
            Inner::Nvme(peek) => Some(peek.found.name()),
        }
    }

    /// Path of the drive's identity journal, when that lies on another device.
    #[must_use]
    pub fn journal_path(&self) -> Option<&Path> {
        match &self.inner {
            Inner::Emulated(_) | Inner::Conventional(_) | Inner::Nvme(_) => None,
            Inner::Zoned(peek) => peek.journal_path(),
        }
    }

    /// Zones and limits of the drive.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        match &self.inner {
            Inner::Emulated(peek) => peek.geometry(),
            Inner::Conventional(peek) => peek.geometry(),
            Inner::Nvme(peek) => &peek.found.geometry,
            Inner::Zoned(peek) => peek.geometry(),
        }
    }

    /// Device and inode: the same under each name of the drive.
    #[must_use]
    pub fn file_id(&self) -> (u64, u64) {
        match &self.inner {
            Inner::Emulated(peek) => peek.file_id,
            Inner::Conventional(peek) => peek.file_id,
            Inner::Nvme(peek) => peek.file_id,
            Inner::Zoned(peek) => peek.file_id,
        }
    }

    /// Time at which the drive was last written, where that is known.
    #[must_use]
    pub fn modified(&self) -> Option<SystemTime> {
        match &self.inner {
            Inner::Emulated(peek) => peek.modified,
            Inner::Conventional(peek) => peek.modified,
            Inner::Nvme(_) | Inner::Zoned(_) => None,
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
            Inner::Nvme(peek) => Ok(peek.written_blocks(zone)),
            Inner::Zoned(peek) => Ok(peek.written_blocks(zone)),
        }
    }

    /// The data of a block, whatever it is.
    ///
    /// # Errors
    /// When the drive cannot be read.
    pub fn block(&self, zone: u32, offset: u32) -> Result<Box<Block>, DriveError> {
        match &self.inner {
            Inner::Emulated(peek) => peek.block(zone, offset),
            Inner::Nvme(peek) => peek.block(zone, offset),
            Inner::Conventional(peek) => {
                self.known(peek.block(zone, offset), DriveProblem::Conventional(OpenError::Gone))
            }
            Inner::Zoned(peek) => {
                self.known(peek.block(zone, offset), DriveProblem::Zoned(inband::OpenError::Gone.into()))
            }
        }
    }

    /// A block as far as it can be read: one says nothing about the others.
    fn known(
        &self,
        block: Result<Box<Block>, Trouble>,
        gone: DriveProblem,
    ) -> Result<Box<Block>, DriveError> {
        match block {
            Ok(block) => Ok(block),
            Err(Trouble::Unreadable) => Ok(Box::new([0xff; BLOCK_BYTES])),
            Err(Trouble::Gone) => Err(DriveError::new(&self.path, gone)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::conventional::label::Label;
    use crate::emulated::{CreateOptions, create};

    const OWN: [u8; 16] = [1; 16];

    /// Opens a drive as its own and as another one, which must not change it.
    #[track_caller]
    fn expect_known(path: &Path) {
        drop(AnyDrive::open_as(path, OWN).unwrap());
        let before = std::fs::read(path).unwrap();
        let refused = AnyDrive::open_as(path, [2; 16]).unwrap_err();
        assert!(matches!(refused.problem, DriveProblem::OtherDrive { found: OWN, .. }), "{refused}");
        assert!(std::fs::read(path).unwrap() == before, "another drive was written to");
    }

    #[test]
    fn a_drive_that_is_not_the_wanted_one_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let emulated = dir.path().join("emulated");
        let geometry = Geometry {
            zones: 8,
            zone_size_blocks: 64,
            zone_capacity_blocks: 64,
            open_zones_max: 4,
            active_zones_max: 4,
            append_blocks_max: 8,
            transfer_blocks_max: 8,
            volatile_cache: false,
            areas: None,
        };
        create(&emulated, &CreateOptions::new(geometry, OWN)).unwrap();
        expect_known(&emulated);
        let conventional = dir.path().join("conventional");
        let bytes = 128 << 20;
        std::fs::File::create(&conventional).unwrap().set_len(bytes).unwrap();
        let layout = device::layout_for(bytes, Some(4 << 20));
        device::format_device(&conventional, &Label { uuid: OWN, layout }).unwrap();
        expect_known(&conventional);
    }
}
