//! End of a round: what is right now, what stays in the cache, and who is answered.

use super::super::Effects;
use super::super::clients::Clients;
use super::super::core::{Core, WriteAhead};
use super::super::map::Strip;
use super::super::plan::{Method, RowFacts};
use super::super::row_set::RowSet;
use super::super::rows::Rows;
use super::super::shards::Place;
use super::super::table::{Kind, Logged, Phase, Round};
use base::pieces::PieceSet;
use base::time::Instant;

impl WriteAhead {
    /// A round is through that was in a log.
    fn end_round_of_log(&mut self, logged: Logged) {
        match (logged, &mut self.logs, &mut self.journal) {
            (Logged::Durable(role, generation), Some(logs), _) => logs.end_round(role, generation),
            (Logged::Journaled(number), _, Some(journal)) => journal.end_round(number),
            _ => {}
        }
    }
}

impl Core {
    /// Rows of a round that is through, and the frames that it reserved, are others'.
    pub(in crate::inplace) fn give_rows_back(&mut self, round: &mut Round) {
        for (_, mut row) in round.rows.drain() {
            row.give_back(&mut self.stock);
            self.table.pools.keep_row(row);
        }
        self.stock.unreserve(round.reserved);
    }

    /// A round begins that takes the dirty mark.
    pub(super) fn begin_marked_round(&mut self) {
        match &mut self.place {
            Place::Shard(shard) => shard.begin_writing(),
            Place::Alone | Place::Control(_) => self.scribe.begin_writing(),
        }
    }

    /// A round no longer needs bits and dirty mark.
    pub(in crate::inplace) fn end_marked_round(&mut self, now: Instant, round: &Round) {
        if let Place::Shard(shard) = &mut self.place {
            return shard.end_round(&round.regions, now);
        }
        if let Some(pages) = &mut self.pages {
            round.regions.iter().for_each(|region| pages.release(*region));
        }
        if round.is_marked() {
            self.scribe.end_writing(now);
        }
    }

    /// Rows of a round that wrote, with what it was to write.
    pub(in crate::inplace) fn written_in(&self, kind: Kind, rows: &Rows) -> Vec<(u16, PieceSet)> {
        match kind {
            Kind::Zero => (0..u16::try_from(self.map.strip_rows()).expect("at most 128"))
                .map(|row| (row, PieceSet::first(self.map.data_count())))
                .collect(),
            _ => rows.iter().map(|(place, row)| (place, row.written)).collect(),
        }
    }

    /// True when a member lists a row: what was written there is lost when another one goes before the answer.
    fn lists_row(&self, strip: Strip, place: u16) -> bool {
        let row = self.map.row_of(strip, place);
        self.map.order(strip).members.iter().any(|member| self.is_bad(*member, row..row + 1))
    }

    /// True when something of a row can neither be read nor decoded, by what members there are now and what they list.
    pub(in crate::inplace) fn is_beyond_reach(&self, strip: Strip, place: u16, pieces: PieceSet) -> bool {
        let order = self.map.order(strip);
        let row = self.map.row_of(strip, place);
        let live = order.pieces_of(self.members.counting(row));
        let is_good = |piece: &usize| !self.is_bad(order.members[*piece], row..row + 1);
        let readable = live.iter().filter(is_good).collect();
        let none = PieceSet::EMPTY;
        let is_right = self.sync.is_right(row);
        let facts = RowFacts { code: &order.code, written: none, live, readable, held: none, is_right };
        let facts = self.sync.judge(facts, order, row);
        pieces.iter().any(|piece| facts.read(piece).is_none())
    }

    /// Notes rows whose parities were computed from all of their data.
    fn note_right(&mut self, strip: Strip, kind: Kind, rows: &Rows, lost: RowSet) {
        let all = self.map.rows_of(strip);
        match kind {
            Kind::Zero => all.for_each(|row| self.sync.note_right(row)),
            Kind::Rebuild => {
                // A copy says nothing of parities, whoever joined while it was made.
                for (place, _) in rows.iter().filter(|(_, row)| row.is_rebuilt) {
                    self.sync.note_right(all.start + u64::from(place));
                }
            }
            Kind::Resync if !self.sync.goes_on_without(self.members.lacking()) => {}
            Kind::Resync => {
                let stuck: Vec<u64> = lost.iter().map(|row| all.start + u64::from(row)).collect();
                self.sync.pass(all, &stuck);
            }
            Kind::Write => {
                for (place, row) in rows.iter().filter(|(_, row)| !row.is_lost) {
                    if matches!(row.method, Some(Method::Reconstruct | Method::Decode)) {
                        self.sync.note_right(all.start + u64::from(place));
                    }
                }
            }
            Kind::Read | Kind::Scrub => {}
        }
    }
}

