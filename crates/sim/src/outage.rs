//! The power goes and comes back; meanwhile drives are unplugged, exchanged and replaced.

use crate::drive::Drive;
use crate::engine::{Array, Volume};
use crate::power::Blow;
use crate::rollback::Taken;
use crate::step::{At, Step};
use crate::world::{Failure, PATIENCE_NS, World, uuid};
use array::log::volume::LogVolume;
use array::log::{MountError, mount, mount_with_re_add};
use base::time::Instant;
use base::units::DriveIndex;
use zone::device::ZonedDevice;
use zone::drives::DriveSet;
use zone::format::superblock::MemberState;

/// Drives of another array are numbered from here.
const FOREIGN: usize = 100;

/// Outcome of a mount.
pub(crate) enum Mounted {
    /// The volume is there.
    Done,
    /// The mount was refused, and something was done about that.
    Again,
    /// The power failed meanwhile.
    Dark,
    /// The mount was refused with good reason.
    Refused,
}

impl World {
    /// The power fails, unless it has already.
    pub(crate) fn power_off(&mut self) {
        if self.volume.take().is_none() {
            return;
        }
        self.pending.clear();
        self.scrubbed = false;
        self.fail_drives();
    }

    fn fail_drives(&mut self) {
        self.oracle.power_failed();
        self.tally.power_failures += 1;
        let mut rack = self.rack.lock();
        rack.power.fail();
        rack.drives.iter_mut().for_each(Drive::power_fail);
    }

    /// The power comes back and the array is mounted; with `cut` it may fail again before that is over.
    pub(crate) fn mount(&mut self, cut: Option<At>) -> Result<(), Failure> {
        self.power_off();
        loop {
            {
                let mut rack = self.rack.lock();
                rack.power.restore();
                rack.power.recovering = true;
                if let Some(at) = cut {
                    rack.power.arm(at, None, Blow::PowerOff);
                }
            }
            let devices =
                self.places.iter().map(|place| place.map(|drive| self.rack.device(drive))).collect();
            let mounted = match &self.array {
                Array::Log(config) => self.mount_log(config.array, devices)?,
                Array::Raizn(..) => self.mount_raizn(devices)?,
            };
            match mounted {
                Mounted::Done => return self.on_mounted(),
                Mounted::Again => self.fail_drives(),
                Mounted::Dark => {
                    // Others may have been told who was not there, and those are not there yet.
                    let away = self.away.clone();
                    self.blame_the_absent();
                    self.away = away;
                    self.ledger.count("power fails in recovery", 1);
                    self.fail_drives();
                    return Ok(());
                }
                Mounted::Refused => {
                    self.refused = true;
                    return Ok(());
                }
            }
        }
    }

    fn mount_log(
        &mut self,
        array: [u8; 16],
        devices: Vec<Option<Box<dyn ZonedDevice>>>,
    ) -> Result<Mounted, Failure> {
        let mounted = match self.re_adding {
            None => mount(devices, self.plan.tuning(), self.now),
            Some(member) => mount_with_re_add(devices, member, self.plan.tuning(), self.now),
        };
        if self.has_lost_power_in_recovery() {
            return Ok(Mounted::Dark);
        }
        match mounted {
            // With hardly a drive of its own, nobody can tell that the other array was not meant.
            Ok((shard, ..)) if shard.status().array != array && self.own_drives() < 2 => {
                self.unplug_foreign();
                Ok(Mounted::Again)
            }
            Ok((shard, drives, report)) => {
                self.ledger.count("mounts with a checkpoint", u64::from(shard.has_checkpoint()));
                self.ledger.count("checkpoints refused", u64::from(report.checkpoint_refused));
                if let Some(re_added) = &report.re_added {
                    self.on_re_added(re_added);
                }
                self.volume = Some(Volume::Log(Box::new(LogVolume::new(shard, drives))));
                Ok(Mounted::Done)
            }
            Err(MountError::NotReAdded { .. }) => {
                self.re_adding = None;
                self.ledger.count("re-adds refused", 1);
                Ok(Mounted::Again)
            }
            Err(MountError::ForeignDrive { .. }) if !self.foreign.is_empty() => {
                self.unplug_foreign();
                Ok(Mounted::Again)
            }
            Err(error) => self.may_try_again(&error.to_string(), matches!(error, MountError::Drive { .. })),
        }
    }

    /// Recovery proper is over: true when the power failed in it.
    pub(crate) fn has_lost_power_in_recovery(&self) -> bool {
        let power = &mut self.rack.lock().power;
        power.recovering = false;
        power.is_off()
    }

    /// Members that are not there when the others go on are not believed any more.
    pub(crate) fn blame_the_absent(&mut self) {
        for member in std::mem::take(&mut self.away) {
            self.ledger.blame(member, "drive misses a mount");
        }
    }

