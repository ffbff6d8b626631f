//! A drive whose owner is patient: a controller reset, a new firmware or a cable that is loose for seconds is a hiccup, and
//! not a lost drive (ADR 72).
//!
//! ```text
//!   Learning ── report ──> Serving ── nobody knows whether a command was done ──> Stalled <─┐
//!                             ^                                                     │  ^    │ it does not answer
//!                             │                              all commands came back │  └────┘ a look every 100 ms
//!                             │                              and a report explained v
//!                             └── landed: answered; others: given again ────── Settling
//!   Stalled, Settling ── patience is over, or the zones are not what they were ──> Lost
//! ```
//! While it is stalled, commands wait. Reads that were in flight are answered with [`Status::Stalled`], so that their owner may
//! ask other drives, or this one again. Every command of which nobody knows whether it was carried out keeps its frames.
//! Only when all have come back, from the drive or the kernel, a report is the truth. It has to be explained: zones without such
//! commands are where they were, others between that and what was in flight ([`known`]). What lies in between is read and
//! compared with the frames ([`settle`]): commands that landed are answered, the others are given again in their order.
//!
//! An append that landed in part has no place for its rest, and whatever follows it would lie where nobody expects it: it
//! and the others of the zone are answered with [`Status::WriteFault`], which costs the zone (ADR 7).
//!
//! A command that is not answered within a limit makes the drive a stalled one, too: the kernel gives up after a time of its own, and
//! resets the controller, which takes a while. Until a command is cut off, patience does not run: whoever watches over the drives judges
//! by the age of the oldest command, for when many drives do not answer the trouble is none of theirs.
//!
//! No thread and no clock: what opens a drive anew is a [`WayBack`], which never blocks.

mod command;
mod known;
mod settle;
#[cfg(test)]
mod tests;
pub(crate) mod wait;

use crate::answer::{Asked, frames_of};
use base::frame::Frame;
use base::loss::Loss;
use base::time::{Instant, Nanos};
use base::units::ZoneIndex;
use command::{Kind, Pending, Place, Window};
use known::{Found, Line};
use settle::{Blocks, Fate, Orphan, Orphans};
use std::collections::BTreeMap;
use wait::{LOOK_EVERY, Wait};
use zone::condition::{Condition, Settled};
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZoneDescriptor, ZonedDevice};

/// Tokens of the drive's own commands; others count commands from zero.
const REPORT: Token = Token(u64::MAX);
const READ: Token = Token(u64::MAX - 1);

/// A way to a drive whose device is not there any more.
pub trait WayBack: Send {
    /// Asks for the drive, opened anew. Called again and again, and never blocks: who has to wait looks in a thread.
    fn look(&mut self) -> Option<Box<dyn ZonedDevice>>;
}

/// Place in the drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Learning,
    Serving,
    Stalled { since: Instant },
    Settling { since: Instant },
    Lost,
}

/// Zone with commands whose fate is being read.
#[derive(Debug)]
struct Unsettled {
    found: Found,
    reported: ZoneDescriptor,
    gaps: Vec<(u32, u32)>,
    blocks: Blocks,
}

/// What a stalled drive is asked by itself.
#[derive(Debug, Default)]
struct Asking {
    /// Commands of ours that are not answered.
    count: u32,
    /// Time of the next look.
    at: Instant,
    /// A read of ours was cut off in its turn.
    is_cut: bool,
    zones: BTreeMap<ZoneIndex, Unsettled>,
}

/// See the module.
pub struct Patient {
    inner: Box<dyn ZonedDevice>,
    way_back: Option<Box<dyn WayBack>>,
    geometry: Geometry,
    state: State,
    /// Hiccups are waited for: clients are served.
    outlives: bool,
    /// A zone has, or was to get, a window. What lies there cannot be told by a report: from then on hiccups are not waited for.
    has_windows: bool,
    /// Commands that were not answered, in their order.
    pending: BTreeMap<u64, Pending>,
    next_number: u64,
    /// Of these, those that the drive below has.
    out_count: usize,
    zones: Vec<Line>,
    asking: Asking,
    wait: Wait,
    loss: Option<Loss>,
    done: Vec<Completion>,
    /// Kept for its memory.
    answers: Vec<Completion>,
    /// The drive keeps metadata beside its blocks.
    has_metadata: bool,
}

