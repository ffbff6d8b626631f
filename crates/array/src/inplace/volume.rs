//! Engine with its devices, driven by whoever owns the thread.

use super::{Effects, InPlace};
use crate::request::{Reply, Request, Volume};
use base::frame::FramePool;
use base::time::Instant;
use block::device::Completion;
use block::devices::DeviceSet;
use block::md::Role;

/// Rounds of one turn: so many that a request usually finishes within its turn, so few that the front end is asked again soon.
const ROUNDS_PER_TURN: u32 = 16;

/// Volume: an engine and its devices.
pub struct InPlaceVolume {
    /// Engine.
    pub engine: InPlace,
    /// Its devices.
    pub devices: DeviceSet,
    effects: Effects,
    completions: Vec<(Role, Completion)>,
}

impl InPlaceVolume {
    /// Couples an engine with its devices.
    #[must_use]
    pub fn new(engine: InPlace, devices: DeviceSet) -> InPlaceVolume {
        InPlaceVolume { engine, devices, effects: Effects::default(), completions: Vec::new() }
    }

    /// True when nothing is under way, with the engine or a device.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.engine.is_quiet() && self.effects.commands.is_empty() && self.devices.is_idle()
    }

    /// Gives a member up: it counts as failed, and whatever it was asked is answered in its stead.
    pub fn give_up_member(&mut self, member: Role) {
        self.engine.fail_member(member);
        self.devices.abandon(member);
    }

    fn round(&mut self, now: Instant) -> bool {
        self.engine.settle(now, &mut self.effects);
        let mut moved = !self.effects.commands.is_empty();
        for command in self.effects.commands.drain(..) {
            self.devices.submit(now, command);
        }
        self.devices.poll(now, &mut self.completions);
        moved |= !self.completions.is_empty();
        for (member, completion) in self.completions.drain(..) {
            self.engine.on_completion(member, completion, &mut self.effects);
        }
        moved
    }
}

impl Volume for InPlaceVolume {
    fn blocks(&self) -> u64 {
        self.engine.blocks()
    }

    fn frames(&mut self) -> &mut FramePool {
        self.engine.frames()
    }

    fn client_frames_available(&self) -> usize {
        self.engine.client_frames_available()
    }

    fn submit(&mut self, _now: Instant, request: Request) {
        self.engine.submit(request, &mut self.effects);
    }

    fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool {
        let mut moved = true;
        for _ in 0..ROUNDS_PER_TURN {
            moved = self.round(now);
            if !moved {
                break;
            }
        }
        replies.append(&mut self.effects.replies);
        moved
    }

    fn next_deadline(&self) -> Option<Instant> {
        [self.engine.next_deadline(), self.devices.next_event()].into_iter().flatten().min()
    }
}
