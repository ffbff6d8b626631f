//! A drive that is slow, reorders, breaks and loses power.
//!
//! ```text
//!   submit ──> in flight ── effect on the media ── completion ──> poll
//!                 │   any order, any delay     │        │
//!   power fails:  └ nothing | part | all  ─────┴ effect ┴ nobody is told
//! ```
//! Commands take effect independently of one another: whoever needs an order waits for completions.

mod away;
mod history;

use crate::plan::{Latency, Plan, Tearing};
use crate::power::{Blow, Power};
use crate::step::Kind;
use crate::trace::Trace;
use away::Absence;
use base::frame::Frame;
use base::random::Random;
use base::time::{Instant, Nanos};
use base::units::{BLOCK_BYTES, OOB_BYTES, ZoneIndex};
use baseline::record::Scheme;
use drive::emulated::{AreaFate, EmulatedDrive, HeapMedia};
use drive::timing::{Access, Done, LbaFormat, Model, ModelOptions, Profile};
use history::{History, Mark};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use zone::condition::Outstanding;
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZoneState, ZonedDevice};
use zone::format::SUPERBLOCK_ZONES;
use zone::format::header::{SegmentHeader, Stream};
use zone::format::oob::{Kind as OobKind, Protected};
use zone::rules::Zone;

/// Blocks at the start of a zone that stale reads return.
const STALE_BLOCKS: u32 = 16;
/// First bytes of a footer block.
const FOOTER_MAGIC: &[u8] = b"ZWFT";
/// First bytes of a journal block of a cache.
const JOURNAL_MAGIC: &[u8] = b"ZWCJRNL1";

/// A command in flight.
#[derive(Debug)]
struct InFlight {
    number: u64,
    zone: ZoneIndex,
    since: Instant,
    kind: Kind,
    /// Command, until it has taken effect.
    command: Option<Command>,
    /// Completion, once the command has taken effect.
    completion: Option<Completion>,
    effect_at: Instant,
    due: Instant,
    /// Ends of zones that a flush covers: those when it was submitted.
    covers: Vec<u32>,
    /// Overwrites in windows, and their write pointers, that a flush covers.
    covers_windows: Option<Mark>,
    /// The drive went away with it.
    is_cut: bool,
}

/// Timing of commands.
enum Pace {
    Random { typical_ns: u64, slow_ns: u64, slow_per_mille: u64 },
    Model(Box<Model>),
}

/// Faults of a drive.
#[derive(Debug, Default)]
pub struct Faults {
    /// Time until which the drive answers nothing.
    pub hangs_until: Instant,
    /// Blocks that cannot be read.
    pub unreadable: BTreeSet<(u32, u32)>,
    /// Reads that will return another block; asked again, the drive returns the right one.
    pub misreads: u32,
    /// Reads that will return what was there before the zone was reset; asked again, the drive returns what
    /// is there.
    pub stale_reads: u32,
    /// Blocks of which so many reads will return what was there before the zone was reset.
    pub relapses: BTreeMap<(u32, u32), u32>,
    /// Blocks that were last read wrong.
    read_wrong: BTreeSet<(u32, u32)>,
    /// Openings with random write areas that will be refused.
    pub areas_refused: u32,
    /// Blocks the next zone that is reset will lose.
    pub shrink_next: u32,
    /// Zones that hold less than they should.
    pub capacity: BTreeMap<u32, u32>,
}

/// How a drive behaves.
pub struct Manner<'a> {
    /// Seed of all that is left to chance.
    pub seed: u64,
    /// Timing of commands.
    pub latency: &'a Latency,
    /// Effect of a power failure on transfers.
    pub tearing: Tearing,
    /// What was not flushed is lost when the power fails.
    pub volatile_cache: bool,
    /// It is a drive of the baseline.
    pub is_of_baseline: bool,
}

/// A drive.
pub struct Drive {
    media: EmulatedDrive,
    member: usize,
    flight: Vec<InFlight>,
    next_number: u64,
    pace: Pace,
    tearing: Tearing,
    random: Random,
    dead: bool,
    /// Faults of the drive.
    pub faults: Faults,
    /// Ends of what survives a power failure, by zone; empty without a volatile cache.
    flushed: Vec<u32>,
    /// Older versions that a volatile cache may fall back to, of blocks in windows.
    history: History,
    /// What becomes of zones with random write areas when the power fails.
    pub area_fate: AreaFate,
    /// Zones of a slice, where several caches share the drive; else all of them.
    slice_zones: u32,
    /// Zones of the collector's segments.
    moves: Vec<bool>,
    /// True for a drive of the baseline.
    is_of_baseline: bool,
    /// Blocks of zones as they were before their last reset, kept while stale reads are possible.
    before_reset: Option<BTreeMap<u32, Vec<Frame>>>,
    /// Most blocks of a zone that are kept so.
    remembered_blocks: u32,
    /// Commands of this kind take so many times longer than others.
    slow: Option<(Kind, u64)>,
    done: Vec<Done>,
    absence: Absence,
}

/// Contents of a drive at a moment.
pub struct Snapshot {
    media: HeapMedia,
    moves: Vec<bool>,
}

/// Event at a drive, for the trace.
#[derive(Hash)]
struct Event {
    what: &'static str,
    member: usize,
    kind: Kind,
    zone: u32,
    offset: u32,
    blocks: usize,
    status: u16,
}

