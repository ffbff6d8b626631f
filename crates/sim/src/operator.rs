//! Acts of an operator in service: a server is stopped in order and started again, a scrub is started and stopped, rates
//! change, a member is failed or gets an empty drive.

use crate::baseline;
use crate::drive::Drive;
use crate::engine::Array;
use crate::tally::Failure;
use crate::world::World;
use array::log::scrub::{ScrubOptions, ScrubState};
use array::pacer::Rates;
use base::units::DriveIndex;

impl World {
    /// A server stops in order, as `zoneweave stop` has it, and starts again: clients are answered, what they wrote is flushed, a
    /// checkpoint is written. No drive loses its cache; commands that nobody waits for may take effect or not.
    pub(crate) fn restart(&mut self) -> Result<(), Failure> {
        if !matches!(self.service.array, Array::Log(_)) {
            return Ok(());
        }
        self.service.drain()?;
        if self.service.is_dark() {
            return Ok(());
        }
        self.service.flush()?;
        self.service.drain()?;
        if self.service.is_dark() {
            return Ok(());
        }
        if let Some(volume) = self.service.volume().log() {
            volume.ask_for_checkpoint();
        }
        self.service.turn()?;
        let since = self.service.now;
        while !self.service.is_dark() && self.is_writing_checkpoint() {
            if !self.service.advance()? && !self.service.is_dark() || self.service.is_over(since) {
                return Err(self.service.stuck("the last checkpoint is never written"));
            }
        }
        if self.service.is_dark() {
            return Ok(());
        }
        assert!(self.service.clients.waiting() == 0, "clients are answered before a server stops");
        let has_checkpoint = self.service.volume().log().is_some_and(|volume| volume.engine.has_checkpoint());
        self.service.ledger.count("stops with a checkpoint", u64::from(has_checkpoint));
        self.service.volume = None;
        self.service.ledger.end_scrub();
        self.service.rack.lock().drives.iter_mut().for_each(Drive::forget_flight);
        self.service.ledger.count("restarts", 1);
        self.mount(None)
    }

    fn is_writing_checkpoint(&mut self) -> bool {
        self.service.volume().log().is_some_and(|volume| volume.engine.is_writing_checkpoint())
    }

    /// A scrub is stopped, if one is running.
    pub(crate) fn stop_scrub(&mut self) -> Result<(), Failure> {
        if let Some(volume) = self.service.volume().log() {
            let status = volume.engine.scrub_status();
            let was_running = status
                .is_some_and(|scrub| matches!(scrub.state, ScrubState::Running | ScrubState::Repairing));
            volume.stop_scrub();
            if was_running {
                self.service.ledger.count("scrubs stopped", 1);
            }
            self.service.ledger.end_scrub();
        }
        self.service.turn()
    }

    /// Rebuilds and scrubs are limited from now on, or not.
    pub(crate) fn set_rates(&mut self, kib_per_second: u64) -> Result<(), Failure> {
        if let Some(volume) = self.service.volume().log() {
            let rate = Some(kib_per_second << 10);
            volume.set_rebuild_rates(Rates::asked_for(rate));
            volume.set_scrub_rate(rate);
            self.service.ledger.count("rates changed", 1);
        }
        self.service.turn()
    }

    /// An operator has everything read; refused while a scrub is running.
    pub(crate) fn scrub(&mut self, repair: bool) -> Result<(), Failure> {
        // All drives are read where a rebuild writes one.
        let rate = Some(self.service.plan.rebuild_kib_per_second << 13);
        let is_quiet = self.service.clients.waiting() == 0 && self.service.engine().is_quiet();
        let Some(volume) = self.service.volume().log() else { return Ok(()) };
        if volume.start_scrub(ScrubOptions { repair, rate }).is_ok() {
            self.service.ledger.count("scrubs", 1);
            self.service.ledger.begin_scrub(repair && is_quiet);
        }
        self.service.turn()
    }

    pub(crate) fn fail_member(&mut self, member: usize) -> Result<(), Failure> {
        if self.service.is_dark() {
            return Ok(());
        }
        self.service.ledger.blame(member, "operator fails a drive");
        self.service.volume().fail_member(DriveIndex::at(member));
        self.service.turn()
    }

    /// An operator gives an empty drive for one that failed. The array may refuse it for good reasons, and
    /// goes on then.
    pub(crate) fn replace(&mut self, member: usize) -> Result<(), Failure> {
        if member >= self.service.plan.members {
            return Ok(());
        }
        if !matches!(self.service.array, Array::Log(_)) {
            return baseline::replace(&mut self.service, &mut self.bays, member);
        }
        let drive = self.bays.replacement(member, &self.service);
        let device = self.service.rack.device(drive);
        let is_larger = device.geometry().zones > self.service.array.geometry().zones;
        let id = self.service.rack.lock().drives[drive].media().uuid();
        let is_emptied = self.service.rack.lock().drives[self.bays.drive_of[member]].media().uuid() == id;
        self.service.rack.lock().power.recovering = true;
        let now = self.service.now;
        let Some(volume) = self.service.volume().log() else { return Ok(()) };
        let accepted = volume.replace_member(now, DriveIndex::at(member), device, id);
        self.service.rack.lock().power.recovering = false;
        if accepted.is_ok() {
            self.service.ledger.end_scrub();
            self.service.ledger.count("drives emptied and given again", u64::from(is_emptied));
            self.service.ledger.count("larger drives given", u64::from(is_larger));
            self.bays.spoilt.remove(&member);
            self.bays.unplug(member);
            self.bays.away.remove(&member);
            self.bays.drive_of[member] = drive;
            assert!(self.bays.spoilt.is_disjoint(&[member].into()), "a new drive is whole");
            self.bays.plug_in(member);
            let mut rack = self.service.rack.lock();
            rack.drives[drive].learn();
            rack.power.disarm(member);
            drop(rack);
            self.service.ledger.blame(member, "drive replaced");
            self.bays.replaced.insert(member);
        }
        self.service.turn()
    }
}
