//! Requests of a cache of several shards: where each goes, and what becomes of those that go to more than one.
//!
//! ```text
//!   of one key ----------------> its shard
//!   clear --- a part for each -> all shards --- the last part's reply ---> the reply
//!   walk ---- one after another: each begins where the one before it has ended
//! ```
//!
//! Whoever asks has one, in whatever way requests reach shards and replies come back.

use crate::request::{Namespace, Op, Outcome, Reply, Request, RequestId, Told, Walk};
use crate::spread::Spread;
use base::slab::Slab;

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
    /// Walk that the current shard is asked for.
    asked: Walk,
    shard: usize,
    shards_walked: usize,
    keys: Vec<Told>,
    bytes: usize,
}

/// Route of a request: the shards it goes to, each with its own part.
pub enum Route {
    /// To one shard.
    One((usize, Request)),
    /// To all of them.
    All(Vec<(usize, Request)>),
}

/// Part of a request that a reply answers.
pub enum Part {
    /// Last part: the reply to the whole request.
    Whole(Reply),
    /// Part of a walk; the next part goes to this shard.
    GoesOn((usize, Request)),
    /// Part of a request to all shards; others have not answered.
    Missing,
}

/// See the module.
pub struct Parts {
    spread: Spread,
    parted: Slab<Parted>,
    /// Requests that are not answered.
    under_way: usize,
}

impl Parts {
    /// Parts of no requests yet, for shards among which keys are spread so.
    #[must_use]
    pub fn new(spread: Spread) -> Parts {
        Parts { spread, parted: Slab::default(), under_way: 0 }
    }

    /// Spread of keys over shards.
    #[must_use]
    pub fn spread(&self) -> &Spread {
        &self.spread
    }

    /// True when all requests are answered.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    /// Decides where a request goes.
    #[inline]
    pub fn route(&mut self, request: Request) -> Route {
        self.under_way += 1;
        if self.spread.shards() == 1 {
            return Route::One((0, request));
        }
        let Request { id, namespace, op } = request;
        match &op {
            Op::Get { key }
            | Op::GetPart { key, .. }
            | Op::Set { key, .. }
            | Op::Remove { key }
            | Op::Update { key, .. } => {
                Route::One((self.spread.shard_of(namespace, key), Request { id, namespace, op }))
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
        RequestId(PART | u64::from(self.parted.insert(parted)))
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

    /// A reply has come.
    #[inline]
    pub fn join(&mut self, reply: Reply) -> Part {
        assert!(self.under_way > 0, "a reply comes for what was asked");
        if reply.id.0 & PART == 0 {
            self.under_way -= 1;
            return Part::Whole(reply);
        }
        self.join_part(reply)
    }

    fn join_part(&mut self, reply: Reply) -> Part {
        let slot = u32::try_from(reply.id.0 ^ PART).expect("a slot of the table");
        let spread = self.spread;
        let whole = match self.parted.get_mut(slot) {
            Parted::All { id, missing, outcome } => {
                assert!(*missing > 0, "each shard answers once");
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
        self.parted.remove(slot);
        self.under_way -= 1;
        Part::Whole(whole)
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