    fn on_mounted(&mut self) -> Result<(), Failure> {
        self.blame_the_absent();
        if !self.foreign.is_empty() {
            return Err(Failure::new("a drive of another array was accepted"));
        }
        self.check_outdated()?;
        self.tally.mounts += 1;
        self.rack.lock().drives.iter_mut().for_each(Drive::learn);
        let since = self.now;
        self.turn()?;
        while !self.is_dark() && self.engine().has_recovery_debt() {
            if !self.advance()? && !self.is_dark() {
                return Err(self.stuck("recovery never ends: nothing is due"));
            }
            if self.now.since(since).0 > PATIENCE_NS {
                return Err(self.stuck("recovery never ends"));
            }
        }
        if self.is_dark() {
            self.ledger.count("power fails in recovery", 1);
            self.power_off();
            return Ok(());
        }
        if self.engine().must_mount_again() {
            return self.mount_again();
        }
        self.rack.lock().power.disarm_cuts();
        self.observe_all()
    }

    /// Nobody believes an older copy of a drive, and all say so for ever: as long as there are enough others that know.
    fn check_outdated(&mut self) -> Result<(), Failure> {
        if !self.ledger.is_tolerable() {
            return Ok(());
        }
        for member in std::mem::take(&mut self.outdated) {
            if self.engine().members()[member] != MemberState::Failed {
                return Err(Failure::new(format!("an older copy of drive {member} is believed")));
            }
            self.ledger.count("older copies left out", 1);
        }
        Ok(())
    }

    /// Recovery begins anew, as in the server: engine and drives part when both are at rest.
    fn mount_again(&mut self) -> Result<(), Failure> {
        self.ledger.count("recovery begins anew", 1);
        let since = self.now;
        while !self.is_dark() && !self.volume().is_at_rest() {
            if !self.advance()? && !self.is_dark() || self.is_over(since) {
                return Err(self.stuck("recovery cannot begin anew: the engine never comes to rest"));
            }
        }
        if self.is_dark() {
            self.power_off();
            return Ok(());
        }
        self.volume = None;
        self.mount(None)
    }

    /// Judges whether an array may refuse a mount, and plugs in drives that were away, if any, for another attempt.
    pub(crate) fn may_try_again(&mut self, error: &str, has_told: bool) -> Result<Mounted, Failure> {
        // A mount that is refused changes nothing: those who were away are as good as before. One that fails on
        // the way has told the others.
        if has_told {
            self.blame_the_absent();
        }
        let away = std::mem::take(&mut self.away);
        if self.ledger.is_tolerable_without(&away) {
            return Err(Failure::new(format!("the array does not mount: {error}")));
        }
        for member in &away {
            self.plug_in(*member);
        }
        if !away.is_empty() {
            self.ledger.count("too many drives away", 1);
        }
        Ok(if away.is_empty() { Mounted::Refused } else { Mounted::Again })
    }

    /// Drives of ours that are plugged in, answer, and were not replaced by empty ones.
    fn own_drives(&self) -> usize {
        let drives = &self.rack.lock().drives;
        let own = |drive: &usize| {
            self.drive_of.contains(drive) && !self.blank.contains(drive) && !drives[*drive].is_dead()
        };
        self.places.iter().flatten().filter(|drive| own(drive)).count()
    }

    pub(crate) fn unplug_foreign(&mut self) {
        for (place, drive) in std::mem::take(&mut self.foreign) {
            self.places[place] = drive;
        }
    }

    pub(crate) fn plug_in(&mut self, member: usize) {
        let drive = self.drive_of[member];
        // The baseline wants its drives in their order.
        if let Array::Raizn(..) = self.array
            && self.places[member].is_none()
        {
            self.places[member] = Some(drive);
        } else if !self.places.contains(&Some(drive))
            && let Some(place) = self.places.iter_mut().find(|place| place.is_none())
        {
            *place = Some(drive);
        }
    }

    pub(crate) fn unplug(&mut self, member: usize) -> bool {
        let drive = self.drive_of.get(member).copied();
        let place = self.places.iter_mut().find(|place| place.is_some() && **place == drive);
        place.map(|place| *place = None).is_some()
    }

