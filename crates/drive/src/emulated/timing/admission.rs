//! The way of a write: admission to the buffer, the processor, and into the unit of its zone.

use super::areas::{Backing, Zrwa};
use super::core::Pending;
use super::die::{Job, Owner};
use super::events::Event;
use super::group::signed;
use super::noise::nanos;
use super::processor::Processor;
use super::translation::Ftl;
use super::zone_clock::ZoneCondition;
use super::{Kind, LbaFormat, Model};

/// Where writes enter: the processor, and what beside it serves small blocks.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) processor: Processor,
    /// Appends in the processor, by zone; a short list.
    appends: Vec<(u32, u32)>,
    /// Time at which the server of small blocks is free.
    small_free: u64,
}

impl Entry {
    pub(super) fn new() -> Entry {
        Entry { processor: Processor::new(), appends: Vec::new(), small_free: 0 }
    }
}

impl Model {
    /// A write or append arrives.
    pub(super) fn write(&mut self, tag: u64, kind: Kind, zone: u32, (offset_bytes, bytes): (u64, u64)) {
        self.settle_group(zone);
        self.core.wear.written_bytes += bytes;
        let command = &self.core.profile.command;
        let clock = &mut self.zones[zone as usize];
        let extra_us = match (clock.condition, kind) {
            (ZoneCondition::Empty, Kind::Append) => command.first_append_us,
            (ZoneCondition::Empty, _) => command.first_write_us,
            (ZoneCondition::Closed, _) => command.reopen_us,
            _ => 0.0,
        };
        let offset_bytes = if self.core.profile.has_zones() { clock.written_bytes } else { offset_bytes };
        clock.written_bytes += bytes;
        clock.area_end = clock.area_end.max(clock.written_bytes);
        let full = clock.written_bytes >= self.core.profile.geometry.zone_capacity_bytes;
        clock.condition =
            if full && self.core.profile.has_zones() { ZoneCondition::Written } else { ZoneCondition::Open };
        self.in_flight[if kind == Kind::Append { 2 } else { 1 }] += 1;
        let flash =
            Pending { kind, zone, bytes, offset_bytes, flash_bytes: bytes, extra_us, ..Pending::other(tag) };
        self.queue_for_space(flash);
    }

    /// A write that needs no space in the buffer goes to the processor.
    pub(super) fn enter_at_once(&mut self, pending: Pending) {
        let clock = &mut self.zones[pending.zone as usize];
        clock.in_flight += 1;
        self.flash.groups[clock.group as usize].landing += 1;
        let slot = self.core.pending.insert(pending);
        self.enter_processor(slot);
    }

    pub(super) fn queue_for_space(&mut self, pending: Pending) {
        let clock = &mut self.zones[pending.zone as usize];
        clock.in_flight += 1;
        let index = clock.group;
        let slot = self.core.pending.insert(pending);
        let group = &mut self.flash.groups[index as usize];
        group.waiting.push_back(slot);
        group.submitted += pending.flash_bytes;
        self.admit(index);
    }

