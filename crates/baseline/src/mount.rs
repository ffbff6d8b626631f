//! Mounting: from what the drives hold to a running engine. Every step may crash and be repeated.
//!
//! 1. `scan`: who belongs to the array, and what the logs of the last complete epoch say.
//! 2. `agree`: what only some logs say, all say. Resets that were recorded are carried out.
//! 3. `decide`: what each block of the stripes that were open holds.
//! 4. A new epoch begins: in an empty zone of each log, the parity of what was decided; then, when all of that is
//!    durable, a superblock on each. From the first one of these on, the old logs say nothing any more.
//! 5. What was decided is written where it is missing, by the engine itself.
//! 6. The old log zones are reset.

mod agree;
mod decide;
pub(super) mod scan;

use crate::Raizn;
use crate::config::{ConfigError, LOG_ZONES, RaiznConfig, Tuning};
use crate::logical_zone::Part;
use crate::parity_log::Purpose;
use crate::record::{Scheme, Superblock};
use crate::volume::RaiznVolume;
use array::driven::Driven;
use array::engine::Engine;
use array::request::Volume as _;
use base::erasure::PIECES_MAX;
use base::frame::Frame;
use base::time::Instant;
use base::units::{DriveIndex, ZoneIndex};
use decide::Decided;
use scan::Scan;
use std::collections::BTreeMap;
use std::fmt;
use zone::device::{Command, Op, Status, Token, ZonedDevice};
use zone::drives::{DriveCommand, DriveSet};

/// Why an array cannot be mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountError {
    /// No drive holds a superblock that is complete.
    NoSuperblock,
    /// A drive belongs to another array, or to another place in this one.
    WrongDrive {
        /// Place of the drive in the list.
        place: usize,
    },
    /// More members are missing or failed than can be.
    TooFewMembers {
        /// Members that are there.
        present: usize,
    },
    /// The array cannot be run like this.
    Config(ConfigError),
    /// Crashes have left too much parity out of its place.
    TooManyRelocated {
        /// Rows.
        rows: usize,
    },
    /// A block cannot be read nor decoded.
    Damaged {
        /// Member.
        member: usize,
        /// Logical zone.
        zone: u32,
        /// Block in the drive's zone.
        offset: u32,
    },
    /// A drive no longer has the window of a zone that needs it: ZRAID alone says so.
    WindowGone {
        /// Member.
        member: usize,
        /// Logical zone.
        zone: u32,
    },
    /// Mounts that were cut off have left no room in the log of a member of ZRAID.
    LogFull {
        /// Member.
        member: usize,
    },
    /// A drive failed a command.
    Drive {
        /// The member.
        member: usize,
        /// Status of its answer.
        status: Status,
    },
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MountError::NoSuperblock => write!(f, "no drive holds a superblock: format the array first"),
            MountError::WrongDrive { place } => {
                write!(f, "drive {place} belongs elsewhere: give the drives in their order, or leave it out")
            }
            MountError::TooFewMembers { present } => {
                write!(f, "only {present} members are there: at most one may be missing; bring a drive back")
            }
            MountError::Config(error) => write!(f, "the array cannot be run like this: {error}"),
            MountError::TooManyRelocated { rows } => {
                write!(f, "{rows} rows of parity do not fit their log: copy the volume and format it anew")
            }
            MountError::Damaged { member, zone, offset } => write!(
                f,
                "block {offset} of zone {zone} of member {member} is damaged and cannot be decoded: mount without \
                 that drive"
            ),
            MountError::WindowGone { member, zone } => write!(
                f,
                "the drive of member {member} has not kept the window of zone {zone}: mount without that drive"
            ),
            MountError::LogFull { member } => {
                write!(
                    f,
                    "the log of member {member} has no room for another mount: mount without that drive"
                )
            }
            MountError::Drive { member, status } => {
                write!(f, "member {member} answered {status:?} while mounting: mount without that drive")
            }
        }
    }
}

impl std::error::Error for MountError {}

/// Makes an array on empty drives: one superblock on each.
///
/// # Errors
/// When the configuration cannot work or a drive fails.
pub fn format(drives: &mut DriveSet, config: &RaiznConfig, tuning: &Tuning) -> Result<(), MountError> {
    config.validate(tuning).map_err(MountError::Config)?;
    write_first_superblocks(drives, Scheme::Raizn, config, ZoneIndex(config.logical_zones()))
}

