//! A shard that has strips on the control shard's terms, and hands over what is not plain work.
//!
//! *Plain work* is reads that members return, and rounds of writes and zeros all of whose commands succeed. A strip is *away* while parts of it
//! are with the control shard, or all strips were recalled: nothing is begun on it then, what comes for it is handed over, and a round
//! that has not begun to write is, too. Of a round that has, the pieces that could not be written are. A part is handed over when no round of its strip is in flight; but for a recall, where the control
//! shard begins nothing before it was confirmed.

use super::super::Effects;
use super::super::clients::Clients;
use super::super::completions::PieceCommand;
use super::super::core::Core;
use super::super::map::Strip;
use super::super::row_set::RowSet;
use super::super::strips::Strips;
use super::super::table::{Cell, Job, Kind, Logged, Phase, Round, Slot, Wanted, Work};
use super::Place;
use super::leases::Leases;
use super::lending::Lent;
use super::messages::{Handed, Lease, Report, RowCell, Terms, Ticket, ToControl, ToShard, Unwritten};
use crate::request::Outcome;
use base::frame::Frame;
use base::kernel_calls::KernelCalls;
use base::slab::Slab;
use base::time::{Instant, Nanos};
use base::units::Lba;
use block::condition::Condition;
use block::device::Status;
use block::md::Role;
use std::collections::BTreeMap;

/// Least time between two reports.
const REPORT_EVERY: Nanos = Nanos::from_micros(100_000);

/// Age of a command that the control shard is told of.
const LATE: Nanos = Nanos::from_micros(500_000);

/// Part that is with the control shard.
#[derive(Debug)]
struct Part {
    /// Requests that wait for it.
    requests: Vec<u32>,
    /// Strip that it is of.
    strip: Strip,
    /// Place of the first block in the request, of a read.
    index: Option<usize>,
}

/// See the module.
#[derive(Debug)]
pub struct Shard {
    is_recalled: bool,
    /// The control shard knows that nothing is in work here.
    has_confirmed: bool,
    /// Strips of which parts are with the control shard, and how many.
    away: BTreeMap<Strip, u32>,
    parts: Slab<Part>,
    leases: Leases,
    /// Pieces that members did not take, with the slots of their rounds.
    unwritten: Vec<(u32, Unwritten)>,
    region_sectors: Option<u64>,
    messages: Vec<ToControl>,
    /// Last report, and the time of the next.
    told: Report,
    tell_at: Instant,
    /// Conditions were told of devices that are in trouble.
    has_told_conditions: bool,
    /// See [`super::lending`].
    pub(super) lent: Lent,
}

impl Shard {
    /// A shard that has no strips yet.
    #[must_use]
    pub fn new() -> Shard {
        Shard {
            is_recalled: true,
            has_confirmed: true,
            away: BTreeMap::new(),
            parts: Slab::default(),
            leases: Leases::default(),
            unwritten: Vec::new(),
            region_sectors: None,
            messages: Vec::new(),
            told: Report::default(),
            tell_at: Instant(0),
            has_told_conditions: false,
            lent: Lent::default(),
        }
    }

    /// Tells the control shard something.
    pub(super) fn say(&mut self, message: ToControl) {
        self.messages.push(message);
    }

    /// True when nothing is with the control shard.
    #[must_use]
    pub fn has_no_parts(&self) -> bool {
        self.parts.is_empty()
    }

    /// True when all strips are the control shard's.
    #[must_use]
    pub fn is_recalled(&self) -> bool {
        self.is_recalled
    }

    #[inline]
    fn is_away(&self, strip: Strip) -> bool {
        self.is_recalled || (!self.away.is_empty() && self.away.contains_key(&strip))
    }

    /// Sectors of a region of the bitmap; `None` without one.
    #[must_use]
    pub fn region_sectors(&self) -> Option<u64> {
        self.region_sectors
    }

    /// True when a round that changes these regions may write.
    pub fn may_write(&self, regions: &[u64]) -> bool {
        let is_held = |region: &u64| self.leases.is_held(Lease::Region(*region));
        self.leases.is_held(Lease::Mark) && regions.iter().all(is_held)
    }

    /// A round is going to change rows of a region, until [`Shard::end_round`].
    pub fn ask(&mut self, region: u64) {
        self.leases.ask(Lease::Region(region), &mut self.messages);
    }

