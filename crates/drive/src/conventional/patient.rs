//! A disk below a conventional drive whose owner is patient: it may be away for a while, and lose what its volatile cache held
//! (ADR 84).
//!
//! ```text
//!   Serving ── nobody knows whether a command was done ──> Stalled <── it does not answer ──┐
//!      ^                                                     │ all commands came back,      │
//!      │                                                     v a block is read              │
//!      └── what came back is given again ────────────── Restoring ──────────────────────────┘
//!   Stalled, Restoring ── patience is over, or another opened the drive ──> Lost
//! ```
//! The blocks of a disk are overwritten in place and have no pointer: nothing on it tells whether it lost power. So what was
//! answered and not flushed is kept ([`ledger`]) and written again before anything else is, whether it was lost or not. Then
//! the commands that were cut off are given again, which changes nothing where they were carried out: in between the disk holds
//! nothing that it might not hold after a power failure. A disk without a volatile cache keeps what it answered, so there is no
//! ledger.
//!
//! A flush is answered when every command that was given before it has come back. Else one might be carried out by a disk that
//! had lost its cache a moment ago, before anybody knew, and would prove nothing.
//!
//! A write that failed is given again behind all that; when it fails again it is an error. A read that failed is one as soon
//! as the disk returns its first block, or its last. Reads that were in flight are answered with [`Status::Stalled`].
//!
//! No thread and no clock: what opens a disk anew is a [`DiskWay`], which never blocks.

mod command;
mod ledger;
#[cfg(test)]
mod tests;

use super::layout::sector_of;
use crate::patient::wait::{LOOK_EVERY, Wait};
use base::frame::Frame;
use base::loss::Loss;
use base::time::{Instant, Nanos};
use block::condition::{Condition, Settled};
use block::device::{BlockDevice, Command, Completion, FRAME_SECTORS, Geometry, Op, Status, Token};
use command::{Ask, Pending, Place};
use ledger::Ledger;
use std::collections::BTreeMap;

/// Tokens of the disk's own commands; others count commands from zero.
const DOUBT: Token = Token(u64::MAX);
const LOOK: Token = Token(u64::MAX - 1);
const RESTORE: Token = Token(u64::MAX - 2);
/// Times that a write or a flush fails before it is an error.
const FAILURES_MAX: u8 = 2;
/// Blocks of a write that restores, and such writes at a time.
const RESTORE_BLOCKS: usize = 64;
const RESTORES_MAX: u32 = 8;

/// A way to a disk that is not there any more.
pub trait DiskWay: Send {
    /// Asks for the disk, opened anew. Called again and again, and never blocks.
    ///
    /// # Errors
    /// When it is back, and is not to be used.
    fn look(&mut self) -> Result<Option<Box<dyn BlockDevice>>, Loss>;
}

/// Place in the drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Serving,
    Stalled { since: Instant },
    Restoring { since: Instant },
    Lost,
}

/// What the disk is asked by itself.
#[derive(Debug, Default)]
struct Asking {
    /// Commands of ours that are not answered.
    count: u32,
    /// Time of the next look at a disk that is stalled.
    at: Instant,
    /// The first block could not be read: it is the last one that is.
    is_at_end: bool,
    /// Reads that failed before that, and since.
    doubted: Vec<u64>,
    doubted_since: Vec<u64>,
    /// Place from which on the ledger is to be written.
    restored_to: u64,
    /// A command of ours was cut off in its turn.
    is_cut: bool,
}

/// See the module.
pub struct PatientDisk {
    inner: Box<dyn BlockDevice>,
    way: Option<Box<dyn DiskWay>>,
    geometry: Geometry,
    state: State,
    /// Hiccups are waited for: clients are served.
    outlives: bool,
    /// Commands that were not answered, in their order.
    pending: BTreeMap<u64, Pending>,
    next_number: u64,
    /// Of these, those that the disk has.
    out_count: usize,
    ledger: Ledger,
    asking: Asking,
    wait: Wait,
    loss: Option<Loss>,
    done: Vec<Completion>,
    /// Kept for its memory.
    answers: Vec<Completion>,
}

