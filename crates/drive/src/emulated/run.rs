//! Transfers that are moved together: a run.
//!
//! ```text
//!   queue    append A | append B | append A | read C 0..8 | append A | read C 8..9 | reset A
//!   runs     \_________ A, A, A, one pwritev ____________/             |
//!                       B alone             \__ C 0..9, one preadv ___/
//! ```
//! Consecutive writes and appends of a zone are adjacent on the media, so one call moves all of
//! them; reads join when each begins where the one before it ended. A command joins a run only when
//! it is the next one of its zone, so the order within a zone stays. Bringing a write forward past
//! commands of other zones cannot take anything from those: its zone is active already.
//!
//! The rules admit each command on its own, in its turn; one they refuse stays in its place and is
//! refused there. The write pointer is stored once, after the data of the whole run. When the media
//! refuses a run, the zone goes back to where it was and each command is executed alone, so that
//! the fault hits the command it belongs to.

use super::EmulatedDrive;
use super::queue::Followers;
use crate::answer::{Asked, block_count, frames_of};
use base::frame::Frame;
use base::units::{BLOCK_BYTES, OOB_BYTES, ZoneIndex};
use zone::device::{Command, Completion, Op, Status};
use zone::rules::{Zone, ZoneTable};

/// Most blocks of a run of several commands: 256 KiB. More no longer lowers the cost per block,
/// and makes a fault more expensive. A command that is larger is a run of its own.
pub(super) const RUN_BLOCKS_MAX: u32 = 64;

/// Commands of one zone whose blocks follow each other, all written or all read.
#[derive(Debug, Default)]
pub(super) struct Run {
    commands: Vec<Command>,
    offset: u32,
    blocks: u32,
}

impl Run {
    /// True when `next` continues the run in kind, place and size.
    #[inline]
    fn continues_with(&self, next: &Command) -> bool {
        let first = &self.commands[0];
        let adjacent = match &next.op {
            Op::Append { .. } | Op::Write { .. } => !is_read(&first.op),
            Op::Read { offset, .. } => {
                is_read(&first.op) && u64::from(*offset) == u64::from(self.offset) + u64::from(self.blocks)
            }
            Op::Reset
            | Op::Finish
            | Op::Open
            | Op::OpenWithArea
            | Op::Commit { .. }
            | Op::Close
            | Op::Report { .. }
            | Op::FindTurned { .. }
            | Op::Flush
            | Op::SelfTest { .. } => false,
        };
        adjacent && block_count(frames_in(&next.op)).saturating_add(self.blocks) <= RUN_BLOCKS_MAX
    }

    #[inline]
    fn push(&mut self, command: Command) {
        self.blocks += block_count(frames_in(&command.op));
        self.commands.push(command);
    }

    fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.commands.iter().flat_map(|command| frames_in(&command.op))
    }

    fn frames_mut(&mut self) -> impl Iterator<Item = &mut Frame> {
        self.commands.iter_mut().flat_map(|command| frames_in_mut(&mut command.op))
    }

    /// Every command has the same outcome.
    #[inline]
    fn complete(&mut self, outcome: Result<(), Status>, completions: &mut Vec<Completion>) {
        let mut offset = self.offset;
        for Command { token, zone, op } in self.commands.drain(..) {
            let frames = frames_of(op);
            let asked = Asked { token, zone, offset };
            offset += block_count(&frames);
            completions.push(asked.done(outcome, frames));
        }
    }
}

impl EmulatedDrive {
    /// Executes a read, write or append, and with it those that continue it.
    pub(super) fn transfer(
        &mut self,
        command: Command,
        followers: Option<Followers>,
        completions: &mut Vec<Completion>,
    ) {
        let zone = command.zone;
        let before = self.zone_before(zone);
        let admitted = before.and_then(|before| Ok((before, admit(&mut self.table, &command)?)));
        let (before, offset) = match admitted {
            Ok(admitted) => admitted,
            Err(status) => {
                let asked = Asked::of(command.token, zone, &command.op);
                return completions.push(asked.done(Err(status), frames_of(command.op)));
            }
        };
        let mut run = std::mem::take(&mut self.run);
        run.offset = offset;
        run.blocks = 0;
        run.push(command);
        if let Some(followers) = followers.filter(|_| before.area.is_none()) {
            join(&mut self.table, &mut run, followers);
        }
        match self.move_run(zone, before, &mut run) {
            Err(_) if run.commands.len() > 1 => {
                run.commands.drain(..).for_each(|command| self.transfer_alone(command, completions));
            }
            Err(_) if self.held.waits_for_room && self.media.lacks_room() => {
                run.commands.drain(..).for_each(|command| self.held.push_for_room(command));
            }
            outcome => run.complete(outcome, completions),
        }
        self.run = run;
    }

