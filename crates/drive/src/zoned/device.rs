//! Drives on zoned block devices: what a device is like, formatting and opening one.

use super::ZonedDisk;
use super::elsewhere::{PairPeek, open_disk, open_pair};
use super::helper::Helper;
use super::ioctl::{self, Change, EMPTY, EXPLICIT_OPEN, IMPLICIT_OPEN, Line, OFFLINE, READ_ONLY};
use super::shape::{Shape, ShapeError};
use crate::any::Emptied;
use crate::conventional;
use crate::conventional::device::size_of;
use crate::emulated::{DriveError, DriveProblem};
use crate::hosted::Heard;
use crate::inband::header::{HeaderError, Label};
use crate::inband::layout::{JOURNAL_ZONES, Layout, LayoutError};
use crate::inband::{
    Elsewhere, Found, InbandDrive, Joined, OpenError, Source, find_journal_path, find_label, format,
    format_elsewhere, layout_elsewhere, look, open,
};
use crate::ordinary::open::Opened;
use crate::ordinary::{OrdinaryDrive, bell};
use crate::units::{CACHED_UNITS, Trouble};
use base::frame::Frame;
use base::slab::Slab;
use base::time::{Instant, Nanos};
use base::units::{BLOCK_BYTES, BLOCK_BYTES_U64, ZoneIndex};
use base::xor::Block;
use block::md::SECTOR_BYTES_U64;
use rustix::fd::OwnedFd;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use zone::device::{Command, Completion, Geometry, ZoneDescriptor, ZoneState, ZonedDevice};

/// Most blocks of a command. Writes reach the device in parts that it takes at once.
const TRANSFER_BLOCKS_MAX: u32 = 128;

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

/// Device for the identity journal of a drive that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct Journal<'a> {
    /// Its path.
    pub path: &'a Path,
    /// Identity that the journal is to have.
    pub uuid: [u8; 16],
}

/// A drive on a zoned block device.
#[derive(Debug)]
pub struct DiskDrive {
    /// The drive.
    pub drive: InbandDrive<Joined<ZonedDisk, OrdinaryDrive>>,
    /// Readable, edge by edge, when it has answers.
    pub wake_fd: OwnedFd,
}

impl DiskDrive {
    /// From now on what the kernel refuses for now is tried again for so long.
    pub fn set_patience(&mut self, patience: Nanos) {
        let joined = self.drive.device_mut();
        joined.device_mut().set_patience(patience);
        if let Some(pair) = joined.pair_mut() {
            pair.disk_mut().set_patience(patience);
        }
    }

    /// From now on answers make this eventfd readable.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn set_bell(&mut self, bell: &OwnedFd) -> io::Result<()> {
        let joined = self.drive.device_mut();
        joined.device_mut().set_bell(bell)?;
        joined.pair_mut().map_or(Ok(()), |pair| pair.disk_mut().set_bell(bell))
    }

    /// Until somebody sleeps until the bell rings, a poll waits a moment for reads and writes; not for those of a journal elsewhere.
    pub fn wait_until(&mut self, heard: Heard) {
        self.drive.device_mut().device_mut().wait_until(heard);
    }
}

/// True of a block device whose zones have to be written in order.
#[must_use]
pub fn is_zoned(path: &Path) -> bool {
    let Ok(path) = std::fs::canonicalize(path) else { return false };
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let model = std::fs::read_to_string(format!("/sys/class/block/{name}/queue/zoned"));
    model.is_ok_and(|model| model.trim() == "host-managed")
}

/// True when a drive with identities in-band is there. Only the device is read.
#[must_use]
pub fn is_inband(path: &Path) -> bool {
    if !is_zoned(path) {
        return false;
    }
    let Ok(opened) = Opened::to_read(path) else { return false };
    let Ok(zones) = DiskZones::of(path, opened.file()) else { return false };
    let label = find_label(&mut zones.source(opened.file()));
    !matches!(label, Err(OpenError::Header(HeaderError::NotAHeader) | OpenError::Gone))
}

