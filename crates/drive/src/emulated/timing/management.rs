//! Commands on zones: open, close, reset, finish.
//!
//! A reset only changes tables: its time grows with what the host wrote, and it takes no die. Resets
//! wait for each other. A finish pads the zone: the dies program what is missing, whenever they have
//! nothing else to do.

use super::Model;
use super::core::Pending;
use super::events::Event;
use super::group::Padding;
use super::noise::nanos;
use super::zone_clock::ZoneCondition;

impl Model {
    pub(super) fn open(&mut self, tag: u64, zone: u32) {
        self.settle_group(zone);
        self.zones[zone as usize].condition = ZoneCondition::Open;
        self.core.plain(tag, self.core.profile.management.open_us);
    }

    pub(super) fn close(&mut self, tag: u64, zone: u32) {
        let clock = &mut self.zones[zone as usize];
        clock.condition = ZoneCondition::Closed;
        self.core.plain(tag, self.core.profile.management.close_us);
    }

    pub(super) fn reset(&mut self, tag: u64, zone: u32) {
        let time_us = self.reset_us(zone) / self.reset_progress();
        let slot = self.core.pending.insert(Pending::other(tag));
        self.management_free = self.management_free.max(self.core.now) + nanos(time_us);
        self.core.events.plan(self.management_free, Event::Complete { slot });
        self.program_rest(zone);
        self.discard_window(zone);
        let clock = &mut self.zones[zone as usize];
        clock.condition = ZoneCondition::Empty;
        clock.written_bytes = 0;
        clock.area_end = 0;
        clock.read_end = u64::MAX;
    }

    fn reset_us(&mut self, zone: u32) -> f64 {
        let management = &self.core.profile.management;
        let clock = &self.zones[zone as usize];
        let occupancy = clock.written_bytes as f64 / self.core.profile.geometry.zone_capacity_bytes as f64;
        let mut time_us = management.reset_us + management.reset_occupancy_us * occupancy;
        if clock.written_bytes > 0 {
            time_us += management.reset_touched_us;
        }
        let finished = clock.condition == ZoneCondition::Finished;
        if clock.condition == ZoneCondition::Written {
            time_us += management.reset_written_us;
        } else if !finished && clock.written_bytes >= management.reset_partial_bytes {
            time_us += management.reset_partial_us;
        }
        time_us += management.reset_spread_us * (0.2 + occupancy).min(1.0) * self.core.noise.normal();
        if !finished
            && clock.written_bytes >= management.reset_partial_bytes
            && self.core.noise.chance(management.reset_tail_probability)
        {
            time_us += self.core.noise.exponential(management.reset_tail_us) * (0.3 + 0.7 * occupancy);
        }
        time_us
    }

    /// Share of its speed at which a reset goes on beside other commands.
    fn reset_progress(&self) -> f64 {
        if !self.core.options.fig7_host_artefact {
            return 1.0;
        }
        let management = &self.core.profile.management;
        let progress =
            [management.fig7_read_progress, management.fig7_write_progress, management.fig7_append_progress];
        let beside = self.in_flight.iter().zip(progress).filter(|(count, _)| **count > 0);
        beside.map(|(_, progress)| progress).fold(1.0, f64::min)
    }

    pub(super) fn finish(&mut self, tag: u64, zone: u32) {
        self.finish_window(zone);
        let management = &self.core.profile.management;
        let (unwritten_us, last_us) = (management.finish_unwritten_us, management.finish_last_us);
        let (last_probability, pads) = (management.finish_last_probability, management.finish_pads);
        let (unit, dies) =
            (self.core.profile.program.unit_bytes, u64::from(self.core.profile.program.dies_per_group));
        let capacity = self.core.profile.geometry.zone_capacity_bytes;
        let clock = &mut self.zones[zone as usize];
        let written = clock.written_bytes;
        let left = capacity.saturating_sub(written);
        let was = std::mem::replace(&mut clock.condition, ZoneCondition::Finished);
        if was == ZoneCondition::Written || written >= capacity {
            clock.condition = ZoneCondition::Written;
        }
        if written == 0 || matches!(was, ZoneCondition::Written | ZoneCondition::Finished) {
            return self.core.plain(tag, unwritten_us);
        }
        let group = clock.group as usize;
        if clock.in_flight == 0 {
            self.program_rest(zone);
        }
        self.core.wear.padded_bytes += if pads { left } else { 0 };
        let slot = self.core.pending.insert(Pending::other(tag));
        if left < unit * dies || !pads {
            let quick = self.core.noise.chance(last_probability);
            return if quick {
                self.core.plan_us(last_us, Event::Complete { slot })
            } else {
                self.padded(slot)
            };
        }
        let units = left.div_ceil(unit);
        self.core.pending.get_mut(slot).pieces = units;
        self.flash.groups[group].padding.push_back(Padding { slot, units });
        let first = u32::try_from(group * self.core.profile.program.dies_per_group as usize);
        let first = first.expect("thousands of dies");
        for die in first..first + self.core.profile.program.dies_per_group {
            self.flash.kick(&mut self.core, die);
        }
    }

    /// All padding of a zone is there.
    pub(super) fn padded(&mut self, slot: u32) {
        let management = &self.core.profile.management;
        let time_us = management.finish_us + management.finish_spread_us * self.core.noise.normal();
        self.core.plan_us(time_us, Event::Complete { slot });
    }
}
