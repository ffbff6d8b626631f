//! Mounting: from what the drives hold to a running engine. Every step may crash and be repeated.
//!
//! 1. `scan`: who belongs to the array, and what the logs say.
//! 2. A superblock of a new epoch goes to each log, with the resets that are not carried out; then they are.
//! 3. `recover`: how far each logical zone is written, as write pointers and their logs tell; what lies behind is taken back. What a drive
//!    that is missing held before that is decoded.
//! 4. The engine writes, under the new epoch, the parity of stripes that are not committed: full parity in its place, partial parity of
//!    what is left of the last one. Windows take both, so nothing is relocated as in RAIZN.
//! 5. The positions go to each log: from now on they are told whatever drive is lost. Old log zones are emptied.
//!
//! **What it relies on of drives.** A zone comes back closed, with its window, and the write pointer that the last commit that was completed
//! gave it, or one on the way to that of a commit under way; a block of a window is the one written last, or the one before while that was
//! under way. A drive that comes back without the window of a zone that needs it (committed, finished, or empty because
//! its write pointer had never moved) is found out by the state of its zone, and refused: it counts as lost then. With more than one
//! such drive, nothing is left to mount.
//!
//! **Why parity names its epoch.** What is taken back stays in the windows until something is written over it. A block
//! of the drive that is missing is decoded from that parity which covers it, is of the newest epoch, and covers least: if any that covers
//! it is whole, this one is, for what it covers is a part of what the others do.

mod recover;
mod scan;

use super::config::{LOG_ZONES, Limits, logical_zones};
use super::log::Purpose;
use super::logical_zone::{Kind, Part, Partial, State};
use super::{Zraid, ZraidVolume};
use crate::config::{RaiznConfig, count};
use crate::mount::{MountError, come_to_rest, execute, write_first_superblocks};
use crate::record::{Record, Scheme};
use array::driven::Driven;
use base::time::Instant;
use base::units::ZoneIndex;
use recover::Recovered;
use scan::Scan;
use zone::device::{Op, ZoneState, ZonedDevice};
use zone::drives::DriveSet;

/// Makes an array on empty drives: one superblock on each.
///
/// # Errors
/// When the configuration cannot work or a drive fails.
pub fn format(drives: &mut DriveSet, config: &RaiznConfig) -> Result<(), MountError> {
    Limits::of(config).map_err(MountError::Config)?;
    write_first_superblocks(drives, Scheme::Zraid, config, ZoneIndex(logical_zones(config)))
}

/// Mounts an array; drives in the order of members, `None` where one is missing. One that is missing or was found
/// to have failed is never believed again.
///
/// # Errors
/// When there is no array, or not enough of it.
pub fn mount(
    devices: Vec<Option<Box<dyn ZonedDevice>>>,
    now: Instant,
) -> Result<(Zraid, DriveSet), MountError> {
    let mut drives = DriveSet::new(devices);
    let scan = Scan::of(&mut drives, now)?;
    let mut engine = Zraid::of_epoch(scan.newest.config, scan.epoch_max + 1).map_err(MountError::Config)?;
    engine.members.failed = scan.missing;
    engine.members.since = scan.newest.since;
    let mut zones = Vec::new();
    for zone in 0..logical_zones(&engine.config) {
        zones.push(Recovered::of(&mut drives, &scan, &engine.limits, zone, now)?);
    }
    begin_logs(&mut engine, &mut drives, &scan, &zones, now)?;
    for (zone, recovered) in (0..).zip(zones) {
        match recovered {
            Some(recovered) if recovered.position > 0 => load(&mut engine, zone, recovered),
            _ => erase(&mut drives, &scan, zone, now)?,
        }
    }
    let mut recovery = Recovery { volume: ZraidVolume::new(engine, drives), now };
    recovery.protect()?;
    recovery.tell_positions()?;
    recovery.empty_old_logs()?;
    let Driven { mut engine, drives, .. } = recovery.volume;
    engine.counters = super::Counters::default();
    Ok((engine, drives))
}

/// Chooses the log zone of each member, and says there that a new epoch begins, and which zones are to be erased.
fn begin_logs(
    engine: &mut Zraid,
    drives: &mut DriveSet,
    scan: &Scan,
    zones: &[Option<Recovered>],
    now: Instant,
) -> Result<(), MountError> {
    let is_due = |zone: &u32| scan.dead(*zone) > 0 && zones[*zone as usize].is_none();
    let due: Vec<Record> = (0..count(zones.len()))
        .filter(is_due)
        .map(|zone| Record::of_reset(engine.members.epoch, zone, scan.dead(zone)))
        .collect();
    for member in scan.present() {
        let used = scan.log_zones(member);
        let newer = used.newer;
        let (other, room) = (1 - newer, engine.limits.capacity - used.blocks[newer]);
        let takes_over = room < engine.limits.mount_blocks() && used.blocks[other] == 0;
        let (place, other) = if takes_over { (other, newer) } else { (newer, other) };
        let log = &mut engine.logs[member];
        (log.place, log.appended, log.other) = (place, used.blocks[place], used.blocks[other]);
        // Paid when nothing of it is needed any more.
        log.debts = u32::from(log.other > 0);
        let mut frames = engine.header_blocks(&due);
        frames.insert(0, engine.superblock(member));
        for frame in frames {
            if engine.logs[member].appended == engine.limits.capacity {
                return Err(MountError::LogFull { member });
            }
            engine.logs[member].appended += 1;
            let zone = ZoneIndex(logical_zones(&engine.config) + count(place));
            let answer = execute(drives, member, zone, Op::Append { frames: vec![frame] }, now)?;
            engine.frames.give_vec(answer.frames);
        }
    }
    Ok(())
}

