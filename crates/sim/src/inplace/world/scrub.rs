//! Scrubs: what they may refuse and must find, alone and with what lies in parities.

use super::InPlaceWorld;
use super::contents::shape_of;
use super::judge::Judge;
use crate::inplace::disk::DiskHandle;
use crate::world::Failure;
use array::inplace::scrub::{ScrubRefused, ScrubState, ScrubStatus};
use block::md::geometry::{Geometry, Stripe};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

impl Judge {
    /// Begins a scrub; it may be refused with a reason that holds.
    pub(super) fn begin_scrub(&mut self, repairs: bool) -> Result<(), Failure> {
        let (status, is_changing) =
            (self.stage.volume().engine.status(), self.stage.volume().engine.core().is_changing());
        let goes_on = status.scrub.is_some_and(|scrub| scrub.state == ScrubState::Running);
        let lacking = status.missing.len() + status.rebuilding.len();
        let refused = self.stage.volume().engine.core_mut().begin_scrub(repairs).err();
        self.has_scrub |= refused.is_none();
        let is_right = match refused {
            None => !goes_on && lacking == 0 && status.resync_left == 0,
            Some(ScrubRefused::Degraded(missing)) => missing == lacking,
            Some(ScrubRefused::Resyncing) => status.resync_left > 0,
            Some(ScrubRefused::ReadOnly) => repairs && self.stage.journal.may_be_lost(),
            // The last strips of one that was stopped may be in work.
            Some(ScrubRefused::Running) => goes_on || status.strips > 0,
            Some(ScrubRefused::Changing) => is_changing,
            Some(ScrubRefused::Stopping) => false,
        };
        if is_right { Ok(()) } else { Err(Failure::new(format!("a scrub was begun: {refused:?}"))) }
    }

    /// Nothing is wrong with an array but what [`InPlaceWorld::rot`] did, and in rows of lies what may be.
    pub(super) fn look_at_scrub(&mut self, expected: u64) -> Result<(), Failure> {
        self.judge_scrub(expected..=expected + self.stage.lies.sectors_max())
    }

    /// A scrub that has ended counts so many sectors that do not match.
    fn judge_scrub(&mut self, expected: RangeInclusive<u64>) -> Result<(), Failure> {
        let Some(volume) = self.stage.volume.as_ref().filter(|_| self.has_scrub) else { return Ok(()) };
        let scrub = volume.engine.status().scrub.expect("one was begun");
        if scrub.state == ScrubState::Running {
            return Ok(());
        }
        let (done, total) = (scrub.sectors_done, scrub.sectors_total);
        assert!(done <= total, "a scrub has looked at {done} sectors of {total}");
        self.has_scrub = false;
        if scrub.state != ScrubState::Done {
            return Ok(());
        }
        self.tally.scrubs += 1;
        let is_all = scrub.sectors_done == scrub.sectors_total;
        let may_lack = !self.doubts.spoiled.is_empty()
            || !self.doubts.rows.is_empty()
            || self.has_torn_blocks()
            || self.stage.lies.are_there()
            || self.blemishes.listed().next().is_some();
        if !is_all || !expected.contains(&scrub.mismatches) || (scrub.sectors_not_compared > 0 && !may_lack) {
            return Err(Failure::new(format!("{expected:?} sectors do not match: {scrub:?}")));
        }
        Ok(())
    }
}

impl InPlaceWorld {
    /// Waits until nothing is under way; true when nothing is broken or in doubt.
    pub(super) fn come_to_rest(&mut self) -> Result<bool, Failure> {
        self.life.drain()?;
        while self.life.judge.stage.volume().engine.core().is_replaying()
            || self.life.judge.stage.volume().engine.core().is_changing()
        {
            self.life.step("the replay, or a change of the policy")?;
        }
        self.life.judge.stage.volume().engine.core_mut().stop_scrub();
        self.life.resync()?;
        while self.life.judge.stage.volume().engine.status().strips > 0 {
            self.life.step("strips of a scrub")?;
        }
        let has_doubts = self.life.judge.doubts.is_resyncing
            || self.life.judge.doubts.all
            || !self.life.judge.doubts.rows.is_empty();
        let has_doubts = has_doubts || self.life.judge.has_torn_blocks();
        let status = self.life.judge.stage.volume().engine.status();
        let is_sound = self.life.judge.gone.is_empty()
            && status.missing.is_empty()
            && self.life.judge.doubts.spoiled.is_empty();
        // What rots on a member that is copied lies, or does not lie, on its replacement.
        let is_sound =
            is_sound && status.replacing.is_empty() && !self.life.judge.stage.journal.may_be_lost();
        Ok(is_sound && !has_doubts && !status.is_resyncing && status.rows_in_doubt == 0)
    }

    /// Flips bits in parities, which nothing but scrubs meets.
    pub(super) fn rot(&mut self, rows: u64) -> Result<(), Failure> {
        if !self.come_to_rest()? || self.life.judge.stage.lies.are_there() {
            return Ok(());
        }
        // A repair that is answered and not done would be found by the next scrub.
        self.life.judge.stage.disks.iter().for_each(DiskHandle::forget_lie);
        self.locate_rot()?;
        let chunk_rows = u64::from(self.life.judge.stage.plan.chunk) / 8;
        let geometry = Geometry::of(&shape_of(&self.life.judge.stage.plan)).expect("a plan of an array");
        let mut chosen = BTreeSet::new();
        for _ in 0..rows {
            let row = self.life.judge.stage.random.below(self.life.judge.stage.plan.stripes * chunk_rows);
            let (p, q) = geometry.parity(Stripe(row / chunk_rows));
            let parity = q.filter(|_| self.life.judge.stage.random.chance(1, 2)).unwrap_or(p);
            if chosen.insert(row) {
                self.life.judge.stage.disks[parity.index()]
                    .rot(self.life.judge.stage.data_offset + row * 8 + self.life.judge.stage.random.below(8));
            }
        }
        let rotten = u64::try_from(chosen.len()).expect("few") * 8;
        self.scrub_and_repair(rotten).map(|_| ())
    }

    /// A check finds so many sectors that do not match, a repair too, and another check none. Returns what the first one says.
    pub(super) fn scrub_and_repair(&mut self, wrong: u64) -> Result<ScrubStatus, Failure> {
        let mut first = None;
        for (repairs, expected) in [(false, wrong), (true, wrong), (false, 0)] {
            self.life.judge.begin_scrub(repairs)?;
            if !self.life.judge.has_scrub {
                return Err(Failure::new("no scrub began"));
            }
            self.life.turn()?;
            while self.life.judge.stage.is_scrubbing() {
                self.life.step_once("the end of the scrub")?;
            }
            self.life.judge.judge_scrub(expected..=expected)?;
            first = first.or(self.life.judge.stage.volume().engine.status().scrub);
        }
        Ok(first.expect("a scrub has ended"))
    }
}
