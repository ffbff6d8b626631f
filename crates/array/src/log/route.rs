//! Routing: which process is told what has happened.

use crate::log::blame::Blame;
use crate::log::core::Event;
use crate::log::flush::{FlushWaiter, Party};
use crate::log::index::Name;
use crate::log::index::groups::Holder;
use crate::log::pba::Location;
use crate::log::pba::Pba;
use crate::log::stripe::Origin;
use crate::log::stripe::StripeBlock;
use crate::log::stripe::StripeSlot;
use crate::log::{Effects, Shard};
use base::erasure::Piece;
use base::units::DriveIndex;
use zone::device::{Completion, Status};
use zone::format::header::Stream;
use zone::format::header::WriteMode;

impl Shard {
    /// Tells the processes what has happened, until nothing more does.
    #[inline(always)] // Asked after each completion, and mostly nothing has.
    pub(super) fn route(&mut self, fx: &mut Effects) {
        if !self.core.events.is_empty() {
            self.tell(fx);
        }
    }

    #[inline(never)]
    fn tell(&mut self, fx: &mut Effects) {
        while let Some(event) = self.core.events.pop_front() {
            match event {
                Event::MemberFailed { drive, was_rebuilding } => {
                    if was_rebuilding {
                        self.member_rebuild.abandon_rebuild(&mut self.core);
                    }
                    self.stripes.drop_waiting_chunks(&mut self.core, drive);
                }
                Event::MembersRecorded => self.repeat_device_flushes(fx),
                Event::ZoneRetired(slot) => self.appender().close_retired(slot, fx),
                Event::StripeRefused(slot) => self.appender().bind_elsewhere(slot, fx),
                Event::SegmentOpened(slot) => {
                    self.appender().close_retired(slot, fx);
                    self.appender().seal_segment_if_done(slot, fx);
                    let stream = self.core.segments.get(slot).stream;
                    self.appender().pump_stream(stream, fx);
                }
                Event::SlotsRecorded => self.slots_recorded(fx),
                Event::SegmentErased(Stream::Mapping) => self.off_load.mapping_segment_erased(),
                Event::SegmentErased(_) => {
                    self.core.counters.segments_collected += 1;
                    self.area.space_freed();
                    self.collector.gc_erased();
                }
                Event::StripeDurable(slot) => self.on_stripe_durable(slot, fx),
                Event::StripeFailed(slot) => self.fail_stripe(slot, fx),
            }
        }
    }

    /// A drive has written (or failed to write) a piece of a stripe, and those that were joined to it.
    pub(super) fn on_chunk(
        &mut self,
        (slot, piece): (StripeSlot, Piece),
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        let Completion { status, offset, mut frames, .. } = completion;
        let is_spoilt = status == Status::DeviceGone;
        let segment_slot = self.stripes.slots.get(slot).segment;
        self.core.segments.note_done(segment_slot, drive, (slot, piece), status == Status::Success);
        let segment = self.core.segments.get_mut(segment_slot);
        let first = segment.layout.chunk_blocks as usize;
        let writer = segment.writer.as_mut().expect("stripes are in flight");
        let joined = match segment.mode {
            WriteMode::Append | WriteMode::Area => Vec::new(),
            WriteMode::Write => std::mem::take(&mut writer.zones[drive].joined),
        };
        for chunk in &joined {
            let stripe = self.stripes.slots.get_mut(chunk.slot);
            stripe.pieces[chunk.piece.index()].extend(frames.drain(first..2 * first));
            stripe.is_spoilt |= is_spoilt;
        }
        let stripe = self.stripes.slots.get_mut(slot);
        stripe.pieces[piece.index()] = frames;
        stripe.is_spoilt |= is_spoilt;
        self.on_piece((slot, piece), drive, (status, offset), fx);
        for chunk in joined {
            self.route(fx);
            self.on_piece((chunk.slot, chunk.piece), drive, (status, offset), fx);
        }
    }

    /// A piece of a stripe was written, or was not.
    fn on_piece(
        &mut self,
        (slot, piece): (StripeSlot, Piece),
        drive: usize,
        outcome: (Status, u32),
        fx: &mut Effects,
    ) {
        // Mostly none waits: a call for each chunk would cost a write some thirty instructions.
        if let Some(segment) = self.stripes.land(&mut self.core, (slot, piece), drive, outcome, fx) {
            self.appender().pump_zone(segment, drive, fx);
        }
        self.stripes.piece_done(&mut self.core, slot);
    }

