//! Programs on dies: who gets which die, suspension, and space that comes back.

use super::core::Core;
use super::die::{Activity, Job, Owner};
use super::dies::Flash;
use super::events::Event;
use super::group::signed;
use super::noise::nanos;

/// What follows from a program: for whoever owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    Nothing,
    /// A group has space in its buffer.
    Space {
        group: u32,
    },
    /// All padding of a zone is there.
    Padded {
        slot: u32,
    },
    /// A program or an erasure of the collector is done.
    Collected,
}

impl Flash {
    pub(super) fn give(&mut self, core: &mut Core, die: usize, job: Job) {
        if job.owner == Owner::Buffer {
            let group = self.dies[die].group as usize;
            self.groups[group].programs += 1;
        }
        let jobs = &mut self.dies[die].jobs;
        let translation = core.profile.translation.as_ref();
        let first =
            job.owner == Owner::Collector && translation.is_some_and(|section| section.collects_first);
        let at = if first {
            jobs.iter().take_while(|job| job.owner == Owner::Collector).count()
        } else {
            jobs.len()
        };
        jobs.insert(at, job);
        self.kick(core, u32::try_from(die).expect("thousands of dies"));
    }

    /// A part of a program is done: its space is free again.
    pub(super) fn part_done(&mut self, core: &mut Core, index: u32, version: u32) -> Follows {
        let parts = u64::from(core.profile.program.parts);
        let suspended_max = nanos(core.profile.suspend.suspended_max_us);
        let die = &mut self.dies[index as usize];
        let current = matches!(die.activity, Activity::Programming { .. }) && die.version == version;
        let Some(running) = die.running.as_mut().filter(|_| current) else { return Follows::Nothing };
        running.parts_left -= 1;
        running.left = running.part;
        let job = running.job;
        let done = running.parts_left == 0;
        // The last part takes the remainder of the division along.
        let bytes = job.bytes / parts + if done { job.bytes % parts } else { 0 };
        die.activity = Activity::Idle;
        let group = die.group;
        let insists = !done && die.insists(core.now, suspended_max);
        if done {
            die.running = None;
        }
        core.wear.programmed_bytes += bytes;
        if job.owner == Owner::Buffer {
            let group = &mut self.groups[group as usize];
            group.credit += signed(bytes);
            group.programs -= u32::from(done);
        }
        if insists {
            self.go_on(core, index);
        } else {
            self.kick(core, index);
        }
        match job.owner {
            Owner::Buffer => Follows::Space { group },
            Owner::Command { slot } | Owner::Padding { slot } if done => {
                piece_programmed(core, slot, job.owner)
            }
            Owner::Collector if done => Follows::Collected,
            _ => Follows::Nothing,
        }
    }
}

fn piece_programmed(core: &mut Core, slot: u32, owner: Owner) -> Follows {
    let pending = core.pending.get_mut(slot);
    assert!(pending.pieces > 0, "a piece is programmed once");
    pending.pieces -= 1;
    if pending.pieces > 0 {
        return Follows::Nothing;
    }
    if let Owner::Padding { .. } = owner {
        return Follows::Padded { slot };
    }
    let rest = core.pending.get(slot).rest;
    core.events.plan(core.now + rest, Event::Complete { slot });
    Follows::Nothing
}
