//! The bridge: how the loops of other cores reach the volume, which has one owner.
//!
//! A request costs the engine a fraction of what its way through a socket costs, so what is spread
//! over cores is the front. Requests cross to the engine's thread and replies cross back, both by
//! moving: frames change owners and are never copied or shared.
//!
//! ```text
//!  core 1, with the engine                      core 2 .. N
//!
//!  clients -- desk --+                          clients -- desk -- Remote
//!                    |                                              |  ^
//!                   Hub <------- one mailbox of asks ---------------+  |
//!                    |  +------- one mailbox of replies per core ------+
//!                  Gated, volume
//! ```
//!
//! Whatever a loop has to say in one turn crosses at once, under a lock that is held for as long
//! as moving a list takes. A mailbox writes its eventfd only when its reader has said that it goes
//! to sleep. Nobody waits for room: what can be in a mailbox is bounded by the frames and the
//! requests that clients may have out.
//!
//! Frames: every core has an equal share of what the volume leaves its clients, in a pool of its
//! own. Those of a write travel with it; a read brings as many blank ones as it asks for, which
//! are the engine's until they are answered for. Every reply brings back as many frames as its
//! request brought (see [`Hub`]), so pools neither grow nor shrink, and all together hold no more
//! than that of one core alone.
//!
//! Order: the engine's thread has answered a write before its client can know, so a flush from any
//! core covers all writes that were answered before it was sent.

mod hub;
mod remote;
#[cfg(test)]
mod tests;

pub(super) use hub::Hub;
pub(super) use remote::Remote;

use super::desk::FRAMES_RESERVED;
use super::write_gate::{MERGES_ACTIVE_MAX, Merge};
use crate::exchange::exchange;
use array::request::{Controlled, Request, RequestOp};
use base::frame::{Frame, FramePool};
use std::io;

/// Ratio of frames to those for merges: one in so many, up to as many as can be used.
const FRAMES_PER_MERGE: usize = 16;

/// Request or merge that crosses to the engine.
#[derive(Debug)]
pub(super) enum Ask {
    /// A request, and blank frames in return for those it will be answered with.
    Request { request: Request, blanks: Vec<Frame> },
    /// A write of less than a block.
    Merge(Merge),
    /// The loop asks nothing more.
    Leave,
}

impl Ask {
    /// Makes a request ready to cross.
    pub(super) fn new(request: Request, pool: &mut FramePool) -> Ask {
        let blanks = match request.op {
            RequestOp::Read { blocks, .. } => {
                pool.take_vec(usize::try_from(blocks).expect("usize has at least 32 bits"))
            }
            RequestOp::Write { .. } | RequestOp::Trim { .. } | RequestOp::Flush => Vec::new(),
        };
        Ask::Request { request, blanks }
    }

    /// Frames that cross with it, and that its reply brings back.
    fn frames_count(&self) -> usize {
        match self {
            Ask::Request { request: Request { op: RequestOp::Write { frames, .. }, .. }, .. } => frames.len(),
            Ask::Request { blanks, .. } => blanks.len(),
            Ask::Merge(merge) => usize::from(merge.payload.is_some()),
            Ask::Leave => 0,
        }
    }
}

/// Frames of merges, and those of each of so many loops; `None` when a volume has too few to share.
pub(super) fn shares(frames: usize, loops: usize) -> Option<(usize, usize)> {
    let merges_max = (frames / FRAMES_PER_MERGE).clamp(1, MERGES_ACTIVE_MAX);
    let share = frames.saturating_sub(merges_max) / loops;
    (share > FRAMES_RESERVED).then_some((merges_max, share))
}

/// The two sides of a bridge: the engine's, and those of `remotes_count` other loops. `None` when
/// the volume has too few frames to share.
pub(super) fn build(
    volume: &mut dyn Controlled,
    remotes_count: usize,
) -> io::Result<Option<(Hub<'_>, Vec<Remote>)>> {
    let frames = volume.client_frames_available();
    let Some((merges_max, share)) = shares(frames, remotes_count + 1) else { return Ok(None) };
    let blocks = volume.blocks();
    let (exchange, callers) = exchange(remotes_count)?;
    let hub = Hub::new(volume, merges_max, share, exchange);
    let remote = |caller| Remote::new(blocks, FramePool::new(share), caller);
    Ok(Some((hub, callers.into_iter().map(remote).collect())))
}
