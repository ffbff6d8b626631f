//! Writes of a round: when it may, and what goes to which member.

use super::super::completions::PieceCommand;
use super::super::core::Core;
use super::super::runs::for_each_run;
use super::super::shards::Place;
use super::super::strips::Strips;
use super::super::table::{Kind, Logged, Phase};
use super::super::{Effects, kind};
use base::frame::Frame;
use block::device::Op;
use block::md::Role;

impl Core {
    /// True when a round may write: dirty mark, bits and log are durable.
    pub(super) fn may_write(&self, number: u32) -> bool {
        let is_broken = self.members.is_broken();
        let round = self.table.slot(number).round.as_ref().expect("a round writes");
        if let Place::Shard(shard) = &self.place {
            return shard.may_write(&round.regions) && self.is_logged_with_shard(round.logged);
        }
        if self.ahead.journal.is_some() && round.logged == Logged::Waits {
            return false;
        }
        if is_broken || round.kind == Kind::Read || round.logged == Logged::Refused {
            return true;
        }
        if !self.is_logged(round.logged) {
            return false;
        }
        !round.is_marked() || (self.scribe.is_ready() && self.are_bits_durable(&round.regions))
    }

    /// True when the bits of regions survive a crash. Until the failure of a member is recorded it is believed, and its bitmap may be
    /// the one that counts: it lacks the bits that it failed to write.
    fn are_bits_durable(&self, regions: &[u64]) -> bool {
        let Some(pages) = &self.pages else { return regions.is_empty() };
        let is_recorded = !self.has_unrecorded_failure();
        is_recorded && regions.iter().all(|region| pages.is_durable(*region))
    }
}

impl Strips {
    /// Issues the writes of a round; false when there are none.
    pub(super) fn issue_writes(&mut self, number: u32, fx: &mut Effects) -> bool {
        if self.core.members.is_broken() {
            return false;
        }
        let round = self.core.table.slot_mut(number).round_mut();
        if round.logged == Logged::Refused {
            return false;
        }
        if round.kind == Kind::Zero {
            self.write_zeroes(number, fx);
            return true;
        }
        let durable = round.durable || round.kind == Kind::Scrub;
        let has_copies = self.issue_copies(number, durable, fx);
        let mut places = std::mem::take(&mut self.core.table.pools.places);
        let slot = self.core.table.slot(number);
        let writable = self.core.map.order_at(slot.order).pieces_of(self.core.members.writable());
        let round = slot.round.as_ref().expect("a round writes");
        for (place, row) in round.rows.iter().filter(|(_, row)| !row.is_lost) {
            let pieces = row.new.pieces().and(writable);
            if !pieces.is_empty() {
                places.push((place, pieces));
            }
        }
        for_each_run(&places, |run| {
            self.write_piece(PieceCommand::of(number, run, true), durable, fx);
        });
        let has_issued = has_copies || !places.is_empty();
        places.clear();
        self.core.table.pools.places = places;
        has_issued
    }

    /// Writes rows of a piece.
    fn write_piece(&mut self, command: PieceCommand, durable: bool, fx: &mut Effects) {
        assert!(command.is_write && command.count > 0);
        let mut frames = self.core.stock.empty_vec();
        let slot = self.core.table.slot_mut(command.slot);
        let (strip, order) = (slot.strip, slot.order);
        let member = self.core.map.order_at(order).members[command.piece];
        let round = slot.round_mut();
        assert!(round.phase() == Phase::Writing, "data before {:?}", Phase::Writing);
        round.pending += 1;
        let (is_resync, is_sweep, mut corrected) = (round.kind == Kind::Resync, round.kind.is_sweep(), 0);
        for place in command.first..command.first + command.count {
            let row = round.rows.get_mut(place).expect("a row that is written");
            corrected += u64::from(row.unreadable.contains(command.piece));
            row.sent.insert(command.piece);
            frames.push(row.new.take(command.piece).expect("content to write"));
        }
        let count = u64::from(command.count);
        let is_parity = command.piece >= self.core.map.data_count();
        self.core.counters.member_written += count;
        self.core.counters.sweep_written += if is_sweep { count } else { 0 };
        self.core.counters.parity_written += if is_parity && !is_sweep { count } else { 0 };
        self.core.counters.corrected += corrected;
        self.core.counters.resynced += if is_resync { count } else { 0 };
        let sector = self.core.members.sector(member, self.core.map.row_of(strip, command.first));
        let waiter = self.commands.insert(command);
        fx.command(
            self.core.members.seat(member),
            kind::PIECE,
            waiter,
            Op::Write { sector, frames, durable },
        );
    }

    /// Writes a row again that was one of several.
    pub(in crate::inplace) fn write_again(
        &mut self,
        member: Role,
        command: PieceCommand,
        frame: Frame,
        fx: &mut Effects,
    ) {
        let slot = self.core.table.slot_mut(command.slot);
        slot.round_mut().pending += 1;
        let sector = self
            .core
            .members
            .sector(member, self.core.map.row_of(self.core.table.slot(command.slot).strip, command.first));
        let waiter = self.commands.insert(command);
        fx.command(
            self.core.members.seat(member),
            kind::PIECE,
            waiter,
            Op::Write { sector, frames: vec![frame], durable: true },
        );
    }
}
