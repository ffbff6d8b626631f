//! Writes of less than a block, kept apart from all other writes.
//!
//! Such a write is a *merge*: read the block, patch it, write it back. Between its read and its
//! write nobody else may change the block, or an acknowledged write would be undone. The rule is
//! the simplest that is right: merges run only while no other write or trim is in flight, and
//! while merges wait or run, new writes and trims are held. Merges of different blocks run
//! together, merges of one block in turn. This is slow, and rare: file systems and databases
//! write whole blocks.
//!
//! ```text
//! writes in flight --drain--> merges (a batch) --done--> held writes --drain--> merges ...
//! ```
//!
//! Invariants: a merge is active => no other write is in flight; a write is held => a merge waits
//! or is active. The two take turns, so neither starves.
//!
//! The rule is one of the volume, not of a client or a core: there is one gate per volume, where
//! the volume is ([`Gated`]).

use super::backend::Backend;
use array::request::{Controlled, Outcome, Reply, Request, RequestId, RequestOp, Volume};
use base::frame::{Frame, FramePool};
use base::time::Instant;
use base::units::{BLOCK_BYTES, Lba};
use std::collections::VecDeque;

/// Merges that run together. More would hold more frames and find more neighbours in the way.
pub(crate) const MERGES_ACTIVE_MAX: usize = 64;

/// Marks the request ids of merges; the rest of the id is the place among the active ones.
const MERGE_ID: u64 = 1 << 63;

/// Marks the request ids of other writes and trims.
const CHANGE_ID: u64 = 1 << 62;

/// The ids of those who pass the gate are below this.
pub(crate) const IDS_END: u64 = CHANGE_ID;

/// A write of less than a block.
#[derive(Debug)]
pub(crate) struct Merge {
    /// Comes back with the reply.
    pub(crate) id: RequestId,
    pub(crate) lba: Lba,
    /// First byte to change.
    pub(crate) from: usize,
    /// End of the change: one past its last byte.
    pub(crate) to: usize,
    /// The new bytes, in their places within the block; `None` for zeros.
    pub(crate) payload: Option<Frame>,
    pub(crate) force_unit_access: bool,
}

/// A volume behind its gate.
pub(crate) struct Gated<'v> {
    volume: &'v mut dyn Controlled,
    gate: WriteGate,
}

impl<'v> Gated<'v> {
    /// Merges read into at most `merges_max` frames at a time.
    pub(crate) fn new(volume: &'v mut dyn Controlled, merges_max: usize) -> Gated<'v> {
        assert!((1..=MERGES_ACTIVE_MAX).contains(&merges_max), "{merges_max} merges at once");
        Gated { volume, gate: WriteGate { merges_max, ..WriteGate::default() } }
    }
}

impl Volume for Gated<'_> {
    fn blocks(&self) -> u64 {
        self.volume.blocks()
    }

    fn frames(&mut self) -> &mut FramePool {
        self.volume.frames()
    }

    fn client_frames_available(&self) -> usize {
        self.volume.client_frames_available()
    }

    fn submit(&mut self, now: Instant, request: Request) {
        match request.op {
            RequestOp::Write { .. } | RequestOp::Trim { .. } => self.gate.submit(now, self.volume, request),
            RequestOp::Read { .. } | RequestOp::Flush => self.volume.submit(now, request),
        }
    }

    fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool {
        assert!(replies.is_empty(), "all replies of a turn are the volume's");
        self.gate.advance(now, self.volume);
        let is_busy = self.volume.turn(now, replies);
        let has_replies = !replies.is_empty();
        replies.retain_mut(|reply| self.gate.on_reply(now, self.volume, reply));
        // The gate may have submitted something in return.
        is_busy || has_replies
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.volume.next_deadline()
    }

    fn awaits_drive(&self) -> bool {
        self.volume.awaits_drive()
    }

    fn has_ended(&self) -> bool {
        self.volume.has_ended()
    }

    fn may_sleep(&mut self) -> bool {
        self.volume.may_sleep()
    }
}

impl Backend for Gated<'_> {
    fn control(&mut self, now: Instant, line: &str) -> String {
        self.volume.control(now, line)
    }

    fn merge(&mut self, now: Instant, merge: Merge) {
        self.gate.merge(now, self.volume, merge);
    }
}

/// All writes and trims pass here.
#[derive(Debug, Default)]
struct WriteGate {
    merges_max: usize,
    writes_in_flight: usize,
    held: VecDeque<Request>,
    waiting: VecDeque<Merge>,
    active: Vec<Option<Merge>>,
    active_count: usize,
    held_are_next: bool,
}

