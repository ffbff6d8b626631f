//! Blocks on their way to slots. A slot's copies are written at once, and whoever waits is answered when each is durable on the
//! active members, and any member that failed is recorded on the others.

use crate::log::append::Appender;
use crate::log::area::slots::{Slots, Version};
use crate::log::area::{SLOT_WRITES_MAX, Stage, WriteArea};
use crate::log::blame::Blame;
use crate::log::core::Core;
use crate::log::index::Name;
use crate::log::stripe::Origin;
use crate::log::write::Placement;
use crate::log::{Effects, Shard, Waiter};
use base::frame::Frame;
use base::units::Lba;
use std::collections::BTreeSet;
use zone::device::{Completion, Op, Status};
use zone::format::oob::{self, Place, Role};

impl WriteArea {
    /// True when blocks may go to slots now.
    fn takes_writes(&self, core: &Core) -> bool {
        self.stage == Stage::Open
            && !self.drains
            && !self.scrubs
            && self.writes_in_flight < SLOT_WRITES_MAX
            && core.membership.lost_count() == 0
    }

    /// True while so many blocks under way take drives no more commands in slots than in stripes. With more, stripes are full, and share
    /// commands besides.
    fn may_choose(&self, core: &Core, blocks_under_way: u64) -> bool {
        let commands = blocks_under_way * u64::from(self.places.copies);
        core.tuning.slots_at_any_depth || core.is_biza() || commands <= u64::from(self.places.members)
    }

    /// A small write comes, of so many blocks under way. True when it goes to a slot now: over an older version of its block, or to a free
    /// one where the block is likely to be overwritten soon.
    fn takes_write(&mut self, core: &Core, lba: Lba, blocks_under_way: u64, stripe_blocks: u64) -> bool {
        let forecast = self.slots.note(lba);
        if !self.takes_writes(core) {
            return false;
        }
        match self.slots.is_overwrite(lba, core.next_sequence) {
            Some(true) => true,
            Some(false) => {
                let (free, free_min) = (self.slots.free_count(), self.free_min(stripe_blocks));
                let is_worth_slot = |slots: &mut Slots| slots.is_worth_slot(&forecast, free > free_min);
                free > 0 && self.may_choose(core, blocks_under_way) && is_worth_slot(&mut self.slots)
            }
            None => false,
        }
    }

    /// Writes the copies of a block.
    pub fn write(&mut self, core: &mut Core, lba: Lba, request: u32, version: Version, fx: &mut Effects) {
        let copies = self.places.copies;
        let id = self.slots.begin_write(lba, version, request, copies);
        self.writes_in_flight += 1;
        core.counters.slot_blocks_written += 1;
        let (segment, slot) = (self.segments[(id / self.places.slots()) as usize], id % self.places.slots());
        let segment = core.segments.get(segment);
        let (_, version) = self.slots.pending(id);
        for copy in 0..copies {
            let (drive, offset) = self.places.of(slot, copy);
            let zone = segment.zones[drive];
            let place = Place {
                array: core.array_tag,
                segment: segment.id,
                zone,
                stripe: slot,
                group: 0,
                piece: u8::try_from(copy).expect("at most 32 members"),
                row: 0,
                role: Role::Slot,
            };
            let mut frames = core.frames.take_vec(1);
            let frame = &mut frames[0];
            frame.data = version.frame.data;
            frame.oob = version.frame.oob;
            oob::seal(&mut frame.oob, &place, version.data_crc, None);
            fx.command(drive, zone, Waiter::Slot { slot: id, part: copy }, Op::Write { offset, frames });
        }
    }

    /// Gives the frame of a version back that is not needed any more.
    pub fn supersede(&mut self, core: &mut Core, lba: Lba, sequence: u64) {
        let frame = self.slots.supersede(lba, sequence);
        frame.into_iter().for_each(|frame| core.frames.give(frame));
    }
}

