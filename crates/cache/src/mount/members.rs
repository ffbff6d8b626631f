//! Who is believed: the newest superblock that the drives know says so, if a majority of its members is there.

use super::{MountError, run};
use crate::format::SUPERBLOCK_ZONES;
use crate::format::stamp::{Kind, Stamp};
use crate::format::superblock::Superblock;
use crate::shard::LogPlace;
use base::frame::Frame;
use base::time::Instant;
use base::units::{DriveIndex, ZoneIndex};
use siphasher::sip::SipHasher24;
use std::hash::Hasher as _;
use zone::device::{Op, Status, ZoneState};
use zone::drives::DriveSet;

/// What the drives agree on.
pub struct Agreed {
    /// The newest superblock.
    pub newest: Superblock,
    /// Members whose drives count; others begin empty, or are missing.
    pub believed: Vec<bool>,
    /// Members in use of the newest superblock, there or not.
    pub members: usize,
    /// Drives that are there and among these members.
    pub there: Vec<bool>,
    logs: Vec<Option<LogPlace>>,
}

/// Superblock log of a drive.
struct Log {
    newest: Option<(Superblock, usize)>,
    place: LogPlace,
    is_blank: bool,
    /// A record that cannot be read may be newer than the newest.
    is_doubtful: bool,
}

impl Agreed {
    /// Place in the superblock log of a member.
    pub fn log_of(&self, member: usize) -> LogPlace {
        self.logs[member].unwrap_or(LogPlace { zone: ZoneIndex(0), end: 0 })
    }

    /// Identities of the members from now on: a drive that begins empty has a new one, so that what was in its place is
    /// not taken for it.
    pub fn uuids(&self, epoch: u32) -> Vec<[u8; 16]> {
        let uuid = |(place, believed): (usize, &bool)| match believed {
            true => self.newest.members[place].uuid,
            false => self.fresh_uuid(place, epoch),
        };
        self.believed.iter().enumerate().map(uuid).collect()
    }

    fn fresh_uuid(&self, place: usize, epoch: u32) -> [u8; 16] {
        let mut hasher = SipHasher24::new_with_key(&self.newest.secret);
        hasher.write(&self.newest.members[place].uuid);
        hasher.write_u32(epoch);
        let mut uuid = self.newest.members[place].uuid;
        uuid[8..].copy_from_slice(&hasher.finish().to_le_bytes());
        uuid
    }
}

/// Reads all superblocks and decides who is believed.
pub fn agree(drives: &mut DriveSet, now: Instant) -> Result<Agreed, MountError> {
    let mut logs = Vec::new();
    for place in 0..drives.len() {
        let is_there = drives.geometry(DriveIndex::at(place)).is_some();
        logs.push(if is_there { Some(read_log(drives, now, place)?) } else { None });
    }
    let records = || logs.iter().flatten().filter_map(|log| log.newest.as_ref());
    let generation = records().map(|(record, _)| record.generation).max().ok_or(MountError::NoCache)?;
    let of_generation = records().filter(|(record, _)| record.generation == generation);
    let newest: Vec<Superblock> = of_generation.map(|(record, _)| record.clone()).collect();
    let first = newest[0].clone();
    if first.members.len() != drives.len() {
        return Err(MountError::NoMajority { present: drives.len(), members: first.members.len() });
    }
    for (place, log) in logs.iter().enumerate() {
        match log {
            Some(Log { newest: Some((record, member)), .. }) if record.cache == first.cache => {
                if *member != place {
                    return Err(MountError::WrongPlace { place, member: *member });
                }
            }
            Some(Log { newest: Some(_), .. } | Log { is_blank: false, .. }) => {
                return Err(MountError::Foreign { place });
            }
            Some(_) | None => {}
        }
    }
    judge(&newest, first, logs)
}

