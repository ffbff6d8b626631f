//! Parities of a round: what is computed of what it read, row by row.

use super::super::core::Core;
use super::super::plan::{Method, RowFacts};
use super::super::table::{Kind, Slot};
use base::pieces::PieceSet;

impl Core {
    /// Computes what is written, and hands out what is read.
    pub(super) fn compute(&mut self, number: u32) {
        let is_whole = !self.members.is_degraded();
        let is_resynced = self.sync.goes_on_without(self.members.lacking());
        let Slot { strip, order, round, .. } = self.table.slot_mut(number);
        let order = self.map.order_at(*order);
        let round = round.as_mut().expect("a round computes");
        let kind = round.kind;
        for (place, row) in round.rows.iter_mut() {
            let row_number = self.map.row_of(*strip, place);
            let counting = order.pieces_of(self.members.counting(row_number));
            let facts = row.facts(&order.code, counting, self.sync.is_right(row_number));
            let facts = self.sync.judge(facts, order, row_number);
            let unsettled = self.sync.unsettled(&facts, row_number);
            match kind {
                Kind::Write => {
                    let Some(method) = row.planned.take() else {
                        row.is_lost = true;
                        continue;
                    };
                    match method {
                        Method::Direct => {}
                        Method::Modify => self.counters.modified += 1,
                        Method::Reconstruct | Method::Decode => self.counters.reconstructed += 1,
                    }
                    let used = facts.used(method);
                    self.counters.cache_hits += count_of(used.and(row.cached));
                    self.counters.cache_misses += count_of(used.without(row.cached));
                    row.compute(&facts, method, &mut self.stock);
                }
                Kind::Resync => {
                    row.is_lost = !is_resynced
                        || match facts.is_right {
                            true => !row.rebuild(&facts, unsettled, &mut self.stock),
                            false => !row.resync(&facts, &mut self.stock),
                        };
                }
                Kind::Scrub => {
                    match row.scrub(&facts, is_whole && self.background.scrub.repairs, &mut self.stock) {
                        Some(true) => {}
                        Some(false) if is_whole => {
                            let wrong = row.locate(&facts).map(|piece| order.members[piece]);
                            self.background.scrub.note_mismatch(wrong);
                        }
                        Some(false) | None => row.is_lost = true,
                    }
                }
                Kind::Rebuild => {
                    let pieces = order.pieces_of(self.members.rebuilt_in(row_number));
                    if !pieces.is_empty() {
                        let live = counting.or(pieces);
                        let facts = RowFacts { live, ..facts };
                        row.is_rebuilt = row.rebuild(&facts, pieces.or(unsettled), &mut self.stock);
                        row.is_lost = !row.is_rebuilt;
                    }
                    let copied = order.pieces_of(self.members.copied_in(row_number).and(round.copied));
                    let facts = row.facts(&order.code, counting, self.sync.is_right(row_number));
                    row.find(&self.sync.judge(facts, order, row_number), copied, &mut self.stock);
                }
                Kind::Read | Kind::Zero => {}
            }
        }
        if kind == Kind::Read {
            self.hand_out(number);
        }
    }
}

fn count_of(pieces: PieceSet) -> u64 {
    u64::try_from(pieces.count()).expect("at most 32")
}
