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

use array::request::{Outcome, Reply, Request, RequestId, RequestOp, Volume};
use base::frame::Frame;
use base::time::Instant;
use base::units::Lba;
use std::collections::VecDeque;

/// Merges that run together. More would hold more frames and find more neighbours in the way.
const MERGES_ACTIVE_MAX: usize = 64;

/// Marks the request ids of merges; the rest of the id is the place among the active ones.
pub(crate) const MERGE_ID: u64 = 1 << 63;

/// A write of less than a block.
#[derive(Debug)]
pub(crate) struct Merge {
    /// Whose part it is; comes back when it is done.
    pub(crate) operation: u32,
    pub(crate) lba: Lba,
    /// First byte to change.
    pub(crate) from: usize,
    /// One past the last byte to change.
    pub(crate) to: usize,
    /// The new bytes, in their places within the block; `None` for zeros.
    pub(crate) payload: Option<Frame>,
    pub(crate) force_unit_access: bool,
}

/// A merge that has come to its end.
#[derive(Debug)]
pub(crate) struct MergeDone {
    pub(crate) operation: u32,
    pub(crate) outcome: Outcome,
}

/// All writes and trims pass here.
#[derive(Debug, Default)]
pub(crate) struct WriteGate {
    writes_in_flight: usize,
    held: VecDeque<Request>,
    waiting: VecDeque<Merge>,
    active: Vec<Option<Merge>>,
    active_count: usize,
    held_are_next: bool,
}

impl WriteGate {
    /// Submits a write or trim, now or when the merges are through.
    pub(crate) fn submit(&mut self, now: Instant, volume: &mut dyn Volume, request: Request) {
        if self.active_count > 0 || !self.waiting.is_empty() {
            self.held.push_back(request);
        } else {
            self.writes_in_flight += 1;
            volume.submit(now, request);
        }
    }

    /// A write or trim that passed the gate is answered.
    pub(crate) fn on_write_reply(&mut self, now: Instant, volume: &mut dyn Volume) {
        assert!(self.writes_in_flight > 0);
        self.writes_in_flight -= 1;
        self.advance(now, volume);
    }

    /// Queues a merge.
    pub(crate) fn merge(&mut self, now: Instant, volume: &mut dyn Volume, merge: Merge) {
        self.waiting.push_back(merge);
        self.advance(now, volume);
    }

    /// Starts what may start. Called after every event, because a batch may also wait for frames.
    pub(crate) fn advance(&mut self, now: Instant, volume: &mut dyn Volume) {
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

    /// A request of an active merge is answered.
    pub(crate) fn on_merge_reply(
        &mut self,
        now: Instant,
        volume: &mut dyn Volume,
        mut reply: Reply,
    ) -> Option<MergeDone> {
        let index = usize::try_from(reply.id.0 & !MERGE_ID).expect("an index we chose");
        if reply.outcome == Outcome::Done
            && let Some(frame) = reply.frames.first_mut()
        {
            let merge = self.active[index].as_mut().expect("replies come for active merges");
            let payload = patch(frame, merge);
            let op = RequestOp::Write {
                lba: merge.lba,
                frames: reply.frames,
                force_unit_access: merge.force_unit_access,
            };
            if let Some(payload) = payload {
                volume.frames().give(payload);
            }
            volume.submit(now, Request { id: reply.id, op });
            return None;
        }
        let merge = self.active[index].take().expect("replies come for active merges");
        if let Some(payload) = merge.payload {
            volume.frames().give(payload);
        }
        volume.frames().give_many(&mut reply.frames);
        self.active_count -= 1;
        self.advance(now, volume);
        Some(MergeDone { operation: merge.operation, outcome: reply.outcome })
    }

    fn start_batch(&mut self, now: Instant, volume: &mut dyn Volume) {
        let count_max = MERGES_ACTIVE_MAX.min(volume.client_frames_available());
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
