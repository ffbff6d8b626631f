//! The control shard: lends marks, bits and strips to the others, and does what they hand over.
//!
//! ```text
//!   In ──all is plain: Terms──> Out ──something is not: Recall──> Recalling ──Recalled──> In
//! ```
//! *Plain* is an array with all members in sync, all parities right, no lists of bad blocks and no journal, in which nothing sweeps over
//! strips and nothing is changed. Everything else is done here alone, by the engine as it is without shards, once all shards are in. Partial
//! parity logs are lent with strips, in more steps ([`super::lending`]).

use super::super::Effects;
use super::super::clients::Clients;
use super::super::core::Core;
use super::super::map::Strip;
use super::super::pages::Pages;
use super::super::places::Places;
use super::super::strips::Strips;
use super::super::table::{Cell, Job, Work};
use super::Place;
use super::messages::{Handed, Lease, Report, RowCell, Terms, Ticket, ToControl, ToShard, Unwritten};
use crate::request::{Outcome, RequestId};
use base::frame::Frame;
use base::pieces::PieceSet;
use base::slab::Slab;
use base::time::Instant;
use base::units::Lba;
use block::condition::Condition;
use block::device::BlockDevice;
use block::md::Role;
use std::collections::BTreeMap;
use std::ops::Range;

/// Marks names of requests that were handed over; the rest of the name is the number of an open part.
const HANDED: u64 = 1 << 60;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing is in work there.
    #[default]
    In,
    /// It has been told to hold requests.
    Asked,
    /// It holds requests, and everything that it handed over is through.
    Held,
    /// It has strips.
    Out,
    /// It has been told to give them back.
    Recalling,
}

/// Shard as the control shard sees it.
#[derive(Debug, Default)]
struct Other {
    state: State,
    /// Leases that it has, or asked for: those that are not granted yet are false.
    leases: BTreeMap<Lease, (Ticket, bool)>,
    /// Parts that wait for the end of a recall, or of a change of the policy.
    held: Vec<(u32, Handed)>,
    report: Report,
    conditions: Vec<(Role, Condition)>,
    /// It has partial parity logs.
    has_logs: bool,
}

/// Part that was handed over.
#[derive(Clone, Copy, Debug)]
struct OpenPart {
    shard: usize,
    part: u32,
    frames: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Control {
    others: Vec<Other>,
    parts: Slab<OpenPart>,
    /// Seats of devices that all shards have open.
    seated: Places,
    messages: Vec<(usize, ToShard)>,
    /// Stripes go to shards by their parities, so that logs can be lent.
    by_parity: bool,
}

impl Control {
    /// The control shard of so many others, which have devices open at these seats; stripes may go to them by their parities.
    #[must_use]
    pub fn new(others: usize, seated: Places, by_parity: bool) -> Control {
        Control {
            others: (0..others).map(|_| Other::default()).collect(),
            parts: Slab::default(),
            seated,
            messages: Vec::new(),
            by_parity,
        }
    }

    /// Shards beside it.
    #[must_use]
    pub fn others(&self) -> usize {
        self.others.len()
    }

    /// True when stripes go to shards by their parities.
    #[must_use]
    pub fn is_spread_by_parity(&self) -> bool {
        self.by_parity
    }

    /// True while shards have logs.
    #[must_use]
    pub fn has_lent_logs(&self) -> bool {
        self.others.iter().any(|other| other.has_logs)
    }

    /// True when nothing waits that was handed over.
    #[must_use]
    pub fn holds_no_parts(&self) -> bool {
        self.others.iter().all(|other| other.held.is_empty())
    }

    /// True when nothing is here that was handed over.
    #[must_use]
    pub fn has_no_parts(&self) -> bool {
        self.parts.is_empty() && self.holds_no_parts()
    }

    fn is_shared(&self) -> bool {
        self.others.iter().any(|other| matches!(other.state, State::Out | State::Recalling))
    }

    fn tell_all(&mut self, message: impl Fn() -> ToShard) {
        let all = (0..self.others.len()).map(|shard| (shard, message()));
        self.messages.extend(all);
    }

    /// Moves a shard to a state, with what tells it.
    fn turn(&mut self, shard: usize, to: State, message: ToShard) {
        let is_next = matches!(
            (self.others[shard].state, to),
            (State::In, State::Out | State::Asked)
                | (State::Held, State::Out | State::In)
                | (State::Out, State::Recalling)
        );
        assert!(is_next, "{to:?} after {:?}", self.others[shard].state);
        self.others[shard].state = to;
        self.messages.push((shard, message));
    }