impl Event {
    fn of_command(member: usize, kind: Kind, command: &Command) -> Event {
        let (offset, blocks) = match &command.op {
            Op::Read { offset, frames } | Op::Write { offset, frames } => (*offset, frames.len()),
            Op::Append { frames } => (0, frames.len()),
            _ => (0, 0),
        };
        Event { what: "submits", member, kind, zone: command.zone.0, offset, blocks, status: 0 }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event { what, member, kind, zone, offset, blocks, status } = self;
        write!(f, "drive {member} {what:<8} {kind:?} zone {zone} offset {offset} blocks {blocks}")?;
        if *status == 0 { Ok(()) } else { write!(f, " status {status:#05x}") }
    }
}

impl Snapshot {
    /// What a drive holds that was used elsewhere: whose its zones are does not matter any more.
    #[must_use]
    pub fn of_media(media: HeapMedia, zones: usize) -> Snapshot {
        Snapshot { media, moves: vec![false; zones] }
    }

    /// The drive of this moment, where nothing breaks.
    ///
    /// # Panics
    /// Never: media of a drive make a drive.
    #[must_use]
    pub fn into_drive(self) -> EmulatedDrive {
        EmulatedDrive::from_heap(self.media).expect("media of a drive")
    }
}

impl Drive {
    /// A new drive, empty.
    ///
    /// # Panics
    /// When the plan's geometry is impossible.
    #[must_use]
    pub fn new(plan: &Plan, geometry: Geometry, uuid: [u8; 16], member: usize) -> Drive {
        let manner = Manner {
            seed: plan.seed,
            latency: &plan.latency,
            tearing: plan.tearing,
            volatile_cache: plan.volatile_cache,
            is_of_baseline: plan.raizn.is_some(),
        };
        let mut drive = Drive::with_manner(&manner, plan.geometry_of(geometry, member), uuid, member);
        drive.area_fate = plan.area_fate(member);
        drive
    }

    /// A new drive that behaves in a manner, empty.
    ///
    /// # Panics
    /// When the geometry is impossible.
    #[must_use]
    pub fn with_manner(plan: &Manner<'_>, geometry: Geometry, uuid: [u8; 16], member: usize) -> Drive {
        assert!(geometry.zones > SUPERBLOCK_ZONES, "superblocks leave zones for data");
        let media = EmulatedDrive::on_heap(geometry, uuid).expect("plans are validated");
        let pace = match plan.latency {
            Latency::Random { typical_ns, slow_ns, slow_per_mille } => {
                Pace::Random { typical_ns: *typical_ns, slow_ns: *slow_ns, slow_per_mille: *slow_per_mille }
            }
            Latency::Model { profile, zone_map } => {
                let profile = Profile::named(profile).expect("plans name profiles that exist");
                let options = ModelOptions {
                    seed: plan.seed ^ member as u64,
                    lba_format: LbaFormat::Bytes4096,
                    fig7_host_artefact: false,
                    zone_map: *zone_map,
                };
                Pace::Model(Box::new(Model::new(&profile.with_geometry(&geometry), options)))
            }
        };
        let zones = geometry.zones as usize;
        Drive {
            media,
            member,
            flight: Vec::new(),
            next_number: 0,
            pace,
            tearing: plan.tearing,
            random: Random::from_seed(plan.seed ^ (member as u64 + 1) << 56),
            dead: false,
            faults: Faults::default(),
            flushed: if plan.volatile_cache { vec![0; zones] } else { Vec::new() },
            slice_zones: geometry.zones,
            moves: vec![false; zones],
            is_of_baseline: plan.is_of_baseline,
            before_reset: None,
            remembered_blocks: STALE_BLOCKS,
            slow: None,
            done: Vec::new(),
            absence: Absence::default(),
            history: History::default(),
            area_fate: AreaFate::Kept,
        }
    }

    /// Returns the media of the drive.
    #[must_use]
    pub fn media(&self) -> &EmulatedDrive {
        &self.media
    }

    /// Returns the media of the drive, to be damaged.
    pub fn media_mut(&mut self) -> &mut EmulatedDrive {
        &mut self.media
    }

