//! Journals of identities on devices of their own: found by their identity, and opened beside the drive that needs them.

use super::device::faulty;
use crate::conventional::FileSource;
use crate::conventional::device::carry_out;
use crate::emulated::{DriveError, DriveProblem};
use crate::inband::header::Label;
use crate::inband::pair::{FoundPair, Pair, find_table, look, open};
use crate::inband::table::Table;
use crate::ordinary::OrdinaryDrive;
use crate::ordinary::open::Opened;
use base::units::BLOCK_BYTES;
use rustix::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Files beside the place of a journal that are looked at.
const NEIGHBOURS_MAX: usize = 256;

/// Table of the journal at a path, if one is there.
#[must_use]
pub fn journal_at(path: &Path) -> Option<Table> {
    table_at(path, None)
}

fn table_at(path: &Path, wanted: Option<[u8; 16]>) -> Option<Table> {
    // Other nodes are not even opened.
    let kind = std::fs::metadata(path).ok()?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return None;
    }
    let opened = Opened::to_read(path).ok()?;
    find_table(&mut FileSource::new(opened.file(), opened.sectors()), wanted).ok()
}

/// Block devices of this host.
fn block_devices() -> Vec<PathBuf> {
    let names = std::fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    names.map(|entry| Path::new("/dev").join(entry.file_name())).collect()
}

/// Files in the folder of a path.
fn neighbours(path: &Path) -> Vec<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.starts_with("/dev") || folder.starts_with("/dev/shm"));
    let entries = folder.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).take(NEIGHBOURS_MAX).collect()
}

/// Paths of the journal that a drive needs: where it was, else among the block devices, else beside the file that it was.
fn find(label: &Label, hint: Option<&str>) -> Vec<PathBuf> {
    let is_it = |path: &PathBuf| table_at(path, label.journal).is_some();
    let Some(hint) = hint.map(PathBuf::from) else {
        return block_devices().into_iter().filter(is_it).collect();
    };
    if is_it(&hint) {
        return vec![hint];
    }
    let found: Vec<PathBuf> = block_devices().into_iter().filter(is_it).collect();
    if found.is_empty() { neighbours(&hint).into_iter().filter(is_it).collect() } else { found }
}

/// The one path of the journal that a drive needs: of two copies, one is older than what was answered.
fn expect_found(path: &Path, label: &Label, hint: Option<&str>) -> Result<PathBuf, DriveError> {
    let (drive, journal) = (label.uuid, label.journal.unwrap_or_default());
    let problem = match find(label, hint).as_slice() {
        [] => DriveProblem::JournalMissing { drive, journal, hint: hint.map(str::to_owned) },
        [path] => return Ok(path.clone()),
        [first, second, ..] => {
            DriveProblem::JournalTwice { drive, journal, first: first.clone(), second: second.clone() }
        }
    };
    Err(DriveError::new(path, problem))
}

/// Opens the journal that a drive needs, by nobody else.
pub(super) fn open_pair(
    drive: &Path,
    label: &Label,
    hint: Option<&str>,
    wake_fd: &OwnedFd,
) -> Result<Pair<OrdinaryDrive>, DriveError> {
    let path = expect_found(drive, label, hint)?;
    let disk = open_disk(&path, wake_fd)?;
    open(disk, label, &mut |disk, op| carry_out(disk, wake_fd, op))
        .map_err(|problem| faulty(&path, crate::inband::OpenError::from(problem)))
}

/// Opens the device of a journal to be written, by nobody else.
pub(super) fn open_disk(path: &Path, wake_fd: &OwnedFd) -> Result<OrdinaryDrive, DriveError> {
    let io = |doing| move |source| DriveError::new(path, DriveProblem::Io { doing, source });
    let mut opened = Opened::to_write(path).map_err(|error| DriveError::new(path, error.problem.into()))?;
    opened.make_direct_for(BLOCK_BYTES).map_err(io("read the device"))?;
    OrdinaryDrive::new(opened, wake_fd).map_err(io("use io_uring (Linux 6.0 or later is needed)"))
}

/// Journal that is only looked at.
#[derive(Debug)]
pub(super) struct PairPeek {
    pub(super) path: PathBuf,
    pub(super) opened: Opened,
    pub(super) found: FoundPair,
}

impl PairPeek {
    /// Looks at the journal that a drive needs.
    pub(super) fn open(drive: &Path, label: &Label, hint: Option<&str>) -> Result<PairPeek, DriveError> {
        let path = expect_found(drive, label, hint)?;
        let opened = Opened::to_read(&path).map_err(|error| DriveError::new(&path, error.problem.into()))?;
        let found = look(&mut FileSource::new(opened.file(), opened.sectors()), label)
            .map_err(|problem| faulty(&path, crate::inband::OpenError::from(problem)))?;
        Ok(PairPeek { path, opened, found })
    }
}
