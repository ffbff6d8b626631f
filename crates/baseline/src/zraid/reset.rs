//! Resets of logical zones: first every log says that what the zone held is gone, then the drives' zones are erased. A
//! crash in between is made good by the next mount.

use super::Zraid;
use super::log::Purpose;
use super::logical_zone::State;
use crate::config::count;
use crate::logical_zone::{Pending, Reset, ResetStage};
use crate::record::Record;
use array::engine::Effects;
use array::request::RequestId;

impl Zraid {
    /// A reset has arrived; writes that arrive from now on begin at the zone's start.
    pub(super) fn queue_reset(&mut self, number: u32, id: RequestId) {
        // A flush waits for it as for a write.
        let arrival = self.order.arrive();
        let zone = &mut self.zones[number as usize];
        zone.write_pointer = 0;
        zone.waiting.push_back(Pending::Reset { id, arrival });
    }

    /// Begins the reset that is first in its zone; true when it is over, for there was nothing.
    pub(super) fn start_reset(&mut self, number: u32, fx: &mut Effects) -> bool {
        let zone = &mut self.zones[number as usize];
        if !zone.is_quiet() {
            return false;
        }
        let Some(Pending::Reset { id, arrival }) = zone.waiting.pop_front() else { return false };
        if zone.state == State::Empty {
            self.end_reset(id, arrival, fx);
            return true;
        }
        let members = self.config.members;
        zone.reset = Some(Reset { id, arrival, stage: ResetStage::Recording(count(members)) });
        let generation = zone.generation;
        for mut stripe in std::mem::take(&mut zone.stripes) {
            self.frames.give_many(&mut stripe.data);
            self.forget_partials(number, stripe.number, fx);
        }
        for drive in 0..members {
            let record = self.sealed(Record::of_reset(self.members.epoch, number, generation));
            self.append(drive, Purpose::Reset(number), vec![record], fx);
        }
        false
    }

    pub(super) fn end_reset(&mut self, id: RequestId, arrival: u64, fx: &mut Effects) {
        self.order.open.remove(&arrival);
        self.answer(id, fx);
    }
}
