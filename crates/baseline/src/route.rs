//! Completions of log appends: what each was for goes on.

use crate::Raizn;
use crate::parity_log::Purpose;
use array::engine::Effects;
use zone::device::{Completion, Status};

impl Raizn {
    /// The logical zone that an append is about.
    pub(super) fn zone_of_append(&self, slot: u32) -> Option<u32> {
        match self.logs.appends.get(slot).purpose() {
            Purpose::Partial { zone, .. } | Purpose::Checkpoint { zone, .. } | Purpose::Reset(zone) => {
                Some(zone)
            }
            Purpose::Moved | Purpose::Members => None,
        }
    }

    /// An append is over.
    pub(super) fn on_log(&mut self, slot: u32, drive: usize, completion: Completion, fx: &mut Effects) {
        let purpose = self.end_append(slot, drive);
        self.frames.give_vec(completion.frames);
        if completion.status != Status::Success {
            self.lose_member(drive, fx);
        }
        match purpose {
            Purpose::Partial { zone, stripe, coverage } => {
                let found = self.zones[zone as usize].open_stripe(stripe);
                let partial = found.partials.iter_mut().find(|partial| partial.coverage == coverage);
                partial.expect("kept until it is durable").pending -= 1;
                self.advance_stripes(zone, stripe, fx);
            }
            Purpose::Checkpoint { zone, stripe, coverage } => {
                let found = self.zones[zone as usize].open_stripe(stripe);
                assert!(found.checkpoint_pending > 0, "an append of a checkpoint is over once");
                found.checkpoint_pending -= 1;
                if found.checkpoint_pending == 0 {
                    found.is_stale = false;
                    found.acked = found.acked.max(coverage);
                    self.pay_debt(drive);
                }
                self.advance_stripes(zone, stripe, fx);
            }
            Purpose::Moved => self.pay_debt(drive),
            Purpose::Members => {
                self.members.on_recorded();
                self.answer_writes(fx);
            }
            Purpose::Reset(zone) => self.on_reset_recorded(zone, fx),
        }
    }

    /// An old log zone was reset.
    pub(super) fn on_log_reset(&mut self, drive: usize, completion: &Completion, fx: &mut Effects) {
        self.end_log_reset(drive);
        if completion.status != Status::Success {
            self.lose_member(drive, fx);
        }
    }
}