    /// Adds what the others report.
    pub fn add_reports(&self, own: &mut Report) {
        for Other { report, .. } in &self.others {
            own.counters += &report.counters;
            own.cache_frames.0 += report.cache_frames.0;
            own.cache_frames.1 += report.cache_frames.1;
            own.strips += report.strips;
        }
    }

    /// Describes it in a few words.
    #[must_use]
    pub fn describe(&self) -> String {
        let states = self.others.iter().map(|other| {
            format!("{:?} with {} leases, {} parts held", other.state, other.leases.len(), other.held.len())
        });
        format!("{}; {} parts open", states.collect::<Vec<_>>().join(", "), self.parts.len())
    }
}

impl Place {
    fn control_mut(&mut self) -> &mut Control {
        match self {
            Place::Control(control) => control,
            Place::Alone | Place::Shard(_) => unreachable!("only the control shard is told this"),
        }
    }

    /// True while other shards have strips, or what they had is not yet back.
    #[must_use]
    pub fn shares_strips(&self) -> bool {
        matches!(self, Place::Control(control) if control.is_shared())
    }

    /// True when other shards have a device open at this seat, and may use it, or have said something of it that is not heard.
    #[must_use]
    pub fn is_used_elsewhere(&self, seat: Role) -> bool {
        let Place::Control(control) = self else { return false };
        let has_held = control.others.iter().any(|other| !other.held.is_empty());
        control.seated.contains(seat.index()) && (control.is_shared() || has_held)
    }

    /// Condition of a device as other shards see it.
    #[must_use]
    pub fn condition_elsewhere(&self, seat: Role) -> Condition {
        let Place::Control(control) = self else { return Condition::default() };
        let all = control.others.iter().flat_map(|other| &other.conditions);
        let of_seat = all.filter(|(other, _)| *other == seat).map(|(_, condition)| *condition);
        of_seat.fold(Condition::default(), Condition::with)
    }

    /// A device has a seat from now on, or none has: other shards get their own ways to it.
    ///
    /// # Panics
    /// When there are others than one way for each shard.
    pub fn seat_elsewhere(&mut self, seat: Role, ways: Vec<Box<dyn BlockDevice>>) {
        let Place::Control(control) = self else { return };
        if control.seated.contains(seat.index()) {
            control.seated = control.seated.without(Places::one(seat.index()));
            control.tell_all(|| ToShard::Seat(seat, None));
        }
        if ways.is_empty() {
            return;
        }
        assert!(
            ways.len() == control.others.len(),
            "{} ways for {} shards",
            ways.len(),
            control.others.len()
        );
        control.seated.insert(seat.index());
        let all = ways.into_iter().enumerate();
        control.messages.extend(all.map(|(shard, way)| (shard, ToShard::Seat(seat, Some(way)))));
    }

    /// A device answers no more, and was given up.
    pub fn abandon_elsewhere(&mut self, seat: Role) {
        if let Place::Control(control) = self
            && control.seated.contains(seat.index())
        {
            control.tell_all(|| ToShard::Abandon(seat));
        }
    }

    /// Messages for other shards since this was asked last.
    pub fn take_messages_to_shards(&mut self, into: &mut Vec<(usize, ToShard)>) {
        if let Place::Control(control) = self {
            into.append(&mut control.messages);
        }
    }
}

impl Core {
    fn ask_for(&mut self, shard: usize, lease: Lease, ticket: Ticket) {
        let before = self.place.control_mut().others[shard].leases.insert(lease, (ticket, false));
        assert!(before.is_none(), "shard {shard} asks twice for {lease:?}");
        match lease {
            Lease::Mark => self.scribe.begin_writing(),
            Lease::Region(region) => self.pages.as_mut().expect("a bitmap with regions").ask(region),
        }
    }

    fn take_lease_back(&mut self, now: Instant, shard: usize, lease: Lease, ticket: Ticket) {
        let lent = self.place.control_mut().others[shard].leases.remove(&lease);
        assert!(lent.is_some_and(|(own, _)| own == ticket), "shard {shard} has no {lease:?} of {ticket:?}");
        match lease {
            Lease::Mark => self.scribe.end_writing(now),
            Lease::Region(region) => self.pages.as_mut().expect("a bitmap with regions").release(region),
        }
    }

    /// Terms of a shard, with its logs.
    fn terms(&mut self, shard: usize) -> Terms {
        let logs = self.lend_logs(shard);
        self.place.control_mut().others[shard].has_logs = logs.is_some();
        Terms {
            members: self.members.clone(),
            region_sectors: self.pages.as_ref().map(Pages::region_sectors),
            logs,
        }
    }

