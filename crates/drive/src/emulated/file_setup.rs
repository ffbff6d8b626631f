//! Creating, opening and describing the file of a drive.
//!
//! A file is created in an order that leaves no half-made drive: length and zone table first, the
//! header last. What an interrupted creation leaves is "not a Zoneweave drive".
//!
//! On a disk the blocks of a new file are a hole, and a zone takes space when it is first written.
//! In memory everything is allocated, because a mapped page that cannot be is a SIGBUS later:
//! creating takes 0.3 s/GiB, opening 0.3 s/GiB, and both say so when the memory is not there.

use super::entry::{ENTRY_BYTES, pack, unpack};
use super::error::{DriveError, DriveProblem, check_geometry};
use super::file::FileMedia;
use super::header::{FileLayout, Header, PAGE_BYTES, check_block_format};
use super::map::SharedMap;
use super::mapped::MappedMedia;
use super::media::Media;
use super::watch::Watch;
use crate::ordinary::NotPermitted;
use base::units::ZoneIndex;
use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use zone::device::{Geometry, ZoneState};
use zone::rules::Zone;

/// Options of a new drive.
#[derive(Clone, Copy, Debug)]
pub struct CreateOptions {
    /// Zones and limits. `volatile_cache` is ignored: it follows from where the file lies.
    pub geometry: Geometry,
    /// Identity of the drive.
    pub uuid: [u8; 16],
    /// Data bytes of a block; only 4096 will do.
    pub block_bytes: u32,
    /// Metadata bytes of a block; only 64 will do.
    pub oob_bytes: u32,
}

impl CreateOptions {
    /// A drive with the only block format there is.
    #[must_use]
    pub fn new(geometry: Geometry, uuid: [u8; 16]) -> CreateOptions {
        CreateOptions { geometry, uuid, block_bytes: 4096, oob_bytes: 64 }
    }
}

/// Description that a drive's file gives of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Identity of the drive.
    pub uuid: [u8; 16],
    /// Zones and limits; `volatile_cache` as the file lies now.
    pub geometry: Geometry,
    /// Counts of zones by state.
    pub zones: ZoneCounts,
    /// Space that the file takes: of a drive in memory all its length, of one on a disk what was
    /// ever written.
    pub allocated_bytes: u64,
}

/// Zones by state. Open zones are kept as closed and counted as active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneCounts {
    /// Nothing written.
    pub empty: u32,
    /// Open or closed.
    pub active: u32,
    /// Nothing more can be written.
    pub full: u32,
    /// Can only be read.
    pub read_only: u32,
    /// Lost.
    pub offline: u32,
    /// Entry damaged: the drive cannot be opened.
    pub damaged: u32,
}

/// Creates the file of a drive. It refuses to overwrite, and leaves nothing behind when it fails.
///
/// # Errors
/// What is wrong with the options or what the system refused.
pub fn create(path: &Path, options: &CreateOptions) -> Result<(), DriveError> {
    create_checked(path, options).map_err(|problem| DriveError::new(path, problem))
}

/// Reads what a drive is, without opening it: it may be in use.
///
/// # Errors
/// As for opening, but a damaged zone table is counted and not an error.
pub fn describe(path: &Path) -> Result<Description, DriveError> {
    describe_file(path).map_err(|problem| DriveError::new(path, problem))
}

/// A drive's file, locked, with the zones it holds.
pub(super) struct OpenedFile {
    pub(super) media: Media,
    pub(super) header: Header,
    pub(super) zones: Vec<Zone>,
    pub(super) watch: Watch,
}

/// Opens the file of a drive for this process alone.
pub(super) fn open(path: &Path, wanted: Option<[u8; 16]>) -> Result<OpenedFile, DriveProblem> {
    let file = open_file(path, OpenOptions::new().read(true).write(true))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(DriveProblem::InUse),
        Err(error) => return Err(DriveProblem::io("lock the file")(error)),
    }
    let header = read_header(&file)?;
    DriveProblem::expect(header.uuid, wanted)?;
    let layout = FileLayout::new(&header.geometry);
    let in_memory = !header.geometry.volatile_cache;
    allocate(&file, &layout, in_memory)?;
    let map = if in_memory { SharedMap::of_file } else { SharedMap::of_table };
    let map = map(&file, layout).map_err(DriveProblem::io("map the file"))?;
    let words = (0..header.geometry.zones).map(|zone| map.load(ZoneIndex(zone)));
    let zones = unpack_zones(&header.geometry, words)?;
    let watch = Watch::new(&file, path, !in_memory)?;
    let media = if in_memory {
        Media::Mapped(MappedMedia::new(file, map))
    } else {
        Media::File(FileMedia { file, path: path.to_owned(), layout, map, lacks_room: false })
    };
    Ok(OpenedFile { media, header, zones, watch })
}

