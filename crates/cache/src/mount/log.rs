//! The superblock log of a drive: which records it holds.

use super::MountError;
use super::media::{Media, Seat};
use crate::format::SUPERBLOCK_ZONES;
use crate::format::stamp::{Kind, Stamp};
use crate::format::superblock::Superblock;
use crate::shard::LogPlace;
use base::frame::Frame;
use base::units::ZoneIndex;
use zone::device::{Geometry, Op, Status, ZoneDescriptor, ZoneState};

/// Records of a log that are looked at: so many, since a drive that missed more is told by the others' newest one.
const RECORDS_KEPT: usize = 64;

/// Superblock log of a drive.
#[derive(Debug)]
pub struct Log {
    /// Newest superblock records of the log, by rising generation.
    pub records: Vec<Superblock>,
    /// Member that the drive is, by its newest record.
    pub member: usize,
    /// Place at which the log goes on.
    pub place: LogPlace,
    /// Nothing was ever written, or nothing but a first record that was cut short.
    pub is_blank: bool,
    /// True when a first record was cut short: its zone is to be reset before another is written.
    pub is_torn: bool,
    /// A record that cannot be read may be newer than the newest.
    pub is_doubtful: bool,
    /// A record that cannot be read may be any.
    pub has_gaps: bool,
}

impl Log {
    /// Newest record.
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

/// Reads the logs of all drives side by side; `None` where one is missing.
pub fn read_logs(media: &mut Media<'_>) -> Result<Vec<Option<Log>>, MountError> {
    let geometries = media.geometries();
    let places: Vec<usize> = (0..geometries.len()).filter(|place| geometries[*place].is_some()).collect();
    let read = media.side_by_side(&places, |job, seat| {
        let geometry = geometries[places[job]].as_ref().expect("it is there");
        read_log(seat, geometry)
    });
    let mut logs: Vec<Option<Log>> = geometries.iter().map(|_| None).collect();
    for (place, log) in places.into_iter().zip(read) {
        logs[place] = Some(log?);
    }
    Ok(logs)
}

async fn read_log(seat: Seat, geometry: &Geometry) -> Result<Log, MountError> {
    let report = seat.ask(ZoneIndex(0), Op::Report { count: SUPERBLOCK_ZONES }).await?.report;
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
            ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => geometry.zone_capacity_blocks,
            _ => found.write_pointer,
        };
        log.is_blank = false;
        let reader = LogReader { seat: &seat, zone, transfer_max: geometry.transfer_blocks_max };
        read_zone(&reader, end, &mut log).await?;
    }
    log.forget();
    if log.records.is_empty() && !log.is_blank && holds_one_block(&seat, geometry).await? {
        log = Log { is_blank: true, is_torn: true, is_doubtful: false, has_gaps: false, ..log };
    }
    Ok(log)
}

/// True of a drive on which one block was written, the first, and no other: one that joined when the power failed.
async fn holds_one_block(seat: &Seat, geometry: &Geometry) -> Result<bool, MountError> {
    let report = seat.ask(ZoneIndex(0), Op::Report { count: geometry.zones }).await?.report;
    let is_empty = |found: &ZoneDescriptor| matches!(found.state, ZoneState::Empty | ZoneState::Offline);
    let is_first = |found: &ZoneDescriptor| {
        !matches!(found.state, ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline)
            && found.write_pointer == 1
    };
    Ok(report.split_first().is_some_and(|(first, others)| is_first(first) && others.iter().all(is_empty)))
}

async fn read_zone(reader: &LogReader<'_>, end: u32, log: &mut Log) -> Result<(), MountError> {
    let mut is_doubtful = false;
    // The generation of the record before, in this zone.
    let mut before = None;
    let mut page = 0;
    while page < end {
        for first in reader.read(page, reader.transfer_max.min(end - page)).await? {
            match reader.make_sure(page, first, before.filter(|_| page + 1 < end)).await? {
                Found::Nothing => {}
                Found::Damaged => (is_doubtful, log.has_gaps) = (true, true),
                Found::Record(record, member) => {
                    (is_doubtful, before) = (false, Some(record.generation));
                    if log.newest().is_none_or(|best| best.generation <= record.generation) {
                        log.member = member;
                        log.place = LogPlace { zone: reader.zone, end };
                    }
                    log.learn(*record);
                }
            }
            page += 1;
        }
    }
    let is_current = log.place.zone == reader.zone;
    log.is_doubtful = is_doubtful && (is_current || before.is_none()) || log.is_doubtful && !is_current;
    Ok(())
}

/// Reader of a zone of a log.
struct LogReader<'a> {
    seat: &'a Seat,
    zone: ZoneIndex,
    transfer_max: u32,
}

impl LogReader<'_> {
    /// Answer for a record, unless a second answer is better. A drive may answer with another block, or with a
    /// record of a former life of the zone: so the second answer is asked for when the record is not newer than the one
    /// before, and when none is before, or none behind it. Of two records the newer one is there, for generations only grow.
    async fn make_sure(&self, page: u32, first: Found, before: Option<u64>) -> Result<Found, MountError> {
        let generation_of = |found: &Found| match found {
            Found::Record(record, _) => Some(record.generation),
            Found::Nothing | Found::Damaged => None,
        };
        if before.is_some() && generation_of(&first) > before {
            return Ok(first);
        }
        let second = self.read_one(page).await?;
        Ok(if generation_of(&first) > generation_of(&second) { first } else { second })
    }

    /// Blocks of the log from `page` on, as found.
    async fn read(&self, page: u32, count: u32) -> Result<Vec<Found>, MountError> {
        if let Some(frames) = self.ask(page, count).await? {
            return Ok((page..).zip(&frames).map(|(page, frame)| self.found(page, frame)).collect());
        }
        let mut found = Vec::new();
        for page in page..page + count {
            found.push(self.read_one(page).await?);
        }
        Ok(found)
    }

    async fn read_one(&self, page: u32) -> Result<Found, MountError> {
        let frames = self.ask(page, 1).await?;
        Ok(frames.map_or(Found::Damaged, |frames| self.found(page, &frames[0])))
    }

    /// Blocks from `offset` on; `None` when one of them cannot be read.
    async fn ask(&self, offset: u32, count: u32) -> Result<Option<Vec<Frame>>, MountError> {
        let frames = (0..count).map(|_| Frame::zeroed()).collect();
        match self.seat.ask(self.zone, Op::Read { offset, frames }).await {
            Ok(read) => Ok(Some(read.frames)),
            Err(MountError::Drive { status: Status::UnrecoveredReadError, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn found(&self, page: u32, frame: &Frame) -> Found {
        if frame.is_blank() {
            return Found::Nothing;
        }
        let is_here = |stamp: &Stamp| {
            stamp.kind == Kind::Superblock && stamp.life.zone == self.zone && stamp.page == page
        };
        let Some(stamp) = Stamp::read(frame).filter(is_here) else { return Found::Damaged };
        let Some((record, member)) = Superblock::decode(&frame.data) else { return Found::Damaged };
        let is_own = record.cache == stamp.life.cache && usize::from(stamp.life.member) == member;
        if is_own { Found::Record(Box::new(record), member) } else { Found::Damaged }
    }
}

/// Content of a block of a log.
enum Found {
    Nothing,
    Damaged,
    Record(Box<Superblock>, usize),
}
