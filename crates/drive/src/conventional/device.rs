//! Conventional drives on files, partitions and whole devices.

use super::label::{Label, MAGIC};
use super::layout::{Layout, UNIT_PLACES};
use super::recovery::{FileSource, Found, OpenError, find_label, find_opening, look};
use super::{ConventionalDrive, Options, format, open};
use crate::emulated::{DriveError, DriveProblem};
use crate::ordinary::open::{OpenProblem, Opened};
use crate::ordinary::{OrdinaryDrive, bell};
use crate::units::Trouble;
use base::loss::Loss;
use base::time::Instant;
use base::units::{BLOCK_BYTES, BLOCK_BYTES_U64, ZoneIndex};
use base::xor::Block;
use block::device::{BlockDevice, Command, Completion, FRAME_SECTORS, Op, Token};
use block::md::SECTOR_BYTES_U64;
use rustix::fd::OwnedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::SystemTime;
use zone::device::Geometry;

/// Bytes at either end of a device that are looked at before it is used, and emptied when it is wiped.
pub const ENDS_BYTES: u64 = 1 << 20;

/// Zones of a new drive: 256 MiB, less on a small device, so that there are at least 64 of them.
const ZONE_BYTES: (u64, u64) = (64 << 20, 256 << 20);
const ZONES_WANTED: u64 = 64;
/// Zones of a new drive that may be active: more than the ZN540's 14, for there is nothing that limits them but memory
/// and what is read after a crash.
const ACTIVE_ZONES_MAX: u32 = 14;
/// Records of a new drive's journal: 4 MiB.
const JOURNAL_RECORDS: u32 = 1024;

/// A conventional drive on a device.
#[derive(Debug)]
pub struct DeviceDrive {
    /// The drive.
    pub drive: ConventionalDrive<OrdinaryDrive>,
    /// Readable, edge by edge, when it has answers.
    pub wake_fd: OwnedFd,
}

/// How a device of so many bytes is divided.
#[must_use]
pub fn layout_for(bytes: u64, zone_bytes: Option<u64>) -> Layout {
    let (least, most) = ZONE_BYTES;
    let zone_bytes = zone_bytes.unwrap_or_else(|| (bytes / ZONES_WANTED).clamp(least, most));
    let units = zone_bytes / BLOCK_BYTES_U64 / u64::from(UNIT_PLACES);
    let layout = Layout {
        blocks: bytes / BLOCK_BYTES_U64,
        zones: 0,
        zone_units: u32::try_from(units).unwrap_or(u32::MAX),
        active_zones_max: ACTIVE_ZONES_MAX,
        journal_records: JOURNAL_RECORDS,
    };
    if layout.zone_units == 0 { layout } else { layout.with_all_zones() }
}

/// True when a conventional drive is there, or was.
#[must_use]
pub fn is_conventional(path: &Path) -> bool {
    // Other nodes are not even opened: a watchdog, once opened, wants to be fed.
    let is_device = |kind: std::fs::FileType| kind.is_file() || kind.is_block_device();
    if !std::fs::metadata(path).is_ok_and(|metadata| is_device(metadata.file_type())) {
        return false;
    }
    let Ok(opened) = Opened::to_read(path) else { return false };
    let last = (opened.sectors() / FRAME_SECTORS).saturating_sub(1);
    [0, last].iter().any(|place| {
        let mut magic = [0; 8];
        opened.file().read_exact_at(&mut magic, place * BLOCK_BYTES_U64).is_ok() && magic == MAGIC
    })
}

/// Bytes of a file or block device.
///
/// # Errors
/// When there is none that can be read.
pub fn size_of(path: &Path) -> Result<u64, DriveError> {
    let opened = Opened::to_read(path).map_err(|error| DriveError::new(path, error.problem.into()))?;
    Ok(opened.sectors() * SECTOR_BYTES_U64)
}

