//! A scan of the drives: who belongs to the array, how far each zone is written, and what the logs say.

use super::{MountError, execute};
use crate::config::{LOG_ZONES, RaiznConfig, count};
use crate::record::{Kind, Record, Scheme, Superblock, array_tag};
use base::checksum::crc32c;
use base::frame::Frame;
use base::time::Instant;
use base::units::{DriveIndex, OOB_BYTES, ZoneIndex};
use base::xor::Block;
use std::collections::BTreeMap;
use zone::device::{Op, ZoneDescriptor, ZoneState};
use zone::drives::DriveSet;
use zone::format::oob::{self, Bound};

/// Parity of a row of a stripe, of its blocks of data at positions below `coverage`.
pub struct Equation {
    /// Set when what is not there holds zeros.
    pub is_settled: bool,
    /// Generation of the logical zone.
    pub generation: u64,
    /// Positions it covers.
    pub coverage: u32,
    /// The parity.
    pub parity: Box<Block>,
}

/// State of the array as the drives tell it.
pub struct Scan {
    /// The array.
    pub config: RaiznConfig,
    /// The superblock that counts: of the last epoch whose log is complete.
    pub newest: Superblock,
    /// By member, whether its log has it.
    pub knows_newest: Vec<bool>,
    /// The member that is missing, or not believed.
    pub missing: Option<usize>,
    /// Highest epoch that anything says.
    pub epoch_max: u32,
    /// Blocks written, by member and zone.
    pub pointers: Vec<Vec<u32>>,
    /// By member, what its log says was reset: logical zones, each up to a generation.
    pub dead: Vec<BTreeMap<u32, u64>>,
    /// By logical zone, stripe and row.
    pub equations: BTreeMap<(u32, u32, u32), Vec<Equation>>,
    /// By member, which of its log zones hold records of the epoch.
    log_places: Vec<[bool; LOG_ZONES as usize]>,
}

/// A log zone as it was read: member, place, blocks.
pub type LogZone = (usize, usize, Vec<Frame>);

/// Findings from the superblocks.
pub struct Found {
    /// All of them, with the member that holds each.
    pub superblocks: Vec<(usize, Superblock)>,
    /// The one that counts.
    pub newest: Superblock,
    /// The member that is missing, or not believed.
    pub missing: Option<usize>,
}

impl Found {
    /// Decides who belongs to an array of so many places.
    ///
    /// # Errors
    /// When there is no array, or not enough of it.
    pub fn of(superblocks: Vec<(usize, Superblock)>, members: usize) -> Result<Found, MountError> {
        let complete = || superblocks.iter().filter(|(_, superblock)| superblock.sequence > 0);
        let newest = complete().max_by_key(|(_, found)| (found.epoch, found.sequence, found.failed));
        let (_, newest) = *newest.ok_or(MountError::NoSuperblock)?;
        for (place, superblock) in &superblocks {
            if usize::from(superblock.member) != *place || superblock.config != newest.config {
                return Err(MountError::WrongDrive { place: *place });
            }
        }
        let is_believed = |member: &usize| {
            let is_its = |(place, superblock): &(usize, Superblock)| {
                let is_of_today = superblock.since[*member] == newest.since[*member];
                place == member && is_of_today
            };
            newest.failed >> *member & 1 == 0 && superblocks.iter().any(is_its)
        };
        let missing: Vec<usize> = (0..newest.config.members).filter(|member| !is_believed(member)).collect();
        if missing.len() > 1 || members != newest.config.members {
            return Err(MountError::TooFewMembers { present: newest.config.members - missing.len() });
        }
        Ok(Found { superblocks, newest, missing: missing.first().copied() })
    }
}

