//! The write path, top to bottom: admit, place, seal, bind (in `segment_life`), land, apply, answer.
//!
//! Requests start in order of arrival. A request that cannot go on (no stripe slot, its region is
//! being trimmed) holds those behind it, which keeps flushes and trims simple and starves nobody. Only a write that waits
//! for a group of the index is passed, by writes of other blocks.

use crate::log::clients::Clients;
use crate::log::core::Core;
use crate::log::flush::FlushWaiter;
use crate::log::flush::Flushed;
use crate::log::index::Name;
use crate::log::index::groups::{Holder, Residence};
use crate::log::segment::SegmentSlot;
use crate::log::stripe::Stripes;
use crate::log::stripe::{Origin, StripeBlock};
use crate::log::{Effects, Shard, Waiter, index};
use crate::request::{Outcome, Reply, RequestId, RequestOp};
use base::checksum::{crc32c, crc32c_zero_block};
use base::frame::Frame;
use base::time::Instant;
use base::units::{DriveIndex, Lba};
use base::xor::Block;
use std::ops::Range;
use zone::device::{Completion, Op, Status};
use zone::format::footer::Entry;
use zone::format::header::{Stream, WriteMode};
use zone::format::oob::{self, Kind, LBA_NONE, Protected, Role};

/// A write, trim or flush on its way.
#[derive(Debug)]
pub struct ClientRequest {
    pub(super) id: RequestId,
    pub(super) work: Work,
    /// Stream of a write, from when it is started.
    stream: Stream,
    /// Order of arrival.
    pub(super) arrival: u64,
    /// Set when the request holds its regions and counts as outstanding.
    pub(super) started: bool,
    /// Blocks in stripes that are not durable, and one until all of them are in stripes.
    pub(super) blocks_pending: u64,
    pub(super) force_unit_access: bool,
    pub(super) outcome: Outcome,
}

/// Work that a request still has to do.
#[derive(Debug)]
pub enum Work {
    /// Place these frames, the last one first, at the blocks from `next` on.
    Write {
        /// The whole range.
        range: Range<u64>,
        /// Frames not placed, in reverse.
        frames: Vec<Frame>,
    },
    /// Write tombstones for the regions from `region_next` on.
    Trim {
        /// The whole range.
        range: Range<u64>,
        /// Next region to write a tombstone for.
        region_next: u64,
    },
    /// Wait for `writes_before` requests, then flush the drives.
    Flush {
        /// Requests that arrived earlier and are not durable.
        writes_before: u32,
    },
}

impl ClientRequest {
    /// Blocks that it writes.
    fn blocks(&self) -> u64 {
        match &self.work {
            Work::Write { range, .. } => range.end - range.start,
            Work::Trim { .. } | Work::Flush { .. } => 0,
        }
    }

    /// The block of a write that is placed next.
    fn next_block(&self) -> Option<Lba> {
        let Work::Write { range, frames } = &self.work else { unreachable!("a write") };
        (!frames.is_empty()).then(|| Lba(range.end - frames.len() as u64))
    }

    /// Regions the request touches.
    pub(super) fn regions(&self) -> Range<u64> {
        match &self.work {
            Work::Write { range, .. } | Work::Trim { range, .. } => {
                index::region_of(range.start)..index::region_of(range.end - 1) + 1
            }
            Work::Flush { .. } => 0..0,
        }
    }
}

/// Result of an attempt to start a request.
enum Admitted {
    /// Wholly.
    UnderWay,
    /// The group of its next block is not in memory.
    WaitsForGroup,
    /// For a stripe, or for another request.
    Waits,
}

impl Admitted {
    fn wholly(under_way: bool) -> Admitted {
        if under_way { Admitted::UnderWay } else { Admitted::Waits }
    }
}

/// Writes or moves that wait for groups and are passed by others.
pub const PASSED_MAX: usize = 128;

/// A block on its way into a stripe.
pub struct Placement {
    /// Data of the block.
    pub frame: Frame,
    /// Metadata that parity protects.
    pub protected: Protected,
    /// Name of which the block is a copy, if any.
    pub name: Option<Name>,
    /// Why it is written.
    pub origin: Origin,
    /// Checksum of the data, where it is known already.
    pub data_crc: u32,
}

