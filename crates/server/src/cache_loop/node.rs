//! What a loop has of the cache: its own shards, and ways to those of other loops.
//!
//! ```text
//!  a loop                                          another loop
//!
//!  sessions -- Node --- Routes --- asks ---------> Hub -- shards
//!                |         ^------ replies --------+
//!                +----- Hub -- own shards
//! ```
//! Requests cross to the thread of their shard and replies cross back (`exchange`), by moving them. What can be in a mailbox is bounded by
//! the memory of clients: nobody waits for room. To a session it looks like one cache.
//!
//! Order: requests of a loop for one shard arrive in the order in which it made them, and a reply is given when its client's loop has it, so
//! a client that was answered is followed by whatever any client asks after that.
//!
//! The first loop has the operator, too, who looks after all shards.

mod hub;
mod routes;
#[cfg(test)]
mod tests;

use crate::exchange::mesh;
use crate::resp::front::{Backend, CacheFacts};
use base::time::Instant;
use cache::parts::{Part, Route};
use cache::request::{Cache, Namespace, Reply, Request, WallMillis};
use cache::spread::Spread;
use hub::{Ask, Hub};
use routes::Routes;
use std::io;
use std::os::fd::OwnedFd;

/// A shard of a cache, as the loop drives it that has it.
pub trait Shard: Cache + Send {
    /// The server is about to leave: what is only in memory is to be written.
    fn begin_stop(&mut self, now: Instant);

    /// True when that is done.
    fn has_stopped(&self) -> bool;
}

/// What looks after a whole cache, in the first loop.
pub trait Operator: Send {
    /// Answers one line of the control protocol (see [`crate::control`]).
    fn control(&mut self, now: Instant, line: &str) -> String;

    /// Facts for INFO, of all shards.
    fn facts(&self) -> CacheFacts;

    /// Live objects of a namespace in all shards, as exactly as their indexes know.
    fn objects(&self, namespace: Namespace) -> u64;

    /// Does what is due, once in each turn of the loop.
    fn tend(&mut self, now: Instant);

    /// Time at which it has to be called even if nothing happens.
    fn next_deadline(&self) -> Option<Instant>;
}

/// See the module.
pub(super) struct Node<'c> {
    operator: Option<&'c mut dyn Operator>,
    hub: Option<Hub>,
    routes: Routes,
    /// Replies of this turn, before it is known whether they are parts of others.
    came: Vec<Reply>,
    is_leaving: bool,
}

/// Nodes of so many loops: of which the first ones have shards.
///
/// # Errors
/// When the system has no descriptors left.
pub(super) fn build<'c>(
    operator: &'c mut dyn Operator,
    spread: Spread,
    owners: Vec<Vec<Box<dyn Shard>>>,
    loops: usize,
) -> io::Result<Vec<Node<'c>>> {
    let count = owners.len();
    assert!((1..=loops).contains(&count), "{count} owners of {loops} loops");
    let (exchanges, lines) = mesh(count, loops)?;
    let hub = |(me, (shards, exchange))| Hub::new(me, shards, exchange, loops);
    let mut hubs = owners.into_iter().zip(exchanges).enumerate().map(hub);
    let mut operator = Some(operator);
    let node = |lines| Node {
        operator: operator.take(),
        hub: hubs.next(),
        routes: Routes::new(spread, lines),
        came: Vec::new(),
        is_leaving: false,
    };
    Ok(lines.into_iter().map(node).collect())
}

