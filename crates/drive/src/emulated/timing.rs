//! How long a zoned drive takes: a discrete-event model of its processor, buffer, dies and channels.
//!
//! ```text
//!   write -> [admission] -> [processor] -> [fixed latency] -> done -> unit of the zone, when full
//!                 ^ space in the buffer                                          |
//!                 +------------ part of a program <--- [die: program, suspend] <-+
//!   read  -> [admission] -> [front end] -> [die: sense] -> [channel] -> [fixed latency] -> done
//!   reset, finish, open, close -> [management]; finish also pads: programs that give way to others
//! ```
//! The model knows nothing of data and decides nothing about errors: it is told what a drive that
//! obeys the rules has accepted, and says when that is done. Everything follows from the profile,
//! the seed and the calls: no clock, no hash order; events at the same nanosecond happen in the
//! order in which they were planned.
//!
//! ```text
//!   timing        commands, events, and what follows from them
//!   management, window     commands on zones, random write areas
//!   admission     the way of a write         reads    the way of a read to its dies
//!   translation   a drive without zones
//!   programs, sensing      what dies are given, and how they make way
//!   dies          what a die takes up next
//!   core          time, variation, commands in flight
//! ```
//! A file uses those below it; what follows above from something below is a value (`Follows`).
//!
//! Time is in whole nanoseconds outside and between events, and in microseconds as floating-point
//! numbers where costs are computed. `docs/drive-model.md` has the equations and what was fitted.

mod admission;
mod areas;
mod core;
mod curve;
mod die;
mod dies;
mod events;
mod group;
mod management;
mod noise;
mod processor;
mod profile;
mod programs;
mod reads;
mod sections;
mod sensing;
mod translation;
mod wear;
mod window;
mod zone_clock;
mod zone_map;

pub use areas::Backing;
pub use profile::{HostStack, Profile, ProfileError, StackCosts};
pub use wear::Wear;
pub use zone_clock::ZoneCondition;
pub use zone_map::ZoneMap;

use admission::Entry;
use base::time::Instant;
use core::Core;
use die::{Job, Owner};
use dies::Flash;
use events::Event;
use group::signed;
use noise::Noise;
use programs::Follows;
use reads::FrontEnd;
use translation::Ftl;
use zone_clock::ZoneClock;
use zone_map::Placement;

/// Format of the namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LbaFormat {
    /// Blocks of 512 bytes.
    Bytes512,
    /// Blocks of 4 KiB.
    #[default]
    Bytes4096,
}

/// Options of a modelled drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelOptions {
    /// Seed of all variation.
    pub seed: u64,
    /// Format of the namespace.
    pub lba_format: LbaFormat,
    /// Resets slow down under other commands, as figure 7 of the characterisation paper shows. That
    /// figure measured the scheduling of the host, not the drive; see `docs/drive-model.md`.
    pub fig7_host_artefact: bool,
    /// How zones lie on channel groups, if not as the profile says.
    pub zone_map: Option<ZoneMap>,
}

/// A command as the model sees it. Offsets are bytes from the start of the zone; a drive without
/// zones is one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A read; it is sequential when it begins where the zone's last read ended.
    Read {
        /// Zone.
        zone: u32,
        /// First byte.
        offset_bytes: u64,
        /// Length.
        bytes: u64,
    },
    /// A write at the write pointer, anywhere on a drive without zones, or into the window of a zone with a random write
    /// area, up to two windows after what is committed: beyond the first it commits what falls out.
    Write {
        /// Zone.
        zone: u32,
        /// First byte; only drives without zones and zones with an area look at it.
        offset_bytes: u64,
        /// Length.
        bytes: u64,
    },
    /// A zone append.
    Append {
        /// Zone.
        zone: u32,
        /// Length.
        bytes: u64,
    },
    /// Opens an empty zone with a random write area.
    ZrwaOpen {
        /// Zone.
        zone: u32,
    },
    /// Commits the random write area of a zone up to a byte.
    ZrwaCommit {
        /// Zone.
        zone: u32,
        /// End of the bytes to commit: one past the last.
        end_bytes: u64,
    },
    /// Empties a zone.
    Reset {
        /// Zone.
        zone: u32,
    },
    /// Makes a zone full.
    Finish {
        /// Zone.
        zone: u32,
    },
    /// Opens a zone.
    Open {
        /// Zone.
        zone: u32,
    },
    /// Closes a zone.
    Close {
        /// Zone.
        zone: u32,
    },
    /// Makes writes durable.
    Flush,
    /// Lists zones.
    Report,
    /// A command that the rules refuse.
    Refused,
}