    /// Returns the contents of the drive at this moment, volatile or not.
    ///
    /// # Panics
    /// When its media are not in memory.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let media = self.media.heap_snapshot().expect("media in memory");
        Snapshot { media, moves: self.moves.clone() }
    }

    /// Sets the drive back to what it held at an earlier moment, all of it for good. The power is off.
    ///
    /// # Panics
    /// When commands are in flight.
    pub fn go_back(&mut self, snapshot: Snapshot) {
        assert!(self.flight.is_empty());
        self.media = EmulatedDrive::from_heap(snapshot.media).expect("media of a drive");
        self.moves = snapshot.moves;
        assert!(self.moves.len() == self.media.geometry().zones as usize, "a moment of this drive");
        // What it held later, no read of it can return.
        if let Some(zones) = &mut self.before_reset {
            zones.clear();
        }
        if !self.flushed.is_empty() {
            self.flushed = self.ends();
            self.history = History::survived(&self.media);
        }
    }

    /// True when it answers nothing any more.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.dead
    }

    /// Lets the drive answer again.
    pub fn be_alive(&mut self) {
        self.dead = false;
    }

    /// Stops the drive: it answers nothing any more. Commands in flight may have taken effect.
    pub fn die(&mut self) {
        self.strand_flight();
        self.dead = true;
    }

    /// The process that asked is gone: what is in flight may have taken effect, and nobody is told.
    pub fn forget_flight(&mut self) {
        self.end_absence();
        self.strand_flight();
        self.flight.clear();
    }

    /// From now on it remembers what zones held before they were reset.
    pub fn remember_resets(&mut self) {
        self.before_reset.get_or_insert_default();
    }

    /// The same, of whole zones.
    pub fn remember_zones(&mut self) {
        self.remembered_blocks = u32::MAX;
        self.remember_resets();
    }

    /// Commands of a kind take so many times longer than others.
    pub fn slow_down(&mut self, slow: Option<(Kind, u64)>) {
        self.slow = slow;
    }

    /// Last blocks of zones in whose places others were before the reset; headers are none.
    pub fn relapsing_blocks(&mut self) -> Vec<(u32, u32)> {
        let mut ends = self.last_blocks(|_| true);
        ends.retain(|place| self.old_block(*place).is_some());
        ends
    }

    /// Last blocks of zones of a cache's journal.
    pub fn journal_ends(&mut self) -> Vec<(u32, u32)> {
        self.last_blocks(|frame| frame.data.starts_with(JOURNAL_MAGIC))
    }

    /// The last block of each zone that was written, where it is of a kind; headers are none.
    fn last_blocks(&mut self, is_wanted: impl Fn(&Frame) -> bool) -> Vec<(u32, u32)> {
        let mut ends = Vec::new();
        for number in 0..self.data_zones() {
            let zone = self.data_zone(number);
            let mut written = (1..self.media.zone(zone).write_pointer).rev();
            let last = written.find_map(|offset| {
                let frame = self.peek(zone, offset).filter(|frame| !frame.is_blank())?;
                Some((offset, frame))
            });
            ends.extend(last.filter(|(_, frame)| is_wanted(frame)).map(|(offset, _)| (zone.0, offset)));
        }
        ends
    }

    /// What was in the place of a block before its zone was reset.
    fn old_block(&self, (zone, offset): (u32, u32)) -> Option<&Frame> {
        self.before_reset.as_ref()?.get(&zone)?.get(offset as usize)
    }

    /// The model learns how the zones are; its clock begins.
    pub fn learn(&mut self) {
        if let Pace::Model(model) = &mut self.pace {
            self.media.teach(model);
        }
    }

    /// Several caches share the drive, with so many zones each.
    pub fn share(&mut self, slice_zones: u32) {
        assert!(slice_zones > SUPERBLOCK_ZONES, "superblocks leave zones for data");
        self.slice_zones = slice_zones;
    }

    fn has_superblocks(&self, zone: ZoneIndex) -> bool {
        zone.0 % self.slice_zones < SUPERBLOCK_ZONES
    }

    fn slices(&self) -> u32 {
        self.media.geometry().zones / self.slice_zones
    }

    /// Zones behind superblock logs.
    #[must_use]
    pub fn data_zones(&self) -> u32 {
        self.slices() * (self.slice_zones - SUPERBLOCK_ZONES)
    }

    /// One of the zones behind superblock logs, of one slice after the other.
    #[must_use]
    pub fn data_zone(&self, number: u32) -> ZoneIndex {
        let (slice, zone) = (number % self.slices(), number / self.slices());
        ZoneIndex(slice * self.slice_zones + SUPERBLOCK_ZONES + zone)
    }

    /// The drive finishes a zone, whoever writes to it.
    pub fn finish_by_itself(&mut self, zone: ZoneIndex) {
        self.run(Command { token: Token(0), zone, op: Op::Finish });
    }

    /// Takes a command.
    pub fn submit(&mut self, now: Instant, command: Command, power: &Power, trace: &mut Trace) {
        let kind = self.kind_of(&command);
        trace.note(now, &Event::of_command(self.member, kind, &command));
        let number = self.next_number;
        self.next_number += 1;
        if self.is_away(now) && !power.recovering {
            return self.turn_away(now, command, number);
        }
        let at_once = power.recovering && (!power.reorders || power.is_off());
        let (effect_at, due) = if at_once { (now, now) } else { self.times(now, (number, kind), &command) };
        let covers = match command.op {
            Op::Flush if !self.flushed.is_empty() => self.ends(),
            _ => Vec::new(),
        };
        let covers_windows = (!covers.is_empty()).then(|| self.history.mark(&self.media));
        assert!(now <= effect_at && effect_at <= due, "a command takes effect before it is done");
        let zone = command.zone;
        // What comes after the power has failed has no effect.
        let is_too_late = power.recovering && power.reorders && power.is_off();
        let (command, completion) = match is_too_late {
            true => (None, Some(refused(command, Status::DeviceGone))),
            false => (Some(command), None),
        };
        self.flight.push(InFlight {
            number,
            zone,
            since: now,
            kind,
            command,
            completion,
            effect_at,
            due,
            covers,
            covers_windows,
            is_cut: false,
        });
    }

    /// Returns the times at which a command takes effect and is done; a model tells later.
    fn times(&mut self, now: Instant, (number, kind): (u64, Kind), command: &Command) -> (Instant, Instant) {
        match &mut self.pace {
            Pace::Model(model) => {
                model.submit(now, number, Access::of(command.zone, &command.op));
                (Instant(u64::MAX), Instant(u64::MAX))
            }
            Pace::Random { typical_ns, slow_ns, slow_per_mille } => {
                let slow = self.random.chance(*slow_per_mille, 1_000);
                let span = if slow {
                    self.random.below(*slow_ns)
                } else {
                    *typical_ns / 2 + self.random.below(*typical_ns)
                };
                let is_slow = |(slow, _): &(Kind, u64)| *slow == kind;
                let span = span * self.slow.filter(is_slow).map_or(1, |(_, times)| times);
                let until_effect = if self.random.chance(1, 2) { span } else { self.random.below(span + 1) };
                (now + Nanos(until_effect), now + Nanos(span))
            }
        }
    }

    /// The command that has waited longest for its answer.
    #[must_use]
    pub fn oldest(&self) -> Option<Outstanding> {
        let outstanding = |flight: &InFlight| Outstanding { zone: flight.zone, since: flight.since };
        self.flight.iter().map(outstanding).min_by_key(|command| command.since)
    }

    /// Lets effects happen and delivers completions that are due.
    pub fn poll(
        &mut self,
        now: Instant,
        power: &mut Power,
        trace: &mut Trace,
        completions: &mut Vec<Completion>,
    ) {
        if self.dead || power.is_off() {
            // In service the world stops when the power fails; recovery has to be told.
            if self.dead || power.recovering {
                if power.reorders && !self.dead {
                    self.strand_flight();
                }
                completions.extend(self.flight.drain(..).map(gone));
            }
            return;
        }
        if now < self.faults.hangs_until && !power.recovering {
            return;
        }
        self.ask_model(now);
        while let Some(index) = self.next_effect(now) {
            self.take_effect(index, now, power, trace);
            if power.is_off() || self.dead {
                return self.poll(now, power, trace, completions);
            }
        }
        self.deliver(now, trace, completions);
    }

    fn ask_model(&mut self, now: Instant) {
        let Pace::Model(model) = &mut self.pace else { return };
        model.advance(now, &mut self.done);
        for Done { tag, at } in self.done.drain(..) {
            if let Some(flight) = self.flight.iter_mut().find(|flight| flight.number == tag && !flight.is_cut)
            {
                (flight.effect_at, flight.due) = (at, at);
            }
        }
    }

    /// The command that takes effect next, if its time has come.
    fn next_effect(&self, now: Instant) -> Option<usize> {
        let waiting = self.flight.iter().enumerate().filter(|(_, flight)| flight.command.is_some());
        let (index, next) = waiting.min_by_key(|(_, flight)| (flight.effect_at, flight.number))?;
        debug_assert!(next.completion.is_none(), "a command takes effect once");
        (next.effect_at <= now).then_some(index)
    }

    fn take_effect(&mut self, index: usize, now: Instant, power: &mut Power, trace: &mut Trace) {
        let kind = self.flight[index].kind;
        assert!(self.flight[index].command.is_some(), "a command takes effect once");
        assert!(!self.dead, "a drive that is dead does nothing");
        if self.flight[index].is_cut {
            return self.execute_cut(index, power);
        }
        match power.burn(self.member, kind) {
            Some(Blow::PowerOff) => trace.remark(|| format!("the power fails at a {kind:?} of a drive")),
            Some(Blow::Die) => {
                trace.remark(|| format!("drive {} dies at a {kind:?}", self.member));
                self.die();
            }
            Some(Blow::WriteFault) => {
                trace.remark(|| format!("drive {} refuses a {kind:?}", self.member));
                let command = self.flight[index].command.take().expect("it has not taken effect");
                self.flight[index].completion = Some(refused(command, Status::WriteFault));
            }
            Some(Blow::Miswrite) => {
                self.execute(index, now, trace);
                self.misplace(index, trace);
            }
            Some(Blow::Misread) => {
                self.faults.misreads += 1;
                self.execute(index, now, trace);
            }
            None => self.execute(index, now, trace),
        }
    }

    fn execute(&mut self, index: usize, now: Instant, trace: &mut Trace) {
        let mut command = self.flight[index].command.take().expect("it has not taken effect");
        let kind = self.flight[index].kind;
        if let Some(completion) = self.refuse(&mut command) {
            self.flight[index].completion = Some(completion);
            return;
        }
        if let Op::Reset = command.op {
            self.before_reset(command.zone);
        }
        self.make_readable(&command);
        let flushes = matches!(command.op, Op::Flush);
        let mut completion = self.run(command);
        if flushes {
            let covers = std::mem::take(&mut self.flight[index].covers);
            for (zone, (flushed, covered)) in (0..).zip(self.flushed.iter_mut().zip(covers)) {
                let written = end_of(self.media.zone(ZoneIndex(zone)));
                *flushed = (*flushed).max(covered).min(written);
                assert!(*flushed <= written, "no more is flushed than was written");
            }
            if let Some(mark) = self.flight[index].covers_windows.take() {
                self.history.flushed(mark);
            }
        }
        self.spoil(&mut completion, kind);
        let event = self.event_of("executes", kind, &completion);
        trace.note(now, &event);
        if trace.keeps_blocks() && kind != Kind::Superblock && !self.is_of_baseline {
            tell_blocks(trace, &event, &completion.frames);
        }
        self.flight[index].completion = Some(completion);
    }

    /// What became of a command, for the trace.
    fn event_of(&self, what: &'static str, kind: Kind, completion: &Completion) -> Event {
        Event {
            what,
            member: self.member,
            kind,
            zone: completion.zone.0,
            offset: completion.offset,
            blocks: completion.frames.len(),
            status: completion.status.nvme_code(),
        }
    }

    /// Executes a command on the media at once.
    fn run(&mut self, command: Command) -> Completion {
        if !self.flushed.is_empty() {
            self.history.note(&mut self.media, &command);
        }
        self.media.submit(Instant(0), command);
        let mut completions = Vec::new();
        self.media.poll(Instant(0), &mut completions);
        completions.pop().expect("media in memory answer at once")
    }

    /// Another server's command, which takes effect at once.
    pub(crate) fn execute_at_once(
        &mut self,
        now: Instant,
        command: Command,
        trace: &mut Trace,
    ) -> Completion {
        let kind = self.kind_of(&command);
        if let Op::Reset = command.op {
            self.before_reset(command.zone);
        }
        let flushes = matches!(command.op, Op::Flush) && !self.flushed.is_empty();
        let (covers, mark) =
            if flushes { (self.ends(), Some(self.history.mark(&self.media))) } else { (Vec::new(), None) };
        let completion = self.run(command);
        if let Some(mark) = mark {
            self.flushed = covers;
            self.history.flushed(mark);
        }
        let event = self.event_of("is told", kind, &completion);
        trace.note(now, &event);
        completion
    }

    /// True while a zone is to be reset.
    pub(crate) fn has_reset_in_flight(&self) -> bool {
        self.commands_in_flight().any(|command| matches!(command.op, Op::Reset))
    }

    /// Commands that have not taken effect.
    pub(crate) fn commands_in_flight(&self) -> impl Iterator<Item = &Command> {
        self.flight.iter().filter_map(|flight| flight.command.as_ref())
    }

    /// The answer to a command that a fault refuses.
    fn refuse(&mut self, command: &mut Command) -> Option<Completion> {
        let zone = command.zone;
        let status = match &command.op {
            Op::Read { offset, frames } => {
                let blocks = *offset..*offset + u32::try_from(frames.len()).expect("a transfer");
                let hit =
                    self.faults.unreadable.iter().any(|(at, block)| *at == zone.0 && blocks.contains(block));
                hit.then_some(Status::UnrecoveredReadError)?
            }
            Op::Write { frames, .. } | Op::Append { frames } => {
                let capacity = *self.faults.capacity.get(&zone.0)? as usize;
                let found = self.media.zone(zone);
                let start = match &command.op {
                    Op::Write { offset, .. } if found.area.is_some() => *offset,
                    _ => found.write_pointer,
                };
                let end = start as usize + frames.len();
                (end > capacity).then_some(Status::ZoneBoundaryError)?
            }
            Op::OpenWithArea => {
                self.faults.areas_refused = self.faults.areas_refused.checked_sub(1)?;
                Status::NoAreaLeft
            }
            _ => return None,
        };
        let op = std::mem::replace(&mut command.op, Op::Flush);
        Some(refused(Command { token: command.token, zone, op }, status))
    }

    /// A block of a window that is written again can be read.
    fn make_readable(&mut self, command: &Command) {
        if let Op::Write { offset, frames } = &command.op
            && self.media.has_area(command.zone)
        {
            let blocks = *offset..*offset + u32::try_from(frames.len()).expect("a transfer");
            self.faults.unreadable.retain(|(at, block)| *at != command.zone.0 || !blocks.contains(block));
        }
    }

    /// A zone is about to be reset.
    fn before_reset(&mut self, zone: ZoneIndex) {
        self.note_reset(zone);
        self.faults.unreadable.retain(|(at, _)| *at != zone.0);
        self.faults.relapses.retain(|(at, _), _| *at != zone.0);
        if let Some(flushed) = self.flushed.get_mut(zone.index()) {
            *flushed = 0;
            self.history.forget(zone);
        }
        let lost = std::mem::take(&mut self.faults.shrink_next);
        if lost > 0 {
            let capacity = self.media.geometry().zone_capacity_blocks;
            self.faults.capacity.insert(zone.0, capacity.saturating_sub(lost));
        }
        if self.before_reset.is_some() {
            let blocks = self.media.zone(zone).write_pointer.min(self.remembered_blocks);
            let frames = (0..blocks).filter_map(|offset| self.peek(zone, offset)).collect();
            self.before_reset.get_or_insert_default().insert(zone.0, frames);
        }
    }

    /// Spoils an answer that should be right: by the drive's faults, and with any value where none is defined.
    fn spoil(&mut self, completion: &mut Completion, kind: Kind) {
        let capacity = self.media.geometry().zone_capacity_blocks;
        for (zone, descriptor) in (completion.zone.0..).zip(&mut completion.report) {
            descriptor.capacity = self.faults.capacity.get(&zone).copied().unwrap_or(capacity);
            let undefined = [ZoneState::Full, ZoneState::ReadOnly, ZoneState::Offline];
            if undefined.contains(&descriptor.state) {
                // Nobody may rely on it, nor on its being absurd.
                let any = u32::try_from(self.random.below(1 << 32)).expect("32 bits");
                descriptor.write_pointer = [0, any % capacity, any][any as usize % 3];
            }
        }
        let is_read =
            kind == Kind::Read && !completion.frames.is_empty() && completion.status == Status::Success;
        if !is_read {
            return;
        }
        let blocks =
            completion.offset..completion.offset + u32::try_from(completion.frames.len()).unwrap_or(0);
        let read_again: Vec<(u32, u32)> = self
            .faults
            .read_wrong
            .range((completion.zone.0, blocks.start)..(completion.zone.0, blocks.end))
            .copied()
            .collect();
        if !read_again.is_empty() {
            read_again.iter().for_each(|block| _ = self.faults.read_wrong.remove(block));
            return;
        }
        for (block, frame) in blocks.clone().zip(&mut completion.frames) {
            let place = (completion.zone.0, block);
            let Some(left) = self.faults.relapses.get_mut(&place).filter(|left| **left > 0) else { continue };
            *left -= 1;
            if let Some(old) = self.old_block(place) {
                (frame.data, frame.oob) = (old.data, old.oob);
            }
        }
        if self.faults.misreads > 0
            && let Some((zone, offset)) = self.any_block()
            && let Some(other) = self.peek(zone, offset)
        {
            self.faults.misreads -= 1;
            assert!(blocks.len() == completion.frames.len(), "a frame for each block");
            let index = self.random.index(completion.frames.len());
            self.faults.read_wrong.extend(blocks.clone().nth(index).map(|block| (completion.zone.0, block)));
            completion.frames[index] = other;
        }
        if self.faults.stale_reads > 0
            && let Some(old) = self.before_reset.as_ref().and_then(|zones| zones.get(&completion.zone.0))
        {
            let old = old.iter().take(STALE_BLOCKS as usize).skip(completion.offset as usize);
            let mut hit = false;
            for (frame, old) in completion.frames.iter_mut().zip(old) {
                (frame.data, frame.oob) = (old.data, old.oob);
                hit = true;
            }
            self.faults.stale_reads -= u32::from(hit);
            if hit {
                self.faults.read_wrong.extend(blocks.map(|block| (completion.zone.0, block)));
            }
        }
    }

    /// A write went elsewhere: another block holds its data, and its own place what was there before.
    fn misplace(&mut self, index: usize, trace: &mut Trace) {
        let Some(completion) = &self.flight[index].completion else { return };
        if completion.status != Status::Success || completion.frames.is_empty() {
            return;
        }
        let (zone, offset) = (completion.zone, completion.offset);
        assert!(zone.0 < self.media.geometry().zones, "zone {zone} of the drive");
        let Some(written) = self.peek(zone, offset) else { return };
        self.media.overwrite(zone, offset, &Frame::zeroed());
        match self.any_block() {
            Some((other, at)) => {
                trace.remark(|| format!("zone {zone} offset {offset} lands in zone {other} offset {at}"));
                self.media.overwrite(other, at, &written);
            }
            None => trace.remark(|| format!("zone {zone} offset {offset} lands nowhere")),
        }
    }

    /// Any block that was written.
    fn any_block(&mut self) -> Option<(ZoneIndex, u32)> {
        let number = self.random.index(self.data_zones() as usize);
        let zone = self.data_zone(u32::try_from(number).ok()?);
        let written = self.media.zone(zone).write_pointer;
        (written > 0)
            .then(|| (zone, u32::try_from(self.random.below(u64::from(written))).expect("below a u32")))
    }

    /// A block as it is on the media.
    pub fn peek(&mut self, zone: ZoneIndex, offset: u32) -> Option<Frame> {
        let op = Op::Read { offset, frames: vec![Frame::zeroed()] };
        self.run(Command { token: Token(0), zone, op }).frames.pop()
    }

    fn deliver(&mut self, now: Instant, trace: &mut Trace, completions: &mut Vec<Completion>) {
        self.flight.sort_by_key(|flight| (flight.due, flight.number));
        let due = self.flight.partition_point(|flight| flight.due <= now);
        assert!(!self.dead, "a drive that is dead answers nothing");
        for flight in self.flight.drain(..due).collect::<Vec<InFlight>>() {
            let completion = flight.completion.expect("a command takes effect before it is done");
            trace.note(now, &(Delivered { member: self.member, number: flight.number }));
            self.note_answer(flight.kind, &completion);
            completions.push(completion);
        }
    }

    /// Returns the time of the next event.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        if self.flight.is_empty() {
            return None;
        }
        let at = |flight: &InFlight| if flight.command.is_some() { flight.effect_at } else { flight.due };
        let own = self.flight.iter().map(at).min();
        let model = match &self.pace {
            Pace::Model(model) => model.next_event(),
            Pace::Random { .. } => None,
        };
        let next = own.into_iter().chain(model).min()?;
        Some(next.max(self.faults.hangs_until))
    }

    fn kind_of(&mut self, command: &Command) -> Kind {
        let zone = command.zone.index();
        match &command.op {
            Op::Read { .. }
            | Op::Report { .. }
            | Op::FindTurned { .. }
            | Op::Open
            | Op::Close
            | Op::SelfTest { .. } => Kind::Read,
            Op::OpenWithArea => Kind::Area,
            Op::Commit { .. } => Kind::Commit,
            Op::Finish => Kind::Finish,
            Op::Reset => Kind::Reset,
            Op::Flush => Kind::Flush,
            Op::Write { .. } if self.is_of_baseline => Kind::Chunk,
            Op::Append { frames } if self.is_of_baseline => {
                let begins = |scheme: Scheme| {
                    frames.first().is_some_and(|frame| frame.data.starts_with(&scheme.magic()))
                };
                let is_superblock = begins(Scheme::Raizn) || begins(Scheme::Zraid);
                if is_superblock { Kind::Superblock } else { Kind::Log }
            }
            Op::Write { .. } | Op::Append { .. } if self.has_superblocks(command.zone) => Kind::Superblock,
            Op::Write { frames, .. } if frames.last().is_some_and(is_journal) => Kind::Log,
            Op::Write { offset: 0, frames } => {
                let header = frames.first().and_then(|frame| SegmentHeader::decode(&frame.data));
                self.moves[zone] = header.is_some_and(|header| header.stream == Stream::Gc);
                Kind::Header
            }
            Op::Write { frames, .. } if frames.first().is_some_and(is_marker) => Kind::Marker,
            Op::Write { frames, .. } | Op::Append { frames } => {
                let is_footer = frames.first().is_some_and(|frame| frame.data.starts_with(FOOTER_MAGIC));
                match self.moves[zone] {
                    _ if is_footer => Kind::Footer,
                    true => Kind::Move,
                    false => Kind::Chunk,
                }
            }
        }
    }

    fn ends(&self) -> Vec<u32> {
        let zones = self.media.geometry().zones;
        (0..zones).map(|zone| end_of(self.media.zone(ZoneIndex(zone)))).collect()
    }

    /// Commands in flight take effect, or not, or partly, in any order; nobody is told.
    fn strand_flight(&mut self) {
        let flight = std::mem::take(&mut self.flight);
        let mut waiting: Vec<Command> = Vec::new();
        let stranded = flight.len();
        for flight in flight {
            match flight.command {
                Some(command) => waiting.push(command),
                // It has taken effect; it is answered by nothing but its end.
                None => self.flight.push(flight),
            }
        }
        while !waiting.is_empty() {
            let mut command = waiting.swap_remove(self.random.index(waiting.len()));
            let fate = self.random.below(3);
            let stub = Command { token: command.token, zone: command.zone, op: stub(&mut command.op, fate) };
            self.flight.push(InFlight {
                number: self.next_number,
                zone: command.zone,
                since: Instant(0),
                kind: Kind::Any,
                command: None,
                completion: Some(refused(command, Status::DeviceGone)),
                effect_at: Instant(0),
                due: Instant(0),
                covers: Vec::new(),
                covers_windows: None,
                is_cut: false,
            });
            if fate > 0 {
                self.apply_stranded(stub, fate == 1);
            }
        }
        assert!(self.flight.len() == stranded, "every command in flight is answered");
    }

    fn apply_stranded(&mut self, mut command: Command, torn: bool) {
        if torn && self.media.has_area(command.zone) {
            return self.tear_in_window(command);
        }
        let (Op::Write { frames, .. } | Op::Append { frames }) = &mut command.op else {
            if let Op::Reset = command.op {
                self.before_reset(command.zone);
            }
            // A flush that nobody was told of promises nothing.
            if !matches!(
                command.op,
                Op::Read { .. } | Op::Report { .. } | Op::FindTurned { .. } | Op::Flush | Op::SelfTest { .. }
            ) {
                self.run(command);
            }
            return;
        };
        let blocks = frames.len();
        if torn && self.tearing == Tearing::Prefix {
            frames.truncate(1 + self.random.index(blocks));
        }
        let zone = command.zone;
        let mut refusal = Command { token: command.token, zone, op: command.op };
        if self.refuse(&mut refusal).is_some() {
            return;
        }
        let completion = self.run(refusal);
        if torn && self.tearing == Tearing::Holes && completion.status == Status::Success {
            for offset in completion.offset..completion.offset + u32::try_from(blocks).expect("a transfer") {
                if self.random.chance(1, 2) {
                    self.media.overwrite(zone, offset, &Frame::zeroed());
                }
            }
        }
    }

    /// A command in a zone with an area takes effect in part: each block of a write by itself, perhaps behind the move of the write pointer
    /// that it asks for; a commit up to any granule on its way.
    fn tear_in_window(&mut self, command: Command) {
        let Command { token, zone, op } = command;
        match op {
            Op::Write { offset, frames } => {
                let end = offset + u32::try_from(frames.len()).expect("a transfer");
                if let Some(end) = self.commit_of_write(zone, end)
                    && self.random.chance(1, 2)
                {
                    self.run(Command { token, zone, op: Op::Commit { end } });
                }
                for (offset, frame) in (offset..).zip(frames) {
                    if self.random.chance(1, 2) {
                        let op = Op::Write { offset, frames: vec![frame] };
                        self.apply_stranded(Command { token, zone, op }, false);
                    }
                }
            }
            Op::Commit { end } => {
                let granule = self.media.geometry().areas.map_or(1, |areas| areas.granule_blocks);
                let from = self.media.zone(zone).write_pointer;
                let granules = end.saturating_sub(from) / granule;
                let passed = u32::try_from(self.random.below(u64::from(granules) + 1)).unwrap_or(0);
                self.run(Command { token, zone, op: Op::Commit { end: from + passed * granule } });
            }
            op => self.apply_stranded(Command { token, zone, op }, false),
        }
    }

    /// Where a write with this end moves the write pointer of its zone, if it does.
    fn commit_of_write(&self, zone: ZoneIndex, end: u32) -> Option<u32> {
        let areas = self.media.geometry().areas?;
        let window_end = self.media.zone(zone).write_pointer + areas.window_blocks;
        let passed = end.saturating_sub(window_end).next_multiple_of(areas.granule_blocks);
        (1..=areas.window_blocks).contains(&passed).then(|| window_end - areas.window_blocks + passed)
    }

    /// The power fails: what is in flight is decided, a volatile cache is lost, zones close.
    pub fn power_fail(&mut self) {
        self.lose_power();
        self.flight.clear();
        self.end_absence();
        self.faults.hangs_until = Instant(0);
    }

    /// The drive has no power: what is in flight is decided, and its cache is lost.
    fn lose_power(&mut self) {
        self.strand_flight();
        assert!(self.flushed.is_empty() || self.flushed.len() == self.moves.len(), "caches cover every zone");
        self.lose_cache();
        self.media.lose_power_with_areas(self.area_fate).expect("media in memory take everything");
        if !self.flushed.is_empty() {
            // What survived a power failure survives the next one.
            self.flushed = self.ends();
            self.history = History::survived(&self.media);
        }
        self.open_anew();
    }

    /// The server is killed: what is in flight is decided, caches stay, and zones close as the next server opens the drive.
    pub fn outlive_server(&mut self) {
        self.forget_flight();
        self.faults.hangs_until = Instant(0);
        self.open_anew();
    }

    fn open_anew(&mut self) {
        let geometry = *self.media.geometry();
        let placeholder = EmulatedDrive::on_heap(geometry, [0; 16]).expect("a geometry that works");
        let heap = std::mem::replace(&mut self.media, placeholder).into_heap().expect("media in memory");
        self.media = EmulatedDrive::from_heap(heap).expect("media of a drive");
    }

    fn lose_cache(&mut self) {
        let style = self.random.below(3);
        for zone in 0..u32::try_from(self.flushed.len()).expect("a u32 of zones") {
            let zone = ZoneIndex(zone);
            self.history.fall_back(&mut self.media, zone, style, &mut self.random);
            if self.media.has_area(zone) {
                continue;
            }
            let written = self.media.zone(zone).write_pointer;
            let flushed = self.flushed[zone.index()].min(written);
            let span = u64::from(written - flushed);
            let kept = match style {
                0 => 0,
                1 => span,
                _ => self.random.below(span + 1),
            };
            let keep = flushed + u32::try_from(kept).expect("below a u32");
            assert!(flushed <= keep && keep <= written, "a cache loses only what was not flushed");
            if keep < written {
                self.media.lose_tail(zone, keep);
            }
        }
    }
}