impl Shard {
    /// Starts waiting requests in order, as far as stripe slots, regions and groups of the index allow.
    pub(super) fn admit(&mut self, now: Instant, fx: &mut Effects) {
        let mut passed = 0;
        while let Some(slot) = self.clients.pending.get(passed).copied() {
            let admitted = match &self.clients.requests.get(slot).work {
                Work::Write { .. } => self.admit_write(slot, passed, now, fx),
                Work::Trim { .. } | Work::Flush { .. } if passed > 0 => return,
                Work::Trim { .. } => Admitted::wholly(self.admit_trim(slot, now, fx)),
                Work::Flush { .. } => Admitted::wholly(self.admit_flush(slot, fx)),
            };
            match admitted {
                Admitted::UnderWay if passed == 0 => _ = self.clients.pending.pop_front(),
                Admitted::UnderWay => _ = self.clients.pending.remove(passed),
                Admitted::WaitsForGroup if passed < PASSED_MAX => passed += 1,
                Admitted::WaitsForGroup | Admitted::Waits => return,
            }
        }
    }

    fn admit_write(&mut self, slot: u32, passed: usize, now: Instant, fx: &mut Effects) -> Admitted {
        if !self.clients.requests.get(slot).started {
            let regions = self.clients.requests.get(slot).regions();
            if !self.clients.regions.enter_write(regions, self.core.next_sequence) {
                return Admitted::Waits;
            }
            self.start_write(slot);
        }
        while let Some(lba) = self.clients.requests.get(slot).next_block() {
            let Some(stream) = self.stream_of_next_block(slot) else { return Admitted::Waits };
            match self.wish_to_hold(lba, Holder::Client, fx) {
                Residence::Here if passed > 0 && self.clients.must_not_pass(slot, passed) => {
                    return Admitted::Waits;
                }
                Residence::Here => self.core.hold_group(lba, Holder::Client),
                Residence::Lost => {
                    self.request_lost(slot, fx);
                    return Admitted::UnderWay;
                }
                Residence::Coming | Residence::Absent => return Admitted::WaitsForGroup,
            }
            let request = self.clients.requests.get_mut(slot);
            let Work::Write { frames, .. } = &mut request.work else { unreachable!("a write") };
            let frame = frames.pop().expect("it has a next block");
            request.blocks_pending += 1;
            let data_crc = crc32c(&frame.data);
            let protected = Protected { lba: lba.0, sequence: self.core.next_sequence, kind: Kind::User };
            self.clients.in_flight.begin(lba, self.core.next_sequence);
            self.core.next_sequence += 1;
            self.core.counters.user_blocks_written += 1;
            let name = Some(Name::Block(lba));
            self.place(
                stream,
                now,
                Placement { frame, protected, name, origin: Origin::Request(slot), data_crc },
                fx,
            );
        }
        self.request_placed(slot, fx);
        Admitted::UnderWay
    }

    /// Returns the stream for the next block of a write, if it may be placed now.
    fn stream_of_next_block(&self, slot: u32) -> Option<Stream> {
        let ClientRequest { stream, force_unit_access, .. } = self.clients.requests.get(slot);
        if self.space().remainder_waits() && !force_unit_access && !self.checkpoints.is_draining() {
            return Some(Stream::Gc);
        }
        self.may_place(*stream).then_some(*stream)
    }

    fn start_write(&mut self, slot: u32) {
        let blocks = self.clients.requests.get(slot).blocks();
        self.clients.demand.begin(blocks);
        let stream = self.space().stream_of_write(blocks);
        let request = self.clients.requests.get_mut(slot);
        request.stream = stream;
        request.started = true;
        self.clients.writes_outstanding += 1;
    }

    /// All blocks of a request are in stripes. A client that waits for this very write gains nothing
    /// from waiting for company.
    pub(super) fn request_placed(&mut self, slot: u32, fx: &mut Effects) {
        if self.clients.requests.get(slot).force_unit_access {
            self.seal_filling(self.clients.requests.get(slot).stream, fx);
        }
        self.request_block_done(slot, false, fx);
    }