    /// Drives are unplugged, exchanged and replaced.
    pub(crate) fn replug(&mut self, step: &Step) {
        let members = self.plan.members;
        match *step {
            Step::Lose { member } if self.unplug(member) => {
                self.away.remove(&member);
                self.ledger.blame(member, "drive lost");
            }
            Step::Away { member } if self.unplug(member) => {
                self.away.insert(member);
            }
            Step::Back { member } if member < members => {
                self.bring_back_replaced(member);
                self.away.remove(&member);
                self.plug_in(member);
                self.ledger.count("drive comes back", 1);
            }
            Step::Blank { member } if member < members && self.unplug(member) => {
                let blank = self.empty_drive(member);
                self.drive_of[member] = blank;
                self.plug_in(member);
                self.blank.insert(blank);
                self.spoilt.remove(&member);
                self.ledger.blame(member, "drive comes back empty");
            }
            Step::Rollback { member, .. } if member < members => self.go_back(member),
            Step::Foreign { member } if member < members && self.foreign.is_empty() => {
                self.foreign_at(member)
            }
            Step::Exchange { a, b } if a < members && b < members => {
                self.places.swap(a, b);
                self.ledger.count("drives exchanged", 1);
            }
            _ => {}
        }
    }

    /// A drive is as it was at an earlier moment, unless the member has another one since.
    fn go_back(&mut self, member: usize) {
        let Some(Taken { drive, snapshot, mounts }) = self.rollbacks.due(&self.drive_of) else { return };
        // With too few others that know better, nobody can tell (TESTING.md).
        let others_gone = self.away.iter().copied();
        if !self.ledger.is_tolerable_without(&others_gone.chain([member]).collect()) {
            return;
        }
        self.replaced.remove(&member);
        self.scrubbed = false;
        let drives = &mut self.rack.lock().drives;
        drives[drive].go_back(snapshot);
        // Once a drive went back behind a mount that had been cut, the next mount has the epoch of that one. A drive that goes
        // to the end of the first holds what it had in the second: it went back within one service, by all that is known.
        let epoch = drives[drive].newest_epoch();
        let others = self.drive_of.iter().filter(|other| **other != drive);
        let newest = others.filter_map(|other| drives[*other].newest_epoch()).max();
        if mounts < self.tally.mounts && newest.is_none_or(|newest| Some(newest) > epoch) {
            self.outdated.insert(member);
        } else {
            self.outdated.remove(&member);
        }
        self.ledger.blame(member, "drive goes back");
    }

    /// A new drive in the rack.
    pub(crate) fn empty_drive(&self, member: usize) -> usize {
        let drives = &mut self.rack.lock().drives;
        let mut id = uuid(member);
        id[8..].copy_from_slice(&(drives.len() as u64).to_le_bytes());
        drives.push(Drive::new(&self.plan, self.array.geometry(), id, member));
        drives.len() - 1
    }

    /// An operator gives an empty drive for one that failed. The array may refuse it for good reasons, and
    /// goes on then.
    pub(crate) fn replace(&mut self, member: usize) -> Result<(), Failure> {
        if member >= self.plan.members {
            return Ok(());
        }
        if let Array::Raizn(..) = self.array {
            return self.replace_in_baseline(member);
        }
        let drive = self.empty_drive(member);
        let device = self.rack.device(drive);
        let id = self.rack.lock().drives[drive].media().uuid();
        self.rack.lock().power.recovering = true;
        let now = self.now;
        let Some(volume) = self.volume().log() else { return Ok(()) };
        let accepted = volume.replace_member(now, DriveIndex::at(member), device, id);
        self.rack.lock().power.recovering = false;
        if accepted.is_ok() {
            self.scrubbed = false;
            self.spoilt.remove(&member);
            self.unplug(member);
            self.away.remove(&member);
            self.drive_of[member] = drive;
            self.plug_in(member);
            let mut rack = self.rack.lock();
            rack.drives[drive].learn();
            rack.power.disarm(member);
            drop(rack);
            self.ledger.blame(member, "drive replaced");
            self.replaced.insert(member);
        }
        self.turn()
    }

    /// Puts a drive of another array into a place.
    fn foreign_at(&mut self, place: usize) {
        let array = self.array.with_identity(*b"another array...");
        let first = self.rack.lock().drives.len();
        let ids: Vec<[u8; 16]> = (0..self.plan.members).map(|member| [0xf0 ^ uuid(member)[0]; 16]).collect();
        for (member, id) in ids.iter().enumerate() {
            let drive = Drive::new(&self.plan, array.geometry(), *id, FOREIGN + member);
            self.rack.lock().drives.push(drive);
        }
        let mut rack = self.rack.lock();
        rack.power.restore();
        rack.power.recovering = true;
        drop(rack);
        let devices = (0..ids.len()).map(|member| Some(self.rack.device(first + member))).collect();
        let made = array.format(&mut DriveSet::new(devices), &ids);
        self.rack.lock().power.fail();
        if made.is_ok() && self.places.iter().flatten().count() > 1 {
            self.foreign.insert(place, self.places[place]);
            self.places[place] = Some(first);
            self.ledger.count("drive of another array", 1);
        }
    }

    /// Time that drives hang at most.
    pub(crate) fn is_over(&self, since: Instant) -> bool {
        self.now.since(since.max(self.hangs_until)).0 > PATIENCE_NS
    }
}
