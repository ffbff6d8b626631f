//! Lives of the engine: they begin with a start, and end with a stop, a kill, or the power.

use super::clients::Open;
use super::judge::Judge;
use crate::inplace::disk::DiskHandle;
use crate::world::Failure;
use array::request::Reply;
use std::collections::BTreeMap;

/// See the module. Requests and time are in [`super::clients`].
pub(super) struct Life {
    pub(super) judge: Judge,
    /// Requests under way, by their numbers.
    pub(super) open: BTreeMap<u64, Open>,
    pub(super) next_id: u64,
    /// Empty, with capacity.
    pub(super) replies: Vec<Reply>,
}

impl Life {
    /// Nothing runs yet.
    pub(super) fn new(judge: Judge) -> Life {
        Life { judge, open: BTreeMap::new(), next_id: 1, replies: Vec::new() }
    }

    /// The power fails, and the array is started anew.
    pub(super) fn crash(&mut self) -> Result<bool, Failure> {
        self.cut();
        let has_started = self.start_anew()?;
        self.judge.doubts.unrecorded.clear();
        Ok(has_started)
    }

    pub(super) fn kill(&mut self) -> Result<bool, Failure> {
        self.lose_engine(DiskHandle::let_go);
        self.judge.oracle.kill();
        self.judge.tally.kills += 1;
        let failed = self.judge.gone.clone();
        let has_started = self.start_anew()?;
        self.judge.doubts.unrecorded = failed.difference(&self.judge.gone).copied().collect();
        Ok(has_started)
    }

    /// The power fails.
    pub(super) fn cut(&mut self) {
        self.lose_engine(DiskHandle::crash);
        self.judge.oracle.crash();
        self.judge.tally.crashes += 1;
    }

    /// The engine is gone, and this happens to all disks.
    fn lose_engine(&mut self, how: impl Fn(&DiskHandle)) {
        assert!(self.judge.stage.volume.is_some(), "an engine is lost that was not started");
        self.judge.check();
        self.judge.look_at_replay();
        self.judge.stage.volume = None;
        let spares = self.judge.stage.spares.iter().map(|(_, disk)| disk);
        let others =
            spares.chain(self.judge.stage.journal.disk()).chain(self.judge.stage.replacements.disks());
        self.judge.stage.disks.iter().chain(&self.judge.stage.retired).chain(others).for_each(how);
        self.judge.look_at_lies();
        self.open.clear();
        self.judge.note_unsure();
        self.judge.note_in_flight();
        self.judge.keep_causes();
    }

    pub(super) fn stop(&mut self) -> Result<bool, Failure> {
        self.shut()?;
        self.start_anew()
    }

    pub(super) fn start_anew(&mut self) -> Result<bool, Failure> {
        assert!(self.judge.stage.volume.is_none(), "an engine is started beside another");
        assert!(self.open.is_empty(), "{} requests outlive their engine", self.open.len());
        if !self.judge.start()? {
            return Ok(false);
        }
        self.judge.check();
        self.turn()?;
        Ok(true)
    }

    /// Stops the engine and looks at what lies on the media.
    pub(super) fn shut(&mut self) -> Result<(), Failure> {
        self.drain()?;
        assert!(self.open.is_empty(), "{} requests are under way as the engine stops", self.open.len());
        self.judge.check();
        self.judge.look_at_resync();
        self.judge.stage.volume().engine.core_mut().stop();
        self.turn()?;
        while !self.judge.stage.volume().engine.has_stopped() {
            self.step("the stop")?;
        }
        let status = self.judge.stage.volume().engine.status();
        self.judge.stage.volume = None;
        if status.is_broken {
            self.judge.stage.disks.iter().for_each(DiskHandle::forget_flush);
            self.judge.note_unsure();
            self.judge.note_in_flight();
            self.judge.keep_causes();
            self.judge.expect_failed_writes();
        }
        let others =
            || self.judge.stage.journal.disk().into_iter().chain(self.judge.stage.replacements.disks());
        self.judge.stage.disks.iter().chain(others()).for_each(DiskHandle::forget_fault);
        // The power may fail right after a stop: what was marked clean is.
        if self.judge.stage.random.chance(1, 2) && !self.judge.is_too_much() {
            self.judge.stage.disks.iter().chain(others()).for_each(DiskHandle::crash);
        }
        if self.judge.is_too_much() || status.is_broken {
            return Ok(());
        }
        // Who was missing at the start is named with the first write, who failed in service at once.
        let failed = if status.counters.failures > 0 { status.missing } else { Vec::new() };
        self.judge.look_at_media(&failed)
    }
}
