//! Commands that were submitted and cannot be executed yet.
//!
//! ```text
//!   reset A -> table says empty -> helper: flush, hole -> answer        zone A is busy until then
//!   append B -> no room on the file system                              zone B is full until it is tried again
//!   append A, append B, close B: wait behind, in their order            reads, reports and flushes go on
//! ```
//! Nothing of a zone overtakes anything of the same zone but reads, which owners do not rely on before the write
//! that they follow has completed.

use base::units::ZoneIndex;
use zone::device::{Command, Op, Token};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Held {
    commands: Vec<Command>,
    /// Zones whose space is being given back.
    busy: Vec<ZoneIndex>,
    /// Zones in which a write found no room.
    full: Vec<ZoneIndex>,
    /// A write without room is held, and does not fail.
    pub(super) waits_for_room: bool,
    /// Set when waiting commands are to be looked at again.
    is_due: bool,
}

impl Held {
    /// True when a command has to wait because of another of its zone.
    #[inline]
    pub(super) fn stops(&self, command: &Command) -> bool {
        (!self.busy.is_empty() || !self.full.is_empty()) && self.stops_some(command)
    }

    #[cold]
    fn stops_some(&self, Command { zone, op, .. }: &Command) -> bool {
        let changes = match op {
            Op::Write { .. } | Op::Append { .. } | Op::Reset | Op::Finish => true,
            Op::Open | Op::OpenWithArea | Op::Commit { .. } | Op::Close => true,
            Op::Read { .. } | Op::Report { .. } | Op::FindTurned { .. } | Op::Flush | Op::SelfTest { .. } => {
                false
            }
        };
        changes && (self.busy.contains(zone) || self.full.contains(zone))
    }

    /// A command waits behind others of its zone.
    pub(super) fn push(&mut self, command: Command) {
        self.commands.push(command);
    }

    /// A write waits for room, and so does whatever comes after it in its zone.
    pub(super) fn push_for_room(&mut self, command: Command) {
        self.full.push(command.zone);
        self.commands.push(command);
    }

    /// The space of a zone is being given back.
    pub(super) fn begin(&mut self, zone: ZoneIndex) {
        assert!(!self.busy.contains(&zone), "whatever changes a busy zone waits");
        self.busy.push(zone);
    }

    /// The space of a zone was given back.
    pub(super) fn end(&mut self, zone: ZoneIndex) {
        self.busy.retain(|busy| *busy != zone);
        self.is_due = true;
    }

    /// Lets the commands that wait for room be tried again.
    pub(super) fn try_again(&mut self) {
        self.is_due |= !self.full.is_empty();
        self.full.clear();
    }

    /// Takes the commands that waited, if they are to be looked at again, in their order.
    pub(super) fn take_due(&mut self) -> Option<Vec<Command>> {
        let is_due = std::mem::take(&mut self.is_due) && !self.commands.is_empty();
        is_due.then(|| std::mem::take(&mut self.commands))
    }

    /// All of them, because the drive is gone.
    pub(super) fn take_all(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// Commands that wait for room.
    pub(super) fn waiting_for_room(&self) -> impl Iterator<Item = Token> {
        let waits = |command: &&Command| self.full.contains(&command.zone);
        self.commands.iter().filter(waits).map(|command| command.token)
    }
}