impl Patient {
    /// A drive that is waited for this long. Without a way back, its device must stay.
    #[must_use]
    pub fn new(inner: Box<dyn ZonedDevice>, way_back: Option<Box<dyn WayBack>>, patience: Nanos) -> Patient {
        let geometry = *inner.geometry();
        Patient {
            inner,
            way_back,
            geometry,
            state: State::Learning,
            outlives: false,
            has_windows: false,
            pending: BTreeMap::new(),
            next_number: 0,
            out_count: 0,
            zones: Vec::new(),
            asking: Asking::default(),
            wait: Wait::new(patience),
            loss: None,
            done: Vec::new(),
            answers: Vec::new(),
            has_metadata: true,
        }
    }

    /// The same of a drive that keeps no metadata: what it holds is told by data alone.
    #[must_use]
    pub fn without_metadata(mut self) -> Patient {
        self.has_metadata = false;
        self
    }

    /// The same, which is stalled as well when a command is not answered for so long.
    #[must_use]
    pub fn with_limit(mut self, limit: Nanos) -> Patient {
        self.wait.limit = Some(limit);
        self
    }

    fn enter(&mut self, state: State) {
        let may = matches!(
            (self.state, state),
            (State::Learning, State::Serving)
                | (State::Serving, State::Stalled { .. })
                | (State::Stalled { .. }, State::Settling { .. })
                | (State::Settling { .. }, State::Stalled { .. } | State::Serving)
                | (
                    State::Learning | State::Serving | State::Stalled { .. } | State::Settling { .. },
                    State::Lost
                )
        );
        assert!(may, "a drive goes from {:?} to {state:?}", self.state);
        self.state = state;
    }

    /// Hands a command to the drive below.
    fn hand_over(&mut self, now: Instant, number: u64, frames: Vec<Frame>) {
        let pending = self.pending.get_mut(&number).expect("a command that waits");
        let asked = pending.asked;
        let is_spoilt = self.zones.get(asked.zone.index()).is_some_and(|line| line.is_spoilt);
        if is_spoilt && pending.is_transfer() {
            pending.place = Place::Out;
            self.out_count += 1;
            return self.finish(number, Status::WriteFault, asked.offset, (frames, Vec::new()));
        }
        pending.place = Place::Out;
        self.out_count += 1;
        let op = pending.op(frames);
        self.inner.submit(now, Command { token: Token(number), zone: asked.zone, op });
    }

    /// Answers a command that the drive below has answered, or that is settled.
    fn finish(
        &mut self,
        number: u64,
        status: Status,
        offset: u32,
        (frames, report): (Vec<Frame>, Vec<ZoneDescriptor>),
    ) {
        let Pending { asked, kind, mut front, place, .. } =
            self.pending.remove(&number).expect("a command is answered once");
        self.out_count -= usize::from(place.is_below());
        let count = u32::try_from(frames.len()).expect("a transfer");
        if let Some(line) = self.zones.get_mut(asked.zone.index()) {
            note(line, &kind, status, (offset, count));
        }
        let offset = if kind.is_placed_by_drive() { offset } else { asked.offset };
        front.extend(frames);
        self.done.push(Completion { report, offset, ..asked.done(Err(status), front) });
    }

    /// Takes what the drive below has answered.
    fn take_answers(&mut self, now: Instant) {
        let mut answers = std::mem::take(&mut self.answers);
        self.inner.poll(now, &mut answers);
        let is_cut_off = |answer: &Completion| {
            answer.status == Status::DeviceGone && self.pending.contains_key(&answer.token.0)
        };
        if self.outlives && self.state == State::Serving && answers.iter().any(is_cut_off) {
            // What was answered before it counts.
            for answer in answers.extract_if(.., |answer| answer.status == Status::Success) {
                self.on_answer(now, answer);
            }
            self.stall(now, true);
        }
        for answer in answers.drain(..) {
            self.on_answer(now, answer);
        }
        self.answers = answers;
    }