    /// The rest of a write cannot be indexed: it fails when what was placed is durable.
    fn request_lost(&mut self, slot: u32, fx: &mut Effects) {
        self.clients.requests.get_mut(slot).outcome = Outcome::IoError;
        self.clients.writes_failed = true;
        self.request_placed(slot, fx);
    }

    /// Closes the filling stripes of clients.
    pub(super) fn seal_clients(&mut self, fx: &mut Effects) {
        for stream in Stream::CLIENTS {
            self.seal_filling(stream, fx);
        }
    }

    /// True when a client's block can be placed: a stripe is filling, or a slot is free and space
    /// is not so short that clients must wait for the collector; and no checkpoint waits to begin.
    pub(super) fn may_place(&self, stream: Stream) -> bool {
        let may_have = self.stripes.streams[stream.index()].filling.is_some()
            || self.stripes.slots.in_use(stream) < self.space().stripes_allowed(stream)
                && !self.space().clients_wait_for_victim();
        may_have && !self.checkpoints.is_draining()
    }

    /// Puts a block into the filling stripe of a stream; the caller has made sure there is room.
    pub(super) fn place(&mut self, stream: Stream, now: Instant, placement: Placement, fx: &mut Effects) {
        let Placement { mut frame, protected, name, origin, data_crc } = placement;
        let slot = match self.stripes.stream(stream).filling {
            Some(slot) => slot,
            None => self.stripes.slots.take(stream, now).expect("the caller checked for a free stripe slot"),
        };
        self.stripes.stream(stream).filling = Some(slot);
        let chunk_blocks = self.stripes.stream(stream).chunk_blocks as usize;
        let stripe = self.stripes.slots.get_mut(slot);
        *oob::protected_mut(&mut frame.oob) = protected.to_bytes();
        let piece = stripe.blocks.len() / chunk_blocks;
        stripe.pieces[piece].push(frame);
        stripe.blocks.push(StripeBlock { protected, name, origin, data_crc });
        if stripe.blocks.len() == self.stripes.stream(stream).stripe_data_blocks as usize {
            self.seal_filling(stream, fx);
        }
    }

    /// Puts a part of the index into the filling stripe of a stream, under a name of its own; the caller has made sure
    /// there is room.
    pub(super) fn place_mapping_block(
        &mut self,
        stream: Stream,
        now: Instant,
        (frame, name, origin): (Frame, Name, Origin),
        fx: &mut Effects,
    ) {
        let protected = Protected { lba: name.lba(), sequence: self.core.next_sequence, kind: Kind::Mapping };
        self.core.next_sequence += 1;
        let data_crc = crc32c(&frame.data);
        self.place(stream, now, Placement { frame, protected, name: Some(name), origin, data_crc }, fx);
    }

    /// Closes the filling stripe of a stream: padding, parity, and off to a segment.
    pub(super) fn seal_filling(&mut self, stream: Stream, fx: &mut Effects) {
        let Some(slot) = self.stripes.stream(stream).filling.take() else { return };
        if self.recut(slot, fx) {
            return;
        }
        self.stripes.pad(&mut self.core, slot, stream);
        self.stripes.encode(&mut self.core, slot);
        self.stripes.stream(stream).sealed.push_back(slot);
        self.pump_stream(stream, fx);
    }

    /// A stripe is to be closed. One of large chunks moves its blocks to one of small chunks if that holds them; true
    /// when it did.
    fn recut(&mut self, slot: u32, fx: &mut Effects) -> bool {
        if !self.stripes.can_recut(&self.core, slot) {
            return false;
        }
        self.regather(slot, Stream::Small, fx);
        self.seal_filling(Stream::Small, fx);
        true
    }