    fn grant_leases(&mut self) -> bool {
        let has_mark = self.scribe.is_ready() && !self.members.is_broken();
        // See `are_bits_durable`.
        let are_recorded = !self.has_unrecorded_failure();
        let Core { place, pages, .. } = self;
        let Place::Control(control) = place else { return false };
        let Control { others, messages, .. } = &mut **control;
        let before = messages.len();
        for (shard, other) in others.iter_mut().enumerate() {
            for (lease, (ticket, is_granted)) in other.leases.iter_mut().filter(|(_, (_, granted))| !granted)
            {
                *is_granted = match lease {
                    Lease::Mark => has_mark,
                    Lease::Region(region) => {
                        are_recorded && pages.as_ref().is_some_and(|pages| pages.is_durable(*region))
                    }
                };
                if *is_granted {
                    messages.push((shard, ToShard::Granted(*lease, *ticket)));
                }
            }
        }
        messages.len() > before
    }

    /// True when shards may work by themselves.
    fn is_plain(&self) -> bool {
        let Place::Control(control) = &self.place else { return false };
        let are_whole = !self.members.is_degraded() && self.members.newcomers().next().is_none();
        let is_simple =
            self.are_logs_plain(control) && self.ahead.journal.is_none() && !self.ahead.is_replaying();
        let has_lists = !self.bad_blocks.is_empty() || self.has_unrecorded_bad_blocks();
        let is_swept = self.background.sweeps.in_flight > 0 || self.background.scrub.is_active();
        let seats =
            || self.members.live().iter().map(|role| self.members.seat(super::super::members::role(role)));
        !self.is_stopping
            && !self.policy.is_changing()
            && are_whole
            && is_simple
            && self.sync.is_whole()
            && !has_lists
            && !is_swept
            && seats().all(|seat| control.seated.contains(seat.index()))
    }

    /// Pieces were not written with a shard: as with a round of this engine, all others of their rows were.
    fn list_unwritten(&mut self, request: u32, pieces: Vec<Unwritten>, written: Vec<(u64, PieceSet)>) {
        for Unwritten { seat, rows, is_gone } in pieces {
            let member = self.members.seat(seat);
            match is_gone {
                true => self.fail_member(member),
                false => self.on_unwritable(member, rows),
            }
        }
        for (row, pieces) in written {
            let (strip, row) = self.place_of_row(row);
            self.requests.note_listed(request, (strip, row, pieces));
        }
    }

    /// Cells of a strip, in jobs that rounds admit: with partial parity logs the chunks of a row are consecutive, which those that a shard
    /// merged without logs need not be.
    fn admissible(&self, strip: Strip, mut cells: Vec<Cell>) -> Vec<Vec<Cell>> {
        if self.ahead.logs.is_none() {
            return vec![cells];
        }
        let order = self.map.order(strip);
        let mut jobs = Vec::new();
        while !cells.is_empty() {
            let mut rows: BTreeMap<u16, PieceSet> = BTreeMap::new();
            cells.iter().for_each(|cell| rows.entry(cell.row).or_insert(PieceSet::EMPTY).insert(cell.piece));
            rows.values_mut().for_each(|pieces| *pieces = order.first_run(*pieces));
            jobs.push(cells.extract_if(.., |cell| rows[&cell.row].contains(cell.piece)).collect());
        }
        jobs
    }

    /// All data of a strip, as zeros.
    fn zeros_of(&self, strip: Strip) -> Vec<Cell> {
        let rows = u16::try_from(self.map.rows_of(strip).count()).expect("at most 128");
        let pieces = 0..self.map.data_count();
        (0..rows).flat_map(|row| pieces.clone().map(move |piece| Cell { row, piece, frame: None })).collect()
    }

    fn place_of_row(&self, row: u64) -> (Strip, u16) {
        let strip = self.map.strip_of(row);
        (strip, u16::try_from(row - self.map.rows_of(strip).start).expect("at most 128 rows"))
    }

    fn lba_of_cell(&self, cell: &RowCell) -> Lba {
        let (strip, row) = self.place_of_row(cell.row);
        self.map.lba_of(strip, row, cell.piece)
    }

