//! Simulated device with zones and without metadata: a cache that is lost by zone, commands that take time, blocks that tear and zones
//! that fail.

use base::frame::Frame;
use base::random::Random;
use base::time::{Instant, Nanos};
use base::units::{BLOCK_BYTES, ZoneIndex};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use zone::device::{Command, Completion, Geometry, Op, Status, ZoneState, ZonedDevice};
use zone::rules::{Zone, ZoneTable};

/// Least time of a command, in nanoseconds.
const LEAST: u64 = 1_000;
/// Some commands take so many times longer.
const SLOWER: u64 = 20;
/// Bytes that arrive as one when a block tears.
const SECTOR: usize = 512;

type Block = [u8; BLOCK_BYTES];

/// How far a zone was written, and whether it was made full.
type Extent = (u32, bool);

/// Command in flight.
struct Flight {
    due: Instant,
    command: Command,
    /// Of a flush: zones as they were when it was submitted, and how often each was reset.
    covers: Vec<(u64, Extent)>,
}

/// State of a device.
pub struct Device {
    geometry: Geometry,
    rules: ZoneTable,
    blocks: Vec<Vec<Block>>,
    /// What survives a power failure, by zone, and how often the zone was reset.
    durable: Vec<Extent>,
    resets: Vec<u64>,
    /// Blocks that cannot be read until their zone is reset.
    bad: BTreeSet<(u32, u32)>,
    /// What a zone held before it was reset lies there until it is written.
    leaves_stale: bool,
    in_flight: Vec<Flight>,
    random: Random,
    latency: u64,
    is_dead: bool,
    fails_next_write: bool,
    /// Zones in which a write failed since the last power failure.
    hits: BTreeSet<u32>,
    /// Zones that die when so many commands were carried out.
    doomed: Vec<(u64, ZoneIndex, ZoneState)>,
    /// Something went wrong that is not the device's fault.
    misuse: Option<String>,
    /// Commands that were carried out.
    pub commands: u64,
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("small")
}

impl Device {
    fn extent(&self, zone: usize) -> Extent {
        let zone = self.rules.zone(ZoneIndex(u32::try_from(zone).expect("small")));
        (zone.write_pointer, zone.state == ZoneState::Full)
    }

    /// True when the zone fails by itself.
    fn has_failed(&self, zone: ZoneIndex) -> bool {
        matches!(self.rules.zone(zone).state, ZoneState::ReadOnly | ZoneState::Offline)
    }

    /// Writes blocks at the pointer; of the last one perhaps only some sectors. Blocks of identities arrive whole: that a pointer passes no
    /// block that is not there is what drives rely on.
    fn put(&mut self, zone: ZoneIndex, offset: u32, frames: &[Frame], is_torn: bool) -> Result<(), Status> {
        let count = u32::try_from(frames.len()).expect("small");
        self.rules.write(zone, offset, count)?;
        assert!(!is_torn || count > 0, "zone {}: nothing is torn", zone.0);
        let written = self.rules.zone(zone).write_pointer;
        assert_eq!(offset + count, written, "zone {}: a write ends at its pointer", zone.0);
        for (at, frame) in (offset..).zip(frames) {
            self.bad.remove(&(zone.0, at));
            self.blocks[zone.index()][index(at)] = frame.data;
        }
        if let (true, Some(last)) = (is_torn, frames.len().checked_sub(1)) {
            let block = &mut self.blocks[zone.index()][index(offset) + last];
            let is_of_identities = block.starts_with(b"ZWid");
            let sectors = if is_of_identities { &mut [] } else { &mut block[..] };
            for sector in sectors.chunks_exact_mut(SECTOR) {
                if self.random.chance(1, 2) {
                    sector.fill(0x5e);
                }
            }
        }
        Ok(())
    }

    /// A part of a write arrives, the first blocks.
    fn tear(&mut self, command: &Command) {
        if let Op::Write { offset, frames } = &command.op {
            let arrived = self.random.index(frames.len() + 1);
            if arrived > 0 {
                let is_torn = self.random.chance(1, 2);
                let _ = self.put(command.zone, *offset, &frames[..arrived], is_torn);
            }
        }
    }

