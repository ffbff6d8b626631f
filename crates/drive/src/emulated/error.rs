//! What can be wrong with a drive's file or its geometry, said to the operator: which file, what is
//! wrong, what to do.

use super::entry::EntryError;
use base::units::human_bytes;
use std::path::{Path, PathBuf};
use thiserror::Error;
use zone::device::{Areas, Geometry};

/// A drive that cannot be created, opened or described.
#[derive(Debug, Error)]
#[error("drive {}: {problem}", path.display())]
pub struct DriveError {
    /// The drive's file; `(memory)` for a drive on the heap.
    pub path: PathBuf,
    /// Fault of the drive.
    #[source]
    pub problem: DriveProblem,
}

impl DriveError {
    pub(crate) fn new(path: &Path, problem: DriveProblem) -> DriveError {
        DriveError { path: path.to_owned(), problem }
    }
}

/// Fault of a drive.
#[derive(Debug, Error)]
pub enum DriveProblem {
    /// The file is not there.
    #[error("there is no such file: check the path, or create the drive first")]
    NotFound,
    /// The directory for a new file is not there.
    #[error("its directory does not exist: create the directory first")]
    NoDirectory,
    /// A new drive would overwrite something.
    #[error(
        "the file exists and will not be overwritten: choose another name, or remove it if nothing on it is needed"
    )]
    AlreadyExists,
    /// A directory, a device, a pipe.
    #[error("this is not a regular file: an emulated drive needs one")]
    NotAFile,
    /// A device on which no drive was made.
    #[error("no drive of Zoneweave is on this device: check the path")]
    NoDriveOnDevice,
    /// This user may not have it.
    #[error("cannot be opened: {0}")]
    NotPermitted(#[source] crate::ordinary::NotPermitted),
    /// The drive is open in another process (or in this one).
    #[error("the drive is in use by another process: stop that one first")]
    InUse,
    /// A drive that was to be the one of an array is another one.
    #[error("it is another drive (uuid {}), not the one of uuid {}", in_hex(found), in_hex(wanted))]
    OtherDrive {
        /// Identity of the drive.
        found: [u8; 16],
        /// Identity that it should have.
        wanted: [u8; 16],
    },
    /// Somebody uses the device.
    #[error("the device is in use: {0}; stop that first")]
    Held(String),
    /// Neither a file nor a block device.
    #[error("this is neither a file nor a block device")]
    NotADevice,
    /// A conventional drive cannot be opened or made.
    #[error("conventional drive: {0}")]
    Conventional(#[source] crate::conventional::OpenError),
    /// A zoned device without metadata cannot be opened as a drive, or made one.
    #[error("{0}")]
    Zoned(#[source] crate::zoned::ZonedProblem),
    /// The journal of a drive's identities is on another device, which is not there.
    #[error(
        "its identity journal {} is missing{}: connect the device that has it, or put the file back",
        in_hex(journal),
        hint.as_ref().map(|path| format!("; it was at {path}")).unwrap_or_default()
    )]
    JournalMissing {
        /// Identity of the drive.
        drive: [u8; 16],
        /// Identity of the journal.
        journal: [u8; 16],
        /// Path at which it was.
        hint: Option<String>,
    },
    /// Two devices have the journal of a drive's identities: one of them is a copy.
    #[error(
        "its identity journal {} is on two devices, {} and {}: take the copy away, which is older than what was answered",
        in_hex(journal),
        first.display(),
        second.display()
    )]
    JournalTwice {
        /// Identity of the drive.
        drive: [u8; 16],
        /// Identity of the journal.
        journal: [u8; 16],
        /// Path of one.
        first: PathBuf,
        /// Path of another.
        second: PathBuf,
    },
    /// An NVMe namespace cannot be opened as a drive.
    #[error("{0}")]
    Nvme(#[source] crate::nvme::open::NvmeProblem),
    /// Something has been cut off.
    #[error(
        "the file has {bytes} bytes and needs {bytes_needed}: it was cut short, or never was a drive; restore it from \
         a copy, or remove it and create the drive anew"
    )]
    TooShort {
        /// Length of the file.
        bytes: u64,
        /// Length that its header, or any header, demands.
        bytes_needed: u64,
    },
    /// The file holds something else.
    #[error(
        "the file is not a Zoneweave drive, or its creation was interrupted: check the path, or create it anew"
    )]
    NotADrive,
    /// The file is from another version of this program.
    #[error(
        "the drive has format version {found} and this program knows version {known}: use the matching version"
    )]
    WrongVersion {
        /// Version of the file.
        found: u32,
        /// Version of this program.
        known: u32,
    },
    /// The random write areas of the drive can do what this program does not know.
    #[error(
        "the drive has random write areas with flags {flags:#x}, of which this program knows bit 0: use the version that \
         made it"
    )]
    UnknownFlags {
        /// Flags of the file.
        flags: u32,
    },
    /// The header is damaged.
    #[error(
        "the header is damaged (its checksum is {computed:#010x}, {stored:#010x} is recorded): take the drive out of \
         the array and rebuild it onto a new one"
    )]
    BadChecksum {
        /// Checksum found in the header.
        stored: u32,
        /// Checksum of what the header holds.
        computed: u32,
    },
    /// The drive has blocks of another size.
    #[error(
        "this drive is formatted with {block_bytes}-byte blocks and {oob_bytes} bytes of metadata; Zoneweave needs \
         4096+64: format it so"
    )]
    BlockFormat {
        /// Data bytes of a block.
        block_bytes: u32,
        /// Metadata bytes of a block.
        oob_bytes: u32,
    },
    /// No drive can be like this.
    #[error("impossible geometry: {0}")]
    Geometry(#[from] GeometryError),
    /// An entry of the zone table is damaged.
    #[error(
        "zone {zone} has a damaged entry in the zone table ({fault}): take the drive out of the array and rebuild it \
         onto a new one"
    )]
    CorruptZone {
        /// The zone.
        zone: u32,
        /// Fault of the entry.
        fault: EntryError,
    },
    /// The zone table breaks the drive's own limit.
    #[error(
        "{active} zones are active and the drive allows {active_max}: the zone table is damaged; take the drive out \
         of the array and rebuild it onto a new one"
    )]
    TooManyActiveZones {
        /// Closed zones found.
        active: u32,
        /// The drive's limit.
        active_max: u32,
    },
    /// A drive in memory does not fit.
    #[error(
        "the drive lies in memory, takes all of its space at once and needs {} more, of which {} are free: use fewer \
         or smaller zones, enlarge or clean up this file system, or put the drive on a disk",
        human_bytes(*bytes_needed),
        human_bytes(*bytes_free)
    )]
    NoMemory {
        /// Bytes that the drive takes beyond those it has.
        bytes_needed: u64,
        /// Bytes that its file system has left.
        bytes_free: u64,
    },
    /// The operating system refused.
    #[error("cannot {doing}: {source}")]
    Io {
        /// Action that the system refused.
        doing: &'static str,
        /// Error of the system.
        source: std::io::Error,
    },
}