    /// A round begins that is going to write.
    pub fn begin_writing(&mut self) {
        self.leases.ask(Lease::Mark, &mut self.messages);
    }

    /// A round of these regions is through that was going to write.
    pub fn end_round(&mut self, regions: &[u64], now: Instant) {
        regions.iter().for_each(|region| self.leases.release(Lease::Region(*region), now));
        self.leases.release(Lease::Mark, now);
    }

    fn hand(&mut self, requests: Vec<u32>, strip: Strip, (work, index): (Handed, Option<usize>)) {
        *self.away.entry(strip).or_default() += 1;
        let part = self.parts.insert(Part { requests, strip, index });
        self.messages.push(ToControl::Handed(part, work));
    }

    /// A part comes back.
    fn take_back(&mut self, part: u32) -> Part {
        let part = self.parts.remove(part);
        let count = self.away.get_mut(&part.strip).expect("a strip of which parts are away");
        *count -= 1;
        if *count == 0 {
            self.away.remove(&part.strip);
        }
        part
    }

    /// Time at which there is something to do even if nothing happens.
    #[must_use]
    pub fn deadline(&self, report: &Report) -> Option<Instant> {
        let report = (self.told != *report).then_some(self.tell_at);
        [self.leases.deadline(), report].into_iter().flatten().min()
    }

    /// Describes it in a few words.
    #[must_use]
    pub fn describe(&self) -> String {
        format!(
            "recalled {} (told {}), {} strips away, {:?}, {:?}",
            self.is_recalled,
            self.has_confirmed,
            self.away.len(),
            self.leases,
            self.lent
        )
    }
}

impl Default for Shard {
    fn default() -> Shard {
        Shard::new()
    }
}

/// Rows of a round in groups that the same requests touch: a request fails when a row of its own does, and for no other row. Rows that a whole
/// strip of zeros has are those of all requests.
fn groups(kind: Kind, jobs: &[(u32, RowSet)], rows: RowSet) -> Vec<(Vec<u32>, RowSet)> {
    let mut groups: BTreeMap<Vec<u32>, RowSet> = BTreeMap::new();
    for row in rows.iter() {
        let touches = |(_, touched): &&(u32, RowSet)| kind == Kind::Zero || touched.contains(row);
        let requests = jobs.iter().filter(touches).map(|(request, _)| *request).collect();
        groups.entry(requests).or_insert(RowSet::EMPTY).insert(row);
    }
    groups.into_iter().collect()
}

impl Place {
    pub(super) fn shard_mut(&mut self) -> &mut Shard {
        match self {
            Place::Shard(shard) => shard,
            Place::Alone | Place::Control(_) => unreachable!("only a shard has terms"),
        }
    }

    /// True when nothing may be begun on a strip here.
    #[inline]
    pub(in super::super) fn is_away(&self, strip: Strip) -> bool {
        matches!(self, Place::Shard(shard) if shard.is_away(strip))
    }

    /// Tells the control shard of devices that do not answer, or lack room; and when there are none any more.
    pub(in super::super) fn tell_conditions(
        &mut self,
        now: Instant,
        conditions: impl Iterator<Item = (Role, Condition)>,
    ) {
        let is_late = |since: Instant| now.since(since) >= LATE;
        let is_news = |(_, condition): &(Role, Condition)| {
            let is_trouble =
                condition.oldest.is_some_and(is_late) || condition.waits_for_room_since.is_some();
            is_trouble || condition.calls != KernelCalls::default()
        };
        let all: Vec<(Role, Condition)> = conditions.filter(is_news).collect();
        let shard = self.shard_mut();
        if shard.has_told_conditions || !all.is_empty() {
            shard.has_told_conditions = !all.is_empty();
            shard.messages.push(ToControl::Conditions(all));
        }
    }

    /// Messages for the control shard since this was asked last.
    pub fn take_messages_to_control(&mut self, into: &mut Vec<ToControl>) {
        if let Place::Shard(shard) = self {
            into.append(&mut shard.messages);
        }
    }
}