impl Scan {
    /// Scans.
    ///
    /// # Errors
    /// When there is no array, or not enough of it, or a drive fails.
    pub fn of(drives: &mut DriveSet, now: Instant) -> Result<Scan, MountError> {
        let members = drives.len();
        let mut pointers = vec![Vec::new(); members];
        let mut logs: Vec<LogZone> = Vec::new();
        for (member, written) in pointers.iter_mut().enumerate() {
            *written = read_pointers(drives, member, now)?;
            logs.extend(read_logs(drives, member, written, LOG_ZONES, now)?);
        }
        let found = Found::of(superblocks_in(drives, &logs, Scheme::Raizn), members)?;
        let Found { superblocks, newest, missing } = found;
        let has_newest = |member: usize| {
            let is_it = |found: &Superblock| Superblock { member: newest.member, ..*found } == newest;
            superblocks.iter().any(|(place, superblock)| *place == member && is_it(superblock))
        };
        let mut scan = Scan {
            config: newest.config,
            newest,
            knows_newest: (0..members).map(has_newest).collect(),
            missing,
            epoch_max: superblocks.iter().map(|(_, superblock)| superblock.epoch).max().unwrap_or(0),
            pointers,
            dead: vec![BTreeMap::new(); members],
            equations: BTreeMap::new(),
            log_places: vec![[false; LOG_ZONES as usize]; members],
        };
        for (member, place, frames) in &logs {
            if scan.missing != Some(*member) {
                scan.read_log(*member, *place, frames);
            }
        }
        Ok(scan)
    }

    /// Members that are believed.
    pub fn present(&self) -> impl Iterator<Item = usize> + use<> {
        let missing = self.missing;
        (0..self.config.members).filter(move |member| missing != Some(*member))
    }

    /// A zone of a member's log that holds nothing of the last complete epoch.
    pub fn place_to_write(&self, member: usize) -> usize {
        let places = &self.log_places[member];
        places.iter().position(|is_used| !is_used).expect("an epoch uses two of three log zones")
    }

    /// The log zone of a member that holds records of the last complete epoch and has most room for another one.
    pub fn log_zone_with_room(&self, member: usize) -> Option<ZoneIndex> {
        let geometry = &self.config.geometry;
        let zone = |place: usize| geometry.zones - LOG_ZONES + count(place);
        let places = (0..LOG_ZONES as usize).filter(|place| self.log_places[member][*place]);
        let (written, zone) =
            places.map(|place| (self.pointers[member][zone(place) as usize], zone(place))).min()?;
        (written < geometry.zone_capacity_blocks).then_some(ZoneIndex(zone))
    }

    /// Up to which generation a logical zone was reset, as any log says; 0 when none does.
    pub fn dead(&self, zone: u32) -> u64 {
        self.dead.iter().filter_map(|dead| dead.get(&zone)).copied().max().unwrap_or(0)
    }

    /// Takes in the records of a log zone.
    fn read_log(&mut self, member: usize, place: usize, frames: &[Frame]) {
        let tag = array_tag(&self.config);
        for (at, frame) in frames.iter().enumerate() {
            let Some(record) = Record::of_frame(tag, frame) else { continue };
            self.epoch_max = self.epoch_max.max(record.epoch);
            if record.epoch != self.newest.epoch {
                continue;
            }
            self.log_places[member][place] = true;
            match record.kind {
                Kind::Partial | Kind::Settled => self.add(record, frame),
                Kind::Header => {
                    let rows = frame.data.chunks(OOB_BYTES).take(record.coverage as usize);
                    for (bytes, row) in rows.zip(&frames[at + 1..]) {
                        if let Some(record) = Record::decode(tag, bytes)
                            && record.data_crc == crc32c(&row.data)
                        {
                            self.add(record, row);
                        }
                    }
                }
                Kind::Superblock | Kind::Mark | Kind::WritePointer => {}
                Kind::Reset => {
                    let dead = self.dead[member].entry(record.zone).or_default();
                    *dead = record.generation.max(*dead);
                }
            }
        }
    }