/// Makes a conventional drive of a file or block device that nobody else uses, whatever it holds.
///
/// # Errors
/// When it is in use, too small, or fails.
pub fn format_device(path: &Path, label: &Label) -> Result<(), DriveError> {
    let (mut device, wake_fd) = open_device(path, None)?;
    format(&mut device, label, &mut |device, op| carry_out(device, &wake_fd, op))
        .map_err(|error| DriveError::new(path, error.into()))
}

/// Opens the conventional drive on a file or block device, for this process alone.
///
/// # Errors
/// When there is none, it is in use, or damaged.
pub fn open_path(path: &Path) -> Result<DeviceDrive, DriveError> {
    open_if(path, None)
}

/// The same, if it is the drive of this identity. Another one is not written to.
///
/// # Errors
/// As for [`open_path`], and when it is another drive.
pub fn open_if(path: &Path, wanted: Option<[u8; 16]>) -> Result<DeviceDrive, DriveError> {
    let (device, wake_fd) = open_device(path, wanted)?;
    let drive = open(device, Options::default(), &mut |device, op| carry_out(device, &wake_fd, op))
        .map_err(|error| DriveError::new(path, error.into()))?;
    Ok(DeviceDrive { drive, wake_fd })
}

/// Drive of which the disk is opened anew: the identity, and the stamp of the opening that goes on.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Identity of the drive.
    pub uuid: [u8; 16],
    /// Stamp of its opening.
    pub opening: u64,
}

/// Opens the disk of a drive that was away, for this process alone, if it is the one of this identity. What lies there is left as it
/// is: who has the drive knows it. When another one has opened the drive meanwhile, it is a [`Loss`].
///
/// # Errors
/// When there is none, it is another one, or in use.
pub fn reopen(path: &Path, known: Known) -> Result<Result<OrdinaryDrive, Loss>, DriveError> {
    let (disk, _) = open_device(path, Some(known.uuid))?;
    let opened = Opened::to_read(path).map_err(|error| DriveError::new(path, error.problem.into()))?;
    let newest = find_opening(&mut FileSource::new(opened.file(), opened.sectors()))
        .map_err(|error| DriveError::new(path, error.into()))?;
    match disk.is_disk() {
        true if newest > known.opening => Ok(Err(Loss::Changed)),
        true => Ok(Ok(disk)),
        false => {
            let source =
                std::io::Error::other("the kernel does not take reads and writes past its page cache");
            Err(DriveError::new(path, DriveProblem::Io { doing: "read the device", source }))
        }
    }
}

/// Empties a device that nobody uses, whatever it held: its first and its last MiB become zeros, the labels of a drive among them, so that
/// nothing is found any more. What lies between stays.
///
/// # Errors
/// When it is in use, or cannot be written.
pub fn wipe(path: &Path) -> Result<(), DriveError> {
    let opened = Opened::to_write(path).map_err(|error| DriveError::new(path, error.problem.into()))?;
    let io = |source| DriveError::new(path, DriveProblem::Io { doing: "wipe the device", source });
    let bytes = opened.sectors() * SECTOR_BYTES_U64;
    let end = ENDS_BYTES.min(bytes);
    let zeros = vec![0; usize::try_from(end).expect("a MiB at most")];
    for place in [0, bytes - end] {
        opened.file().write_all_at(&zeros, place).map_err(io)?;
    }
    opened.file().sync_all().map_err(io)
}

/// Opens a device to be written, if it holds the drive that is wanted.
fn open_device(path: &Path, wanted: Option<[u8; 16]>) -> Result<(OrdinaryDrive, OwnedFd), DriveError> {
    let io = |doing| move |source| DriveError::new(path, DriveProblem::Io { doing, source });
    let mut opened = Opened::to_write(path).map_err(|error| DriveError::new(path, error.problem.into()))?;
    if wanted.is_some() {
        let found = find_label(&mut FileSource::new(opened.file(), opened.sectors()));
        let (label, _) = found.map_err(|error| DriveError::new(path, error.into()))?;
        DriveProblem::expect(label.uuid, wanted).map_err(|problem| DriveError::new(path, problem))?;
    }
    opened.make_direct_for(BLOCK_BYTES).map_err(io("read the device"))?;
    let wake_fd = bell::new().map_err(io("make an event descriptor"))?;
    let device =
        OrdinaryDrive::new(opened, &wake_fd).map_err(io("use io_uring (Linux 6.0 or later is needed)"))?;
    Ok((device, wake_fd))
}