impl Core {
    fn accept(&mut self, Terms { members, region_sectors, logs }: Terms) {
        assert!(!members.is_degraded(), "strips are shared while all members are in sync");
        self.members = members;
        let has_logs = logs.is_some();
        self.ahead.logs = logs;
        self.place.thaw_logs();
        let shard = self.place.shard_mut();
        assert!(shard.is_recalled && shard.has_confirmed, "terms before a recall was confirmed");
        assert!(shard.parts.is_empty() || !has_logs, "logs are lent while parts are away");
        (shard.is_recalled, shard.has_confirmed, shard.region_sectors) = (false, false, region_sectors);
    }

    fn on_granted(&mut self, lease: Lease, ticket: Ticket) {
        if self.place.shard_mut().leases.grant(lease, ticket) {
            self.table.logging().into_iter().for_each(|slot| self.table.run(slot));
        }
    }

    /// Hands blocks of one chunk of a strip over that are read.
    pub(in super::super) fn hand_read(&mut self, request: u32, lba: Lba, (index, run): (usize, u64)) {
        let strip = self.map.place(lba).strip;
        self.requests.add_part(request);
        self.hand_run(strip, request, (lba, index, usize::try_from(run).expect("at most 256")));
    }

    fn hand_run(&mut self, strip: Strip, request: u32, (lba, index, count): (Lba, usize, usize)) {
        let frames = self.requests.lend_frames(request, (index, count), Vec::new());
        self.place.shard_mut().hand(vec![request], strip, (Handed::Read { lba, frames }, Some(index)));
    }

    /// Hands over blocks that their member did not return: a run of one chunk.
    fn hand_unread(&mut self, strip: Strip, request: u32, mut wanted: Vec<Wanted>) {
        let Wanted { row, piece, index } = wanted[0];
        let count = wanted.len();
        let last = wanted[count - 1];
        assert!(last.piece == piece && last.index + 1 - index == count, "blocks of one chunk");
        wanted.clear();
        self.table.pools.wanted.push(wanted);
        let lba = self.map.lba_of(strip, row, piece);
        self.hand_run(strip, request, (lba, index, count));
    }

    /// Hands a part over that these requests wait for, beside what they waited for before.
    fn hand_for(&mut self, requests: Vec<u32>, strip: Strip, handed: Handed) {
        requests.iter().for_each(|request| self.requests.add_part(*request));
        self.place.shard_mut().hand(requests, strip, (handed, None));
    }

    /// Blocks that clients gave a round, of these rows.
    fn cells_of(&self, strip: Strip, round: &mut Round, rows: RowSet) -> Vec<RowCell> {
        let start = self.map.rows_of(strip).start;
        let mut cells = Vec::new();
        for (place, row) in round.rows.iter_mut().filter(|(place, _)| rows.contains(*place)) {
            for piece in row.written.iter() {
                let frame = row.new.take(piece).expect("what a client writes stays until the round ends");
                cells.push(RowCell { row: start + u64::from(place), piece, frame: Some(frame) });
            }
        }
        cells
    }
}

impl Strips {
    fn begin_recall(&mut self) {
        self.core.place.shard_mut().is_recalled = true;
        self.cache.clear(&mut self.core.stock);
        self.core.table.run_all();
    }

    /// Hands work over that was not begun.
    pub(in super::super) fn hand_job(&mut self, strip: Strip, Job { request, work }: Job) {
        let rows = self.core.map.rows_of(strip);
        let request = request.expect("sweeps are the control shard's");
        let handed = match work {
            Work::Read(wanted) => return self.core.hand_unread(strip, request, wanted),
            Work::Write { mut cells, durable } => {
                let of_row = |cell: &mut Cell| RowCell {
                    row: rows.start + u64::from(cell.row),
                    piece: cell.piece,
                    frame: cell.frame.take(),
                };
                let handed: Vec<RowCell> = cells.iter_mut().map(of_row).collect();
                cells.clear();
                self.core.table.pools.cells.push(cells);
                Handed::Write { cells: handed, durable }
            }
            Work::Zero => Handed::Zero(rows),
            work => unreachable!("{work:?} is the control shard's"),
        };
        // The control shard writes it: what is kept here of the strip does not follow.
        self.forget_strip(strip);
        self.core.place.shard_mut().hand(vec![request], strip, (handed, None));
    }

