//! The shards of a loop, and what all loops ask of them.
//!
//! While one loop excludes others, what the others ask stays here, in the order in which it came.

use super::Shard;
use crate::exchange::Exchange;
use crate::slab::Slab;
use base::time::Instant;
use cache::request::{Reply, Request, RequestId, WallMillis};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

/// Names of requests of other loops have this bit here; those of the own loop never.
pub(super) const NEVER_OWN: u64 = 1 << 62;

/// What a loop has to say to the owner of shards.
pub(super) enum Ask {
    /// A request, for the shard at this place among those of the owner.
    Request(usize, Request),
    /// From now on nothing of other loops begins, or it may again.
    Exclude(bool),
    /// The loop asks nothing more.
    Leave,
}

/// A request of another loop under way: whose, and under which name.
#[derive(Debug)]
struct Visitor {
    from: usize,
    id: RequestId,
}

/// See the module.
pub(super) struct Hub {
    me: usize,
    shards: Vec<Box<dyn Shard>>,
    exchange: Exchange<Ask, Reply>,
    visitors: Slab<Visitor>,
    exclusive: Option<usize>,
    /// Asks that wait for the end of an exclusion.
    held: VecDeque<(usize, Ask)>,
    /// Other loops that may still ask.
    others: usize,
    has_begun_stop: bool,
    asks_taken: Vec<(usize, Ask)>,
    replies: Vec<Reply>,
    /// The latest times that are known.
    times: (Instant, WallMillis),
}

impl Hub {
    /// Of shards of the loop with this number, of so many that ask.
    pub(super) fn new(
        me: usize,
        shards: Vec<Box<dyn Shard>>,
        exchange: Exchange<Ask, Reply>,
        loops: usize,
    ) -> Hub {
        assert!(!shards.is_empty(), "an owner has a shard");
        assert!(me < loops, "loop {me} of {loops} has shards");
        Hub {
            me,
            shards,
            exchange,
            visitors: Slab::new(),
            exclusive: None,
            held: VecDeque::new(),
            others: loops - 1,
            has_begun_stop: false,
            asks_taken: Vec::new(),
            replies: Vec::new(),
            times: (Instant(0), WallMillis(0)),
        }
    }

    /// Descriptor that wakes the thread.
    pub(super) fn bell(&self) -> io::Result<OwnedFd> {
        self.exchange.bell()
    }

    /// True when this loop is the owner with this number.
    #[inline]
    pub(super) fn is_own(&self, owner: usize) -> bool {
        self.me == owner
    }

    /// The own loop asks for something.
    #[inline]
    pub(super) fn ask_own(&mut self, times: (Instant, WallMillis), ask: Ask) {
        self.times = times;
        self.let_in(self.me, ask);
    }

    /// The own loop excludes others, or does so no more.
    pub(super) fn exclude_others(&mut self, is_so: bool) {
        self.let_in(self.me, Ask::Exclude(is_so));
    }

    /// Begins what a loop asks for, unless another one excludes it.
    fn let_in(&mut self, from: usize, ask: Ask) {
        if self.exclusive.is_some_and(|holder| holder != from) && !matches!(ask, Ask::Leave) {
            return self.held.push_back((from, ask));
        }
        let (now, wall) = self.times;
        match ask {
            Ask::Request(place, mut request) => {
                let count = self.shards.len();
                assert!(place < count, "loop {from} asks shard {place} of {count}");
                assert!(request.id.0 & NEVER_OWN == 0, "loop {from} uses the name {:#x}", request.id.0);
                if from != self.me {
                    let key = self.visitors.insert(Visitor { from, id: request.id });
                    request.id = RequestId(NEVER_OWN | u64::from(key.index()));
                }
                self.shards[place].submit(now, wall, request);
            }
            Ask::Exclude(is_so) => {
                assert!(self.exclusive.is_some() != is_so, "an exclusion begins once and ends once");
                self.exclusive = is_so.then_some(from);
                if !is_so {
                    // The first of them that excludes others holds the rest again.
                    for (from, ask) in std::mem::take(&mut self.held) {
                        self.let_in(from, ask);
                    }
                }
            }
            // One that has ended may have said so before.
            Ask::Leave => self.others = self.others.saturating_sub(1),
        }
    }

    /// Turns the shards. Replies for the own loop go into `own`.
    pub(super) fn turn(&mut self, times: (Instant, WallMillis), own: &mut Vec<Reply>) -> bool {
        self.times = times;
        let mut asks = std::mem::take(&mut self.asks_taken);
        assert!(asks.is_empty() && self.replies.is_empty(), "the turn before left something");
        self.exchange.collect(&mut asks);
        for (from, ask) in asks.drain(..) {
            self.let_in(from, ask);
        }
        self.asks_taken = asks;
        let (now, wall) = times;
        let mut is_busy = false;
        for shard in &mut self.shards {
            is_busy |= shard.turn(now, wall, &mut self.replies);
        }
        for mut reply in self.replies.drain(..) {
            if reply.id.0 & NEVER_OWN == 0 {
                own.push(reply);
                continue;
            }
            let index = u32::try_from(reply.id.0 ^ NEVER_OWN).expect("an index of the table");
            let visitor = self.visitors.key_at(index).and_then(|key| self.visitors.remove(key));
            let Visitor { from, id } = visitor.expect("replies come for visitors");
            reply.id = id;
            self.exchange.reply(from, reply);
        }
        assert!(
            self.held.is_empty() || self.exclusive.is_some(),
            "{} asks are held by nobody",
            self.held.len()
        );
        self.exchange.send();
        is_busy
    }

    /// Time at which a shard has something to do even if nothing happens.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.shards.iter().filter_map(|shard| shard.next_deadline()).min()
    }

    /// Nobody asks any more: all other loops have ended.
    pub(super) fn all_have_left(&mut self) {
        self.others = 0;
    }

    /// Shards write what they have, once no other loop may ask for more; the own one does not. True when they begin to.
    pub(super) fn stop_when_alone(&mut self, now: Instant) -> bool {
        let begins = self.others == 0 && !self.has_begun_stop;
        if begins {
            self.has_begun_stop = true;
            self.shards.iter_mut().for_each(|shard| shard.begin_stop(now));
        }
        begins
    }

    /// True when all shards have written what they had.
    pub(super) fn has_stopped(&self) -> bool {
        let is_written = self.has_begun_stop && self.shards.iter().all(|shard| shard.has_stopped());
        is_written && self.visitors.len() == 0
    }

    /// True when the thread may sleep until the bell rings.
    pub(super) fn may_sleep(&self) -> bool {
        self.exchange.may_sleep()
    }
}
