//! Rounds of strips: how work is admitted, what it reads, computes and writes, and how it ends.

use super::completions::PieceCommand;
use super::map::Strip;
use super::plan::{Method, RowFacts};
use super::row::Row;
use super::row_set::RowSet;
use super::rows::Rows;
use super::runs::{Run, for_each_run};
use super::table::{Job, Kind, Logged, Phase, Round, Slot, Work};
use super::{Effects, InPlace, kind, members};
use base::frame::Frame;
use base::pieces::PieceSet;
use base::time::Instant;
use block::device::Op;
use block::md::Role;
use block::md::reader::ROW_SECTORS;

impl InPlace {
    /// Hands work to its strip: it joins a round that still gathers, waits for the next, or for room in the table.
    pub(super) fn offer(&mut self, strip: Strip, job: Job) {
        let number = match self.table.find(strip) {
            Some(number) => number,
            // Whoever waits for room comes first.
            None if self.table.backlog.is_empty() && self.table.has_room() => self.open(strip),
            None => return self.table.backlog.push_back((strip, job)),
        };
        let slot = self.table.slot(number);
        let gathers = |round: &Round| round.kind == Kind::Write && round.phase() == Phase::Gathering;
        let joins = job.work.kind() == Kind::Write
            && self.window.lets_join()
            && slot.waiting.is_empty()
            && slot.round.as_deref().is_some_and(gathers);
        let left_over = if joins { self.admit(number, job).err() } else { Some(job) };
        let Some(job) = left_over else {
            self.counters.joined += 1;
            return;
        };
        let slot = self.table.slot_mut(number);
        slot.waiting.push_back(job);
        if slot.held_since.is_some() && slot.round.is_none() {
            self.table.run(number);
        }
    }

    /// Work that waits goes to strips, and strips that wait for frames try again; true when something moved.
    pub(super) fn fill_table(&mut self) -> bool {
        let mut moved = false;
        while let Some((strip, _)) = self.table.backlog.front() {
            let strip = *strip;
            if self.table.find(strip).is_none() {
                if !self.table.has_room() {
                    break;
                }
                self.open(strip);
            }
            let (strip, job) = self.table.backlog.pop_front().expect("there is one");
            self.offer(strip, job);
            moved = true;
        }
        moved
    }

    /// A strip is in work from now on.
    fn open(&mut self, strip: Strip) -> u32 {
        let number = self.table.open(strip, self.map.order_index(strip));
        self.table.run(number);
        number
    }

    /// Lets strips that wait for frames try again, for some came home.
    fn feed_starved(&mut self) {
        while let Some(number) = self.table.starved.pop_front() {
            self.table.run(number);
        }
    }

    /// Moves a strip on as far as it goes.
    pub(super) fn progress(&mut self, now: Instant, number: u32, fx: &mut Effects) {
        match self.table.slot(number).round.as_ref().map(|round| round.pending) {
            Some(0) => self.advance(now, number, fx),
            Some(_) => {}
            None if self.holds(now, number) || !self.begin(number) => {}
            // While the first reads are in flight later writes join; a round that reads nothing goes straight on.
            None if self.issue_reads(number, fx) => {}
            None => self.advance(now, number, fx),
        }
    }