    /// Admits what the buffer has space for, in order, and the reads that waited for that.
    pub(super) fn admit(&mut self, index: u32) {
        let capacity = signed(self.core.profile.buffer.bytes);
        loop {
            let collecting = self.is_collecting();
            let group = &mut self.flash.groups[index as usize];
            let Some(&slot) = group.waiting.front() else { break };
            let (zone, bytes) = {
                let pending = self.core.pending.get(slot);
                (pending.zone, pending.flash_bytes)
            };
            let fits = group.credit >= signed(bytes).min(capacity);
            let stands = self.core.now < group.blocked_until || collecting;
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
        let program = &self.core.profile.program;
        let clock = &mut self.zones[zone as usize];
        clock.row_bytes += bytes;
        if clock.row_bytes < program.row_bytes {
            return;
        }
        clock.row_bytes %= program.row_bytes;
        if program.row_stall_us > 0.0 {
            let factor = (1.0 + program.row_stall_spread * self.core.noise.normal()).max(0.5);
            let until = self.core.now + nanos(program.row_stall_us * factor);
            self.flash.groups[index as usize].blocked_until = until;
            self.core.events.plan(until, Event::Admit { group: index });
        }
    }

    /// An admitted command goes to the processor.
    fn enter_processor(&mut self, slot: u32) {
        let Pending { kind, bytes, extra_us, .. } = *self.core.pending.get(slot);
        if self.core.options.lba_format == LbaFormat::Bytes512
            && self.core.profile.small_blocks.as_ref().is_some_and(|small| bytes <= small.bytes_max)
            && matches!(kind, Kind::Write | Kind::Append)
        {
            return self.serve_small_block(slot);
        }
        let command = &self.core.profile.command;
        let (demand_us, latency_us) = match (kind, &self.core.profile.zrwa) {
            (Kind::Append, _) => (command.append_demand_us.at(bytes), command.append_latency_us.at(bytes)),
            (Kind::Area, Some(_)) if bytes == 0 => (0.0, 0.0),
            (Kind::Area, Some(zrwa)) => (zrwa.demand_us.at(bytes), zrwa.latency_us.at(bytes)),
            _ => (command.write_demand_us.at(bytes), command.write_latency_us.at(bytes)),
        };
        let spread = command.demand_spread;
        let (stall_probability, stall_us) = (command.append_stall_probability, command.append_stall_us);
        let rest_us = self.core.vary(latency_us.max(demand_us) + extra_us) - demand_us;
        let mut demand_us = demand_us * (1.0 + spread * self.core.noise.normal());
        let zone = self.core.pending.get(slot).zone;
        if kind == Kind::Append {
            if self.core.noise.chance(stall_probability) {
                demand_us += self.core.noise.exponential(stall_us);
            }
            self.count_append(zone, bytes, 1);
        }
        self.core.pending.get_mut(slot).rest = nanos(rest_us);
        self.entry.processor.arrive(self.core.now, slot, demand_us);
    }

    /// A command leaves the processor.
    pub(super) fn processed(&mut self, slot: u32) {
        let Pending { kind, zone, bytes, rest, .. } = *self.core.pending.get(slot);
        if kind == Kind::Append {
            self.count_append(zone, bytes, -1);
        }
        if self.core.profile.buffer.bytes == 0 && kind != Kind::Area {
            return self.program_directly(slot);
        }
        let mut at = self.core.now + rest;
        if kind == Kind::Area && bytes > 0 {
            at = at.max(self.through_backing(zone, bytes));
        }
        self.core.events.plan(at, Event::Complete { slot });
    }

    /// The drive reads, changes and writes the 4-KiB block around a smaller one, one at a time.
    fn serve_small_block(&mut self, slot: u32) {
        let Some(small) = &self.core.profile.small_blocks else { return };
        let Pending { kind, bytes, extra_us, .. } = *self.core.pending.get(slot);
        let work = if kind == Kind::Append { &small.append_us } else { &small.write_us };
        let mut work_us = work.at(bytes) * (1.0 + small.spread * self.core.noise.normal());
        if self.core.noise.chance(small.slow_probability) {
            work_us += self.core.noise.exponential(small.slow_us.at(bytes));
        }
        self.entry.small_free = self.entry.small_free.max(self.core.now) + nanos(work_us);
        let rest = nanos(small.latency_us.at(bytes) + extra_us);
        self.core.events.plan(self.entry.small_free + rest, Event::Complete { slot });
    }

    /// Keeps the list of zones with appends in the processor, and its speed.
    fn count_append(&mut self, zone: u32, bytes: u64, change: i32) {
        if bytes > self.core.profile.command.append_speed_bytes_max {
            return;
        }
        let place = self.entry.appends.iter().position(|(at, _)| *at == zone);
        match place {
            Some(place) => {
                let count = &mut self.entry.appends[place].1;
                *count = count.saturating_add_signed(change);
                if *count == 0 {
                    self.entry.appends.swap_remove(place);
                }
            }
            None => self.entry.appends.push((zone, 1)),
        }
        let command = &self.core.profile.command;
        let speed = match self.entry.appends.as_slice() {
            [] => 1.0,
            [(_, count)] if *count < 3 => 1.0,
            [_] => command.append_speed_one_zone,
            [_, _] => command.append_speed_two_zones,
            _ => command.append_speed_many_zones,
        };
        self.entry.processor.set_speed(self.core.now, speed);
    }

    /// A write is acknowledged: its bytes join the zone's unit, and full units go to dies.
    pub(super) fn landed(&mut self, pending: &Pending) {
        let zone = pending.zone;
        let unit = self.core.profile.program.unit_bytes;
        let clock = &mut self.zones[zone as usize];
        clock.in_flight -= 1;
        let group = clock.group;
        self.flash.groups[group as usize].landing -= 1;
        if self.core.profile.buffer.bytes == 0 && pending.kind != Kind::Area {
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
        if let Some(ftl) = &mut self.translation {
            ftl.landed(&mut self.core, &mut self.flash, (pending.offset_bytes, pending.bytes));
        }
        self.relieve(group);
    }

    /// Programs units as they are when units that are not full take all of the buffer and a write waits. Such a state
    /// takes more open zones than a drive allows, or tiny buffers.
    fn relieve(&mut self, index: u32) {
        let group = &self.flash.groups[index as usize];
        let stuck = !group.waiting.is_empty()
            && group.programs == 0
            && group.landing == 0
            && self.core.now >= group.blocked_until;
        if stuck && !self.is_collecting() {
            for zone in 0..self.core.profile.geometry.zones {
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

    /// Gives a job of a zone to the next die of its group, in turn.
    pub(super) fn program(&mut self, zone: u32, job: Job) {
        let clock = &mut self.zones[zone as usize];
        let count = self.core.profile.program.dies_per_group as usize;
        let die = clock.group as usize * count + clock.next_die;
        clock.next_die = (clock.next_die + 1) % count;
        self.flash.give(&mut self.core, die, job);
    }

    /// Pages of a write on a drive without a buffer: each to the die that its place names.
    fn program_directly(&mut self, slot: u32) {
        let pending = *self.core.pending.get(slot);
        let unit = self.core.profile.program.unit_bytes;
        let first = pending.offset_bytes / unit;
        let last = (pending.offset_bytes + pending.bytes.max(1) - 1) / unit;
        self.core.pending.get_mut(slot).pieces = last - first + 1;
        let dies = self.core.profile.program.dies_per_group;
        for page in first..=last {
            let die = self.zones[pending.zone as usize].die_of(pending.zone, page, dies);
            self.flash.give(&mut self.core, die, Job { bytes: unit, owner: Owner::Command { slot } });
        }
    }

    /// Time at which the flash that backs windows has taken bytes of a zone's group, less what a full buffer hides of it;
    /// flash of one bit per cell is taken to be as fast as the group's zones. 0 for windows in memory.
    fn through_backing(&mut self, zone: u32, bytes: u64) -> u64 {
        let is_flash = |zrwa: &Zrwa| zrwa.backing == Backing::Slc;
        if !self.core.profile.zrwa.as_ref().is_some_and(is_flash) {
            return 0;
        }
        let program = &self.core.profile.program;
        let at_once = program.unit_bytes as f64 * f64::from(program.dies_per_group);
        let time = |bytes: u64| nanos(bytes as f64 / at_once * program.program_us / program.host_efficiency);
        let hidden = time(self.core.profile.buffer.bytes);
        let group = self.zones[zone as usize].group as usize;
        let group = &mut self.flash.groups[group];
        group.backing_free = group.backing_free.max(self.core.now) + time(bytes);
        group.backing_free.saturating_sub(hidden)
    }

    /// True when writes have to wait for the collector.
    fn is_collecting(&self) -> bool {
        self.translation.as_ref().is_some_and(Ftl::holds_writes)
    }
}