impl Node<'_> {
    /// Descriptors that wake the loop.
    pub(super) fn bells(&self) -> io::Result<Vec<OwnedFd>> {
        let own = self.hub.iter().map(Hub::bell);
        own.chain(self.routes.bells()).collect()
    }

    /// What wakes the first loop, for any other one.
    pub(super) fn waker(&self) -> impl Fn() + use<> {
        self.routes.waker()
    }

    /// Sends a request on its way to its shard.
    fn send(&mut self, (now, wall): (Instant, WallMillis), (shard, request): (usize, Request)) {
        let (owner, place) = self.routes.owner_of(shard);
        match &mut self.hub {
            Some(hub) if hub.is_own(owner) => hub.ask_own((now, wall), Ask::Request(place, request)),
            _ => self.routes.ask(owner, Ask::Request(place, request)),
        }
    }

    /// Answers one line of the control protocol.
    pub(super) fn control(&mut self, now: Instant, line: &str) -> String {
        let operator = self.operator.as_mut().expect("the control socket is the first loop's");
        operator.control(now, line)
    }

    /// Does what is due beside requests.
    pub(super) fn tend(&mut self, now: Instant) {
        if let Some(operator) = &mut self.operator {
            operator.tend(now);
        }
    }

    /// The server is about to leave: the clients of this loop have.
    pub(super) fn begin_stop(&mut self) {
        self.is_leaving = true;
    }

    /// Other loops ask nothing more, for they have ended.
    pub(super) fn others_have_ended(&mut self) {
        if let Some(hub) = &mut self.hub {
            hub.all_have_left();
        }
    }

    /// True when own shards have written what they had, and nobody asks for more.
    pub(super) fn has_stopped(&self) -> bool {
        self.routes.has_left() && self.hub.as_ref().is_none_or(Hub::has_stopped)
    }

    /// True when the thread may sleep until what it listens to wakes it.
    pub(super) fn may_sleep(&mut self) -> bool {
        self.hub.as_ref().is_none_or(Hub::may_sleep) && self.routes.may_sleep()
    }

    /// The number of the turn in which leaves what is asked now.
    pub(super) fn turns(&self) -> u64 {
        self.routes.turns()
    }

    /// True when other loops have seen, in turns of theirs, what was asked until a turn: what is not answered takes them longer.
    pub(super) fn is_seen(&self, turn: u64) -> bool {
        self.routes.is_seen(turn)
    }

    /// Says to others that they are asked nothing more, when they have answered all; own shards stop when all others have said
    /// that. True when they begin to.
    fn leave(&mut self, now: Instant) -> bool {
        if self.is_leaving {
            self.routes.leave();
        }
        let has_left = self.routes.has_left();
        self.hub.as_mut().filter(|_| has_left).is_some_and(|hub| hub.stop_when_alone(now))
    }
}

impl Cache for Node<'_> {
    fn submit(&mut self, now: Instant, wall: WallMillis, request: Request) {
        match self.routes.route(request) {
            Route::One(sent) => self.send((now, wall), sent),
            Route::All(sent) => sent.into_iter().for_each(|sent| self.send((now, wall), sent)),
        }
    }

    fn turn(&mut self, now: Instant, wall: WallMillis, replies: &mut Vec<Reply>) -> bool {
        let mut came = std::mem::take(&mut self.came);
        assert!(came.is_empty(), "{} replies were not joined", came.len());
        let mut is_busy = self.hub.as_mut().is_some_and(|hub| hub.turn((now, wall), &mut came));
        self.routes.turn(&mut came);
        for reply in came.drain(..) {
            match self.routes.join(reply) {
                Part::Whole(reply) => replies.push(reply),
                Part::GoesOn(sent) => {
                    is_busy = true;
                    self.send((now, wall), sent);
                }
                Part::Missing => {}
            }
        }
        self.came = came;
        is_busy | self.leave(now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let operator = self.operator.as_ref().and_then(|operator| operator.next_deadline());
        operator.into_iter().chain(self.hub.as_ref().and_then(Hub::next_deadline)).min()
    }

    fn objects(&self, namespace: Namespace) -> u64 {
        self.operator.as_ref().map_or(0, |operator| operator.objects(namespace))
    }
}

impl Backend for Node<'_> {
    fn facts(&self) -> CacheFacts {
        self.operator.as_ref().map_or_else(CacheFacts::default, |operator| operator.facts())
    }

    fn shard_of(&self, namespace: Namespace, key: &[u8]) -> usize {
        self.routes.shard_of(namespace, key)
    }

    fn exclude_others(&mut self, shard: usize, is_so: bool) {
        let (owner, _) = self.routes.owner_of(shard);
        match &mut self.hub {
            Some(hub) if hub.is_own(owner) => hub.exclude_others(is_so),
            _ => self.routes.ask(owner, Ask::Exclude(is_so)),
        }
    }
}
