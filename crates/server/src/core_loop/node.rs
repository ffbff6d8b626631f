//! What a loop has of a volume of several shards: its own one, and ways to those of other loops.
//!
//! ```text
//!  a loop                                            another loop
//!
//!  desk -- Node --- Router: cut at units --- asks -----> Hub -- Gated -- shard
//!            |         ^-- joined ---------- replies ----+
//!            +----- Hub -- Gated -- own shard
//! ```
//! Requests cross to the thread of their shard as they do on a bridge. Writes of less than a block do, too: the gate of their shard keeps
//! them apart from other writes there, and no others.
//!
//! The shard of the first loop takes what is of the whole volume: flushes.

use super::backend::Backend;
use super::bridge::{Ask, Hub};
use super::write_gate::Merge;
use crate::exchange::Caller;
use array::inplace::shards::router::{Router, To};
use array::inplace::shards::spread::Spread;
use array::request::{Reply, Request, Volume};
use base::frame::FramePool;
use base::time::Instant;
use std::io;
use std::os::fd::OwnedFd;

/// See the module.
pub(super) struct Node<'v> {
    hub: Hub<'v>,
    /// Ways to the hubs of other loops, by their number; none to the own one.
    others: Vec<Option<Caller<Ask, Reply>>>,
    router: Router,
    has_left: bool,
    /// Empty, with capacity.
    routed: Vec<(To, Request)>,
    came: Vec<Reply>,
    from_other: Vec<Reply>,
}

impl<'v> Node<'v> {
    pub(super) fn new(hub: Hub<'v>, others: Vec<Option<Caller<Ask, Reply>>>, spread: Spread) -> Node<'v> {
        let own = others.iter().filter(|way| way.is_none()).count();
        assert!(own == 1, "a loop is {own} of {}", others.len());
        Node {
            hub,
            others,
            router: Router::new(spread),
            has_left: false,
            routed: Vec::new(),
            came: Vec::new(),
            from_other: Vec::new(),
        }
    }

    /// Descriptors that wake the loop.
    pub(super) fn bells(&self) -> io::Result<Vec<OwnedFd>> {
        let others = self.others.iter().flatten().map(Caller::bell);
        [self.hub.bell()].into_iter().chain(others).collect()
    }

    fn send(&mut self, now: Instant) {
        let mut routed = std::mem::take(&mut self.routed);
        for (to, request) in routed.drain(..) {
            let shard = match to {
                To::Shard(shard) => shard,
                To::Control => 0,
            };
            match &mut self.others[shard] {
                Some(way) => way.ask(Ask::new(request, self.hub.frames())),
                None => self.hub.submit(now, request),
            }
        }
        self.routed = routed;
    }
}

impl Volume for Node<'_> {
    fn blocks(&self) -> u64 {
        self.hub.blocks()
    }

    fn frames(&mut self) -> &mut FramePool {
        self.hub.frames()
    }

    fn client_frames_available(&self) -> usize {
        self.hub.client_frames_available()
    }

    fn submit(&mut self, now: Instant, request: Request) {
        self.router.route(request, &mut self.routed);
        self.send(now);
    }

    fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool {
        let mut came = std::mem::take(&mut self.came);
        assert!(came.is_empty() && self.routed.is_empty(), "the turn before left something");
        let is_busy = self.hub.turn(now, &mut came);
        for way in self.others.iter_mut().flatten() {
            way.turn(&mut self.from_other);
            came.append(&mut self.from_other);
        }
        for reply in came.drain(..) {
            replies.extend(self.router.join(reply, &mut self.routed));
        }
        self.came = came;
        let goes_on = !self.routed.is_empty();
        self.send(now);
        is_busy || goes_on
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.hub.next_deadline()
    }

    fn awaits_drive(&self) -> bool {
        self.hub.awaits_drive()
    }

    fn has_ended(&self) -> bool {
        self.hub.has_ended()
    }

    fn may_sleep(&mut self) -> bool {
        // Each is told that the thread is about to sleep, whatever others say.
        let ways = self.others.iter_mut().flatten().fold(true, |all, way| way.may_sleep() & all);
        self.hub.may_sleep() & ways
    }
}

impl Backend for Node<'_> {
    fn control(&mut self, now: Instant, line: &str) -> String {
        self.hub.control(now, line)
    }

    fn merge(&mut self, now: Instant, merge: Merge) {
        match &mut self.others[self.router.spread().shard_of(merge.lba)] {
            Some(way) => way.ask(Ask::Merge(merge)),
            None => self.hub.merge(now, merge),
        }
    }

    fn begin_leave(&mut self) {
        if !std::mem::replace(&mut self.has_left, true) {
            self.others.iter_mut().flatten().for_each(|way| way.ask(Ask::Leave));
        }
    }

    fn has_left(&self) -> bool {
        let others = self.others.len() - 1;
        assert!(self.hub.left() <= others, "{} loops of {others} have left", self.hub.left());
        let is_said = self.others.iter().flatten().all(|way| !way.has_outgoing());
        self.has_left && is_said && self.hub.left() == others
    }
}
