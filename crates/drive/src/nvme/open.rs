//! Opening of an NVMe drive: who it is, what it can do, and that nobody else uses it.
//!
//! A drive that is to be written is held twice: its character node is locked, which keeps other servers away, and its block node is
//! open exclusively, which keeps mkfs, mount, md and LVM away. That of a namespace with metadata can be mounted, whatever comes of it.
//!
//! Zones stay open when a server dies. Opening closes them: the next one begins with all of the drive's open zones.

use super::health::{Health, LOG_BYTES};
use super::identify::{Controller, FormatProblem, Identity, Namespace, Page, Zoned, append_blocks_max};
use super::node::{block_node, kernel_name};
use super::passthrough::{Ring, carry_out, namespace_of};
use super::quirk::Quirks;
use super::report::{self, ReportProblem};
use super::wire::{Action, IDENTIFY_BYTES, Payload, Subject, Transition};
use super::{NvmeDrive, pointer_of};
use crate::any::Emptied;
use crate::emulated::{DriveError, DriveProblem, check_geometry};
use crate::lane;
use base::frame::Frame;
use base::units::BLOCK_BYTES;
use base::xor::Block;
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;
use zone::device::{Geometry, ZoneDescriptor, ZoneState};

/// Command code for a field that a drive does not know, as for zones that a namespace does not have.
const INVALID_FIELD: i32 = 0x002;
const STATUS_CODE: i32 = 0x7ff;

/// Reason why a namespace cannot be opened as a drive.
#[derive(Debug, Error)]
pub enum NvmeProblem {
    /// This user may not send commands.
    #[error(
        "this user may not send commands through {node} ({source}): run as root, or, with Linux 6.2 or later, let the user read and \
         write {node} and read {block}: `chgrp GROUP {node} {block}; chmod g+rw {node} {block}`"
    )]
    NotPermitted {
        /// Character node.
        node: String,
        /// Block node.
        block: String,
        /// Error of the system.
        source: io::Error,
    },
    /// A namespace without zones.
    #[error("the namespace has no zones: give its block device instead, {0}")]
    NoZones(String),
    /// Blocks or zones that cannot be used.
    #[error("{problem}; {}", problem.remedy(block))]
    Format {
        /// What is wrong.
        problem: FormatProblem,
        /// Block node.
        block: String,
    },
    /// Zones that differ.
    #[error("zone {zone} has {capacity} blocks and zone 0 has {others}: zones that differ cannot be used")]
    Capacities {
        /// The zone.
        zone: u32,
        /// Its blocks.
        capacity: u32,
        /// Blocks of the first zone.
        others: u32,
    },
    /// Zones that have gone, in a drive that is to be used anew.
    #[error("zone {zone} is {state:?}: the drive is at its end; use another one")]
    Worn {
        /// The zone.
        zone: u32,
        /// Its state.
        state: ZoneState,
    },
    /// A report that makes no sense.
    #[error("its report on its zones makes no sense ({0:?})")]
    Report(ReportProblem),
    /// The drive or the kernel refused a command.
    #[error("the drive refused to {doing}: {answer}")]
    Refused {
        /// What was to be done.
        doing: &'static str,
        /// NVMe status or error number.
        answer: String,
    },
}

impl From<NvmeProblem> for DriveProblem {
    fn from(problem: NvmeProblem) -> DriveProblem {
        DriveProblem::Nvme(problem)
    }
}

/// Nodes of a namespace, held for as long as this lives.
#[derive(Debug)]
pub struct Node {
    file: File,
    /// The block node, open exclusively.
    block: Option<File>,
}

impl Node {
    /// Character node.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// True when completions of the namespace can be polled.
    pub(super) fn can_poll(&self) -> bool {
        self.block.as_ref().is_some_and(lane::can_poll)
    }
}

/// Namespace that answers questions.
#[derive(Debug)]
struct Session<'a> {
    file: &'a File,
    number: u32,
    path: &'a Path,
}

/// What a drive says of itself.
#[derive(Debug)]
pub struct Found {
    /// Identity.
    pub identity: Identity,
    /// What it does otherwise than it says.
    pub quirks: Quirks,
    /// Zones and limits.
    pub geometry: Geometry,
    /// All zones.
    pub zones: Vec<ZoneDescriptor>,
}

impl Found {
    /// Name of the namespace that no other one has and that stays.
    #[must_use]
    pub fn name(&self) -> String {
        self.identity.name(self.quirks)
    }

    /// Identity of the drive.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.identity.uuid(self.quirks)
    }

    /// Zones that are not empty.
    #[must_use]
    pub fn written_zones(&self) -> usize {
        self.zones.iter().filter(|zone| zone.state != ZoneState::Empty).count()
    }
}

