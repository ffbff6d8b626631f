//! Resets of logical zones: first every log says that what the zone held is gone, then the drives' zones are
//! erased. A crash in between is made good by the next mount.

use crate::Raizn;
use crate::logical_zone::{Pending, Reset, ResetStage};
use crate::token::Waiter;
use array::engine::Effects;
use array::request::{Outcome, Reply, RequestId};
use base::units::ZoneIndex;
use zone::device::{Completion, Op, Status};

impl Raizn {
    /// A reset has arrived; writes that arrive from now on begin at the zone's start.
    pub(super) fn queue_reset(&mut self, zone: u32, id: RequestId) {
        // A flush waits for it as for a write.
        let arrival = self.answers.arrive();
        let logical = &mut self.zones[zone as usize];
        logical.write_pointer = 0;
        logical.pending.push_back(Pending::Reset { id, arrival });
    }

    /// Begins the reset that is first in its zone; false while something is in flight there.
    pub(super) fn start_reset(&mut self, zone: u32, fx: &mut Effects) -> bool {
        let members: Vec<usize> =
            (0..self.config.members).filter(|drive| !self.members.is_failed(*drive)).collect();
        if !self.zones[zone as usize].is_quiet(&self.map) {
            return false;
        }
        for drive in &members {
            if !self.log_has_room_for_reset(*drive, fx) {
                self.zones_waiting.insert(zone);
                return false;
            }
        }
        // Room may have been made by making the zone's stripes move to another log zone.
        if !self.zones[zone as usize].is_quiet(&self.map) {
            return false;
        }
        let logical = &mut self.zones[zone as usize];
        let Some(Pending::Reset { id, arrival }) = logical.pending.pop_front() else { return false };
        if logical.generation == 0 {
            self.answer_reset(id, arrival, fx);
            return true;
        }
        logical.reset =
            Some(Reset { id, arrival, stage: ResetStage::Recording(super::config::count(members.len())) });
        for mut stripe in std::mem::take(&mut logical.stripes) {
            self.frames.give_many(&mut stripe.data);
        }
        let moved: Vec<(u32, u32, u32)> =
            self.logs.relocated.range((zone, 0, 0)..(zone + 1, 0, 0)).map(|(key, _)| *key).collect();
        for key in moved {
            let frame = self.logs.relocated.remove(&key).expect("listed above");
            self.frames.give(frame);
        }
        for drive in members {
            self.append_reset(drive, zone, fx);
        }
        false
    }

    /// Notes that one more log says that the zone is reset.
    pub(super) fn on_reset_recorded(&mut self, zone: u32, fx: &mut Effects) {
        let members = self.config.members;
        let failed = self.members.failed;
        let reset = self.zones[zone as usize].reset.as_mut().expect("its record was appended");
        let ResetStage::Recording(pending) = &mut reset.stage else {
            panic!("a record of a reset came late")
        };
        assert!(*pending > 0, "a log records a reset once");
        *pending -= 1;
        if *pending > 0 {
            return;
        }
        let present = (0..members).filter(|drive| failed != Some(*drive));
        reset.stage = ResetStage::Erasing(super::config::count(present.clone().count()));
        for drive in present {
            fx.command(drive, ZoneIndex(zone), Waiter::ZoneReset(zone), Op::Reset);
        }
    }

    /// Notes that one of the drives' zones is empty; true when all are, so that what waits in the zone may begin.
    pub(super) fn on_zone_reset(
        &mut self,
        zone: u32,
        drive: usize,
        completion: &Completion,
        fx: &mut Effects,
    ) -> bool {
        if completion.status != Status::Success {
            self.lose_member(drive, fx);
        }
        let logical = &mut self.zones[zone as usize];
        let reset = logical.reset.as_mut().expect("its zones are being reset");
        let ResetStage::Erasing(pending) = &mut reset.stage else { panic!("a zone was reset too early") };
        assert!(*pending > 0, "a zone is reset once");
        *pending -= 1;
        if *pending > 0 {
            return false;
        }
        let (id, arrival) = (reset.id, reset.arrival);
        logical.reset = None;
        logical.generation = 0;
        logical.placed = 0;
        self.answer_reset(id, arrival, fx);
        true
    }

    fn answer_reset(&mut self, id: RequestId, arrival: u64, fx: &mut Effects) {
        self.answers.end(arrival);
        let outcome = if self.is_broken() { Outcome::IoError } else { Outcome::Done };
        fx.replies.push(Reply { id, outcome, frames: Vec::new() });
        // Flushes may have waited for it.
        self.answers.settle(&self.members, fx);
    }
}