    /// Executes a transfer that failed together with others, unless one of those waits now.
    #[cold]
    fn transfer_alone(&mut self, command: Command, completions: &mut Vec<Completion>) {
        if self.held.stops(&command) {
            self.held.push(command);
        } else {
            self.transfer(command, None, completions);
        }
    }

    fn move_run(&mut self, zone: ZoneIndex, before: Zone, run: &mut Run) -> Result<(), Status> {
        if is_read(&run.commands[0].op) { self.read(zone, run) } else { self.write(zone, before, run) }
    }

    /// Brings blocks that the rules allow to the media, and after them the write pointer, which the
    /// rules have moved already.
    #[inline]
    fn write(&mut self, zone: ZoneIndex, before: Zone, run: &Run) -> Result<(), Status> {
        let &Run { offset, blocks, .. } = run;
        let injected = match &mut self.faults {
            None => Ok(()),
            Some(faults) if run.commands.len() > 1 => faults.check_writes(zone, offset, blocks),
            Some(faults) => faults.take_write(zone, offset, blocks),
        };
        let written = injected.and_then(|()| match before.area {
            None => self.media.write(zone, offset, run.frames()),
            Some(_) => self.write_window(zone, before, offset, run.frames()),
        });
        match written {
            Ok(()) => self.store(zone),
            Err(_) => self.undo(zone, before),
        }
        written
    }

    #[inline]
    fn read(&mut self, zone: ZoneIndex, run: &mut Run) -> Result<(), Status> {
        let &mut Run { offset, blocks, .. } = run;
        if let Some(faults) = &self.faults {
            faults.check_read(zone, offset, blocks)?;
        }
        if self.table.zone(zone).area.is_some() {
            let mut frames = (offset..).zip(run.frames_mut());
            return frames.try_for_each(|(at, frame)| self.read_window(zone, at, frame));
        }
        let written = self.table.zone(zone).write_pointer.saturating_sub(offset).min(blocks) as usize;
        for frame in run.frames_mut().skip(written) {
            frame.data = [0; BLOCK_BYTES];
            frame.oob = [0; OOB_BYTES];
        }
        if written == 0 { Ok(()) } else { self.media.read(zone, offset, run.frames_mut().take(written)) }
    }
}

/// Takes what continues the run and the rules admit.
#[inline]
fn join(table: &mut ZoneTable, run: &mut Run, mut followers: Followers) {
    while let Some(next) = followers.peek()
        && run.continues_with(next)
        && admit(table, next).is_ok()
    {
        run.push(followers.take());
    }
}

/// Asks the rules about a transfer and returns where it goes. On refusal nothing has changed.
#[inline]
fn admit(table: &mut ZoneTable, command: &Command) -> Result<u32, Status> {
    let zone = command.zone;
    match &command.op {
        Op::Append { frames } => table.append(zone, block_count(frames)),
        Op::Write { offset, frames } => table.write(zone, *offset, block_count(frames)).map(|()| *offset),
        Op::Read { offset, frames } => table.read(zone, *offset, block_count(frames)).map(|()| *offset),
        Op::Reset
        | Op::Finish
        | Op::Open
        | Op::OpenWithArea
        | Op::Commit { .. }
        | Op::Close
        | Op::Report { .. }
        | Op::FindTurned { .. }
        | Op::Flush
        | Op::SelfTest { .. } => {
            unreachable!("only transfers are admitted")
        }
    }
}

fn is_read(op: &Op) -> bool {
    matches!(op, Op::Read { .. })
}

#[inline]
fn frames_in(op: &Op) -> &[Frame] {
    match op {
        Op::Read { frames, .. } | Op::Write { frames, .. } | Op::Append { frames } => frames,
        Op::Reset
        | Op::Finish
        | Op::Open
        | Op::OpenWithArea
        | Op::Commit { .. }
        | Op::Close
        | Op::Report { .. }
        | Op::FindTurned { .. }
        | Op::Flush
        | Op::SelfTest { .. } => &[],
    }
}

#[inline]
fn frames_in_mut(op: &mut Op) -> &mut [Frame] {
    match op {
        Op::Read { frames, .. } | Op::Write { frames, .. } | Op::Append { frames } => frames,
        Op::Reset
        | Op::Finish
        | Op::Open
        | Op::OpenWithArea
        | Op::Commit { .. }
        | Op::Close
        | Op::Report { .. }
        | Op::FindTurned { .. }
        | Op::Flush
        | Op::SelfTest { .. } => &mut [],
    }
}
