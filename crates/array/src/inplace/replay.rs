//! Replay: what a log has otherwise than the members is written to them before anything else is done.
//!
//! What is written follows from the log and from what lies on the members, which nobody changes meanwhile: a start that is cut off in
//! the middle of it leaves the log as it was, and the next one computes the same. It goes in stages, each durable before the next.
//!
//! The device of the log is flushed first: what a server that died without a power failure wrote there may lie in its cache, and
//! the next start could not make rows whole that were written from it in part. Members are flushed even where nothing differs: they
//! have such caches too, and the log that has what lies there is about to be given up.

use super::core::{Core, WriteAhead};
use super::{Effects, kind};
use base::frame::Frame;
use base::xor::Block;
use block::device::{Completion, Op, Status};
use block::md::Role;
use std::collections::VecDeque;

/// Most blocks on their way at once.
const IN_FLIGHT_MAX: u32 = 64;

/// Place of a block.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Device.
    pub member: Role,
    /// Sector: of a member from the start of its data, of the journal from its own.
    pub sector: u64,
    /// The device is the journal, which is written with FUA.
    pub is_journal: bool,
}

/// Blocks of a stage.
type Stage = VecDeque<(Target, Box<Block>)>;

/// State of the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// What the log's device has is made durable.
    Opening,
    Writing,
    Flushing,
    Through,
    /// Too many members were lost before all of it was written.
    Abandoned,
}

impl State {
    /// Another state follows.
    fn go(&mut self, next: State) {
        let is_next = matches!(
            (*self, next),
            (State::Opening, State::Writing)
                | (State::Writing, State::Flushing | State::Through | State::Abandoned)
                | (State::Flushing, State::Through)
        );
        assert!(is_next, "a replay goes from {self:?} to {next:?}");
        *self = next;
    }
}

/// See the module.
#[derive(Debug)]
pub struct Replay {
    /// Device of the log that is to be flushed first.
    log: Option<Role>,
    /// Stages that are left; members are flushed behind the last.
    stages: VecDeque<Stage>,
    state: State,
    pending: u32,
}

impl Replay {
    /// A replay of these blocks, stage by stage, from a log on a device; members are flushed where there are some, or something
    /// `may_be_cached`.
    #[must_use]
    pub fn new(log: Option<Role>, stages: Vec<Vec<(Target, Box<Block>)>>, may_be_cached: bool) -> Replay {
        let stages: VecDeque<Stage> =
            stages.into_iter().filter(|stage| !stage.is_empty()).map(VecDeque::from).collect();
        let state = if stages.is_empty() && !may_be_cached { State::Through } else { State::Opening };
        Replay { log, stages, state, pending: 0 }
    }

    /// Blocks that are left to write.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.stages.iter().map(VecDeque::len).sum()
    }

    /// True when all blocks are durable, or never will be.
    #[must_use]
    pub fn is_through(&self) -> bool {
        matches!(self.state, State::Through | State::Abandoned)
    }
}

impl WriteAhead {
    /// True while a log from before the start is being applied: strips have to wait.
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        !self.replay.is_through()
    }

    /// True when a journal has rows that were not written to the members, and never will be: what these hold may be torn, or older
    /// than what was answered. Nothing is read then. Data beside a partial parity log are right in any case.
    #[inline]
    pub(super) fn lacks_replay(&self) -> bool {
        self.replay.state == State::Abandoned && self.journal.is_some()
    }
}

impl Core {
    /// Writes blocks, and flushes them at last; true when something moved.
    pub(super) fn advance_replay(&mut self, fx: &mut Effects) -> bool {
        if self.ahead.replay.state == State::Opening {
            return self.open_replay(fx);
        }
        let mut moved = self.write_stage(fx);
        if self.ahead.replay.pending > 0 || self.ahead.replay.is_through() {
            return moved;
        }
        let is_broken = self.members.is_broken();
        if self.ahead.replay.stages.len() > 1 && !is_broken {
            self.ahead.replay.stages.pop_front();
            return true;
        }
        moved = true;
        let has_rest = self.ahead.replay.stages.iter().any(|stage| !stage.is_empty());
        let next = match self.ahead.replay.state {
            State::Writing if is_broken && has_rest => State::Abandoned,
            State::Writing if !is_broken => {
                for role in self.members.volatile().iter() {
                    self.ahead.replay.pending += 1;
                    fx.command(self.members.seat(super::members::role(role)), kind::REPLAY, 0, Op::Flush);
                }
                State::Flushing
            }
            State::Opening | State::Abandoned => unreachable!("left above"),
            State::Writing | State::Flushing | State::Through => State::Through,
        };
        self.ahead.replay.state.go(next);
        moved
    }

    /// Flushes the device of the log, if there is one; true when something moved.
    fn open_replay(&mut self, fx: &mut Effects) -> bool {
        if self.ahead.replay.pending > 0 {
            return false;
        }
        match self.ahead.replay.log.take() {
            Some(log) => {
                self.ahead.replay.pending += 1;
                fx.command(self.members.seat(log), kind::REPLAY, 0, Op::Flush);
            }
            None => self.ahead.replay.state.go(State::Writing),
        }
        true
    }

    /// Writes as much of a stage as goes; true when there was something.
    fn write_stage(&mut self, fx: &mut Effects) -> bool {
        let mut moved = false;
        while !self.members.is_broken() && self.ahead.replay.pending < IN_FLIGHT_MAX {
            let Some((target, content)) = self.ahead.replay.stages.front_mut().and_then(Stage::pop_front)
            else {
                break;
            };
            moved = true;
            let Target { member, sector, is_journal } = target;
            let is_there = match is_journal {
                true => !self.ahead.has_journal_failed(),
                false => self.members.writable().contains(member.index()),
            };
            if !is_there {
                continue;
            }
            let mut frame = Frame::zeroed();
            frame.set_data(&content);
            let sector = if is_journal { sector } else { self.members.data_offset(member) + sector };
            self.ahead.replay.pending += 1;
            let op = Op::Write { sector, frames: vec![frame], durable: is_journal };
            fx.command(self.members.seat(member), kind::REPLAY, 0, op);
        }
        moved
    }

    /// A device has answered.
    pub(super) fn on_replayed(&mut self, member: Role, completion: &Completion) {
        if completion.status != Status::Success {
            self.fail_member(member);
        }
        assert!(self.ahead.replay.pending > 0, "an answer that nobody waits for");
        self.ahead.replay.pending -= 1;
    }
}