/// An identity as it is written everywhere.
fn in_hex(uuid: &[u8; 16]) -> uuid::Uuid {
    uuid::Uuid::from_bytes(*uuid)
}

impl DriveProblem {
    /// Refuses a drive that is not the one that is wanted, if one is.
    pub(crate) fn expect(found: [u8; 16], wanted: Option<[u8; 16]>) -> Result<(), DriveProblem> {
        match wanted {
            Some(wanted) if wanted != found => Err(DriveProblem::OtherDrive { found, wanted }),
            Some(_) | None => Ok(()),
        }
    }

    /// Turns a system error into a problem that says what was being done.
    pub(super) fn io<E: Into<std::io::Error>>(doing: &'static str) -> impl FnOnce(E) -> DriveProblem {
        move |error| DriveProblem::Io { doing, source: error.into() }
    }
}

/// Why no drive can have a geometry.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum GeometryError {
    /// Two zones hold superblocks; without a third there is no room for data.
    #[error("{zones} zones; a drive needs at least {ZONES_MIN}")]
    TooFewZones {
        /// Zones asked for.
        zones: u32,
    },
    /// Zones without blocks.
    #[error("the zone capacity is 0 blocks; it must be at least 1")]
    NoCapacity,
    /// Zones overlap.
    #[error("the zone capacity ({capacity_blocks} blocks) exceeds the zone size ({size_blocks} blocks)")]
    CapacityOverSize {
        /// Capacity asked for.
        capacity_blocks: u32,
        /// Size asked for.
        size_blocks: u32,
    },
    /// Nothing could be written.
    #[error("no zone may be open; allow at least 1")]
    NoOpenZones,
    /// An open zone is active.
    #[error("{open} zones may be open but only {active} active; allow as many active ones")]
    OpenOverActive {
        /// Open limit asked for.
        open: u32,
        /// Active limit asked for.
        active: u32,
    },
    /// Nothing could be appended.
    #[error("an append may have 0 blocks; allow at least 1")]
    NoAppend,
    /// Nothing could be read or written.
    #[error("a transfer may have 0 blocks; allow at least 1")]
    NoTransfer,
    /// A window is empty, or not whole granules.
    #[error(
        "a window of {window} blocks is no multiple of a granule of {granule}; make it one, of at least 1 block"
    )]
    WindowGranule {
        /// Window asked for.
        window: u32,
        /// Granule asked for.
        granule: u32,
    },
    /// A window is larger than a drive can say, or than half a zone.
    #[error(
        "a window of {window} blocks is too large; at most {window_max}, which is half a zone or {WINDOW_MAX}"
    )]
    WindowTooLarge {
        /// Window asked for.
        window: u32,
        /// Largest window of such zones.
        window_max: u32,
    },
    /// The write pointer could not reach the end of a zone.
    #[error(
        "the zone capacity ({capacity_blocks} blocks) is no multiple of the window's granule of {granule}"
    )]
    CapacityGranule {
        /// Capacity asked for.
        capacity_blocks: u32,
        /// Granule asked for.
        granule: u32,
    },
    /// Zones with a window are active.
    #[error("{zones_max} zones may have a window but only {active} may be active; allow at most as many")]
    AreasOverActive {
        /// Zones with a window asked for.
        zones_max: u32,
        /// Active limit asked for.
        active: u32,
    },
    /// The file would exceed what a file offset can say.
    #[error(
        "{zones} zones of {capacity_blocks} blocks exceed the largest possible file; use fewer or smaller zones"
    )]
    TooLarge {
        /// Zones asked for.
        zones: u32,
        /// Capacity asked for.
        capacity_blocks: u32,
    },
}

