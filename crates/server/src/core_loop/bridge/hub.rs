//! The engine's side of the bridge: takes in what other cores ask, and the first core's own loop,
//! and sends every reply where it belongs.
//!
//! Everything that enters is a *visitor*: it has a place in a table, which is its request id as
//! the volume knows it. Its frames are entered as being out of the volume's pool, where the engine
//! will give them home when it is done with them; as it leaves, as many go with it:
//!
//! ```text
//! write   k frames of data in: out += k    engine gives k home    k of the pool leave as blanks
//! read    k blanks into the pool           engine takes k         they leave with the data
//! failed  k blanks into the pool           engine gives k home    k of the pool leave as blanks
//! ```
//!
//! Invariant: frames of visitors never exceed the shares of all cores, and shares and the frames
//! for merges never exceed what the volume left to its clients at the start; so there is always
//! room for a visitor, and the engine never misses what is its own.

use super::super::backend::Backend;
use super::super::write_gate::{Gated, Merge};
use super::Ask;
use crate::exchange::Exchange;
use crate::slab::Slab;
use array::request::{Controlled, Reply, Request, RequestId, Volume};
use base::frame::FramePool;
use base::time::Instant;
use std::io;
use std::os::fd::OwnedFd;

/// Origin of an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// The loop of this thread.
    Here,
    /// The remote with this number.
    Remote(usize),
}

/// A request in the volume.
#[derive(Debug)]
struct Visitor {
    origin: Origin,
    id: RequestId,
    frames_count: usize,
}

/// See the module.
pub(crate) struct Hub<'v> {
    gated: Gated<'v>,
    exchange: Exchange<Ask, Reply>,
    /// The volume has ended, and every line is closed.
    has_ended: bool,
    /// The first core's share of frames.
    pool: FramePool,
    visitors: Slab<Visitor>,
    /// Loops that ask nothing more.
    left: usize,
    /// Empty, with capacity.
    asks_taken: Vec<(usize, Ask)>,
    replies: Vec<Reply>,
}

impl<'v> Hub<'v> {
    pub(crate) fn new(
        volume: &'v mut dyn Controlled,
        merges_max: usize,
        share: usize,
        exchange: Exchange<Ask, Reply>,
    ) -> Hub<'v> {
        Hub {
            gated: Gated::new(volume, merges_max),
            exchange,
            has_ended: false,
            pool: FramePool::new(share),
            visitors: Slab::new(),
            left: 0,
            asks_taken: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// Becomes readable when other cores ask something of a thread that sleeps.
    pub(crate) fn bell(&self) -> io::Result<OwnedFd> {
        self.exchange.bell()
    }

    /// Loops that said that they ask nothing more.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    fn let_in(&mut self, now: Instant, origin: Origin, ask: Ask) {
        let frames_count = ask.frames_count();
        self.gated.frames().adopt(frames_count);
        let mut register = |id| {
            let key = self.visitors.insert(Visitor { origin, id, frames_count });
            RequestId(key.index().into())
        };
        match ask {
            Ask::Request { mut request, mut blanks } => {
                request.id = register(request.id);
                self.gated.frames().give_many(&mut blanks);
                self.gated.submit(now, request);
            }
            Ask::Merge(mut merge) => {
                merge.id = register(merge.id);
                self.gated.merge(now, merge);
            }
            Ask::Leave => self.left += 1,
        }
    }

    /// A visitor leaves, with as many frames as it brought.
    fn let_out(&mut self, mut reply: Reply) -> (Origin, Reply) {
        let index = u32::try_from(reply.id.0).expect("an index of the table");
        let visitor = self.visitors.key_at(index).and_then(|key| self.visitors.remove(key));
        let Visitor { origin, id, frames_count } = visitor.expect("replies come for visitors");
        let pool = self.gated.frames();
        if reply.frames.is_empty() {
            pool.take_many(frames_count, &mut reply.frames);
        }
        assert!(reply.frames.len() == frames_count, "a visitor leaves with as many frames as it brought");
        pool.disown(frames_count);
        reply.id = id;
        (origin, reply)
    }
}

impl Volume for Hub<'_> {
    fn blocks(&self) -> u64 {
        self.gated.blocks()
    }

    fn frames(&mut self) -> &mut FramePool {
        &mut self.pool
    }

    fn client_frames_available(&self) -> usize {
        self.pool.available()
    }

    fn submit(&mut self, now: Instant, request: Request) {
        let ask = Ask::new(request, &mut self.pool);
        self.let_in(now, Origin::Here, ask);
    }

    fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool {
        let mut asks = std::mem::take(&mut self.asks_taken);
        assert!(asks.is_empty() && self.replies.is_empty(), "the turn before left something");
        self.exchange.collect(&mut asks);
        for (number, ask) in asks.drain(..) {
            self.let_in(now, Origin::Remote(number), ask);
        }
        self.asks_taken = asks;
        let mut all = std::mem::take(&mut self.replies);
        let is_busy = self.gated.turn(now, &mut all);
        for reply in all.drain(..) {
            match self.let_out(reply) {
                (Origin::Here, reply) => replies.push(reply),
                (Origin::Remote(number), reply) => self.exchange.reply(number, reply),
            }
        }
        self.replies = all;
        if self.gated.has_ended() {
            self.has_ended = true;
            self.exchange.close();
        }
        self.exchange.send();
        is_busy
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.gated.next_deadline()
    }

    fn awaits_drive(&self) -> bool {
        self.gated.awaits_drive()
    }

    /// Tells what the last turn found: whoever leaves because of it has closed the lines, and no core waits for the others.
    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn may_sleep(&mut self) -> bool {
        let has_news = self.gated.has_ended() && !self.has_ended;
        !has_news && self.gated.may_sleep() && self.exchange.may_sleep()
    }
}

impl Backend for Hub<'_> {
    fn control(&mut self, now: Instant, line: &str) -> String {
        self.gated.control(now, line)
    }

    fn merge(&mut self, now: Instant, merge: Merge) {
        self.let_in(now, Origin::Here, Ask::Merge(merge));
    }
}
