//! Turn that commands take in a zone: those that change it wait while a reset or a finish is at work, and those wait for the
//! writes before them.

use std::collections::VecDeque;
use zone::device::{Command, Op};

/// See the module. A zone without a gate lets everything pass.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    pub(crate) is_closed: bool,
    pub(crate) waiting: VecDeque<Command>,
}

impl Gate {
    pub(crate) fn into_waiting(self) -> impl Iterator<Item = Command> {
        self.waiting.into_iter()
    }
}

/// True of commands that take their turn in their zone.
pub(crate) fn is_in_turn(op: &Op) -> bool {
    match op {
        Op::Write { .. } | Op::Append { .. } | Op::Reset | Op::Finish | Op::Open | Op::Close => true,
        Op::OpenWithArea | Op::Commit { .. } => true,
        Op::Read { .. } | Op::Report { .. } | Op::Flush | Op::SelfTest { .. } => false,
    }
}

/// True of commands that wait for the writes before them, and that nothing passes.
pub(crate) fn is_alone(op: &Op) -> bool {
    matches!(op, Op::Reset | Op::Finish)
}