/// Writes the first superblock of each drive to a zone of its.
pub(super) fn write_first_superblocks(
    drives: &mut DriveSet,
    scheme: Scheme,
    config: &RaiznConfig,
    zone: ZoneIndex,
) -> Result<(), MountError> {
    for member in 0..config.members {
        let place = u8::try_from(member).expect("validated: at most 32 members");
        let superblock = Superblock {
            scheme,
            config: *config,
            member: place,
            epoch: 1,
            sequence: 1,
            failed: 0,
            since: [0; PIECES_MAX],
        };
        let mut frame = Frame::zeroed();
        superblock.seal(&mut frame);
        execute(drives, member, zone, Op::Append { frames: vec![frame] }, Instant(0))?;
    }
    Ok(())
}

/// Mounts an array; drives in the order of members, `None` where one is missing. One that is missing or was found
/// to have failed is never believed again.
///
/// # Errors
/// When there is no array, or not enough of it.
pub fn mount(
    devices: Vec<Option<Box<dyn ZonedDevice>>>,
    tuning: Tuning,
    now: Instant,
) -> Result<(Raizn, DriveSet), MountError> {
    let mut drives = DriveSet::new(devices);
    let mut scan = Scan::of(&mut drives, now)?;
    let config = scan.config;
    config.validate(&tuning).map_err(MountError::Config)?;
    let due = resets_due(&mut drives, &scan, now)?;
    let resets: BTreeMap<u32, u64> = due.iter().map(|(zone, _)| (*zone, scan.dead(*zone))).collect();
    agree::agree(&mut drives, &mut scan, &resets, now)?;
    finish_resets(&mut drives, &mut scan, &due, now)?;
    let mut engine = Raizn::new(config, tuning, scan.epoch_max + 1);
    engine.members.failed = scan.missing;
    engine.members.since = scan.newest.since;
    for zone in 0..config.logical_zones() {
        let decided = Decided::of(&mut drives, &scan, zone, now)?;
        load(&mut engine, zone, decided);
    }
    for member in 0..config.members {
        let is_its = |key: &&(u32, u32, u32)| engine.map.parity_drive(key.0, key.1) == member;
        let rows = engine.logs.relocated.keys().filter(is_its).count();
        if rows > config.relocated_rows_max(&tuning) {
            return Err(MountError::TooManyRelocated { rows });
        }
    }
    let mut recovery = Recovery { volume: RaiznVolume::new(engine, drives), now };
    recovery.begin_logs(&scan)?;
    recovery.commit()?;
    recovery.fill()?;
    recovery.reset_old_logs(&scan)?;
    let Driven { mut engine, drives, .. } = recovery.volume;
    engine.counters = super::Counters::default();
    Ok((engine, drives))
}

/// Runs one command.
pub(super) fn execute(
    drives: &mut DriveSet,
    member: usize,
    zone: ZoneIndex,
    op: Op,
    now: Instant,
) -> Result<zone::device::Completion, MountError> {
    let command =
        DriveCommand { drive: DriveIndex::at(member), command: Command { token: Token(0), zone, op } };
    let completion = drives.execute(now, command);
    match completion.status {
        Status::Success => Ok(completion),
        status => Err(MountError::Drive { member, status }),
    }
}

/// Zones, with their members, that hold what the logs say is gone.
fn resets_due(drives: &mut DriveSet, scan: &Scan, now: Instant) -> Result<Vec<(u32, usize)>, MountError> {
    let mut due = Vec::new();
    for zone in (0..scan.config.logical_zones()).filter(|zone| scan.dead(*zone) > 0) {
        for member in scan.present() {
            let generation = scan.generation_on(drives, member, zone, now)?;
            let is_gone = generation.is_some_and(|generation| generation <= scan.dead(zone));
            if is_gone {
                due.push((zone, member));
            }
        }
    }
    Ok(due)
}

/// Erases them.
fn finish_resets(
    drives: &mut DriveSet,
    scan: &mut Scan,
    due: &[(u32, usize)],
    now: Instant,
) -> Result<(), MountError> {
    for (zone, member) in due {
        execute(drives, *member, ZoneIndex(*zone), Op::Reset, now)?;
        scan.pointers[*member][*zone as usize] = 0;
    }
    Ok(())
}