    fn reset(&mut self, zone: ZoneIndex) -> Result<(), Status> {
        self.rules.reset(zone)?;
        assert_eq!(self.rules.zone(zone).write_pointer, 0, "zone {} was reset", zone.0);
        self.durable[zone.index()] = (0, false);
        self.resets[zone.index()] += 1;
        self.bad.retain(|(at, _)| *at != zone.0);
        if !self.leaves_stale {
            self.blocks[zone.index()].fill([0; BLOCK_BYTES]);
        }
        Ok(())
    }

    fn read(&mut self, zone: ZoneIndex, offset: u32, frames: &mut [Frame]) -> Result<(), Status> {
        self.rules.read(zone, offset, u32::try_from(frames.len()).expect("small"))?;
        let mut is_bad = false;
        for (at, frame) in (offset..).zip(frames) {
            frame.data = self.blocks[zone.index()].get(index(at)).copied().unwrap_or([0; BLOCK_BYTES]);
            is_bad |= self.bad.contains(&(zone.0, at));
        }
        if is_bad { Err(Status::UnrecoveredReadError) } else { Ok(()) }
    }

    /// A zone turns read-only or offline, whatever is in flight; of writes any first blocks have arrived.
    fn degrade(&mut self, zone: ZoneIndex, state: ZoneState) {
        if self.has_failed(zone) {
            return;
        }
        let flights = std::mem::take(&mut self.in_flight);
        for Flight { command, .. } in flights.iter().filter(|flight| flight.command.zone == zone) {
            self.tear(command);
        }
        self.in_flight = flights;
        let pointer = index(self.rules.zone(zone).write_pointer);
        // Nobody is told its pointer any more: what lies behind it is nothing.
        self.blocks[zone.index()][pointer..].fill([0; BLOCK_BYTES]);
        self.rules.degrade(zone, state);
    }

    /// Zones die whose time has come.
    fn let_die(&mut self) {
        let commands = self.commands;
        let due: Vec<(u64, ZoneIndex, ZoneState)> =
            self.doomed.extract_if(.., |(at, ..)| *at <= commands).collect();
        for (_, zone, state) in due {
            self.degrade(zone, state);
        }
    }

    /// What a command of a zone that died is told: some devices say no more than that it failed.
    fn blur(&mut self, zone: ZoneIndex, op: &Op, status: Status) -> Status {
        let is_change = matches!(op, Op::Write { .. } | Op::Reset | Op::Finish);
        let is_blurred = is_change && self.has_failed(zone) && self.random.chance(1, 2);
        if is_blurred { Status::WriteFault } else { status }
    }

    fn carry_out(&mut self, Flight { mut command, covers, .. }: Flight) -> Completion {
        self.commands += 1;
        self.let_die();
        let zone = command.zone;
        let fails = !self.is_dead
            && matches!(command.op, Op::Write { .. })
            && std::mem::take(&mut self.fails_next_write);
        let (mut report, mut turned_at) = (Vec::new(), 0);
        let outcome = if self.is_dead {
            Err(Status::DeviceGone)
        } else if fails {
            self.hits.insert(zone.0);
            self.tear(&command);
            Err(Status::WriteFault)
        } else {
            match &mut command.op {
                Op::Read { offset, frames } => self.read(zone, *offset, frames),
                Op::Write { offset, frames } => self.put(zone, *offset, frames, false),
                Op::Reset => self.reset(zone),
                Op::Finish => self.rules.finish(zone),
                Op::Flush => {
                    self.commit(&covers);
                    Ok(())
                }
                Op::Report { count } => {
                    let found = self.rules.report(zone, *count);
                    found.map(|found| report = found)
                }
                Op::FindTurned { count } => {
                    let found = self.rules.find_turned(zone, *count);
                    found.map(|found| {
                        turned_at = found.map_or(0, |(before, _)| before);
                        report.extend(found.map(|(_, zone)| zone));
                    })
                }
                other => {
                    self.misuse = Some(format!("{other:?} of a device that has no such command"));
                    Err(Status::InvalidField)
                }
            }
        };
        let outcome = outcome.map_err(|status| self.blur(zone, &command.op, status));
        let is_excused = self.is_dead || fails || self.bad.iter().next().is_some() || self.has_failed(zone);
        if let (Err(status), false) = (outcome, is_excused) {
            self.misuse.get_or_insert(format!("zone {}: {status:?}", zone.0));
        }
        if !self.geometry.volatile_cache {
            let all: Vec<(u64, Extent)> = self.covered();
            self.commit(&all);
        }
        let (offset, frames) = match command.op {
            Op::Read { offset, frames } | Op::Write { offset, frames } => (offset, frames),
            _ => (turned_at, Vec::new()),
        };
        let status = outcome.err().unwrap_or(Status::Success);
        Completion { token: command.token, status, zone, offset, frames, report }
    }

