//! A drive under clients and a collector: clients write small requests to their zones now and then, the collector moves a victim as fast
//! as its zone takes it, rests, and moves the next.
//!
//! Every zone has one write in flight, as under Zone Write. One that is full is erased, and another is opened in its place, the one that
//! has been empty for longest; where it lies is drawn by the map at that moment.

use super::detector::Detector;
use array::log::channels::ZoneWrite;
use base::random::Random;
use base::time::{Instant, Nanos};
use base::units::{BLOCK_BYTES_U64, ZoneIndex};
use drive::timing::{Access, Done, Model, ModelOptions, Profile};
use std::collections::VecDeque;

/// Zones of the drive that are used: so few that each is used again and again.
pub(super) const ZONES: u32 = 20;
/// Zones that are written at a time: a ZN540 has 14 active ones. The last is the collector's.
const WRITERS: usize = 13;
const COLLECTOR: usize = WRITERS - 1;
/// Clients wait for so long between two writes of a zone, in the mean, which are of up to this size: all of them take a fifth of what
/// two groups do.
const PAUSE: Nanos = Nanos::from_micros(500);
const CLIENT_SIZES: u64 = 5;
/// Writes of the collector, and the part of a victim that is live.
const MOVE_BLOCKS: u32 = 16;
const LIVE_PART: u32 = 2;
/// Between victims; and where nothing is to wait, between writes.
const REST: Nanos = Nanos::from_micros(30_000);
const QUIET_REST: Nanos = Nanos::from_micros(500);

/// Clock of the drive: how zones lie on groups, and whether anything ever waits.
pub(super) struct Clock {
    pub(super) map: &'static str,
    pub(super) wrong_percent: u32,
    pub(super) is_quiet: bool,
    pub(super) seed: u64,
}

#[derive(Clone, Copy)]
struct Writer {
    zone: u32,
    group: u32,
    written: u32,
    /// The write in flight: blocks and when it was sent.
    in_flight: Option<(u32, Instant)>,
    /// Time at which the next one is sent.
    next: Instant,
}

/// The drive and who writes to it.
pub(super) struct Load<'a> {
    model: Model,
    clock: &'a Clock,
    random: Random,
    groups: u32,
    zone_blocks: u32,
    now: Instant,
    writers: Vec<Writer>,
    free: VecDeque<u32>,
    openings: u32,
    /// Blocks that the collector has moved of its victim.
    moved: u32,
    writes: u64,
    done: Vec<Done>,
}

