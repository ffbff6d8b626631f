//! The way of a read: behind earlier writes, through the front end, to a die and over its channel,
//! or out of the memory of the read-ahead.

use super::core::Pending;
use super::die::Piece;
use super::events::Event;
use super::noise::nanos;
use super::{Kind, Model};
use std::collections::VecDeque;

/// Bytes of a page on the channel.
const PAGE_BYTES: u64 = 4096;

/// The front end of reads, and the read-ahead engine.
#[derive(Debug, Default)]
pub(super) struct FrontEnd {
    /// Times at which they are free.
    free: u64,
    ahead_free: u64,
    /// Ends of the last reads of a drive without zones that follows several streams.
    ends: VecDeque<u64>,
}

impl FrontEnd {
    /// Notes a read; true when it goes on where one of so many streams ended.
    fn goes_on(&mut self, streams: usize, offset_bytes: u64, bytes: u64) -> bool {
        let place = self.ends.iter().position(|end| *end == offset_bytes);
        match place {
            Some(place) => _ = self.ends.remove(place),
            None if self.ends.len() == streams => _ = self.ends.pop_front(),
            None => {}
        }
        self.ends.push_back(offset_bytes + bytes);
        place.is_some()
    }
}

impl Model {
    /// A read arrives.
    pub(super) fn read(&mut self, tag: u64, zone: u32, offset_bytes: u64, bytes: u64) {
        let clock = &mut self.zones[zone as usize];
        let sequential = match &self.core.profile.read_ahead {
            Some(ahead) if ahead.streams > 1 => {
                self.front.goes_on(ahead.streams as usize, offset_bytes, bytes)
            }
            ahead => clock.read_end == offset_bytes && ahead.is_some(),
        };
        clock.read_end = offset_bytes + bytes;
        let index = clock.group;
        self.in_flight[0] += 1;
        let pieces = u64::from(!sequential);
        let bytes = match self.zones[zone as usize].committed_part(offset_bytes, bytes) {
            0 if self.zones[zone as usize].window.is_some() => {
                let read = Pending { kind: Kind::Read, zone, bytes, offset_bytes, ..Pending::other(tag) };
                let slot = self.core.pending.insert(read);
                return self.read_from_window(slot);
            }
            // The dies take longer than the buffer.
            committed => committed,
        };
        let read = Pending { kind: Kind::Read, zone, bytes, offset_bytes, pieces, ..Pending::other(tag) };
        let slot = self.core.pending.insert(read);
        let group = &mut self.flash.groups[index as usize];
        let behind = group.submitted.saturating_sub(self.core.profile.buffer.read_bypass_bytes);
        if group.admitted >= behind {
            self.start_read(slot);
        } else {
            group.reads.push_back((behind, slot));
        }
    }

    /// Starts the reads that have waited for enough writes.
    pub(super) fn release_reads(&mut self, index: u32) {
        while let Some(&(behind, slot)) = self.flash.groups[index as usize].reads.front()
            && self.flash.groups[index as usize].admitted >= behind
        {
            self.flash.groups[index as usize].reads.pop_front();
            self.start_read(slot);
        }
    }

    fn start_read(&mut self, slot: u32) {
        let Pending { bytes, pieces, .. } = *self.core.pending.get(slot);
        if pieces == 0 {
            return self.read_ahead_hit(slot);
        }
        let front_us = self.core.profile.read.front_us.at(bytes);
        self.front.free = self.front.free.max(self.core.now) + nanos(front_us);
        self.core.events.plan(self.front.free, Event::AtDie { slot });
    }

    fn read_ahead_hit(&mut self, slot: u32) {
        let Some(ahead) = &self.core.profile.read_ahead else { return };
        let bytes = self.core.pending.get(slot).bytes;
        let (hit_us, front_us) = (ahead.hit_us.at(bytes), ahead.front_us.at(bytes));
        let late = self.front.ahead_free > self.core.now + nanos(hit_us) && bytes >= ahead.wait_bytes;
        let waits = late && self.core.noise.chance(ahead.wait_probability);
        let wait = if waits { nanos(self.core.noise.exponential(ahead.wait_us)) } else { 0 };
        self.front.ahead_free = self.front.ahead_free.max(self.core.now) + nanos(front_us);
        let hit = self.core.now + nanos(self.core.vary(hit_us));
        self.core.events.plan(self.front.ahead_free.max(hit) + wait, Event::Complete { slot });
    }

    /// A read comes to its dies, one for each stripe that it touches. A program there begins to make
    /// way.
    pub(super) fn at_die(&mut self, slot: u32) {
        let Pending { zone, bytes, offset_bytes, .. } = *self.core.pending.get(slot);
        let stripe = self.core.profile.read.stripe_bytes;
        let end = offset_bytes + bytes;
        let stripes = offset_bytes / stripe..end.div_ceil(stripe).max(offset_bytes / stripe + 1);
        self.core.pending.get_mut(slot).pieces = stripes.end - stripes.start;
        let dies = self.core.profile.program.dies_per_group;
        for number in stripes {
            let from = offset_bytes.max(number * stripe);
            let to = end.min((number + 1) * stripe);
            let pages = to.saturating_sub(from).div_ceil(PAGE_BYTES).max(1);
            let pages = u32::try_from(pages).expect("a transfer has at most 2^32 pages");
            let die = self.zones[zone as usize].die_of(zone, number, dies);
            self.flash.dies[die].reads.push_back(Piece { slot, pages });
            self.flash.call_read(&mut self.core, die);
        }
    }

    /// A read of what is not committed: through the front end, and out of the buffer.
    fn read_from_window(&mut self, slot: u32) {
        let bytes = self.core.pending.get(slot).bytes;
        let read_us = self.core.profile.zrwa.as_ref().map_or(0.0, |zrwa| zrwa.read_us.at(bytes));
        let front_us = self.core.profile.read.front_us.at(bytes);
        self.front.free = self.front.free.max(self.core.now) + nanos(front_us);
        let read = self.core.now + nanos(self.core.vary(read_us));
        self.core.events.plan(self.front.free.max(read), Event::Complete { slot });
    }
}
