//! A drive as its file shows it: looked at, not opened, so that it may be in use or not ours to write.

use drive::emulated::{DriveError, DriveProblem, Peek};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use zone::device::Geometry;
use zone::format::SUPERBLOCK_ZONES;
use zone::format::superblock::{MemberState, Superblock};

/// Files of a folder that are looked at; a folder with more of them is no place for drives.
const FILES_MAX: usize = 10_000;

/// What is known of a drive from its file.
#[derive(Clone, Debug)]
pub struct Sighting {
    /// Its file.
    pub path: PathBuf,
    /// Identity of the drive.
    pub uuid: uuid::Uuid,
    /// Its zones and limits.
    pub geometry: Geometry,
    /// Device and inode: the same under each name of the file.
    pub file_id: (u64, u64),
    /// When the file was last written.
    pub modified: Option<SystemTime>,
    /// Its newest superblock; none on a drive that is in no array.
    pub record: Option<Superblock>,
    /// Format version of a superblock that this program cannot read.
    pub other_version: Option<u32>,
    /// Blocks behind the newest superblock that hold none that is whole: torn or damaged.
    pub records_damaged: u32,
    /// No zone but those of superblocks was ever written.
    pub holds_no_data: bool,
}

impl Sighting {
    /// Looks at the drive in this file.
    ///
    /// # Errors
    /// As for opening the drive, but that it may be in use.
    pub fn of(path: &Path) -> Result<Sighting, DriveError> {
        let peek = Peek::open(path)?;
        let mut sighting = Sighting {
            path: path.to_owned(),
            uuid: uuid::Uuid::from_bytes(peek.uuid()),
            geometry: *peek.geometry(),
            file_id: peek.file_id,
            modified: peek.modified,
            record: None,
            other_version: None,
            records_damaged: 0,
            holds_no_data: true,
        };
        for zone in 0..SUPERBLOCK_ZONES {
            sighting.read_records(&peek, zone)?;
        }
        for zone in SUPERBLOCK_ZONES..sighting.geometry.zones {
            if peek.written_blocks(zone)? > 0 {
                sighting.holds_no_data = false;
                break;
            }
        }
        Ok(sighting)
    }

    /// Finds the newest whole superblock of a zone.
    fn read_records(&mut self, peek: &Peek, zone: u32) -> Result<(), DriveError> {
        let mut damaged = 0;
        for offset in (0..peek.written_blocks(zone)?).rev() {
            let block = peek.block(zone, offset)?;
            if let Some(record) = Superblock::decode(&block) {
                if self.record.as_ref().is_none_or(|before| record.generation > before.generation) {
                    self.record = Some(record);
                    self.records_damaged = damaged;
                }
                return Ok(());
            }
            self.other_version = self.other_version.or(Superblock::other_version(&block));
            // The rest of a zone that was finished is zeros.
            damaged += u32::from(block.iter().any(|byte| *byte != 0));
        }
        Ok(())
    }

    /// The array that the drive is in.
    pub fn array(&self) -> Option<uuid::Uuid> {
        self.record.as_ref().map(|record| uuid::Uuid::from_bytes(record.array))
    }

    /// Its number in the array.
    pub fn member(&self) -> Option<usize> {
        self.record.as_ref().map(|record| usize::from(record.member))
    }
}

/// The drives among the files of a folder, by name. Files that cannot be looked at are left out; files of other
/// kinds are not drives.
pub fn in_folder(folder: &Path) -> std::io::Result<Vec<Sighting>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            continue;
        }
        if paths.len() == FILES_MAX {
            log::warn!(
                "{}: has more than {FILES_MAX} files; drives are not looked for here",
                folder.display()
            );
            return Ok(Vec::new());
        }
        paths.push(entry.path());
    }
    paths.sort();
    let look = |path: &PathBuf| match Sighting::of(path) {
        Ok(sighting) => Some(sighting),
        Err(DriveError { problem: DriveProblem::NotADrive | DriveProblem::TooShort { .. }, .. }) => None,
        Err(DriveError { problem: DriveProblem::NotAFile | DriveProblem::NotFound, .. }) => None,
        Err(error) => {
            log::debug!("{error}");
            None
        }
    };
    Ok(paths.iter().filter_map(look).collect())
}

/// Adds those that are not there yet under another name.
pub fn add_new(all: &mut Vec<Sighting>, more: Vec<Sighting>) {
    for sighting in more {
        if all.iter().all(|known| known.file_id != sighting.file_id) {
            all.push(sighting);
        }
    }
}

/// Two files that are the same drive: one is a copy.
pub fn clone_among<'a>(
    sightings: impl Iterator<Item = &'a Sighting> + Clone,
) -> Option<(&'a Sighting, &'a Sighting)> {
    let mut others = sightings.clone();
    sightings.into_iter().find_map(|one| {
        others.next();
        others.clone().find(|other| other.uuid == one.uuid).map(|other| (one, other))
    })
}

/// The refusal of a drive that was copied.
pub fn clone_error(one: &Sighting, other: &Sighting) -> anyhow::Error {
    crate::exit::Exit::Failed.error(format!(
        "{} and {} are the same drive (uuid {}): one is a copy of the other; move the one that is not to be used to \
         another directory; nothing was changed",
        one.path.display(),
        other.path.display(),
        one.uuid
    ))
}

/// The record that speaks for an array, of those of its drives: the newest of a drive that no other calls failed or
/// replaced, with everything that such drives call failed. As the engine chooses, which has the last word.
pub fn speaker<'a>(records: impl Iterator<Item = &'a Superblock> + Clone) -> Option<Superblock> {
    let denies = |judge: &Superblock, record: &Superblock| {
        let index = usize::from(record.member);
        let (judged, itself) = (judge.members.get(index), record.members.get(index));
        judged.is_some_and(|judged| {
            judged.state == MemberState::Failed || itself.is_some_and(|itself| itself.uuid != judged.uuid)
        })
    };
    // The file of a drive that was replaced may lie about still, and deny who replaced it.
    let age = |record: &Superblock| (record.epoch, record.generation);
    let is_heard =
        |judge: &Superblock, record: &Superblock| age(judge) >= age(record) || !denies(record, judge);
    let accused =
        |record: &Superblock| records.clone().any(|judge| denies(judge, record) && is_heard(judge, record));
    let trusted = || records.clone().filter(|record| !accused(record));
    let mut speaker = trusted().max_by_key(|record| record.generation)?.clone();
    for judge in trusted() {
        for (member, said) in speaker.members.iter_mut().zip(&judge.members) {
            if said.state == MemberState::Failed && said.uuid == member.uuid {
                member.state = MemberState::Failed;
            }
        }
    }
    Some(speaker)
}