    /// A drive has emptied its cache, or failed to: then it may have lost what it acknowledged.
    pub(super) fn on_device_flush(
        &mut self,
        slot: u32,
        drive: usize,
        completion: &Completion,
        fx: &mut Effects,
    ) {
        if completion.status != Status::Success {
            let blame = Blame::answer(completion.token, completion.status);
            self.core.fail_member(drive, blame, fx);
        }
        if let Some(party) = self.device_flush.drive_flushed(&mut self.core, slot, fx) {
            self.answer_flush(party, fx);
        }
    }

    /// Repeats flushes that lost a drive, for the others say so now.
    fn repeat_device_flushes(&mut self, fx: &mut Effects) {
        for party in Party::ALL {
            if self.device_flush.repeat(&mut self.core, party, fx) {
                self.answer_flush(party, fx);
            }
        }
    }

    /// Tells everyone who waited for a round, and starts the next.
    fn answer_flush(&mut self, party: Party, fx: &mut Effects) {
        let mut is_over = true;
        while is_over {
            let mut waiters = self.device_flush.take_waiters(party);
            for waiter in waiters.drain(..) {
                self.flushed(waiter, fx);
            }
            self.device_flush.told(party, waiters);
            is_over = self.device_flush.start(&mut self.core, party, fx);
        }
    }

    /// What a waiter needs durable is.
    fn flushed(&mut self, waiter: FlushWaiter, fx: &mut Effects) {
        match waiter {
            FlushWaiter::Request(slot) => self.clients.flushed(&mut self.core, slot, fx),
            FlushWaiter::Gc => self.collector.gc_flushed(),
            FlushWaiter::Seal(segment) => self.reader.write_footers(&mut self.core, segment, fx),
            FlushWaiter::Fillers { segment, drive } => {
                self.reader.seal_zone(&mut self.core, segment, drive, fx)
            }
            FlushWaiter::Rebuild(lane) => self.member_rebuild.rebuild_answered(lane),
            FlushWaiter::Checkpoint(number) => self.checkpoints.flushed(number),
            FlushWaiter::Summary(due) => self.summaries.flushed(&mut self.core, due),
            FlushWaiter::Recovery => self.end_recovery(fx),
        }
    }

    /// Every piece is where it must be: index the blocks and answer who waits for them.
    fn on_stripe_durable(&mut self, slot: StripeSlot, fx: &mut Effects) {
        let stripe = self.stripes.slots.get_mut(slot);
        let (segment_slot, number) = (stripe.segment, stripe.stripe);
        // When too many members failed, that the last of them lacks its piece is recorded nowhere.
        let suffices = |lost| {
            let code = self.core.config.code();
            code.can_decode(code.pieces().without(lost))
        };
        let lost = !stripe.pieces_lost.is_empty()
            && (!suffices(stripe.pieces_lost) || self.core.membership.is_broken());
        debug_assert!(stripe.pieces_pending == 0, "every piece of stripe {number} is where it must be");
        if let Some(since) = stripe.alone_since.take() {
            let took = self.core.segments.time().since(since);
            let writer = &mut self.stripes.streams[stripe.stream.index()];
            writer.strain.note(took, writer.open.len());
        }
        let mut blocks = std::mem::take(&mut stripe.blocks);
        for piece in &mut stripe.pieces {
            self.core.frames.give_many(piece);
        }
        let layout = self.core.segments.get(segment_slot).layout;
        for (piece, chunk) in layout.code.data_pieces().zip(blocks.chunks(layout.chunk_blocks as usize)) {
            let drive = layout.drive_of(number, piece);
            let zone = self.core.segments.get(segment_slot).zones[drive];
            let offset = layout.slot_offset(self.stripes.slots.get(slot).landed_slots[piece.index()]);
            for (block, offset) in chunk.iter().zip(offset..) {
                let location = Location { drive: DriveIndex::at(drive), zone, offset };
                let pba = self.core.pba.pack(location);
                self.apply(block, pba, lost, fx);
            }
        }
        blocks.clear();
        self.stripes.slots.get_mut(slot).blocks = blocks;
        self.stripes.slots.give(slot);
        let mode = self.core.segments.get(segment_slot).mode;
        self.core.segments.writer_mut(segment_slot).finish_stripe(&layout, number, mode);
        if mode == WriteMode::Area {
            self.appender().pump_windows(segment_slot, fx);
        }
        self.note_for_summary(segment_slot, fx);
        self.appender().seal_segment_if_done(segment_slot, fx);
    }

