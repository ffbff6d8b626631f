//! What all parts of the model use: time and what is planned, variation, the profile, commands in flight, wear.

use super::events::{Event, Events};
use super::noise::{Noise, nanos};
use super::profile::Profile;
use super::wear::Wear;
use super::{Done, Kind, ModelOptions};
use base::slab::Slab;
use base::time::Instant;

/// A command in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) tag: u64,
    pub(super) kind: Kind,
    pub(super) zone: u32,
    pub(super) bytes: u64,
    /// Offset in the zone, for what depends on it.
    pub(super) offset_bytes: u64,
    /// Bytes that go to flash, for which it needs space in the buffer.
    pub(super) flash_bytes: u64,
    /// Besides the cost of its kind and size.
    pub(super) extra_us: f64,
    /// After the processor, in nanoseconds.
    pub(super) rest: u64,
    /// Pieces or units that are not done.
    pub(super) pieces: u64,
}

impl Pending {
    /// A command that moves no data.
    pub(super) fn other(tag: u64) -> Pending {
        Pending {
            tag,
            kind: Kind::Other,
            zone: 0,
            bytes: 0,
            offset_bytes: 0,
            flash_bytes: 0,
            extra_us: 0.0,
            rest: 0,
            pieces: 0,
        }
    }
}

/// Time, variation, commands in flight.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) profile: Profile,
    pub(super) options: ModelOptions,
    pub(super) noise: Noise,
    /// In nanoseconds.
    pub(super) now: u64,
    pub(super) events: Events,
    pub(super) pending: Slab<Pending>,
    /// Commands that are done and were not told yet, in the order of time.
    pub(super) finished: Vec<Done>,
    pub(super) wear: Wear,
}

impl Core {
    pub(super) fn new(profile: Profile, options: ModelOptions, noise: Noise) -> Core {
        Core {
            profile,
            options,
            noise,
            now: 0,
            events: Events::default(),
            pending: Slab::default(),
            finished: Vec::new(),
            wear: Wear::default(),
        }
    }

    /// A command leaves the drive.
    pub(super) fn complete(&mut self, slot: u32) -> Pending {
        let pending = self.pending.remove(slot);
        let done = Done { tag: pending.tag, at: Instant(self.now) };
        assert!(self.finished.last().is_none_or(|last| last.at <= done.at), "time does not go back");
        self.finished.push(done);
        pending
    }

    /// A command that takes a time of its own and disturbs nobody.
    pub(super) fn plain(&mut self, tag: u64, base_us: f64) {
        let time_us = self.vary(base_us);
        let slot = self.pending.insert(Pending::other(tag));
        self.plan_us(time_us, Event::Complete { slot });
    }

    /// A latency with its variation.
    pub(super) fn vary(&mut self, base_us: f64) -> f64 {
        let section = &self.profile.noise;
        let mut time_us = base_us * (1.0 + section.latency_spread * self.noise.normal());
        if self.noise.chance(section.small_probability) {
            time_us += self.noise.exponential(section.small_us);
        }
        if self.noise.chance(section.large_probability) {
            time_us += self.noise.exponential(section.large_us);
        }
        time_us
    }

    pub(super) fn plan_us(&mut self, after_us: f64, event: Event) {
        self.events.plan(self.now + nanos(after_us), event);
    }
}