    fn on_answer(&mut self, now: Instant, answer: Completion) {
        match answer.token {
            REPORT => return self.on_report(now, answer),
            READ => return self.on_read(answer),
            Token(_) => {}
        }
        let Completion { token: Token(number), mut status, offset, frames, report, .. } = answer;
        let (state, is_stalled) = (self.state, self.is_stalled());
        let pending = self.pending.get_mut(&number).expect("an answer to a command that was given");
        if pending.place == Place::Ghost {
            self.pending.remove(&number);
            self.out_count -= 1;
            return;
        }
        assert!(pending.place == Place::Out, "a command is answered that the drive has");
        if is_stalled && status != Status::Success {
            // It may have failed for one before it that was cut off.
            self.wait.is_cut_off |= status == Status::DeviceGone;
            pending.place = Place::Adrift(frames);
            self.out_count -= 1;
            return;
        }
        let (zone, blocks) = (pending.asked.zone, pending.blocks);
        let has_appended = pending.kind == Kind::Append && status == Status::Success;
        let offset = if pending.kind.is_placed_by_drive() { offset } else { pending.next_offset() };
        // A drive that lost power may take commands again before it is known that others were cut off.
        if has_appended && state != State::Lost && !self.zones[zone.index()].is_free(offset, blocks) {
            log::error!(
                "a drive appended to zone {zone} at block {offset}, where it had acknowledged blocks: it has lost them"
            );
            self.lose(Loss::Changed);
        }
        if has_appended && self.state == State::Lost {
            status = Status::DeviceGone;
        }
        if status == Status::DeviceGone && self.state != State::Lost {
            self.enter(State::Lost);
        }
        self.finish(number, status, offset, (frames, report));
    }

    /// Nobody knows whether some commands were carried out: they were cut off, or are not answered. Reads change nothing, and others may
    /// know what was asked.
    fn stall(&mut self, now: Instant, is_cut_off: bool) {
        self.enter(State::Stalled { since: now });
        self.asking = Asking { at: now, ..Asking::default() };
        self.wait.begin(now, is_cut_off);
        for pending in self.pending.values_mut() {
            if pending.kind == Kind::Read && pending.place == Place::Out {
                pending.place = Place::Ghost;
                let others = (0..pending.blocks).map(|_| Frame::zeroed()).collect();
                self.done.push(pending.asked.done(Err(Status::Stalled), others));
            }
        }
    }

    /// Does what is due.
    fn advance(&mut self, now: Instant) {
        self.wait.note_look(now);
        match self.state {
            State::Stalled { .. } | State::Settling { .. } if self.wait.is_over() => {
                let loss = self.inner.condition(now).loss;
                self.lose(loss.unwrap_or(Loss::Interrupted));
            }
            State::Stalled { .. } => {
                if self.out_count == 0 && self.asking.count == 0 && now >= self.asking.at {
                    self.look(now);
                }
            }
            State::Settling { since } if self.asking.count == 0 => {
                if self.asking.is_cut {
                    self.enter(State::Stalled { since });
                    self.asking = Asking { at: now + LOOK_EVERY, ..Asking::default() };
                } else {
                    self.settle(now, since);
                }
            }
            State::Learning | State::Serving | State::Settling { .. } | State::Lost => {}
        }
    }

    /// Asks the drive for its zones: the one that was there, or, when that is gone for ever, the one that came back.
    fn look(&mut self, now: Instant) {
        assert!(self.out_count == 0 && self.asking.count == 0, "all commands have come back");
        self.asking.at = now + LOOK_EVERY;
        if self.inner.condition(now).loss == Some(Loss::Removed) {
            let Some(mut device) = self.way_back.as_mut().and_then(|way| way.look()) else { return };
            if *device.geometry() != self.geometry {
                log::error!("a drive that was away has other zones or limits now: it is another one");
                return self.lose(Loss::Changed);
            }
            device.outlive_hiccups(true);
            self.inner = device;
        }
        self.ask(now);
    }

