//! Rounds of strips: how work is admitted, and how a round goes on.
//!
//! `reads` has what it reads, `parities` what it computes, `writes` what it writes, `end` how it ends.

mod end;
mod parities;
mod reads;
mod writes;
mod zeroes;

use super::clients::Clients;
use super::core::Core;
use super::map::Strip;
use super::pages::{Pages, regions_of};
use super::row_set::RowSet;
use super::shards::Place;
use super::strips::Strips;
use super::table::{Job, Kind, Phase, Round, Slot, Work};
use super::{Effects, members};
use base::pieces::PieceSet;
use base::time::Instant;
use block::md::Role;
use block::md::reader::ROW_SECTORS;

impl Core {
    /// A strip is in work from now on.
    fn open(&mut self, strip: Strip) -> u32 {
        assert!(!self.place.is_away(strip), "{strip:?} is in work at the control shard");
        let number = self.table.open(strip, self.map.order_index(strip));
        self.table.run(number);
        number
    }

    /// Rows that work touches.
    fn rows_touched(&self, strip: Strip, work: &Work) -> RowSet {
        assert!(strip.0 < self.map.strips(), "{strip:?} of {}", self.map.strips());
        let all = || RowSet::first(self.map.strip_rows()).iter();
        match work {
            Work::Write { cells, .. } => cells.iter().map(|cell| cell.row).collect(),
            Work::Read(wanted) => wanted.iter().map(|wanted| wanted.row).collect(),
            Work::Zero => RowSet::EMPTY,
            Work::Resync => all().filter(|row| !self.sync.is_right(self.map.row_of(strip, *row))).collect(),
            Work::Rebuild => {
                all().filter(|row| self.members.is_lacked(self.map.row_of(strip, *row))).collect()
            }
            Work::Scrub => all().filter(|row| self.sync.is_right(self.map.row_of(strip, *row))).collect(),
        }
    }

    /// What members list as bad is not read.
    fn note_bad_rows(&mut self, number: u32, touched: RowSet) {
        if self.bad_blocks.is_empty() {
            return;
        }
        let Slot { strip, order, round, .. } = self.table.slot_mut(number);
        let order = self.map.order_at(*order);
        let rows = &mut round.as_mut().expect("work is admitted to a round").rows;
        for place in touched.iter() {
            let row = self.map.row_of(*strip, place);
            let is_bad =
                |member: Role| self.bad_blocks.is_bad(member, &self.members.sectors(member, row..row + 1));
            for (piece, member) in order.members.iter().enumerate() {
                // A replacement may be the member before this is read.
                let is_replaced = self.members.has_replacement(*member);
                if is_bad(*member) || (is_replaced && is_bad(member.replacement())) {
                    rows.get_mut(place).expect("rows that were made").unreadable.insert(piece);
                }
            }
        }
    }

    /// Asks for the bits of the rows that a round is about to change.
    fn ask_regions(&mut self, number: u32, touched: RowSet) {
        let slot = self.table.slot_mut(number);
        let strip = slot.strip;
        let round = slot.round.as_mut().expect("work is admitted to a round");
        let region_sectors = match &self.place {
            Place::Shard(shard) => shard.region_sectors(),
            Place::Alone | Place::Control(_) => self.pages.as_ref().map(Pages::region_sectors),
        };
        let Some(region_sectors) = region_sectors.filter(|_| round.is_marked()) else { return };
        let start = self.map.rows_of(strip).start;
        let places = match round.kind {
            Kind::Zero => RowSet::first(self.map.strip_rows()),
            Kind::Write | Kind::Read | Kind::Resync | Kind::Scrub | Kind::Rebuild => touched,
        };
        for row in places.iter().map(|place| start + u64::from(place)) {
            for region in regions_of(region_sectors, &(row * ROW_SECTORS..(row + 1) * ROW_SECTORS)) {
                if round.regions.contains(&region) {
                    continue;
                }
                round.regions.push(region);
                match &mut self.place {
                    Place::Shard(shard) => shard.ask(region),
                    Place::Alone | Place::Control(_) => {
                        self.pages.iter_mut().for_each(|pages| pages.ask(region))
                    }
                }
            }
        }
    }