/// A number that the kernel tells of the queue of a block device; of a partition there are no zones.
fn limit_of(file: &File, name: &str) -> u32 {
    let Ok(metadata) = file.metadata() else { return 0 };
    let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    let text = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/queue/{name}"));
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Zones of a device, reported once, and those of them that are used.
#[derive(Debug)]
struct DiskZones {
    shape: Shape,
    /// Those that are used.
    lines: Vec<Line>,
    geometry: Geometry,
}

impl DiskZones {
    fn of(path: &Path, file: &File) -> Result<DiskZones, DriveError> {
        let io = |source| DriveError::new(path, DriveProblem::Io { doing: "report the zones", source });
        let mut lines = ioctl::report(file, 0, u32::MAX).map_err(io)?;
        let shape = Shape::of(&lines).map_err(|problem| faulty(path, problem))?;
        lines.retain(|line| line.start >= shape.start);
        lines.truncate(shape.zones as usize);
        Ok(DiskZones { shape, lines, geometry: device_geometry(file, &shape) })
    }

    /// The device as it is looked at.
    fn source<'a>(&'a self, file: &'a File) -> FileSource<'a> {
        FileSource { file, zones: self }
    }
}

/// A device, or the drive on it, that cannot be used.
pub(super) fn faulty(path: &Path, problem: impl Into<ZonedProblem>) -> DriveError {
    DriveError::new(path, DriveProblem::Zoned(problem.into()))
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

/// Zones and limits of a device, the journal's included; its cache is volatile as far as is known.
fn device_geometry(file: &File, shape: &Shape) -> Geometry {
    let active_zones_max = or(limit_of(file, "max_active_zones"), shape.zones);
    Geometry {
        zones: shape.zones,
        zone_size_blocks: shape.size_blocks,
        zone_capacity_blocks: shape.capacity_blocks,
        open_zones_max: or(limit_of(file, "max_open_zones"), active_zones_max),
        active_zones_max,
        append_blocks_max: 0,
        transfer_blocks_max: TRANSFER_BLOCKS_MAX,
        volatile_cache: true,
        areas: None,
    }
}

/// Zones and limits of the drive that a device would be, and how many of its zones are written.
///
/// # Errors
/// When it cannot be one.
pub fn geometry_of(path: &Path) -> Result<(Geometry, usize), DriveError> {
    geometry_with(path, None)
}

/// The same for a drive with its identity journal at another path.
///
/// # Errors
/// When one of them cannot be used.
pub fn geometry_with(path: &Path, journal: Option<&Path>) -> Result<(Geometry, usize), DriveError> {
    let opened = Opened::to_read(path).map_err(|error| DriveError::new(path, error.problem.into()))?;
    let zones = DiskZones::of(path, opened.file())?;
    let layout = match journal {
        None => Layout::of(&zones.geometry, None),
        Some(journal) => layout_elsewhere(&zones.geometry, size_of(journal)? / BLOCK_BYTES_U64),
    };
    let layout = layout.map_err(|problem| faulty(journal.unwrap_or(path), problem))?;
    let states = zones.lines.iter().filter_map(|line| zones.shape.descriptor(line));
    let written = states.filter(|zone| zone.state != ZoneState::Empty).count();
    Ok((layout.geometry(&zones.geometry), written))
}

/// Refuses a device that somebody uses.
///
/// # Errors
/// When it is mounted, part of another device, or opened by a program for itself.
pub fn expect_unused(path: &Path) -> Result<(), DriveError> {
    Opened::to_write(path).map(drop).map_err(|error| DriveError::new(path, error.problem.into()))
}

/// Label of the drive on a device, and the path at which its journal was, if that lies elsewhere.
fn labels(path: &Path, file: &File, zones: &DiskZones) -> Result<(Label, Option<String>), DriveError> {
    let mut source = zones.source(file);
    let label = find_label(&mut source).map_err(|problem| faulty(path, problem))?;
    let hint = match label.journal {
        Some(_) => find_journal_path(&mut source).map_err(|problem| faulty(path, problem))?,
        None => None,
    };
    Ok((label, hint))
}

/// Opens a device to be written, by nobody else.
fn open_device(path: &Path) -> Result<(Opened, DiskZones), DriveError> {
    let opened = Opened::to_write(path).map_err(|error| DriveError::new(path, error.problem.into()))?;
    let zones = DiskZones::of(path, opened.file())?;
    Ok((opened, zones))
}

/// Puts a device that is open into service.
fn start(path: &Path, mut opened: Opened, zones: DiskZones) -> Result<(ZonedDisk, OwnedFd), DriveError> {
    let io = |doing| move |source| DriveError::new(path, DriveProblem::Io { doing, source });
    opened.make_direct_for(BLOCK_BYTES).map_err(io("read the device"))?;
    if !opened.is_direct() {
        return Err(faulty(path, ZonedProblem::NotDirect));
    }
    let DiskZones { shape, lines, geometry } = zones;
    let geometry = Geometry { volatile_cache: opened.has_volatile_cache(), ..geometry };
    // A server that died leaves zones open.
    for line in lines.iter().filter(|line| matches!(line.condition, IMPLICIT_OPEN | EXPLICIT_OPEN)) {
        ioctl::change(opened.file(), Change::Close, line.start, line.length).map_err(io("close a zone"))?;
    }
    let wake_fd = bell::new().map_err(io("make an event descriptor"))?;
    let write_blocks_max = write_blocks_max(opened.file());
    let helper = Helper::start(opened.file(), shape, &wake_fd).map_err(io("start a thread"))?;
    let disk =
        OrdinaryDrive::new(opened, &wake_fd).map_err(io("use io_uring (Linux 6.0 or later is needed)"))?;
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
        outlives: false,
    };
    Ok((disk, wake_fd))
}

/// Carries one command out, asleep until it is answered.
fn carry_out<D: ZonedDevice>(device: &mut D, wake_fd: &OwnedFd, command: Command) -> Option<Completion> {
    device.submit(Instant(0), command);
    let mut completions = Vec::new();
    let completion = bell::wait_for(wake_fd, |now| {
        device.poll(now, &mut completions);
        completions.pop()
    });
    Some(completion)
}

/// Makes a drive of a device that nobody else uses, whatever it holds: all of its zones are reset. Its identity journal goes to another
/// device if one is named.
///
/// # Errors
/// When one of them is in use, cannot be one, or fails.
pub fn format_device(path: &Path, uuid: [u8; 16], journal: Option<Journal<'_>>) -> Result<(), DriveError> {
    let (opened, zones) = open_device(path)?;
    let (mut device, wake_fd) = start(path, opened, zones)?;
    let made = match journal {
        None => format(&mut device, uuid, &mut |device, command| carry_out(device, &wake_fd, command)),
        Some(Journal { path: of_journal, uuid: journal }) => {
            let disk = open_disk(of_journal, &wake_fd)?;
            let who = Elsewhere { drive: uuid, journal, path: of_journal.to_string_lossy().into_owned() };
            format_elsewhere(device, disk, &who, &mut |device, command| carry_out(device, &wake_fd, command))
        }
    };
    made.map(drop).map_err(|problem| faulty(path, problem))
}

/// Opens the drive on a device, for this process alone, if it is the one of this identity. Another one is not written to.
///
/// # Errors
/// When there is none, it is another one, in use, or damaged, or its journal is elsewhere and not found.
pub fn open_if(path: &Path, wanted: Option<[u8; 16]>) -> Result<DiskDrive, DriveError> {
    let (opened, zones) = open_device(path)?;
    let (label, hint) = labels(path, opened.file(), &zones)?;
    DriveProblem::expect(label.uuid, wanted).map_err(|problem| DriveError::new(path, problem))?;
    let (device, wake_fd) = start(path, opened, zones)?;
    let device = match label.journal {
        Some(_) => Joined::with(device, open_pair(path, &label, hint.as_deref(), &wake_fd)?),
        None => Joined::alone(device),
    };
    let drive = open(device, CACHED_UNITS, &mut |device, command| carry_out(device, &wake_fd, command))
        .map_err(|problem| faulty(path, problem))?;
    Ok(DiskDrive { drive, wake_fd })
}

/// Opens the device of a drive that was away, for this process alone, if it is the one of this identity. What lies there is left as it is:
/// who has the drive knows it.
///
/// # Errors
/// When there is none, it is another one, or in use.
pub fn reopen(path: &Path, uuid: [u8; 16]) -> Result<ZonedDisk, DriveError> {
    let (opened, zones) = open_device(path)?;
    let (label, _) = labels(path, opened.file(), &zones)?;
    DriveProblem::expect(label.uuid, Some(uuid)).map_err(|problem| DriveError::new(path, problem))?;
    start(path, opened, zones).map(|(device, _)| device)
}

/// Empties a device that nobody uses: all zones that can be are reset, those of the journal first. `show` is told how many zones of
/// how many are done.
///
/// # Errors
/// When it is in use, or fails.
pub fn wipe(path: &Path, show: &mut dyn FnMut(usize, usize)) -> Result<Emptied, DriveError> {
    let io = |source| DriveError::new(path, DriveProblem::Io { doing: "reset zones", source });
    let opened = Opened::to_write(path).map_err(|error| DriveError::new(path, error.problem.into()))?;
    let zones = DiskZones::of(path, opened.file())?;
    let mut emptied = Emptied::default();
    for (done, line) in (1..).zip(&zones.lines) {
        match line.condition {
            EMPTY => {}
            READ_ONLY | OFFLINE => emptied.zones_worn += 1,
            _ => {
                ioctl::change(opened.file(), Change::Reset, line.start, line.length).map_err(io)?;
                emptied.zones_reset += 1;
            }
        }
        show(done, zones.lines.len());
    }
    opened.file().sync_all().map_err(io)?;
    Ok(emptied)
}

/// Device that is only looked at.
struct FileSource<'a> {
    file: &'a File,
    zones: &'a DiskZones,
}

