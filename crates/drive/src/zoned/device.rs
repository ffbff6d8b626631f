//! Drives on zoned block devices: what a device is like, formatting and opening one.

use super::ZonedDisk;
use super::helper::Helper;
use super::ioctl::{self, Change, EMPTY, EXPLICIT_OPEN, IMPLICIT_OPEN, Line, OFFLINE, READ_ONLY};
use super::shape::{Shape, ShapeError};
use crate::emulated::{DriveError, DriveProblem};
use crate::inband::header::{HeaderError, Label};
use crate::inband::layout::{Layout, LayoutError};
use crate::inband::{Found, InbandDrive, OpenError, Source, Trouble, find_label, format, look, open};
use crate::nvme::node::is_zoned_block;
use crate::ordinary::OrdinaryDrive;
use crate::ordinary::open::Opened;
use base::frame::Frame;
use base::slab::Slab;
use base::time::Instant;
use base::units::{BLOCK_BYTES, BLOCK_BYTES_U64, ZoneIndex};
use base::xor::Block;
use block::md::SECTOR_BYTES_U64;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use zone::device::{Command, Completion, Geometry, ZoneDescriptor, ZoneState, ZonedDevice};

/// Most blocks of a command. Writes reach the device in parts that it takes at once.
const TRANSFER_BLOCKS_MAX: u32 = 128;
/// Units whose identities are kept in memory: 64 MiB at most.
const CACHED_UNITS: usize = 16_384;
/// Time after which an answer is looked for while a drive is opened, should no bell have rung.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Fault of a zoned device, or of the drive on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZonedProblem {
    /// The zones cannot be used.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The device cannot be divided.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The drive on it cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Reads and writes go through the page cache, which writes back in any order.
    #[error("the kernel does not take reads and writes of 4 KiB past its page cache (O_DIRECT)")]
    NotDirect,
}

/// A drive on a zoned block device.
#[derive(Debug)]
pub struct DiskDrive {
    /// The drive.
    pub drive: InbandDrive<ZonedDisk>,
    /// Readable, edge by edge, when it has answers.
    pub wake_fd: OwnedFd,
}

/// True of a block device whose zones have to be written in order.
#[must_use]
pub fn is_zoned(path: &Path) -> bool {
    is_zoned_block(path)
}

/// True when a drive with identities in-band is there. Only the device is read.
#[must_use]
pub fn is_inband(path: &Path) -> bool {
    if !is_zoned_block(path) {
        return false;
    }
    let Ok(opened) = Opened::to_read(path) else { return false };
    let Ok(mut source) = FileSource::new(opened.file()) else { return false };
    !matches!(find_label(&mut source), Err(OpenError::Header(HeaderError::NotAHeader) | OpenError::Gone))
}