impl WriteGate {
    /// Submits a write or trim, now or when the merges are through.
    fn submit(&mut self, now: Instant, volume: &mut dyn Volume, mut request: Request) {
        assert!(request.id.0 < IDS_END, "the bits of the gate are free: {:x}", request.id.0);
        request.id.0 |= CHANGE_ID;
        if self.active_count > 0 || !self.waiting.is_empty() {
            self.held.push_back(request);
        } else {
            self.writes_in_flight += 1;
            volume.submit(now, request);
        }
    }

    /// Settles what was waiting for this reply; false when it was for the gate alone.
    fn on_reply(&mut self, now: Instant, volume: &mut dyn Volume, reply: &mut Reply) -> bool {
        if reply.id.0 & MERGE_ID != 0 {
            return self.on_merge_reply(now, volume, reply);
        }
        if reply.id.0 & CHANGE_ID != 0 {
            reply.id.0 &= !CHANGE_ID;
            self.on_write_reply(now, volume);
        }
        true
    }

    /// A write or trim that passed the gate is answered.
    fn on_write_reply(&mut self, now: Instant, volume: &mut dyn Volume) {
        assert!(self.writes_in_flight > 0, "a write is answered once");
        assert!(self.active_count == 0, "no merge runs beside a write");
        self.writes_in_flight -= 1;
        self.advance(now, volume);
    }

    /// Queues a merge.
    fn merge(&mut self, now: Instant, volume: &mut dyn Volume, merge: Merge) {
        assert!(merge.from < merge.to && merge.to - merge.from < BLOCK_BYTES, "less than a block: {merge:?}");
        self.waiting.push_back(merge);
        self.advance(now, volume);
    }

    /// Starts what may start. Called after every event, because a batch may also wait for frames.
    fn advance(&mut self, now: Instant, volume: &mut dyn Volume) {
        if self.writes_in_flight > 0 || self.active_count > 0 {
            return;
        }
        if self.waiting.is_empty() || (self.held_are_next && !self.held.is_empty()) {
            self.held_are_next = false;
            self.writes_in_flight += self.held.len();
            for request in self.held.drain(..) {
                volume.submit(now, request);
            }
        } else {
            self.start_batch(now, volume);
        }
    }

    /// A request of an active merge is answered; true when that was its last, and `reply` is the
    /// merge's own.
    fn on_merge_reply(&mut self, now: Instant, volume: &mut dyn Volume, reply: &mut Reply) -> bool {
        let index = usize::try_from(reply.id.0 & !MERGE_ID).expect("an index we chose");
        if reply.outcome == Outcome::Done
            && let Some(frame) = reply.frames.first_mut()
        {
            let merge = self.active[index].as_mut().expect("replies come for active merges");
            let payload = patch(frame, merge);
            let frames = std::mem::take(&mut reply.frames);
            let op = RequestOp::Write { lba: merge.lba, frames, force_unit_access: merge.force_unit_access };
            if let Some(payload) = payload {
                volume.frames().give(payload);
            }
            volume.submit(now, Request { id: reply.id, op });
            return false;
        }
        let merge = self.active[index].take().expect("replies come for active merges");
        if let Some(payload) = merge.payload {
            volume.frames().give(payload);
        }
        volume.frames().give_many(&mut reply.frames);
        assert!(self.active_count > 0 && self.writes_in_flight == 0, "merges run while no write does");
        self.active_count -= 1;
        self.advance(now, volume);
        reply.id = merge.id;
        true
    }

    fn start_batch(&mut self, now: Instant, volume: &mut dyn Volume) {
        assert!(
            self.writes_in_flight == 0 && self.active_count == 0,
            "a batch begins when all else is through"
        );
        assert!(!self.waiting.is_empty(), "a batch is of merges");
        let count_max = self.merges_max.min(volume.client_frames_available());
        self.active.clear();
        for _ in 0..self.waiting.len() {
            let merge = self.waiting.pop_front().expect("the loop counts them");
            let block_is_taken = self.active.iter().flatten().any(|other| other.lba == merge.lba);
            if block_is_taken || self.active.len() == count_max {
                // Once around the queue, so that the order among those left over stays.
                self.waiting.push_back(merge);
                continue;
            }
            let index = u64::try_from(self.active.len()).expect("at most 64");
            let op = RequestOp::Read { lba: merge.lba, blocks: 1 };
            volume.submit(now, Request { id: RequestId(MERGE_ID | index), op });
            self.active.push(Some(merge));
        }
        assert!(self.active.len() <= self.merges_max, "no more merges than there are frames for");
        self.active_count = self.active.len();
        self.held_are_next = self.active_count > 0;
    }
}

/// Puts the merge's bytes into the block; returns the payload's frame, which is done with.
fn patch(frame: &mut Frame, merge: &mut Merge) -> Option<Frame> {
    let range = merge.from..merge.to;
    let payload = merge.payload.take();
    match &payload {
        Some(payload) => frame.data[range.clone()].copy_from_slice(&payload.data[range]),
        None => frame.data[range].fill(0),
    }
    payload
}
