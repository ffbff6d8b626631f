//! Operator: drives are taken out of service, replaced, removed and added.

use super::act::ADDED_MAX;
use super::pace::EVENTS_MAX;
use super::world::CacheWorld;
use crate::tally::Failure;

impl CacheWorld {
    /// An operator takes a drive out of service: that alone never costs the cache its writes.
    pub(super) fn take_out(&mut self, drive: usize) -> Result<(), Failure> {
        if self.life.judge.stage.shards().operator().take_out(drive).is_err() {
            return Ok(());
        }
        self.life.judge.stage.bays.blamed.insert(drive);
        if self.life.judge.stage.mounted().all().iter().any(|volume| volume.shard().drives()[drive].up) {
            return Err(Failure::new(format!("drive {drive} was taken out, and a shard goes on with it")));
        }
        self.life.turn()?;
        match self.life.judge.stage.mounted().is_frozen() && self.life.judge.stage.tally.faults == 0 {
            true => Err(Failure::new(format!("drive {drive} was taken out, and the cache takes no writes"))),
            false => Ok(()),
        }
    }

    /// An operator puts an empty drive in the place of one that is out of service.
    pub(super) fn join(&mut self, drive: usize) -> Result<(), Failure> {
        let geometry = self.life.judge.stage.plan.geometry();
        if self.life.judge.stage.shards().operator().may_join(drive, &geometry).is_err()
            || self.life.judge.stage.bays.free.contains(&drive)
        {
            return Ok(());
        }
        let uuid = self.life.judge.stage.put_new(drive);
        self.life.judge.stage.put_in(drive, uuid)
    }

    /// An operator removes a drive: its place is free once superblocks say that it is left out.
    pub(super) fn give_up_drive(&mut self, drive: usize) -> Result<(), Failure> {
        let was_blamed = self.life.judge.stage.may_freeze();
        if self.life.judge.stage.shards().operator().take_out(drive).is_err() {
            return Ok(());
        }
        self.life.judge.stage.bays.blamed.insert(drive);
        self.life.turn()?;
        let mut events = 0;
        while !self.life.judge.stage.shards().operator().has_recorded()
            && !self.life.judge.stage.mounted().is_frozen()
        {
            events += 1;
            if events > EVENTS_MAX {
                return Err(Failure::new(format!("the removal of drive {drive} is never recorded")));
            }
            if !self.life.step("an operator")? {
                return Ok(());
            }
        }
        if self.life.judge.stage.mounted().is_frozen() {
            return match was_blamed || self.life.judge.stage.rack.lock().power.is_off() {
                true => Ok(()),
                false => {
                    Err(Failure::new(format!("drive {drive} was removed, and the cache takes no writes")))
                }
            };
        }
        self.life.judge.stage.tally.removals += 1;
        if !was_blamed {
            // Those that are left are all of them.
            self.life.judge.stage.bays.blamed.clear();
        }
        self.life.judge.stage.bays.free.insert(drive);
        Ok(())
    }

    /// An operator adds a drive; false when nothing can follow.
    pub(super) fn add_drive(&mut self, joins: bool) -> Result<bool, Failure> {
        let places = self.life.judge.stage.places();
        if self.life.judge.stage.mounted().all().iter().any(|volume| volume.shard().drives().len() < places) {
            return self.life.after_act();
        }
        let geometry = self.life.judge.stage.plan.geometry();
        let free = self.life.judge.stage.bays.free.first().copied();
        let is_possible = match free {
            Some(place) => self.life.judge.stage.shards().operator().may_join(place, &geometry).is_ok(),
            None => {
                places < self.life.judge.stage.plan.drives + ADDED_MAX
                    && self.life.judge.stage.shards().operator().may_grow(&geometry).is_ok()
            }
        };
        if !is_possible {
            return self.life.after_act();
        }
        let place = free.unwrap_or(places);
        let uuid = self.life.judge.stage.put_new(place);
        self.life.judge.stage.tally.additions += 1;
        if !joins {
            self.life.stop(false)?;
            return self.life.mount(None);
        }
        if free.is_none() {
            let made = self.life.judge.stage.shards().operator().grow(&geometry);
            assert!(made == place, "places are numbered alike");
        }
        self.life.judge.stage.put_in(place, uuid)?;
        self.life.after_act()
    }
}
