//! Zeros that a round writes: whole pieces of a strip, on members and on their replacements.

use super::super::completions::PieceCommand;
use super::super::runs::Run;
use super::super::strips::Strips;
use super::super::{Effects, kind};
use base::pieces::PieceSet;
use block::device::Op;
use block::md::reader::ROW_SECTORS;

impl Strips {
    /// Makes a strip zeros on all members: parities of zeros are zeros.
    pub(super) fn write_zeroes(&mut self, number: u32, fx: &mut Effects) {
        self.zero_pieces(number, self.core.members.writable(), false, fx);
        self.copy_zeroes(number, fx);
    }

    /// Makes a strip zeros on members with these roles, or on their replacements.
    fn zero_pieces(&mut self, number: u32, roles: PieceSet, is_copy: bool, fx: &mut Effects) {
        let strip = self.core.table.slot(number).strip;
        let rows = self.core.map.rows_of(strip);
        let sectors = (rows.end - rows.start) * ROW_SECTORS;
        let count = u16::try_from(rows.end - rows.start).expect("at most 128");
        for piece in self.core.map.order(strip).pieces_of(roles).iter() {
            let member = self.core.map.order(strip).members[piece];
            let place = if is_copy { member.replacement() } else { member };
            self.core.table.slot_mut(number).round_mut().pending += 1;
            let run = Run { piece, first: 0, count };
            let waiter =
                self.commands.insert(PieceCommand { is_copy, ..PieceCommand::of(number, run, true) });
            let sector = self.core.members.sector(place, rows.start);
            let op = Op::WriteZeroes { sector, sectors, may_unmap: true };
            fx.command(self.core.members.seat(place), kind::PIECE, waiter, op);
        }
    }

    /// Makes a strip zeros on replacements.
    fn copy_zeroes(&mut self, number: u32, fx: &mut Effects) {
        let round = self.core.table.slot(number).round.as_ref().expect("a round writes");
        self.zero_pieces(number, self.core.members.replaced().and(round.copied), true, fx);
    }
}
