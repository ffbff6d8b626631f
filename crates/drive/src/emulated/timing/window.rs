//! Windows of zones with a random write area: what they hold, what leaves them, and the time that takes.
//!
//! ```text
//!    committed     WP = written_bytes      WP + W                 WP + 2W
//!   |--------------|--------- window ------|--- implicit commit ---|
//!    dies           held: reads out of the buffer; overwrites are absorbed
//!                   `-- commit, finish, or a write beyond: bytes that need space in the buffer and become units
//! ```
//! A write that stays in the window is work for the processor, and bandwidth of the flash that backs the window where that
//! is flash. What leaves the window goes the way of any write, holes as zeros. Where at most a window is left of the zone
//! nothing leaves it but by a commit or a finish.

use super::areas::Backing;
use super::core::Pending;
use super::die::{Job, Owner};
use super::group::signed;
use super::zone_clock::ZoneCondition;
use super::{Kind, Model};
use base::units::BLOCK_BYTES_U64;
use std::ops::Range;

/// Blocks of a zone that were written and not committed.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// By block modulo twice the window, which is as far as a write may reach.
    held: Vec<bool>,
}

impl Window {
    fn new(window_bytes: u64) -> Window {
        let blocks = usize::try_from(window_bytes / BLOCK_BYTES_U64).expect("windows were checked");
        assert!(blocks > 0, "a window has at least a block");
        Window { held: vec![false; 2 * blocks] }
    }

    fn place(&self, block: u64) -> usize {
        usize::try_from(block % self.held.len() as u64).expect("below the length of a list")
    }

    /// Blocks of a range that lie within reach of a write pointer.
    fn reach(&self, write_pointer: u64, blocks: &Range<u64>) -> Range<u64> {
        let end = write_pointer + self.held.len() as u64;
        blocks.start.clamp(write_pointer, end)..blocks.end.clamp(write_pointer, end)
    }

    /// Writes blocks; returns how many of them were there before.
    fn write(&mut self, write_pointer: u64, blocks: &Range<u64>) -> u64 {
        let mut absorbed = 0;
        for block in self.reach(write_pointer, blocks) {
            let place = self.place(block);
            absorbed += u64::from(std::mem::replace(&mut self.held[place], true));
        }
        absorbed
    }

    /// The write pointer passes blocks; returns how many of them had been written.
    fn pass(&mut self, blocks: Range<u64>) -> u64 {
        let mut committed = 0;
        for block in self.reach(blocks.start, &blocks) {
            let place = self.place(block);
            committed += u64::from(std::mem::take(&mut self.held[place]));
        }
        committed
    }

    fn held_blocks(&self) -> u64 {
        self.held.iter().filter(|held| **held).count() as u64
    }
}

/// Blocks that bytes touch.
fn blocks_of(bytes: Range<u64>) -> Range<u64> {
    bytes.start / BLOCK_BYTES_U64..bytes.end.div_ceil(BLOCK_BYTES_U64)
}

impl Model {
    /// Opens an empty zone with a random write area. A zone that has one stays as it is.
    pub(super) fn area_open(&mut self, tag: u64, zone: u32) {
        if self.zones[zone as usize].window.is_none() {
            self.settle_group(zone);
            self.take_area(zone);
            self.zones[zone as usize].condition = ZoneCondition::Open;
        }
        self.core.plain(tag, self.core.profile.management.open_us);
    }

    fn take_area(&mut self, zone: u32) {
        let Some(zrwa) = &self.core.profile.zrwa else { return };
        let clock = &mut self.zones[zone as usize];
        clock.area_end = clock.written_bytes;
        clock.window = Some(Box::new(Window::new(zrwa.window_bytes)));
    }

    /// Gives an open or closed zone a random write area without passing time. `held` are the offsets of its blocks that are
    /// in the window.
    ///
    /// # Panics
    /// When the zone does not exist, or is neither open nor closed.
    pub fn preset_area(&mut self, zone: u32, held: impl IntoIterator<Item = u64>) {
        let condition = self.zones[zone as usize].condition;
        assert!(
            matches!(condition, ZoneCondition::Open | ZoneCondition::Closed),
            "zone {zone} is {condition:?}"
        );
        self.discard_window(zone);
        self.take_area(zone);
        let clock = &mut self.zones[zone as usize];
        let Some(window) = &mut clock.window else { return };
        for offset_bytes in held {
            let write_pointer = clock.written_bytes / BLOCK_BYTES_U64;
            window.write(write_pointer, &blocks_of(offset_bytes..offset_bytes + BLOCK_BYTES_U64));
            clock.area_end = clock.area_end.max(offset_bytes + BLOCK_BYTES_U64);
        }
        let held_bytes = window.held_blocks() * BLOCK_BYTES_U64;
        // What was there before counts as written, or less would have gone into windows than comes out.
        self.core.wear.written_bytes += held_bytes;
        self.core.wear.window_bytes += held_bytes;
    }