/// The zones that the words of a zone table keep. Open ones come back closed.
pub(super) fn unpack_zones(
    geometry: &Geometry,
    words: impl Iterator<Item = u64>,
) -> Result<Vec<Zone>, DriveProblem> {
    let mut zones = Vec::with_capacity(geometry.zones as usize);
    let mut active = 0;
    for (zone, word) in (0..geometry.zones).zip(words) {
        let found = unpack(ZoneIndex(zone), word, geometry.zone_capacity_blocks)
            .map_err(|fault| DriveProblem::CorruptZone { zone, fault })?;
        active += u32::from(found.state.is_active());
        zones.push(found);
    }
    let active_max = geometry.active_zones_max;
    if active > active_max {
        return Err(DriveProblem::TooManyActiveZones { active, active_max });
    }
    Ok(zones)
}

fn create_checked(path: &Path, options: &CreateOptions) -> Result<(), DriveProblem> {
    check_block_format(options.block_bytes, options.oob_bytes)?;
    check_geometry(&options.geometry)?;
    // What clients write is for the owner alone.
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
    let file = file.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => DriveProblem::AlreadyExists,
        ErrorKind::NotFound => DriveProblem::NoDirectory,
        _ => DriveProblem::io("create the file")(error),
    })?;
    let filled = fill_new_file(&file, options).and_then(|()| sync_directory_of(path));
    if filled.is_err()
        && let Err(error) = std::fs::remove_file(path)
    {
        log::warn!("drive {}: cannot remove what was left of it: {error}", path.display());
    }
    filled
}

fn fill_new_file(file: &File, options: &CreateOptions) -> Result<(), DriveProblem> {
    let layout = FileLayout::new(&options.geometry);
    file.set_len(layout.file_bytes()).map_err(DriveProblem::io("set the length of the file"))?;
    allocate(file, &layout, lies_in_memory(file)?)?;
    file.write_all_at(&empty_tables(&layout), FileLayout::TABLE_AT)
        .map_err(DriveProblem::io("write the zone table"))?;
    file.sync_all().map_err(DriveProblem::io("write the zone table"))?;
    let header = Header { geometry: options.geometry, uuid: options.uuid };
    file.write_all_at(&header.encode(), 0).map_err(DriveProblem::io("write the header"))?;
    file.sync_all().map_err(DriveProblem::io("write the header"))
}

/// Zone table, and table of windows without an owner.
fn empty_tables(layout: &FileLayout) -> Vec<u8> {
    let empty = Zone::new(ZoneState::Empty, 0);
    let zones = (0..layout.zones()).flat_map(|zone| pack(ZoneIndex(zone), empty).to_le_bytes());
    let mut tables: Vec<u8> = zones.collect();
    let bytes = usize::try_from(layout.blocks_at() - FileLayout::TABLE_AT).expect("64 bits each");
    tables.resize(bytes, 0);
    tables
}

/// Makes the new name itself survive a power failure.
fn sync_directory_of(path: &Path) -> Result<(), DriveProblem> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = File::open(parent).map_err(DriveProblem::io("open the directory of the file"))?;
    directory.sync_all().map_err(DriveProblem::io("write the directory of the file"))
}

/// Takes the space of all that will be mapped now, so that a store to it cannot find the file system
/// full: header and zone table, and in memory also the blocks. Space that the file has stays as it
/// is. File systems that cannot allocate have the table written out by `create` instead; among those
/// in memory that is ramfs, which has no limit.
fn allocate(file: &File, layout: &FileLayout, in_memory: bool) -> Result<(), DriveProblem> {
    let bytes = if in_memory { layout.file_bytes() } else { layout.blocks_at() };
    allocate_range(file, 0..bytes, (in_memory, "allocate the zone table"))?;
    if in_memory || layout.window_words() == 0 {
        return Ok(());
    }
    // No write in a window may find that its second place does not fit.
    allocate_range(file, layout.seconds_at()..layout.file_bytes(), (in_memory, "allocate the windows"))
}

fn allocate_range(
    file: &File,
    range: Range<u64>,
    (in_memory, doing): (bool, &'static str),
) -> Result<(), DriveProblem> {
    let bytes = range.end - range.start;
    loop {
        return match rustix::fs::fallocate(file, FallocateFlags::empty(), range.start, bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
            Err(Errno::INTR) => continue,
            Err(Errno::NOSPC) if in_memory => Err(no_memory(file, bytes)?),
            Err(error) => Err(DriveProblem::io(doing)(error)),
        };
    }
}

fn no_memory(file: &File, bytes: u64) -> Result<DriveProblem, DriveProblem> {
    let statfs = rustix::fs::fstatfs(file).map_err(DriveProblem::io("ask for the file system"))?;
    let bytes_allocated =
        file.metadata().map_err(DriveProblem::io("read the length of the file"))?.blocks() * 512;
    let bytes_free = statfs.f_bavail * u64::try_from(statfs.f_bsize).unwrap_or(0);
    Ok(DriveProblem::NoMemory { bytes_needed: bytes.saturating_sub(bytes_allocated), bytes_free })
}

pub(super) fn open_file(path: &Path, options: &OpenOptions) -> Result<File, DriveProblem> {
    // Opening a pipe would wait for its other end, so what it is comes first.
    let metadata = std::fs::metadata(path).map_err(not_found_or("open the file"))?;
    if !metadata.is_file() {
        return Err(DriveProblem::NotAFile);
    }
    options.open(path).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => DriveProblem::NotPermitted(NotPermitted::new(path, error)),
        _ => not_found_or("open the file")(error),
    })
}

