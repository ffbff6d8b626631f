//! The power goes and comes back, and the array is mounted: by whom, without whom, and what follows from a refusal.

use crate::baseline;
use crate::bays::Mounted;
use crate::drive::Drive;
use crate::engine::{Array, Volume};
use crate::power::Blow;
use crate::service::PATIENCE_NS;
use crate::step::At;
use crate::tally::Failure;
use crate::world::World;
use array::log::config::Tuning;
use array::log::volume::LogVolume;
use array::log::{MountError, ReAddRefusal, mount, mount_with_re_add};
use zone::device::ZonedDevice;

impl World {
    /// The power fails, unless it has already.
    pub(crate) fn power_off(&mut self) {
        if self.lose_server() {
            self.fail_drives();
        }
    }

    /// The server is killed, unless there is none.
    pub(crate) fn kill(&mut self) {
        if !self.lose_server() {
            return;
        }
        self.service.ledger.count("servers killed", 1);
        let mut rack = self.service.rack.lock();
        rack.power.fail();
        rack.drives.iter_mut().for_each(Drive::outlive_server);
    }

    /// The server is gone, with all that it knew; false when there was none.
    fn lose_server(&mut self) -> bool {
        if self.service.volume.take().is_none() {
            return false;
        }
        self.service.clients.forget();
        self.service.ledger.end_scrub();
        self.service.is_taken = false;
        self.service.rack.lock().rival = None;
        true
    }

    fn fail_drives(&mut self) {
        assert!(self.service.volume.is_none(), "no engine is left when the power fails");
        self.service.clients.oracle.power_failed();
        self.service.tally.power_failures += 1;
        let mut rack = self.service.rack.lock();
        rack.power.fail();
        rack.drives.iter_mut().for_each(Drive::power_fail);
    }

    /// The power comes back and the array is mounted; with `cut` it may fail again before that is over.
    pub(crate) fn mount(&mut self, cut: Option<At>) -> Result<(), Failure> {
        self.power_off();
        loop {
            {
                let mut rack = self.service.rack.lock();
                rack.power.restore();
                rack.power.recovering = true;
                if let Some(at) = cut {
                    rack.power.arm(at, None, Blow::PowerOff);
                }
            }
            assert!(self.service.volume.is_none(), "an array is mounted once at a time");
            let devices = self
                .bays
                .places
                .iter()
                .map(|place| place.map(|drive| self.service.rack.device(drive)))
                .collect();
            let mounted = match &self.service.array {
                Array::Log(config) => self.mount_log(config.array, devices)?,
                Array::Raizn(..) | Array::Zraid(_) => {
                    baseline::mount_array(&mut self.service, &mut self.bays, devices)?
                }
            };
            match mounted {
                Mounted::Done => return self.on_mounted(),
                Mounted::Again => self.fail_drives(),
                Mounted::Dark => {
                    // Others may have been told who was not there, and those are not there yet.
                    let away = self.bays.away.clone();
                    self.bays.blame_the_absent(&mut self.service.ledger);
                    self.bays.away = away;
                    self.service.ledger.count("power fails in recovery", 1);
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
        let now = self.service.now;
        // No two mounts draw the same.
        let tuning = Tuning { mount_tag: now.0, ..self.service.plan.tuning() };
        let mounted = match self.re_adding {
            None => mount(devices, tuning, now),
            Some(re_add) => mount_with_re_add(devices, re_add, tuning, now),
        };
        if self.service.has_lost_power_in_recovery() {
            return Ok(Mounted::Dark);
        }
        match mounted {
            // With hardly a drive of its own, nobody can tell that the other array was not meant.
            Ok((shard, ..))
                if shard.status().array != array && self.bays.own_drives(&self.service.rack.lock()) < 2 =>
            {
                self.bays.unplug_foreign();
                Ok(Mounted::Again)
            }
            Ok((shard, drives, report)) => {
                self.service.ledger.count("mounts with a checkpoint", u64::from(shard.has_checkpoint()));
                self.service.ledger.count("checkpoints refused", u64::from(report.checkpoint_refused));
                if let Some(re_added) = &report.re_added {
                    self.bays.on_re_added(re_added, &mut self.service.ledger);
                }
                if let Some(why) = report.re_add_refused {
                    self.on_re_add_refused(why);
                }
                let mut volume = LogVolume::new(shard, drives);
                volume.drives.outlive_hiccups(true);
                if self.service.plan.watches_zones {
                    volume.engine.watch_zones();
                }
                if self.service.plan.fences {
                    volume.watch_for_others();
                }
                self.service.volume = Some(Volume::Log(Box::new(volume)));
                Ok(Mounted::Done)
            }
            Err(MountError::NotReAdded { why, .. }) => {
                assert!(self.service.volume.is_none(), "a mount that is refused serves nothing");
                self.on_re_add_refused(why);
                Ok(Mounted::Again)
            }
            Err(MountError::ForeignDrive { .. }) if !self.bays.foreign.is_empty() => {
                self.bays.unplug_foreign();
                Ok(Mounted::Again)
            }
            Err(error) => {
                let has_told = matches!(error, MountError::Drive { .. });
                self.bays.may_try_again(&error.to_string(), has_told, &mut self.service.ledger)
            }
        }
    }

    fn on_re_add_refused(&mut self, why: ReAddRefusal) {
        let refused = self.re_adding.take().expect("a re-add is refused that was asked for");
        self.bays.take_out_stranger(refused.member);
        self.service.ledger.count("re-adds refused", 1);
        if matches!(why, ReAddRefusal::Newer { .. } | ReAddRefusal::Apart { .. }) {
            self.service.ledger.count("strangers refused", 1);
        }
    }

    fn on_mounted(&mut self) -> Result<(), Failure> {
        assert!(self.service.volume.is_some(), "an engine is there");
        assert!(self.service.clients.waiting() == 0, "nobody waits before the mount");
        self.bays.blame_the_absent(&mut self.service.ledger);
        if !self.bays.foreign.is_empty() {
            return Err(Failure::new("a drive of another array was accepted"));
        }
        self.bays.check_outdated(&mut self.service)?;
        self.service.tally.mounts += 1;
        self.service.rack.lock().drives.iter_mut().for_each(Drive::learn);
        let since = self.service.now;
        self.service.turn()?;
        while !self.service.is_dark() && self.service.engine().has_recovery_debt() {
            if !self.service.advance()? && !self.service.is_dark() {
                return Err(self.service.stuck("recovery never ends: nothing is due"));
            }
            if self.service.now.since(since).0 > PATIENCE_NS {
                return Err(self.service.stuck("recovery never ends"));
            }
        }
        if self.service.is_dark() {
            self.service.ledger.count("power fails in recovery", 1);
            self.power_off();
            return Ok(());
        }
        if self.service.engine().must_mount_again() {
            return self.mount_again();
        }
        self.service.rack.lock().power.disarm_cuts();
        self.service.observe_all()
    }

    /// Recovery begins anew, as in the server: engine and drives part when both are at rest.
    fn mount_again(&mut self) -> Result<(), Failure> {
        self.service.ledger.count("recovery begins anew", 1);
        self.service.come_apart("recovery cannot begin anew")?;
        if self.service.is_dark() {
            self.power_off();
            return Ok(());
        }
        self.service.volume = None;
        self.mount(None)
    }
}
