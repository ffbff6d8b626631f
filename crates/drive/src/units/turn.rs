//! Turn that commands take in a zone: those that change it wait while a reset or a finish is at work, and those wait for the
//! writes before them.

use base::units::ZoneIndex;
use std::collections::{BTreeMap, VecDeque};
use zone::device::{Command, Op};

/// Gates of the zones. One without a gate lets everything pass.
#[derive(Debug, Default)]
pub(crate) struct Gates(BTreeMap<ZoneIndex, Gate>);

#[derive(Debug, Default)]
struct Gate {
    is_closed: bool,
    waiting: VecDeque<Command>,
}

impl Gates {
    /// A command comes last.
    pub(crate) fn push(&mut self, command: Command) {
        self.0.entry(command.zone).or_default().waiting.push_back(command);
    }

    /// Nothing passes until the gate is opened.
    pub(crate) fn close(&mut self, zone: ZoneIndex) {
        let gate = self.0.entry(zone).or_default();
        assert!(!gate.is_closed, "the gate of zone {} is closed twice", zone.0);
        gate.is_closed = true;
    }

    /// What was at work is through.
    pub(crate) fn open(&mut self, zone: ZoneIndex) {
        let gate = self.0.get_mut(&zone).expect("a gate that was closed");
        assert!(std::mem::take(&mut gate.is_closed), "the gate of zone {} is opened twice", zone.0);
    }

    /// What waits in front of an open gate, if anything does; a gate without is gone.
    pub(crate) fn front(&mut self, zone: ZoneIndex) -> Option<&Op> {
        let gate = self.0.get(&zone).filter(|gate| !gate.is_closed)?;
        if gate.waiting.is_empty() {
            self.0.remove(&zone);
            return None;
        }
        self.0.get(&zone)?.waiting.front().map(|command| &command.op)
    }

    /// Takes the command in front.
    pub(crate) fn take(&mut self, zone: ZoneIndex) -> Command {
        let gate = self.0.get_mut(&zone).expect("a gate with somebody in front of it");
        gate.waiting.pop_front().expect("somebody in front of it")
    }

    /// All that wait.
    pub(crate) fn into_waiting(self) -> impl Iterator<Item = Command> {
        self.0.into_values().flat_map(|gate| gate.waiting)
    }
}

/// True of commands that take their turn in their zone.
pub(crate) fn is_in_turn(op: &Op) -> bool {
    match op {
        Op::Write { .. } | Op::Append { .. } | Op::Reset | Op::Finish | Op::Open | Op::Close => true,
        Op::OpenWithArea | Op::Commit { .. } => true,
        Op::Read { .. } | Op::Report { .. } | Op::FindTurned { .. } | Op::Flush | Op::SelfTest { .. } => {
            false
        }
    }
}

/// True of commands that wait for the writes before them, and that nothing passes.
pub(crate) fn is_alone(op: &Op) -> bool {
    matches!(op, Op::Reset | Op::Finish)
}
