//! What is particular to runs of the baseline after RAIZN: its volume has zones, its drives have their places, a member
//! is rebuilt while clients wait, and no drive may be needed of those that are there.

use crate::engine::{Array, Volume};
use crate::oracle::stamp_of;
use crate::outage::Mounted;
use crate::world::{Failure, World};
use array::engine::Engine;
use array::request::{Outcome, Request, RequestId, RequestOp, Volume as _};
use base::time::Instant;
use base::units::{DriveIndex, Lba, ZoneIndex};
use baseline::volume::RaiznVolume;
use baseline::{MountError, RebuildError, mount, replace_member};
use std::collections::BTreeSet;
use zone::device::ZonedDevice;

/// Blocks of one read of everything.
const BLOCKS_AT_ONCE: u32 = 64;
/// Turns of a read that needs no time.
const TURNS_MAX: u32 = 10_000;

type Devices = Vec<Option<Box<dyn ZonedDevice>>>;

impl World {
    /// Returns the place for a write that was meant for some block, and its length; none when the power failed, or when
    /// a volume is full whose resets fail. A client of zones writes where its zone goes on, resets a zone that is full,
    /// and goes to another one while too many are open.
    pub(crate) fn place_to_write(&mut self, lba: u64, blocks: u64) -> Result<Option<(u64, u64)>, Failure> {
        if let Array::Log(_) = self.array {
            return Ok(Some((lba, blocks)));
        }
        let zone_blocks = self.logical_zone_blocks();
        let wanted = u32::try_from(lba / zone_blocks).expect("a small volume");
        if !self.is_dark() && u64::from(self.raizn_pointer(wanted)) == zone_blocks {
            self.trim(lba, 1, false)?;
        }
        while !self.is_dark() {
            let Some(volume) = self.volume().raizn() else { return Ok(Some((lba, blocks))) };
            let engine = &volume.engine;
            let zones = engine.config().logical_zones();
            let mut possible = (0..zones).map(|more| (wanted + more) % zones);
            if let Some(zone) = possible.find(|zone| engine.accepts_writes(*zone)) {
                let pointer = u64::from(engine.write_pointer(zone));
                let first = u64::from(zone) * zone_blocks + pointer;
                return Ok(Some((first, blocks.min(zone_blocks - pointer))));
            }
            // It refuses every reset from now on: when all is answered, no zone will have room.
            if engine.is_broken() && self.pending.is_empty() {
                return Ok(None);
            }
            self.expect_progress()?;
        }
        Ok(None)
    }

    /// Returns the range that is trimmed when some blocks are to be: the baseline knows whole zones only.
    pub(crate) fn range_to_trim(&self, lba: u64, blocks: u64) -> (u64, u64) {
        match self.array {
            Array::Log(_) => (lba, blocks),
            Array::Raizn(..) => {
                let zone_blocks = self.logical_zone_blocks();
                (lba / zone_blocks * zone_blocks, zone_blocks)
            }
        }
    }

    fn logical_zone_blocks(&self) -> u64 {
        match &self.array {
            Array::Log(_) => 1,
            Array::Raizn(config, _) => u64::from(config.map().zone_blocks()),
        }
    }

    fn raizn_pointer(&mut self, zone: u32) -> u32 {
        self.volume().raizn().map_or(0, |volume| volume.engine.write_pointer(zone))
    }

    /// Mounts the baseline.
    pub(crate) fn mount_raizn(&mut self, devices: Devices) -> Result<Mounted, Failure> {
        let Array::Raizn(_, tuning) = self.array else { panic!("only asked of the baseline") };
        let mounted = mount(devices, tuning, self.now);
        if self.has_lost_power_in_recovery() {
            return Ok(Mounted::Dark);
        }
        match mounted {
            Ok((engine, drives)) => {
                self.ledger.count("rows relocated", engine.relocated_rows() as u64);
                self.volume = Some(Volume::Raizn(Box::new(RaiznVolume::new(engine, drives))));
                Ok(Mounted::Done)
            }
            // A mount that is refused changes nothing.
            Err(MountError::WrongDrive { .. }) if self.put_in_order() => Ok(Mounted::Again),
            Err(MountError::TooManyRelocated { rows }) if rows as u64 <= self.rows_relocated_max() => {
                self.ledger.count("too much parity relocated", 1);
                Ok(Mounted::Refused)
            }
            Err(MountError::Drive { member: place, .. } | MountError::Damaged { member: place, .. })
                if self.leave_out(place) =>
            {
                // As the message asks for. Others may have been told who was away.
                self.blame_the_absent();
                self.ledger.count("mounts without a drive that fails", 1);
                Ok(Mounted::Again)
            }
            Err(error) => {
                let has_told = matches!(error, MountError::Drive { .. });
                self.may_try_again(&error.to_string(), has_told)
            }
        }
    }

