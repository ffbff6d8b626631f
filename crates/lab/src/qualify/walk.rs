//! A drive beside a table of rules: each command goes to both, and they have to agree on its status and on the states of zones.
//!
//! Where a command breaks several rules, a drive may name any of them. And a drive may close zones that were opened implicitly when it likes,
//! and where it has to, which it likes: the table follows it. QEMU closes one before it refuses a write for the limit of active zones.

use super::Difference;
use super::bench::{Bench, words};
use super::pattern::is_of;
use base::frame::Frame;
use base::random::Random;
use base::units::ZoneIndex;
use std::collections::BTreeMap;
use zone::device::{Completion, Geometry, Op, Status, ZoneDescriptor, ZoneState};
use zone::rules::{Zone, ZoneTable};

/// Zones that a walk is about, beyond those that may be active.
const ZONES_BEYOND: u32 = 3;
const ZONES_MAX: u32 = 64;

/// See the module.
pub struct Held {
    table: ZoneTable,
    geometry: Geometry,
    /// Zones that are compared, from the first one on.
    pub zones: u32,
    /// Answers and states that were compared.
    pub compared: u64,
    /// Stamps of blocks, by zone and block.
    stamps: BTreeMap<(u32, u32), u64>,
    /// Zones as the drive reported them last.
    pub found: Vec<ZoneDescriptor>,
}

impl Held {
    /// A drive that is empty, of which so many zones are compared.
    pub fn new(bench: &Bench, zones: u32) -> Held {
        let geometry = bench.geometry;
        let zones = zones.min(geometry.zones);
        let (table, stamps, found) = (ZoneTable::new(geometry), BTreeMap::new(), Vec::new());
        Held { table, geometry, zones, compared: 0, stamps, found }
    }

    /// A zone by the rules.
    pub fn zone(&self, zone: u32) -> Zone {
        self.table.zone(ZoneIndex(zone))
    }

    /// Runs a command on both.
    pub fn step(&mut self, bench: &mut Bench, zone: u32, op: Op) -> Result<Completion, Difference> {
        let what = words(&op);
        let others = self.also_broken(zone, &op);
        let wanted = self.carry_out(zone, &op);
        let completion = bench.run(zone, op)?;
        let status = completion.status;
        let is_right = match wanted {
            Ok(offset) => {
                if status == Status::Success && offset.is_some_and(|offset| offset != completion.offset) {
                    let (found, wanted) = (completion.offset, offset.unwrap_or_default());
                    return Err(format!("zone {zone}: {what} went to block {found}, not {wanted}"));
                }
                status == Status::Success
            }
            Err(wanted) => status == wanted || others.contains(&status),
        };
        if !is_right {
            let wanted = wanted.err().unwrap_or(Status::Success);
            let state = (zone < self.geometry.zones).then(|| self.table.zone(ZoneIndex(zone)));
            return Err(format!(
                "zone {zone} ({state:?} by the rules): {what} was answered with {status:?}, not {wanted:?}"
            ));
        }
        self.compared += 1;
        self.compare_states(bench)
            .map_err(|difference| format!("after {what} to zone {zone}: {difference}"))?;
        Ok(completion)
    }

    /// Carries a command out by the rules; of one that writes, returns where.
    fn carry_out(&mut self, zone: u32, op: &Op) -> Result<Option<u32>, Status> {
        let (zone, table) = (ZoneIndex(zone), &mut self.table);
        let count = |frames: &[Frame]| u32::try_from(frames.len()).unwrap_or(u32::MAX);
        match op {
            Op::Read { offset, frames } => table.read(zone, *offset, count(frames)).map(|()| None),
            Op::Write { offset, frames } => table.write(zone, *offset, count(frames)).map(|()| Some(*offset)),
            Op::Append { frames } => table.append(zone, count(frames)).map(Some),
            Op::Reset => table.reset(zone).map(|()| None),
            Op::Finish => table.finish(zone).map(|()| None),
            Op::Open => table.open(zone).map(|()| None),
            Op::Close => table.close(zone).map(|()| None),
            Op::Report { count } => table.report(zone, *count).map(|_| None),
            Op::FindTurned { count } => table.find_turned(zone, *count).map(|_| None),
            Op::Flush => Ok(None),
            Op::OpenWithArea | Op::Commit { .. } | Op::SelfTest { .. } => unreachable!("not drawn"),
        }
    }

    /// Statuses of rules that a command breaks beside the first one.
    fn also_broken(&self, zone: u32, op: &Op) -> Vec<Status> {
        let capacity = u64::from(self.geometry.zone_capacity_blocks);
        let (at, count) = match op {
            Op::Write { offset, frames } => (Some(*offset), frames.len() as u64),
            Op::Append { frames } => (None, frames.len() as u64),
            _ => return Vec::new(),
        };
        if zone >= self.geometry.zones {
            return Vec::new();
        }
        let Zone { state, write_pointer, .. } = self.table.zone(ZoneIndex(zone));
        let start = at.unwrap_or(write_pointer);
        let mut broken = Vec::new();
        broken.extend((state == ZoneState::Full).then_some(Status::ZoneIsFull));
        broken.extend((u64::from(start) + count > capacity).then_some(Status::ZoneBoundaryError));
        broken.extend((start != write_pointer).then_some(Status::ZoneInvalidWrite));
        let no_more_active =
            self.table.active_count() == self.geometry.active_zones_max && state == ZoneState::Empty;
        broken.extend(no_more_active.then_some(Status::TooManyActiveZones));
        let no_more_open = self.table.open_count() == self.geometry.open_zones_max && !state.is_open();
        broken.extend(no_more_open.then_some(Status::TooManyOpenZones));
        broken
    }