    fn ask(&mut self, now: Instant) {
        self.asking.count += 1;
        let op = Op::Report { count: self.geometry.zones };
        self.inner.submit(now, Command { token: REPORT, zone: ZoneIndex(0), op });
    }

    fn on_report(&mut self, now: Instant, answer: Completion) {
        self.asking.count -= 1;
        let is_told = answer.status == Status::Success && answer.report.len() == self.geometry.zones as usize;
        match self.state {
            State::Learning if is_told => {
                self.zones = answer.report.iter().map(Line::of).collect();
                self.has_windows |= answer.report.iter().any(|zone| zone.has_area);
                self.outlives &= !self.has_windows;
                self.enter(State::Serving);
                self.resume(now);
            }
            State::Learning => self.lose(Loss::Interrupted),
            State::Stalled { since } if is_told => self.examine(now, since, &answer.report),
            // It is asked again, for as long as there is patience.
            State::Stalled { .. } => self.wait.is_cut_off = true,
            State::Lost => {}
            State::Serving | State::Settling { .. } => unreachable!("a drive that serves is not asked"),
        }
    }

    /// Compares a report with what is known, and begins to read what is not.
    fn examine(&mut self, now: Instant, since: Instant, report: &[ZoneDescriptor]) {
        self.enter(State::Settling { since });
        let mut zones = BTreeMap::new();
        for ((index, line), reported) in self.zones.iter().enumerate().zip(report) {
            let zone = ZoneIndex(u32::try_from(index).expect("a u32 of zones"));
            let orphans = self.orphans_of(zone);
            let Some(found) = line.explain(reported, orphans, self.geometry.zone_capacity_blocks) else {
                log::error!(
                    "zone {zone} of a drive that was away is {:?}, write pointer {}; {} blocks were acknowledged, {} in flight: \
                     another host wrote it, or the drive has lost what it had acknowledged",
                    reported.state,
                    reported.write_pointer,
                    line.solid(),
                    orphans.blocks,
                );
                return self.lose(Loss::Changed);
            };
            if orphans == Orphans::default() {
                continue;
            }
            let gaps = match found {
                Found::Written { end } => line.gaps(end),
                Found::Managed | Found::Vague => Vec::new(),
            };
            zones.insert(zone, Unsettled { found, reported: *reported, gaps, blocks: Blocks::new() });
        }
        for (zone, unsettled) in &zones {
            for (from, to) in &unsettled.gaps {
                let step = self.geometry.transfer_blocks_max;
                for offset in (*from..*to).step_by(step as usize) {
                    let frames = (0..step.min(to - offset)).map(|_| Frame::zeroed()).collect();
                    let op = Op::Read { offset, frames };
                    self.inner.submit(now, Command { token: READ, zone: *zone, op });
                    self.asking.count += 1;
                }
            }
        }
        self.asking.zones = zones;
    }

    /// Commands to a zone whose fate is not known.
    fn orphans_of(&self, zone: ZoneIndex) -> Orphans {
        let mut orphans = Orphans::default();
        let adrift = |pending: &&Pending| pending.asked.zone == zone && pending.is_adrift();
        for pending in self.pending.values().filter(adrift) {
            match pending.kind {
                Kind::Write | Kind::Append => orphans.blocks += pending.blocks_left(),
                Kind::Reset => orphans.resets += 1,
                Kind::Finish => orphans.finishes += 1,
                Kind::Read
                | Kind::Open
                | Kind::Close
                | Kind::Other(_)
                | Kind::Report { .. }
                | Kind::FindTurned { .. }
                | Kind::Flush
                | Kind::SelfTest { .. } => {}
            }
        }
        orphans
    }

    fn on_read(&mut self, answer: Completion) {
        self.asking.count -= 1;
        let Completion { status, zone, offset, frames, .. } = answer;
        self.asking.is_cut |= status == Status::DeviceGone;
        if let Some(unsettled) = self.asking.zones.get_mut(&zone) {
            let read = frames.into_iter().map(|frame| (status == Status::Success).then_some(frame));
            unsettled.blocks.extend((offset..).zip(read));
        }
    }

