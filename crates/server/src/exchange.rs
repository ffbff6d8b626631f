//! Lines between the loop that owns what is served and the fronts that ask for it.
//!
//! ```text
//!   owner: Exchange <------- one mailbox of asks, with the caller's number -------+
//!             +------------- one mailbox of replies per caller -----------> Caller, in a front
//! ```
//! Whatever a loop has to say in one turn crosses at once, by moving. A mailbox rings only for a reader that has said that it sleeps.

use crate::mailbox::Mailbox;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The way back to a caller.
#[derive(Debug)]
struct Line<R> {
    mailbox: Arc<Mailbox<R>>,
    /// Replies of this turn.
    outgoing: Vec<R>,
}

/// The owner's side.
#[derive(Debug)]
pub(crate) struct Exchange<A, R> {
    asks: Arc<Mailbox<(usize, A)>>,
    lines: Vec<Line<R>>,
}

/// A front's side.
#[derive(Debug)]
pub(crate) struct Caller<A, R> {
    number: usize,
    asks: Arc<Mailbox<(usize, A)>>,
    replies: Arc<Mailbox<R>>,
    /// Asked since the last turn.
    outgoing: Vec<(usize, A)>,
}

/// Both sides.
type Sides<A, R> = (Exchange<A, R>, Vec<Caller<A, R>>);

/// An exchange, and its callers with numbers from 0 on.
///
/// # Errors
/// When the system has no descriptors left.
pub(crate) fn exchange<A, R>(callers_count: usize) -> io::Result<Sides<A, R>> {
    let asks: Arc<Mailbox<(usize, A)>> = Arc::new(Mailbox::new()?);
    let (mut lines, mut callers) = (Vec::new(), Vec::new());
    for number in 0..callers_count {
        let mailbox = Arc::new(Mailbox::new()?);
        let (asks, replies) = (Arc::clone(&asks), Arc::clone(&mailbox));
        lines.push(Line { mailbox, outgoing: Vec::new() });
        callers.push(Caller { number, asks, replies, outgoing: Vec::new() });
    }
    Ok((Exchange { asks, lines }, callers))
}

impl<A, R> Exchange<A, R> {
    /// Becomes readable when callers ask something of a thread that sleeps.
    pub(crate) fn bell(&self) -> io::Result<OwnedFd> {
        self.asks.bell()
    }

    /// Takes what was asked, with the numbers of the callers.
    pub(crate) fn collect(&self, into: &mut Vec<(usize, A)>) {
        self.asks.collect(into);
    }

    /// A reply, which leaves with [`Exchange::send`].
    pub(crate) fn reply(&mut self, caller: usize, reply: R) {
        self.lines[caller].outgoing.push(reply);
    }

    /// Sends the replies of this turn.
    pub(crate) fn send(&mut self) {
        for line in self.lines.iter_mut().filter(|line| !line.outgoing.is_empty()) {
            line.mailbox.post(&mut line.outgoing);
        }
    }

    /// No more replies come after those that were given.
    pub(crate) fn close(&self) {
        self.lines.iter().for_each(|line| line.mailbox.close());
    }

    /// True when nothing was asked; whoever asks from now on rings.
    pub(crate) fn may_sleep(&self) -> bool {
        self.asks.may_sleep()
    }
}

impl<A, R> Caller<A, R> {
    /// Becomes readable when replies have come for a thread that sleeps.
    pub(crate) fn bell(&self) -> io::Result<OwnedFd> {
        self.replies.bell()
    }

    /// Returns a function that makes the other side look around.
    pub(crate) fn waker(&self) -> impl Fn() + use<A, R> {
        let asks = Arc::clone(&self.asks);
        move || asks.ring()
    }

    /// Asks something, with the end of the turn.
    pub(crate) fn ask(&mut self, ask: A) {
        self.outgoing.push((self.number, ask));
    }

    /// Ends the turn: sends what was asked, and takes the replies that have come.
    pub(crate) fn turn(&mut self, replies: &mut Vec<R>) {
        if !self.outgoing.is_empty() {
            self.asks.post(&mut self.outgoing);
        }
        self.replies.collect(replies);
    }

    /// True when the owner has closed its lines.
    pub(crate) fn is_closed(&self) -> bool {
        self.replies.is_closed()
    }

    /// True when nothing is to be sent or taken; whoever replies from now on rings.
    pub(crate) fn may_sleep(&self) -> bool {
        self.outgoing.is_empty() && self.replies.may_sleep()
    }
}