    /// Compares the states of zones; which ones a drive closed by itself is its own choice.
    fn compare_states(&mut self, bench: &mut Bench) -> Result<(), Difference> {
        let found = bench.report(0, self.zones)?;
        let wanted = self.table.report(ZoneIndex(0), self.zones).map_err(|status| format!("{status:?}"))?;
        let may_choose = |state| matches!(state, ZoneState::ImplicitOpen | ZoneState::Closed);
        let mut others = Vec::new();
        for (zone, (found, wanted)) in (0..).zip(found.iter().zip(&wanted)) {
            let is_same = |state| {
                (state, found.write_pointer, found.capacity)
                    == (wanted.state, wanted.write_pointer, wanted.capacity)
            };
            if is_same(found.state) {
                continue;
            }
            if !(may_choose(found.state) && may_choose(wanted.state) && is_same(wanted.state)) {
                return Err(format!("zone {zone} is {found:?}, not {wanted:?}"));
            }
            others.push((zone, found.state));
        }
        self.compared += found.len() as u64;
        self.found = found;
        if others.is_empty() {
            return Ok(());
        }
        let opened = others.iter().filter(|(_, state)| state.is_open()).count();
        if opened * 2 > others.len() {
            return Err(format!("more zones are open than by the rules: {others:?}"));
        }
        let mut zones: Vec<Zone> =
            (0..self.geometry.zones).map(|zone| self.table.zone(ZoneIndex(zone))).collect();
        for (zone, state) in others {
            zones[zone].state = state;
        }
        self.table = ZoneTable::from_zones(self.geometry, zones);
        Ok(())
    }

    /// Draws a command: mostly one that is allowed.
    fn draw(&self, random: &mut Random, bench: &mut Bench) -> (u32, Op, Option<u64>) {
        let zone = u32::try_from(random.below(u64::from(self.zones))).unwrap_or(0);
        let Zone { write_pointer, .. } = self.table.zone(ZoneIndex(zone));
        let capacity = self.geometry.zone_capacity_blocks;
        let blocks = |random: &mut Random, most: u32| {
            let most = if random.chance(1, 8) { most.max(1) } else { most.clamp(1, 8) };
            1 + u32::try_from(random.below(u64::from(most))).unwrap_or(0)
        };
        let kind = random.below(100);
        match kind {
            0..40 => {
                let count = blocks(random, self.geometry.transfer_blocks_max);
                let offset = match random.below(16) {
                    0 => write_pointer.saturating_add(1),
                    1 => write_pointer.saturating_sub(1),
                    2 => capacity.saturating_sub(count),
                    _ => write_pointer,
                };
                let (stamp, frames) = bench.fresh(count);
                (zone, Op::Write { offset, frames }, Some(stamp))
            }
            40..60 if self.geometry.append_blocks_max > 0 => {
                let (stamp, frames) = bench.fresh(blocks(random, self.geometry.append_blocks_max));
                (zone, Op::Append { frames }, Some(stamp))
            }
            40..80 => {
                let count = blocks(random, self.geometry.transfer_blocks_max);
                let offset = u32::try_from(random.below(u64::from(write_pointer) + 8)).unwrap_or(0);
                (zone, Op::Read { offset, frames: Bench::dirty(count) }, None)
            }
            80..85 => (zone, Op::Reset, None),
            85..88 => (zone, Op::Finish, None),
            88..92 => (zone, Op::Open, None),
            92..97 => (zone, Op::Close, None),
            _ => (zone, Op::Flush, None),
        }
    }

    /// Notes what a command wrote.
    pub fn note(&mut self, zone: u32, completion: &Completion, (is_reset, stamp): (bool, Option<u64>)) {
        if completion.status != Status::Success {
            return;
        }
        if is_reset {
            self.stamps.retain(|(of, _), _| *of != zone);
        }
        let Some(stamp) = stamp else { return };
        for (index, _) in (0..).zip(&completion.frames) {
            self.stamps.insert((zone, completion.offset + index), stamp + u64::from(index));
        }
    }

    /// Compares blocks that were read.
    pub fn compare_blocks(&mut self, zone: u32, completion: &Completion) -> Result<(), Difference> {
        for (block, frame) in (completion.offset..).zip(&completion.frames) {
            let found = match self.stamps.get(&(zone, block)) {
                Some(stamp) => is_of(frame, *stamp),
                None if frame.is_blank() => Ok(()),
                None => Err("it was not written and does not read as zeros"),
            };
            found.map_err(|what| format!("zone {zone}, block {block}: {what}"))?;
            self.compared += 1;
        }
        Ok(())
    }
}

/// Commands drawn by the seed.
pub fn walk(bench: &mut Bench) -> Result<Result<u64, String>, Difference> {
    let zones = (bench.geometry.active_zones_max.saturating_add(ZONES_BEYOND)).min(ZONES_MAX);
    let mut held = Held::new(bench, zones);
    let mut random = Random::from_seed(bench.options.seed);
    for step in 0..bench.options.steps {
        let (zone, op, stamp) = held.draw(&mut random, bench);
        let (is_read, is_reset) = (matches!(op, Op::Read { .. }), matches!(op, Op::Reset));
        let at = |difference| format!("step {step}: {difference}");
        let completion = held.step(bench, zone, op).map_err(at)?;
        held.note(zone, &completion, (is_reset, stamp));
        if is_read && completion.status == Status::Success {
            held.compare_blocks(zone, &completion).map_err(at)?;
        }
    }
    Ok(Ok(held.compared))
}