    /// Rows of parity that crashes may have left out of their place: those of the stripes that were in flight.
    fn rows_relocated_max(&self) -> u64 {
        let Array::Raizn(config, tuning) = self.array else { panic!("only asked of the baseline") };
        let stripes = u64::from(config.open_logical_zones_max()) * u64::from(tuning.stripes_in_flight);
        (self.tally.power_failures + 1) * stripes * u64::from(config.chunk_blocks)
    }

    /// An operator leaves out the drive in a place, if it is one that is to blame. Drives may have been exchanged.
    fn leave_out(&mut self, place: usize) -> bool {
        let drive = self.places[place];
        let member = self.drive_of.iter().position(|own| Some(*own) == drive);
        member.is_some_and(|member| self.ledger.is_blamed(member) && self.unplug(member))
    }

    /// An operator puts every drive where it belongs; false when they all were.
    fn put_in_order(&mut self) -> bool {
        let before = self.places.clone();
        self.unplug_foreign();
        let plugged: Vec<usize> = self.places.iter().flatten().copied().collect();
        for (member, place) in self.places.iter_mut().enumerate() {
            *place = Some(self.drive_of[member]).filter(|drive| plugged.contains(drive));
        }
        self.ledger.count("drives in the wrong place", 1);
        self.places != before
    }

    /// An empty drive is given for a member that failed, and clients wait until it holds everything.
    pub(crate) fn replace_in_baseline(&mut self, member: usize) -> Result<(), Failure> {
        self.come_to_rest()?;
        if self.is_dark() {
            return Ok(());
        }
        let drive = self.empty_drive(member);
        let device = self.rack.device(drive);
        self.rack.lock().power.recovering = true;
        let now = self.now;
        let Some(volume) = self.volume().raizn() else { return Ok(()) };
        let rebuilt = replace_member(volume, now, DriveIndex::at(member), device);
        self.rack.lock().power.recovering = false;
        let rebuilt = match rebuilt {
            Err(RebuildError::Refused(_)) => return self.turn(),
            Err(RebuildError::Stopped(error)) => {
                self.judge_stopped(member, error)?;
                false
            }
            Ok(()) => true,
        };
        // Half of it may be there: then it is not believed.
        self.unplug(member);
        self.away.remove(&member);
        self.shelf.insert(member, self.drive_of[member]);
        self.drive_of[member] = drive;
        self.plug_in(member);
        if rebuilt {
            self.rack.lock().drives[drive].learn();
            self.rack.lock().power.disarm(member);
        }
        self.ledger.blame(member, "drive replaced");
        self.replaced.insert(member);
        if self.is_dark() { Ok(()) } else { self.turn() }
    }

    /// A rebuild may stop because of the new drive, of the power, or of another one that is to blame.
    fn judge_stopped(&mut self, member: usize, error: MountError) -> Result<(), Failure> {
        let (MountError::Drive { member: other, .. } | MountError::Damaged { member: other, .. }) = error
        else {
            return Err(Failure::new(format!("a rebuild stopped: {error}")));
        };
        if self.is_dark() || other == member || self.ledger.is_blamed(other) {
            self.ledger.count("rebuilds stopped", 1);
            return Ok(());
        }
        Err(Failure::new(format!("a rebuild stopped without cause: {error}")))
    }

    /// The drive that a member had before it was replaced is plugged in instead of the new one.
    pub(crate) fn bring_back_replaced(&mut self, member: usize) {
        let Some(old) = self.shelf.get(&member).copied() else { return };
        if self.unplug(member) {
            self.shelf.insert(member, self.drive_of[member]);
            self.drive_of[member] = old;
            self.plug_in(member);
            self.ledger.blame(member, "drive that was replaced comes back");
        }
    }