impl Source for FileSource<'_> {
    fn geometry(&self) -> Geometry {
        self.zones.geometry
    }

    fn report(&mut self) -> Result<Vec<ZoneDescriptor>, Trouble> {
        let DiskZones { shape, lines, .. } = self.zones;
        lines.iter().map(|line| shape.descriptor(line)).collect::<Option<_>>().ok_or(Trouble::Gone)
    }

    fn read(&mut self, zone: ZoneIndex, offset: u32, frames: &mut Vec<Frame>) -> Result<(), Trouble> {
        let first = self.zones.shape.sector_of(zone.0, offset) * SECTOR_BYTES_U64;
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

/// Device with its journal elsewhere, only looked at.
struct JoinedSource<'a> {
    device: FileSource<'a>,
    journal: Option<&'a PairPeek>,
}

impl Source for JoinedSource<'_> {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn report(&mut self) -> Result<Vec<ZoneDescriptor>, Trouble> {
        let mut report = self.device.report()?;
        if let Some(journal) = self.journal {
            for (zone, line) in (0..JOURNAL_ZONES).zip(&mut report) {
                *line = journal.found.descriptor(zone, line);
            }
        }
        Ok(report)
    }

    fn read(&mut self, zone: ZoneIndex, offset: u32, frames: &mut Vec<Frame>) -> Result<(), Trouble> {
        match self.journal.filter(|_| zone.0 < JOURNAL_ZONES) {
            Some(PairPeek { opened, found, .. }) => {
                let mut source = conventional::FileSource::new(opened.file(), opened.sectors());
                found.read(&mut source, zone.0, offset, frames)
            }
            None => self.device.read(zone, offset, frames),
        }
    }
}