/// A number that the kernel tells of the queue of a block device; of a partition there are no zones.
fn limit_of(file: &File, name: &str) -> u32 {
    let Ok(metadata) = file.metadata() else { return 0 };
    let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    let text = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/queue/{name}"));
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

fn lines_of(file: &File) -> io::Result<Vec<Line>> {
    ioctl::report(file, 0, u32::MAX)
}

/// A limit of so many, of which zero is none.
fn or(limit: u32, none: u32) -> u32 {
    if limit == 0 { none } else { limit.min(none) }
}

/// Blocks that the device takes in one command: each may be a segment of its own.
fn write_blocks_max(file: &File) -> usize {
    let [blocks, segments] = [limit_of(file, "max_sectors_kb") / 4, limit_of(file, "max_segments")];
    or(blocks, TRANSFER_BLOCKS_MAX).min(or(segments, TRANSFER_BLOCKS_MAX)) as usize
}

/// Zones and limits of a device, the journal's included.
fn device_geometry(file: &File, shape: &Shape, volatile_cache: bool) -> Geometry {
    let active_zones_max = or(limit_of(file, "max_active_zones"), shape.zones);
    Geometry {
        zones: shape.zones,
        zone_size_blocks: shape.size_blocks,
        zone_capacity_blocks: shape.capacity_blocks,
        open_zones_max: or(limit_of(file, "max_open_zones"), active_zones_max),
        active_zones_max,
        append_blocks_max: 0,
        transfer_blocks_max: TRANSFER_BLOCKS_MAX,
        volatile_cache,
        areas: None,
    }
}

/// Zones and limits of the drive that a device would be, and how many of its zones are written.
///
/// # Errors
/// When it cannot be one.
pub fn geometry_of(path: &Path) -> Result<(Geometry, usize), DriveError> {
    let opened = Opened::to_read(path).map_err(|error| DriveError::new(path, error.problem.into()))?;
    let io = |source| DriveError::new(path, DriveProblem::Io { doing: "report the zones", source });
    let lines = lines_of(opened.file()).map_err(io)?;
    let zoned = |problem: ZonedProblem| DriveError::new(path, DriveProblem::Zoned(problem));
    let shape = Shape::of(&lines).map_err(|problem| zoned(problem.into()))?;
    let device = device_geometry(opened.file(), &shape, true);
    let layout = Layout::of(&device).map_err(|problem| zoned(problem.into()))?;
    let used = lines.iter().filter(|line| line.start >= shape.start).take(shape.zones as usize);
    let written =
        used.filter_map(|line| shape.descriptor(line)).filter(|zone| zone.state != ZoneState::Empty);
    Ok((layout.geometry(&device), written.count()))
}

/// Refuses a device that somebody uses.
///
/// # Errors
/// When it is mounted, part of another device, or opened by a program for itself.
pub fn expect_unused(path: &Path) -> Result<(), DriveError> {
    Opened::to_write(path).map(drop).map_err(|error| DriveError::new(path, error.problem.into()))
}

/// Opens a device to be written, by nobody else.
fn open_device(path: &Path, wanted: Option<[u8; 16]>) -> Result<(ZonedDisk, OwnedFd), DriveError> {
    let io = |doing| move |source| DriveError::new(path, DriveProblem::Io { doing, source });
    let zoned = |problem: ZonedProblem| DriveError::new(path, DriveProblem::Zoned(problem));
    let mut opened = Opened::to_write(path).map_err(|error| DriveError::new(path, error.problem.into()))?;
    if wanted.is_some() {
        let mut source = FileSource::new(opened.file()).map_err(io("report the zones"))?;
        let label = find_label(&mut source).map_err(|problem| zoned(problem.into()))?;
        DriveProblem::expect(label.uuid, wanted).map_err(|problem| DriveError::new(path, problem))?;
    }
    opened.make_direct_for(BLOCK_BYTES).map_err(io("read the device"))?;
    if !opened.is_direct() {
        return Err(zoned(ZonedProblem::NotDirect));
    }
    let lines = lines_of(opened.file()).map_err(io("report the zones"))?;
    let shape = Shape::of(&lines).map_err(|problem| zoned(problem.into()))?;
    let geometry = device_geometry(opened.file(), &shape, opened.has_volatile_cache());
    // A server that died leaves zones open.
    for line in lines.iter().filter(|line| matches!(line.condition, IMPLICIT_OPEN | EXPLICIT_OPEN)) {
        ioctl::change(opened.file(), Change::Close, line.start, line.length).map_err(io("close a zone"))?;
    }
    let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
    let bell = bell.map_err(|error| io("make an event descriptor")(error.into()))?;
    let write_blocks_max = write_blocks_max(opened.file());
    let helper = Helper::start(opened.file(), shape, &bell).map_err(io("start a thread"))?;
    let disk =
        OrdinaryDrive::new(opened, &bell).map_err(io("use io_uring (Linux 6.0 or later is needed)"))?;
    let disk = ZonedDisk {
        geometry,
        shape,
        write_blocks_max,
        disk,
        helper,
        pending: Slab::default(),
        done: Vec::new(),
        answers: Vec::new(),
        zone_answers: Vec::new(),
        is_abandoned: false,
    };
    Ok((disk, bell))
}

/// Carries one command out, asleep until it is answered.
fn carry_out(device: &mut ZonedDisk, bell: &OwnedFd, command: Command) -> Option<Completion> {
    device.submit(Instant(0), command);
    let mut completions = Vec::new();
    loop {
        device.poll(Instant(0), &mut completions);
        if let Some(completion) = completions.pop() {
            return Some(completion);
        }
        // The count is news that the next look takes, whatever it is.
        let mut count = [0; 8];
        let _ = rustix::io::read(bell, &mut count);
        device.poll(Instant(0), &mut completions);
        if completions.is_empty() {
            let _ = poll(&mut [PollFd::new(bell, PollFlags::IN)], Some(&LOOK_AGAIN));
        }
    }
}

/// Makes a drive of a device that nobody else uses, whatever it holds: all of its zones are reset.
///
/// # Errors
/// When it is in use, cannot be one, or fails.
pub fn format_device(path: &Path, uuid: [u8; 16]) -> Result<(), DriveError> {
    let (mut device, bell) = open_device(path, None)?;
    format(&mut device, uuid, &mut |device, command| carry_out(device, &bell, command))
        .map(drop)
        .map_err(|problem| DriveError::new(path, DriveProblem::Zoned(problem.into())))
}

/// Opens the drive on a device, for this process alone, if it is the one of this identity. Another one is not written to.
///
/// # Errors
/// When there is none, it is another one, in use, or damaged.
pub fn open_if(path: &Path, wanted: Option<[u8; 16]>) -> Result<DiskDrive, DriveError> {
    let (device, wake_fd) = open_device(path, wanted)?;
    let drive = open(device, CACHED_UNITS, &mut |device, command| carry_out(device, &wake_fd, command))
        .map_err(|problem| DriveError::new(path, DriveProblem::Zoned(problem.into())))?;
    Ok(DiskDrive { drive, wake_fd })
}

/// Empties a device that nobody uses: all zones that can be are reset, those of the journal first.
///
/// # Errors
/// When it is in use, or fails.
pub fn wipe(path: &Path) -> Result<(), DriveError> {
    let io = |source| DriveError::new(path, DriveProblem::Io { doing: "reset zones", source });
    let opened = Opened::to_write(path).map_err(|error| DriveError::new(path, error.problem.into()))?;
    let lines = lines_of(opened.file()).map_err(io)?;
    let shape =
        Shape::of(&lines).map_err(|problem| DriveError::new(path, DriveProblem::Zoned(problem.into())))?;
    let used = lines.iter().filter(|line| line.start >= shape.start).take(shape.zones as usize);
    for line in used.filter(|line| !matches!(line.condition, EMPTY | READ_ONLY | OFFLINE)) {
        ioctl::change(opened.file(), Change::Reset, line.start, line.length).map_err(io)?;
    }
    opened.file().sync_all().map_err(io)
}

/// Device that is only looked at.
struct FileSource<'a> {
    file: &'a File,
    shape: Shape,
    geometry: Geometry,
}