    /// A drive has written (or failed to write) a piece of a stripe, and those that were joined to it.
    pub(super) fn on_chunk(
        &mut self,
        (slot, part): (u32, u32),
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        let Completion { status, offset, mut frames, .. } = completion;
        let segment = self.core.segments.get_mut(self.stripes.slots.get(slot).segment);
        let first = segment.layout.chunk_blocks as usize;
        let writer = segment.writer.as_mut().expect("stripes are in flight");
        let joined = match segment.mode {
            WriteMode::Append => Vec::new(),
            WriteMode::Write => std::mem::take(&mut writer.zones[drive].joined),
        };
        for chunk in &joined {
            let own = &mut self.stripes.slots.get_mut(chunk.slot).pieces[chunk.piece as usize];
            own.extend(frames.drain(first..2 * first));
        }
        self.stripes.slots.get_mut(slot).pieces[part as usize] = frames;
        self.on_piece((slot, part as usize), drive, (status, offset), fx);
        for chunk in joined {
            self.on_piece((chunk.slot, chunk.piece as usize), drive, (status, offset), fx);
        }
    }

    /// A piece of a stripe was written, or was not.
    fn on_piece(
        &mut self,
        (slot, piece): (u32, usize),
        drive: usize,
        (status, offset): (Status, u32),
        fx: &mut Effects,
    ) {
        let stripe = self.stripes.slots.get_mut(slot);
        let (segment_slot, number) = (stripe.segment, stripe.stripe);
        let segment = self.core.segments.get_mut(segment_slot);
        let layout = &segment.layout;
        let group = layout.group_of(number);
        let refused = status != Status::Success;
        let landed = match segment.mode {
            _ if refused => None,
            WriteMode::Write => Some(number),
            WriteMode::Append => layout
                .slot_at(offset)
                .and_then(|(at, row)| (row == 0 && layout.group_of(at) == group).then_some(at)),
        };
        match landed {
            Some(landed) if self.core.membership.has_zone(segment, drive) => {
                let role = if piece < layout.code.data_count() { Role::Data } else { Role::Parity };
                let rows = stripe.pieces[piece].iter().map(|frame| {
                    Entry::from_protected(&frame.oob, role, number).expect("metadata this engine wrote")
                });
                let zone = &mut segment.writer.as_mut().expect("stripes are in flight").zones[drive];
                zone.land(layout, landed, rows);
                let has_more = !zone.waiting.is_empty();
                if let Some(table) = &mut segment.table {
                    table.set(drive, landed, number - layout.group_start(group));
                }
                stripe.landed_slots[piece] = landed;
                // Mostly not: a call for each chunk would cost a write some thirty instructions.
                if has_more {
                    self.pump_zone(segment_slot, drive, fx);
                }
            }
            // A write error, a drive that is gone, or one that placed a chunk outside its group: the
            // drive no longer holds its part of this stripe and must not be believed.
            _ => {
                self.fail_member(drive, fx);
                self.stripes.lose_piece(&mut self.core, slot, piece, drive);
            }
        }
        self.piece_done(slot, fx);
    }

    /// Notes that a stripe has one piece less to wait for.
    pub(super) fn piece_done(&mut self, slot: u32, fx: &mut Effects) {
        let stripe = self.stripes.slots.get_mut(slot);
        assert!(stripe.pieces_pending > 0);
        stripe.pieces_pending -= 1;
        if stripe.pieces_pending > 0 {
            return;
        }
        // Without a piece, the stripe counts only once the superblocks say that its drive is out.
        if !stripe.pieces_lost.is_empty() && self.core.membership.is_changing() {
            self.core.membership.stripes_waiting.push(slot);
        } else {
            self.on_stripe_durable(slot, fx);
        }
    }