/// A drive that is open, and who it is.
#[derive(Debug)]
pub struct OpenDrive {
    /// The drive.
    pub drive: NvmeDrive,
    /// What it said of itself as it was opened.
    pub found: Found,
}

/// Opens the drive of a character node, for this process alone.
///
/// # Errors
/// When it is in use, cannot be used, or this user may not.
pub fn open_path(path: &Path) -> Result<OpenDrive, DriveError> {
    open_if(path, None)
}

/// The same, if it is the drive of this identity. Another one gets no command but to identify itself.
///
/// # Errors
/// As for [`open_path`], and when it is another drive.
pub fn open_if(path: &Path, wanted: Option<[u8; 16]>) -> Result<OpenDrive, DriveError> {
    open(path, None, wanted).map_err(|problem| DriveError::new(path, problem))
}

/// The same as if nothing were known of the faults of its model, to find out whether it has them.
///
/// # Errors
/// As for [`open_path`].
pub fn open_without_quirks(path: &Path) -> Result<OpenDrive, DriveError> {
    open(path, Some(Quirks::default()), None).map_err(|problem| DriveError::new(path, problem))
}

fn open(path: &Path, quirks: Option<Quirks>, wanted: Option<[u8; 16]>) -> Result<OpenDrive, DriveProblem> {
    let node = hold(path)?;
    let session = Session::new(node.file(), path)?;
    if wanted.is_some() {
        let identity = session.identity()?;
        DriveProblem::expect(identity.uuid(Quirks::of(&identity.controller)), wanted)?;
    }
    session.manage_all(Transition::Close, "close its open zones")?;
    let found = session.look_with(quirks)?;
    let number = session.number;
    let ring = Ring::new(node, number).map_err(io_problem("use io_uring (Linux 6.0 or later is needed)"))?;
    Ok(OpenDrive { drive: NvmeDrive::new(found.geometry, found.quirks, ring, &found.zones), found })
}

/// Handling of zones that can be written no more as a drive is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WornZones {
    /// Such a drive is refused.
    Refused,
    /// They stay as they are.
    Left,
}

/// Empties a drive that nobody uses. `show` is told how many zones of how many are done.
///
/// # Errors
/// When it is in use, cannot be used, or fails.
pub fn erase(
    path: &Path,
    worn: WornZones,
    show: &mut dyn FnMut(usize, usize),
) -> Result<Emptied, DriveError> {
    erase_zones(path, worn, show).map_err(|problem| DriveError::new(path, problem))
}

fn erase_zones(
    path: &Path,
    worn: WornZones,
    show: &mut dyn FnMut(usize, usize),
) -> Result<Emptied, DriveProblem> {
    let node = hold(path)?;
    let session = Session::new(node.file(), path)?;
    let found = session.look()?;
    let mut emptied = Emptied::default();
    for (zone, descriptor) in (0..).zip(&found.zones) {
        let transition = Transition::Reset;
        let zone_start = u64::from(zone) * u64::from(found.geometry.zone_size_blocks);
        match descriptor.state {
            ZoneState::Empty => {}
            state @ (ZoneState::ReadOnly | ZoneState::Offline) if worn == WornZones::Refused => {
                return Err(NvmeProblem::Worn { zone, state }.into());
            }
            ZoneState::ReadOnly | ZoneState::Offline => emptied.zones_worn += 1,
            _ => {
                let action = Action::Manage { zone_start, transition };
                session.ask("reset a zone", action, &mut Payload::default())?;
                emptied.zones_reset += 1;
            }
        }
        show(zone as usize + 1, found.zones.len());
    }
    session.ask("flush its cache", Action::Flush, &mut Payload::default())?;
    Ok(emptied)
}

/// Looks at a drive, which may be in use.
///
/// # Errors
/// When it cannot be used, or this user may not.
pub fn look(path: &Path) -> Result<Found, DriveError> {
    let found = open_node(path, false).and_then(|file| Session::new(&file, path)?.look());
    found.map_err(|problem| DriveError::new(path, problem))
}

/// What a drive says of its health. It may be in use; its node may be the one that takes commands, or the block node.
///
/// # Errors
/// When the drive does not say, or this user may not ask.
pub fn health(path: &Path) -> Result<Health, DriveError> {
    let ask = |file: File| {
        let mut payload = Payload::of_bytes(LOG_BYTES);
        Session::new(&file, path)?.ask("tell its health", Action::Health, &mut payload)?;
        let log = payload.bytes.first_chunk().expect("a log of this length");
        Ok(Health::parse(log))
    };
    open_node(path, false).and_then(ask).map_err(|problem| DriveError::new(path, problem))
}