/// A command is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The tag of its submission.
    pub tag: u64,
    /// Time of completion.
    pub at: Instant,
}

/// Kinds of commands that the processor distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Append,
    Area,
    Other,
}

/// A modelled drive.
///
/// Commands go in through [`Model::submit`], in the order of time; [`Model::advance`] brings out
/// those that are done.
#[derive(Debug)]
pub struct Model {
    core: Core,
    entry: Entry,
    front: FrontEnd,
    /// Time at which the management of zones is free.
    management_free: u64,
    flash: Flash,
    zones: Vec<ZoneClock>,
    /// Reads, writes and appends in flight.
    in_flight: [u32; 3],
    placement: Placement,
    /// Translation layer of a drive without zones.
    translation: Option<Ftl>,
}

impl Model {
    /// A drive of this profile with all zones empty.
    #[must_use]
    pub fn new(profile: &Profile, options: ModelOptions) -> Model {
        let mut noise = Noise::from_seed(options.seed);
        let geometry = &profile.geometry;
        let zones = (0..geometry.zones).map(|zone| ZoneClock::empty(profile, zone, &mut noise)).collect();
        let map = options.zone_map.unwrap_or(geometry.zone_map);
        Model {
            entry: Entry::new(),
            front: FrontEnd::default(),
            management_free: 0,
            flash: Flash::new(profile),
            zones,
            in_flight: [0; 3],
            placement: Placement::new(map, geometry.groups, options.seed),
            translation: Ftl::of(profile),
            core: Core::new(profile.clone(), options, noise),
        }
    }

