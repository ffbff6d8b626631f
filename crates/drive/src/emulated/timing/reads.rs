//! The way of a read: behind earlier writes, through the front end, to a die and over its channel,
//! or out of the memory of the read-ahead.

use super::die::{Activity, Piece};
use super::events::Event;
use super::noise::nanos;
use super::{Kind, Model, Pending};

/// Bytes of a page on the channel.
const PAGE_BYTES: u64 = 4096;

impl Model {
    /// A read arrives.
    pub(super) fn read(&mut self, tag: u64, zone: u32, offset_bytes: u64, bytes: u64) {
        let clock = &mut self.zones[zone as usize];
        let sequential = clock.read_end == offset_bytes && self.profile.read_ahead.is_some();
        clock.read_end = offset_bytes + bytes;
        let index = clock.group;
        self.in_flight[0] += 1;
        let pieces = u64::from(!sequential);
        let bytes = match self.committed_part(zone, offset_bytes, bytes) {
            0 if self.zones[zone as usize].window.is_some() => {
                let read = Pending { kind: Kind::Read, zone, bytes, offset_bytes, ..Pending::other(tag) };
                let slot = self.pending.insert(read);
                return self.read_from_window(slot);
            }
            // The dies take longer than the buffer.
            committed => committed,
        };
        let read = Pending { kind: Kind::Read, zone, bytes, offset_bytes, pieces, ..Pending::other(tag) };
        let slot = self.pending.insert(read);
        let group = &mut self.groups[index as usize];
        let behind = group.submitted.saturating_sub(self.profile.buffer.read_bypass_bytes);
        if group.admitted >= behind {
            self.start_read(slot);
        } else {
            group.reads.push_back((behind, slot));
        }
    }

    /// Starts the reads that have waited for enough writes.
    pub(super) fn release_reads(&mut self, index: u32) {
        while let Some(&(behind, slot)) = self.groups[index as usize].reads.front()
            && self.groups[index as usize].admitted >= behind
        {
            self.groups[index as usize].reads.pop_front();
            self.start_read(slot);
        }
    }

    fn start_read(&mut self, slot: u32) {
        let Pending { bytes, pieces, .. } = *self.pending.get(slot);
        if pieces == 0 {
            return self.read_ahead_hit(slot);
        }
        let front_us = self.profile.read.front_us.at(bytes);
        self.front_free = self.front_free.max(self.now) + nanos(front_us);
        self.events.plan(self.front_free, Event::AtDie { slot });
    }

    fn read_ahead_hit(&mut self, slot: u32) {
        let Some(ahead) = &self.profile.read_ahead else { return };
        let bytes = self.pending.get(slot).bytes;
        let (hit_us, front_us) = (ahead.hit_us.at(bytes), ahead.front_us.at(bytes));
        let late = self.ahead_free > self.now + nanos(hit_us) && bytes >= ahead.wait_bytes;
        let waits = late && self.noise.chance(ahead.wait_probability);
        let wait = if waits { nanos(self.noise.exponential(ahead.wait_us)) } else { 0 };
        self.ahead_free = self.ahead_free.max(self.now) + nanos(front_us);
        let hit = self.now + nanos(self.vary(hit_us));
        self.events.plan(self.ahead_free.max(hit) + wait, Event::Complete { slot });
    }

    /// A read comes to its dies, one for each stripe that it touches. A program there begins to make
    /// way.
    pub(super) fn at_die(&mut self, slot: u32) {
        let Pending { zone, bytes, offset_bytes, .. } = *self.pending.get(slot);
        let stripe = self.profile.read.stripe_bytes;
        let end = offset_bytes + bytes;
        let stripes = offset_bytes / stripe..end.div_ceil(stripe).max(offset_bytes / stripe + 1);
        self.pending.get_mut(slot).pieces = stripes.end - stripes.start;
        for number in stripes {
            let from = offset_bytes.max(number * stripe);
            let to = end.min((number + 1) * stripe);
            let pages = to.saturating_sub(from).div_ceil(PAGE_BYTES).max(1);
            let pages = u32::try_from(pages).expect("a transfer has at most 2^32 pages");
            let die = self.die_of(zone, number);
            self.dies[die].reads.push_back(Piece { slot, pages });
            self.call_read(die);
        }
    }

