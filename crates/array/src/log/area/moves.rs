//! Blocks on their way from slots to the log. Where slots run out, as many go as fill stripes for one command of each drive, those first
//! that will be overwritten last (`order.rs`). All go when a member has failed, before a trim and before a checkpoint; and after a mount, before
//! clients are served.

use crate::log::area::{Stage, WriteArea};
use crate::log::core::Core;
use crate::log::flush::RecoveryFlush;
use crate::log::index::{Name, Region};
use crate::log::pba::Pba;
use crate::log::requests::RequestSlot;
use crate::log::stripe::Origin;
use crate::log::write::Placement;
use crate::log::{Effects, Shard};
use base::time::Instant;
use base::units::Lba;
use std::ops::Range;
use zone::format::header::Stream;
use zone::format::oob::Protected;

/// Of so many slots one is kept free, and those of two stripes at least.
const FREE_PART: usize = 16;

impl WriteArea {
    /// Slots that are kept free, with stripes of so many blocks.
    pub(in crate::log) fn free_min(&self, stripe_blocks: u64) -> usize {
        let stripe_blocks = usize::try_from(stripe_blocks).expect("a usize of blocks");
        let all = self.slots.free_count() + self.slots.used_count();
        (all / FREE_PART).max(2 * stripe_blocks).min(all / 2)
    }

    /// True when all that slots hold is to leave.
    fn leaves(&self) -> bool {
        self.drains || self.scrubs || self.stage == Stage::Retiring || self.slots.found_count() > 0
    }

    /// The block of a stripe is durable in the log, or could not be written.
    pub(in crate::log) fn moved(&mut self, core: &mut Core, id: u32, block: &Protected, at: Option<Pba>) {
        let lba = Lba(block.lba);
        let frame = self.slots.end_move(id, (lba, block.sequence), at.is_some());
        self.moves_failed |= at.is_none();
        let (Some(frame), Some(pba)) = (frame, at) else { return };
        core.frames.give(frame);
        let before = core.map(Name::Block(lba), pba);
        assert!(before.is_none(), "block {lba} was in its slot alone");
    }

    /// Space was freed: moves that failed are tried again.
    pub(in crate::log) fn space_freed(&mut self) {
        self.moves_failed = false;
    }
}

impl Shard {
    /// Moves what must leave slots, and what makes room for others.
    pub(in crate::log) fn move_slots(&mut self, now: Instant, fx: &mut Effects) {
        self.log_refused(now, fx);
        if self.area.slots.live_count() == 0 || self.area.moves_failed || self.core.membership.is_broken() {
            return;
        }
        let is_recovering = self.rescue.flush != RecoveryFlush::Done;
        // What recovery could not complete in place comes first, for nothing else may have the room.
        if is_recovering && self.space().has_blocks_to_rescue() {
            return;
        }
        // Clients may wait for the collector, which waits for what recovery moves.
        let stream = if is_recovering { Stream::Gc } else { self.core.config.stream_for(1) };
        if self.area.leaves() {
            self.move_all(stream, None, now, fx);
        } else if let Some(blocks) = self.area.trims.clone() {
            self.move_all(stream, Some(blocks), now, fx);
        } else {
            self.move_barred(stream, now, fx);
            self.make_room(stream, now, fx);
        }
    }

    /// What zones took no copy of goes to the log; its clients wait for that.
    fn log_refused(&mut self, now: Instant, fx: &mut Effects) {
        let stream = self.core.config.stream_for(1);
        while let Some(id) = self.area.awaits_log.last().copied() {
            if !self.may_place_slot(stream) {
                return;
            }
            self.area.awaits_log.pop();
            let mut frame = self.core.frames.take();
            let (lba, refused) = self.area.slots.pending(id);
            frame.set_data(&refused.frame.data);
            let protected = Protected { lba: lba.0, sequence: refused.sequence, kind: refused.kind };
            let (name, data_crc, origin) = (Some(Name::Block(lba)), refused.data_crc, Origin::Slot(id));
            self.core.counters.slot_blocks_moved += 1;
            self.appender().place(stream, now, Placement { frame, protected, name, origin, data_crc }, fx);
        }
        self.seal_moved(stream, fx);
    }

    /// Moves what slots of a lost member hold.
    fn move_barred(&mut self, stream: Stream, now: Instant, fx: &mut Effects) {
        if self.area.lost.is_empty() {
            return;
        }
        while let Some(id) = self.area.slots.barred_to_move() {
            if !self.may_place_slot(stream) {
                return;
            }
            self.move_slot(id, stream, now, fx);
        }
        self.seal_moved(stream, fx);
    }