    /// Everything was read: says what became of each command, and goes on.
    fn settle(&mut self, now: Instant, since: Instant) {
        let zones = std::mem::take(&mut self.asking.zones);
        let waited = u32::try_from(self.pending.len()).unwrap_or(u32::MAX);
        let mut verdicts = Vec::new();
        for (zone, unsettled) in &zones {
            let Some(fates) = self.fates_of(*zone, unsettled) else {
                log::error!(
                    "zone {zone} of a drive that was away holds blocks that this array did not write"
                );
                return self.lose(Loss::Changed);
            };
            verdicts.extend(fates);
        }
        let mut settled = Settled { lasted: now.since(since), waited, landed: 0, repeated: 0 };
        for (zone, unsettled) in &zones {
            self.zones[zone.index()].learn(&unsettled.reported);
        }
        for (number, fate) in verdicts {
            self.decide(number, fate, &mut settled);
        }
        let again = self.pending.values().filter(|pending| pending.is_adrift()).count();
        settled.repeated += u32::try_from(again).unwrap_or(u32::MAX);
        self.wait.settle(settled);
        self.enter(State::Serving);
        self.resume(now);
    }

    /// Says what became of the writes and appends of a zone; `None` when it holds what none of them wrote.
    fn fates_of(&self, zone: ZoneIndex, unsettled: &Unsettled) -> Option<Vec<(u64, Fate)>> {
        let of_zone = self.pending.iter().filter(|(_, pending)| pending.asked.zone == zone);
        let (numbers, orphans): (Vec<u64>, Vec<Orphan<'_>>) = of_zone
            .filter_map(|(number, pending)| {
                let frames = pending.adrift().filter(|_| pending.is_transfer())?;
                let offset = (pending.kind == Kind::Write).then(|| pending.next_offset());
                Some((*number, Orphan { offset, frames, has_metadata: self.has_metadata }))
            })
            .unzip();
        let fates = match unsettled.found {
            Found::Written { .. } => settle::fates(&unsettled.gaps, &unsettled.blocks, &orphans)?,
            Found::Managed | Found::Vague => vec![Fate::Torn; orphans.len()],
        };
        Some(numbers.into_iter().zip(fates).collect())
    }

    /// A write or an append is answered, or prepared to be given again.
    fn decide(&mut self, number: u64, fate: Fate, settled: &mut Settled) {
        let pending = self.pending.get_mut(&number).expect("an orphan");
        let Place::Adrift(frames) = &mut pending.place else { unreachable!("an orphan has its frames") };
        match fate {
            Fate::Not => {}
            Fate::Partly(count) => {
                let rest = frames.split_off(count as usize);
                pending.front.append(frames);
                *frames = rest;
            }
            Fate::Landed(offset) => {
                settled.landed += 1;
                let frames = std::mem::take(frames);
                self.finish(number, Status::Success, offset, (frames, Vec::new()));
            }
            Fate::Torn => {
                let (zone, offset) = (pending.asked.zone, pending.asked.offset);
                let frames = std::mem::take(frames);
                self.zones[zone.index()].is_spoilt = true;
                self.finish(number, Status::WriteFault, offset, (frames, Vec::new()));
            }
        }
    }

    /// Hands over what waits, in its order.
    fn resume(&mut self, now: Instant) {
        assert!(self.out_count == 0, "nothing is with the drive before it serves");
        let numbers: Vec<u64> = self.pending.keys().copied().collect();
        for number in numbers {
            let pending = self.pending.get_mut(&number).expect("a command that waits");
            let (Place::Held(frames) | Place::Adrift(frames)) =
                std::mem::replace(&mut pending.place, Place::Out)
            else {
                unreachable!("nothing is with the drive before it serves")
            };
            self.hand_over(now, number, frames);
        }
    }

    /// The drive is lost: everything is answered, by it or for it.
    fn lose(&mut self, loss: Loss) {
        log::debug!("a drive that was {:?} is lost: {loss}", self.state);
        self.enter(State::Lost);
        self.loss = Some(loss);
        // It may have the drive open by now.
        self.way_back = None;
        self.wait.give_up();
        self.inner.abandon();
        let waiting: Vec<u64> = self
            .pending
            .iter()
            .filter(|(_, pending)| !pending.place.is_below())
            .map(|(number, _)| *number)
            .collect();
        for number in waiting {
            let pending = self.pending.get_mut(&number).expect("listed above");
            let offset = pending.asked.offset;
            let (Place::Held(frames) | Place::Adrift(frames)) =
                std::mem::replace(&mut pending.place, Place::Held(Vec::new()))
            else {
                unreachable!("the drive below has it")
            };
            self.finish(number, Status::DeviceGone, offset, (frames, Vec::new()));
        }
    }
}

/// A command to a zone was answered.
fn note(line: &mut Line, kind: &Kind, status: Status, (offset, count): (u32, u32)) {
    match (kind, status) {
        (_, Status::DeviceGone) => {}
        (Kind::Write | Kind::Append, Status::Success) => line.wrote(offset, count),
        (Kind::Reset, Status::Success) => line.emptied(),
        (Kind::Finish, Status::Success) => line.finished(),
        (Kind::Other(Window::Open), Status::Success) => line.got_window(),
        (Kind::Write | Kind::Append | Kind::Reset | Kind::Finish, _) => line.doubt(),
        _ => {}
    }
}

impl ZonedDevice for Patient {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let Command { token, zone, op } = command;
        let asked = Asked::of(token, zone, &op);
        let kind = Kind::of(&op);
        let frames = frames_of(op);
        if kind == Kind::Other(Window::Open) {
            self.has_windows = true;
            self.outlive_hiccups(false);
        }
        if self.state == State::Lost {
            return self.done.push(asked.done(Err(Status::DeviceGone), frames));
        }
        let number = self.next_number;
        self.next_number += 1;
        let pending = Pending::new(asked, kind, &frames);
        self.pending.insert(number, pending);
        if self.state == State::Serving {
            return self.hand_over(now, number, frames);
        }
        self.pending.get_mut(&number).expect("just inserted").place = Place::Held(frames);
        if self.state == State::Learning && self.asking.count == 0 {
            self.ask(now);
        }
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.take_answers(now);
        self.advance(now);
        completions.append(&mut self.done);
    }