/// True when somebody has the drive for himself alone.
///
/// # Errors
/// When that cannot be told.
pub fn is_held(path: &Path) -> io::Result<bool> {
    let held = |error: io::Error| match error.kind() {
        ErrorKind::ResourceBusy | ErrorKind::WouldBlock => Ok(true),
        _ => Err(error),
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return held(error),
    };
    if file.try_lock_shared().is_err() {
        return Ok(true);
    }
    let block = block_node_of(path).filter(|block| block.exists());
    block.map_or(Ok(false), |block| crate::ordinary::open::is_held(&block))
}

/// Block node of the namespace that a character node is of.
fn block_node_of(path: &Path) -> Option<PathBuf> {
    block_node(&kernel_name(path)?)
}

/// Opens both nodes for this process alone.
fn hold(path: &Path) -> Result<Node, DriveProblem> {
    let file = open_node(path, true)?;
    file.try_lock().map_err(|_| DriveProblem::InUse)?;
    let block = block_node_of(path).filter(|block| block.exists());
    let block = block.map(|block| hold_block(path, &block)).transpose()?;
    Ok(Node { file, block })
}

fn hold_block(path: &Path, block: &Path) -> Result<File, DriveProblem> {
    let flags = (OFlags::NONBLOCK | OFlags::EXCL).bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(block).map_err(|error| match error.kind() {
        ErrorKind::ResourceBusy => {
            DriveProblem::Held(format!("{} is mounted, or part of something else", block.display()))
        }
        ErrorKind::PermissionDenied => not_permitted(path, error).into(),
        _ => io_problem("open its block device")(error),
    })
}

fn open_node(path: &Path, writes: bool) -> Result<File, DriveProblem> {
    File::options().read(true).write(writes).open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => DriveProblem::NotFound,
        ErrorKind::PermissionDenied => not_permitted(path, error).into(),
        _ => io_problem("open the device")(error),
    })
}

fn not_permitted(path: &Path, source: io::Error) -> NvmeProblem {
    let block =
        block_node_of(path).unwrap_or_else(|| PathBuf::from("its block device")).display().to_string();
    NvmeProblem::NotPermitted { node: path.display().to_string(), block, source }
}

fn io_problem(doing: &'static str) -> impl FnOnce(io::Error) -> DriveProblem {
    move |source| DriveProblem::Io { doing, source }
}

