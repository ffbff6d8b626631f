//! Acts of an operator that break nothing: a server is stopped in order and started again, a scrub is stopped, rates change.

use crate::drive::Drive;
use crate::engine::Array;
use crate::world::{Failure, World};

impl World {
    /// A server stops in order, as `zoneweave stop` has it, and starts again: clients are answered, what they wrote is flushed, a
    /// checkpoint is written. No drive loses its cache; commands that nobody waits for may take effect or not.
    pub(crate) fn restart(&mut self) -> Result<(), Failure> {
        if let Array::Raizn(..) = self.array {
            return Ok(());
        }
        self.drain()?;
        if self.is_dark() {
            return Ok(());
        }
        self.flush()?;
        self.drain()?;
        if self.is_dark() {
            return Ok(());
        }
        if let Some(volume) = self.volume().log() {
            volume.ask_for_checkpoint();
        }
        self.turn()?;
        let since = self.now;
        while !self.is_dark() && self.is_writing_checkpoint() {
            if !self.advance()? && !self.is_dark() || self.is_over(since) {
                return Err(self.stuck("the last checkpoint is never written"));
            }
        }
        if self.is_dark() {
            return Ok(());
        }
        self.volume = None;
        self.scrubbed = false;
        self.rack.lock().drives.iter_mut().for_each(Drive::forget_flight);
        self.ledger.count("restarts", 1);
        self.mount(None)
    }

    fn is_writing_checkpoint(&mut self) -> bool {
        self.volume().log().is_some_and(|volume| volume.engine.is_writing_checkpoint())
    }

    /// A scrub is stopped, if one is running.
    pub(crate) fn stop_scrub(&mut self) -> Result<(), Failure> {
        if let Some(volume) = self.volume().log() {
            volume.stop_scrub();
            self.scrubbed = false;
        }
        self.turn()
    }

    /// Rebuilds and scrubs are limited from now on, or not.
    pub(crate) fn set_rates(&mut self, kib_per_second: u64) -> Result<(), Failure> {
        if let Some(volume) = self.volume().log() {
            let rate = Some(kib_per_second << 10);
            volume.set_rebuild_rate(rate);
            volume.set_scrub_rate(rate);
        }
        self.turn()
    }
}