impl FileSource<'_> {
    fn new(file: &File) -> io::Result<FileSource<'_>> {
        let shape = Shape::of(&lines_of(file)?).map_err(io::Error::other)?;
        Ok(FileSource { file, shape, geometry: device_geometry(file, &shape, true) })
    }
}

impl Source for FileSource<'_> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn report(&mut self) -> Result<Vec<ZoneDescriptor>, Trouble> {
        let lines =
            ioctl::report(self.file, self.shape.start, self.shape.zones).map_err(|_| Trouble::Gone)?;
        lines.iter().map(|line| self.shape.descriptor(line)).collect::<Option<_>>().ok_or(Trouble::Gone)
    }

    fn read(&mut self, zone: ZoneIndex, offset: u32, frames: &mut Vec<Frame>) -> Result<(), Trouble> {
        let first = self.shape.sector_of(zone.0, offset) * SECTOR_BYTES_U64;
        for (place, frame) in (0..).zip(frames) {
            match self.file.read_exact_at(&mut frame.data, first + place * BLOCK_BYTES_U64) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::EIO) => return Err(Trouble::Unreadable),
                Err(_) => return Err(Trouble::Gone),
            }
        }
        Ok(())
    }
}

/// A drive on a zoned device that is only looked at, and may be in use.
#[derive(Debug)]
pub struct Peek {
    opened: Opened,
    found: Found,
    geometry: Geometry,
    /// Device number: the same under each name.
    pub file_id: (u64, u64),
}

impl Peek {
    /// Looks at the drive.
    ///
    /// # Errors
    /// When there is none, or it is damaged.
    pub fn open(path: &Path) -> Result<Peek, DriveError> {
        let opened = Opened::to_read(path).map_err(|error| DriveError::new(path, error.problem.into()))?;
        let io = |source| DriveError::new(path, DriveProblem::Io { doing: "read the device", source });
        let mut source = FileSource::new(opened.file()).map_err(io)?;
        let found = look(&mut source)
            .map_err(|problem| DriveError::new(path, DriveProblem::Zoned(problem.into())))?;
        let geometry = found.label.layout.geometry(&source.geometry);
        let file_id = (u64::MAX, opened.file().metadata().map_err(io)?.rdev());
        Ok(Peek { opened, found, geometry, file_id })
    }

    /// Who the drive is, and how it is divided.
    #[must_use]
    pub fn label(&self) -> &Label {
        &self.found.label
    }

    /// Zones and limits.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Blocks of a zone that may be written.
    #[must_use]
    pub fn written_blocks(&self, zone: u32) -> u32 {
        if zone < self.geometry.zones { self.found.end_of(ZoneIndex(zone)) } else { 0 }
    }

    /// Data of a block.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn block(&self, zone: u32, offset: u32) -> Result<Box<Block>, Trouble> {
        let mut source = FileSource::new(self.opened.file()).map_err(|_| Trouble::Gone)?;
        self.found.read_data(&mut source, ZoneIndex(zone), offset).map(|frame| Box::new(frame.data))
    }
}
