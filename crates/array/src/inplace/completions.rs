//! Answers of members, and what they change.

use super::clients::Clients;
use super::core::Core;
use super::requests::Requests;
use super::rows::Rows;
use super::runs::Run;
use super::strips::Strips;
use super::table::Slot;
use super::{Effects, InPlace, kind};
use base::frame::Frame;
use base::units::Lba;
use block::device::{Completion, Status};
use block::md::Role;
use std::ops::Range;

/// Read that went straight to a member.
#[derive(Clone, Copy, Debug)]
pub struct DirectRead {
    /// Request.
    pub request: u32,
    /// First block.
    pub lba: Lba,
    /// Place of the first block in the request.
    pub index: usize,
    /// Blocks.
    pub run: u64,
}

/// Command for pieces of a strip: rows of one piece, one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct PieceCommand {
    /// Slot of the strip.
    pub slot: u32,
    /// Piece.
    pub piece: usize,
    /// First row.
    pub first: u16,
    /// Rows.
    pub count: u16,
    /// It writes.
    pub is_write: bool,
    /// It writes to the replacement of the member.
    pub is_copy: bool,
}

impl PieceCommand {
    /// Command for a run of a strip in work.
    #[must_use]
    pub fn of(slot: u32, Run { piece, first, count }: Run, is_write: bool) -> PieceCommand {
        PieceCommand { slot, piece, first, count, is_write, is_copy: false }
    }

    /// Puts frames that came home into the rows that they belong to.
    #[inline]
    fn take_home(self, frames: &mut Vec<Frame>, rows: &mut Rows) {
        assert!(frames.is_empty() || frames.len() == usize::from(self.count), "frames of a command");
        let mut row = self.first + self.count;
        while let Some(frame) = frames.pop() {
            row -= 1;
            let row = rows.get_mut(row).expect("rows stay until the round ends");
            let part = if self.is_write { &mut row.new } else { &mut row.old };
            part.put(self.piece, frame);
        }
    }
}

impl Core {
    /// Rows of a command on their member.
    pub(super) fn rows_of_command(&self, command: PieceCommand) -> Range<u64> {
        let first = self.map.row_of(self.table.slot(command.slot).strip, command.first);
        first..first + u64::from(command.count)
    }

    /// What was written is no bad block any more.
    fn clear_written_piece(&mut self, member: Role, command: PieceCommand) {
        let sectors = self.members.sectors(member, self.rows_of_command(command));
        if !self.bad_blocks.clear(member, &sectors) {
            self.table.slot_mut(command.slot).round_mut().has_failed_writes = true;
        }
    }
}

impl Strips {
    fn on_piece(&mut self, member: Role, waiter: u32, completion: Completion, fx: &mut Effects) {
        let command = self.commands.remove(waiter);
        assert!(command.is_write || !command.is_copy, "a copy of {command:?} is read");
        let Completion { status, mut frames, .. } = completion;
        if status != Status::Success {
            self.on_piece_failed(member, (command, status), frames, fx);
            return self.core.table.note_answer(command.slot);
        }
        if command.is_write && !self.core.bad_blocks.is_empty() {
            self.core.clear_written_piece(member, command);
        }
        if command.is_copy {
            self.core.stock.give_vec(frames);
        } else {
            // What was written may stay in the cache.
            command.take_home(&mut frames, &mut self.core.table.slot_mut(command.slot).round_mut().rows);
            self.core.stock.pool().give_empty(frames);
        }
        self.core.table.note_answer(command.slot);
    }

    #[cold]
    fn on_piece_failed(
        &mut self,
        member: Role,
        (command, status): (PieceCommand, Status),
        frames: Vec<Frame>,
        fx: &mut Effects,
    ) {
        if self.core.place.is_shard() {
            return self.spoil(member, (command, status), frames, fx);
        }
        match (command.is_write, status) {
            (true, Status::WriteError | Status::ReadError) => {
                self.on_piece_unwritten(member, command, frames, fx);
            }
            (false, Status::ReadError) => {
                self.core.stock.give_vec(frames);
                self.on_unreadable(command, fx);
            }
            (_, Status::OutOfRange | Status::DeviceGone | Status::Stalled) | (false, Status::WriteError) => {
                self.core.fail_member(member);
                self.core.stock.give_vec(frames);
            }
            (_, Status::Success) => unreachable!("a command that failed"),
        }
    }