/// Records of one generation may differ where mounts were cut short: only members that all of them know are believed.
fn judge(newest: &[Superblock], first: Superblock, logs: Vec<Option<Log>>) -> Result<Agreed, MountError> {
    let in_use = |record: &Superblock| record.members.iter().filter(|member| member.in_use).count();
    let members = newest.iter().map(in_use).max().expect("there is one");
    let is_there = |(place, log): (usize, &Option<Log>)| {
        let own =
            log.as_ref().and_then(|log| log.newest.as_ref()).map(|(record, _)| record.members[place].uuid);
        newest.iter().all(|record| record.members[place].in_use && own == Some(record.members[place].uuid))
    };
    let there: Vec<bool> = logs.iter().enumerate().map(is_there).collect();
    let is_whole = |log: &Option<Log>| log.as_ref().is_some_and(|log| !log.is_doubtful);
    let mut believed: Vec<bool> =
        there.iter().zip(&logs).map(|(there, log)| *there && is_whole(log)).collect();
    let present = believed.iter().filter(|believed| **believed).count();
    if there.iter().filter(|there| **there).count() * 2 <= members {
        // The others may have gone on without these, and may come back without them.
        return Err(MountError::NoMajority { present, members });
    }
    if present * 2 <= members {
        // All that are there may miss something.
        believed.fill(false);
    }
    let mut record = first;
    for other in newest {
        record.epoch = record.epoch.max(other.epoch);
        for (cleared, other) in record.cleared.iter_mut().zip(&other.cleared) {
            *cleared = (*cleared).max(*other);
        }
    }
    let logs = logs.into_iter().map(|log| log.map(|log| log.place)).collect();
    Ok(Agreed { newest: record, believed, members, there, logs })
}

fn read_log(drives: &mut DriveSet, now: Instant, place: usize) -> Result<Log, MountError> {
    let capacity = drives.geometry(DriveIndex::at(place)).expect("the caller looked").zone_capacity_blocks;
    let report = run(drives, now, place, ZoneIndex(0), Op::Report { count: SUPERBLOCK_ZONES })?.report;
    let mut log = Log {
        newest: None,
        place: LogPlace { zone: ZoneIndex(0), end: 0 },
        is_blank: true,
        is_doubtful: false,
    };
    for (zone, found) in (0..).map(ZoneIndex).zip(report) {
        let end = match found.state {
            ZoneState::Empty => continue,
            ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => capacity,
            _ => found.write_pointer,
        };
        log.is_blank = false;
        let mut is_doubtful = false;
        // The generation of the record before, in this zone.
        let mut before = None;
        for page in 0..end {
            match read_surely(drives, now, (place, zone, page), before.filter(|_| page + 1 < end))? {
                Found::Nothing => {}
                Found::Damaged => is_doubtful = true,
                Found::Record(record, member) => {
                    (is_doubtful, before) = (false, Some(record.generation));
                    let is_newer =
                        log.newest.as_ref().is_none_or(|(best, _)| best.generation <= record.generation);
                    if is_newer {
                        log.newest = Some((*record, member));
                        log.place = LogPlace { zone, end };
                    }
                }
            }
        }
        let is_current = log.place.zone == zone;
        log.is_doubtful = is_doubtful && (is_current || before.is_none()) || log.is_doubtful && !is_current;
    }
    Ok(log)
}

/// Reads a record. A drive may answer with another block, or with a record of a former life of the zone: so the second
/// answer is asked for when the record is not newer than the one before, and when none is before, or none behind it. Of
/// two records the newer one is there, for generations only grow.
fn read_surely(
    drives: &mut DriveSet,
    now: Instant,
    at: (usize, ZoneIndex, u32),
    before: Option<u64>,
) -> Result<Found, MountError> {
    let first = read_record(drives, now, at)?;
    let generation_of = |found: &Found| match found {
        Found::Record(record, _) => Some(record.generation),
        Found::Nothing | Found::Damaged => None,
    };
    if before.is_some() && generation_of(&first) > before {
        return Ok(first);
    }
    let second = read_record(drives, now, at)?;
    Ok(if generation_of(&first) > generation_of(&second) { first } else { second })
}

/// What a block of a log holds.
enum Found {
    Nothing,
    Damaged,
    Record(Box<Superblock>, usize),
}

fn read_record(
    drives: &mut DriveSet,
    now: Instant,
    (place, zone, page): (usize, ZoneIndex, u32),
) -> Result<Found, MountError> {
    let frames = vec![Frame::zeroed()];
    let read = match run(drives, now, place, zone, Op::Read { offset: page, frames }) {
        Ok(read) => read,
        Err(MountError::Drive { status: Status::UnrecoveredReadError, .. }) => return Ok(Found::Damaged),
        Err(error) => return Err(error),
    };
    let frame = &read.frames[0];
    if frame.is_blank() {
        return Ok(Found::Nothing);
    }
    let is_here =
        |stamp: &Stamp| stamp.kind == Kind::Superblock && stamp.life.zone == zone && stamp.page == page;
    let Some(stamp) = Stamp::read(frame).filter(is_here) else { return Ok(Found::Damaged) };
    let Some((record, member)) = Superblock::decode(&frame.data) else { return Ok(Found::Damaged) };
    let is_own = record.cache == stamp.life.cache && usize::from(stamp.life.member) == member;
    Ok(if is_own { Found::Record(Box::new(record), member) } else { Found::Damaged })
}