    /// Every piece is where it must be: index the blocks and answer who waits for them.
    pub(super) fn on_stripe_durable(&mut self, slot: u32, fx: &mut Effects) {
        let stripe = self.stripes.slots.get_mut(slot);
        let (segment_slot, number) = (stripe.segment, stripe.stripe);
        // When too many members failed, that the last of them lacks its piece is recorded nowhere.
        let suffices = |lost| {
            let code = self.core.config.code();
            code.can_decode(code.pieces().without(lost))
        };
        let lost = !stripe.pieces_lost.is_empty()
            && (!suffices(stripe.pieces_lost) || self.core.membership.is_broken());
        let mut blocks = std::mem::take(&mut stripe.blocks);
        for piece in &mut stripe.pieces {
            self.core.frames.give_many(piece);
        }
        let layout = self.core.segments.get(segment_slot).layout;
        for (piece, chunk) in blocks.chunks(layout.chunk_blocks as usize).enumerate() {
            let drive = layout.drive_of(number, piece);
            let zone = self.core.segments.get(segment_slot).zones[drive];
            let offset = layout.slot_offset(self.stripes.slots.get(slot).landed_slots[piece]);
            for (block, offset) in chunk.iter().zip(offset..) {
                let location = super::Location { drive: DriveIndex::at(drive), zone, offset };
                let pba = self.core.pba.pack(location);
                self.apply(block, pba, lost, fx);
            }
        }
        blocks.clear();
        self.stripes.slots.get_mut(slot).blocks = blocks;
        self.stripes.slots.give(slot);
        self.core.segments.writer_mut(segment_slot).finish_stripe(&layout, number);
        self.note_for_summary(segment_slot, fx);
        self.seal_segment_if_done(segment_slot, fx);
    }

    /// A stripe can be written nowhere: its requests fail.
    pub(super) fn fail_stripe(&mut self, slot: u32, fx: &mut Effects) {
        self.clients.stripe_failed = true;
        let stripe = self.stripes.slots.get_mut(slot);
        let mut blocks = std::mem::take(&mut stripe.blocks);
        for piece in &mut stripe.pieces {
            self.core.frames.give_many(piece);
        }
        for block in &blocks {
            self.apply(block, super::Pba(u64::MAX), true, fx);
        }
        blocks.clear();
        self.stripes.slots.get_mut(slot).blocks = blocks;
        self.stripes.slots.give(slot);
    }