    /// The die of a stripe: the zone's stripes go round the dies of its group.
    pub(super) fn die_of(&self, zone: u32, stripe: u64) -> usize {
        let count = u64::from(self.profile.program.dies_per_group);
        let group = u64::from(self.zones[zone as usize].group);
        let die = group * count + (u64::from(zone) + stripe) % count;
        usize::try_from(die).expect("a place in a table of dies")
    }

    fn call_read(&mut self, die: usize) {
        let index = u32::try_from(die).expect("thousands of dies");
        let suspend = &self.profile.suspend;
        let (stages, wait_us) = (suspend.wait_stages, suspend.wait_us);
        let suspended_max = nanos(suspend.suspended_max_us);
        match self.dies[die].activity {
            Activity::Idle => self.kick(index),
            Activity::Programming { started } if !self.dies[die].insists(self.now, suspended_max) => {
                let wait = nanos(self.noise.erlang(stages, wait_us));
                let die = &mut self.dies[die];
                let Some(running) = &mut die.running else { return };
                let left = running.left.saturating_sub(self.now - started);
                if wait < left {
                    running.left = left;
                    die.activity = Activity::Yielding { wait };
                    die.version = die.version.wrapping_add(1);
                    self.events.plan(self.now + wait, Event::Yielded { die: index, version: die.version });
                }
            }
            Activity::Programming { .. } | Activity::Yielding { .. } | Activity::Reading => {}
        }
    }

    /// A program has advanced until it could be suspended.
    pub(super) fn yielded(&mut self, index: u32, version: u32) {
        let resume = nanos(self.profile.suspend.resume_us);
        let die = &mut self.dies[index as usize];
        let Activity::Yielding { wait } = die.activity else { return };
        if die.version != version {
            return;
        }
        if let Some(running) = &mut die.running {
            running.left = running.left.saturating_sub(wait).max(super::programs::LEFT_MIN) + resume;
            running.since = Some(self.now);
        }
        die.activity = Activity::Idle;
        self.kick(index);
    }

    /// An idle die senses the first read that waits, and those that can go with it.
    pub(super) fn sense(&mut self, index: u32) {
        let read = &self.profile.read;
        let die = &mut self.dies[index as usize];
        let mut longest_us: f64 = 0.0;
        while die.batch.len() < read.batch as usize && !die.reads.is_empty() {
            if !die.batch.is_empty() && !self.noise.chance(read.batch_probability) {
                break;
            }
            die.batch.extend(die.reads.pop_front());
            let mut draw = self.noise.uniform();
            let kind = read.sense.iter().find(|(share, _)| {
                draw -= share;
                draw < 0.0
            });
            let sense_us = kind.or(read.sense.last()).map_or(0.0, |(_, sense_us)| *sense_us);
            longest_us = longest_us.max(sense_us * (1.0 + read.sense_spread * self.noise.normal()));
        }
        die.activity = Activity::Reading;
        self.plan_us(longest_us, Event::Sensed { die: index });
    }

    /// Sends what was sensed over the channel. The register is taken until its last page goes.
    pub(super) fn sensed(&mut self, index: u32) {
        let transfer = nanos(self.profile.read.transfer_us);
        let finish = nanos(self.profile.read.finish_us);
        let die = &mut self.dies[index as usize];
        let channel = &mut self.channels[die.channel];
        let mut free = self.now;
        for piece in die.batch.drain(..) {
            *channel = (*channel).max(self.now) + transfer * u64::from(piece.pages);
            if piece.pages > 1 {
                free = free.max(*channel - transfer);
            }
            // The whole is done when its last piece is, whichever that will have been.
            let pending = self.pending.get_mut(piece.slot);
            pending.rest = pending.rest.max(*channel + finish);
            pending.pieces -= 1;
            if pending.pieces == 0 {
                self.events.plan(pending.rest, Event::Complete { slot: piece.slot });
            }
        }
        if free > self.now {
            self.events.plan(free, Event::DieFree { die: index });
        } else {
            self.die_free(index);
        }
    }

    pub(super) fn die_free(&mut self, index: u32) {
        self.dies[index as usize].activity = Activity::Idle;
        self.kick(index);
    }
}