/// Fewest zones of a drive: two of superblocks and one of data.
pub const ZONES_MIN: u32 = 3;
/// Most blocks of a drive: 2^50 blocks with metadata stay below the 2^63 bytes of a file offset.
const BLOCKS_MAX: u64 = 1 << 50;

/// Most blocks of a window: what a drive can say of it.
const WINDOW_MAX: u32 = 65_535;

/// Checks the random write areas of a geometry.
fn check_areas(areas: &Areas, geometry: &Geometry) -> Result<(), GeometryError> {
    let (window, granule) = (areas.window_blocks, areas.granule_blocks);
    let (capacity_blocks, active) = (geometry.zone_capacity_blocks, geometry.active_zones_max);
    if granule == 0 || window == 0 || !window.is_multiple_of(granule) {
        return Err(GeometryError::WindowGranule { window, granule });
    }
    let window_max = WINDOW_MAX.min(capacity_blocks / 2);
    if window > window_max {
        return Err(GeometryError::WindowTooLarge { window, window_max });
    }
    if !capacity_blocks.is_multiple_of(granule) {
        return Err(GeometryError::CapacityGranule { capacity_blocks, granule });
    }
    if areas.zones_max > active {
        return Err(GeometryError::AreasOverActive { zones_max: areas.zones_max, active });
    }
    Ok(())
}

/// Checks that a drive can have this geometry.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn check_geometry(geometry: &Geometry) -> Result<(), GeometryError> {
    let Geometry { zones, zone_size_blocks: size_blocks, zone_capacity_blocks: capacity_blocks, .. } =
        *geometry;
    let (open, active) = (geometry.open_zones_max, geometry.active_zones_max);
    if zones < ZONES_MIN {
        return Err(GeometryError::TooFewZones { zones });
    }
    if capacity_blocks == 0 {
        return Err(GeometryError::NoCapacity);
    }
    if capacity_blocks > size_blocks {
        return Err(GeometryError::CapacityOverSize { capacity_blocks, size_blocks });
    }
    if open == 0 {
        return Err(GeometryError::NoOpenZones);
    }
    if open > active {
        return Err(GeometryError::OpenOverActive { open, active });
    }
    if geometry.append_blocks_max == 0 {
        return Err(GeometryError::NoAppend);
    }
    if geometry.transfer_blocks_max == 0 {
        return Err(GeometryError::NoTransfer);
    }
    if let Some(areas) = &geometry.areas {
        check_areas(areas, geometry)?;
    }
    if u64::from(zones) * u64::from(capacity_blocks) > BLOCKS_MAX {
        return Err(GeometryError::TooLarge { zones, capacity_blocks });
    }
    Ok(())
}
