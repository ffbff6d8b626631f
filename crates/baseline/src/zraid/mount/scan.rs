//! A scan of the drives: who belongs to the array, how far each zone is committed, and what the logs say.

use crate::config::count;
use crate::mount::MountError;
use crate::mount::scan::{Found, LogZone, read_logs, read_zones, superblocks_in, written};
use crate::record::{Kind, Record, Scheme, Superblock, array_tag};
use crate::zraid::config::LOG_ZONES;
use base::checksum::crc32c;
use base::frame::Frame;
use base::time::Instant;
use base::units::OOB_BYTES;
use base::xor::Block;
use std::collections::BTreeMap;
use zone::device::ZoneDescriptor;
use zone::drives::DriveSet;

/// Parity of a row of a stripe: the XOR of its blocks of data at positions below `coverage`.
pub struct Equation {
    /// Mount that made it.
    pub epoch: u32,
    /// Generation of the logical zone.
    pub generation: u64,
    /// Positions it covers.
    pub coverage: u32,
    /// The parity.
    pub parity: Box<Block>,
}

impl Equation {
    /// The equation that a block is, if it is parity.
    pub fn of(record: &Record, frame: &Frame) -> Equation {
        let Record { epoch, generation, coverage, .. } = *record;
        Equation { epoch, generation, coverage, parity: Box::new(frame.data) }
    }
}

/// The log zones of a member.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogZones {
    /// Blocks of each.
    pub blocks: [u32; LOG_ZONES as usize],
    /// The one that is written, or is to be.
    pub newer: usize,
}

/// State of the array as the drives tell it.
pub struct Scan {
    /// The superblock that counts.
    pub newest: Superblock,
    /// The member that is missing, or not believed.
    pub missing: Option<usize>,
    /// Highest epoch that anything says.
    pub epoch_max: u32,
    /// States of zones, by member.
    pub zones: Vec<Vec<ZoneDescriptor>>,
    /// By logical zone, up to which generation it was reset.
    dead: BTreeMap<u32, u64>,
    /// By logical zone, how far logs say that it was flushed: generation and position.
    pub positions: BTreeMap<u32, Vec<(u64, u32)>>,
    /// By logical zone, stripe and row, partial parity for which windows had no room.
    pub equations: BTreeMap<(u32, u32, u32), Vec<Equation>>,
    log_zones: Vec<LogZones>,
}

impl Scan {
    /// Scans.
    ///
    /// # Errors
    /// When there is no array, or not enough of it, or a drive fails.
    pub fn of(drives: &mut DriveSet, now: Instant) -> Result<Scan, MountError> {
        let members = drives.len();
        let mut zones = Vec::new();
        let mut logs: Vec<LogZone> = Vec::new();
        for member in 0..members {
            let states = read_zones(drives, member, now)?;
            let blocks: Vec<u32> = states.iter().map(written).collect();
            logs.extend(read_logs(drives, member, &blocks, LOG_ZONES, now)?);
            zones.push(states);
        }
        let superblocks = superblocks_in(drives, &logs, Scheme::Zraid);
        let Found { superblocks, newest, missing } = Found::of(superblocks, members)?;
        let mut scan = Scan {
            newest,
            missing,
            epoch_max: superblocks.iter().map(|(_, superblock)| superblock.epoch).max().unwrap_or(0),
            zones,
            dead: BTreeMap::new(),
            positions: BTreeMap::new(),
            equations: BTreeMap::new(),
            log_zones: vec![LogZones::default(); members],
        };
        let mut newest_of = vec![[(0, 0); LOG_ZONES as usize]; members];
        for (member, place, frames) in logs.iter().filter(|(member, ..)| missing != Some(*member)) {
            scan.log_zones[*member].blocks[*place] = count(frames.len());
            newest_of[*member][*place] = scan.read_log(frames);
        }
        for (zones, newest) in scan.log_zones.iter_mut().zip(newest_of) {
            // One that has just taken over may lack the block that says so: appends come in any order.
            let began = |place: usize| zones.blocks[place] > 0 && newest[place] == (0, 0);
            zones.newer = usize::from(began(1) || !began(0) && newest[1] > newest[0]);
        }
        Ok(scan)
    }

    /// Members that are believed.
    pub fn present(&self) -> impl Iterator<Item = usize> + use<> {
        let missing = self.missing;
        (0..self.newest.config.members).filter(move |member| missing != Some(*member))
    }

    /// The log zones of a member.
    pub fn log_zones(&self, member: usize) -> LogZones {
        self.log_zones[member]
    }

    /// Up to which generation a logical zone was reset, as any log says; 0 when none does.
    pub fn dead(&self, zone: u32) -> u64 {
        self.dead.get(&zone).copied().unwrap_or(0)
    }

    /// Takes in the records of a log zone; returns epoch and sequence of its newest superblock.
    fn read_log(&mut self, frames: &[Frame]) -> (u32, u32) {
        let tag = array_tag(&self.newest.config);
        let mut newest = (0, 0);
        for frame in frames {
            let Some(record) = Record::of_frame(tag, frame) else { continue };
            match record.kind {
                Kind::Superblock => {
                    let found = Superblock::decode(Scheme::Zraid, &frame.data, self.newest.config.geometry);
                    newest = found.map_or(newest, |found| newest.max((found.epoch, found.sequence)));
                }
                Kind::Header => {
                    let records = frame.data.chunks(OOB_BYTES).take(record.coverage as usize);
                    records.filter_map(|bytes| Record::decode(tag, bytes)).for_each(|own| self.add(&own));
                }
                Kind::Partial if record.data_crc == crc32c(&frame.data) => {
                    let key = (record.zone, record.stripe, u32::from(record.row));
                    self.equations.entry(key).or_default().push(Equation::of(&record, frame));
                }
                _ => self.add(&record),
            }
        }
        newest
    }

    fn add(&mut self, record: &Record) {
        match record.kind {
            Kind::Reset => {
                let dead = self.dead.entry(record.zone).or_default();
                *dead = record.generation.max(*dead);
            }
            Kind::WritePointer => {
                self.positions.entry(record.zone).or_default().push((record.generation, record.coverage));
            }
            _ => {}
        }
    }
}