/// Loads what was decided of a logical zone into the engine.
fn load(engine: &mut Raizn, zone: u32, decided: Decided) {
    let logical = &mut engine.zones[zone as usize];
    logical.generation = decided.generation;
    logical.write_pointer = decided.write_pointer;
    logical.placed = decided.write_pointer;
    for (key, data) in decided.relocated {
        engine.frames.adopt(1);
        engine.logs.relocated.insert(key, data);
    }
    for mut stripe in decided.stripes {
        engine.frames.adopt(stripe.data.len());
        stripe.data.shrink_to_fit();
        logical.stripes.push_back(stripe);
    }
}

/// The engine at work on what a crash has left.
struct Recovery {
    volume: RaiznVolume,
    now: Instant,
}

impl Recovery {
    /// Parity of everything that was decided goes to a new zone of each log.
    fn begin_logs(&mut self, scan: &Scan) -> Result<(), MountError> {
        for member in scan.present() {
            let place = scan.place_to_write(member);
            if scan.pointers[member][self.volume.engine.log_zone(place).index()] > 0 {
                let zone = self.volume.engine.log_zone(place);
                execute(&mut self.volume.drives, member, zone, Op::Reset, self.now)?;
            }
            self.volume.engine.logs.drives[member].place = place;
        }
        // Not complete yet; but the old log zones may be gone before this one is.
        self.append_superblocks(0);
        let engine = &mut self.volume.engine;
        let fx = &mut self.volume.effects;
        let map = engine.map;
        let keys: Vec<(u32, u32, u32)> = engine.logs.relocated.keys().copied().collect();
        for key in keys {
            let drive = map.parity_drive(key.0, key.1);
            engine.append_relocated(drive, key, fx);
        }
        for zone in 0..engine.config.logical_zones() {
            for index in 0..engine.zones[zone as usize].stripes.len() {
                let stripe = &engine.zones[zone as usize].stripes[index];
                let (number, rows) = (stripe.number, 0..stripe.issued.min(map.chunk_blocks()));
                let is_needed = !stripe.is_whole(&map) && stripe.issued > 0;
                if is_needed && !engine.members.is_failed(map.parity_drive(zone, number)) {
                    engine.append_parity(zone, number, rows, Purpose::Moved, fx);
                }
            }
        }
        self.run()
    }

    /// The new epoch counts.
    fn commit(&mut self) -> Result<(), MountError> {
        self.append_superblocks(1);
        self.run()
    }

    fn append_superblocks(&mut self, sequence: u32) {
        let engine = &mut self.volume.engine;
        engine.members.superblock_sequence = sequence;
        for member in 0..engine.config.members {
            if !engine.members.is_failed(member) {
                engine.append_superblock(member, Purpose::Moved, &mut self.volume.effects);
            }
        }
    }

    /// Writes what is missing.
    fn fill(&mut self) -> Result<(), MountError> {
        let engine = &mut self.volume.engine;
        let map = engine.map;
        for zone in 0..engine.config.logical_zones() {
            let parts: Vec<Part> = engine.zones[zone as usize]
                .stripes
                .iter()
                .flat_map(|stripe| {
                    (0..map.layout.members()).filter_map(|piece| decide::missing(&map, stripe, piece))
                })
                .collect();
            for part in parts {
                engine.queue_part(zone, part);
            }
            engine.pump(zone, &mut self.volume.effects);
            engine.advance_all_stripes(zone, &mut self.volume.effects);
        }
        self.run()
    }

    fn reset_old_logs(&mut self, scan: &Scan) -> Result<(), MountError> {
        for member in scan.present() {
            for place in
                (0..LOG_ZONES as usize).filter(|place| *place != self.volume.engine.logs.drives[member].place)
            {
                let zone = self.volume.engine.log_zone(place);
                if scan.pointers[member][zone.index()] > 0 {
                    execute(&mut self.volume.drives, member, zone, Op::Reset, self.now)?;
                }
            }
        }
        Ok(())
    }

    /// Runs until nothing is under way. A drive that fails meanwhile ends the mount, which can be repeated without it.
    fn run(&mut self) -> Result<(), MountError> {
        let failed = self.volume.engine.members.failed;
        come_to_rest(&mut self.volume, &mut self.now);
        self.volume.engine.members.judge_mount(failed)
    }
}

/// Runs an engine until nothing is under way.
pub(super) fn come_to_rest<E: Engine>(volume: &mut Driven<E>, now: &mut Instant) {
    let mut replies = Vec::new();
    while volume.turn(*now, &mut replies) || !volume.drives_are_idle() {
        if let Some(next) = volume.next_deadline() {
            *now = (*now).max(next);
        }
    }
    assert!(replies.is_empty(), "nobody has asked for anything");
}