impl Appender<'_> {
    /// The blocks of a stripe that would be padded go to slots, if all of them can. Its slot is free then.
    pub(in crate::log) fn spill(&mut self, slot: u32, fx: &mut Effects) -> bool {
        if !self.area.takes_writes(self.core) || !self.may_spill(slot) {
            return false;
        }
        let stripe = self.stripes.slots.get(slot);
        let chunk_blocks = self.stripes.streams[stripe.stream.index()].chunk_blocks as usize;
        for index in 0..stripe.blocks.len() {
            let stripe = self.stripes.slots.get_mut(slot);
            let frame = stripe.pieces[index / chunk_blocks].remove(0);
            let block = stripe.blocks[index];
            let Origin::Request(request) = block.origin else {
                unreachable!("only clients' blocks are spilled")
            };
            let version = Version {
                sequence: block.protected.sequence,
                frame,
                data_crc: block.data_crc,
                kind: block.protected.kind,
            };
            self.area.write(self.core, Lba(block.protected.lba), request, version, fx);
        }
        self.stripes.slots.give(slot);
        true
    }

    /// True for a partial stripe of clients' blocks that all find slots. Of two versions of a block, one would have to wait.
    fn may_spill(&self, slot: u32) -> bool {
        let stripe = self.stripes.slots.get(slot);
        let is_full =
            stripe.blocks.len() == self.stripes.streams[stripe.stream.index()].stripe_data_blocks as usize;
        let has_queue = self.area.writes_in_flight + stripe.blocks.len() <= SLOT_WRITES_MAX;
        if is_full || !has_queue || !stripe.stream.is_clients() {
            return false;
        }
        let (mut blocks, mut new) = (BTreeSet::new(), 0);
        let all_fit = stripe.blocks.iter().all(|block| {
            let (Origin::Request(_), Some(Name::Block(lba))) = (block.origin, block.name) else {
                return false;
            };
            let is_overwrite = self.area.slots.is_overwrite(lba, block.protected.sequence);
            new += usize::from(is_overwrite == Some(false));
            is_overwrite.is_some() && blocks.insert(lba)
        });
        all_fit && new <= self.area.slots.free_count()
    }
}

impl Shard {
    /// A small write goes to the slot that holds its block, or to a free one where it is worth that; any other comes back.
    pub(in crate::log) fn write_to_slot(
        &mut self,
        request: u32,
        placement: Placement,
        fx: &mut Effects,
    ) -> Option<Placement> {
        let lba = Lba(placement.protected.lba);
        if self.area.is_off() {
            return Some(placement);
        }
        let small_blocks = self.small_blocks();
        let is_small = self.clients.requests.get(request).blocks() < small_blocks;
        let under_way = self.clients.demand.blocks_under_way();
        if !is_small || !self.area.takes_write(&self.core, lba, under_way, small_blocks) {
            return Some(placement);
        }
        let Placement { mut frame, protected, data_crc, .. } = placement;
        *oob::protected_mut(&mut frame.oob) = protected.to_bytes();
        let version = Version { sequence: protected.sequence, frame, data_crc, kind: protected.kind };
        self.area.write(&mut self.core, lba, request, version, fx);
        None
    }

    /// Blocks of a stripe that small writes go to: fewer are a small write.
    fn small_blocks(&self) -> u64 {
        let stream = self.core.config.stream_for(1);
        u64::from(self.stripes.streams[stream.index()].stripe_data_blocks)
    }

    /// A drive has written a copy, or has not.
    pub(in crate::log) fn on_slot(
        &mut self,
        id: u32,
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        self.core.frames.give_vec(completion.frames);
        if completion.status != Status::Success {
            let blame = Blame::answer(completion.token, completion.status);
            self.core.fail_member(drive, blame, fx);
        }
        let is_written = completion.status == Status::Success && self.core.membership.is_present(drive);
        if !self.area.slots.copy_done(id, is_written) {
            return;
        }
        // Without a copy, the block counts only once the superblocks say that its drive is out.
        if self.area.slots.written(id).lacks_copy && self.core.membership.is_changing() {
            self.core.membership.slots_waiting = true;
            self.area.awaits_record.push(id);
        } else {
            self.end_slot_write(id, fx);
        }
    }

    /// The superblocks say which members are out.
    pub(in crate::log) fn slots_recorded(&mut self, fx: &mut Effects) {
        for id in std::mem::take(&mut self.area.awaits_record) {
            self.end_slot_write(id, fx);
        }
    }

    /// Every copy is where it must be: the block is read from its slot from now on, unless something newer is durable.
    fn end_slot_write(&mut self, id: u32, fx: &mut Effects) {
        let written = self.area.slots.written(id);
        let lost = written.lacks_copy && (written.copies_written == 0 || self.core.membership.is_broken());
        let sequence = if lost { 0 } else { written.sequence };
        let counts = self.clients.in_flight.complete(written.lba, sequence) && !lost;
        assert!(self.area.writes_in_flight > 0, "a write ends once");
        self.area.writes_in_flight -= 1;
        let before: Option<Frame> = self.area.slots.end_write(id, counts);
        if let Some(frame) = before {
            self.core.counters.slot_blocks_absorbed += u64::from(counts);
            self.core.frames.give(frame);
        }
        if counts && let Some(pba) = self.core.index.unmap(written.lba) {
            self.core.forget(pba);
        }
        self.request_block_done(written.request, lost, fx);
    }
}