    /// Applies a block of a durable stripe (or of a lost one, when more drives failed than the array can lose: then
    /// nothing points to it and its request fails).
    fn apply(&mut self, block: &StripeBlock, pba: super::Pba, lost: bool, fx: &mut Effects) {
        match (block.origin, block.name) {
            (Origin::Request(request), Some(Name::Block(lba))) => {
                let sequence = if lost { 0 } else { block.protected.sequence };
                if self.clients.in_flight.complete(lba, sequence) {
                    let before = self.core.map(Name::Block(lba), pba);
                    before.into_iter().for_each(|stream| self.stripes.skew.overwrite(stream));
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
            (Origin::Request(_), Some(Name::Mapping(_) | Name::Group(_))) => {
                unreachable!("clients write no parts of the index")
            }
            (Origin::Moved(from) | Origin::Repaired(from), Some(name)) => {
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

    pub(super) fn request_block_done(&mut self, slot: u32, lost: bool, fx: &mut Effects) {
        let request = self.clients.requests.get_mut(slot);
        assert!(request.blocks_pending > 0);
        request.blocks_pending -= 1;
        if lost {
            request.outcome = Outcome::IoError;
            self.clients.writes_failed = true;
        }
        if request.blocks_pending == 0 {
            self.request_durable(slot, fx);
        }
    }

    /// All of a write or trim is durable: release its regions, tell the flushes that wait for
    /// it, and answer, after a device flush if it asked for one.
    fn request_durable(&mut self, slot: u32, fx: &mut Effects) {
        let request = self.clients.requests.get(slot);
        let (regions, arrival, flush) = (request.regions(), request.arrival, request.force_unit_access);
        match &request.work {
            Work::Write { range, .. } => {
                self.clients.demand.end(range.end - range.start);
                self.clients.regions.leave_write(regions);
            }
            Work::Trim { .. } => self.clients.regions.leave_trim(regions),
            Work::Flush { .. } => unreachable!("flushes hold no blocks"),
        }
        self.clients.writes_outstanding -= 1;
        self.flushes_notice(arrival, fx);
        if flush {
            self.flush_devices_for(slot, fx);
        } else {
            self.clients.answer(&mut self.core, slot, fx);
        }
    }

    /// A flush is at the head of the queue: everything before it is under way.
    pub(super) fn admit_flush(&mut self, slot: u32, fx: &mut Effects) -> bool {
        self.seal_clients(fx);
        let writes_before = self.clients.writes_outstanding;
        self.clients.requests.get_mut(slot).work = Work::Flush { writes_before };
        if writes_before == 0 {
            self.flush_devices_for(slot, fx);
        } else {
            self.clients.flushes_waiting.push(slot);
        }
        true
    }

    /// A write or trim that arrived as number `arrival` is durable.
    pub(super) fn flushes_notice(&mut self, arrival: u64, fx: &mut Effects) {
        let mut index = 0;
        while index < self.clients.flushes_waiting.len() {
            let slot = self.clients.flushes_waiting[index];
            let request = self.clients.requests.get_mut(slot);
            let Work::Flush { writes_before } = &mut request.work else { unreachable!("a flush") };
            if arrival < request.arrival {
                *writes_before -= 1;
            }
            if *writes_before == 0 {
                self.clients.flushes_waiting.swap_remove(index);
                self.flush_devices_for(slot, fx);
            } else {
                index += 1;
            }
        }
    }

    /// Answers a request after a device flush.
    fn flush_devices_for(&mut self, slot: u32, fx: &mut Effects) {
        if self.device_flush.ask(&mut self.core, FlushWaiter::Request(slot), fx) == Flushed::Now {
            self.clients.flushed(&mut self.core, slot, fx);
        }
    }

    /// Hands the chunks of a zone to its drive, as many as its rule allows.
    pub(super) fn pump_zone(&mut self, segment_slot: u32, drive: usize, fx: &mut Effects) {
        while let Some(chunk) = self.core.segments.get_mut(segment_slot).next_chunk(drive) {
            let mut frames =
                std::mem::take(&mut self.stripes.slots.get_mut(chunk.slot).pieces[chunk.piece as usize]);
            let segment = self.core.segments.get(segment_slot);
            let zone = segment.zones[drive];
            let op = match segment.mode {
                WriteMode::Append => Op::Append { frames },
                WriteMode::Write => {
                    let offset = segment.layout.slot_offset(chunk.stripe);
                    self.join_chunks(segment_slot, drive, chunk.stripe, &mut frames);
                    Op::Write { offset, frames }
                }
            };
            fx.command(drive, zone, Waiter::Chunk { slot: chunk.slot, part: chunk.piece }, op);
        }
    }

    /// Chunks that wait for a zone behind the one of `stripe` go along in its command, as many as one may have.
    #[inline(never)] // Kept out of the way of chunks that go alone: 40 instructions of each.
    fn join_chunks(&mut self, segment_slot: SegmentSlot, drive: usize, stripe: u32, frames: &mut Vec<Frame>) {
        if self.core.segments.writer_mut(segment_slot).zones[drive].waiting.is_empty() {
            return;
        }
        let blocks_max = self.space().joined_blocks_max(self.core.segments.get(segment_slot).stream) as usize;
        let zone = &mut self.core.segments.writer_mut(segment_slot).zones[drive];
        let chunk_blocks = frames.len();
        let mut last = stripe;
        while frames.len() + chunk_blocks <= blocks_max
            && let Some(next) = zone.next_joined(last)
        {
            frames.append(&mut self.stripes.slots.get_mut(next.slot).pieces[next.piece as usize]);
            last = next.stripe;
        }
    }
}

impl Clients {
    /// A write, trim or flush joins the queue.
    pub(super) fn enqueue(&mut self, core: &mut Core, id: RequestId, op: RequestOp) {
        let (work, force_unit_access) = match op {
            RequestOp::Write { lba, mut frames, force_unit_access } => {
                let range = lba.0..lba.0 + frames.len() as u64;
                frames.reverse();
                (Work::Write { range, frames }, force_unit_access)
            }
            RequestOp::Trim { lba, blocks, force_unit_access } => {
                let range = lba.0..lba.0 + blocks;
                let region_next = index::region_of(range.start);
                (Work::Trim { range, region_next }, force_unit_access)
            }
            RequestOp::Flush => (Work::Flush { writes_before: 0 }, true),
            RequestOp::Read { .. } => unreachable!("reads do not queue"),
        };
        self.demand.came();
        let arrival = self.next_arrival;
        self.next_arrival += 1;
        let slot = self.requests.insert(ClientRequest {
            id,
            work,
            stream: core.config.stream_for(1),
            arrival,
            started: false,
            blocks_pending: 1,
            force_unit_access,
            outcome: Outcome::Done,
        });
        self.pending.push_back(slot);
    }

    /// True when one of the first pending writes has blocks in common with another: that keeps its place.
    fn must_not_pass(&self, slot: u32, first: usize) -> bool {
        let range = |slot: u32| match &self.requests.get(slot).work {
            Work::Write { range, .. } => range.clone(),
            Work::Trim { .. } | Work::Flush { .. } => 0..0,
        };
        let own = range(slot);
        let overlaps = |other: Range<u64>| own.start < other.end && other.start < own.end;
        let mut ahead = self.pending.iter().take(first);
        ahead.any(|other| overlaps(range(*other)))
    }

    /// The drives' caches are empty for a request.
    pub(super) fn flushed(&mut self, core: &mut Core, slot: u32, fx: &mut Effects) {
        if core.membership.is_broken() {
            self.requests.get_mut(slot).outcome = Outcome::IoError;
        }
        self.answer(core, slot, fx);
    }

    /// Replies to a write, trim or flush.
    pub(super) fn answer(&mut self, core: &mut Core, slot: u32, fx: &mut Effects) {
        let request = self.requests.remove(slot);
        let mut frames = match request.work {
            Work::Write { frames, .. } => frames,
            Work::Trim { .. } | Work::Flush { .. } => Vec::new(),
        };
        core.frames.give_many(&mut frames);
        fx.replies.push(Reply { id: request.id, outcome: request.outcome, frames });
    }
}

impl Stripes {
    pub(super) fn pad(&mut self, core: &mut Core, slot: u32, stream: Stream) {
        let blocks = self.stream(stream).stripe_data_blocks as usize;
        let chunk_blocks = self.stream(stream).chunk_blocks as usize;
        let stripe = self.slots.get_mut(slot);
        while stripe.blocks.len() < blocks {
            let mut frame = core.frames.take();
            frame.data.fill(0);
            *oob::protected_mut(&mut frame.oob) = Protected::PADDING.to_bytes();
            stripe.pieces[stripe.blocks.len() / chunk_blocks].push(frame);
            stripe.blocks.push(StripeBlock {
                protected: Protected::PADDING,
                name: None,
                origin: Origin::Padding,
                data_crc: crc32c_zero_block(),
            });
            core.counters.padding_blocks_written += 1;
        }
    }

    /// Computes the parity pieces of a full stripe, data and protected metadata alike.
    pub(super) fn encode(&mut self, core: &mut Core, slot: u32) {
        let code = core.config.code();
        let stripe = self.slots.get_mut(slot);
        let (data, parities) = stripe.pieces.split_at_mut(code.data_count());
        for (parity, piece) in parities.iter_mut().enumerate() {
            for row in 0..data[0].len() {
                let mut frame = core.frames.take();
                let mut sources: [&Block; base::erasure::PIECES_MAX] =
                    [&data[0][row].data; base::erasure::PIECES_MAX];
                for (source, piece) in sources.iter_mut().zip(data.iter()) {
                    *source = &piece[row].data;
                }
                code.encode(parity, &sources[..code.data_count()], &mut frame.data);
                let fields = data.iter().map(|piece| oob::protected(&piece[row].oob));
                code.encode_field(parity, fields, oob::protected_mut(&mut frame.oob));
                piece.push(frame);
                core.counters.parity_blocks_written += 1;
            }
        }
    }

    /// A piece of a stripe is on no active drive. It still gets a slot, for the index to point to.
    pub(super) fn lose_piece(&mut self, core: &mut Core, slot: u32, piece: usize, drive: usize) {
        let stripe = self.slots.get_mut(slot);
        stripe.pieces_lost.insert(piece);
        stripe.landed_slots[piece] =
            core.segments.get_mut(stripe.segment).place_missing(drive, stripe.stripe);
    }
}

const _: () = assert!(LBA_NONE == u64::MAX);
