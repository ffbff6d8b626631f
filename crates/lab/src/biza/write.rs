//! Writes: in place while a block is in a window, else to the next stripe of the group that the selector chooses.

use super::config::MOVED;
use super::life::Stripe;
use super::segment::NOBODY;
use super::{Biza, Place};
use array::engine::Effects;
use array::request::{Outcome, Reply, RequestId};
use base::frame::Frame;
use base::units::Lba;
use base::xor::xor_into;

/// Stands for the collector among those who wait for versions.
pub(super) const COLLECTOR: u32 = u32::MAX;

/// A write of a client.
#[derive(Debug)]
pub(super) struct Write {
    id: RequestId,
    /// Place among all writes.
    order: u64,
    /// Blocks without a place, and versions of data and parity that are not on their drives.
    pending: u32,
}

/// The newest version of a block that waits for a place.
#[derive(Debug)]
pub(super) struct Waiting {
    frame: Frame,
    writes: Vec<u32>,
}

impl Biza {
    pub(super) fn start_write(&mut self, id: RequestId, lba: Lba, mut frames: Vec<Frame>, fx: &mut Effects) {
        let order = self.order.next;
        self.order.next += 1;
        self.order.open.insert(order);
        let pending = u32::try_from(frames.len()).expect("a u32 of blocks");
        let write = self.writes.insert(Write { id, order, pending });
        self.account.counters.user += u64::from(pending);
        let first = u32::try_from(lba.0).expect("a u32 of blocks");
        for (block, frame) in (first..).zip(frames.drain(..)) {
            let group = self.selector.note(block);
            let group = if self.config.selects { group } else { super::config::TRIVIAL };
            if let Some(waiting) = self.waiting.get_mut(&block) {
                self.memory.frames.give(std::mem::replace(&mut waiting.frame, frame));
                waiting.writes.push(write);
                self.account.counters.absorbed += 1;
            } else if self.write_block(block, group, &frame, write) {
                self.memory.frames.give(frame);
            } else {
                self.groups[group].waiting.push_back(block);
                self.waiting.insert(block, Waiting { frame, writes: vec![write] });
            }
        }
        self.memory.frames.give_empty(frames);
        self.order.answer_flushes(fx);
    }

    /// Gives places to blocks that wait for them, as far as there are any.
    pub(super) fn place_waiting(&mut self, fx: &mut Effects) {
        for group in 0..self.groups.len() {
            while let Some(block) = self.groups[group].waiting.front().copied() {
                let Some(Waiting { frame, writes }) = self.waiting.remove(&block) else {
                    self.groups[group].waiting.pop_front();
                    continue;
                };
                if !self.write_block(block, group, &frame, writes[0]) {
                    self.waiting.insert(block, Waiting { frame, writes });
                    break;
                }
                self.groups[group].waiting.pop_front();
                self.memory.frames.give(frame);
                // The others wait for the same versions.
                for write in &writes[1..] {
                    self.wait_for_block(block, *write);
                }
                self.order.answer_flushes(fx);
            }
        }
    }

    /// Writes a block if there is a place for it, and tells whether there is. The write waits for data and parity from now on.
    pub(super) fn write_block(&mut self, block: u32, group: usize, frame: &Frame, write: u32) -> bool {
        if let Some(place) = self.map[block as usize]
            && self.segments[place.segment as usize].is_in_window(place.stripe)
        {
            self.account.counters.absorbed += 1;
            self.store(place, frame);
        } else {
            let Some(place) = self.take_place(group) else { return false };
            self.move_to(block, place);
            self.store(place, frame);
            match group {
                MOVED => self.account.counters.moved += 1,
                _ => {
                    self.account.counters.data += 1;
                    self.collector.earn();
                }
            }
        }
        self.wait_for_block(block, write);
        true
    }

    /// The next free place of a group.
    fn take_place(&mut self, group: usize) -> Option<Place> {
        let Stripe { segment, stripe, used } = match self.groups[group].open {
            Some(open) => open,
            None => self.begin_stripe(group)?,
        };
        let is_full = used + 1 == self.config.data_blocks();
        self.groups[group].open = (!is_full).then_some(Stripe { segment, stripe, used: used + 1 });
        let drive = self.segments[segment].data_drive(stripe, used);
        Some(Place {
            segment: u32::try_from(segment).expect("a u32 of zones"),
            drive: u8::try_from(drive).expect("few drives"),
            stripe,
        })
    }

    /// From now on a block is there; where it was, it is not any more.
    fn move_to(&mut self, block: u32, place: Place) {
        self.forget(block);
        let segment = &mut self.segments[place.segment as usize];
        *segment.owner(usize::from(place.drive), place.stripe) = block;
        segment.live += 1;
        self.map[block as usize] = Some(place);
    }

    fn forget(&mut self, block: u32) {
        if let Some(old) = self.map[block as usize].take() {
            let segment = &mut self.segments[old.segment as usize];
            *segment.owner(usize::from(old.drive), old.stripe) = NOBODY;
            segment.live -= 1;
        }
    }

    /// Data and parity are updated in the window, and leave together.
    fn store(&mut self, place: Place, frame: &Frame) {
        let number = place.segment as usize;
        let segment = &mut self.segments[number];
        let (drive, parity) = (usize::from(place.drive), segment.parity_drive(place.stripe));
        let mut change = frame.data;
        let data = &mut segment.slot(drive, place.stripe).frame;
        xor_into(&mut change, &data.data);
        data.data.copy_from_slice(&frame.data);
        xor_into(&mut segment.slot(parity, place.stripe).frame.data, &change);
        for drive in [drive, parity] {
            let slot = segment.slot(drive, place.stripe);
            slot.wanted += 1;
            if slot.sent == 0 {
                self.outbox.note(number, drive, place.stripe);
            }
        }
    }

    /// A write waits for the present versions of a block, which is in a window, and of its parity.
    fn wait_for_block(&mut self, block: u32, write: u32) {
        let place = self.map[block as usize].expect("it has a place");
        let segment = &mut self.segments[place.segment as usize];
        for drive in [usize::from(place.drive), segment.parity_drive(place.stripe)] {
            let slot = segment.slot(drive, place.stripe);
            slot.waiters.push((slot.wanted, write));
        }
        match write {
            COLLECTOR => self.collector.moving += 2,
            // The block's own share is one already.
            _ => self.writes.get_mut(write).pending += 1,
        }
    }

    /// A version that a write waited for is on its drive.
    pub(super) fn note_done(&mut self, write: u32, fx: &mut Effects) {
        if write == COLLECTOR {
            self.collector.moving -= 1;
            return;
        }
        let own = self.writes.get_mut(write);
        own.pending -= 1;
        if own.pending == 0 {
            let Write { id, order, .. } = self.writes.remove(write);
            self.order.open.remove(&order);
            fx.replies.push(Reply { id, outcome: Outcome::Done, frames: Vec::new() });
        }
    }

    /// Blocks read as zeros from now on. Those that wait for a place are written first, as zeros: nobody measures this.
    pub(super) fn trim(&mut self, id: RequestId, lba: Lba, blocks: u64, fx: &mut Effects) {
        for block in lba.0..lba.0 + blocks {
            let block = u32::try_from(block).expect("a u32 of blocks");
            match self.waiting.get_mut(&block) {
                Some(waiting) => waiting.frame.data.fill(0),
                None => self.forget(block),
            }
        }
        fx.replies.push(Reply { id, outcome: Outcome::Done, frames: Vec::new() });
    }
}
