//! Lines between the loop that owns what is served and the fronts that ask for it.
//!
//! ```text
//!   owner: Exchange <------- one mailbox of asks, with the caller's number -------+
//!             +------------- one mailbox of replies per caller -----------> Caller, in a front
//! ```
//! Whatever a loop has to say in one turn crosses at once, by moving. A mailbox rings only for a reader that has said that it sleeps.
//!
//! Whoever serves a volume of several shards carries their messages over such lines, too.
//!
//! A caller knows which of its asks a turn of the owner has seen: what is not answered then takes the owner longer than a turn.

use crate::mailbox::Mailbox;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The way back to a caller.
#[derive(Debug)]
struct Line<R> {
    mailbox: Arc<Mailbox<R>>,
    /// Replies of this turn.
    outgoing: Vec<R>,
    /// Asks of the caller that were ever taken, and how many of them a turn has seen.
    taken: u64,
    seen: Arc<AtomicU64>,
}

/// The owner's side.
#[derive(Debug)]
pub struct Exchange<A, R> {
    asks: Arc<Mailbox<(usize, A)>>,
    lines: Vec<Line<R>>,
}

/// A front's side.
#[derive(Debug)]
pub struct Caller<A, R> {
    number: usize,
    asks: Arc<Mailbox<(usize, A)>>,
    replies: Arc<Mailbox<R>>,
    /// Asked since the last turn.
    outgoing: Vec<(usize, A)>,
    /// Ever asked, and how many of these a turn of the owner has seen.
    asked: u64,
    seen: Arc<AtomicU64>,
}

/// Both sides.
pub type Sides<A, R> = (Exchange<A, R>, Vec<Caller<A, R>>);

/// An exchange, and its callers with numbers from 0 on.
///
/// # Errors
/// When the system has no descriptors left.
pub fn exchange<A, R>(callers_count: usize) -> io::Result<Sides<A, R>> {
    let asks: Arc<Mailbox<(usize, A)>> = Arc::new(Mailbox::new()?);
    let (mut lines, mut callers) = (Vec::new(), Vec::new());
    for number in 0..callers_count {
        let mailbox = Arc::new(Mailbox::new()?);
        let (asks, replies) = (Arc::clone(&asks), Arc::clone(&mailbox));
        let seen = Arc::new(AtomicU64::new(0));
        lines.push(Line { mailbox, outgoing: Vec::new(), taken: 0, seen: Arc::clone(&seen) });
        callers.push(Caller { number, asks, replies, outgoing: Vec::new(), asked: 0, seen });
    }
    assert!(lines.len() == callers.len(), "{} lines to {} callers", lines.len(), callers.len());
    Ok((Exchange { asks, lines }, callers))
}

/// Exchanges of so many owners, which are the first of so many loops, and for each loop its ways to all owners but itself.
pub(crate) type Mesh<A, R> = (Vec<Exchange<A, R>>, Vec<Vec<Option<Caller<A, R>>>>);

/// See [`Mesh`].
///
/// # Errors
/// When the system has no descriptors left.
pub(crate) fn mesh<A, R>(owners: usize, loops: usize) -> io::Result<Mesh<A, R>> {
    assert!(owners <= loops, "owners are the first of the loops");
    let mut exchanges = Vec::new();
    let mut ways: Vec<Vec<_>> = (0..loops).map(|_| Vec::new()).collect();
    for owner in 0..owners {
        let (own, callers) = exchange(loops)?;
        exchanges.push(own);
        for (number, caller) in callers.into_iter().enumerate() {
            ways[number].push(Some(caller).filter(|_| number != owner));
        }
    }
    let all_ways = ways.iter().all(|ways| ways.len() == owners);
    assert!(all_ways, "each of {loops} loops has a way, or none, to each of {owners} owners");
    Ok((exchanges, ways))
}

impl<A, R> Exchange<A, R> {
    /// Becomes readable when callers ask something of a thread that sleeps.
    pub fn bell(&self) -> io::Result<OwnedFd> {
        self.asks.bell()
    }

    /// Takes what was asked, with the numbers of the callers.
    pub fn collect(&mut self, into: &mut Vec<(usize, A)>) {
        self.asks.collect(into);
        let lines = self.lines.len();
        for (caller, _) in into {
            assert!(*caller < lines, "caller {caller} of {lines} asks");
            self.lines[*caller].taken += 1;
        }
    }

    /// A reply, which leaves with [`Exchange::send`].
    pub fn reply(&mut self, caller: usize, reply: R) {
        let lines = self.lines.len();
        assert!(caller < lines, "caller {caller} of {lines} is answered");
        self.lines[caller].outgoing.push(reply);
    }

    /// Sends the replies of this turn, which has seen all asks that were taken.
    pub fn send(&mut self) {
        for line in &mut self.lines {
            assert!(line.seen.load(Ordering::Relaxed) <= line.taken, "a turn sees no more than was taken");
            let is_news = line.seen.load(Ordering::Relaxed) != line.taken;
            // Whoever is woken by a reply knows that already.
            line.seen.store(line.taken, Ordering::Release);
            match line.outgoing.is_empty() {
                false => line.mailbox.post(&mut line.outgoing),
                true if is_news => line.mailbox.nudge(),
                true => {}
            }
        }
    }

    /// No more replies come after those that were given.
    pub fn close(&self) {
        self.lines.iter().for_each(|line| line.mailbox.close());
    }

    /// True when nothing was asked; whoever asks from now on rings.
    pub fn may_sleep(&self) -> bool {
        self.asks.may_sleep()
    }
}

impl<A, R> Caller<A, R> {
    /// Becomes readable when replies have come for a thread that sleeps.
    pub fn bell(&self) -> io::Result<OwnedFd> {
        self.replies.bell()
    }

    /// Returns a function that makes the other side look around.
    pub fn waker(&self) -> impl Fn() + use<A, R> {
        let asks = Arc::clone(&self.asks);
        move || asks.ring()
    }

    /// Asks something, with the end of the turn.
    pub fn ask(&mut self, ask: A) {
        self.outgoing.push((self.number, ask));
        self.asked += 1;
    }

    /// True when something was asked since the last turn.
    pub fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Count of what was ever asked.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// How many of these a turn of the owner has seen.
    pub fn seen(&self) -> u64 {
        let seen = self.seen.load(Ordering::Acquire);
        assert!(seen <= self.asked, "an owner sees what was asked, and no more");
        seen
    }

    /// Ends the turn: sends what was asked, and takes the replies that have come.
    pub fn turn(&mut self, replies: &mut Vec<R>) {
        if !self.outgoing.is_empty() {
            self.asks.post(&mut self.outgoing);
        }
        assert!(self.outgoing.is_empty(), "{} asks were not sent", self.outgoing.len());
        self.replies.collect(replies);
    }

    /// True when the owner has closed its lines.
    pub fn is_closed(&self) -> bool {
        self.replies.is_closed()
    }

    /// True when nothing is to be sent or taken; whoever replies from now on rings.
    pub fn may_sleep(&self) -> bool {
        self.outgoing.is_empty() && self.replies.may_sleep()
    }
}