    /// Forgets the window of a zone and what it holds.
    pub(super) fn discard_window(&mut self, zone: u32) {
        if let Some(window) = self.zones[zone as usize].window.take() {
            self.core.wear.discarded_bytes += window.held_blocks() * BLOCK_BYTES_U64;
        }
    }

    /// A write into a zone with a random write area arrives. What stays in the window needs no space in the buffer; what
    /// leaves it does.
    pub(super) fn area_write(&mut self, tag: u64, zone: u32, offset_bytes: u64, bytes: u64) {
        let Some(zrwa) = &self.core.profile.zrwa else { return };
        let (window_bytes, granularity) = (zrwa.window_bytes, zrwa.flush_granularity_bytes);
        let is_flash = zrwa.backing == Backing::Slc;
        let command = &self.core.profile.command;
        let extra_us = match self.zones[zone as usize].condition {
            ZoneCondition::Empty => command.first_write_us,
            ZoneCondition::Closed => command.reopen_us,
            _ => 0.0,
        };
        let clock = &mut self.zones[zone as usize];
        let end = offset_bytes + bytes;
        let start = end.saturating_sub(window_bytes).next_multiple_of(granularity);
        let start = start.clamp(
            clock.written_bytes,
            self.core.profile.geometry.zone_capacity_bytes.max(clock.written_bytes),
        );
        clock.area_end = clock.area_end.max(end);
        clock.condition = ZoneCondition::Open;
        let blocks = blocks_of(offset_bytes..end);
        let mut written_bytes = 0;
        if let Some(window) = &mut clock.window {
            let write_pointer = clock.written_bytes / BLOCK_BYTES_U64;
            written_bytes = window.reach(write_pointer, &blocks).count() as u64 * BLOCK_BYTES_U64;
            self.core.wear.absorbed_bytes += window.write(write_pointer, &blocks) * BLOCK_BYTES_U64;
        }
        self.core.wear.written_bytes += written_bytes;
        self.core.wear.window_bytes += written_bytes;
        self.core.wear.backing_bytes += if is_flash { written_bytes } else { 0 };
        let flash_bytes = self.leave_window(zone, start);
        self.in_flight[1] += 1;
        let pending = Pending {
            kind: Kind::Area,
            zone,
            bytes,
            offset_bytes,
            flash_bytes,
            extra_us,
            ..Pending::other(tag)
        };
        if flash_bytes > 0 {
            self.queue_for_space(pending);
        } else {
            self.enter_at_once(pending);
        }
    }

    /// Moves the write pointer of a zone; returns the bytes that this brings to flash.
    fn leave_window(&mut self, zone: u32, to_bytes: u64) -> u64 {
        let clock = &mut self.zones[zone as usize];
        let from_bytes = clock.written_bytes;
        assert!(from_bytes <= to_bytes, "write pointers of zones only grow");
        clock.written_bytes = to_bytes;
        clock.area_end = clock.area_end.max(to_bytes);
        if let Some(window) = &mut clock.window {
            let committed = window.pass(blocks_of(from_bytes..to_bytes));
            self.core.wear.committed_bytes += committed * BLOCK_BYTES_U64;
        }
        to_bytes - from_bytes
    }

    /// Commits the window of a zone up to `end_bytes`; at the capacity the zone is full.
    pub(super) fn area_commit(&mut self, tag: u64, zone: u32, end_bytes: u64) {
        let extra_us = self.core.profile.zrwa.as_ref().map_or(0.0, |zrwa| zrwa.commit_us);
        let capacity = self.core.profile.geometry.zone_capacity_bytes;
        let committed = self.zones[zone as usize].written_bytes;
        let flash_bytes = self.leave_window(zone, end_bytes.min(capacity).max(committed));
        let clock = &mut self.zones[zone as usize];
        clock.condition = ZoneCondition::Open;
        if clock.written_bytes >= capacity {
            clock.condition = ZoneCondition::Written;
            self.discard_window(zone);
        }
        self.in_flight[1] += 1;
        self.queue_for_space(Pending {
            kind: Kind::Area,
            zone,
            flash_bytes,
            extra_us,
            ..Pending::other(tag)
        });
    }

    /// A finish brings what a window holds to flash, from the zone's write pointer to the last block that was written. It
    /// is there already, so it waits for no space, and those that come after it do.
    pub(super) fn finish_window(&mut self, zone: u32) {
        let end = self.zones[zone as usize].area_end;
        if self.zones[zone as usize].window.is_none() {
            return;
        }
        let bytes = self.leave_window(zone, end);
        self.discard_window(zone);
        let (unit, buffer) = (self.core.profile.program.unit_bytes, self.core.profile.buffer.bytes);
        let clock = &mut self.zones[zone as usize];
        clock.gathered_bytes += bytes;
        let group = clock.group as usize;
        self.flash.groups[group].credit -= if buffer > 0 { signed(bytes) } else { 0 };
        while self.zones[zone as usize].gathered_bytes >= unit {
            self.zones[zone as usize].gathered_bytes -= unit;
            self.program(zone, Job { bytes: unit, owner: Owner::Buffer });
        }
    }
}

#[cfg(test)]
mod tests;
