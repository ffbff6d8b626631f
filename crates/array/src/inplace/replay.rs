//! Replay: pieces that a log has otherwise than the members are written to them before anything else is done.
//!
//! What is written follows from the log and from what lies on the members, which nobody changes meanwhile: a start that is cut off in
//! the middle of it leaves the log as it was, and the next one computes the same.

use super::{Effects, InPlace, kind};
use base::frame::Frame;
use base::slab::Slab;
use base::xor::Block;
use block::device::{Completion, Op, Status};
use block::md::Role;
use std::collections::VecDeque;

/// Waiter of flushes.
const FLUSH: u32 = u32::MAX;
/// Most pieces on their way at once.
const IN_FLIGHT_MAX: u32 = 64;

/// State of the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Writing,
    Flushing,
    Through,
}

/// See the module.
#[derive(Debug)]
pub struct Replay {
    /// Pieces that are left, with their members and rows.
    pieces: VecDeque<(Role, u64, Box<Block>)>,
    /// Rows of those on their way.
    rows: Slab<u64>,
    state: State,
    pending: u32,
}

impl Replay {
    /// A replay of these pieces, by member and row.
    #[must_use]
    pub fn new(pieces: impl IntoIterator<Item = (Role, u64, Box<Block>)>) -> Replay {
        let pieces: VecDeque<_> = pieces.into_iter().collect();
        let state = if pieces.is_empty() { State::Through } else { State::Writing };
        Replay { pieces, rows: Slab::default(), state, pending: 0 }
    }

    /// True when all pieces are durable.
    #[must_use]
    pub fn is_through(&self) -> bool {
        self.state == State::Through
    }
}

impl InPlace {
    /// True while a log from before the start is being applied: strips have to wait.
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        self.logs.as_ref().is_some_and(|logs| !logs.replay.is_through())
    }

    /// Writes pieces, and flushes them at last; true when something moved.
    pub(super) fn advance_replay(&mut self, fx: &mut Effects) -> bool {
        let is_broken = self.members.is_broken();
        let Some(logs) = self.logs.as_mut().filter(|logs| !logs.replay.is_through()) else { return false };
        let replay = &mut logs.replay;
        let mut moved = false;
        while !is_broken && replay.pending < IN_FLIGHT_MAX {
            let Some((member, row, content)) = replay.pieces.pop_front() else { break };
            moved = true;
            if !self.members.writable().contains(member.index()) {
                continue;
            }
            let mut frame = Frame::zeroed();
            frame.data = *content;
            let sector = self.members.data_offset(member) + row * block::md::reader::ROW_SECTORS;
            replay.pending += 1;
            let waiter = replay.rows.insert(row);
            let op = Op::Write { sector, frames: vec![frame], durable: false };
            fx.command(member, kind::REPLAY, waiter, op);
        }
        // What is listed as bad is known to the next start before the log is given up.
        if replay.pending > 0 || (!is_broken && self.has_unrecorded_bad_blocks()) {
            return moved;
        }
        let replay = &mut self.logs.as_mut().expect("asked above").replay;
        replay.state = match replay.state {
            State::Writing if !is_broken => {
                for role in self.members.volatile().iter() {
                    replay.pending += 1;
                    fx.command(super::members::role(role), kind::REPLAY, FLUSH, Op::Flush);
                }
                State::Flushing
            }
            State::Writing | State::Flushing | State::Through => State::Through,
        };
        true
    }

    /// A member has answered: a piece that it cannot write is a bad block.
    pub(super) fn on_replayed(&mut self, member: Role, waiter: u32, completion: &Completion) {
        let replay = &mut self.logs.as_mut().expect("an array with logs").replay;
        assert!(replay.pending > 0, "an answer that nobody waits for");
        replay.pending -= 1;
        let row = (waiter != FLUSH).then(|| replay.rows.remove(waiter));
        match (completion.status, row) {
            (Status::Success, None) => {}
            (Status::Success, Some(row)) => {
                let sectors = self.sectors(member, row..row + 1);
                if self.is_bad(member, row..row + 1) {
                    self.bad_blocks.clear(member, &sectors);
                }
            }
            (Status::WriteError | Status::ReadError, Some(row)) => self.on_unwritable(member, row..row + 1),
            _ => self.fail_member(member),
        }
    }
}
