//! The core of the engine: what the array is, what is known of its rows and members, and what is under way. Everything else of the
//! engine may use it, and it asks nobody.

use super::bad_blocks::BadBlocks;
use super::counters::Counters;
use super::journal::Journal;
use super::logs::Logs;
use super::map::Map;
use super::members::Members;
use super::pages::Pages;
use super::policy::PolicyState;
use super::recovery::Recovery;
use super::replay::Replay;
use super::requests::Requests;
use super::scribe::Scribe;
use super::scrub::Scrub;
use super::shards::Place;
use super::stock::Stock;
use super::sweep::Sweeps;
use super::sync::Sync;
use super::table::Table;
use crate::request::{Request, RequestOp};
use base::frame::FramePool;

/// What is written before the members are: partial parities or all of it, as the policy says.
#[derive(Debug)]
pub struct WriteAhead {
    /// Partial parity logs.
    pub(super) logs: Option<Logs>,
    /// Journal.
    pub(super) journal: Option<Journal>,
    /// What either said at the start, until it is on the members.
    pub(super) replay: Replay,
}

/// What goes over all strips beside clients.
#[derive(Debug)]
pub struct Background {
    /// Sweeps under way, and their rate.
    pub(super) sweeps: Sweeps,
    /// Rebuild of new members.
    pub(super) recovery: Recovery,
    /// Last scrub.
    pub(super) scrub: Scrub,
}

/// See the module.
#[derive(Debug)]
pub struct Core {
    /// Place of every block.
    pub(super) map: Map,
    /// Members, and who is missing.
    pub(super) members: Members,
    /// Frames.
    pub(super) stock: Stock,
    /// Rows whose parities are right.
    pub(super) sync: Sync,
    /// Sectors that members do not return.
    pub(super) bad_blocks: BadBlocks,
    /// Strips in work.
    pub(super) table: Table,
    /// Requests under way.
    pub(super) requests: Requests,
    /// Superblocks.
    pub(super) scribe: Scribe,
    /// Bitmap.
    pub(super) pages: Option<Pages>,
    /// Consistency policy.
    pub(super) policy: PolicyState,
    /// Logs and journal.
    pub(super) ahead: WriteAhead,
    /// Sweeps over all strips.
    pub(super) background: Background,
    /// Place among the engines of the array.
    pub(super) place: Place,
    /// Counts since the start.
    pub(super) counters: Counters,
    /// The service ends.
    pub(super) is_stopping: bool,
}

impl Core {
    /// Size of the volume in blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.map.blocks()
    }

    /// The pool of all frames.
    pub fn frames(&mut self) -> &mut FramePool {
        self.stock.pool()
    }

    /// Frames that clients may take now: not those that requests need which are held.
    #[must_use]
    pub fn client_frames_available(&self) -> usize {
        let held = [self.place.held_requests(), self.policy.held_for_change()];
        self.stock.available().saturating_sub(held.into_iter().map(blocks_read).sum())
    }

    /// Ends the service: no more resync, and the array is marked clean when all work is done.
    pub fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// True while a failure is not yet on the superblocks of the others.
    #[inline]
    pub(super) fn has_unrecorded_failure(&self) -> bool {
        !self.members.is_broken()
            && (self.scribe.lacks(self.members.absent(), self.members.replacements())
                || self.ahead.is_journal_untold())
    }
}

/// Blocks that requests are going to read.
fn blocks_read(requests: &[Request]) -> usize {
    let blocks = |request: &Request| match &request.op {
        RequestOp::Read { blocks, .. } => usize::try_from(*blocks).expect("a request fits memory"),
        RequestOp::Write { .. } | RequestOp::Trim { .. } | RequestOp::Flush => 0,
    };
    requests.iter().map(blocks).sum()
}