/// A drive on a zoned device that is only looked at, and may be in use.
#[derive(Debug)]
pub struct Peek {
    opened: Opened,
    zones: DiskZones,
    journal: Option<PairPeek>,
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
        let zones = DiskZones::of(path, opened.file())?;
        let (label, hint) = labels(path, opened.file(), &zones)?;
        let journal = label.journal.map(|_| PairPeek::open(path, &label, hint.as_deref())).transpose()?;
        let mut source = JoinedSource { device: zones.source(opened.file()), journal: journal.as_ref() };
        let found = look(&mut source).map_err(|problem| faulty(path, problem))?;
        let geometry = found.label.layout.geometry(&zones.geometry);
        let file_id = (u64::MAX, opened.file().metadata().map_err(io)?.rdev());
        Ok(Peek { opened, zones, journal, found, geometry, file_id })
    }

    /// Who the drive is, and how it is divided.
    #[must_use]
    pub fn label(&self) -> &Label {
        &self.found.label
    }

    /// Path of its identity journal, when that lies elsewhere.
    #[must_use]
    pub fn journal_path(&self) -> Option<&Path> {
        self.journal.as_ref().map(|journal| journal.path.as_path())
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
        let mut source = self.zones.source(self.opened.file());
        self.found.read_data(&mut source, ZoneIndex(zone), offset).map(|frame| Box::new(frame.data))
    }
}