    /// True when all that was planned to be read of a round of writes is there, and nothing came since that changes plans. Which
    /// parities of a strip are right changes with its own rounds only.
    fn is_planned(&self, number: u32) -> bool {
        let round = self.table.slot(number).round.as_ref().expect("a round is planned");
        let planned_with = round.planned_with.filter(|_| round.kind == Kind::Write);
        planned_with.is_some() && planned_with == self.members.if_settled()
    }

    /// Members that a strip's pieces lie on, for messages.
    #[must_use]
    pub fn members_of(&self, strip: Strip) -> PieceSet {
        assert!(strip.0 < self.map.strips(), "{strip:?} of {}", self.map.strips());
        (0..self.members.count()).filter(|index| self.members.is_live(members::role(*index))).collect()
    }
}

impl Strips {
    /// Hands work to its strip: it joins a round that still gathers, waits for the next, or for room in the table.
    pub(super) fn offer(&mut self, strip: Strip, job: Job) {
        if self.core.place.is_away(strip) {
            return self.hand_job(strip, job);
        }
        let number = match self.core.table.find(strip) {
            Some(number) => number,
            // Whoever waits for room comes first.
            None if self.core.table.backlog.is_empty() && self.core.table.has_room() => self.core.open(strip),
            None => return self.core.table.backlog.push_back((strip, job)),
        };
        let slot = self.core.table.slot(number);
        let gathers = |round: &Round| round.kind == Kind::Write && round.phase() == Phase::Gathering;
        let joins = job.work.kind() == Kind::Write
            && self.window.lets_join()
            && slot.waiting.is_empty()
            && slot.round.as_deref().is_some_and(gathers);
        let left_over = if joins { self.admit(number, job).err() } else { Some(job) };
        let Some(job) = left_over else {
            self.core.counters.joined += 1;
            return;
        };
        let slot = self.core.table.slot_mut(number);
        slot.waiting.push_back(job);
        if slot.held_since.is_some() && slot.round.is_none() {
            self.core.table.run(number);
        }
    }

    /// Work that waits goes to strips, and strips that wait for frames try again; true when something moved.
    pub(super) fn fill_table(&mut self) -> bool {
        let mut moved = false;
        while let Some((strip, _)) = self.core.table.backlog.front() {
            let strip = *strip;
            if self.core.table.find(strip).is_none() && !self.core.place.is_away(strip) {
                if !self.core.table.has_room() {
                    break;
                }
                self.core.open(strip);
            }
            let (strip, job) = self.core.table.backlog.pop_front().expect("there is one");
            self.offer(strip, job);
            moved = true;
        }
        moved
    }

    /// Begins a round with the first work that waits, and writes behind it; false when there is none, or no frames.
    fn begin(&mut self, number: u32) -> bool {
        let (slot, pools) = self.core.table.slot_and_pools(number);
        let Some(job) = slot.waiting.pop_front() else {
            self.core.table.close(number);
            return false;
        };
        assert!(slot.round.is_none(), "{:?} has a round already", slot.strip);
        let kind = job.work.kind();
        let mut round = pools.round(kind);
        round.copied = self.core.members.replaced();
        slot.round = Some(round);
        if let Err(job) = self.admit(number, job) {
            let (slot, pools) = self.core.table.slot_and_pools(number);
            slot.round.take().into_iter().for_each(|round| pools.keep_round(round));
            slot.waiting.push_front(job);
            self.core.table.starved.push_back(number);
            return false;
        }
        if self.core.table.slot_mut(number).round_mut().is_marked() {
            self.core.begin_marked_round();
        }
        if !matches!(kind, Kind::Write | Kind::Read) {
            self.forget_rows(number);
        }
        if kind == Kind::Write {
            self.admit_writes(number);
        }
        true
    }

    /// Adds the writes that wait first to a round.
    fn admit_writes(&mut self, number: u32) {
        for _ in 1..std::mem::replace(&mut self.core.table.slot_mut(number).limit, usize::MAX) {
            let waiting = &mut self.core.table.slot_mut(number).waiting;
            if waiting.front().is_none_or(|job| job.work.kind() != Kind::Write) {
                return;
            }
            let job = waiting.pop_front().expect("there is one");
            if let Err(job) = self.admit(number, job) {
                self.core.table.slot_mut(number).waiting.push_front(job);
                return;
            }
        }
    }