    /// Begins a round with the first work that waits, and writes behind it; false when there is none, or no frames.
    fn begin(&mut self, number: u32) -> bool {
        let (slot, pools) = self.table.slot_and_pools(number);
        let Some(job) = slot.waiting.pop_front() else {
            self.table.close(number);
            return false;
        };
        let kind = job.work.kind();
        let mut round = pools.round(kind);
        round.copied = self.members.replaced();
        slot.round = Some(round);
        if let Err(job) = self.admit(number, job) {
            let (slot, pools) = self.table.slot_and_pools(number);
            slot.round.take().into_iter().for_each(|round| pools.keep_round(round));
            slot.waiting.push_front(job);
            self.table.starved.push_back(number);
            return false;
        }
        if self.table.slot_mut(number).round_mut().is_marked() {
            self.scribe.begin_writing();
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
        for _ in 1..std::mem::replace(&mut self.table.slot_mut(number).limit, usize::MAX) {
            let waiting = &mut self.table.slot_mut(number).waiting;
            if waiting.front().is_none_or(|job| job.work.kind() != Kind::Write) {
                return;
            }
            let job = waiting.pop_front().expect("there is one");
            if let Err(job) = self.admit(number, job) {
                self.table.slot_mut(number).waiting.push_front(job);
                return;
            }
        }
    }

    /// Rows that work touches.
    fn rows_touched(&self, strip: Strip, work: &Work) -> RowSet {
        let all = || RowSet::first(self.map.strip_rows()).iter();
        match work {
            Work::Write { cells, .. } => cells.iter().map(|cell| cell.row).collect(),
            Work::Read(wanted) => wanted.iter().map(|wanted| wanted.row).collect(),
            Work::Zero => RowSet::EMPTY,
            Work::Resync => all().filter(|row| !self.sync.is_right(self.row_of(strip, *row))).collect(),
            Work::Rebuild => all().filter(|row| self.members.is_lacked(self.row_of(strip, *row))).collect(),
            Work::Scrub => all().filter(|row| self.sync.is_right(self.row_of(strip, *row))).collect(),
        }
    }

    /// Adds work to a round; gives it back when there are no frames for it.
    fn admit(&mut self, number: u32, job: Job) -> Result<(), Job> {
        let slot = self.table.slot(number);
        let order = self.map.order_at(slot.order);
        if self.ahead.logs.is_some() && !slot.is_consecutive_with(&job.work, order) {
            return Err(job);
        }
        let touched = self.rows_touched(slot.strip, &job.work);
        let (slot, pools) = self.table.slot_and_pools(number);
        let pieces = order.members.len();
        let round = slot.round_mut();
        round.planned_with = None;
        assert!(round.kind == job.work.kind(), "{:?} in a round of {:?}", job.work.kind(), round.kind);
        let fresh = touched.without(round.rows.set());
        let copies = if round.copied.is_empty() { 0 } else { round.copied.count() };
        let needed = (2 * pieces + copies) * fresh.count();
        if !self.stock.reserve(needed) {
            return Err(job);
        }
        round.reserved += needed;
        fresh.iter().for_each(|row| round.rows.insert(row, pools.row(pieces)));
        if round.kind == Kind::Write {
            self.recall_rows(number, fresh);
        }
        self.note_bad_rows(number, touched);
        self.ask_regions(number, touched);
        let (slot, pools) = self.table.slot_and_pools(number);
        let round = slot.round_mut();
        if let Some(request) = job.request {
            round.jobs.push((request, touched));
        }
        match job.work {
            Work::Write { mut cells, durable } => {
                round.durable |= durable;
                for cell in cells.drain(..) {
                    let frame = if let Some(frame) = cell.frame {
                        self.stock.adopt();
                        frame
                    } else {
                        self.stock.take_zeros()
                    };
                    let row = round.rows.get_mut(cell.row).expect("a row that was admitted");
                    row.write(cell.piece, frame, &mut self.stock);
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

    /// What members list as bad is not read.
    fn note_bad_rows(&mut self, number: u32, touched: RowSet) {
        if self.bad_blocks.is_empty() {
            return;
        }
        let Slot { strip, order, round, .. } = self.table.slot_mut(number);
        let order = self.map.order_at(*order);
        let rows = &mut round.as_mut().expect("work is admitted to a round").rows;
        for place in touched.iter() {
            let row = strip.0 * self.map.strip_rows() + u64::from(place);
            let is_bad = |member: Role| {
                let sector = self.members.data_offset(member) + row * ROW_SECTORS;
                self.bad_blocks.is_bad(member, &(sector..sector + ROW_SECTORS))
            };
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
        let Some(pages) = self.pages.as_mut().filter(|_| round.is_marked()) else { return };
        let start = self.map.rows_of(strip).start;
        let places = match round.kind {
            Kind::Zero => RowSet::first(self.map.strip_rows()),
            Kind::Write | Kind::Read | Kind::Resync | Kind::Scrub | Kind::Rebuild => touched,
        };
        for row in places.iter().map(|place| start + u64::from(place)) {
            for region in pages.regions_of(&(row * ROW_SECTORS..(row + 1) * ROW_SECTORS)) {
                if !round.regions.contains(&region) {
                    pages.ask(region);
                    round.regions.push(region);
                }
            }
        }
    }

    /// Issues the reads that are missing; false when there are none.
    fn issue_reads(&mut self, number: u32, fx: &mut Effects) -> bool {
        let mut places = std::mem::take(&mut self.table.pools.places);
        self.missing_reads(number, &mut places);
        for_each_run(&places, |run| {
            self.read_piece(PieceCommand::of(number, run, false), fx);
        });
        let has_issued = !places.is_empty();
        places.clear();
        self.table.pools.places = places;
        has_issued
    }

    /// Adds the pieces that a round has to read, row by row.
    fn missing_reads(&mut self, number: u32, places: &mut Vec<(u16, PieceSet)>) {
        let Slot { strip, order, round, .. } = self.table.slot_mut(number);
        let order = self.map.order_at(*order);
        let round = round.as_mut().expect("a round reads");
        round.planned_with = self.members.if_settled();
        if matches!(round.kind, Kind::Resync | Kind::Scrub) && self.members.is_degraded() {
            return;
        }
        let has_journal = self.ahead.journal.is_some();
        let start = strip.0 * self.map.strip_rows();
        for (place, row) in round.rows.iter_mut() {
            let number = start + u64::from(place);
            let counting = order.pieces_of(self.members.counting(number));
            let facts = row.facts(&order.code, counting, self.sync.is_right(number));
            let needed: PieceSet = match round.kind {
                Kind::Write => {
                    let plan = if has_journal { facts.write_with_all_parities() } else { facts.write() };
                    row.planned = plan.map(|plan| plan.method);
                    plan.map_or(PieceSet::EMPTY, |plan| plan.reads)
                }
                Kind::Resync | Kind::Scrub => facts.readable.without(facts.held),
                Kind::Zero => PieceSet::EMPTY,
                Kind::Rebuild => {
                    let pieces = order.pieces_of(self.members.rebuilt_in(number));
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

    /// Reads rows of a piece.
    pub(super) fn read_piece(&mut self, command: PieceCommand, fx: &mut Effects) {
        assert!(!command.is_write && command.count > 0);
        let frames = self.stock.take_vec(command.count.into());
        let slot = self.table.slot_mut(command.slot);
        let (strip, order) = (slot.strip, slot.order);
        let member = self.map.order_at(order).members[command.piece];
        let round = slot.round_mut();
        round.pending += 1;
        if !round.kind.is_sweep() {
            self.counters.read_for_writes += u64::from(command.count);
        }
        let sector = self.sector(member, self.row_of(strip, command.first));
        let waiter = self.commands.insert(command);
        fx.command(self.seat(member), kind::PIECE, waiter, Op::Read { sector, frames });
    }

    /// Moves a round on whose commands have all come back.
    fn advance(&mut self, now: Instant, number: u32, fx: &mut Effects) {
        loop {
            let round = self.table.slot_mut(number).round_mut();
            if round.phase() == Phase::Gathering {
                round.advance(Phase::Frozen);
            }
            match round.phase() {
                Phase::Gathering => unreachable!("nothing gathers any more"),
                Phase::Frozen => {
                    if !self.is_planned(number) && self.issue_reads(number, fx) {
                        return;
                    }
                    self.compute(number);
                    self.table.slot_mut(number).round_mut().advance(Phase::Logging);
                    self.gather(number);
                }
                Phase::Logging => {
                    if !self.may_write(number) {
                        return;
                    }
                    self.table.slot_mut(number).round_mut().advance(Phase::Writing);
                    if self.issue_writes(number, fx) {
                        return;
                    }
                }
                Phase::Writing => return self.finish(now, number, fx),
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

    /// Computes what is written, and hands out what is read.
    fn compute(&mut self, number: u32) {
        let is_whole = !self.members.is_degraded();
        let Slot { strip, order, round, .. } = self.table.slot_mut(number);
        let order = self.map.order_at(*order);
        let round = round.as_mut().expect("a round computes");
        let kind = round.kind;
        for (place, row) in round.rows.iter_mut() {
            let row_number = strip.0 * self.map.strip_rows() + u64::from(place);
            let counting = order.pieces_of(self.members.counting(row_number));
            let facts = row.facts(&order.code, counting, self.sync.is_right(row_number));
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
                Kind::Resync => row.is_lost = !is_whole || !row.resync(&facts, &mut self.stock),
                Kind::Scrub => match row.scrub(&facts, is_whole && self.scrub.repairs, &mut self.stock) {
                    Some(true) => {}
                    Some(false) if is_whole => {
                        let wrong = row.locate(&facts).map(|piece| order.members[piece]);
                        self.scrub.note_mismatch(wrong);
                    }
                    Some(false) | None => row.is_lost = true,
                },
                Kind::Rebuild => {
                    let pieces = order.pieces_of(self.members.rebuilt_in(row_number));
                    if !pieces.is_empty() {
                        let live = counting.or(pieces);
                        row.is_lost = !row.rebuild(&RowFacts { live, ..facts }, pieces, &mut self.stock);
                    }
                    let copied = order.pieces_of(self.members.copied_in(row_number).and(round.copied));
                    let facts = row.facts(&order.code, counting, facts.is_right);
                    row.find(&facts, copied, &mut self.stock);
                }
                Kind::Read | Kind::Zero => {}
            }
        }
        if kind == Kind::Read {
            self.hand_out(number);
        }
    }

    /// Gives readers their blocks, decoded where need be.
    fn hand_out(&mut self, number: u32) {
        let Slot { strip, round, .. } = self.table.slot_mut(number);
        let order = self.map.order(*strip);
        let round = round.as_mut().expect("a round of reads");
        for (request, wanted) in round.wanted.drain(..) {
            let row_number = strip.0 * self.map.strip_rows() + u64::from(wanted.row);
            let row: &mut Row = round.rows.get_mut(wanted.row).expect("a row that was admitted");
            let counting = order.pieces_of(self.members.counting(row_number));
            let facts = row.facts(&order.code, counting, self.sync.is_right(row_number));
            if row.old.get(wanted.piece).is_none() {
                if facts.read(wanted.piece).is_none() {
                    self.counters.unreadable += 1;
                    self.requests.fail(request);
                    continue;
                }
                self.counters.decoded += 1;
                row.decode(&facts, wanted.piece, &mut self.stock);
            }
            self.requests.frame_mut(request, wanted.index).data = *row.old.block(wanted.piece);
        }
    }

    /// True when a round may write: dirty mark, bits and log are durable.
    fn may_write(&self, number: u32) -> bool {
        let is_broken = self.members.is_broken();
        let round = self.table.slot(number).round.as_ref().expect("a round writes");
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

    /// Issues the writes of a round; false when there are none.
    fn issue_writes(&mut self, number: u32, fx: &mut Effects) -> bool {
        if self.members.is_broken() {
            return false;
        }
        let round = self.table.slot_mut(number).round_mut();
        if round.logged == Logged::Refused {
            return false;
        }
        if round.kind == Kind::Zero {
            self.write_zeroes(number, fx);
            return true;
        }
        let durable = round.durable || round.kind == Kind::Scrub;
        let has_copies = self.issue_copies(number, durable, fx);
        let mut places = std::mem::take(&mut self.table.pools.places);
        let slot = self.table.slot(number);
        let writable = self.map.order_at(slot.order).pieces_of(self.members.writable());
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
        self.table.pools.places = places;
        has_issued
    }

    /// Writes rows of a piece.
    fn write_piece(&mut self, command: PieceCommand, durable: bool, fx: &mut Effects) {
        assert!(command.is_write && command.count > 0);
        let mut frames = self.stock.empty_vec();
        let slot = self.table.slot_mut(command.slot);
        let (strip, order) = (slot.strip, slot.order);
        let member = self.map.order_at(order).members[command.piece];
        let round = slot.round_mut();
        assert!(round.phase() == Phase::Writing, "data before {:?}", Phase::Writing);
        round.pending += 1;
        let (is_resync, mut corrected) = (round.kind == Kind::Resync, 0);
        for place in command.first..command.first + command.count {
            let row = round.rows.get_mut(place).expect("a row that is written");
            corrected += u64::from(row.unreadable.contains(command.piece));
            row.sent.insert(command.piece);
            frames.push(row.new.take(command.piece).expect("content to write"));
        }
        let count = u64::from(command.count);
        self.counters.member_written += count;
        self.counters.corrected += corrected;
        self.counters.resynced += if is_resync { count } else { 0 };
        let sector = self.sector(member, self.row_of(strip, command.first));
        let waiter = self.commands.insert(command);
        fx.command(self.seat(member), kind::PIECE, waiter, Op::Write { sector, frames, durable });
    }

    /// Writes a row again that was one of several.
    pub(super) fn write_again(
        &mut self,
        member: Role,
        command: PieceCommand,
        frame: Frame,
        fx: &mut Effects,
    ) {
        let slot = self.table.slot_mut(command.slot);
        slot.round_mut().pending += 1;
        let sector = self.sector(member, self.row_of(self.table.slot(command.slot).strip, command.first));
        let waiter = self.commands.insert(command);
        fx.command(
            self.seat(member),
            kind::PIECE,
            waiter,
            Op::Write { sector, frames: vec![frame], durable: true },
        );
    }

    /// Makes a strip zeros on all members: parities of zeros are zeros.
    fn write_zeroes(&mut self, number: u32, fx: &mut Effects) {
        self.zero_pieces(number, self.members.writable(), false, fx);
        self.copy_zeroes(number, fx);
    }

    /// Makes a strip zeros on members with these roles, or on their replacements.
    pub(super) fn zero_pieces(&mut self, number: u32, roles: PieceSet, is_copy: bool, fx: &mut Effects) {
        let strip = self.table.slot(number).strip;
        let rows = self.map.rows_of(strip);
        let sectors = (rows.end - rows.start) * ROW_SECTORS;
        let count = u16::try_from(rows.end - rows.start).expect("at most 128");
        for piece in self.map.order(strip).pieces_of(roles).iter() {
            let member = self.map.order(strip).members[piece];
            let place = if is_copy { member.replacement() } else { member };
            self.table.slot_mut(number).round_mut().pending += 1;
            let run = Run { piece, first: 0, count };
            let waiter =
                self.commands.insert(PieceCommand { is_copy, ..PieceCommand::of(number, run, true) });
            let sector = self.sector(place, rows.start);
            let op = Op::WriteZeroes { sector, sectors, may_unmap: true };
            fx.command(self.seat(place), kind::PIECE, waiter, op);
        }
    }

    /// Ends a round: notes what is right now, answers, and lets the next one begin.
    fn finish(&mut self, now: Instant, number: u32, fx: &mut Effects) {
        let slot = self.table.slot_mut(number);
        let (strip, order) = (slot.strip, slot.order);
        let mut round = slot.round.take().expect("a round ends");
        assert!(round.phase() == Phase::Writing && round.pending == 0);
        self.end_round_of_log(round.logged);
        let (kind, is_broken) = (round.kind, self.members.is_broken() || round.logged == Logged::Refused);
        let (mut unwritten, mut on_lists) = (RowSet::EMPTY, Vec::new());
        if round.has_failed_writes {
            let written = self.written_in(kind, &round.rows).into_iter();
            let (beyond, within): (Vec<_>, Vec<_>) =
                written.partition(|(place, pieces)| self.is_beyond_reach(strip, *place, *pieces));
            (unwritten, on_lists) = (beyond.iter().map(|(place, _)| *place).collect(), within);
        }
        let lost: RowSet = round.rows.iter().filter(|(_, row)| row.is_lost).map(|(place, _)| place).collect();
        if !is_broken {
            self.note_right(strip, kind, &round.rows, lost);
        }
        if kind == Kind::Write && !is_broken && !round.has_failed_writes {
            self.keep_rows((strip, order), &mut round);
        }
        if kind.is_sweep() {
            self.sweeps.in_flight -= 1;
        }
        match kind {
            Kind::Rebuild => self.end_rebuild(strip, &round.rows, lost),
            Kind::Write | Kind::Zero => self.note_written(strip),
            Kind::Read | Kind::Resync | Kind::Scrub => {}
        }
        if kind == Kind::Scrub {
            let compared = u64::try_from(round.rows.len() - lost.count()).expect("at most 128 rows");
            self.scrub.end(self.map.strip_rows() - compared);
        }
        for (_, mut row) in round.rows.drain() {
            row.give_back(&mut self.stock);
            self.table.pools.keep_row(row);
        }
        self.stock.unreserve(round.reserved);
        if let Some(pages) = &mut self.pages {
            round.regions.iter().for_each(|region| pages.release(*region));
        }
        if round.is_marked() {
            self.scribe.end_writing(now);
        }
        let is_zero_lost = kind == Kind::Zero && !unwritten.is_empty();
        for &(request, touched) in &round.jobs {
            let is_lost = !touched.and(lost).is_empty() || !touched.and(unwritten).is_empty();
            if kind != Kind::Read && (is_broken || is_zero_lost || is_lost) {
                self.requests.fail(request);
            }
            let own = |(place, _): &&(u16, PieceSet)| kind == Kind::Zero || touched.contains(*place);
            on_lists.iter().filter(own).for_each(|(place, pieces)| {
                self.requests.note_listed(request, (strip, *place, *pieces));
            });
            self.part_done(request, fx);
        }
        self.table.pools.keep_round(round);
        let is_through = self.table.slot(number).waiting.is_empty();
        if !is_through {
            self.table.run(number);
        }
        self.feed_starved();
        if is_through {
            self.table.close_resting(number);
        }
    }

    /// A round is through that was in a log.
    fn end_round_of_log(&mut self, logged: Logged) {
        match (logged, &mut self.ahead.logs, &mut self.ahead.journal) {
            (Logged::Durable(role, generation), Some(logs), _) => logs.end_round(role, generation),
            (Logged::Journaled(number), _, Some(journal)) => journal.end_round(number),
            _ => {}
        }
    }

    /// Rows of a round that wrote, with what it was to write.
    fn written_in(&self, kind: Kind, rows: &Rows) -> Vec<(u16, PieceSet)> {
        match kind {
            Kind::Zero => (0..u16::try_from(self.map.strip_rows()).expect("at most 128"))
                .map(|row| (row, PieceSet::first(self.map.data_count())))
                .collect(),
            _ => rows.iter().map(|(place, row)| (place, row.written)).collect(),
        }
    }

    /// True when something of a row can neither be read nor decoded, by what members there are now and what they list.
    pub(super) fn is_beyond_reach(&self, strip: Strip, place: u16, pieces: PieceSet) -> bool {
        let order = self.map.order(strip);
        let row = self.row_of(strip, place);
        let live = order.pieces_of(self.members.counting(row));
        let is_good = |piece: &usize| !self.is_bad(order.members[*piece], row..row + 1);
        let readable = live.iter().filter(is_good).collect();
        let none = PieceSet::EMPTY;
        let is_right = self.sync.is_right(row);
        let facts = RowFacts { code: &order.code, written: none, live, readable, held: none, is_right };
        pieces.iter().any(|piece| facts.read(piece).is_none())
    }

    /// Notes rows whose parities were computed from all of their data.
    fn note_right(&mut self, strip: Strip, kind: Kind, rows: &Rows, lost: RowSet) {
        let all = self.map.rows_of(strip);
        match kind {
            Kind::Zero => all.for_each(|row| self.sync.note_right(row)),
            Kind::Rebuild => {
                for (place, _) in rows.iter().filter(|(_, row)| !row.is_lost) {
                    let row = all.start + u64::from(place);
                    // A copy says nothing of parities.
                    if !self.members.rebuilt_in(row).is_empty() {
                        self.sync.note_right(row);
                    }
                }
            }
            Kind::Resync if self.members.is_degraded() => {}
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

    /// Members that a strip's pieces lie on, for messages.
    #[must_use]
    pub fn members_of(&self, strip: Strip) -> PieceSet {
        assert!(strip.0 < self.map.strips(), "{strip:?} of {}", self.map.strips());
        (0..self.members.count()).filter(|index| self.members.is_live(members::role(*index))).collect()
    }
}

fn count_of(pieces: PieceSet) -> u64 {
    u64::try_from(pieces.count()).expect("at most 32")
}
