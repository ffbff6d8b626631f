//! Replay: pieces that a log has otherwise than the members are written to them before anything else is done.
//!
//! What is written follows from the log and from what lies on the members, which nobody changes meanwhile: a start that is cut off in
//! the middle of it leaves the log as it was, and the next one computes the same.

use super::{Effects, InPlace, kind};
use base::frame::Frame;
use base::xor::Block;
use block::device::{Completion, Op, Status};
use block::md::Role;
use std::collections::VecDeque;

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
    state: State,
    pending: u32,
}

impl Replay {
    /// A replay of these pieces, by member and row.
    #[must_use]
    pub fn new(pieces: impl IntoIterator<Item = (Role, u64, Box<Block>)>) -> Replay {
        let pieces: VecDeque<_> = pieces.into_iter().collect();
        let state = if pieces.is_empty() { State::Through } else { State::Writing };
        Replay { pieces, state, pending: 0 }
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
            fx.command(member, kind::REPLAY, 0, Op::Write { sector, frames: vec![frame], durable: false });
        }
        if replay.pending > 0 {
            return moved;
        }
        replay.state = match replay.state {
            State::Writing if !is_broken => {
                for role in self.members.volatile().iter() {
                    replay.pending += 1;
                    fx.command(super::members::role(role), kind::REPLAY, 0, Op::Flush);
                }
                State::Flushing
            }
            State::Writing | State::Flushing | State::Through => State::Through,
        };
        true
    }

    /// A member has answered.
    pub(super) fn on_replayed(&mut self, member: Role, completion: &Completion) {
        if completion.status != Status::Success {
            self.fail_member(member);
        }
        let logs = self.logs.as_mut().expect("an array with logs");
        assert!(logs.replay.pending > 0, "an answer that nobody waits for");
        logs.replay.pending -= 1;
    }
}
