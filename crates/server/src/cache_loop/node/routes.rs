//! Ways of a loop to the owners of shards, and which of them a request goes.

use super::hub::Ask;
use crate::exchange::Caller;
use cache::parts::{Part, Parts, Route};
use cache::request::{Namespace, Reply, Request};
use cache::spread::Spread;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

/// The way to an owner of shards.
struct Way {
    caller: Caller<Ask, Reply>,
    /// Turns in which something was asked that no turn of the owner has seen, and the count of all that was asked by then.
    unseen: VecDeque<(u64, u64)>,
}

impl Way {
    fn turn(&mut self, turn: u64, replies: &mut Vec<Reply>) {
        if self.caller.has_outgoing() {
            let asked = self.caller.asked();
            let before = self.unseen.back().copied().unwrap_or_default();
            assert!(before <= (turn, asked), "turn {turn} asks for {asked}, and before it was {before:?}");
            self.unseen.push_back((turn, asked));
        }
        self.caller.turn(replies);
        let seen = self.caller.seen();
        while self.unseen.front().is_some_and(|(_, asked)| *asked <= seen) {
            self.unseen.pop_front();
        }
    }
}

/// See the module.
pub(super) struct Routes {
    parts: Parts,
    /// Ways to the owners of shards; none to the own loop.
    lines: Vec<Option<Way>>,
    /// Turns until now.
    turns: u64,
    has_left: bool,
    /// Kept for its memory.
    came: Vec<Reply>,
}

impl Routes {
    pub(super) fn new(spread: Spread, lines: Vec<Option<Caller<Ask, Reply>>>) -> Routes {
        let way = |caller: Caller<Ask, Reply>| Way { caller, unseen: VecDeque::new() };
        let lines = lines.into_iter().map(|caller| caller.map(way)).collect();
        Routes { parts: Parts::new(spread), lines, turns: 0, has_left: false, came: Vec::new() }
    }

    /// Descriptors that become readable when replies have come for a thread that sleeps.
    pub(super) fn bells(&self) -> impl Iterator<Item = io::Result<OwnedFd>> {
        self.lines.iter().flatten().map(|way| way.caller.bell())
    }

    /// What makes the first loop look around, for any other one.
    pub(super) fn waker(&self) -> impl Fn() + use<> {
        let first = self.lines.first().and_then(Option::as_ref).map(|way| way.caller.waker());
        move || first.iter().for_each(|wake| wake())
    }

    /// Owner of a shard, and the shard's place among those of the owner.
    #[inline]
    pub(super) fn owner_of(&self, shard: usize) -> (usize, usize) {
        let owners = self.lines.len();
        debug_assert!(owners > 0, "shard {shard} has no owner");
        (super::super::owner_of(shard, owners), shard / owners)
    }

    #[inline]
    pub(super) fn shard_of(&self, namespace: Namespace, key: &[u8]) -> usize {
        self.parts.spread().shard_of(namespace, key)
    }

    /// Says something to the owner of shards, with the end of the turn.
    pub(super) fn ask(&mut self, owner: usize, ask: Ask) {
        self.lines[owner].as_mut().expect("nobody asks itself").caller.ask(ask);
    }

    /// Decides where a request goes.
    #[inline]
    pub(super) fn route(&mut self, request: Request) -> Route {
        self.parts.route(request)
    }

    /// A reply has come.
    #[inline]
    pub(super) fn join(&mut self, reply: Reply) -> Part {
        self.parts.join(reply)
    }

    /// Sends what was asked of other loops, and takes what they have answered.
    pub(super) fn turn(&mut self, replies: &mut Vec<Reply>) {
        assert!(self.came.is_empty(), "{} replies were not taken", self.came.len());
        for way in self.lines.iter_mut().flatten() {
            way.turn(self.turns, &mut self.came);
            replies.append(&mut self.came);
        }
        self.turns += 1;
    }

    /// Turns until now: the number of the one in which leaves what is asked now.
    pub(super) fn turns(&self) -> u64 {
        self.turns
    }

    /// True when turns of the owners have seen what was asked until a turn: what is not answered takes them longer.
    pub(super) fn is_seen(&self, turn: u64) -> bool {
        let is_seen = |way: &Way| way.unseen.front().is_none_or(|(unseen, _)| *unseen > turn);
        self.lines.iter().flatten().all(is_seen)
    }

    /// Tells owners that they are asked nothing more, if they have answered all.
    pub(super) fn leave(&mut self) {
        if self.parts.is_idle() && !self.has_left {
            self.has_left = true;
            self.lines.iter_mut().flatten().for_each(|way| way.caller.ask(Ask::Leave));
        }
    }

    pub(super) fn has_left(&self) -> bool {
        self.has_left
    }

    /// True when nothing is to be sent or taken; whoever replies from now on rings.
    pub(super) fn may_sleep(&self) -> bool {
        self.lines.iter().flatten().all(|way| way.caller.may_sleep())
    }
}