/// True for a journal block of a cache.
fn is_journal(frame: &Frame) -> bool {
    frame.data.starts_with(JOURNAL_MAGIC)
}

/// True for the marker of a window, a copy of its zone's header.
fn is_marker(frame: &Frame) -> bool {
    SegmentHeader::decode(&frame.data).is_some()
}

/// End of what is written in a zone, committed or not.
fn end_of(zone: Zone) -> u32 {
    zone.area.unwrap_or(zone.write_pointer)
}

/// Says which logical blocks a command is about, for the history of a block.
fn tell_blocks(trace: &mut Trace, event: &Event, frames: &[Frame]) {
    for (row, frame) in frames.iter().enumerate() {
        let Some(protected) = Protected::from_bytes(&frame.oob) else { continue };
        let Protected { lba, sequence, kind } = protected;
        let stamp = base::bytes::u64_at(&frame.data, 0);
        let text = || format!("{event}, row {row}: {kind:?} block {lba} sequence {sequence} version {stamp}");
        match kind {
            OobKind::User | OobKind::Lost => trace.about(lba..lba.saturating_add(1), text),
            OobKind::Tombstone => trace.about(0..u64::MAX, text),
            _ => {}
        }
    }
}

/// A completion went home.
#[derive(Hash)]
struct Delivered {
    member: usize,
    number: u64,
}

