//! The bridge: how fronts on other threads reach the cache, which has one owner.
//!
//! ```text
//!  first, with the cache                        fronts
//!
//!                   Hub <------- one mailbox of asks --------------- Remote -- sessions
//!                    |  +------- one mailbox of replies per front --------+
//!                  cache
//! ```
//!
//! Requests cross to the cache's thread and replies cross back (`exchange`). What can be in a mailbox is bounded by the memory of clients: nobody waits for room.
//!
//! Order: requests of a front arrive in the order in which it made them, and a reply is given when its client's front has it, so a client
//! that was answered is followed by whatever any client asks after that.
//!
//! While one front excludes others, what the others ask stays here, in the order in which it came.

#[cfg(test)]
mod tests;

use super::ServedCache;
use crate::exchange::{Caller, Exchange, exchange};
use crate::resp::front::{Backend, CacheFacts};
use crate::slab::Slab;
use base::time::Instant;
use cache::request::{Cache, Namespace, Reply, Request, RequestId, WallMillis};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

/// What a front has to say to the cache.
enum Ask {
    Request(Request),
    /// From now on nothing of other fronts begins, or it may again.
    Exclude(bool),
}

/// A request under way: whose, and under which name.
#[derive(Debug)]
struct Visitor {
    front: usize,
    id: RequestId,
}

/// The cache's side.
pub(super) struct Hub<'c> {
    cache: &'c mut dyn ServedCache,
    exchange: Exchange<Ask, Reply>,
    visitors: Slab<Visitor>,
    exclusive: Option<usize>,
    /// Asks that wait for the end of an exclusion.
    held: VecDeque<(usize, Ask)>,
    asks_taken: Vec<(usize, Ask)>,
    replies: Vec<Reply>,
}

/// A bridge of `count` fronts to `cache`.
///
/// # Errors
/// When the system has no descriptors left.
pub(super) fn build(cache: &mut dyn ServedCache, count: usize) -> io::Result<(Hub<'_>, Vec<Remote>)> {
    let (exchange, callers) = exchange(count)?;
    let hub = Hub {
        cache,
        exchange,
        visitors: Slab::new(),
        exclusive: None,
        held: VecDeque::new(),
        asks_taken: Vec::new(),
        replies: Vec::new(),
    };
    Ok((hub, callers.into_iter().map(Remote).collect()))
}

impl Hub<'_> {
    /// Descriptor that wakes the cache's thread.
    pub(super) fn bell(&self) -> io::Result<OwnedFd> {
        self.exchange.bell()
    }

    /// Begins what a front asks for, unless another one excludes it.
    fn let_in(&mut self, now: Instant, wall: WallMillis, (front, ask): (usize, Ask)) {
        if self.exclusive.is_some_and(|holder| holder != front) {
            return self.held.push_back((front, ask));
        }
        match ask {
            Ask::Request(mut request) => {
                let key = self.visitors.insert(Visitor { front, id: request.id });
                request.id = RequestId(key.index().into());
                self.cache.submit(now, wall, request);
            }
            Ask::Exclude(is_so) => {
                assert!(self.exclusive.is_some() != is_so, "an exclusion begins once and ends once");
                self.exclusive = is_so.then_some(front);
                if !is_so {
                    // The first of them that excludes others holds the rest again.
                    for ask in std::mem::take(&mut self.held) {
                        self.let_in(now, wall, ask);
                    }
                }
            }
        }
    }

    fn let_out(&mut self, mut reply: Reply) {
        let index = u32::try_from(reply.id.0).expect("an index of the table");
        let visitor = self.visitors.key_at(index).and_then(|key| self.visitors.remove(key));
        let Visitor { front, id } = visitor.expect("replies come for visitors");
        reply.id = id;
        self.exchange.reply(front, reply);
    }
}

impl Cache for Hub<'_> {
    fn submit(&mut self, _: Instant, _: WallMillis, _: Request) {
        unreachable!("clients are on other threads")
    }

    fn turn(&mut self, now: Instant, wall: WallMillis, _: &mut Vec<Reply>) -> bool {
        let mut asks = std::mem::take(&mut self.asks_taken);
        self.exchange.collect(&mut asks);
        for ask in asks.drain(..) {
            self.let_in(now, wall, ask);
        }
        self.asks_taken = asks;
        let mut replies = std::mem::take(&mut self.replies);
        let is_busy = self.cache.turn(now, wall, &mut replies);
        for reply in replies.drain(..) {
            self.let_out(reply);
        }
        self.replies = replies;
        self.exchange.send();
        is_busy
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.cache.next_deadline()
    }

    fn objects(&self, namespace: Namespace) -> u64 {
        self.cache.objects(namespace)
    }
}

impl Backend for Hub<'_> {
    fn facts(&self) -> CacheFacts {
        self.cache.facts()
    }
}

impl ServedCache for Hub<'_> {
    fn control(&mut self, now: Instant, line: &str) -> String {
        self.cache.control(now, line)
    }

    fn begin_stop(&mut self, now: Instant) {
        self.cache.begin_stop(now);
    }

    fn has_stopped(&self) -> bool {
        self.cache.has_stopped() && self.visitors.len() == 0
    }

    fn may_sleep(&mut self) -> bool {
        self.exchange.may_sleep()
    }
}

/// A front's side: looks like the cache, and is a caller of the exchange. It has nothing of the cache to tell of.
pub(super) struct Remote(Caller<Ask, Reply>);

impl Remote {
    /// Descriptor that wakes the front.
    pub(super) fn bell(&self) -> io::Result<OwnedFd> {
        self.0.bell()
    }

    /// What wakes the cache's thread.
    pub(super) fn waker(&self) -> impl Fn() + use<> {
        self.0.waker()
    }
}

impl Cache for Remote {
    fn submit(&mut self, _: Instant, _: WallMillis, request: Request) {
        self.0.ask(Ask::Request(request));
    }

    fn turn(&mut self, _: Instant, _: WallMillis, replies: &mut Vec<Reply>) -> bool {
        self.0.turn(replies);
        false
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn objects(&self, _: Namespace) -> u64 {
        0
    }
}

impl Backend for Remote {
    fn facts(&self) -> CacheFacts {
        CacheFacts::default()
    }

    fn exclude_others(&mut self, is_so: bool) {
        self.0.ask(Ask::Exclude(is_so));
    }
}

impl ServedCache for Remote {
    fn control(&mut self, _: Instant, line: &str) -> String {
        unreachable!("`{line}` was asked where there is no control socket")
    }

    fn begin_stop(&mut self, _: Instant) {}

    fn has_stopped(&self) -> bool {
        true
    }

    fn may_sleep(&mut self) -> bool {
        self.0.may_sleep()
    }
}