impl Load<'_> {
    pub(super) fn new<'a>(profile: &Profile, clock: &'a Clock, detector: &mut Detector) -> Load<'a> {
        let mut random = Random::from_seed(clock.seed);
        // The drive was in use before: its zones were emptied in any order.
        let mut free: Vec<u32> = (0..ZONES).collect();
        for at in (1..free.len()).rev() {
            free.swap(at, random.index(at + 1));
        }
        let mut load = Load {
            model: Model::new(profile, ModelOptions { seed: clock.seed, ..ModelOptions::default() }),
            clock,
            random,
            groups: profile.channel_groups(),
            zone_blocks: profile.geometry().zone_capacity_blocks,
            now: Instant(0),
            writers: Vec::new(),
            free: free.into(),
            openings: 0,
            moved: 0,
            writes: 0,
            done: Vec::new(),
        };
        for _ in 0..WRITERS {
            let writer = load.open(detector);
            load.writers.push(writer);
        }
        load
    }

    /// Writes that are done.
    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    /// Zones that were opened.
    pub(super) fn openings(&self) -> u32 {
        self.openings
    }

    /// Zones that are written, with their groups.
    pub(super) fn open_zones(&self) -> impl Iterator<Item = (u32, u32)> {
        self.writers.iter().map(|writer| (writer.zone, writer.group))
    }

    /// Lets something happen. Returns true when a victim has been moved.
    pub(super) fn step(&mut self, detector: &mut Detector) -> bool {
        let idle = self.writers.iter().enumerate().filter(|(_, writer)| writer.in_flight.is_none());
        let next = idle.map(|(at, writer)| (writer.next, at)).min();
        let event = self.model.next_event();
        if let Some((at, writer)) = next.filter(|(at, _)| event.is_none_or(|event| *at <= event)) {
            self.now = at.max(self.now);
            self.send(writer);
            return false;
        }
        self.now = event.expect("somebody writes").max(self.now);
        let mut done = std::mem::take(&mut self.done);
        self.model.advance(self.now, &mut done);
        let mut victim_ended = false;
        for Done { tag, at } in done.drain(..) {
            // Others are zones that were erased.
            if let Some(writer) = usize::try_from(tag).ok().filter(|tag| *tag < WRITERS) {
                victim_ended |= self.take(writer, at, detector);
            }
        }
        self.done = done;
        victim_ended
    }

    /// Opens the zone that has been empty for longest.
    fn open(&mut self, detector: &mut Detector) -> Writer {
        let zone = self.free.pop_front().expect("more zones than writers");
        let groups = u64::from(self.groups);
        let any = |random: &mut Random, limit: u64| u32::try_from(random.below(limit)).expect("few groups");
        let mut group = match self.clock.map {
            "number" => zone % self.groups,
            "opening" => self.openings % self.groups,
            _ => any(&mut self.random, groups),
        };
        if self.groups > 1 && self.random.chance(self.clock.wrong_percent.into(), 100) {
            group = (group + 1 + any(&mut self.random, groups - 1)) % self.groups;
        }
        self.openings += 1;
        self.model.place_zone(zone, group);
        detector.open(zone);
        let next = self.now + Nanos(self.random.below(PAUSE.0));
        Writer { zone, group, written: 0, in_flight: None, next }
    }

    fn send(&mut self, at: usize) {
        let left = self.zone_blocks - self.writers[at].written;
        let blocks = match at {
            COLLECTOR => MOVE_BLOCKS,
            _ => 1 << self.random.below(CLIENT_SIZES),
        };
        let blocks = blocks.min(left);
        let writer = &mut self.writers[at];
        writer.in_flight = Some((blocks, self.now));
        let access = Access::Write {
            zone: writer.zone,
            offset_bytes: u64::from(writer.written) * BLOCK_BYTES_U64,
            bytes: u64::from(blocks) * BLOCK_BYTES_U64,
        };
        writer.written += blocks;
        self.model.submit(self.now, at as u64, access);
    }

    /// A write is done. Returns true when it was the last of a victim.
    fn take(&mut self, at: usize, to: Instant, detector: &mut Detector) -> bool {
        let collects_to = (self.moved > 0).then_some(self.writers[COLLECTOR].zone);
        let writer = &mut self.writers[at];
        let (blocks, from) = writer.in_flight.take().expect("a write in flight");
        let Writer { zone, written, .. } = *writer;
        detector.note(&ZoneWrite { zone: ZoneIndex(zone), blocks, depth: 1, from, to }, collects_to);
        self.writes += 1;
        let mut victim_ended = false;
        let pause = match at {
            COLLECTOR => {
                self.moved += blocks;
                victim_ended = self.moved >= self.zone_blocks / LIVE_PART;
                self.moved = if victim_ended { 0 } else { self.moved };
                let rest = if victim_ended { REST } else { Nanos(0) };
                if self.clock.is_quiet { QUIET_REST } else { rest }
            }
            _ => Nanos(self.random.below(2 * PAUSE.0)),
        };
        if written == self.zone_blocks {
            detector.close(zone);
            self.model.submit(self.now, u64::from(zone) + WRITERS as u64, Access::Reset { zone });
            self.free.push_back(zone);
            self.writers[at] = self.open(detector);
        }
        self.writers[at].next = to + pause;
        victim_ended
    }
}
