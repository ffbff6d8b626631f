//! Programs on dies: who gets which die, suspension, and space that comes back.

use super::Model;
use super::die::{Activity, Job, Owner, Running};
use super::events::Event;
use super::group::signed;
use super::noise::nanos;

/// Time that is left of a suspended program at least, in nanoseconds.
pub(super) const LEFT_MIN: u64 = 5_000;

impl Model {
    /// Gives a job of a zone to the next die of its group, in turn.
    pub(super) fn program(&mut self, zone: u32, job: Job) {
        let clock = &mut self.zones[zone as usize];
        let count = self.profile.program.dies_per_group as usize;
        let die = clock.group as usize * count + clock.next_die;
        clock.next_die = (clock.next_die + 1) % count;
        self.give(die, job);
    }

    /// Pages of a write on a drive without a buffer: each to the die that its place names.
    pub(super) fn program_directly(&mut self, slot: u32) {
        let pending = *self.pending.get(slot);
        let unit = self.profile.program.unit_bytes;
        let first = pending.offset_bytes / unit;
        let last = (pending.offset_bytes + pending.bytes.max(1) - 1) / unit;
        self.pending.get_mut(slot).pieces = last - first + 1;
        for page in first..=last {
            let die = self.die_of(pending.zone, page);
            self.give(die, Job { bytes: unit, owner: Owner::Command { slot } });
        }
    }

    pub(super) fn give(&mut self, die: usize, job: Job) {
        if job.owner == Owner::Buffer {
            let group = self.dies[die].group as usize;
            self.groups[group].programs += 1;
        }
        self.dies[die].jobs.push_back(job);
        self.kick(u32::try_from(die).expect("thousands of dies"));
    }

    /// Lets an idle die do what is most urgent.
    pub(super) fn kick(&mut self, index: u32) {
        let suspended_max = nanos(self.profile.suspend.suspended_max_us);
        let die = &mut self.dies[index as usize];
        if die.activity != Activity::Idle {
            return;
        }
        if !die.reads.is_empty() && !die.insists(self.now, suspended_max) {
            return self.sense(index);
        }
        if die.running.is_none()
            && let Some(job) = self.next_job(index)
        {
            let running = self.begin(job);
            self.dies[index as usize].running = Some(running);
        }
        self.go_on(index);
    }

    /// A program starts or goes on.
    fn go_on(&mut self, index: u32) {
        let die = &mut self.dies[index as usize];
        let Some(running) = &mut die.running else { return };
        running.suspended += running.since.take().map_or(0, |since| self.now - since);
        let left = running.left;
        die.activity = Activity::Programming { started: self.now };
        die.version = die.version.wrapping_add(1);
        self.events.plan(self.now + left, Event::Part { die: index, version: die.version });
    }

    /// The next program of a die: data, unless there is none or padding's turn has come.
    fn next_job(&mut self, index: u32) -> Option<Job> {
        let every = self.profile.program.padding_every;
        let unit = self.profile.program.unit_bytes;
        let die = &mut self.dies[index as usize];
        let group = &mut self.groups[die.group as usize];
        let due = die.jobs.is_empty() || die.since_padding >= every;
        if due && let Some(padding) = group.padding.front_mut() {
            die.since_padding = 0;
            padding.units -= 1;
            let slot = padding.slot;
            if padding.units == 0 {
                group.padding.pop_front();
            }
            return Some(Job { bytes: unit, owner: Owner::Padding { slot } });
        }
        die.since_padding = die.since_padding.saturating_add(1);
        die.jobs.pop_front()
    }

    fn begin(&mut self, job: Job) -> Running {
        let program = &self.profile.program;
        let efficiency = match job.owner {
            Owner::Padding { .. } => 1.0,
            _ => program.host_efficiency,
        };
        let program_us = match (job.owner, &self.profile.translation) {
            (Owner::Collector, Some(translation)) if job.bytes == 0 => translation.erase_us,
            (Owner::Collector, Some(translation)) => program.program_us + translation.move_us,
            _ => program.program_us,
        };
        let parts = program.parts;
        let whole_us = program_us / efficiency * self.noise.lognormal(program.spread);
        let part = nanos(whole_us / f64::from(parts));
        Running { job, parts_left: parts, part, left: part, suspended: 0, since: None }
    }

    /// A part of a program is done: its space is free again.
    pub(super) fn part_done(&mut self, index: u32, version: u32) {
        let parts = u64::from(self.profile.program.parts);
        let suspended_max = nanos(self.profile.suspend.suspended_max_us);
        let die = &mut self.dies[index as usize];
        let current = matches!(die.activity, Activity::Programming { .. }) && die.version == version;
        let Some(running) = die.running.as_mut().filter(|_| current) else { return };
        running.parts_left -= 1;
        running.left = running.part;
        let job = running.job;
        let done = running.parts_left == 0;
        // The last part takes the remainder of the division along.
        let bytes = job.bytes / parts + if done { job.bytes % parts } else { 0 };
        die.activity = Activity::Idle;
        let group = die.group;
        let insists = !done && die.insists(self.now, suspended_max);
        if done {
            die.running = None;
        }
        self.wear.programmed_bytes += bytes;
        if job.owner == Owner::Buffer {
            let group = &mut self.groups[group as usize];
            group.credit += signed(bytes);
            group.programs -= u32::from(done);
        }
        if insists {
            self.go_on(index);
        } else {
            self.kick(index);
        }
        match job.owner {
            Owner::Buffer => self.admit(group),
            Owner::Command { slot } | Owner::Padding { slot } if done => {
                self.piece_programmed(slot, job.owner)
            }
            Owner::Collector if done => self.collected(),
            _ => {}
        }
    }

    fn piece_programmed(&mut self, slot: u32, owner: Owner) {
        let pending = self.pending.get_mut(slot);
        pending.pieces -= 1;
        if pending.pieces > 0 {
            return;
        }
        match owner {
            Owner::Padding { .. } => self.padded(slot),
            _ => {
                let rest = self.pending.get(slot).rest;
                self.events.plan(self.now + rest, Event::Complete { slot });
            }
        }
    }

    /// Fills the write buffer to the level of a saturated drive: units wait at all dies, which are
    /// in the middle of programs. Measurements of a steady state begin so. A conventional drive is
    /// also filled and overwritten at random, so that it has garbage to collect.
    pub fn prefill_write_buffer(&mut self) {
        self.condition_translation();
        let unit = self.profile.program.unit_bytes;
        let buffer = self.profile.buffer.bytes;
        let low = signed((2 << 20).min(buffer / 4));
        let count = self.profile.program.dies_per_group as usize;
        for group in 0..self.groups.len() {
            let mut place = 0;
            while self.groups[group].credit > low.max(signed(unit)) {
                self.groups[group].credit -= signed(unit);
                self.groups[group].programs += 1;
                self.dies[group * count + place % count]
                    .jobs
                    .push_back(Job { bytes: unit, owner: Owner::Buffer });
                place += 1;
            }
        }
        for die in 0..u32::try_from(self.dies.len()).expect("thousands of dies") {
            let after_us = self.noise.uniform() * self.profile.program.program_us;
            self.plan_us(after_us, Event::Kick { die });
        }
    }
}
