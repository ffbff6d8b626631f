//! Who is believed: the newest superblock that counts says so, if a majority of its members is there.

use super::MountError;
use super::log::{Log, read_logs};
use super::media::Media;
use super::quorum::{Known, Rank};
use super::scan::Order;
use crate::format::NAMESPACES;
use crate::format::superblock::{Member, Superblock};
use crate::request::WallMillis;
use crate::shard::LogPlace;
use crate::shared::Mark;
use base::units::ZoneIndex;
use siphasher::sip::SipHasher24;
use std::hash::Hasher as _;

/// Agreement of the drives: superblock, members, quorum.
pub struct Agreed {
    /// The newest superblock that counts, with the latest of what any of them knows.
    pub newest: Superblock,
    /// Members whose drives count; others begin empty, or are missing.
    pub believed: Vec<bool>,
    /// Drives that are there and members: they have a say in the next record, empty or not.
    pub there: Vec<bool>,
    /// So many of these must hold the next record for it to count.
    pub quorum: usize,
    /// Entries that are not on the media, by records of which one counts.
    pub marks: Vec<Mark>,
    logs: Vec<Option<LogPlace>>,
    /// Drives that hold nothing but a record that was cut short, in zone 0.
    pub torn: Vec<usize>,
}

impl Agreed {
    /// Order to read drives, for a mount or for a check.
    pub fn order(&self, is_check: bool) -> Order<'_> {
        Order { cache: self.newest.cache, secret: &self.newest.secret, is_check }
    }

    /// Place in the superblock log of a member.
    pub fn log_of(&self, member: usize) -> LogPlace {
        self.logs[member].unwrap_or(LogPlace { zone: ZoneIndex(0), end: 0 })
    }

    /// Identities of the members from now on: a drive that joins has a new one, so that what was in its place is not taken
    /// for it.
    pub fn uuids(&self, epoch: u32) -> Vec<[u8; 16]> {
        let uuid = |(place, there): (usize, &bool)| match there {
            true => self.newest.members[place].uuid,
            false => self.fresh_uuid(place, epoch),
        };
        self.there.iter().enumerate().map(uuid).collect()
    }

    fn fresh_uuid(&self, place: usize, epoch: u32) -> [u8; 16] {
        let mut hasher = SipHasher24::new_with_key(&self.newest.secret);
        hasher.write(&self.newest.members[place].uuid);
        hasher.write_u32(epoch);
        hasher.write_usize(place);
        let mut uuid = self.newest.members[place].uuid;
        uuid[8..].copy_from_slice(&hasher.finish().to_le_bytes());
        uuid
    }
}

/// Reads all superblocks and decides who is believed.
pub fn agree(media: &mut Media<'_>) -> Result<Agreed, MountError> {
    let mut logs = read_logs(media)?;
    let drives = logs.len();
    // Records of before a drive was added know fewer places.
    for record in logs.iter_mut().flatten().flat_map(|log| &mut log.records) {
        let places = record.members.len().max(drives);
        record.members.resize(places, Member::nobody());
    }
    check_places(&logs)?;
    judge(&logs)
}

/// All drives are of one cache, and in their places.
fn check_places(logs: &[Option<Log>]) -> Result<(), MountError> {
    let newest = logs.iter().flatten().filter_map(Log::newest);
    let cache = newest.max_by_key(|record| record.generation).ok_or(MountError::NoCache)?.cache;
    for (place, log) in logs.iter().enumerate() {
        let Some(log) = log.as_ref().filter(|log| !log.is_blank) else { continue };
        let Some(newest) = log.newest().filter(|newest| newest.cache == cache) else {
            return Err(MountError::Foreign { place });
        };
        if log.records.iter().any(|record| record.members.len() > logs.len()) {
            return Err(MountError::NoMajority { present: logs.len(), members: newest.members.len() });
        }
        if log.member != place {
            return Err(MountError::WrongPlace { place, member: log.member });
        }
    }
    Ok(())
}

fn judge(logs: &[Option<Log>]) -> Result<Agreed, MountError> {
    let known = Known { logs };
    let Rank { newest, perhaps } = known.rank()?;
    let all: Vec<&Superblock> = std::iter::once(newest).chain(perhaps).collect();
    let is_there = |place| all.iter().all(|record| known.is_member(place, record));
    let there: Vec<bool> = (0..logs.len()).map(is_there).collect();
    let is_believed = |place| there[place] && all.iter().all(|record| known.is_as_recorded(place, record));
    let mut believed: Vec<bool> = (0..logs.len()).map(is_believed).collect();
    let count = |chosen: &[bool]| chosen.iter().filter(|chosen| **chosen).count();
    for record in &all {
        let members = record.in_use();
        let present = known.present(record);
        // The others may have gone on without these, and may come back without them.
        if present * 2 <= members {
            return Err(MountError::NoMajority { present, members });
        }
        if count(&believed) * 2 <= members {
            // All that are there may miss something.
            believed.fill(false);
        }
    }
    // So many that no record is made by the others alone.
    let quorum = all.iter().map(|record| record.in_use().div_ceil(2)).max().expect("one counts");
    if count(&there) < quorum {
        let members = all.iter().map(|record| record.in_use()).max().expect("one counts");
        return Err(MountError::NoMajority { present: count(&there), members });
    }
    let mut newest = newest.clone();
    for other in known.records() {
        newest.generation = newest.generation.max(other.generation);
        newest.epoch = newest.epoch.max(other.epoch);
        newest.wall = newest.wall.max(other.wall);
        for (below, other) in newest.clears.below.iter_mut().zip(&other.clears.below) {
            *below = (*below).max(*other);
        }
    }
    newest.clears.planned = planned(&all).ok_or_else(|| {
        let members = newest.in_use();
        MountError::NoMajority { present: count(&there), members }
    })?;
    let mut marks: Vec<Mark> = Vec::new();
    for mark in all.iter().filter_map(|record| record.mark) {
        if !marks.contains(&mark) {
            marks.push(mark);
        }
    }
    let is_torn = |place: &usize| logs[*place].as_ref().is_some_and(|log| log.is_torn);
    let torn = (0..logs.len()).filter(is_torn).collect();
    let logs = logs.iter().map(|log| log.as_ref().map(|log| log.place)).collect();
    Ok(Agreed { newest, believed, there, quorum, marks, logs, torn })
}

/// Times at which namespaces are to be cleared, by the records of which one counts; `None` when two of them name different times
/// for one. A clear that was done already, or called off, is done once more: a cache may forget.
fn planned(records: &[&Superblock]) -> Option<[Option<WallMillis>; NAMESPACES]> {
    let mut planned = [None; NAMESPACES];
    for record in records {
        for (planned, own) in planned.iter_mut().zip(&record.clears.planned) {
            if own.is_some() && planned.is_some() && own != planned {
                return None;
            }
            *planned = planned.or(*own);
        }
    }
    Some(planned)
}