    /// Adds work to a round; gives it back when there are no frames for it.
    fn admit(&mut self, number: u32, job: Job) -> Result<(), Job> {
        let slot = self.core.table.slot(number);
        let order = self.core.map.order_at(slot.order);
        if self.core.ahead.logs.is_some() && !slot.is_consecutive_with(&job.work, order) {
            return Err(job);
        }
        let touched = self.core.rows_touched(slot.strip, &job.work);
        let (slot, pools) = self.core.table.slot_and_pools(number);
        let pieces = order.members.len();
        let round = slot.round_mut();
        round.planned_with = None;
        assert!(round.kind == job.work.kind(), "{:?} in a round of {:?}", job.work.kind(), round.kind);
        assert!(round.phase() == Phase::Gathering, "work joins a round that is {:?}", round.phase());
        let fresh = touched.without(round.rows.set());
        let copies = if round.copied.is_empty() { 0 } else { round.copied.count() };
        let needed = (2 * pieces + copies) * fresh.count();
        if !self.core.stock.reserve(needed) {
            return Err(job);
        }
        round.reserved += needed;
        fresh.iter().for_each(|row| round.rows.insert(row, pools.row(pieces)));
        if round.kind == Kind::Write {
            self.recall_rows(number, fresh);
        }
        self.core.note_bad_rows(number, touched);
        self.core.ask_regions(number, touched);
        let (slot, pools) = self.core.table.slot_and_pools(number);
        let round = slot.round_mut();
        if let Some(request) = job.request {
            round.jobs.push((request, touched));
        }
        match job.work {
            Work::Write { mut cells, durable } => {
                round.durable |= durable;
                for cell in cells.drain(..) {
                    let frame = if let Some(frame) = cell.frame {
                        self.core.stock.adopt();
                        frame
                    } else {
                        self.core.stock.take_zeros()
                    };
                    let row = round.rows.get_mut(cell.row).expect("a row that was admitted");
                    row.write(cell.piece, frame, &mut self.core.stock);
                }
                pools.cells.push(cells);
            }
            Work::Read(mut wanted) => {
                let request = job.request.expect("somebody reads");
                round.wanted.extend(wanted.drain(..).map(|wanted| (request, wanted)));
                pools.wanted.push(wanted);
            }
            Work::Zero | Work::Resync | Work::Scrub | Work::Rebuild => {}
        }
        Ok(())
    }
}

impl Clients {
    /// Moves a strip on as far as it goes.
    pub(super) fn progress(&mut self, now: Instant, number: u32, fx: &mut Effects) {
        if self.strips.core.place.is_shard() && self.withdraw(now, number, fx) {
            return;
        }
        match self.strips.core.table.slot(number).round.as_ref().map(|round| round.pending) {
            Some(0) => self.advance(now, number, fx),
            Some(_) => {}
            None if self.strips.holds(now, number) || !self.strips.begin(number) => {}
            // While the first reads are in flight later writes join; a round that reads nothing goes straight on.
            None if self.strips.issue_reads(number, fx) => {}
            None => self.advance(now, number, fx),
        }
    }

    /// Moves a round on whose commands have all come back.
    fn advance(&mut self, now: Instant, number: u32, fx: &mut Effects) {
        loop {
            let round = self.strips.core.table.slot_mut(number).round_mut();
            if round.phase() == Phase::Gathering {
                round.advance(Phase::Frozen);
            }
            match round.phase() {
                Phase::Gathering => unreachable!("nothing gathers any more"),
                Phase::Frozen => {
                    if !self.strips.core.is_planned(number) && self.strips.issue_reads(number, fx) {
                        return;
                    }
                    self.strips.core.compute(number);
                    self.strips.core.table.slot_mut(number).round_mut().advance(Phase::Logging);
                    self.strips.core.gather(number);
                }
                Phase::Logging => {
                    if !self.strips.core.may_write(number) {
                        return;
                    }
                    self.strips.core.table.slot_mut(number).round_mut().advance(Phase::Writing);
                    if self.strips.issue_writes(number, fx) {
                        return;
                    }
                }
                Phase::Writing => return self.finish(now, number, fx),
            }
        }
    }
}
