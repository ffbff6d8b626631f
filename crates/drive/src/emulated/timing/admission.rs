//! The way of a write: admission to the buffer, the processor, and into the unit of its zone.

use super::die::{Job, Owner};
use super::events::Event;
use super::group::signed;
use super::noise::nanos;
use super::zone_clock::ZoneCondition;
use super::{Kind, LbaFormat, Model, Pending};

impl Model {
    /// A write or append arrives.
    pub(super) fn write(&mut self, tag: u64, kind: Kind, zone: u32, (offset_bytes, bytes): (u64, u64)) {
        self.settle_group(zone);
        self.wear.written_bytes += bytes;
        let command = &self.profile.command;
        let clock = &mut self.zones[zone as usize];
        let extra_us = match (clock.condition, kind) {
            (ZoneCondition::Empty, Kind::Append) => command.first_append_us,
            (ZoneCondition::Empty, _) => command.first_write_us,
            (ZoneCondition::Closed, _) => command.reopen_us,
            _ => 0.0,
        };
        let offset_bytes = if self.profile.has_zones() { clock.written_bytes } else { offset_bytes };
        clock.written_bytes += bytes;
        clock.area_end = clock.area_end.max(clock.written_bytes);
        let full = clock.written_bytes >= self.profile.geometry.zone_capacity_bytes;
        clock.condition =
            if full && self.profile.has_zones() { ZoneCondition::Written } else { ZoneCondition::Open };
        self.in_flight[if kind == Kind::Append { 2 } else { 1 }] += 1;
        let flash =
            Pending { kind, zone, bytes, offset_bytes, flash_bytes: bytes, extra_us, ..Pending::other(tag) };
        self.queue_for_space(flash);
    }

    /// A write that needs no space in the buffer goes to the processor.
    pub(super) fn enter_at_once(&mut self, pending: Pending) {
        let clock = &mut self.zones[pending.zone as usize];
        clock.in_flight += 1;
        self.groups[clock.group as usize].landing += 1;
        let slot = self.pending.insert(pending);
        self.enter_processor(slot);
    }

    pub(super) fn queue_for_space(&mut self, pending: Pending) {
        let clock = &mut self.zones[pending.zone as usize];
        clock.in_flight += 1;
        let index = clock.group;
        let slot = self.pending.insert(pending);
        let group = &mut self.groups[index as usize];
        group.waiting.push_back(slot);
        group.submitted += pending.flash_bytes;
        self.admit(index);
    }

    /// Admits what the buffer has space for, in order, and the reads that waited for that.
    pub(super) fn admit(&mut self, index: u32) {
        let capacity = signed(self.profile.buffer.bytes);
        loop {
            let collecting = self.is_collecting();
            let group = &mut self.groups[index as usize];
            let Some(&slot) = group.waiting.front() else { break };
            let (zone, bytes) = {
                let pending = self.pending.get(slot);
                (pending.zone, pending.flash_bytes)
            };
            let fits = group.credit >= signed(bytes).min(capacity);
            let stands = self.now < group.blocked_until || collecting;
            if stands || !(fits || capacity == 0) {
                break;
            }
            group.waiting.pop_front();
            group.admitted += bytes;
            group.landing += 1;
            if let Some(ftl) = &mut self.translation {
                ftl.passes = ftl.passes.saturating_sub(1);
            }
            if capacity > 0 {
                group.credit -= signed(bytes);
            }
            self.enter_processor(slot);
            self.fill_row(index, zone, bytes);
        }
        self.release_reads(index);
        self.relieve(index);
    }

    /// Counts bytes of a zone; at the end of a block row the group stands still.
    fn fill_row(&mut self, index: u32, zone: u32, bytes: u64) {
        let program = &self.profile.program;
        let clock = &mut self.zones[zone as usize];
        clock.row_bytes += bytes;
        if clock.row_bytes < program.row_bytes {
            return;
        }
        clock.row_bytes %= program.row_bytes;
        if program.row_stall_us > 0.0 {
            let factor = (1.0 + program.row_stall_spread * self.noise.normal()).max(0.5);
            let until = self.now + nanos(program.row_stall_us * factor);
            self.groups[index as usize].blocked_until = until;
            self.events.plan(until, Event::Admit { group: index });
        }
    }

    /// An admitted command goes to the processor.
    fn enter_processor(&mut self, slot: u32) {
        let Pending { kind, bytes, extra_us, .. } = *self.pending.get(slot);
        if self.options.lba_format == LbaFormat::Bytes512
            && self.profile.small_blocks.as_ref().is_some_and(|small| bytes <= small.bytes_max)
            && matches!(kind, Kind::Write | Kind::Append)
        {
            return self.serve_small_block(slot);
        }
        let command = &self.profile.command;
        let (demand_us, latency_us) = match (kind, &self.profile.zrwa) {
            (Kind::Append, _) => (command.append_demand_us.at(bytes), command.append_latency_us.at(bytes)),
            (Kind::Area, Some(_)) if bytes == 0 => (0.0, 0.0),
            (Kind::Area, Some(zrwa)) => (zrwa.demand_us.at(bytes), zrwa.latency_us.at(bytes)),
            _ => (command.write_demand_us.at(bytes), command.write_latency_us.at(bytes)),
        };
        let spread = command.demand_spread;
        let (stall_probability, stall_us) = (command.append_stall_probability, command.append_stall_us);
        let rest_us = self.vary(latency_us.max(demand_us) + extra_us) - demand_us;
        let mut demand_us = demand_us * (1.0 + spread * self.noise.normal());
        let zone = self.pending.get(slot).zone;
        if kind == Kind::Append {
            if self.noise.chance(stall_probability) {
                demand_us += self.noise.exponential(stall_us);
            }
            self.count_append(zone, bytes, 1);
        }
        self.pending.get_mut(slot).rest = nanos(rest_us);
        self.processor.arrive(self.now, slot, demand_us);
    }