    /// A stripe can be written nowhere: its requests fail.
    fn fail_stripe(&mut self, slot: StripeSlot, fx: &mut Effects) {
        self.clients.stripe_failed = true;
        let stripe = self.stripes.slots.get_mut(slot);
        assert!(stripe.pieces_pending == 0, "nothing of a stripe that fails is with a drive");
        let mut blocks = std::mem::take(&mut stripe.blocks);
        for piece in &mut stripe.pieces {
            self.core.frames.give_many(piece);
        }
        for block in &blocks {
            self.apply(block, Pba(u64::MAX), true, fx);
        }
        blocks.clear();
        self.stripes.slots.get_mut(slot).blocks = blocks;
        self.stripes.slots.give(slot);
    }

    /// Applies a block of a durable stripe (or of a lost one, when more drives failed than the array can lose: then
    /// nothing points to it and its request fails).
    fn apply(&mut self, block: &StripeBlock, pba: Pba, lost: bool, fx: &mut Effects) {
        match (block.origin, block.name) {
            (Origin::Request(request), Some(Name::Block(lba))) => {
                let sequence = if lost { 0 } else { block.protected.sequence };
                if self.clients.in_flight.complete(lba, sequence) {
                    let before = self.core.map(Name::Block(lba), pba);
                    before.into_iter().for_each(|stream| self.stripes.skew.overwrite(stream));
                    self.area.supersede(&mut self.core, lba, sequence);
                }
                self.core.release_group(lba, Holder::Client);
                self.request_block_done(request, lost, fx);
            }
            (Origin::Request(request), Some(Name::Tombstone(region))) => {
                if !lost {
                    self.core.map(Name::Tombstone(region), pba);
                    if self.core.index.groups().is_some() {
                        let blocks = self.clients.blocks_of_trim(&self.core, request, region);
                        return self.off_load.begin_unmapping(request, region, blocks);
                    }
                    self.clients.apply_trim(&mut self.core, request, region);
                }
                self.request_block_done(request, lost, fx);
            }
            (Origin::Slot(id), Some(Name::Block(_))) => {
                let at = (!lost).then_some(pba);
                if !self.end_refused(id, &block.protected, at, fx) {
                    self.area.moved(&mut self.core, id, &block.protected, at);
                }
            }
            (Origin::Slot(_), Some(_)) => unreachable!("slots hold blocks of the volume"),
            (Origin::Request(_), Some(Name::Mapping(_) | Name::Group(_))) => {
                unreachable!("clients write no parts of the index")
            }
            (Origin::Moved(from) | Origin::Repaired(from), Some(name)) => {
                assert!(self.collector.moves_pending > 0, "a move ends once");
                self.collector.moves_pending -= 1;
                // Overwritten or trimmed meanwhile: the copy is garbage where it lies.
                let is_newest = self.core.index.get(name) == Some(from);
                if !lost && is_newest {
                    self.core.map(name, pba);
                    self.core.counters.blocks_corrected += u64::from(block.origin == Origin::Repaired(from));
                }
                if let Name::Block(lba) = name {
                    self.core.release_group(lba, Holder::Collector);
                }
            }
            (Origin::Checkpoint, Some(name)) => {
                self.checkpoints.checkpoint_block_done(&mut self.core, name, pba, lost)
            }
            (Origin::Index, Some(Name::Group(group))) => {
                self.off_load.group_written(&mut self.core, group, pba, lost)
            }
            (Origin::IndexCopy(from), Some(Name::Group(group))) => {
                self.off_load.group_copied(&mut self.core, group, from, pba, lost)
            }
            (Origin::Padding | Origin::Summary, _) => {}
            (Origin::Index | Origin::IndexCopy(_), Some(_)) => unreachable!("the index consists of groups"),
            (_, None) => unreachable!("only padding has no name"),
        }
    }
}