    /// Answers a part that was handed over; false when the request is nobody's part.
    pub(in super::super) fn answer_part(
        &mut self,
        id: RequestId,
        outcome: Outcome,
        frames: &mut Vec<Frame>,
    ) -> bool {
        if id.0 & HANDED == 0 || !matches!(self.place, Place::Control(_)) {
            return false;
        }
        let number = u32::try_from(id.0 ^ HANDED).expect("a number of a slab");
        let OpenPart { shard, part, frames: count } = self.place.control_mut().parts.remove(number);
        let mut frames = std::mem::take(frames);
        if frames.is_empty() {
            self.stock.pool().take_many(count, &mut frames);
        }
        assert!(frames.len() == count, "{} frames for {count}", frames.len());
        self.stock.pool().disown(count);
        self.place.control_mut().messages.push((shard, ToShard::Answer { part, outcome, frames }));
        true
    }

    /// Asserts what must hold between events.
    pub(in super::super) fn check_shards(&self) {
        let Place::Control(control) = &self.place else { return };
        let marks = control.others.iter().filter(|other| other.leases.contains_key(&Lease::Mark)).count();
        assert!(self.scribe.writers() >= marks, "{marks} marks are lent");
        let is_granted = |(_, granted): &(Ticket, bool)| *granted;
        for (lease, _) in
            control.others.iter().flat_map(|other| &other.leases).filter(|(_, own)| is_granted(own))
        {
            match lease {
                Lease::Mark => {
                    assert!(self.scribe.is_ready() || self.members.is_broken(), "a mark that is not there")
                }
                Lease::Region(region) => {
                    let is_durable = self.pages.as_ref().is_some_and(|pages| pages.is_durable(*region));
                    assert!(
                        is_durable || self.members.is_broken(),
                        "a bit of region {region} that is not there"
                    );
                }
            }
        }
        if control.is_shared() {
            assert!(self.background.sweeps.in_flight == 0, "strips of others are swept");
        }
    }
}

impl Strips {
    /// Takes each shard to its next state; true when one moved.
    fn turn_shards(&mut self) -> bool {
        let Place::Control(control) = &self.core.place else { return false };
        let (is_plain, has_logs) = (self.core.is_plain(), self.core.ahead.logs.is_some());
        let are_held = control.others.iter().all(|other| other.state == State::Held);
        let may_lend = !has_logs || (are_held && self.core.ahead.may_lend_logs());
        let next = |state: State| match (is_plain, state) {
            (true, State::In) if has_logs => Some(State::Asked),
            (true, State::In) => Some(State::Out),
            (true, State::Held) if may_lend => Some(State::Out),
            (false, State::Held) => Some(State::In),
            (false, State::Out) => Some(State::Recalling),
            _ => None,
        };
        let others = control.others.iter().enumerate();
        let turning: Vec<(usize, State)> =
            others.filter_map(|(shard, other)| Some((shard, next(other.state)?))).collect();
        if turning.iter().any(|(_, to)| *to == State::Out) {
            // What is kept here of a strip is not what a shard leaves there.
            self.cache.clear(&mut self.core.stock);
        }
        for &(shard, to) in &turning {
            let message = match to {
                State::In => ToShard::Release,
                State::Asked => ToShard::Hold,
                State::Out => ToShard::Terms(Box::new(self.core.terms(shard))),
                State::Recalling => ToShard::Recall,
                State::Held => unreachable!("shards say so themselves"),
            };
            self.core.place.control_mut().turn(shard, to, message);
        }
        !turning.is_empty()
    }

    fn write_handed(&mut self, request: u32, cells: Vec<RowCell>, durable: bool) {
        if self.core.is_read_only() {
            cells
                .into_iter()
                .filter_map(|cell| cell.frame)
                .for_each(|frame| self.core.stock.pool().give(frame));
            return self.core.requests.fail(request);
        }
        if let Some(first) = cells.first() {
            let lba = self.core.lba_of_cell(first);
            let count = u64::try_from(cells.len()).expect("cells of a strip");
            self.window.note_write(lba.0, count, self.core.requests.load().in_flight);
        }
        let mut strips: BTreeMap<Strip, Vec<Cell>> = BTreeMap::new();
        for RowCell { row, piece, frame } in cells {
            let (strip, row) = self.core.place_of_row(row);
            strips.entry(strip).or_default().push(Cell { row, piece, frame });
        }
        for (strip, cells) in strips {
            for cells in self.core.admissible(strip, cells) {
                self.core.requests.add_part(request);
                self.offer(strip, Job { request: Some(request), work: Work::Write { cells, durable } });
            }
        }
    }

