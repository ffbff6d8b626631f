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
//! Time is in whole nanoseconds outside and between events, and in microseconds as floating-point
//! numbers where costs are computed. `docs/drive-model.md` has the equations and what was fitted.

mod admission;
mod areas;
mod curve;
mod die;
mod events;
mod group;
mod management;
mod noise;
mod processor;
mod profile;
mod programs;
mod reads;
mod sections;
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

use base::slab::Slab;
use base::time::Instant;
use die::Die;
use events::{Event, Events};
use group::Group;
use noise::{Noise, nanos};
use processor::Processor;
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

/// A command in flight.
#[derive(Clone, Copy, Debug)]
struct Pending {
    tag: u64,
    kind: Kind,
    zone: u32,
    bytes: u64,
    /// Offset in the zone, for what depends on it.
    offset_bytes: u64,
    /// Bytes that go to flash, for which it needs space in the buffer.
    flash_bytes: u64,
    /// Besides the cost of its kind and size.
    extra_us: f64,
    /// After the processor, in nanoseconds.
    rest: u64,
    /// Pieces or units that are not done.
    pieces: u64,
}

/// A modelled drive.
///
/// Commands go in through [`Model::submit`], in the order of time; [`Model::advance`] brings out
/// those that are done.
#[derive(Debug)]
pub struct Model {
    profile: Profile,
    options: ModelOptions,
    noise: Noise,
    now: u64,
    events: Events,
    pending: Slab<Pending>,
    processor: Processor,
    /// Appends in the processor, by zone; a short list.
    appends: Vec<(u32, u32)>,
    /// Time at which the server of small blocks is free.
    small_free: u64,
    /// Times at which the read front end and the read-ahead engine are free.
    front_free: u64,
    ahead_free: u64,
    /// Time at which the management of zones is free.
    management_free: u64,
    groups: Vec<Group>,
    dies: Vec<Die>,
    channels: Vec<u64>,
    zones: Vec<ZoneClock>,
    /// Reads, writes and appends in flight.
    in_flight: [u32; 3],
    wear: Wear,
    placement: Placement,
    /// Translation layer of a drive without zones.
    translation: Option<Ftl>,
    finished: Vec<Done>,
}

impl Model {
    /// A drive of this profile with all zones empty.
    #[must_use]
    pub fn new(profile: &Profile, options: ModelOptions) -> Model {
        let profile = profile.clone();
        let mut noise = Noise::from_seed(options.seed);
        let groups = profile.geometry.groups;
        let zones =
            (0..profile.geometry.zones).map(|zone| Model::empty_zone(&profile, zone, &mut noise)).collect();
        let dies = (0..groups)
            .flat_map(|group| (0..profile.program.dies_per_group).map(move |die| (group, die)))
            .map(|(group, die)| Die::new(group, Model::channel_of(&profile, group, die)))
            .collect();
        Model {
            noise,
            options,
            now: 0,
            events: Events::default(),
            pending: Slab::default(),
            processor: Processor::new(),
            appends: Vec::new(),
            small_free: 0,
            front_free: 0,
            ahead_free: 0,
            management_free: 0,
            groups: (0..groups).map(|_| Group::new(profile.buffer.bytes)).collect(),
            dies,
            channels: vec![0; profile.program.channels as usize],
            zones,
            in_flight: [0; 3],
            wear: Wear::default(),
            placement: Placement::new(
                options.zone_map.unwrap_or(profile.geometry.zone_map),
                groups,
                options.seed,
            ),
            translation: Ftl::of(&profile),
            finished: Vec::new(),
            profile,
        }
    }

