//! Rounds and the cache: what a round takes at its begin, and puts back at its end.

use super::map::{OrderIndex, Strip};
use super::plan::Method;
use super::row_set::RowSet;
use super::rows::Rows;
use super::strips::Strips;
use super::table::{Round, Slot};
use base::pieces::PieceSet;

impl Strips {
    /// Takes what the cache has of rows that come to a round of writes.
    pub(super) fn recall_rows(&mut self, number: u32, fresh: RowSet) {
        self.follow_members();
        let Slot { strip, round, .. } = self.core.table.slot_mut(number);
        let round = round.as_mut().expect("rows come to a round");
        if round.rows.set() == fresh {
            round.epoch = self.cache.epoch();
        }
        let start = self.core.map.rows_of(*strip).start;
        for place in fresh.iter() {
            let row = round.rows.get_mut(place).expect("a row that came");
            if self.cache.take(start + u64::from(place), &mut row.old, &mut self.core.stock) {
                row.cached = row.old.pieces();
            }
        }
    }

    /// Drops what the cache has of a strip: its round reads and changes the members past it.
    pub(super) fn forget_rows(&mut self, number: u32) {
        self.forget_strip(self.core.table.slot(number).strip);
    }

    /// The same of a strip that nobody works on here.
    pub(super) fn forget_strip(&mut self, strip: Strip) {
        for row in self.core.map.rows_of(strip) {
            self.cache.discard(row, &mut self.core.stock);
        }
    }

    /// Leaves rows that were written in part to the cache, when all of it is on their members.
    pub(super) fn keep_rows(&mut self, (strip, order): (Strip, OrderIndex), round: &mut Round) {
        self.follow_members();
        if self.cache.frames_max() == 0
            || round.epoch != self.cache.epoch()
            || self.core.place.shares_strips()
        {
            return;
        }
        let order = self.core.map.order_at(order);
        let data = PieceSet::first(order.code.data_count());
        let start = self.core.map.rows_of(strip).start;
        for (place, row) in round.rows.iter_mut() {
            let number = start + u64::from(place);
            let is_whole = data.without(row.written).is_empty();
            let has_parities = row.method.is_some_and(|method| method != Method::Direct);
            if row.is_lost || is_whole || !has_parities || !self.core.sync.is_right(number) {
                continue;
            }
            row.settle(order.pieces_of(self.core.members.counting(number)), &mut self.core.stock);
            self.cache.put(number, &mut row.old, !row.cached.is_empty(), &mut self.core.stock);
        }
    }

    /// Nothing is kept when members change: what a member did not take, or has since, is not known by its rows.
    fn follow_members(&mut self) {
        self.cache.follow(self.core.members.live(), self.core.members.writable(), &mut self.core.stock);
    }

    /// Asserts what must hold between events: rows of a round of writes are the strip's owner's alone.
    pub(super) fn check_cache(&self) {
        self.cache.check_invariants();
        for slot in self.core.table.iter() {
            let start = self.core.map.rows_of(slot.strip).start;
            let rows = slot.round.as_ref().map_or(RowSet::EMPTY, |round| Rows::set(&round.rows));
            let is_read = slot.round.as_ref().is_some_and(|round| round.kind == super::table::Kind::Read);
            let is_kept = |place: &u16| self.cache.has(start + u64::from(*place));
            assert!(
                is_read || !rows.iter().any(|place| is_kept(&place)),
                "{:?}: rows in work are kept",
                slot.strip
            );
        }
    }
}