    /// True when a moved block can be placed.
    fn may_place_slot(&self, stream: Stream) -> bool {
        match stream {
            Stream::Small | Stream::Large => self.may_place(stream),
            Stream::Gc | Stream::Cold | Stream::Mapping => {
                let has_slot = self.stripes.streams[stream.index()].filling.is_some()
                    || self.stripes.slots.in_use(stream) < self.stripes.slots.count(stream);
                has_slot && !self.checkpoints.is_draining()
            }
        }
    }

    /// Moves all, or all of a range, and closes the last stripe.
    fn move_all(&mut self, stream: Stream, among: Option<Range<u64>>, now: Instant, fx: &mut Effects) {
        while let Some(id) = self.area.slots.any_to_move(among.as_ref()) {
            if !self.may_place_slot(stream) {
                return;
            }
            self.move_slot(id, stream, now, fx);
        }
        self.seal_moved(stream, fx);
    }

    /// Closes the filling stripe of a stream when blocks of slots are in it.
    fn seal_moved(&mut self, stream: Stream, fx: &mut Effects) {
        let Some(slot) = self.stripes.streams[stream.index()].filling else { return };
        let is_slot = |origin: Origin| matches!(origin, Origin::Slot(_));
        if self.stripes.slots.get(slot).blocks.iter().any(|block| is_slot(block.origin)) {
            self.appender().seal_filling(stream, fx);
        }
    }

    /// Where too few slots are free, moves as many blocks as fill stripes for one command of each drive: such a command takes less of its
    /// drive's time than one for each stripe, and fewer writes of slots meet it.
    fn make_room(&mut self, stream: Stream, now: Instant, fx: &mut Effects) {
        let writer = &self.stripes.streams[stream.index()];
        let (stripe_blocks, chunk_blocks) =
            (writer.stripe_data_blocks as usize, writer.chunk_blocks as usize);
        let stripes =
            (self.core.config.joined_blocks_max(&self.core.tuning.tuned) as usize / chunk_blocks).max(1);
        let free_min = self.area.free_min(stripe_blocks as u64);
        let mut leaving = self.area.slots.moving_count();
        if self.area.slots.free_count() + leaving >= free_min {
            return;
        }
        let wanted = free_min + (stripes * stripe_blocks).min(free_min);
        self.appender().begin_batch();
        while self.area.slots.free_count() + leaving < wanted && self.may_place_slot(stream) {
            let filling = self.stripes.streams[stream.index()].filling;
            let gathered = filling.map_or(0, |slot| self.stripes.slots.get(slot).blocks.len());
            assert!(
                gathered < stripe_blocks,
                "a filling stripe of {stream:?} has {gathered} of {stripe_blocks} blocks"
            );
            let room = stripe_blocks - gathered;
            if self.area.slots.live_count() < room {
                break;
            }
            for _ in 0..room {
                let id = self.area.slots.next_to_move().expect("counted");
                self.move_slot(id, stream, now, fx);
            }
            leaving += room;
        }
        self.appender().end_batch(fx);
    }

    /// A trim holds its regions: true when no block of them has a slot, `None` when one never leaves it.
    pub(in crate::log) fn leave_slots(
        &mut self,
        request: RequestSlot,
        now: Instant,
        fx: &mut Effects,
    ) -> Option<bool> {
        let regions = self.clients.requests.get(request).regions();
        let blocks = self.core.index.blocks();
        let last = Region(regions.end.0 - 1);
        let blocks = regions.start.blocks(blocks).start..last.blocks(blocks).end;
        if !self.area.slots.has_any(blocks.clone()) {
            self.area.trims = None;
            return Some(true);
        }
        self.area.trims = Some(blocks);
        if self.area.moves_failed || self.core.membership.is_broken() {
            self.area.trims = None;
            return None;
        }
        self.move_slots(now, fx);
        Some(false)
    }

    fn move_slot(&mut self, id: u32, stream: Stream, now: Instant, fx: &mut Effects) {
        let mut frame = self.core.frames.take();
        let (lba, version) = self.area.slots.begin_move(id);
        frame.set_data(&version.frame.data);
        let protected = Protected { lba: lba.0, sequence: version.sequence, kind: version.kind };
        let (name, data_crc) = (Some(Name::Block(lba)), version.data_crc);
        self.core.counters.slot_blocks_moved += 1;
        self.appender().place(
            stream,
            now,
            Placement { frame, protected, name, origin: Origin::Slot(id), data_crc },
            fx,
        );
    }
}