    /// Profile of the drive.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
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
            Access::Flush => self.plain(tag, self.profile.management.flush_us),
            Access::Report => self.plain(tag, self.profile.management.report_us),
            Access::Refused => self.plain(tag, self.profile.management.refuse_us),
        }
    }

    /// Time at which something happens next inside; `None` when nothing is under way. Not everything that happens
    /// completes a command.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        if let Some(done) = self.finished.first() {
            return Some(done.at);
        }
        match (self.events.next(), self.processor.next()) {
            (Some(event), Some(processor)) => Some(Instant(event.min(processor))),
            (event, processor) => event.or(processor).map(Instant),
        }
    }

    /// Lets time pass until `now`; commands that are done by then are added in the order of time.
    pub fn advance(&mut self, now: Instant, done: &mut Vec<Done>) {
        self.run_to(now.0);
        done.append(&mut self.finished);
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
        clock.row_bytes = written_bytes % self.profile.program.row_bytes;
    }

    /// Bytes that the dies have programmed, padding and moved garbage included.
    #[must_use]
    pub fn bytes_programmed(&self) -> u64 {
        self.wear.programmed_bytes
    }

    /// What the drive's flash was written with so far.
    #[must_use]
    pub fn wear(&self) -> Wear {
        self.wear
    }

    fn run_to(&mut self, now: u64) {
        loop {
            let (event, processor) = (self.events.next(), self.processor.next());
            let event_first = match (event, processor) {
                (Some(event), Some(processor)) => event <= processor,
                (Some(_), None) => true,
                (None, _) => false,
            };
            let Some(at) = (if event_first { event } else { processor }) else { break };
            if at > now {
                break;
            }
            self.now = self.now.max(at);
            if event_first {
                let event = self.events.pop().expect("it was peeked at");
                self.happen(event);
            } else if let Some(slot) = self.processor.pop(self.now) {
                self.processed(slot);
            }
        }
        self.now = self.now.max(now);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Admit { group } => self.admit(group),
            Event::Complete { slot } => self.complete(slot),
            Event::AtDie { slot } => self.at_die(slot),
            Event::Sensed { die } => self.sensed(die),
            Event::DieFree { die } => self.die_free(die),
            Event::Part { die, version } => self.part_done(die, version),
            Event::Yielded { die, version } => self.yielded(die, version),
            Event::Kick { die } => self.kick(die),
        }
    }

    /// A command leaves the drive.
    fn complete(&mut self, slot: u32) {
        let pending = self.pending.remove(slot);
        self.finished.push(Done { tag: pending.tag, at: Instant(self.now) });
        match pending.kind {
            Kind::Read => self.in_flight[0] -= 1,
            Kind::Write | Kind::Area => {
                self.in_flight[1] -= 1;
                self.landed(&pending);
            }
            Kind::Append => {
                self.in_flight[2] -= 1;
                self.landed(&pending);
            }
            Kind::Other => {}
        }
    }

    /// A command that takes a time of its own and disturbs nobody.
    fn plain(&mut self, tag: u64, base_us: f64) {
        let time_us = self.vary(base_us);
        let slot = self.pending.insert(Pending::other(tag));
        self.plan_us(time_us, Event::Complete { slot });
    }

    /// A latency with its variation.
    fn vary(&mut self, base_us: f64) -> f64 {
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

    fn plan_us(&mut self, after_us: f64, event: Event) {
        self.events.plan(self.now + nanos(after_us), event);
    }

    fn empty_zone(profile: &Profile, zone: u32, noise: &mut Noise) -> ZoneClock {
        let row_bytes = profile.program.row_bytes;
        ZoneClock {
            condition: ZoneCondition::Empty,
            written_bytes: 0,
            in_flight: 0,
            gathered_bytes: 0,
            // Zones smaller than a row share one; each stands somewhere in it.
            row_bytes: if profile.geometry.zone_capacity_bytes < row_bytes {
                noise.below(row_bytes)
            } else {
                0
            },
            next_die: noise.index(profile.program.dies_per_group as usize),
            read_end: u64::MAX,
            group: profile.group_of(zone),
            is_pinned: false,
            window: None,
            area_end: 0,
        }
    }

    /// Channels are dealt to groups, and within a group to its dies in turn.
    fn channel_of(profile: &Profile, group: u32, die: u32) -> usize {
        let channels = profile.program.channels;
        let per_group = channels / profile.geometry.groups;
        let channel = if per_group == 0 { group % channels } else { group * per_group + die % per_group };
        channel as usize
    }
}

impl Pending {
    fn other(tag: u64) -> Pending {
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

#[cfg(test)]
mod tests;
