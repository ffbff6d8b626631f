//! Reads at dies: a program makes way, the die senses, the channel carries what was sensed.

use super::core::Core;
use super::die::Activity;
use super::dies::Flash;
use super::events::Event;
use super::noise::nanos;

/// Time that is left of a suspended program at least, in nanoseconds.
const LEFT_MIN: u64 = 5_000;

impl Flash {
    /// A read waits at a die: idle, it senses; a program there begins to make way.
    pub(super) fn call_read(&mut self, core: &mut Core, die: usize) {
        let index = u32::try_from(die).expect("thousands of dies");
        let suspend = &core.profile.suspend;
        let (stages, wait_us) = (suspend.wait_stages, suspend.wait_us);
        let suspended_max = nanos(suspend.suspended_max_us);
        match self.dies[die].activity {
            Activity::Idle => self.kick(core, index),
            Activity::Programming { started } if !self.dies[die].insists(core.now, suspended_max) => {
                let wait = nanos(core.noise.erlang(stages, wait_us));
                let die = &mut self.dies[die];
                let Some(running) = &mut die.running else { return };
                let left = running.left.saturating_sub(core.now - started);
                if wait < left {
                    running.left = left;
                    die.activity = Activity::Yielding { wait };
                    die.version = die.version.wrapping_add(1);
                    core.events.plan(core.now + wait, Event::Yielded { die: index, version: die.version });
                }
            }
            Activity::Programming { .. } | Activity::Yielding { .. } | Activity::Reading => {}
        }
    }

    /// A program has advanced until it could be suspended.
    pub(super) fn yielded(&mut self, core: &mut Core, index: u32, version: u32) {
        let resume = nanos(core.profile.suspend.resume_us);
        let die = &mut self.dies[index as usize];
        let Activity::Yielding { wait } = die.activity else { return };
        if die.version != version {
            return;
        }
        if let Some(running) = &mut die.running {
            running.left = running.left.saturating_sub(wait).max(LEFT_MIN) + resume;
            running.since = Some(core.now);
        }
        die.activity = Activity::Idle;
        self.kick(core, index);
    }

    /// Sends what was sensed over the channel. The register is taken until its last page goes.
    pub(super) fn sensed(&mut self, core: &mut Core, index: u32) {
        let transfer = nanos(core.profile.read.transfer_us);
        let finish = nanos(core.profile.read.finish_us);
        let die = &mut self.dies[index as usize];
        let channel = &mut self.channels[die.channel];
        let mut free = core.now;
        for piece in die.batch.drain(..) {
            *channel = (*channel).max(core.now) + transfer * u64::from(piece.pages);
            if piece.pages > 1 {
                free = free.max(*channel - transfer);
            }
            // The whole is done when its last piece is, whichever that will have been.
            let pending = core.pending.get_mut(piece.slot);
            pending.rest = pending.rest.max(*channel + finish);
            pending.pieces -= 1;
            if pending.pieces == 0 {
                core.events.plan(pending.rest, Event::Complete { slot: piece.slot });
            }
        }
        if free > core.now {
            core.events.plan(free, Event::DieFree { die: index });
        } else {
            self.die_free(core, index);
        }
    }

    pub(super) fn die_free(&mut self, core: &mut Core, index: u32) {
        self.dies[index as usize].activity = Activity::Idle;
        self.kick(core, index);
    }
}
