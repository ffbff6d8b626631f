//! Mounts: drives are exchanged, shards are mounted in any order, refusals are cured as an operator would.

use super::act::Moment;
use super::judge::CacheJudge;
use super::shards::Shards;
use super::stage::{CACHE, CacheStage, new_drive};
use crate::drive::Drive;
use crate::power::Blow;
use crate::tally::Failure;
use ::cache::config::Invalidate;
use ::cache::request::WallMillis;
use ::cache::{CacheVolume, MountError, Seen, see_shards};
use base::random::Random;
use std::collections::BTreeSet;

impl CacheStage {
    /// Drives are exchanged, and those that died are there again.
    pub(super) fn exchange(&mut self) {
        if std::mem::take(&mut self.bays.plugs_in) {
            self.bays.free.clear();
        }
        let blank = std::mem::take(&mut self.bays.blank);
        let latency = self.plan.latency();
        let mut rack = self.rack.lock();
        for drive in blank {
            let uuid = [u8::try_from(drive + 101).expect("few drives"); 16];
            rack.drives[drive] = new_drive(&self.plan, &latency, uuid, drive);
            self.files.iter_mut().for_each(|files| files.make(drive, uuid));
            rack.power.disarm(drive);
            self.bays.blamed.insert(drive);
            self.bays.has_lost = true;
        }
        self.bays.blamed.extend(&self.bays.away);
        for (number, drive) in rack.drives.iter_mut().enumerate() {
            if !self.bays.away.contains(&number) {
                drive.be_alive();
                self.files.iter().for_each(|files| files.revive(number));
            }
        }
    }

    /// Does what an operator does when a mount is refused; false when that is nothing.
    pub(super) fn cure(&mut self, error: &MountError) -> Result<bool, Failure> {
        let is_all_there = self.bays.away.is_empty();
        match error {
            MountError::Drive { place, .. } if self.rack.lock().drives[*place].is_dead() => {
                self.bays.away.insert(*place);
                self.bays.blamed.insert(*place);
                Ok(true)
            }
            MountError::NoMajority { .. } if !is_all_there => {
                self.bays.away.clear();
                self.rack.lock().drives.iter_mut().for_each(Drive::be_alive);
                let places = 0..self.places();
                self.files.iter().for_each(|files| places.clone().for_each(|place| files.revive(place)));
                Ok(true)
            }
            MountError::NoMajority { .. } if !self.bays.has_lost => {
                Err(Failure::new(format!("all drives are there, and the mount is refused: {error}")))
            }
            _ if self.may_freeze() => Ok(false),
            error => Err(Failure::new(format!("the mount is refused: {error}"))),
        }
    }
}

impl CacheJudge {
    /// A mount without a drive that no client ever hears of.
    pub(super) fn try_without(&mut self, without: usize, cut: Moment) {
        if self.stage.places() == 1 || without >= self.stage.places() {
            return;
        }
        assert!(self.stage.served.is_none(), "a mount is tried beside another");
        let away = std::mem::replace(&mut self.stage.bays.away, BTreeSet::from([without]));
        self.ledger.forgive_all();
        self.stage.bays.blamed.insert(without);
        drop(self.try_mount(Some(cut)));
        self.stage.files.iter_mut().for_each(|files| drop(files.take_refused()));
        self.stage.bays.away = away;
        self.stage.go_dark(self.stage.plan.invalidate == Invalidate::Media);
    }

    pub(super) fn try_mount(&mut self, cut: Option<Moment>) -> Result<Shards, MountError> {
        {
            let mut rack = self.stage.rack.lock();
            rack.power.recovering = true;
            rack.power.reorders = self.stage.plan.reorders;
            if let Some(cut) = cut {
                rack.power.arm(cut.at(), None, Blow::PowerOff);
            }
        }
        let result = self.mount_shards();
        self.stage.rack.lock().power.recovering = false;
        result
    }

    /// Mounts all shards, one after the other, in any order.
    fn mount_shards(&mut self) -> Result<Shards, MountError> {
        let shards = self.stage.plan.shards;
        let how = (WallMillis(self.stage.clock.wall()), self.stage.plan.options());
        let seen = see_shards(self.stage.drive_sets(shards), CACHE, self.stage.clock.now)?;
        let (seen, spread) = seen.expect("the drives are cut as they were");
        let first = if shards > 1 { self.stage.crossing.index(shards) } else { 0 };
        let mut all: Vec<(usize, Seen)> = seen.into_iter().enumerate().collect();
        all.rotate_left(first);
        let (mut mounted, mut ready): (Vec<Result<CacheVolume, MountError>>, Vec<usize>) = Default::default();
        for (shard, seen) in all {
            let result = seen.mount(self.host(shard), how);
            ready.extend(result.is_ok().then_some(shard));
            mounted.push(result);
        }
        if ready.len() < shards {
            // What they have hidden, and evicted, until they were ready is not told by the next mount.
            ready.into_iter().for_each(|shard| self.ledger.forgive_shard(shard));
        }
        mounted.rotate_right(first);
        let volumes = mounted.into_iter().collect::<Result<_, _>>()?;
        let crossing = Random::from_seed(self.stage.crossing.bits());
        Ok(Shards::new(&self.stage.plan, (volumes, spread), &self.stage.bells, crossing))
    }

    pub(super) fn begin(&mut self, served: Shards) {
        self.stage.clock.latest = self.stage.clock.wall().max(self.stage.clock.recorded);
        self.stage.clock.recorded = self.stage.clock.latest;
        self.stage.clock.ever = self.stage.clock.ever.max(self.stage.clock.latest);
        self.stage.served = Some(served);
        for shard in 0..self.stage.plan.shards {
            let volume = self.stage.mounted().of(shard);
            let (shape, status) = (volume.shard().index().shape(), volume.status());
            self.ledger.learn(shard, shape);
            self.ledger.mounted(shard, &status.recovery, status.drives == self.stage.members(shard));
        }
        self.stage.tally.mounts += 1;
        self.meet_times();
        self.begin_attendance();
    }
}
