//! Answers: writes until they have ended, and flushes that wait for the writes before them.

use crate::member::Members;
use array::engine::Effects;
use array::request::{Outcome, Reply, RequestId};
use base::slab::Slab;
use std::collections::{BTreeSet, VecDeque};

/// A write on its way.
#[derive(Debug)]
struct WriteRequest {
    id: RequestId,
    arrival: u64,
    /// Spans that wait, and one more until all of it is placed.
    pending: u32,
    outcome: Outcome,
}

/// Requests that change something and were not answered.
#[derive(Debug, Default)]
pub struct Answers {
    writes: Slab<WriteRequest>,
    /// Writes that have ended and are not answered.
    ended: Vec<u32>,
    /// Arrivals of writes and resets that are not answered.
    outstanding: BTreeSet<u64>,
    flushes: VecDeque<(u64, RequestId)>,
    arrivals: u64,
}

impl Answers {
    /// True when nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.flushes.is_empty()
    }

    /// Writes and flushes that wait.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        (self.writes.len(), self.flushes.len())
    }

    /// The number of a request that has arrived: flushes after it wait until it is answered.
    pub fn arrive(&mut self) -> u64 {
        self.arrivals += 1;
        let arrival = self.arrivals;
        self.outstanding.insert(arrival);
        arrival
    }

    /// A request that has arrived is answered.
    ///
    /// # Panics
    /// When it was before.
    pub fn end(&mut self, arrival: u64) {
        let was_outstanding = self.outstanding.remove(&arrival);
        assert!(was_outstanding, "request {arrival} is answered twice");
    }

    /// A write has arrived; returns its slot. One part of it is not placed.
    pub fn begin_write(&mut self, id: RequestId) -> u32 {
        let arrival = self.arrive();
        self.writes.insert(WriteRequest { id, arrival, pending: 1, outcome: Outcome::Done })
    }

    /// Begins another part of a write.
    pub fn begin_part(&mut self, write: u32) {
        let pending = &mut self.writes.get_mut(write).pending;
        assert!(*pending > 0, "a write that has ended takes no more parts");
        *pending += 1;
    }

    /// A part of a write has ended; the write with its last part.
    ///
    /// # Panics
    /// When the part had.
    pub fn end_part(&mut self, write: u32, is_broken: bool) {
        let request = self.writes.get_mut(write);
        assert!(request.pending > 0, "a part of a write ends once");
        request.pending -= 1;
        if request.pending == 0 {
            if is_broken {
                self.writes.get_mut(write).outcome = Outcome::IoError;
            }
            self.ended.push(write);
        }
    }

    /// Answers writes that have ended, unless a failure is being recorded: until then a drive that missed them
    /// could be believed.
    pub fn settle(&mut self, members: &Members, fx: &mut Effects) {
        if members.fence > 0 {
            return;
        }
        for write in std::mem::take(&mut self.ended) {
            let WriteRequest { id, arrival, outcome, .. } = self.writes.remove(write);
            self.end(arrival);
            fx.replies.push(Reply { id, outcome, frames: Vec::new() });
        }
        let first = self.outstanding.first().copied().unwrap_or(u64::MAX);
        while let Some((arrival, id)) = self.flushes.front().copied()
            && arrival < first
        {
            self.flushes.pop_front();
            let outcome = if members.broken.is_some() { Outcome::IoError } else { Outcome::Done };
            fx.replies.push(Reply { id, outcome, frames: Vec::new() });
        }
    }

    /// A flush waits for everything that has arrived.
    pub fn flush(&mut self, id: RequestId) {
        self.flushes.push_back((self.arrivals, id));
    }
}
