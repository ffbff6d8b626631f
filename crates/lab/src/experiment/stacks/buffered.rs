//! A write buffer in volatile memory before an array, as large as the windows of BIZA's drives. **A power failure takes what it holds**,
//! acknowledged and flushed or not.
//!
//! Writes are answered when they are in memory, which takes no time, and so are flushes. What was not written for longest leaves
//! first, with its neighbours in the stripe; blocks that are written again before are absorbed.

use super::super::rig::{Answer, Array, Ask};
use super::Counted;
use super::Meter;
use anyhow::Result;
use base::time::{Instant, Nanos};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Blocks of the buffer: 56 MiB.
pub(super) const BLOCKS_MAX: usize = 56 << 8;
/// Blocks from which on some leave.
const BLOCKS_LEAVE: usize = BLOCKS_MAX / 8 * 7;
/// Writes of the array that are under way at most.
const WRITES_MAX: usize = 64;
/// Blocks of a stripe of three chunks of 64 KiB.
const STRIPE_BLOCKS: u64 = 48;

/// Waiter for a request of the array below.
#[derive(Clone, Copy, Debug)]
enum Waits {
    /// Blocks that leave.
    Leaving { stripe: u64, blocks: usize },
    /// A client's read.
    Read(u64),
}

/// The buffer and its array.
pub(super) struct Buffered<A> {
    below: A,
    /// Blocks, and the order in which they were written last.
    held: BTreeMap<u64, u64>,
    oldest: BTreeMap<u64, u64>,
    next_order: u64,
    /// Blocks that are on their way down, which still take room, and their stripes.
    leaving_blocks: usize,
    leaving: BTreeSet<u64>,
    under_way: BTreeMap<u64, Waits>,
    /// Writes that wait for room.
    waiting: VecDeque<(u64, Ask)>,
    ready: Vec<u64>,
    next_id: u64,
    user_blocks: u64,
}

impl<A: Counted> Buffered<A> {
    pub(super) fn new(below: A) -> Buffered<A> {
        Buffered {
            below,
            held: BTreeMap::new(),
            oldest: BTreeMap::new(),
            next_order: 0,
            leaving_blocks: 0,
            leaving: BTreeSet::new(),
            under_way: BTreeMap::new(),
            waiting: VecDeque::new(),
            ready: Vec::new(),
            next_id: 0,
            user_blocks: 0,
        }
    }

    /// Takes in what there is room for, and sends away what is old.
    fn advance(&mut self) {
        while let Some((id, ask)) = self.waiting.front().copied() {
            let new = (ask.lba..ask.lba + u64::from(ask.blocks)).filter(|lba| !self.held.contains_key(lba));
            if self.held.len() + self.leaving_blocks + new.count() > BLOCKS_MAX {
                break;
            }
            self.waiting.pop_front();
            (ask.lba..ask.lba + u64::from(ask.blocks)).for_each(|lba| self.hold(lba));
            self.ready.push(id);
        }
        while self.held.len() + self.leaving_blocks > BLOCKS_LEAVE && self.leaving.len() < WRITES_MAX {
            let is_free = |lba: &u64| !self.leaving.contains(&(lba / STRIPE_BLOCKS));
            let Some(lba) = self.oldest.values().copied().find(is_free) else { break };
            self.send_away(lba);
        }
    }

    fn hold(&mut self, lba: u64) {
        self.next_order += 1;
        if let Some(order) = self.held.insert(lba, self.next_order) {
            self.oldest.remove(&order);
        }
        self.oldest.insert(self.next_order, lba);
    }

    /// Writes a block with the neighbours that are held in its stripe.
    fn send_away(&mut self, lba: u64) {
        let stripe = lba / STRIPE_BLOCKS;
        let mut first = lba;
        while first > stripe * STRIPE_BLOCKS && self.held.contains_key(&(first - 1)) {
            first -= 1;
        }
        let mut end = lba + 1;
        while end < (stripe + 1) * STRIPE_BLOCKS && self.held.contains_key(&end) {
            end += 1;
        }
        for lba in first..end {
            let order = self.held.remove(&lba).expect("it was looked at");
            self.oldest.remove(&order);
        }
        let blocks = u32::try_from(end - first).expect("at most a stripe");
        let id = self.below.submit(Ask { writes: true, lba: first, blocks });
        self.leaving.insert(stripe);
        self.leaving_blocks += blocks as usize;
        self.under_way.insert(id, Waits::Leaving { stripe, blocks: blocks as usize });
    }

    fn on_answer(&mut self, id: u64) {
        match self.under_way.remove(&id).expect("answered once") {
            Waits::Read(id) => self.ready.push(id),
            Waits::Leaving { stripe, blocks } => {
                self.leaving.remove(&stripe);
                self.leaving_blocks -= blocks;
            }
        }
    }
}

impl<A: Counted> Counted for Buffered<A> {
    fn counts(&self) -> (u64, u64) {
        (self.user_blocks, self.below.counts().1)
    }

    fn meter(&self) -> Option<&Meter> {
        self.below.meter()
    }

    fn idle(&mut self, span: Nanos) -> Result<()> {
        let mut answers = Vec::new();
        while !self.under_way.is_empty() {
            self.below.wait(None, &mut answers)?;
            answers.drain(..).for_each(|answer| self.on_answer(answer.id));
        }
        self.below.idle(span)
    }
}

impl<A: Counted> Array for Buffered<A> {
    fn now(&self) -> Instant {
        self.below.now()
    }

    fn volume_blocks(&self) -> u64 {
        self.below.volume_blocks()
    }

    fn submit(&mut self, ask: Ask) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        if ask.writes {
            self.user_blocks += u64::from(ask.blocks);
            self.waiting.push_back((id, ask));
            self.advance();
        } else if (ask.lba..ask.lba + u64::from(ask.blocks)).all(|lba| self.held.contains_key(&lba)) {
            self.ready.push(id);
        } else {
            let below = self.below.submit(ask);
            self.under_way.insert(below, Waits::Read(id));
        }
        id
    }

    fn flush(&mut self) -> u64 {
        self.next_id += 1;
        self.ready.push(self.next_id);
        self.next_id
    }

    fn wait(&mut self, until: Option<Instant>, answers: &mut Vec<Answer>) -> Result<()> {
        let mut below = Vec::new();
        while self.ready.is_empty() && until.is_none_or(|until| self.now() < until) {
            self.below.wait(until, &mut below)?;
            below.drain(..).for_each(|answer| self.on_answer(answer.id));
            self.advance();
        }
        let at = self.now();
        answers.extend(self.ready.drain(..).map(|id| Answer { id, at }));
        Ok(())
    }

    fn blocks_decoded(&self) -> u64 {
        0
    }
}