fn not_found_or(doing: &'static str) -> impl FnOnce(std::io::Error) -> DriveProblem {
    move |error| match error.kind() {
        ErrorKind::NotFound => DriveProblem::NotFound,
        _ => DriveProblem::io(doing)(error),
    }
}

pub(super) fn read_header(file: &File) -> Result<Header, DriveProblem> {
    let bytes = file.metadata().map_err(DriveProblem::io("read the length of the file"))?.len();
    let check_length = |bytes_needed| {
        if bytes < bytes_needed { Err(DriveProblem::TooShort { bytes, bytes_needed }) } else { Ok(()) }
    };
    check_length(PAGE_BYTES as u64)?;
    let mut page = [0; PAGE_BYTES];
    file.read_exact_at(&mut page, 0).map_err(DriveProblem::io("read the header"))?;
    let mut header = Header::decode(&page)?;
    check_length(FileLayout::new(&header.geometry).file_bytes())?;
    header.geometry.volatile_cache = !lies_in_memory(file)?;
    Ok(header)
}

/// A file system as far as new drives are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRoom {
    /// Device number: the same for all directories on the file system.
    pub device: u64,
    /// Bytes that it has left.
    pub bytes_free: u64,
    /// Set when the file system lies in memory, where drives take all of their room at once.
    pub in_memory: bool,
}

/// The file system that a directory lies on.
///
/// # Errors
/// When the directory cannot be opened.
pub fn host_room(directory: &Path) -> Result<HostRoom, DriveError> {
    let look = || {
        let folder = File::open(directory).map_err(DriveProblem::io("open the directory"))?;
        let device = folder.metadata().map_err(DriveProblem::io("open the directory"))?.dev();
        let statfs = rustix::fs::fstatfs(&folder).map_err(DriveProblem::io("ask for the file system"))?;
        let bytes_free = statfs.f_bavail.saturating_mul(u64::try_from(statfs.f_bsize).unwrap_or(0));
        Ok(HostRoom { device, bytes_free, in_memory: lies_in_memory(&folder)? })
    };
    look().map_err(|problem| DriveError::new(directory, problem))
}

/// Returns true when a power failure takes the whole file and a flush can change nothing about it.
fn lies_in_memory(file: &File) -> Result<bool, DriveProblem> {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    const RAMFS_MAGIC: u64 = 0x8584_58f6;
    let statfs = rustix::fs::fstatfs(file).map_err(DriveProblem::io("ask for the file system"))?;
    Ok([TMPFS_MAGIC, RAMFS_MAGIC].iter().any(|magic| u64::try_from(statfs.f_type) == Ok(*magic)))
}

fn describe_file(path: &Path) -> Result<Description, DriveProblem> {
    let file = open_file(path, OpenOptions::new().read(true))?;
    let Header { geometry, uuid } = read_header(&file)?;
    let table_bytes = usize::try_from(u64::from(geometry.zones) * ENTRY_BYTES).expect("8 bytes per zone");
    let mut table = vec![0; table_bytes];
    file.read_exact_at(&mut table, FileLayout::TABLE_AT).map_err(DriveProblem::io("read the zone table"))?;
    let mut zones = ZoneCounts::default();
    for (index, entry) in (0..geometry.zones).zip(table.chunks_exact(8)) {
        let word = base::bytes::u64_at(entry, 0);
        *match unpack(ZoneIndex(index), word, geometry.zone_capacity_blocks).map(|zone| zone.state) {
            Ok(ZoneState::Empty) => &mut zones.empty,
            Ok(ZoneState::ImplicitOpen | ZoneState::ExplicitOpen | ZoneState::Closed) => &mut zones.active,
            Ok(ZoneState::Full) => &mut zones.full,
            Ok(ZoneState::ReadOnly) => &mut zones.read_only,
            Ok(ZoneState::Offline) => &mut zones.offline,
            Err(_) => &mut zones.damaged,
        } += 1;
    }
    let metadata = file.metadata().map_err(DriveProblem::io("read the length of the file"))?;
    Ok(Description { uuid, geometry, zones, allocated_bytes: metadata.blocks() * 512 })
}
