//! Writes, trims and flushes of clients: admission, blocks and tombstones placed in stripes, and answers.
//!
//! ```text
//!  queue ─> admit: regions, group of the index, stream ─> place (`write.rs`) ─> .. StripeDurable .. ─> answer
//! ```
//! Requests start in order of arrival. A request that cannot go on (no stripe slot, its region is
//! being trimmed) holds those behind it, which keeps flushes and trims simple and starves nobody. Only a write that waits
//! for a group of the index is passed, by writes of other blocks.

use crate::engine::Effects;
use crate::log::Shard;
use crate::log::clients::Clients;
use crate::log::core::Core;
use crate::log::flush::FlushWaiter;
use crate::log::flush::Flushed;
use crate::log::index::groups::Holder;
use crate::log::index::groups::Residence;
use crate::log::index::{Name, Region};
use crate::log::policy::decision::Decision;
use crate::log::stripe::Origin;
use crate::log::trim::intersect;
use crate::log::write::Placement;
use crate::request::{Outcome, Reply, RequestId, RequestOp};
use base::checksum::crc32c;
use base::frame::Frame;
use base::time::Instant;
use base::units::Lba;
use std::ops::Range;
use zone::format::header::Stream;
use zone::format::oob::Kind;
use zone::format::oob::Protected;

/// Slot of a write, trim or flush on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSlot(u32);

impl From<u32> for RequestSlot {
    fn from(slot: u32) -> RequestSlot {
        RequestSlot(slot)
    }
}

impl From<RequestSlot> for u32 {
    fn from(slot: RequestSlot) -> u32 {
        slot.0
    }
}

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
        region_next: Region,
    },
    /// Wait for `writes_before` requests, then flush the drives.
    Flush {
        /// Requests that arrived earlier and are not durable.
        writes_before: u32,
    },
}

