//! Answers to requests: when all parts are through, and failures and bad blocks are recorded.

use super::super::clients::Clients;
use super::super::members::role;
use super::super::{Effects, kind};
use super::{Asked, Open};
use crate::request::{Outcome, Reply};
use block::device::Op;

impl Clients {
    /// A part of a request is through.
    pub(in crate::inplace) fn part_done(&mut self, request: u32, fx: &mut Effects) {
        let open = self.strips.core.requests.open.get_mut(request);
        assert!(open.parts > 0, "a part of {:?} is through twice", open.id);
        open.parts -= 1;
        if open.parts > 0 {
            return;
        }
        let is_trim = matches!(open.asked, Asked::Trim(_));
        if is_trim && self.trim_more(request) {
            return;
        }
        let then_flush = std::mem::take(&mut self.strips.core.requests.open.get_mut(request).then_flush);
        if !(then_flush && self.flush(request, fx)) {
            self.complete(request, fx);
        }
    }

    /// Flushes all members that have to be; false when there is none.
    fn flush(&mut self, request: u32, fx: &mut Effects) -> bool {
        let volatile = self.strips.core.members.volatile();
        for index in volatile.iter() {
            self.strips.core.requests.add_part(request);
            fx.command(self.strips.core.members.seat(role(index)), kind::FLUSH, request, Op::Flush);
        }
        !volatile.is_empty()
    }

    /// Answers a request, or holds the answer until failures and bad blocks are recorded.
    fn complete(&mut self, request: u32, fx: &mut Effects) {
        let open = self.strips.core.requests.open.get(request);
        let is_read = matches!(open.asked, Asked::Read);
        // A flush of what nobody may write has nothing to do; writes were refused.
        if !is_read && !self.strips.core.members.are_read_only() {
            let is_failure_untold = self.strips.core.has_unrecorded_failure();
            let is_list_untold = self.strips.core.has_unrecorded_bad_blocks();
            if is_failure_untold || is_list_untold {
                return self.strips.core.requests.held.push(request);
            }
            // Another member may have gone while the list, or its own failure, was recorded.
            let mut listed = open.listed.iter();
            let is_lost =
                listed.any(|(strip, row, pieces)| self.strips.core.is_beyond_reach(*strip, *row, *pieces));
            if self.strips.core.members.is_broken() || is_lost {
                self.strips.core.requests.fail(request);
            }
        }
        let Open { id, has_failed, frames: mut blocks, emptied: mut frames, .. } =
            self.strips.core.requests.open.remove(request);
        if is_read {
            frames = self.strips.core.stock.empty_vec();
            frames.extend(blocks.drain(..).flatten());
            self.strips.core.requests.memory.frames.push(blocks);
        }
        let outcome = if has_failed { Outcome::IoError } else { Outcome::Done };
        if has_failed {
            self.strips.core.stock.pool().give_many(&mut frames);
        }
        if !self.strips.core.answer_part(id, outcome, &mut frames) {
            fx.replies.push(Reply { id, outcome, frames });
        }
    }

    /// A failure was recorded, or nothing is recorded any more.
    pub(in crate::inplace) fn release_held(&mut self, fx: &mut Effects) {
        for request in std::mem::take(&mut self.strips.core.requests.held) {
            self.complete(request, fx);
        }
    }
}