impl fmt::Display for Delivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "drive {} answers  command {}", self.member, self.number)
    }
}

/// Returns the operation by which a stranded command takes effect: its frames are copied, for the originals go home.
fn stub(op: &mut Op, fate: u64) -> Op {
    let copies = |frames: &Vec<Frame>| -> Vec<Frame> {
        let copy = |frame: &Frame| {
            let mut copy = Frame::zeroed();
            (copy.data, copy.oob) = (frame.data, frame.oob);
            copy
        };
        if fate == 0 { Vec::new() } else { frames.iter().map(copy).collect() }
    };
    match op {
        Op::Write { offset, frames } => Op::Write { offset: *offset, frames: copies(frames) },
        Op::Append { frames } => Op::Append { frames: copies(frames) },
        Op::Reset => Op::Reset,
        Op::Finish => Op::Finish,
        Op::Open => Op::Open,
        Op::OpenWithArea => Op::OpenWithArea,
        Op::Commit { end } => Op::Commit { end: *end },
        Op::Close => Op::Close,
        Op::Read { .. } | Op::Report { .. } | Op::FindTurned { .. } | Op::Flush | Op::SelfTest { .. } => {
            Op::Flush
        }
    }
}

/// A command that is answered with a status and nothing else.
pub(crate) fn refused(Command { token, zone, op }: Command, status: Status) -> Completion {
    let (offset, frames) = match op {
        Op::Read { offset, frames } | Op::Write { offset, frames } => (offset, frames),
        Op::Append { frames } => (0, frames),
        _ => (0, Vec::new()),
    };
    Completion { token, status, zone, offset, frames, report: Vec::new() }
}

/// A drive that is gone gives no frames back: those that come instead hold something else.
fn gone(flight: InFlight) -> Completion {
    let mut completion = match (flight.command, flight.completion) {
        (Some(command), _) => refused(command, Status::DeviceGone),
        (None, Some(completion)) => {
            Completion { status: Status::DeviceGone, report: Vec::new(), ..completion }
        }
        (None, None) => unreachable!("a command in flight has one or the other"),
    };
    for frame in &mut completion.frames {
        (frame.data, frame.oob) = ([0xa5; BLOCK_BYTES], [0xa5; OOB_BYTES]);
    }
    completion
}

#[cfg(test)]
mod tests;
