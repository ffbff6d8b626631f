//! A volume that does nothing: what is left is what a request costs on its way.

use array::request::{Controlled, Outcome, Reply, Request, RequestOp, Volume};
use base::frame::FramePool;
use base::time::Instant;

const FRAMES_MAX: usize = 16_384;

/// See the module.
pub(super) struct NullVolume {
    blocks: u64,
    pool: FramePool,
    pending: Vec<Request>,
}

impl NullVolume {
    pub(super) fn new(blocks: u64) -> NullVolume {
        NullVolume { blocks, pool: FramePool::new(FRAMES_MAX), pending: Vec::new() }
    }
}

impl Volume for NullVolume {
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
        self.pending.push(request);
    }

    fn turn(&mut self, _now: Instant, replies: &mut Vec<Reply>) -> bool {
        for request in self.pending.drain(..) {
            let frames = match request.op {
                RequestOp::Read { blocks, .. } => {
                    self.pool.take_vec(usize::try_from(blocks).expect("a machine of 64 bits"))
                }
                RequestOp::Write { mut frames, .. } => {
                    self.pool.give_many(&mut frames);
                    frames
                }
                RequestOp::Trim { .. } | RequestOp::Flush => Vec::new(),
            };
            replies.push(Reply { id: request.id, outcome: Outcome::Done, frames });
        }
        false
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

impl Controlled for NullVolume {
    fn control(&mut self, _now: Instant, _line: &str) -> String {
        String::new()
    }
}
