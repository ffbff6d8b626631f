//! Another core's side of the bridge: looks like the volume, and is a pair of mailboxes.

use super::super::backend::Backend;
use super::super::write_gate::Merge;
use super::{Ask, AskFrom};
use crate::mailbox::Mailbox;
use array::request::{Reply, Request, Volume};
use base::frame::FramePool;
use base::time::Instant;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(crate) struct Remote {
    number: usize,
    blocks: u64,
    pool: FramePool,
    asks: Arc<Mailbox<AskFrom>>,
    replies: Arc<Mailbox<Reply>>,
    /// Asked since the last turn.
    outgoing: Vec<AskFrom>,
}

impl Remote {
    pub(super) fn new(
        number: usize,
        blocks: u64,
        pool: FramePool,
        (asks, replies): (Arc<Mailbox<AskFrom>>, Arc<Mailbox<Reply>>),
    ) -> Remote {
        Remote { number, blocks, pool, asks, replies, outgoing: Vec::new() }
    }

    /// Becomes readable when replies have come for a thread that sleeps.
    pub(crate) fn bell(&self) -> io::Result<OwnedFd> {
        self.replies.bell()
    }

    /// Returns a function that makes the other side look around.
    pub(crate) fn waker(&self) -> impl Fn() + use<> {
        let asks = Arc::clone(&self.asks);
        move || asks.ring()
    }
}

impl Volume for Remote {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn frames(&mut self) -> &mut FramePool {
        &mut self.pool
    }

    fn client_frames_available(&self) -> usize {
        self.pool.available()
    }

    fn submit(&mut self, _now: Instant, request: Request) {
        self.outgoing.push((self.number, Ask::new(request, &mut self.pool)));
    }

    fn turn(&mut self, _now: Instant, replies: &mut Vec<Reply>) -> bool {
        if !self.outgoing.is_empty() {
            self.asks.post(&mut self.outgoing);
        }
        self.replies.collect(replies);
        false
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn has_ended(&self) -> bool {
        self.replies.is_closed()
    }
}

impl Backend for Remote {
    fn control(&mut self, _now: Instant, line: &str) -> String {
        unreachable!("`{line}` was asked where there is no control socket")
    }

    fn merge(&mut self, _now: Instant, merge: Merge) {
        self.outgoing.push((self.number, Ask::Merge(merge)));
    }

    fn may_sleep(&mut self) -> bool {
        self.outgoing.is_empty() && self.replies.may_sleep()
    }
}