impl ClientRequest {
    /// Blocks that it writes.
    pub(super) fn blocks(&self) -> u64 {
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
    pub(super) fn regions(&self) -> Range<Region> {
        match &self.work {
            Work::Write { range, .. } | Work::Trim { range, .. } => {
                Region::of(range.start)..Region::of(range.end - 1).next()
            }
            Work::Flush { .. } => Region(0)..Region(0),
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

    fn admit_write(&mut self, slot: RequestSlot, passed: usize, now: Instant, fx: &mut Effects) -> Admitted {
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
            let placement = Placement {
                frame,
                protected,
                name: Some(Name::Block(lba)),
                origin: Origin::Request(slot),
                data_crc,
            };
            if let Some(placement) = self.write_to_slot(slot, placement, fx) {
                self.appender().place(stream, now, placement, fx);
            }
        }
        self.request_placed(slot, fx);
        Admitted::UnderWay
    }

    /// Returns the stream for the next block of a write, if it may be placed now.
    fn stream_of_next_block(&self, slot: RequestSlot) -> Option<Stream> {
        let ClientRequest { stream, force_unit_access, .. } = self.clients.requests.get(slot);
        if self.space().remainder_takes_clients() && !force_unit_access && !self.checkpoints.is_draining() {
            return Some(Stream::Gc);
        }
        self.may_place(*stream).then_some(*stream)
    }

    fn start_write(&mut self, slot: RequestSlot) {
        let blocks = self.clients.requests.get(slot).blocks();
        self.clients.demand.begin(blocks);
        let Work::Write { range, .. } = &self.clients.requests.get(slot).work else {
            unreachable!("a write")
        };
        let are_hot = self.clients.demand.note_lifetimes(range.clone());
        let stream = self.space().stream_of_write(blocks, are_hot);
        if self.core.decisions.are_wanted() {
            let stripe_blocks = self.stripes.streams[stream.index()].stripe_data_blocks;
            self.appender().note(Decision::Chunks { stream, stripe_blocks });
        }
        let request = self.clients.requests.get_mut(slot);
        debug_assert!(!request.started, "a write starts once");
        request.stream = stream;
        request.started = true;
        self.clients.writes_outstanding += 1;
    }

    /// All blocks of a request are in stripes. A client that waits for this very write gains nothing
    /// from waiting for company.
    pub(super) fn request_placed(&mut self, slot: RequestSlot, fx: &mut Effects) {
        if self.clients.requests.get(slot).force_unit_access {
            let stream = self.clients.requests.get(slot).stream;
            self.appender().seal_filling(stream, fx);
        }
        self.request_block_done(slot, false, fx);
    }

    /// The rest of a write cannot be indexed: it fails when what was placed is durable.
    fn request_lost(&mut self, slot: RequestSlot, fx: &mut Effects) {
        self.clients.requests.get_mut(slot).outcome = Outcome::IoError;
        self.clients.writes_failed = true;
        self.request_placed(slot, fx);
    }

    /// Closes the filling stripes of clients.
    pub(super) fn seal_clients(&mut self, fx: &mut Effects) {
        for stream in Stream::CLIENTS {
            self.appender().seal_filling(stream, fx);
        }
    }

    /// True when a client's block can be placed: a stripe is filling, or a slot is free and space
    /// is not so short that clients must wait for the collector; and no checkpoint waits to begin.
    pub(super) fn may_place(&self, stream: Stream) -> bool {
        let may_have = self.stripes.streams[stream.index()].filling.is_some()
            || self.stripes.slots.in_use(stream) < self.space().stripes_allowed(stream)
                && self.space().has_room_for_another(stream)
                && !self.space().clients_wait_for_victim();
        may_have && !self.checkpoints.is_draining()
    }

    pub(super) fn request_block_done(&mut self, slot: RequestSlot, lost: bool, fx: &mut Effects) {
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
    fn request_durable(&mut self, slot: RequestSlot, fx: &mut Effects) {
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
        assert!(self.clients.writes_outstanding > 0, "a write or trim is durable once");
        self.clients.writes_outstanding -= 1;
        self.flushes_notice(arrival, fx);
        if flush {
            self.flush_devices_for(slot, fx);
        } else {
            self.clients.answer(&mut self.core, slot, fx);
        }
    }

    /// A flush is at the head of the queue: everything before it is under way.
    pub(super) fn admit_flush(&mut self, slot: RequestSlot, fx: &mut Effects) -> bool {
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
                assert!(*writes_before > 0, "a flush waits for as many as came before it");
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
    fn flush_devices_for(&mut self, slot: RequestSlot, fx: &mut Effects) {
        if self.device_flush.ask(&mut self.core, FlushWaiter::Request(slot), fx) == Flushed::Now {
            self.clients.flushed(&mut self.core, slot, fx);
        }
    }

    /// Places the tombstones of a trim, as far as stripe slots allow. True when all are under way.
    pub(super) fn admit_trim(&mut self, slot: RequestSlot, now: Instant, fx: &mut Effects) -> bool {
        let request = self.clients.requests.get(slot);
        if !request.started {
            let regions = request.regions();
            if !self.clients.regions.enter_trim(regions.clone(), self.core.next_sequence) {
                // What keeps us out may wait for company in a stripe; and it may end at once, by failing.
                self.seal_clients(fx);
                if !self.clients.regions.enter_trim(regions, self.core.next_sequence) {
                    return false;
                }
            }
            self.clients.requests.get_mut(slot).started = true;
            self.clients.writes_outstanding += 1;
        }
        match self.leave_slots(slot, now, fx) {
            Some(true) => {}
            Some(false) => return false,
            None => {
                self.request_lost(slot, fx);
                return true;
            }
        }
        loop {
            let request = self.clients.requests.get(slot);
            let Work::Trim { range, region_next } = &request.work else { unreachable!("a trim") };
            let (range, region) = (range.clone(), *region_next);
            if region > Region::of(range.end - 1) {
                break;
            }
            if !self.may_place(self.core.config.stream_for(1)) {
                return false;
            }
            self.place_tombstone(slot, region, &range, now, fx);
            let Work::Trim { region_next, .. } = &mut self.clients.requests.get_mut(slot).work else {
                unreachable!("a trim")
            };
            *region_next = region.next();
        }
        self.request_placed(slot, fx);
        true
    }

    /// Writes the tombstone of one region, unless the trim changes nothing there.
    fn place_tombstone(
        &mut self,
        slot: RequestSlot,
        region: Region,
        range: &Range<u64>,
        now: Instant,
        fx: &mut Effects,
    ) {
        let blocks = intersect(range, &region.blocks(self.core.index.blocks()));
        assert!(!blocks.is_empty(), "a trim touches each of its regions");
        // A write that failed may be on the media all the same, and nothing else would hide it.
        if self.core.index.is_zeros(&blocks) && !self.clients.writes_failed {
            return;
        }
        let mut frame = self.core.frames.take();
        self.core.index.write_tombstone(region, range, &mut frame.data);
        let data_crc = crc32c(&frame.data);
        let protected = Protected { lba: region.0, sequence: self.core.next_sequence, kind: Kind::Tombstone };
        self.core.next_sequence += 1;
        self.clients.requests.get_mut(slot).blocks_pending += 1;
        self.core.counters.tombstone_blocks_written += 1;
        let name = Some(Name::Tombstone(region));
        let origin = Origin::Request(slot);
        let stream = self.core.config.stream_for(1);
        self.appender().place(stream, now, Placement { frame, protected, name, origin, data_crc }, fx);
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
                let region_next = Region::of(range.start);
                (Work::Trim { range, region_next }, force_unit_access)
            }
            RequestOp::Flush => (Work::Flush { writes_before: 0 }, true),
            RequestOp::Read { .. } => unreachable!("reads do not queue"),
        };
        if let Work::Write { range, .. } | Work::Trim { range, .. } = &work {
            debug_assert!(range.start < range.end, "a request is about blocks");
            debug_assert!(range.end <= core.index.blocks(), "block {} of {}", range.end, core.index.blocks());
        }
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
    fn must_not_pass(&self, slot: RequestSlot, first: usize) -> bool {
        let range = |slot: RequestSlot| match &self.requests.get(slot).work {
            Work::Write { range, .. } => range.clone(),
            Work::Trim { .. } | Work::Flush { .. } => 0..0,
        };
        let own = range(slot);
        let overlaps = |other: Range<u64>| own.start < other.end && other.start < own.end;
        let mut ahead = self.pending.iter().take(first);
        ahead.any(|other| overlaps(range(*other)))
    }

    /// The drives' caches are empty for a request.
    pub(super) fn flushed(&mut self, core: &mut Core, slot: RequestSlot, fx: &mut Effects) {
        if core.membership.is_broken() {
            self.requests.get_mut(slot).outcome = Outcome::IoError;
        }
        self.answer(core, slot, fx);
    }

    /// Replies to a write, trim or flush.
    pub(super) fn answer(&mut self, core: &mut Core, slot: RequestSlot, fx: &mut Effects) {
        let request = self.requests.remove(slot);
        let mut frames = match request.work {
            Work::Write { frames, .. } => frames,
            Work::Trim { .. } | Work::Flush { .. } => Vec::new(),
        };
        core.frames.give_many(&mut frames);
        fx.replies.push(Reply { id: request.id, outcome: request.outcome, frames });
    }
}