    fn add(&mut self, record: Record, frame: &Frame) {
        let equation = Equation {
            is_settled: record.kind == Kind::Settled,
            generation: record.generation,
            coverage: record.coverage,
            parity: Box::new(frame.data),
        };
        let key = (record.zone, record.stripe, u32::from(record.row));
        self.equations.entry(key).or_default().push(equation);
    }

    /// Generation of a logical zone as one drive's zone has it; `None` when that is empty.
    pub fn generation_on(
        &self,
        drives: &mut DriveSet,
        member: usize,
        zone: u32,
        now: Instant,
    ) -> Result<Option<u64>, MountError> {
        if self.pointers[member][zone as usize] == 0 {
            return Ok(None);
        }
        let frames = read_blocks(drives, member, (zone, 0, 1), now)?;
        let bound = Bound { array: array_tag(&self.config), zone: ZoneIndex(zone), group: 0 };
        Ok(oob::open(&frames[0].oob, &bound).map(|found| found.place.segment))
    }
}

/// Write pointers of all zones of a drive; none when it is missing.
fn read_pointers(drives: &mut DriveSet, member: usize, now: Instant) -> Result<Vec<u32>, MountError> {
    Ok(read_zones(drives, member, now)?.iter().map(written).collect())
}

/// States of all zones of a drive; none when it is missing.
pub fn read_zones(
    drives: &mut DriveSet,
    member: usize,
    now: Instant,
) -> Result<Vec<ZoneDescriptor>, MountError> {
    if drives.geometry(DriveIndex::at(member)).is_none() {
        return Ok(Vec::new());
    }
    Ok(execute(drives, member, ZoneIndex(0), Op::Report { count: u32::MAX }, now)?.report)
}

/// Blocks of a zone behind which nothing is written, but in a window.
pub fn written(zone: &ZoneDescriptor) -> u32 {
    match zone.state {
        ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => zone.capacity,
        _ => zone.write_pointer,
    }
}

/// Reads the log of a drive, which has so many zones at its end; `written` is how far each zone is.
pub fn read_logs(
    drives: &mut DriveSet,
    member: usize,
    written: &[u32],
    log_zones: u32,
    now: Instant,
) -> Result<Vec<LogZone>, MountError> {
    let mut logs = Vec::new();
    for place in 0..log_zones as usize {
        let Some(zone) = (count(written.len() + place)).checked_sub(log_zones) else { continue };
        let Some(blocks) = written.get(zone as usize) else { continue };
        logs.push((member, place, read_blocks(drives, member, (zone, 0, *blocks), now)?));
    }
    Ok(logs)
}

/// Reads (zone, first block, blocks) of a drive.
pub fn read_blocks(
    drives: &mut DriveSet,
    member: usize,
    (zone, first, blocks): (u32, u32, u32),
    now: Instant,
) -> Result<Vec<Frame>, MountError> {
    let geometry = drives.geometry(DriveIndex::at(member)).copied();
    let blocks_max = geometry.map_or(1, |geometry| geometry.transfer_blocks_max);
    let mut all = Vec::new();
    while count(all.len()) < blocks {
        let offset = first + count(all.len());
        let some = blocks_max.min(first + blocks - offset);
        let frames = (0..some).map(|_| Frame::zeroed()).collect();
        all.extend(execute(drives, member, ZoneIndex(zone), Op::Read { offset, frames }, now)?.frames);
    }
    Ok(all)
}

/// All superblocks of arrays of an engine, with the member that holds each.
pub fn superblocks_in(drives: &DriveSet, logs: &[LogZone], scheme: Scheme) -> Vec<(usize, Superblock)> {
    let mut found = Vec::new();
    for (member, _, frames) in logs {
        let Some(geometry) = drives.geometry(DriveIndex::at(*member)) else { continue };
        for frame in frames {
            let Some(superblock) = Superblock::decode(scheme, &frame.data, *geometry) else { continue };
            let record = Record::of_frame(array_tag(&superblock.config), frame);
            if record.is_some_and(|record| record.kind == Kind::Superblock) {
                found.push((*member, superblock));
            }
        }
    }
    found
}
