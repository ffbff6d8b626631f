//! Blocks on their way to slots. A slot's copies are written at once, and whoever waits is answered when each is durable on the
//! active members, and any member that failed is recorded on the others.

use crate::log::append::Appender;
use crate::log::area::slots::{Version, Way, Written};
use crate::log::area::{SLOT_WRITES_MAX, Stage, WriteArea};
use crate::log::core::Core;
use crate::log::index::Name;
use crate::log::pba::Pba;
use crate::log::policy::adaptive::Demand;
use crate::log::policy::slots::{SlotChoice, SlotUse};
use crate::log::requests::RequestSlot;
use crate::log::segment::SegmentSlot;
use crate::log::stripe::{Origin, StripeSlot};
use crate::log::write::Placement;
use crate::log::{Effects, Shard, Waiter};
use base::erasure::Piece;
use base::frame::Frame;
use base::units::Lba;
use zone::device::{Completion, Op, Status};
use zone::format::header::Stream;
use zone::format::oob::{self, Place, Protected, Role};
use zone::stripe::StripeNumber;

impl WriteArea {
    /// True when blocks may go to slots now.
    pub(in crate::log) fn takes_writes(&self, core: &Core) -> bool {
        self.stage == Stage::Open
            && !self.drains
            && !self.scrubs
            && self.writes_in_flight < SLOT_WRITES_MAX
            && self.lost.count() == core.membership.lost_count()
            && !core.membership.is_broken()
    }

    /// A small write comes, beside what clients have under way. Way by which it goes to a slot: over an older version of its block, behind one that
    /// is on its way, or to a free slot where the block is likely to be overwritten soon; none where a stripe is better.
    fn way_of_write(&mut self, core: &Core, lba: Lba, demand: &Demand, stripe_blocks: u64) -> Option<Way> {
        let forecast = self.slots.note(lba);
        if !self.takes_writes(core) {
            return None;
        }
        let way = self.slots.way(lba, core.next_sequence)?;
        let choice = if way == Way::Free { SlotChoice::Free } else { SlotChoice::Overwrite };
        if !core.slot_use().takes(choice, &self.places, demand) {
            return None;
        }
        if way == Way::Free {
            let (free, free_min) = (self.slots.free_count(), self.free_min(stripe_blocks));
            let goes = free > 0
                && (core.slot_use() == SlotUse::Idle || self.slots.is_worth_slot(&forecast, free > free_min));
            return goes.then_some(way);
        }
        Some(way)
    }

    /// A block goes to a slot: its own, or a free one, if more are than blocks come after it.
    pub fn write(
        &mut self,
        core: &mut Core,
        (lba, version): (Lba, Version),
        (request, blocks_after): (RequestSlot, usize),
        fx: &mut Effects,
    ) {
        assert!(
            self.stage == Stage::Open && self.writes_in_flight < SLOT_WRITES_MAX,
            "block {} goes to a slot of an area that is {:?}, beside {} others",
            lba.0,
            self.stage,
            self.writes_in_flight
        );
        self.writes_in_flight += 1;
        core.counters.slot_blocks_written += 1;
        let may_go_aside = self.slots.free_count() > blocks_after;
        let id = self.slots.place(lba, &self.copies_in_flight, may_go_aside);
        self.write_copies(core, (id, version), request, fx);
    }

    /// Writes the copies of a block.
    fn write_copies(
        &mut self,
        core: &mut Core,
        (id, version): (u32, Version),
        request: RequestSlot,
        fx: &mut Effects,
    ) {
        let copies = self.places.copies;
        self.slots.begin_write(id, version, request, copies);
        let (segment, slot) = (self.segments[(id / self.places.slots()) as usize], id % self.places.slots());
        let segment = core.segments.get(segment);
        let (_, version) = self.slots.pending(id);
        assert!(segment.is_write_area, "slot {slot} lies in segment {}, which holds stripes", segment.id);
        for copy in 0..copies {
            let (drive, offset) = self.places.of(slot, copy);
            self.copies_in_flight[drive] += 1;
            let zone = segment.zones[drive];
            let place = Place {
                array: core.array_tag,
                segment: segment.id,
                zone,
                stripe: StripeNumber::of_static_slot(slot),
                group: 0,
                piece: Piece::at(copy as usize),
                row: 0,
                role: Role::Slot,
            };
            let mut frames = core.frames.take_vec(1);
            let frame = &mut frames[0];
            frame.set_data(&version.frame.data);
            frame.oob = version.frame.oob;
            oob::seal(&mut frame.oob, &place, version.data_crc, None);
            fx.command(drive, zone, Waiter::Slot { slot: id, part: copy }, Op::Write { offset, frames });
        }
    }