impl std::fmt::Debug for PatientDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PatientDisk").field("state", &self.state).finish_non_exhaustive()
    }
}

impl PatientDisk {
    /// A disk that is waited for this long, and of which everything is flushed. It is stalled as well when a command is not
    /// answered within the limit, if there is one.
    #[must_use]
    pub fn new(
        inner: Box<dyn BlockDevice>,
        way: Box<dyn DiskWay>,
        patience: Nanos,
        limit: Option<Nanos>,
    ) -> PatientDisk {
        let geometry = *inner.geometry();
        let mut wait = Wait::new(patience);
        wait.limit = limit;
        PatientDisk {
            inner,
            way: Some(way),
            geometry,
            state: State::Serving,
            outlives: false,
            pending: BTreeMap::new(),
            next_number: 0,
            out_count: 0,
            ledger: Ledger::default(),
            asking: Asking::default(),
            wait,
            loss: None,
            done: Vec::new(),
            answers: Vec::new(),
        }
    }

    fn enter(&mut self, state: State) {
        let may = matches!(
            (self.state, state),
            (State::Serving, State::Stalled { .. })
                | (State::Stalled { .. }, State::Restoring { .. })
                | (State::Restoring { .. }, State::Stalled { .. } | State::Serving)
                | (State::Serving | State::Stalled { .. } | State::Restoring { .. }, State::Lost)
        );
        assert!(may, "a disk goes from {:?} to {state:?}", self.state);
        self.state = state;
    }

    /// Takes a command in: the disk gets it when its time has come.
    fn take_in(&mut self, now: Instant, pending: Pending) {
        let number = self.next_number;
        self.next_number += 1;
        let waits = self.state != State::Serving || (pending.is_cached() && self.ledger.is_full());
        self.pending.insert(number, pending);
        if !waits {
            self.hand_over(now, number);
        }
    }

    /// Hands a command to the disk.
    fn hand_over(&mut self, now: Instant, number: u64) {
        let pending = self.pending.get_mut(&number).expect("a command that waits");
        let frames = pending.take_frames().expect("it is not with the disk");
        pending.place = Place::Out;
        pending.mark = self.ledger.mark();
        self.out_count += 1;
        let op = pending.op(frames);
        self.inner.submit(now, Command { token: Token(number), op });
    }

    /// Hands over what waits, in its order.
    fn resume(&mut self, now: Instant) {
        let waits = |pending: &Pending| matches!(pending.place, Place::Held(_) | Place::Adrift(_));
        let numbers: Vec<u64> =
            self.pending.iter().filter(|(_, pending)| waits(pending)).map(|(number, _)| *number).collect();
        numbers.into_iter().for_each(|number| self.hand_over(now, number));
    }

    /// Answers a command.
    fn finish(&mut self, number: u64, status: Status, frames: Vec<Frame>) {
        let pending = self.pending.remove(&number).expect("a command is answered once");
        self.out_count -= usize::from(pending.is_below());
        if let Some(token) = pending.token {
            self.done.push(Completion { token, status, frames });
        }
    }

