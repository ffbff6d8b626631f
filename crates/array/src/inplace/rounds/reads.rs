//! Reads of a round: what its plans need, and what readers get.

use super::super::completions::PieceCommand;
use super::super::core::Core;
use super::super::row::Row;
use super::super::runs::for_each_run;
use super::super::strips::Strips;
use super::super::table::{Kind, Slot};
use super::super::{Effects, kind};
use base::pieces::PieceSet;
use block::device::Op;

impl Core {
    /// Adds the pieces that a round has to read, row by row.
    fn missing_reads(&mut self, number: u32, places: &mut Vec<(u16, PieceSet)>) {
        let Slot { strip, order, round, .. } = self.table.slot_mut(number);
        let order = self.map.order_at(*order);
        let round = round.as_mut().expect("a round reads");
        round.planned_with = self.members.if_settled();
        let goes_on = match round.kind {
            Kind::Resync => self.sync.goes_on_without(self.members.lacking()),
            Kind::Scrub => !self.members.is_degraded(),
            Kind::Write | Kind::Read | Kind::Rebuild | Kind::Zero => true,
        };
        if !goes_on {
            return;
        }
        let has_journal = self.ahead.journal.is_some();
        let start = strip.0 * self.map.strip_rows();
        for (place, row) in round.rows.iter_mut() {
            let number = start + u64::from(place);
            let counting = order.pieces_of(self.members.counting(number));
            let facts = row.facts(&order.code, counting, self.sync.is_right(number));
            let facts = self.sync.judge(facts, order, number);
            let needed: PieceSet = match round.kind {
                Kind::Write => {
                    let plan = if has_journal { facts.write_with_all_parities() } else { facts.write() };
                    row.planned = plan.map(|plan| plan.method);
                    plan.iter().for_each(|plan| self.counters.note_reads(plan, order.code.data_count()));
                    plan.map_or(PieceSet::EMPTY, |plan| plan.reads)
                }
                Kind::Resync | Kind::Scrub => facts.readable.without(facts.held),
                Kind::Zero => PieceSet::EMPTY,
                Kind::Rebuild => {
                    let pieces = order.pieces_of(self.members.rebuilt_in(number));
                    let pieces = pieces.or(self.sync.unsettled(&facts, number));
                    let copied = order.pieces_of(self.members.copied_in(number).and(round.copied));
                    let of_copies = copied.iter().filter_map(|piece| facts.read(piece));
                    of_copies.fold(facts.rebuild(pieces).unwrap_or(PieceSet::EMPTY), PieceSet::or)
                }
                Kind::Read => {
                    let of_row = round.wanted.iter().filter(|(_, wanted)| wanted.row == place);
                    let sources = of_row.filter_map(|(_, wanted)| facts.read(wanted.piece));
                    sources.fold(PieceSet::EMPTY, PieceSet::or)
                }
            };
            if !needed.is_empty() {
                places.push((place, needed));
            }
        }
    }

    /// Gives readers their blocks, decoded where need be.
    pub(super) fn hand_out(&mut self, number: u32) {
        let lacks_replay = self.ahead.lacks_replay();
        let Slot { strip, round, .. } = self.table.slot_mut(number);
        let order = self.map.order(*strip);
        let round = round.as_mut().expect("a round of reads");
        for (request, wanted) in round.wanted.drain(..) {
            let row_number = self.map.row_of(*strip, wanted.row);
            let row: &mut Row = round.rows.get_mut(wanted.row).expect("a row that was admitted");
            let counting = order.pieces_of(self.members.counting(row_number));
            let facts = row.facts(&order.code, counting, self.sync.is_right(row_number));
            let facts = self.sync.judge(facts, order, row_number);
            if lacks_replay {
                self.requests.fail(request);
                continue;
            }
            if row.old.get(wanted.piece).is_none() {
                if facts.read(wanted.piece).is_none() {
                    self.counters.unreadable += 1;
                    self.requests.fail(request);
                    continue;
                }
                self.counters.decoded += 1;
                row.decode(&facts, wanted.piece, &mut self.stock);
            }
            self.requests.frame_mut(request, wanted.index).set_data(row.old.block(wanted.piece));
        }
    }
}

impl Strips {
    /// Issues the reads that are missing; false when there are none.
    pub(super) fn issue_reads(&mut self, number: u32, fx: &mut Effects) -> bool {
        let mut places = std::mem::take(&mut self.core.table.pools.places);
        self.core.missing_reads(number, &mut places);
        for_each_run(&places, |run| {
            self.read_piece(PieceCommand::of(number, run, false), fx);
        });
        let has_issued = !places.is_empty();
        places.clear();
        self.core.table.pools.places = places;
        has_issued
    }

    /// Reads rows of a piece.
    pub(in crate::inplace) fn read_piece(&mut self, command: PieceCommand, fx: &mut Effects) {
        assert!(!command.is_write && command.count > 0);
        let frames = self.core.stock.take_vec(command.count.into());
        let &Slot { strip, order, .. } = self.core.table.slot(command.slot);
        let member = self.core.map.order_at(order).members[command.piece];
        let has_row = |row| self.core.members.counting(row).contains(member.index());
        let is_there = !self.core.members.is_degraded() || self.core.rows_of_command(command).all(has_row);
        assert!(is_there, "rows are read of a member that lacks them: {command:?}");
        let round = self.core.table.slot_mut(command.slot).round_mut();
        round.pending += 1;
        let counter = if round.kind.is_sweep() {
            &mut self.core.counters.swept
        } else {
            &mut self.core.counters.read_for_writes
        };
        *counter += u64::from(command.count);
        let sector = self.core.members.sector(member, self.core.map.row_of(strip, command.first));
        let waiter = self.commands.insert(command);
        fx.command(self.core.members.seat(member), kind::PIECE, waiter, Op::Read { sector, frames });
    }
}