    /// A command leaves the processor.
    pub(super) fn processed(&mut self, slot: u32) {
        let Pending { kind, zone, bytes, rest, .. } = *self.pending.get(slot);
        if kind == Kind::Append {
            self.count_append(zone, bytes, -1);
        }
        if self.profile.buffer.bytes == 0 && kind != Kind::Area {
            return self.program_directly(slot);
        }
        let mut at = self.now + rest;
        if kind == Kind::Area && bytes > 0 {
            at = at.max(self.through_backing(zone, bytes));
        }
        self.events.plan(at, Event::Complete { slot });
    }

    /// The drive reads, changes and writes the 4-KiB block around a smaller one, one at a time.
    fn serve_small_block(&mut self, slot: u32) {
        let Some(small) = &self.profile.small_blocks else { return };
        let Pending { kind, bytes, extra_us, .. } = *self.pending.get(slot);
        let work = if kind == Kind::Append { &small.append_us } else { &small.write_us };
        let mut work_us = work.at(bytes) * (1.0 + small.spread * self.noise.normal());
        if self.noise.chance(small.slow_probability) {
            work_us += self.noise.exponential(small.slow_us.at(bytes));
        }
        self.small_free = self.small_free.max(self.now) + nanos(work_us);
        let rest = nanos(small.latency_us.at(bytes) + extra_us);
        self.events.plan(self.small_free + rest, Event::Complete { slot });
    }

    /// Keeps the list of zones with appends in the processor, and its speed.
    fn count_append(&mut self, zone: u32, bytes: u64, change: i32) {
        if bytes > self.profile.command.append_speed_bytes_max {
            return;
        }
        let place = self.appends.iter().position(|(at, _)| *at == zone);
        match place {
            Some(place) => {
                let count = &mut self.appends[place].1;
                *count = count.saturating_add_signed(change);
                if *count == 0 {
                    self.appends.swap_remove(place);
                }
            }
            None => self.appends.push((zone, 1)),
        }
        let command = &self.profile.command;
        let speed = match self.appends.as_slice() {
            [] => 1.0,
            [(_, count)] if *count < 3 => 1.0,
            [_] => command.append_speed_one_zone,
            [_, _] => command.append_speed_two_zones,
            _ => command.append_speed_many_zones,
        };
        self.processor.set_speed(self.now, speed);
    }

    /// A write is acknowledged: its bytes join the zone's unit, and full units go to dies.
    pub(super) fn landed(&mut self, pending: &Pending) {
        let zone = pending.zone;
        let unit = self.profile.program.unit_bytes;
        let clock = &mut self.zones[zone as usize];
        clock.in_flight -= 1;
        let group = clock.group;
        self.groups[group as usize].landing -= 1;
        if self.profile.buffer.bytes == 0 && pending.kind != Kind::Area {
            return;
        }
        let clock = &mut self.zones[zone as usize];
        clock.gathered_bytes += pending.flash_bytes;
        let full = matches!(clock.condition, ZoneCondition::Written | ZoneCondition::Finished);
        let last = full && clock.in_flight == 0;
        while self.zones[zone as usize].gathered_bytes >= unit {
            self.zones[zone as usize].gathered_bytes -= unit;
            self.program(zone, Job { bytes: unit, owner: Owner::Buffer });
        }
        if last {
            self.program_rest(zone);
        }
        self.translate(pending.offset_bytes, pending.bytes);
        self.relieve(group);
    }

    /// Programs units as they are when units that are not full take all of the buffer and a write waits. Such a state
    /// takes more open zones than a drive allows, or tiny buffers.
    fn relieve(&mut self, index: u32) {
        let group = &self.groups[index as usize];
        let stuck = !group.waiting.is_empty()
            && group.programs == 0
            && group.landing == 0
            && self.now >= group.blocked_until;
        if stuck && !self.is_collecting() {
            for zone in 0..self.profile.geometry.zones {
                if self.zones[zone as usize].group == index {
                    self.program_rest(zone);
                }
            }
        }
    }

    /// Programs what a zone has gathered, though it is less than a unit.
    pub(super) fn program_rest(&mut self, zone: u32) {
        let rest = std::mem::take(&mut self.zones[zone as usize].gathered_bytes);
        if rest > 0 {
            self.program(zone, Job { bytes: rest, owner: Owner::Buffer });
        }
    }
}
