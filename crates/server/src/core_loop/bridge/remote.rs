//! Another core's side of the bridge: looks like the volume, and is a caller of the exchange.

use super::super::backend::Backend;
use super::super::write_gate::Merge;
use super::Ask;
use crate::exchange::Caller;
use array::request::{Reply, Request, Volume};
use base::frame::FramePool;
use base::time::Instant;
use std::io;
use std::os::fd::OwnedFd;

/// See the module.
#[derive(Debug)]
pub(crate) struct Remote {
    blocks: u64,
    pool: FramePool,
    caller: Caller<Ask, Reply>,
}

impl Remote {
    pub(super) fn new(blocks: u64, pool: FramePool, caller: Caller<Ask, Reply>) -> Remote {
        Remote { blocks, pool, caller }
    }

    /// Becomes readable when replies have come for a thread that sleeps.
    pub(crate) fn bell(&self) -> io::Result<OwnedFd> {
        self.caller.bell()
    }

    /// Returns a function that makes the other side look around.
    pub(crate) fn waker(&self) -> impl Fn() + use<> {
        self.caller.waker()
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
        self.caller.ask(Ask::new(request, &mut self.pool));
    }

    fn turn(&mut self, _now: Instant, replies: &mut Vec<Reply>) -> bool {
        self.caller.turn(replies);
        false
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn has_ended(&self) -> bool {
        self.caller.is_closed()
    }

    fn may_sleep(&mut self) -> bool {
        self.caller.may_sleep()
    }
}

impl Backend for Remote {
    fn control(&mut self, _now: Instant, line: &str) -> String {
        unreachable!("`{line}` was asked where there is no control socket")
    }

    fn merge(&mut self, _now: Instant, merge: Merge) {
        self.caller.ask(Ask::Merge(merge));
    }
}