    /// A read failed: of several rows each is read for itself, of one it is known now that it cannot be read. Where the member has
    /// failed meanwhile rows are read from others: a copy of it may have its place, which lacks them.
    fn on_unreadable(&mut self, command: PieceCommand, fx: &mut Effects) {
        assert!(!command.is_write, "{command:?} could not be read");
        let PieceCommand { slot, piece, first, count, .. } = command;
        let &Slot { strip, order, .. } = self.core.table.slot(slot);
        let member = self.core.map.order_at(order).members[piece];
        self.core.table.slot_mut(slot).round_mut().planned_with = None;
        for row in first..first + count {
            if !self.core.members.counting(self.core.map.row_of(strip, row)).contains(member.index()) {
                continue;
            }
            if count > 1 {
                self.read_piece(PieceCommand { first: row, count: 1, ..command }, fx);
            } else {
                let rows = &mut self.core.table.slot_mut(slot).round_mut().rows;
                rows.get_mut(row).expect("rows stay until the round ends").unreadable.insert(piece);
            }
        }
    }

    /// A write failed: of several rows each is written for itself, one that cannot be written is a bad block.
    fn on_piece_unwritten(
        &mut self,
        member: Role,
        command: PieceCommand,
        frames: Vec<Frame>,
        fx: &mut Effects,
    ) {
        assert!(command.is_write && command.count > 0, "{command:?} could not be written");
        if command.count > 1 && !frames.is_empty() && self.core.members.is_live(member) {
            for (row, frame) in (command.first..).zip(frames) {
                self.write_again(member, PieceCommand { first: row, count: 1, ..command }, frame, fx);
            }
            return;
        }
        frames.into_iter().for_each(|frame| self.core.stock.give(frame));
        if member.is_replacement() {
            // Its member has what was to be written, or has just failed itself.
            return self.core.fail_member(member);
        }
        self.core.table.slot_mut(command.slot).round_mut().has_failed_writes = true;
        self.core.on_unwritable(member, self.core.rows_of_command(command));
    }
}

impl Clients {
    fn on_direct(&mut self, member: Role, waiter: u32, completion: Completion, fx: &mut Effects) {
        let DirectRead { request, lba, index, run } = self.direct.remove(waiter);
        let mut frames = completion.frames;
        Requests::put_frames(&mut self.strips.core.requests, request, index, &mut frames);
        self.strips.core.stock.pool().give_vec(frames);
        match completion.status {
            Status::Success => {}
            Status::ReadError => self.read_through_strips(request, lba, (index, run)),
            _ if self.strips.core.place.is_shard() => self.read_through_strips(request, lba, (index, run)),
            Status::OutOfRange | Status::WriteError | Status::DeviceGone | Status::Stalled => {
                self.strips.core.fail_member(member);
                self.read_through_strips(request, lba, (index, run));
            }
        }
        self.part_done(request, fx);
    }
}

impl InPlace {
    /// Takes the completion of a command. [`InPlace::settle`] follows after the last of those that came together.
    pub fn on_completion(&mut self, seat: Role, completion: Completion, fx: &mut Effects) {
        let member = self.clients.strips.core.members.seat(seat);
        let (kind, waiter) = completion.token.unpack();
        let waiter = u32::try_from(waiter).expect("waiters are numbers of slabs");
        match kind {
            kind::DIRECT => self.clients.on_direct(member, waiter, completion, fx),
            kind::PIECE => self.clients.strips.on_piece(member, waiter, completion, fx),
            _ => self.on_step(member, (kind, waiter), completion, fx),
        }
    }

    /// Takes the completion of a command that belongs to no strip and no read.
    fn on_step(&mut self, member: Role, (kind, waiter): (u8, u32), completion: Completion, fx: &mut Effects) {
        match kind {
            kind::SCRIBE => self.clients.strips.core.on_written(member, completion.status),
            kind::LOG => self.clients.strips.core.on_logged(member, completion),
            kind::LOG_FLUSH => self.clients.strips.core.on_log_flushed(member, completion.status),
            kind::JOURNAL => self.clients.strips.core.on_journaled(completion),
            kind::REPLAY => self.clients.strips.core.on_replayed(member, &completion),
            kind::FLUSH => {
                if completion.status != Status::Success {
                    self.clients.strips.core.fail_member(member);
                }
                self.clients.part_done(waiter, fx);
            }
            other => unreachable!("nobody waits for kind {other}"),
        }
    }
}