impl<'a> Session<'a> {
    fn new(file: &'a File, path: &'a Path) -> Result<Session<'a>, DriveProblem> {
        let number = namespace_of(file).map_err(|_| DriveProblem::NotADevice)?;
        Ok(Session { file, number, path })
    }

    /// Carries a command out.
    fn ask(&self, doing: &'static str, action: Action, payload: &mut Payload) -> Result<(), NvmeProblem> {
        let result = carry_out(self.file, self.number, action, payload);
        let error = || io::Error::from_raw_os_error(-result);
        let answer = match result {
            0 => return Ok(()),
            ..0 if error().kind() == ErrorKind::PermissionDenied => {
                return Err(not_permitted(self.path, error()));
            }
            ..0 => error().to_string(),
            _ if matches!(action, Action::Identify { subject: Subject::ZonedNamespace })
                && result & STATUS_CODE == INVALID_FIELD =>
            {
                let block = block_node_of(self.path).unwrap_or_default();
                return Err(NvmeProblem::NoZones(block.display().to_string()));
            }
            _ => format!("NVMe status {result:#x}"),
        };
        Err(NvmeProblem::Refused { doing, answer })
    }

    fn page(&self, subject: Subject) -> Result<Box<Page>, NvmeProblem> {
        let mut payload = Payload::of_bytes(IDENTIFY_BYTES);
        self.ask("identify itself", Action::Identify { subject }, &mut payload)?;
        let mut page = Box::new([0; IDENTIFY_BYTES]);
        page.copy_from_slice(&payload.bytes);
        Ok(page)
    }

    fn format_problem(&self, problem: FormatProblem) -> NvmeProblem {
        let block = block_node_of(self.path).unwrap_or_else(|| self.path.to_owned());
        NvmeProblem::Format { problem, block: block.display().to_string() }
    }

    fn identity(&self) -> Result<Identity, DriveProblem> {
        let namespace = Namespace::parse(&*self.page(Subject::Namespace)?);
        let zoned = match (self.page(Subject::ZonedNamespace), namespace.problem_without_zones()) {
            (Err(NvmeProblem::NoZones(_)), Some(problem)) => return Err(self.format_problem(problem).into()),
            (page, _) => page?,
        };
        Ok(Identity {
            controller: Controller::parse(&*self.page(Subject::Controller)?),
            number: self.number,
            zoned: Zoned::parse(&zoned, namespace.format),
            namespace,
            append_blocks_max: append_blocks_max(&*self.page(Subject::ZonedController)?),
        })
    }

    fn manage_all(&self, transition: Transition, doing: &'static str) -> Result<(), NvmeProblem> {
        self.ask(doing, Action::ManageAll { transition }, &mut Payload::default())
    }

    /// Identity, geometry and zones.
    fn look(&self) -> Result<Found, DriveProblem> {
        self.look_with(None)
    }

    /// The same with these quirks, or those of its model.
    fn look_with(&self, quirks: Option<Quirks>) -> Result<Found, DriveProblem> {
        let identity = self.identity()?;
        let quirks = quirks.unwrap_or_else(|| Quirks::of(&identity.controller));
        let geometry = |zone_capacity_blocks| {
            identity.geometry(zone_capacity_blocks, quirks).map_err(|problem| self.format_problem(problem))
        };
        // The capacity is known when the zones are, and which areas fit.
        let zones = self.zones(&geometry(1)?)?;
        let others = zones.first().map_or(0, |zone| zone.capacity);
        if let Some((zone, found)) = (0..).zip(&zones).find(|(_, zone)| zone.capacity != others) {
            return Err(NvmeProblem::Capacities { zone, capacity: found.capacity, others }.into());
        }
        let geometry = geometry(others)?;
        check_geometry(&geometry)?;
        Ok(Found { identity, quirks, geometry, zones })
    }

    fn zones(&self, geometry: &Geometry) -> Result<Vec<ZoneDescriptor>, DriveProblem> {
        let mut zones = Vec::new();
        let mut first = 0;
        while first < geometry.zones {
            let count = (geometry.zones - first).min(report::zones_max(geometry));
            let mut payload = Payload::of_bytes(report::bytes_of(count));
            let zone_start = u64::from(first) * u64::from(geometry.zone_size_blocks);
            self.ask("report on its zones", Action::Report { zone_start }, &mut payload)?;
            let part = report::parse(&payload.bytes, (first, count), geometry.zone_size_blocks);
            zones.extend(part.map_err(NvmeProblem::Report)?);
            first += count;
        }
        Ok(zones)
    }
}

/// A drive that is only looked at, and may be in use.
#[derive(Debug)]
pub struct Peek {
    path: PathBuf,
    file: File,
    number: u32,
    /// What it says of itself.
    pub found: Found,
    /// Number of the node: the same under each name.
    pub file_id: (u64, u64),
}

impl Peek {
    /// Looks at the drive.
    ///
    /// # Errors
    /// When it cannot be used, or this user may not.
    pub fn open(path: &Path) -> Result<Peek, DriveError> {
        let peek = || {
            let file = open_node(path, false)?;
            let session = Session::new(&file, path)?;
            let (number, found) = (session.number, session.look()?);
            let metadata = file.metadata().map_err(io_problem("look at the device"))?;
            // No number of a block device, nor a file's.
            let file_id = (u64::MAX - 1, metadata.rdev());
            Ok(Peek { path: path.to_owned(), file, number, found, file_id })
        };
        peek().map_err(|problem| DriveError::new(path, problem))
    }

    /// Blocks of a zone that may hold something.
    #[must_use]
    pub fn written_blocks(&self, zone: u32) -> u32 {
        let found = self.found.zones.get(zone as usize);
        found.map_or(0, |zone| pointer_of(zone, &self.found.geometry))
    }

    /// Data of a block.
    ///
    /// # Errors
    /// When the drive cannot be read.
    pub fn block(&self, zone: u32, offset: u32) -> Result<Box<Block>, DriveError> {
        if offset >= self.written_blocks(zone) {
            return Ok(Box::new([0; BLOCK_BYTES]));
        }
        let block = u64::from(zone) * u64::from(self.found.geometry.zone_size_blocks) + u64::from(offset);
        let mut payload = Payload::of_frames(vec![Frame::zeroed()]);
        let session = Session { file: &self.file, number: self.number, path: &self.path };
        match session.ask("read a block", Action::Read { block }, &mut payload) {
            Ok(()) => Ok(Box::new(payload.frames[0].data)),
            // One block says nothing about the others.
            Err(NvmeProblem::Refused { .. }) => Ok(Box::new([0xff; BLOCK_BYTES])),
            Err(problem) => Err(DriveError::new(&self.path, problem.into())),
        }
    }
}
