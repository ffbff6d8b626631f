//! Where requests of a loop go, and what becomes of those that go to more than one shard.
//!
//! ```text
//!   of one key ----------------> its shard
//!   clear --- a part for each -> all shards --- the last part's reply ---> the reply
//!   walk ---- one after another: each begins where the one before it has ended
//! ```

use super::hub::Ask;
use crate::exchange::Caller;
use crate::slab::Slab;
use cache::request::{Namespace, Op, Outcome, Reply, Request, RequestId, Told, Walk};
use cache::spread::Spread;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

/// Names of parts have this bit, those of requests never.
const PART: u64 = 1 << 61;

/// A request that has parts.
enum Parted {
    /// All shards are to do it.
    All { id: RequestId, missing: usize, outcome: Outcome },
    /// Shards are walked one after another.
    Walk(Box<Walking>),
}

/// A walk over shards.
struct Walking {
    id: RequestId,
    namespace: Namespace,
    /// What the shard is asked that is walked now.
    asked: Walk,
    shard: usize,
    shards_walked: usize,
    keys: Vec<Told>,
    bytes: usize,
}

/// Where a request goes: the shard, and what that is asked.
pub(super) enum Route {
    One((usize, Request)),
    All(Vec<(usize, Request)>),
}

/// What a reply is.
pub(super) enum Part {
    /// That to a request.
    Whole(Reply),
    /// That to a part, and the next part goes to this shard.
    GoesOn((usize, Request)),
    /// That to a part, and others are missing.
    Missing,
}

/// The way to an owner of shards.
struct Way {
    caller: Caller<Ask, Reply>,
    /// Turns in which something was asked that no turn of the owner has seen, and the count of all that was asked by then.
    unseen: VecDeque<(u64, u64)>,
}