    /// Checks what must hold at rest.
    pub(crate) fn check_baseline(&mut self) -> Result<(), Failure> {
        let Some(volume) = self.volume().raizn() else { return Ok(()) };
        let engine = &volume.engine;
        engine.check_invariants();
        let (failed, is_broken) = (engine.failed_member(), engine.is_broken());
        if let Some(member) = failed.filter(|member| !self.ledger.is_blamed(*member)) {
            return Err(Failure::new(format!("member {member} was failed without cause")));
        }
        for member in std::mem::take(&mut self.replaced) {
            if failed != Some(member) && !is_broken {
                self.ledger.forgive(member);
                self.ledger.count("rebuilds finished", 1);
            }
        }
        self.audit_baseline()?;
        if is_broken || !self.ledger.is_tolerable() {
            return Ok(());
        }
        self.check_copy(None)?;
        for lost in 0..self.plan.members {
            if self.ledger.is_tolerable_without(&BTreeSet::from([lost])) {
                self.check_copy(Some(lost))?;
            }
        }
        Ok(())
    }

    /// The engine's account of zones is that of the drives.
    fn audit_baseline(&mut self) -> Result<(), Failure> {
        for member in 0..self.plan.members {
            if self.ledger.is_blamed(member) {
                continue;
            }
            let states: Vec<zone::rules::Zone> = {
                let rack = self.rack.lock();
                let media = rack.drives[self.drive_of[member]].media();
                (0..media.geometry().zones).map(|zone| media.zone(ZoneIndex(zone))).collect()
            };
            if let Some(what) = self.engine().audit_zones(DriveIndex::at(member), &states) {
                return Err(Failure::new(format!("drive {member}: {what}")));
            }
        }
        Ok(())
    }

    /// A copy of the drives, one of them lost, mounts and holds what was acknowledged: parity is right, in its place and
    /// in the logs.
    fn check_copy(&mut self, lost: Option<usize>) -> Result<(), Failure> {
        let Array::Raizn(_, tuning) = self.array else { panic!("only asked of the baseline") };
        let mut copies = self.copies();
        if let Some(lost) = lost {
            copies[lost] = None;
        }
        let about = |what: String| match lost {
            Some(lost) => format!("if member {lost} were lost at rest: {what}"),
            None => format!("if the power failed at rest: {what}"),
        };
        let (engine, drives) = match mount(copies, tuning, self.now) {
            Ok(mounted) => mounted,
            Err(MountError::TooManyRelocated { rows }) if rows as u64 <= self.rows_relocated_max() => {
                return Ok(());
            }
            // A drive that nobody has asked since it died, or will refuse a write.
            Err(MountError::Drive { member, .. }) if self.ledger.is_blamed(member) => return Ok(()),
            Err(error) => return Err(Failure::new(about(format!("the array does not mount: {error}")))),
        };
        let mut volume = RaiznVolume::new(engine, drives);
        volume.engine.check_invariants();
        let blocks = volume.engine.blocks();
        for lba in (0..blocks).step_by(BLOCKS_AT_ONCE as usize) {
            let count = u32::try_from(blocks - lba).map_or(BLOCKS_AT_ONCE, |left| left.min(BLOCKS_AT_ONCE));
            for (lba, stamp) in (lba..).zip(read_at_once(&mut volume, lba, count, self.now)?) {
                let floor = self.oracle.floor(lba);
                if stamp.is_none_or(|stamp| !self.oracle.may_read(lba, floor, stamp, false)) {
                    return Err(Failure::at(lba, about(format!("block {lba} would read as {stamp:?}"))));
                }
            }
        }
        Ok(())
    }
}

/// Returns the stamps of blocks of a volume whose drives take no time.
fn read_at_once(
    volume: &mut RaiznVolume,
    lba: u64,
    blocks: u32,
    now: Instant,
) -> Result<Vec<Option<u64>>, Failure> {
    volume.submit(now, Request { id: RequestId(0), op: RequestOp::Read { lba: Lba(lba), blocks } });
    let mut replies = Vec::new();
    for _ in 0..TURNS_MAX {
        volume.turn(now, &mut replies);
        let Some(mut reply) = replies.pop() else { continue };
        if reply.outcome != Outcome::Done {
            return Err(Failure::at(lba, format!("a read of {lba}+{blocks} fails on a copy of the drives")));
        }
        let stamps = (lba..).zip(&reply.frames).map(|(lba, frame)| stamp_of(&frame.data, lba)).collect();
        volume.frames().give_many(&mut reply.frames);
        return Ok(stamps);
    }
    Err(Failure::at(lba, "a read of a copy of the drives is never answered"))
}