impl Clients {
    /// Ends a round: notes what is right now, answers, and lets the next one begin.
    pub(super) fn finish(&mut self, now: Instant, number: u32, fx: &mut Effects) {
        let slot = self.strips.core.table.slot_mut(number);
        let (strip, order) = (slot.strip, slot.order);
        let mut round = slot.round.take().expect("a round ends");
        assert!(round.phase() == Phase::Writing && round.pending == 0);
        self.strips.core.ahead.end_round_of_log(round.logged);
        let (kind, is_broken) =
            (round.kind, self.strips.core.members.is_broken() || round.logged == Logged::Refused);
        let lost: RowSet = round.rows.iter().filter(|(_, row)| row.is_lost).map(|(place, _)| place).collect();
        // What was written may be decoded by parities that were made right with it.
        if !is_broken {
            self.strips.core.note_right(strip, kind, &round.rows, lost);
        }
        let (mut unwritten, mut on_lists) = (RowSet::EMPTY, Vec::new());
        if round.has_failed_writes || (kind.is_write() && !self.strips.core.bad_blocks.is_empty()) {
            let written = self.strips.core.written_in(kind, &round.rows).into_iter();
            let listed = written
                .filter(|(place, _)| round.has_failed_writes || self.strips.core.lists_row(strip, *place));
            let (beyond, within): (Vec<_>, Vec<_>) =
                listed.partition(|(place, pieces)| self.strips.core.is_beyond_reach(strip, *place, *pieces));
            (unwritten, on_lists) = (beyond.iter().map(|(place, _)| *place).collect(), within);
        }
        if kind == Kind::Write && !is_broken && !round.has_failed_writes {
            self.strips.keep_rows((strip, order), &mut round);
        }
        if kind.is_sweep() {
            let in_flight = self.strips.core.background.sweeps.in_flight;
            assert!(in_flight > 0, "a {kind:?} of {strip:?} ends that was not begun");
            self.strips.core.background.sweeps.in_flight -= 1;
        }
        match kind {
            Kind::Rebuild => self.strips.core.end_rebuild(strip, &round.rows, lost),
            Kind::Write | Kind::Zero => self.strips.core.note_written(strip),
            Kind::Read | Kind::Resync | Kind::Scrub => {}
        }
        if kind == Kind::Scrub {
            let compared = u64::try_from(round.rows.len() - lost.count()).expect("at most 128 rows");
            self.strips.core.background.scrub.end(self.strips.core.map.strip_rows() - compared);
        }
        self.strips.core.give_rows_back(&mut round);
        self.strips.core.end_marked_round(now, &round);
        assert!(
            kind.is_write() || unwritten.is_empty(),
            "a {kind:?} of {strip:?} did not write {unwritten:?}"
        );
        let is_zero_lost = kind == Kind::Zero && !unwritten.is_empty();
        for &(request, touched) in &round.jobs {
            let is_lost = !touched.and(lost).is_empty() || !touched.and(unwritten).is_empty();
            if kind != Kind::Read && (is_broken || is_zero_lost || is_lost) {
                self.strips.core.requests.fail(request);
            }
            let own = |(place, _): &&(u16, PieceSet)| kind == Kind::Zero || touched.contains(*place);
            on_lists.iter().filter(own).for_each(|(place, pieces)| {
                self.strips.core.requests.note_listed(request, (strip, *place, *pieces));
            });
            self.part_done(request, fx);
        }
        self.strips.core.table.pools.keep_round(round);
        let is_through = self.strips.core.table.slot(number).waiting.is_empty();
        if !is_through {
            self.strips.core.table.run(number);
        }
        self.strips.core.table.feed_starved();
        if is_through {
            self.strips.core.table.close_resting(number);
        }
    }
}