    /// A command of a round failed: the round is handed over when all of its commands are answered. Of several rows that were not written each
    /// is written for itself before that.
    pub(in super::super) fn spoil(
        &mut self,
        member: Role,
        (command, status): (PieceCommand, Status),
        frames: Vec<Frame>,
        fx: &mut Effects,
    ) {
        let is_gone = matches!(status, Status::DeviceGone | Status::OutOfRange);
        if command.is_write && command.count > 1 && !frames.is_empty() && !is_gone {
            for (row, frame) in (command.first..).zip(frames) {
                self.write_again(member, PieceCommand { first: row, count: 1, ..command }, frame, fx);
            }
            return;
        }
        self.core.stock.give_vec(frames);
        self.core.table.slot_mut(command.slot).round_mut().is_spoiled = true;
        if command.is_write {
            let unwritten = Unwritten {
                seat: self.core.members.seat(member),
                rows: self.core.rows_of_command(command),
                is_gone,
            };
            self.core.place.shard_mut().unwritten.push((command.slot, unwritten));
            self.core.freeze_logs();
        }
    }

    fn tell_report(&mut self, now: Instant) {
        let report = self.report();
        let shard = self.core.place.shard_mut();
        if shard.told != report {
            shard.told = report;
            shard.tell_at = now + REPORT_EVERY;
            shard.messages.push(ToControl::Reported(Box::new(report)));
        }
    }
}

impl Clients {
    /// Takes a message of the control shard that is not about a device.
    pub fn hear_control(&mut self, message: ToShard, fx: &mut Effects) {
        match message {
            ToShard::Terms(terms) => {
                self.strips.core.accept(*terms);
                self.let_held_go(fx);
            }
            ToShard::Recall => self.strips.begin_recall(),
            ToShard::Hold => self.strips.core.begin_holding(),
            ToShard::Release => self.let_held_go(fx),
            ToShard::Granted(lease, ticket) => self.strips.core.on_granted(lease, ticket),
            ToShard::Answer { part, outcome, frames } => self.on_answered(part, outcome, frames, fx),
            ToShard::Abandon(_) | ToShard::Seat(..) => unreachable!("devices are the volume's"),
        }
    }

    fn on_answered(&mut self, part: u32, outcome: Outcome, mut frames: Vec<Frame>, fx: &mut Effects) {
        let Part { requests, index, .. } = self.strips.core.place.shard_mut().take_back(part);
        assert!(
            index.is_none() || requests.len() == 1,
            "blocks of {} requests are read as one",
            requests.len()
        );
        match index {
            Some(index) => self.strips.core.requests.put_frames(requests[0], index, &mut frames),
            None => self.strips.core.stock.pool().give_many(&mut frames),
        }
        for request in requests {
            if outcome == Outcome::IoError {
                self.strips.core.requests.fail(request);
            }
            self.part_done(request, fx);
        }
    }

    /// Hands over which pieces of a round were not written, with the rows that have such: requests of other rows are done.
    fn hand_unwritten(&mut self, number: u32, strip: Strip, round: &Round, fx: &mut Effects) {
        assert!(
            round.phase() == Phase::Writing,
            "a round of {strip:?} that is {:?} left pieces",
            round.phase()
        );
        let start = self.strips.core.map.rows_of(strip).start;
        let unwritten = &mut self.strips.core.place.shard_mut().unwritten;
        let mut pieces: Vec<Unwritten> =
            unwritten.extract_if(.., |(slot, _)| *slot == number).map(|(_, piece)| piece).collect();
        let written = self.strips.core.written_in(round.kind, &round.rows);
        let row_of = |place: u16| start + u64::from(place);
        let is_lacking = |place: &u16| pieces.iter().any(|piece| piece.rows.contains(&row_of(*place)));
        let lacking: RowSet = written.iter().map(|(place, _)| *place).filter(is_lacking).collect();
        assert!(
            written.iter().all(|(place, _)| self.strips.core.map.rows_of(strip).contains(&row_of(*place))),
            "rows of {strip:?} were written, and others are handed over"
        );
        for (requests, rows) in groups(round.kind, &round.jobs, lacking) {
            let own = written.iter().filter(|(place, _)| rows.contains(*place));
            let written = own.map(|(place, pieces)| (row_of(*place), *pieces)).collect();
            let handed = Handed::Unwritten { pieces: std::mem::take(&mut pieces), written };
            self.strips.core.hand_for(requests, strip, handed);
        }
        if !pieces.is_empty() {
            self.strips.core.hand_for(Vec::new(), strip, Handed::Unwritten { pieces, written: Vec::new() });
        }
        round.jobs.iter().for_each(|(request, _)| self.part_done(*request, fx));
    }