/// Carries one command out, asleep until it is answered.
pub(crate) fn carry_out(device: &mut OrdinaryDrive, wake_fd: &OwnedFd, op: Op) -> Option<Completion> {
    device.submit(Instant(0), Command { token: Token(0), op });
    let mut completions = Vec::new();
    let completion = bell::wait_for(wake_fd, |now| {
        device.poll(now, &mut completions);
        completions.pop()
    });
    Some(completion)
}

impl From<OpenProblem> for DriveProblem {
    fn from(problem: OpenProblem) -> DriveProblem {
        match problem {
            OpenProblem::Absent(_) => DriveProblem::NotFound,
            OpenProblem::InUse(why) => DriveProblem::Held(why),
            OpenProblem::WrongKind => DriveProblem::NotADevice,
            OpenProblem::NotPermitted(why) => DriveProblem::NotPermitted(why),
            OpenProblem::Io(source) => DriveProblem::Io { doing: "open the device", source },
        }
    }
}

/// Device and inode of the file that all of a loop device lies in.
fn file_behind(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(path).ok().filter(|metadata| metadata.file_type().is_block_device())?;
    let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    let device = format!("/sys/dev/block/{major}:{minor}/loop");
    let text = |name: &str| std::fs::read_to_string(format!("{device}/{name}")).ok();
    let starts_with_it = text("offset")?.trim() == "0";
    let file = std::fs::metadata(text("backing_file").filter(|_| starts_with_it)?.trim_end()).ok()?;
    Some((file.dev(), file.ino()))
}

impl From<OpenError> for DriveProblem {
    fn from(error: OpenError) -> DriveProblem {
        DriveProblem::Conventional(error)
    }
}

/// A conventional drive that is only looked at, and may be in use.
#[derive(Debug)]
pub struct Peek {
    opened: Opened,
    found: Found,
    geometry: Geometry,
    /// Device and inode: the same under each name. Of a block device its number, of a loop device those of its file.
    pub file_id: (u64, u64),
    /// Time at which the file was last written.
    pub modified: Option<SystemTime>,
}

impl Peek {
    /// Looks at the drive.
    ///
    /// # Errors
    /// When there is none, or it is damaged.
    pub fn open(path: &Path) -> Result<Peek, DriveError> {
        let opened = Opened::to_read(path).map_err(|error| DriveError::new(path, error.problem.into()))?;
        let found = look(&mut FileSource::new(opened.file(), opened.sectors()))
            .map_err(|error| DriveError::new(path, error.into()))?;
        let io = |source| DriveError::new(path, DriveProblem::Io { doing: "read the device", source });
        let metadata = opened.file().metadata().map_err(io)?;
        let file_id = match file_behind(path) {
            Some(file_id) => file_id,
            None if opened.is_file() => (metadata.dev(), metadata.ino()),
            None => (u64::MAX, metadata.rdev()),
        };
        let geometry = found.label.layout.geometry(true);
        Ok(Peek { opened, found, geometry, file_id, modified: metadata.modified().ok() })
    }

    /// Identity of the drive.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.found.label.uuid
    }

    /// Zones and limits.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Blocks of a zone that are written.
    #[must_use]
    pub fn written_blocks(&self, zone: u32) -> u32 {
        if zone < self.geometry.zones { self.found.end_of(ZoneIndex(zone)) } else { 0 }
    }

    /// Data of a block.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn block(&self, zone: u32, offset: u32) -> Result<Box<Block>, Trouble> {
        let mut source = FileSource::new(self.opened.file(), self.opened.sectors());
        let frame = self.found.read_block(&mut source, ZoneIndex(zone), offset)?;
        Ok(Box::new(frame.data))
    }
}