    /// Takes what the disk has answered.
    fn take_answers(&mut self, now: Instant) {
        let mut answers = std::mem::take(&mut self.answers);
        self.inner.poll(now, &mut answers);
        let has_answers = !answers.is_empty();
        let is_cut_off = |answer: &Completion| {
            let is_unknown = matches!(answer.status, Status::DeviceGone | Status::WriteError);
            is_unknown && self.pending.contains_key(&answer.token.0)
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
        if has_answers {
            self.release_flushes(now);
        }
    }

    fn on_answer(&mut self, now: Instant, answer: Completion) {
        let Completion { token, status, frames } = answer;
        match token {
            DOUBT => return self.on_doubt(now, status),
            LOOK => return self.on_look(now, status),
            RESTORE => {
                self.asking.count -= 1;
                self.asking.is_cut |= status != Status::Success;
                return;
            }
            Token(_) => {}
        }
        let Token(number) = token;
        let pending = self.pending.get_mut(&number).expect("an answer to a command that was given");
        if matches!(pending.place, Place::Ghost) {
            self.pending.remove(&number);
            self.out_count -= 1;
            return;
        }
        assert!(matches!(pending.place, Place::Out), "a command is answered that the disk has");
        if status == Status::Success {
            return self.on_success(number, frames);
        }
        let is_read = matches!(pending.ask, Ask::Read { .. });
        if self.outlives && self.state != State::Lost && status != Status::OutOfRange {
            self.out_count -= 1;
            if self.state == State::Serving && is_read {
                pending.place = Place::Doubted(frames);
                return self.doubt(now, number);
            }
            self.wait.is_cut_off = true;
            pending.failures += u8::from(status == Status::WriteError);
            pending.place = Place::Adrift(frames);
            return;
        }
        if status == Status::DeviceGone && self.state != State::Lost {
            self.enter(State::Lost);
        }
        self.finish(number, status, frames);
    }

    /// The disk has carried a command out.
    fn on_success(&mut self, number: u64, frames: Vec<Frame>) {
        let pending = self.pending.get_mut(&number).expect("a command that was given");
        if pending.ask == Ask::Flush {
            self.out_count -= 1;
            // While the disk is stalled nobody knows what it had lost before.
            pending.place =
                if self.state == State::Serving { Place::Flushed } else { Place::Adrift(Vec::new()) };
            if self.state == State::Lost {
                self.finish_all(&[number], Status::DeviceGone);
            }
            return;
        }
        if self.geometry.volatile_cache {
            pending.note(&mut self.ledger, &frames);
        }
        self.finish(number, Status::Success, frames);
    }

    /// Answers flushes before which nothing was given that has not come back.
    fn release_flushes(&mut self, now: Instant) {
        while self.state == State::Serving
            && let Some((number, flush)) =
                self.pending.iter().find(|(_, pending)| matches!(pending.place, Place::Flushed))
            && !self.pending.range(..number).any(|(_, before)| before.is_open())
        {
            let number = *number;
            self.ledger.flushed(flush.mark);
            self.finish(number, Status::Success, Vec::new());
            // There is room in the ledger.
            self.resume(now);
        }
    }

    /// A read failed: a disk that returns another block is there.
    fn doubt(&mut self, now: Instant, number: u64) {
        self.asking.doubted_since.push(number);
        if self.asking.count == 0 {
            self.doubt_those_since(now);
        }
    }

    fn doubt_those_since(&mut self, now: Instant) {
        self.asking.doubted = std::mem::take(&mut self.asking.doubted_since);
        self.probe(now, DOUBT, false);
    }

    /// Reads the first block, or the last.
    fn probe(&mut self, now: Instant, token: Token, is_at_end: bool) {
        self.asking.count += 1;
        self.asking.is_at_end = is_at_end;
        let sector = if is_at_end { self.geometry.sectors - FRAME_SECTORS } else { 0 };
        let op = Op::Read { sector: sector / FRAME_SECTORS * FRAME_SECTORS, frames: vec![Frame::zeroed()] };
        self.inner.submit(now, Command { token, op });
    }

    /// A disk is asked for its last block when it did not return the first, for any block may be bad.
    fn wants_another(&self, status: Status) -> bool {
        status == Status::ReadError && !self.asking.is_at_end
    }

    fn on_doubt(&mut self, now: Instant, status: Status) {
        self.asking.count -= 1;
        if self.state != State::Serving {
            return;
        }
        if self.wants_another(status) {
            return self.probe(now, DOUBT, true);
        }
        if status != Status::Success {
            return self.stall(now, true);
        }
        for number in std::mem::take(&mut self.asking.doubted) {
            let pending = self.pending.get_mut(&number).expect("a read that failed");
            let frames = pending.take_frames().expect("it came back");
            self.finish(number, Status::ReadError, frames);
        }
        if !self.asking.doubted_since.is_empty() {
            self.doubt_those_since(now);
        }
    }

    /// Nobody knows whether some commands were carried out: they were cut off, or are not answered. Reads change nothing, and
    /// others may know what was asked.
    fn stall(&mut self, now: Instant, is_cut_off: bool) {
        self.enter(State::Stalled { since: now });
        self.asking = Asking { count: self.asking.count, at: now, ..Asking::default() };
        self.wait.begin(now, is_cut_off);
        for pending in self.pending.values_mut() {
            match (&mut pending.place, pending.ask) {
                (Place::Flushed, _) => pending.place = Place::Adrift(Vec::new()),
                (Place::Out, Ask::Read { frames, .. }) => {
                    pending.place = Place::Ghost;
                    let others = (0..frames).map(|_| Frame::zeroed()).collect();
                    let token = pending.token.expect("a read is somebody's");
                    self.done.push(Completion { token, status: Status::Stalled, frames: others });
                }
                _ => {}
            }
        }
        let is_doubted = |pending: &Pending| matches!(pending.place, Place::Doubted(_));
        let doubted = self.pending.iter().filter(|(_, pending)| is_doubted(pending));
        let doubted: Vec<u64> = doubted.map(|(number, _)| *number).collect();
        self.finish_all(&doubted, Status::Stalled);
    }

    /// Answers commands that the disk does not have.
    fn finish_all(&mut self, numbers: &[u64], status: Status) {
        for number in numbers {
            let pending = self.pending.get_mut(number).expect("a command that was not answered");
            let frames = pending.take_frames().expect("it is not with the disk");
            self.finish(*number, status, frames);
        }
    }

    /// Does what is due.
    fn advance(&mut self, now: Instant) {
        self.wait.note_look(now);
        match self.state {
            State::Stalled { .. } | State::Restoring { .. } if self.wait.is_over() => {
                let loss = self.inner.condition(now).loss;
                self.lose(loss.unwrap_or(Loss::Interrupted));
            }
            State::Stalled { .. } => {
                if self.out_count == 0 && self.asking.count == 0 && now >= self.asking.at {
                    self.look(now);
                }
            }
            State::Restoring { since } => self.restore(now, since),
            State::Serving => {
                let is_own = |pending: &Pending| pending.token.is_none();
                if self.ledger.wants_flush() && !self.pending.values().any(is_own) {
                    self.take_in(now, Pending::new(None, Op::Flush));
                }
            }
            State::Lost => {}
        }
    }

    /// Asks the disk for a block: the one that was there, or, when that is gone for ever, the one that came back.
    fn look(&mut self, now: Instant) {
        assert!(self.out_count == 0 && self.asking.count == 0, "all commands have come back");
        self.asking.at = now + LOOK_EVERY;
        if self.inner.condition(now).loss == Some(Loss::Removed) {
            let found = self.way.as_mut().map_or(Ok(None), |way| way.look());
            let mut disk = match found {
                Ok(Some(disk)) => disk,
                Ok(None) => return,
                Err(loss) => return self.lose(loss),
            };
            let Geometry { sectors, volatile_cache, .. } = *disk.geometry();
            if sectors != self.geometry.sectors || (volatile_cache && !self.geometry.volatile_cache) {
                log::error!("a disk that was away has another size, or a volatile cache that it had not");
                return self.lose(Loss::Changed);
            }
            disk.outlive_hiccups(true);
            self.inner = disk;
        }
        self.probe(now, LOOK, false);
    }

    fn on_look(&mut self, now: Instant, status: Status) {
        self.asking.count -= 1;
        let State::Stalled { since } = self.state else { return };
        if self.wants_another(status) {
            return self.probe(now, LOOK, true);
        }
        if status != Status::Success {
            // It is asked again, for as long as there is patience.
            self.wait.is_cut_off = true;
            return;
        }
        self.enter(State::Restoring { since });
        (self.asking.restored_to, self.asking.is_cut) = (0, false);
    }

    /// Writes again what the disk may have lost; then it serves.
    fn restore(&mut self, now: Instant, since: Instant) {
        while !self.asking.is_cut && self.asking.count < RESTORES_MAX {
            let Some((place, frames)) = self.ledger.run(self.asking.restored_to, RESTORE_BLOCKS) else {
                break;
            };
            self.asking.restored_to = place + frames.len() as u64;
            self.asking.count += 1;
            let op = Op::Write { sector: sector_of(place), frames, durable: false };
            self.inner.submit(now, Command { token: RESTORE, op });
        }
        if self.asking.count > 0 {
            return;
        }
        if self.asking.is_cut {
            self.wait.is_cut_off = true;
            self.asking.at = now + LOOK_EVERY;
            return self.enter(State::Stalled { since });
        }
        self.serve(now, since);
    }

    /// The disk is back, and holds what it answered: what came back is given again.
    fn serve(&mut self, now: Instant, since: Instant) {
        assert!(self.out_count == 0, "nothing is with the disk before it serves");
        let waited = u32::try_from(self.pending.len()).unwrap_or(u32::MAX);
        let failed = self.pending.iter().filter(|(_, pending)| pending.failures >= FAILURES_MAX);
        let failed: Vec<u64> = failed.map(|(number, _)| *number).collect();
        self.finish_all(&failed, Status::WriteError);
        let is_adrift = |pending: &&Pending| matches!(pending.place, Place::Adrift(_));
        let repeated = u32::try_from(self.pending.values().filter(is_adrift).count()).unwrap_or(u32::MAX);
        self.wait.settle(Settled { lasted: now.since(since), waited, landed: 0, repeated });
        self.enter(State::Serving);
        self.resume(now);
    }

    /// The disk is lost: everything is answered, by it or for it.
    fn lose(&mut self, loss: Loss) {
        log::debug!("a disk that was {:?} is lost: {loss}", self.state);
        self.enter(State::Lost);
        self.loss = Some(loss);
        // It may have the disk open by now.
        self.way = None;
        self.wait.give_up();
        self.inner.abandon();
        let waiting = self.pending.iter().filter(|(_, pending)| !pending.is_below());
        let waiting: Vec<u64> = waiting.map(|(number, _)| *number).collect();
        self.finish_all(&waiting, Status::DeviceGone);
    }
}

impl BlockDevice for PatientDisk {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Instant, Command { token, op }: Command) {
        if self.state == State::Lost {
            let frames = op.into_frames();
            return self.done.push(Completion { token, status: Status::DeviceGone, frames });
        }
        self.take_in(now, Pending::new(Some(token), op));
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.take_answers(now);
        self.advance(now);
        completions.append(&mut self.done);
    }

    fn next_event(&self) -> Option<Instant> {
        // What is refused at once is told by the next poll.
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
            if is_cut_off || self.wait.is_overdue(now, inner.oldest) {
                self.stall(now, is_cut_off);
            }
        }
        let hiccups = self.wait.hiccups(self.outlives);
        match self.state {
            State::Stalled { .. } | State::Restoring { .. } => {
                self.wait.is_cut_off |= inner.loss.is_some();
                let oldest = inner.oldest.filter(|_| !self.wait.is_cut_off);
                Condition { hiccups, oldest, ..Condition::default() }
            }
            State::Lost => Condition { hiccups, loss: self.loss.or(inner.loss), ..inner },
            State::Serving => Condition { hiccups, ..inner },
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
        if self.is_stalled() && !outlives {
            self.lose(Loss::Interrupted);
        }
        self.outlives = outlives;
        self.inner.outlive_hiccups(outlives);
    }

    fn is_stalled(&self) -> bool {
        matches!(self.state, State::Stalled { .. } | State::Restoring { .. })
    }
}
