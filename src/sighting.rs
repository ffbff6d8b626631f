//! A drive as its file shows it: looked at, not opened, so that it may be in use or not ours to write.

use crate::array_file::{DriveKind, DriveTable};
use crate::host::Host;
use array::log::{log_holds, may_leave_behind, spokesman};
use drive::any::{Kind, Peek};
use drive::emulated::{DriveError, DriveProblem};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use zone::device::Geometry;
use zone::format::SUPERBLOCK_ZONES;
use zone::format::superblock::Superblock;

/// Files of a folder that are looked at; a folder with more of them is no place for drives.
const FILES_MAX: usize = 10_000;

/// Facts about a drive from its file.
#[derive(Clone, Debug)]
pub struct Sighting {
    /// Path of the drive's file.
    pub path: PathBuf,
    /// Kind of the drive.
    pub kind: DriveKind,
    /// Name that the device has wherever it is attached, where it has one.
    pub id: Option<String>,
    /// Device of its identity journal, where that lies apart.
    pub journal: Option<PathBuf>,
    /// Identity of the drive.
    pub uuid: uuid::Uuid,
    /// Zones and limits of the drive.
    pub geometry: Geometry,
    /// Device and inode: the same under each name of the file.
    pub file_id: (u64, u64),
    /// Time at which the file was last written.
    pub modified: Option<SystemTime>,
    /// Newest superblock of the drive; none on a drive that is in no array.
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
        let kind = match peek.kind() {
            Kind::Emulated => DriveKind::Emulated,
            Kind::Nvme => DriveKind::NvmeZns,
            Kind::Conventional if path.is_file() => DriveKind::RawFile,
            Kind::Conventional => DriveKind::Conventional,
            Kind::Zoned => DriveKind::Zoned,
        };
        let id = match kind {
            DriveKind::Emulated | DriveKind::RawFile => None,
            DriveKind::NvmeZns => peek.own_name(),
            DriveKind::Conventional | DriveKind::Zoned => Host::here().node_at(path).and_then(|node| node.id),
        };
        let mut sighting = Sighting {
            path: path.to_owned(),
            kind,
            id,
            journal: peek.journal_path().map(Path::to_owned),
            uuid: uuid::Uuid::from_bytes(peek.uuid()),
            geometry: *peek.geometry(),
            file_id: peek.file_id(),
            modified: peek.modified(),
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

    /// True when the superblock log of the drive holds this record, as one of its own.
    fn has_written(&self, wanted: &Superblock) -> Result<bool, DriveError> {
        let peek = Peek::open(&self.path)?;
        for zone in 0..SUPERBLOCK_ZONES {
            let mut problem = None;
            let blocks = (0..peek.written_blocks(zone)?)
                .rev()
                .map_while(|offset| peek.block(zone, offset).map_err(|error| problem = Some(error)).ok());
            let holds = log_holds(blocks.filter_map(|block| Superblock::decode(&block)), wanted);
            match problem {
                _ if holds => return Ok(true),
                Some(error) => return Err(error),
                None => {}
            }
        }
        Ok(false)
    }

    /// Entry of the drive in `array.toml`, under this path.
    pub fn table(&self, path: PathBuf) -> DriveTable {
        let (id, journal) = (self.id.clone(), self.journal.clone());
        DriveTable { kind: Some(self.kind), path, id, journal, uuid: self.uuid }
    }

    /// The array that the drive is in.
    pub fn array(&self) -> Option<uuid::Uuid> {
        self.record.as_ref().map(|record| uuid::Uuid::from_bytes(record.array))
    }

    /// Returns the drive's number in the array.
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
        Err(DriveError {
            problem: DriveProblem::NotAFile | DriveProblem::NotFound | DriveProblem::NoDriveOnDevice,
            ..
        }) => None,
        Err(error) => {
            log::debug!("{error}");
            None
        }
    };
    Ok(paths.iter().filter_map(look).collect())
}

/// Adds the drives among the files of these folders. Of devices none are looked at here.
pub fn add_in_folders(folders: BTreeSet<PathBuf>, seen: &mut Vec<Sighting>) {
    let is_of_files = |folder: &PathBuf| !folder.starts_with("/dev") || folder.starts_with("/dev/shm");
    for folder in folders.into_iter().filter(is_of_files) {
        match in_folder(&folder) {
            Ok(more) => add_new(seen, more),
            Err(error) => log::debug!("{}: {error}", folder.display()),
        }
    }
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

/// The record that speaks for the array of these drives, as the engine chooses.
pub fn speaker<'a>(sightings: impl Iterator<Item = &'a Sighting>) -> Option<Superblock> {
    let (drives, records): (Vec<&Sighting>, Vec<&Superblock>) =
        sightings.filter_map(|sighting| Some((sighting, sighting.record.as_ref()?))).unzip();
    speaker_of(&records, |place, wanted| {
        drives[place].has_written(wanted).unwrap_or_else(|error| {
            log::warn!("{error}");
            false
        })
    })
}