impl Way {
    fn turn(&mut self, turn: u64, replies: &mut Vec<Reply>) {
        if self.caller.has_outgoing() {
            self.unseen.push_back((turn, self.caller.asked()));
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
    spread: Spread,
    /// Ways to the owners of shards; none to the own loop.
    lines: Vec<Option<Way>>,
    /// Turns until now.
    turns: u64,
    parted: Slab<Parted>,
    /// Requests, and parts of them, that are not answered.
    under_way: usize,
    has_left: bool,
    /// Kept for its memory.
    came: Vec<Reply>,
}

impl Routes {
    pub(super) fn new(spread: Spread, lines: Vec<Option<Caller<Ask, Reply>>>) -> Routes {
        let way = |caller: Caller<Ask, Reply>| Way { caller, unseen: VecDeque::new() };
        let lines = lines.into_iter().map(|caller| caller.map(way)).collect();
        Routes {
            spread,
            lines,
            turns: 0,
            parted: Slab::new(),
            under_way: 0,
            has_left: false,
            came: Vec::new(),
        }
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
        (super::super::owner_of(shard, owners), shard / owners)
    }

    #[inline]
    pub(super) fn shard_of(&self, namespace: Namespace, key: &[u8]) -> usize {
        self.spread.shard_of(namespace, key)
    }

    /// Says something to the owner of shards, with the end of the turn.
    pub(super) fn ask(&mut self, owner: usize, ask: Ask) {
        self.lines[owner].as_mut().expect("nobody asks itself").caller.ask(ask);
    }

    /// Decides where a request goes.
    #[inline]
    pub(super) fn route(&mut self, request: Request) -> Route {
        self.under_way += 1;
        if self.spread.shards() == 1 {
            return Route::One((0, request));
        }
        let Request { id, namespace, op } = request;
        match &op {
            Op::Get { key } | Op::Set { key, .. } | Op::Remove { key } | Op::Update { key, .. } => {
                Route::One((self.shard_of(namespace, key), Request { id, namespace, op }))
            }
            Op::Clear { namespace: whose } => {
                let whose = *whose;
                self.ask_all(id, namespace, || Op::Clear { namespace: whose })
            }
            Op::ClearAt { at } => {
                let at = *at;
                self.ask_all(id, namespace, || Op::ClearAt { at })
            }
            Op::Walk(asked) => self.begin_walk(id, namespace, asked.clone()),
        }
    }

    fn ask_all(&mut self, id: RequestId, namespace: Namespace, op: impl Fn() -> Op) -> Route {
        let missing = self.spread.shards();
        let name = self.name(Parted::All { id, missing, outcome: Outcome::Cleared });
        Route::All((0..missing).map(|shard| (shard, Request { id: name, namespace, op: op() })).collect())
    }

    fn name(&mut self, parted: Parted) -> RequestId {
        RequestId(PART | u64::from(self.parted.insert(parted).index()))
    }

    /// A place behind all shards is one in the last shard behind all keys.
    fn begin_walk(&mut self, id: RequestId, namespace: Namespace, mut asked: Walk) -> Route {
        let last = self.spread.shards() - 1;
        let (shard, from) = match asked.wraps {
            // It is any number: the lower bits are as good as the upper ones.
            true => (usize::try_from(asked.from % (last as u64 + 1)).expect("a shard"), asked.from),
            false => self.spread.locate(asked.from).unwrap_or((last, u64::MAX)),
        };
        asked.from = from;
        asked.begins |= from == 0;
        let op = Op::Walk(asked.clone());
        let walking = Walking { id, namespace, asked, shard, shards_walked: 1, keys: Vec::new(), bytes: 0 };
        let name = self.name(Parted::Walk(Box::new(walking)));
        Route::One((shard, Request { id: name, namespace, op }))
    }

    /// Sends what was asked of other loops, and takes what they have answered.
    pub(super) fn turn(&mut self, replies: &mut Vec<Reply>) {
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

    /// A reply has come.
    #[inline]
    pub(super) fn join(&mut self, reply: Reply) -> Part {
        if reply.id.0 & PART == 0 {
            self.under_way -= 1;
            return Part::Whole(reply);
        }
        self.join_part(reply)
    }

    fn join_part(&mut self, reply: Reply) -> Part {
        let index = u32::try_from(reply.id.0 ^ PART).expect("an index of the table");
        let key = self.parted.key_at(index).expect("a part is of a request");
        let spread = self.spread;
        let whole = match self.parted.at(key).expect("a part is of a request") {
            Parted::All { id, missing, outcome } => {
                *missing -= 1;
                if reply.outcome != Outcome::Cleared {
                    *outcome = reply.outcome;
                }
                if *missing > 0 {
                    return Part::Missing;
                }
                Reply { id: *id, outcome: outcome.clone() }
            }
            Parted::Walk(walking) => match walking.go_on(spread, reply.outcome) {
                None => {
                    let op = Op::Walk(walking.asked.clone());
                    let request = Request { id: reply.id, namespace: walking.namespace, op };
                    return Part::GoesOn((walking.shard, request));
                }
                Some(outcome) => Reply { id: walking.id, outcome },
            },
        };
        self.parted.remove(key);
        self.under_way -= 1;
        Part::Whole(whole)
    }

    /// Tells owners that they are asked nothing more, if they have answered all.
    pub(super) fn leave(&mut self) {
        if self.under_way == 0 && !self.has_left {
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

impl Walking {
    /// The walk of a shard has ended: the outcome of all, or the next part is to be asked for.
    fn go_on(&mut self, spread: Spread, outcome: Outcome) -> Option<Outcome> {
        let Outcome::Walked { keys, next } = outcome else { return Some(outcome) };
        self.bytes += keys.iter().map(|told| told.key.len()).sum::<usize>();
        self.keys.extend(keys);
        let has_enough = self.keys.len() >= self.asked.keys_max || self.bytes >= self.asked.bytes_max;
        let is_last = match self.asked.wraps {
            true => self.shards_walked == spread.shards(),
            false => self.shard + 1 == spread.shards(),
        };
        let next = match next {
            Some(place) if !self.asked.wraps => {
                let told = spread.place(self.shard, place);
                if told == spread.place(self.shard, self.asked.from) {
                    // Places of shards are finer than places of a walk over all: it has not come far enough to be told so.
                    (self.asked.from, self.asked.begins) = (place, false);
                    return None;
                }
                Some(told)
            }
            // Of a random place the first keys are wanted, wherever they are.
            _ if self.asked.wraps && has_enough || is_last => None,
            // A walk that looks at a number of idents ends with a shard.
            _ if has_enough || !self.asked.wraps && self.asked.idents_max < u64::MAX => {
                Some(spread.place(self.shard + 1, 0))
            }
            _ => {
                self.shard = (self.shard + 1) % spread.shards();
                self.shards_walked += 1;
                self.asked.begins = true;
                if !self.asked.wraps {
                    self.asked.from = 0;
                }
                return None;
            }
        };
        Some(Outcome::Walked { keys: std::mem::take(&mut self.keys), next })
    }
}