    fn covered(&self) -> Vec<(u64, Extent)> {
        (0..self.blocks.len()).map(|zone| (self.resets[zone], self.extent(zone))).collect()
    }

    /// What zones were becomes durable, if they were not reset since.
    fn commit(&mut self, covers: &[(u64, Extent)]) {
        assert_eq!(covers.len(), self.blocks.len(), "a flush covers all zones");
        for (zone, (resets, (pointer, is_full))) in covers.iter().enumerate() {
            let durable = &mut self.durable[zone];
            assert!(*resets <= self.resets[zone], "zone {zone}: a flush covers lives to come");
            if self.resets[zone] == *resets {
                *durable = (durable.0.max(*pointer), durable.1 | is_full);
            }
        }
    }

    /// Who uses the device dies: what was in flight is carried out, zone by zone up to a command that was not begun. The cache stays.
    fn let_go(&mut self) {
        self.fails_next_write = false;
        let mut skipped = BTreeSet::new();
        for flight in std::mem::take(&mut self.in_flight) {
            let zone = flight.command.zone.0;
            if skipped.contains(&zone) || self.random.chance(1, 4) {
                skipped.insert(zone);
            } else {
                self.carry_out(flight);
            }
        }
    }

    /// The power fails: of what was in flight any first blocks arrive, and of what was cached any first blocks stay, zone by zone.
    fn crash(&mut self) {
        self.fails_next_write = false;
        self.hits.clear();
        while !self.in_flight.is_empty() {
            let next = self.random.index(self.in_flight.len());
            let Flight { command, .. } = self.in_flight.swap_remove(next);
            if self.is_dead {
                continue;
            }
            match command.op {
                Op::Write { .. } => self.tear(&command),
                Op::Reset if self.random.chance(1, 2) => _ = self.reset(command.zone),
                Op::Finish if self.random.chance(1, 2) => _ = self.rules.finish(command.zone),
                _ => {}
            }
        }
        let mut zones = Vec::new();
        for zone in 0..self.blocks.len() {
            let Zone { state, write_pointer, .. } =
                self.rules.zone(ZoneIndex(u32::try_from(zone).expect("small")));
            let (durable, is_full) = if self.geometry.volatile_cache {
                self.durable[zone]
            } else {
                (write_pointer, state == ZoneState::Full)
            };
            assert!(durable <= write_pointer, "zone {zone}: {durable} blocks of {write_pointer} are durable");
            let span = u64::from(write_pointer - durable);
            let kept = match self.random.below(3) {
                0 => 0,
                1 => span,
                _ => self.random.below(span + 1),
            };
            let pointer = durable + u32::try_from(kept).expect("small");
            let was_finished = state == ZoneState::Full && pointer < self.geometry.zone_capacity_blocks;
            let stays_full =
                is_full || (was_finished && pointer == write_pointer && self.random.chance(1, 2));
            let state = match state {
                ZoneState::ReadOnly | ZoneState::Offline => state,
                _ if stays_full || pointer == self.geometry.zone_capacity_blocks => ZoneState::Full,
                _ if pointer == 0 => ZoneState::Empty,
                _ => ZoneState::Closed,
            };
            self.blocks[zone][index(pointer)..index(write_pointer)].fill([0; BLOCK_BYTES]);
            self.bad.retain(|(of, at)| index(*of) != zone || *at < pointer);
            self.durable[zone] = (pointer, state == ZoneState::Full);
            zones.push(Zone::new(state, pointer));
        }
        let active = zones.iter().filter(|zone| zone.state.is_active()).count();
        if active > index(self.geometry.active_zones_max) {
            self.misuse = Some(format!("{active} zones are active after a power failure"));
            return;
        }
        self.rules = ZoneTable::from_zones(self.geometry, zones);
    }
}

/// Handle of a device: the drive has one, the world another.
#[derive(Clone)]
pub struct DeviceHandle {
    geometry: Geometry,
    device: Arc<Mutex<Device>>,
}