/// The record that speaks for the drives with these. The files of drives that were replaced may lie about still, and deny who replaced
/// them: where nobody is left to speak, those whom the newest record names are asked alone. Of these, drives are not heard whose
/// newest record another one wrote, too, and newer ones after it: `has_written` tells by its log whether the drive in a place has.
fn speaker_of(
    records: &[&Superblock],
    has_written: impl Fn(usize, &Superblock) -> bool,
) -> Option<Superblock> {
    let newest = *records.iter().max_by_key(|record| record.version())?;
    let uuid_in =
        |record: &Superblock, member: u8| record.members.get(usize::from(member)).map(|member| member.uuid);
    let is_named = |record: &Superblock| uuid_in(newest, record.member) == uuid_in(record, record.member);
    let is_left_behind = |record: &Superblock| {
        let mut others = records.iter().enumerate().filter(|(_, other)| is_named(other));
        others.any(|(place, other)| may_leave_behind(other, record) && has_written(place, record))
    };
    let mut heard = records.to_vec();
    spokesman(&heard)
        .or_else(|| {
            heard.retain(|record| is_named(record));
            spokesman(&heard)
        })
        .or_else(|| {
            heard.retain(|record| !is_left_behind(record));
            spokesman(&heard)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::erasure::PieceSet;
    use zone::format::superblock::{Member, MemberState, Version};

    /// The record of a drive: its number, generation, what had settled, and who the members are.
    fn record(member: u8, generation: u64, settled: u64, members: [(u8, MemberState); 3]) -> Superblock {
        Superblock {
            array: [7; 16],
            member,
            generation,
            epoch: 1,
            data_count: 2,
            parity_count: 1,
            level: 5,
            chunk_blocks: 1,
            group_stripes: 1,
            zones: 20,
            zone_size_blocks: 64,
            zone_capacity_blocks: 64,
            volume_blocks: 100,
            large_chunk_blocks: 0,
            segments_small: 1,
            segments_large: 0,
            append: 0,
            rebuild_from: 0,
            windows_gone: PieceSet::EMPTY,
            checkpoint: None,
            settled: Version { epoch: 1, generation: settled },
            mount_tag: 0,
            members: members.map(|(uuid, state)| Member { uuid: [uuid; 16], state }).to_vec(),
        }
    }

    const ALL: [(u8, MemberState); 3] =
        [(0, MemberState::Active), (1, MemberState::Active), (2, MemberState::Active)];

    fn generation_of_speaker(records: &[Superblock]) -> Option<u64> {
        speaker_of(&records.iter().collect::<Vec<_>>(), |_, _| false).map(|record| record.generation)
    }

    #[test]
    fn an_older_copy_accuses_nobody() {
        // As it was before drive 0 came back from a failure; it has settled since that all are there.
        let failed = [(0, MemberState::Failed), ALL[1], ALL[2]];
        let records = [record(0, 9, 8, ALL), record(1, 9, 8, ALL), record(2, 5, 4, failed)];
        let speaker = speaker_of(&records.iter().collect::<Vec<_>>(), |_, _| false).expect("two agree");
        assert_eq!((speaker.generation, speaker.members[0].state), (9, MemberState::Active));
    }

    #[test]
    fn drives_that_were_replaced_are_not_asked_when_all_accuse_one_another() {
        let [a, b, c] = ALL;
        let (d, e, f) = ((3, a.1), (4, a.1), (5, a.1));
        let records = [
            record(0, 3, 0, [a, b, c]),
            record(1, 5, 0, [d, b, c]),
            record(2, 7, 0, [d, e, c]),
            record(0, 9, 0, [d, e, f]),
            record(1, 9, 0, [d, e, f]),
            record(2, 9, 0, [d, e, f]),
        ];
        assert_eq!(generation_of_speaker(&records), Some(9));
        // Parts that were used apart: no age decides between them.
        let apart = [
            record(0, 9, 0, [a, (1, MemberState::Failed), (2, MemberState::Failed)]),
            record(1, 5, 0, [(0, MemberState::Failed), b, c]),
            record(2, 5, 0, [(0, MemberState::Failed), b, c]),
        ];
        assert_eq!(generation_of_speaker(&apart), None);
    }

    #[test]
    fn drives_that_were_left_behind_are_not_heard_when_all_accuse_one_another() {
        let failed = |member: (u8, MemberState)| (member.0, MemberState::Failed);
        let [a, b, c] = ALL;
        // 1 and 2 failed, 1 came back, 0 failed: 2 has not heard of 1 since.
        let records = [
            record(0, 7, 0, [a, b, failed(c)]),
            record(1, 9, 0, [failed(a), b, failed(c)]),
            record(2, 3, 0, [a, failed(b), c]),
        ];
        let records: Vec<&Superblock> = records.iter().collect();
        assert_eq!(speaker_of(&records, |_, _| false), None);
        let speaker = speaker_of(&records, |place, wanted| place == 1 && wanted.member == 2);
        assert_eq!(
            speaker.map(|speaker| speaker.generation),
            Some(9),
            "drive 1 wrote what 2 says, and more since"
        );
    }
}