    fn zero_handed(&mut self, request: u32, rows: Range<u64>) {
        if self.core.is_read_only() {
            return self.core.requests.fail(request);
        }
        let strips = self.core.map.strip_of(rows.start).0..=self.core.map.strip_of(rows.end - 1).0;
        for strip in strips.map(Strip) {
            // A journal has no words for whole stripes of zeros.
            let work = match self.core.ahead.journal {
                Some(_) => Work::Write { cells: self.core.zeros_of(strip), durable: false },
                None => Work::Zero,
            };
            self.core.requests.add_part(request);
            self.offer(strip, Job { request: Some(request), work });
        }
    }
}

impl Clients {
    /// Takes a message of another shard.
    pub fn hear_shard(&mut self, now: Instant, shard: usize, message: ToControl, fx: &mut Effects) {
        match message {
            ToControl::Handed(part, handed) => {
                let is_held = self.strips.core.policy.is_changing() || self.strips.core.place.are_logs_lent();
                let other = &mut self.strips.core.place.control_mut().others[shard];
                if is_held || other.state == State::Recalling {
                    other.held.push((part, handed));
                } else {
                    self.begin_part(shard, (part, handed), fx);
                }
            }
            ToControl::Recalled(logs) => {
                let other = &mut self.strips.core.place.control_mut().others[shard];
                assert!(other.state == State::Recalling && other.leases.is_empty(), "a recall of {other:?}");
                assert!(other.has_logs == logs.is_some(), "a recall with logs {}", logs.is_some());
                (other.state, other.has_logs) = (State::In, false);
                logs.into_iter().for_each(|logs| self.strips.core.ahead.take_logs_back(*logs));
            }
            ToControl::Holds => {
                let other = &mut self.strips.core.place.control_mut().others[shard];
                assert!(other.state == State::Asked, "{:?} holds requests", other.state);
                other.state = State::Held;
            }
            ToControl::Failed(seat) => self.strips.core.fail_member(self.strips.core.members.seat(seat)),
            ToControl::Ask(lease, ticket) => self.strips.core.ask_for(shard, lease, ticket),
            ToControl::GiveBack(lease, ticket) => self.strips.core.take_lease_back(now, shard, lease, ticket),
            ToControl::Reported(report) => {
                self.strips.core.place.control_mut().others[shard].report = *report
            }
            ToControl::Conditions(all) => self.strips.core.place.control_mut().others[shard].conditions = all,
        }
    }

    /// Lends what is durable, begins what was held, and gives strips out or calls them in; true when something moved.
    pub(in super::super) fn advance_control(&mut self, fx: &mut Effects) -> bool {
        if !matches!(self.strips.core.place, Place::Control(_)) {
            return false;
        }
        let mut moves = self.strips.core.grant_leases();
        moves |= self.begin_held(fx);
        moves | self.strips.turn_shards()
    }

    fn begin_held(&mut self, fx: &mut Effects) -> bool {
        if self.strips.core.policy.is_changing() || self.strips.core.place.are_logs_lent() {
            return false;
        }
        let mut moves = false;
        for shard in 0..self.strips.core.place.control_mut().others.len() {
            let other = &mut self.strips.core.place.control_mut().others[shard];
            if other.state == State::Recalling {
                continue;
            }
            // Their order does not matter: rounds are planned by a later step of this turn, when it is known which pieces are not written.
            for part in std::mem::take(&mut other.held) {
                moves = true;
                self.begin_part(shard, part, fx);
            }
        }
        moves
    }

    /// Begins a part that another shard handed over.
    fn begin_part(&mut self, shard: usize, (part, handed): (u32, Handed), fx: &mut Effects) {
        let frames = handed.frames_count();
        self.strips.core.stock.pool().adopt(frames);
        let number = self.strips.core.place.control_mut().parts.insert(OpenPart { shard, part, frames });
        let id = RequestId(HANDED | u64::from(number));
        let request = match handed {
            Handed::Read { lba, frames } => {
                let run = u64::try_from(frames.len()).expect("a run of a chunk");
                let request = self.strips.core.requests.open_handed(id, Some(frames));
                self.read_run(request, lba, (0, run), fx);
                request
            }
            Handed::Write { cells, durable } => {
                let request = self.strips.core.requests.open_handed(id, None);
                self.strips.write_handed(request, cells, durable);
                request
            }
            Handed::Zero(rows) => {
                let request = self.strips.core.requests.open_handed(id, None);
                self.strips.zero_handed(request, rows);
                request
            }
            Handed::Unwritten { pieces, written } => {
                let request = self.strips.core.requests.open_handed(id, None);
                self.strips.core.list_unwritten(request, pieces, written);
                request
            }
        };
        self.part_done(request, fx);
    }
}