    /// Profile of the drive.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.core.profile
    }

    /// A command reaches the drive now. Its tag comes back when it is done; any number will do.
    ///
    /// # Panics
    /// When the zone does not exist.
    pub fn submit(&mut self, now: Instant, tag: u64, access: Access) {
        self.run_to(now.0);
        match access {
            Access::Read { zone, offset_bytes, bytes } => self.read(tag, zone, offset_bytes, bytes),
            Access::Write { zone, offset_bytes, bytes } if self.zones[zone as usize].window.is_some() => {
                self.area_write(tag, zone, offset_bytes, bytes);
            }
            Access::Write { zone, offset_bytes, bytes } => {
                self.write(tag, Kind::Write, zone, (offset_bytes, bytes));
            }
            Access::Append { zone, bytes } => self.write(tag, Kind::Append, zone, (0, bytes)),
            Access::ZrwaOpen { zone } => self.area_open(tag, zone),
            Access::ZrwaCommit { zone, end_bytes } => self.area_commit(tag, zone, end_bytes),
            Access::Reset { zone } => self.reset(tag, zone),
            Access::Finish { zone } => self.finish(tag, zone),
            Access::Open { zone } => self.open(tag, zone),
            Access::Close { zone } => self.close(tag, zone),
            Access::Flush => self.core.plain(tag, self.core.profile.management.flush_us),
            Access::Report => self.core.plain(tag, self.core.profile.management.report_us),
            Access::Refused => self.core.plain(tag, self.core.profile.management.refuse_us),
        }
    }

    /// Time at which something happens next inside; `None` when nothing is under way. Not everything that happens
    /// completes a command.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        if let Some(done) = self.core.finished.first() {
            return Some(done.at);
        }
        match (self.core.events.next(), self.entry.processor.next()) {
            (Some(event), Some(processor)) => Some(Instant(event.min(processor))),
            (event, processor) => event.or(processor).map(Instant),
        }
    }

    /// Lets time pass until `now`; commands that are done by then are added in the order of time.
    pub fn advance(&mut self, now: Instant, done: &mut Vec<Done>) {
        self.run_to(now.0);
        done.append(&mut self.core.finished);
    }

    /// Puts a zone into a state without passing time; it has no random write area then.
    ///
    /// # Panics
    /// When the zone does not exist.
    pub fn preset_zone(&mut self, zone: u32, written_bytes: u64, condition: ZoneCondition) {
        self.discard_window(zone);
        self.zones[zone as usize].condition = ZoneCondition::Empty;
        if condition != ZoneCondition::Empty {
            self.settle_group(zone);
        }
        let clock = &mut self.zones[zone as usize];
        clock.written_bytes = written_bytes;
        clock.area_end = written_bytes;
        clock.condition = condition;
        clock.row_bytes = written_bytes % self.core.profile.program.row_bytes;
    }

    /// Fills the write buffer to the level of a saturated drive: units wait at all dies, which are
    /// in the middle of programs. Measurements of a steady state begin so. A conventional drive is
    /// also filled and overwritten at random, so that it has garbage to collect.
    pub fn prefill_write_buffer(&mut self) {
        if let Some(ftl) = &mut self.translation {
            ftl.fill(&mut self.core);
        }
        let unit = self.core.profile.program.unit_bytes;
        let buffer = self.core.profile.buffer.bytes;
        let low = signed((2 << 20).min(buffer / 4));
        let count = self.core.profile.program.dies_per_group as usize;
        for group in 0..self.flash.groups.len() {
            let mut place = 0;
            while self.flash.groups[group].credit > low.max(signed(unit)) {
                self.flash.groups[group].credit -= signed(unit);
                self.flash.groups[group].programs += 1;
                self.flash.dies[group * count + place % count]
                    .jobs
                    .push_back(Job { bytes: unit, owner: Owner::Buffer });
                place += 1;
            }
        }
        for die in 0..u32::try_from(self.flash.dies.len()).expect("thousands of dies") {
            let after_us = self.core.noise.uniform() * self.core.profile.program.program_us;
            self.core.plan_us(after_us, Event::Kick { die });
        }
    }

    /// Bytes that the dies have programmed, padding and moved garbage included.
    #[must_use]
    pub fn bytes_programmed(&self) -> u64 {
        self.core.wear.programmed_bytes
    }

    /// Bytes that a conventional drive's translation layer gave places to, written by the host or moved: what is in the buffer is among
    /// them. `None` for drives with zones.
    #[must_use]
    pub fn bytes_placed(&self) -> Option<u64> {
        self.translation.as_ref().map(translation::Ftl::bytes_placed)
    }

    /// What the drive's flash was written with so far.
    #[must_use]
    pub fn wear(&self) -> Wear {
        self.core.wear
    }

    fn run_to(&mut self, now: u64) {
        loop {
            let (event, processor) = (self.core.events.next(), self.entry.processor.next());
            let event_first = match (event, processor) {
                (Some(event), Some(processor)) => event <= processor,
                (Some(_), None) => true,
                (None, _) => false,
            };
            let Some(at) = (if event_first { event } else { processor }) else { break };
            if at > now {
                break;
            }
            self.core.now = self.core.now.max(at);
            if event_first {
                let event = self.core.events.pop().expect("it was peeked at");
                self.happen(event);
            } else if let Some(slot) = self.entry.processor.pop(self.core.now) {
                self.processed(slot);
            }
        }
        self.core.now = self.core.now.max(now);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Admit { group } => self.admit(group),
            Event::Complete { slot } => self.complete(slot),
            Event::AtDie { slot } => self.at_die(slot),
            Event::Sensed { die } => self.flash.sensed(&mut self.core, die),
            Event::DieFree { die } => self.flash.die_free(&mut self.core, die),
            Event::Part { die, version } => {
                let follows = self.flash.part_done(&mut self.core, die, version);
                self.follow(follows);
            }
            Event::Yielded { die, version } => self.flash.yielded(&mut self.core, die, version),
            Event::Kick { die } => self.flash.kick(&mut self.core, die),
        }
    }

    /// A command leaves the drive.
    fn complete(&mut self, slot: u32) {
        let pending = self.core.complete(slot);
        let in_flight = match pending.kind {
            Kind::Read => &mut self.in_flight[0],
            Kind::Write | Kind::Area => &mut self.in_flight[1],
            Kind::Append => &mut self.in_flight[2],
            Kind::Other => return,
        };
        assert!(*in_flight > 0, "a command completes once");
        *in_flight -= 1;
        if pending.kind != Kind::Read {
            self.landed(&pending);
        }
    }

    /// A part of a program is done, and its owner goes on.
    fn follow(&mut self, follows: Follows) {
        match follows {
            Follows::Nothing => {}
            Follows::Space { group } => self.admit(group),
            Follows::Padded { slot } => self.padded(slot),
            Follows::Collected => {
                let Some(ftl) = &mut self.translation else { return };
                if ftl.collected(&mut self.core, &mut self.flash) {
                    (0..self.core.profile.geometry.groups).for_each(|group| self.admit(group));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