    /// Hands over what must not go on here; true when there is nothing else to do for the slot.
    pub(in super::super) fn withdraw(&mut self, now: Instant, number: u32, fx: &mut Effects) -> bool {
        let Slot { strip, round, .. } = self.strips.core.table.slot(number);
        let is_away = self.strips.core.place.is_away(*strip);
        match round {
            Some(round) if round.pending > 0 => return true,
            Some(round)
                if round.logged == Logged::Waits && self.strips.core.ahead.is_batch_on_its_way(number) =>
            {
                return true;
            }
            Some(round) if round.is_spoiled || (is_away && round.phase() < Phase::Writing) => {
                self.hand_round(now, number, fx);
            }
            Some(_) => return false,
            None if is_away || self.strips.core.table.slot(number).waits_to_read() => {}
            None => return false,
        }
        let slot = self.strips.core.table.slot_mut(number);
        let (strip, waiting) = (slot.strip, std::mem::take(&mut slot.waiting));
        slot.release();
        waiting.into_iter().for_each(|job| self.strips.hand_job(strip, job));
        self.strips.window.forget(number);
        self.strips.core.table.starved.retain(|starved| *starved != number);
        self.strips.core.table.close_resting(number);
        self.strips.core.table.feed_starved();
        true
    }

    /// Hands a round over, with all that it was to write.
    fn hand_round(&mut self, now: Instant, number: u32, fx: &mut Effects) {
        let slot = self.strips.core.table.slot_mut(number);
        let strip = slot.strip;
        let mut round = slot.round.take().expect("a round that is handed over");
        assert!(round.pending == 0, "{} commands in flight", round.pending);
        self.strips.core.ahead.leave_log(number, round.logged);
        self.strips.forget_strip(strip);
        match round.kind {
            _ if round.phase() == Phase::Writing => self.hand_unwritten(number, strip, &round, fx),
            Kind::Write => self.hand_unbegun(strip, &mut round, fx),
            Kind::Zero => {
                let requests = round.jobs.iter().map(|(request, _)| *request).collect();
                let rows = self.strips.core.map.rows_of(strip);
                self.strips.core.place.shard_mut().hand(requests, strip, (Handed::Zero(rows), None));
            }
            kind => unreachable!("a round of {kind:?} is the control shard's"),
        }
        self.strips.core.end_marked_round(now, &round);
        self.strips.core.give_rows_back(&mut round);
        self.strips.core.table.pools.keep_round(round);
    }

    /// Hands a round over that has not begun to write.
    fn hand_unbegun(&mut self, strip: Strip, round: &mut Round, fx: &mut Effects) {
        assert!(
            round.phase() < Phase::Writing,
            "a round of {strip:?} is handed over whole that is {:?}",
            round.phase()
        );
        for (requests, rows) in groups(Kind::Write, &round.jobs, round.rows.set()) {
            let handed = Handed::Write {
                cells: self.strips.core.cells_of(strip, round, rows),
                durable: round.durable,
            };
            self.strips.core.stock.part_with(handed.frames_count());
            self.strips.core.hand_for(requests, strip, handed);
        }
        round.jobs.iter().for_each(|(request, _)| self.part_done(*request, fx));
    }

    /// Gives leases back, confirms a recall, reports; true when something moved.
    pub(in super::super) fn advance_shard(&mut self, now: Instant) -> bool {
        let is_resting = self.strips.core.table.is_empty()
            && self.direct.is_empty()
            && self.strips.core.ahead.are_logs_resting();
        let shard = self.strips.core.place.shard_mut();
        let mut moves = shard.leases.give_back(now, shard.is_recalled, &mut shard.messages);
        if shard.is_recalled && !shard.has_confirmed && is_resting && shard.leases.is_empty() {
            shard.has_confirmed = true;
            let logs = self.strips.core.ahead.logs.take().map(Box::new);
            self.strips.core.place.shard_mut().say(ToControl::Recalled(logs));
            moves = true;
        }
        moves |= self.strips.core.tell_holding();
        if now >= self.strips.core.place.shard_mut().tell_at {
            self.strips.tell_report(now);
        }
        moves
    }
}