    fn next_event(&self) -> Option<Instant> {
        // What is answered at once is told by the next poll.
        if !self.done.is_empty() {
            return Some(Instant(0));
        }
        if !self.is_stalled() {
            return self.inner.next_event();
        }
        let below = match self.out_count == 0 && self.asking.count == 0 {
            true => Some(self.asking.at),
            false => self.inner.next_event(),
        };
        [below, self.wait.end()].into_iter().flatten().min()
    }

    fn condition(&mut self, now: Instant) -> Condition {
        let inner = self.inner.condition(now);
        if self.outlives && self.state == State::Serving {
            let is_cut_off = inner.loss.is_some();
            if is_cut_off || self.wait.is_overdue(now, inner.oldest.map(|oldest| oldest.since)) {
                self.stall(now, is_cut_off);
            }
        }
        let hiccups = self.wait.hiccups(self.outlives);
        match self.state {
            State::Stalled { .. } | State::Settling { .. } => {
                self.wait.is_cut_off |= inner.loss.is_some();
                let oldest = inner.oldest.filter(|_| !self.wait.is_cut_off);
                Condition { hiccups, oldest, identities: inner.identities, ..Condition::default() }
            }
            State::Lost => Condition { hiccups, loss: self.loss.or(inner.loss), ..inner },
            State::Learning | State::Serving => Condition { hiccups, ..inner },
        }
    }

    fn abandon(&mut self) {
        match self.state {
            State::Lost => self.inner.abandon(),
            _ => self.lose(Loss::Abandoned),
        }
    }

    fn outlive_hiccups(&mut self, outlives: bool) {
        if self.state == State::Lost {
            return;
        }
        let outlives = outlives && !self.has_windows;
        if self.is_stalled() && !outlives {
            self.lose(Loss::Interrupted);
        }
        self.outlives = outlives;
        self.inner.outlive_hiccups(outlives);
    }

    fn is_stalled(&self) -> bool {
        matches!(self.state, State::Stalled { .. } | State::Settling { .. })
    }
}