/// Erases the zones of a logical zone of which nothing counts.
fn erase(drives: &mut DriveSet, scan: &Scan, zone: u32, now: Instant) -> Result<(), MountError> {
    for member in scan.present() {
        if scan.zones[member][zone as usize].state != ZoneState::Empty {
            execute(drives, member, ZoneIndex(zone), Op::Reset, now)?;
        }
    }
    Ok(())
}

/// Loads what was recovered of a logical zone into the engine: parity of stripes that are not committed waits for drives.
fn load(engine: &mut Zraid, number: u32, recovered: Recovered) {
    let map = engine.map;
    let zone = &mut engine.zones[number as usize];
    zone.generation = recovered.generation;
    (zone.placed, zone.write_pointer) = (recovered.position, recovered.position);
    (zone.state, zone.is_marked) = (State::Open, true);
    for (writer, pointer) in zone.writers.iter_mut().zip(&recovered.pointers) {
        (writer.committed, writer.wanted) = (*pointer, *pointer);
    }
    for stripe in recovered.stripes {
        engine.frames.adopt(stripe.data.len());
        let (number_of_stripe, blocks) = (stripe.number, count(stripe.data.len()));
        let is_full = stripe.is_full(&map);
        let has_parity = stripe.parity_done > 0;
        engine.zones[number as usize].stripes.push_back(stripe);
        if is_full && !has_parity {
            let kind = Kind::Piece(map.data_count());
            let part = Part { stripe: number_of_stripe, kind, row: 0, rows: map.chunk_blocks() };
            engine.queue_part(number, part);
        }
        for row in (0..map.chunk_blocks().min(blocks)).filter(|_| !is_full) {
            // What the row holds.
            let piece = (0..map.data_count()).rev().find(|piece| map.within(*piece, row) < blocks);
            let piece = piece.expect("a row of a stripe that has blocks");
            let zone = &mut engine.zones[number as usize];
            let stripe = zone.stripe_mut(number_of_stripe);
            stripe.partial[map.within(piece, row) as usize] = Partial::Waits;
            let part = Part { stripe: number_of_stripe, kind: Kind::Partial(piece), row, rows: 1 };
            engine.queue_part(number, part);
        }
    }
}

/// The engine at work on what a crash has left.
struct Recovery {
    volume: ZraidVolume,
    now: Instant,
}

impl Recovery {
    /// Writes parity of the new epoch, and commits what is whole.
    fn protect(&mut self) -> Result<(), MountError> {
        let (engine, fx) = (&mut self.volume.engine, &mut self.volume.effects);
        for zone in 0..logical_zones(&engine.config) {
            engine.advance_stripes(zone, fx);
            engine.advance_zone(zone, fx);
        }
        engine.settle_all(fx);
        self.run()
    }

    /// Says in each log how far zones are written.
    fn tell_positions(&mut self) -> Result<(), MountError> {
        let (engine, fx) = (&mut self.volume.engine, &mut self.volume.effects);
        for zone in &mut engine.zones {
            zone.logged = zone.placed;
        }
        for member in 0..engine.config.members {
            for block in engine.positions() {
                engine.append(member, Purpose::Mounted, vec![block], fx);
            }
        }
        engine.settle_all(fx);
        self.run()
    }

    fn empty_old_logs(&mut self) -> Result<(), MountError> {
        let (engine, fx) = (&mut self.volume.engine, &mut self.volume.effects);
        for member in 0..engine.config.members {
            if engine.logs[member].other > 0 && !engine.members.is_failed(member) {
                engine.logs[member].debts -= 1;
                engine.settle_log(member, fx);
            }
        }
        self.run()
    }

    /// Runs until nothing is under way. A drive that fails meanwhile ends the mount, which can be repeated without it.
    fn run(&mut self) -> Result<(), MountError> {
        let failed = self.volume.engine.members.failed;
        come_to_rest(&mut self.volume, &mut self.now);
        self.volume.engine.members.judge_mount(failed)?;
        let is_stuck = |member: &usize| !self.volume.engine.logs[*member].is_quiet();
        match (0..self.volume.engine.config.members).find(is_stuck) {
            Some(member) => Err(MountError::LogFull { member }),
            None => Ok(()),
        }
    }
}

const _: () = assert!(LOG_ZONES == 2, "one is written, the other one is empty or on its way there");