    fn segment_of(&self, id: u32) -> SegmentSlot {
        self.segments[(id / self.places.slots()) as usize]
    }

    /// True when each copy of a slot can be written.
    fn has_places(&self, core: &Core, id: u32) -> bool {
        let segment = core.segments.get(self.segment_of(id));
        let slot = id % self.places.slots();
        let mut drives = (0..self.places.copies).map(|copy| self.places.of(slot, copy).0);
        drives.all(|drive| core.membership.has_zone(segment, drive) && !segment.is_retired(drive))
    }

    /// Gives the frame of a version back that is not needed any more.
    pub fn supersede(&mut self, core: &mut Core, lba: Lba, sequence: u64) {
        let frame = self.slots.supersede(lba, sequence);
        frame.into_iter().for_each(|frame| core.frames.give(frame));
    }
}

impl Appender<'_> {
    /// The blocks of a stripe that would be padded go to slots, if all of them can. Its slot is free then.
    pub(in crate::log) fn spill(&mut self, slot: StripeSlot, fx: &mut Effects) -> bool {
        if !self.area.takes_writes(self.core) || !self.may_spill(slot) {
            return false;
        }
        let stripe = self.stripes.slots.get(slot);
        let chunk_blocks = self.stripes.streams[stripe.stream.index()].chunk_blocks as usize;
        let blocks = stripe.blocks.len();
        for index in 0..blocks {
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
            let lba = Lba(block.protected.lba);
            self.area.write(self.core, (lba, version), (request, blocks - index - 1), fx);
        }
        self.stripes.slots.give(slot);
        true
    }

    /// True when the blocks in the filling stripe of a stream go to slots when it is closed, and none that comes would fill it: they are all that
    /// is under way, or slots are used only while that is less than a stripe. Drives have little to do with it.
    pub(in crate::log) fn lone_stripe_spills(&self, stream: Stream) -> bool {
        let Some(slot) = self.stripes.streams[stream.index()].filling else { return false };
        let blocks = self.stripes.slots.get(slot).blocks.len() as u64;
        let is_alone = blocks == self.demand.blocks_under_way() || self.core.slot_use() == SlotUse::Idle;
        is_alone && self.area.takes_writes(self.core) && self.may_spill(slot)
    }

    /// True for a partial stripe of clients' blocks that all find slots and are worth them. Of two versions of a block, one would have to wait.
    fn may_spill(&self, slot: StripeSlot) -> bool {
        let stripe = self.stripes.slots.get(slot);
        let is_full =
            stripe.blocks.len() == self.stripes.streams[stripe.stream.index()].stripe_data_blocks as usize;
        let has_queue = self.area.writes_in_flight + stripe.blocks.len() <= SLOT_WRITES_MAX;
        let is_worth_it = self.core.slot_use().takes(SlotChoice::Spill, &self.area.places, self.demand);
        if is_full || !has_queue || !is_worth_it || !stripe.stream.is_clients() {
            return false;
        }
        let mut new = 0;
        let all_fit = stripe.blocks.iter().enumerate().all(|(index, block)| {
            let (Origin::Request(_), Some(Name::Block(lba))) = (block.origin, block.name) else {
                return false;
            };
            let way = self.area.slots.way(lba, block.protected.sequence);
            new += usize::from(way == Some(Way::Free));
            let is_there_twice = stripe.blocks[..index].iter().any(|before| before.name == block.name);
            matches!(way, Some(Way::Free | Way::Over)) && !is_there_twice
        });
        all_fit && new <= self.area.slots.free_count()
    }
}

impl Shard {
    /// A small write goes to the slot that holds its block, or to a free one where it is worth that; any other comes back.
    pub(in crate::log) fn write_to_slot(
        &mut self,
        request: RequestSlot,
        placement: Placement,
        fx: &mut Effects,
    ) -> Option<Placement> {
        let lba = Lba(placement.protected.lba);
        if self.area.is_off() {
            return Some(placement);
        }
        let small_blocks = self.small_blocks();
        let is_small = self.clients.requests.get(request).blocks() < small_blocks;
        let demand = &self.clients.demand;
        let way = is_small.then(|| self.area.way_of_write(&self.core, lba, demand, small_blocks)).flatten();
        let Some(way) = way else { return Some(placement) };
        let Placement { mut frame, protected, data_crc, .. } = placement;
        *oob::protected_mut(&mut frame.oob) = protected.to_bytes();
        let version = Version { sequence: protected.sequence, frame, data_crc, kind: protected.kind };
        if way == Way::Behind {
            self.wait_for_slot(lba, version, request);
        } else {
            self.area.write(&mut self.core, (lba, version), (request, 0), fx);
        }
        None
    }