impl DeviceHandle {
    /// A device, some of whose zones are not empty.
    pub fn new(geometry: Geometry, latency: u64, leaves_stale: bool, seed: u64) -> DeviceHandle {
        let zones = index(geometry.zones);
        let mut device = Device {
            geometry,
            rules: ZoneTable::new(geometry),
            blocks: vec![vec![[0; BLOCK_BYTES]; index(geometry.zone_capacity_blocks)]; zones],
            durable: vec![(0, false); zones],
            resets: vec![0; zones],
            bad: BTreeSet::new(),
            leaves_stale,
            in_flight: Vec::new(),
            random: Random::from_seed(seed),
            latency,
            is_dead: false,
            fails_next_write: false,
            hits: BTreeSet::new(),
            doomed: Vec::new(),
            misuse: None,
            commands: 0,
        };
        for zone in (0..geometry.zones).map(ZoneIndex) {
            if zone.0.is_multiple_of(3) {
                device.rules.finish(zone).expect("an empty zone");
            }
        }
        DeviceHandle { geometry, device: Arc::new(Mutex::new(device)) }
    }

    fn lock(&self) -> MutexGuard<'_, Device> {
        self.device.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The power fails.
    pub fn crash(&self) {
        self.lock().crash();
    }

    /// Who uses the device dies.
    pub fn let_go(&self) {
        self.lock().let_go();
    }

    /// The device answers nothing any more but that it is gone.
    pub fn die(&self) {
        self.lock().is_dead = true;
    }

    /// The device works again, with what it had.
    pub fn revive(&self) {
        let mut device = self.lock();
        device.is_dead = false;
        device.fails_next_write = false;
    }

    /// The next write fails, and leaves some of its blocks.
    pub fn fail_next_write(&self) {
        self.lock().fails_next_write = true;
    }

    /// A block cannot be read until its zone is reset.
    pub fn spoil(&self, zone: ZoneIndex, offset: u32) {
        let written = self.pointer(zone);
        assert!(offset < written, "zone {}: block {offset} of {written} is spoiled", zone.0);
        self.lock().bad.insert((zone.0, offset));
    }

    /// A zone turns read-only or offline when so many more commands were carried out.
    pub fn degrade(&self, zone: ZoneIndex, state: ZoneState, after: u64) {
        let mut device = self.lock();
        assert!(matches!(state, ZoneState::ReadOnly | ZoneState::Offline), "a zone turns {state:?}");
        let at = device.commands + after;
        device.doomed.push((at, zone, state));
        device.let_die();
    }

    /// The state of a zone.
    pub fn state(&self, zone: ZoneIndex) -> ZoneState {
        self.lock().rules.zone(zone).state
    }

    /// Blocks of a zone that are written.
    pub fn pointer(&self, zone: ZoneIndex) -> u32 {
        self.lock().rules.zone(zone).write_pointer
    }

    /// True when a write failed in a zone since the last power failure.
    pub fn is_hit(&self, zone: ZoneIndex) -> bool {
        self.lock().hits.contains(&zone.0)
    }

    /// What the drive did that no drive should.
    pub fn misuse(&self) -> Option<String> {
        self.lock().misuse.clone()
    }

    /// Commands that were carried out.
    pub fn commands(&self) -> u64 {
        self.lock().commands
    }
}

impl ZonedDevice for DeviceHandle {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let mut device = self.lock();
        let latency = device.latency;
        let mut took = LEAST + device.random.below(latency);
        if device.random.chance(1, 20) {
            took *= SLOWER;
        }
        let covers = if matches!(command.op, Op::Flush) { device.covered() } else { Vec::new() };
        let is_twin = |flight: &Flight| flight.command.token == command.token;
        assert!(!device.in_flight.iter().any(is_twin), "two commands have the token {:?}", command.token);
        device.in_flight.push(Flight { due: now + Nanos(took), command, covers });
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let mut device = self.lock();
        while let Some(next) = (0..device.in_flight.len()).min_by_key(|at| device.in_flight[*at].due) {
            if device.in_flight[next].due > now {
                return;
            }
            let flight = device.in_flight.swap_remove(next);
            completions.push(device.carry_out(flight));
        }
    }

    fn next_event(&self) -> Option<Instant> {
        self.lock().in_flight.iter().map(|flight| flight.due).min()
    }
}
