//! Dies and what they share: buffers of groups, channels. A die that is idle does what is most urgent.
//!
//! `programs` gives dies what to program, `sensing` has them read; here is what a die takes up next.

use super::core::Core;
use super::die::{Activity, Die, Job, Owner, Running};
use super::events::Event;
use super::group::Group;
use super::noise::nanos;
use super::profile::Profile;

/// The flash of a drive.
#[derive(Debug)]
pub(super) struct Flash {
    pub(super) groups: Vec<Group>,
    /// Dies, those of a group side by side.
    pub(super) dies: Vec<Die>,
    /// Times at which channels are free.
    pub(super) channels: Vec<u64>,
}

impl Flash {
    pub(super) fn new(profile: &Profile) -> Flash {
        let groups = profile.geometry.groups;
        let dies = (0..groups)
            .flat_map(|group| (0..profile.program.dies_per_group).map(move |die| (group, die)))
            .map(|(group, die)| Die::new(group, channel_of(profile, group, die)))
            .collect();
        Flash {
            groups: (0..groups).map(|_| Group::new(profile.buffer.bytes)).collect(),
            dies,
            channels: vec![0; profile.program.channels as usize],
        }
    }

    /// Lets an idle die do what is most urgent.
    pub(super) fn kick(&mut self, core: &mut Core, index: u32) {
        let suspended_max = nanos(core.profile.suspend.suspended_max_us);
        let die = &mut self.dies[index as usize];
        if die.activity != Activity::Idle {
            return;
        }
        if !die.reads.is_empty() && !die.insists(core.now, suspended_max) {
            return self.sense(core, index);
        }
        if die.running.is_none()
            && let Some(job) = self.next_job(core, index)
        {
            let running = begin(core, job);
            self.dies[index as usize].running = Some(running);
        }
        self.go_on(core, index);
    }

    /// An idle die senses the first read that waits, and those that can go with it.
    pub(super) fn sense(&mut self, core: &mut Core, index: u32) {
        let read = &core.profile.read;
        let die = &mut self.dies[index as usize];
        let mut longest_us: f64 = 0.0;
        while die.batch.len() < read.batch as usize && !die.reads.is_empty() {
            if !die.batch.is_empty() && !core.noise.chance(read.batch_probability) {
                break;
            }
            die.batch.extend(die.reads.pop_front());
            let mut draw = core.noise.uniform();
            let kind = read.sense.iter().find(|(share, _)| {
                draw -= share;
                draw < 0.0
            });
            let sense_us = kind.or(read.sense.last()).map_or(0.0, |(_, sense_us)| *sense_us);
            longest_us = longest_us.max(sense_us * (1.0 + read.sense_spread * core.noise.normal()));
        }
        die.activity = Activity::Reading;
        core.plan_us(longest_us, Event::Sensed { die: index });
    }

    /// A program starts or goes on.
    pub(super) fn go_on(&mut self, core: &mut Core, index: u32) {
        let die = &mut self.dies[index as usize];
        let Some(running) = &mut die.running else { return };
        running.suspended += running.since.take().map_or(0, |since| core.now - since);
        let left = running.left;
        die.activity = Activity::Programming { started: core.now };
        die.version = die.version.wrapping_add(1);
        core.events.plan(core.now + left, Event::Part { die: index, version: die.version });
    }

    /// The next program of a die: data, unless there is none or padding's turn has come.
    fn next_job(&mut self, core: &Core, index: u32) -> Option<Job> {
        let every = core.profile.program.padding_every;
        let unit = core.profile.program.unit_bytes;
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
}

fn begin(core: &mut Core, job: Job) -> Running {
    let program = &core.profile.program;
    let efficiency = match job.owner {
        Owner::Padding { .. } => 1.0,
        _ => program.host_efficiency,
    };
    let program_us = match (job.owner, &core.profile.translation) {
        (Owner::Collector, Some(translation)) if job.bytes == 0 => translation.erase_us,
        (Owner::Collector, Some(translation)) => program.program_us + translation.move_us,
        _ => program.program_us,
    };
    let parts = program.parts;
    let whole_us = program_us / efficiency * core.noise.lognormal(program.spread);
    let part = nanos(whole_us / f64::from(parts));
    Running { job, parts_left: parts, part, left: part, suspended: 0, since: None }
}

/// Channels are dealt to groups, and within a group to its dies in turn.
fn channel_of(profile: &Profile, group: u32, die: u32) -> usize {
    let channels = profile.program.channels;
    let per_group = channels / profile.geometry.groups;
    let channel = if per_group == 0 { group % channels } else { group * per_group + die % per_group };
    channel as usize
}