    /// A version waits until the one on its way to its slot is written, and takes the place of one that waited before: that is never
    /// written, and its request is answered with the newer one's.
    fn wait_for_slot(&mut self, lba: Lba, version: Version, request: RequestSlot) {
        self.core.counters.slot_blocks_written += 1;
        match self.area.slots.wait(lba, version, request) {
            None => self.area.writes_in_flight += 1,
            Some(replaced) => {
                self.core.frames.give(replaced);
                self.core.counters.slot_blocks_absorbed += 1;
                self.clients.in_flight.complete(lba, 0);
            }
        }
    }

    /// Blocks of a stripe that small writes go to: fewer are a small write.
    pub(in crate::log) fn small_blocks(&self) -> u64 {
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
        self.area.copies_in_flight[drive] -= 1;
        if completion.status != Status::Success {
            self.slot_refused(id, drive, completion.status, fx);
        }
        let is_written = completion.status == Status::Success && self.core.membership.is_present(drive);
        if !self.area.slots.copy_done(id, is_written) {
            return;
        }
        let written = self.area.slots.written(id);
        if written.is_refused {
            self.area.awaits_log.push(id);
        } else if written.lacks_copy && self.core.membership.is_changing() {
            // Without a copy, the block counts only once the superblocks say that its drive is out.
            self.core.membership.slots_waiting = true;
            self.area.awaits_record.push(id);
        } else {
            self.end_slot_write(id, fx);
        }
    }

    /// A drive has not written a copy: that costs it the zone, as any write does (`retired.rs`), or the member its drive. Without the zone
    /// the area is given up, and what was to be written goes to the log.
    fn slot_refused(&mut self, id: u32, drive: usize, status: Status, fx: &mut Effects) {
        match self.core.retire_zone(self.area.segment_of(id), drive, "a write of a slot", status) {
            Ok(()) => self.area.slots.refuse(id),
            Err(blame) => self.core.fail_member(drive, blame, fx),
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
        assert!(
            lost || !written.lacks_copy || !self.core.membership.is_changing(),
            "block {} is answered with {} copies before its drive's failure is recorded",
            written.lba.0,
            written.copies_written
        );
        let sequence = if lost { 0 } else { written.sequence };
        let counts = self.clients.in_flight.complete(written.lba, sequence) && !lost;
        let before: Option<Frame> = self.area.slots.end_write(id, counts);
        if let Some(frame) = before {
            self.core.counters.slot_blocks_absorbed += u64::from(counts);
            self.core.frames.give(frame);
        }
        if counts && let Some(pba) = self.core.index.unmap(written.lba) {
            self.core.forget(pba);
        }
        self.answer_slot(id, &written, lost, fx);
    }

    /// The log has a block that a slot was refused for, or could not take it. False when the block is another one.
    pub(in crate::log) fn end_refused(
        &mut self,
        id: u32,
        block: &Protected,
        at: Option<Pba>,
        fx: &mut Effects,
    ) -> bool {
        let lba = Lba(block.lba);
        if !self.area.slots.is_refused(id, (lba, block.sequence)) {
            return false;
        }
        let written = self.area.slots.written(id);
        let counts = self.clients.in_flight.complete(lba, at.map_or(0, |_| written.sequence));
        let frame = self.area.slots.end_write(id, false);
        frame.into_iter().for_each(|frame| self.core.frames.give(frame));
        assert!(written.lba == lba, "a slot was refused for block {} and not for {}", written.lba.0, lba.0);
        if let Some(pba) = at.filter(|_| counts) {
            let before = self.core.map(Name::Block(lba), pba);
            before.into_iter().for_each(|stream| self.stripes.skew.overwrite(stream));
            self.area.supersede(&mut self.core, lba, written.sequence);
        }
        self.answer_slot(id, &written, at.is_none(), fx);
        true
    }

    /// A version is durable, or lost: whoever waits for it is answered, and for those that it replaced. The one that waits is written now.
    fn answer_slot(&mut self, id: u32, written: &Written, lost: bool, fx: &mut Effects) {
        assert!(self.area.writes_in_flight > 0, "a write ends once");
        self.area.writes_in_flight -= 1;
        self.request_block_done(written.request, lost, fx);
        while let Some(request) = self.area.slots.next_replaced(id, written.sequence) {
            self.request_block_done(request, lost, fx);
        }
        let Some((version, request)) = self.area.slots.take_waiting(id) else { return };
        if self.area.has_places(&self.core, id) {
            self.area.write_copies(&mut self.core, (id, version), request, fx);
        } else {
            self.area.slots.begin_write(id, version, request, 0);
            self.area.slots.refuse(id);
            self.area.awaits_log.push(id);
        }
    }
}
