//! The superblock log of a drive: which records it holds.

use super::{MountError, run};
use crate::format::SUPERBLOCK_ZONES;
use crate::format::stamp::{Kind, Stamp};
use crate::format::superblock::Superblock;
use crate::shard::LogPlace;
use base::frame::Frame;
use base::time::Instant;
use base::units::{DriveIndex, ZoneIndex};
use zone::device::{Op, Status, ZoneDescriptor, ZoneState};
use zone::drives::DriveSet;

/// Records of a log that are looked at: so many, since a drive that missed more is told by the others' newest one.
const RECORDS_KEPT: usize = 64;

/// Superblock log of a drive.
#[derive(Debug)]
pub struct Log {
    /// Its records, those with lower generations first; of many the last ones.
    pub records: Vec<Superblock>,
    /// Member that the drive is, by its newest record.
    pub member: usize,
    /// Where it goes on.
    pub place: LogPlace,
    /// Nothing was ever written, or nothing but a first record that was cut short.
    pub is_blank: bool,
    /// It was that: its zone is to be reset before another is written.
    pub is_torn: bool,
    /// A record that cannot be read may be newer than the newest.
    pub is_doubtful: bool,
    /// A record that cannot be read may be any.
    pub has_gaps: bool,
}

impl Log {
    /// Its newest record.
    pub fn newest(&self) -> Option<&Superblock> {
        self.records.last()
    }

    fn learn(&mut self, record: Superblock) {
        let at = self.records.partition_point(|own| own.generation <= record.generation);
        self.records.insert(at, record);
        if self.records.len() > 2 * RECORDS_KEPT {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.records.drain(..self.records.len().saturating_sub(RECORDS_KEPT));
    }
}

/// Reads the log of a drive.
pub fn read_log(drives: &mut DriveSet, now: Instant, place: usize) -> Result<Log, MountError> {
    let capacity = drives.geometry(DriveIndex::at(place)).expect("the caller looked").zone_capacity_blocks;
    let report = run(drives, now, place, ZoneIndex(0), Op::Report { count: SUPERBLOCK_ZONES })?.report;
    let mut log = Log {
        records: Vec::new(),
        member: 0,
        place: LogPlace { zone: ZoneIndex(0), end: 0 },
        is_blank: true,
        is_torn: false,
        is_doubtful: false,
        has_gaps: false,
    };
    for (zone, found) in (0..).map(ZoneIndex).zip(report) {
        let end = match found.state {
            ZoneState::Empty => continue,
            ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => capacity,
            _ => found.write_pointer,
        };
        log.is_blank = false;
        read_zone(drives, now, (place, zone, end), &mut log)?;
    }
    log.forget();
    if log.records.is_empty() && !log.is_blank && holds_one_block(drives, now, place)? {
        log = Log { is_blank: true, is_torn: true, is_doubtful: false, has_gaps: false, ..log };
    }
    Ok(log)
}

/// True of a drive on which one block was written, the first, and no other: one that joined when the power failed.
fn holds_one_block(drives: &mut DriveSet, now: Instant, place: usize) -> Result<bool, MountError> {
    let count = drives.geometry(DriveIndex::at(place)).expect("the caller looked").zones;
    let report = run(drives, now, place, ZoneIndex(0), Op::Report { count })?.report;
    let is_empty = |found: &ZoneDescriptor| matches!(found.state, ZoneState::Empty | ZoneState::Offline);
    let is_first = |found: &ZoneDescriptor| {
        !matches!(found.state, ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline)
            && found.write_pointer == 1
    };
    Ok(report.split_first().is_some_and(|(first, others)| is_first(first) && others.iter().all(is_empty)))
}

fn read_zone(
    drives: &mut DriveSet,
    now: Instant,
    (place, zone, end): (usize, ZoneIndex, u32),
    log: &mut Log,
) -> Result<(), MountError> {
    let mut is_doubtful = false;
    // The generation of the record before, in this zone.
    let mut before = None;
    for page in 0..end {
        match read_surely(drives, now, (place, zone, page), before.filter(|_| page + 1 < end))? {
            Found::Nothing => {}
            Found::Damaged => (is_doubtful, log.has_gaps) = (true, true),
            Found::Record(record, member) => {
                (is_doubtful, before) = (false, Some(record.generation));
                if log.newest().is_none_or(|best| best.generation <= record.generation) {
                    log.member = member;
                    log.place = LogPlace { zone, end };
                }
                log.learn(*record);
            }
        }
    }
    let is_current = log.place.zone == zone;
    log.is_doubtful = is_doubtful && (is_current || before.is_none()) || log.is_doubtful && !is_current;
    Ok(())
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
