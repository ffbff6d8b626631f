//! Move of the journal: when a record cannot be written, what is alive is carried from memory into the other zone.
//!
//! ```text
//!   record fails ──> flush ──> the other zone: reset, header, records of an opening ──> flush ──> the record that settles it ──> flush
//!                     the broken zone: reset, or found dead ──> answers, and records as ever
//! ```
//! As of an opening of the drive, none of the records counts before the last one: until then those of the broken zone do. Nobody is
//! answered before the broken zone is empty or dead, so of two zones with records the one that has room is never an old one (`recovery`).
//! No entry comes meanwhile: writes and resets wait at their gates.

use super::InbandDrive;
use super::core::{InbandCore, Waiter, Work};
use super::header::Header;
use super::journal::{Journal, Position, Spare, TRIES};
use crate::units::record::{Entry, RECORD_ENTRIES};
use base::time::Instant;
use base::units::ZoneIndex;
use zone::device::{Op, Status, ZoneDescriptor, ZoneState, ZonedDevice};

/// What a move does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The other zone is being made ready for a turn: that ends first.
    Waiting,
    /// What is written is flushed: then less has to be carried.
    Flushing,
    /// The other zone is reset.
    Resetting,
    /// It gets its header.
    Heading,
    /// Records of what is alive are written.
    Carrying,
    /// They are flushed.
    Covering,
    /// The record is written that makes them count.
    Settling,
    /// It is flushed.
    Sealing,
    /// The broken zone is reset.
    Retiring,
    /// It is not: what is it?
    Asking,
}

/// A move at work.
#[derive(Clone, Copy, Debug)]
pub struct Moving {
    pub(super) step: Step,
    /// The broken zone.
    from: u32,
    /// First record of the other.
    pub(super) first: u64,
    is_asked: bool,
    tries: u32,
    /// The other zone may have what is needed, and is reset all the same: until the move is through, a power failure costs the drive.
    is_at_risk: bool,
}

impl Journal {
    /// A record was not written: what is alive goes to the other zone, or there the same is tried again.
    pub(super) fn begin_move(&mut self) {
        let Position { current, spare, .. } = self.position;
        let is_over = spare == Spare::Dead || self.has_failed();
        match &mut self.moving {
            None if is_over => self.give_up(),
            None => {
                let step = match spare {
                    Spare::Resetting | Spare::Heading => Step::Waiting,
                    _ => Step::Flushing,
                };
                self.moving = Some(Moving {
                    step,
                    from: current,
                    first: 0,
                    is_asked: false,
                    tries: 0,
                    is_at_risk: false,
                });
            }
            Some(moving) if moving.tries < TRIES => {
                moving.tries += 1;
                (moving.step, moving.is_asked) = (Step::Resetting, false);
            }
            Some(_) => self.give_up(),
        }
    }

    /// A turn ended that a move waited for.
    pub(super) fn end_waiting(&mut self) {
        if self.moving.is_some_and(|moving| moving.step == Step::Waiting) {
            if self.position.spare == Spare::Dead {
                return self.give_up();
            }
            self.set_step(Step::Flushing);
        }
    }

    fn set_step(&mut self, step: Step) {
        let is_at_risk = step == Step::Resetting && self.said < self.position.base;
        let moving = self.moving.as_mut().expect("a move at work");
        let is_next = matches!(
            (moving.step, step),
            (Step::Waiting, Step::Flushing)
                | (Step::Flushing, Step::Resetting)
                | (Step::Resetting, Step::Heading)
                | (Step::Heading, Step::Carrying)
                | (Step::Carrying, Step::Covering)
                | (Step::Covering, Step::Settling)
                | (Step::Settling, Step::Sealing)
                | (Step::Sealing, Step::Retiring)
                | (Step::Retiring, Step::Asking)
        );
        assert!(is_next, "a move goes from {:?} to {step:?}", moving.step);
        (moving.step, moving.is_asked) = (step, false);
        moving.is_at_risk |= is_at_risk;
    }

    /// The step that is to be begun, if one is.
    fn next_step(&mut self) -> Option<Step> {
        let moving =
            self.moving.as_mut().filter(|moving| !moving.is_asked && moving.step != Step::Waiting)?;
        moving.is_asked = true;
        Some(moving.step)
    }

    /// Zone that what is alive goes to.
    fn target(&self) -> u32 {
        1 - self.moving.as_ref().expect("a move at work").from
    }

    /// The other zone is empty: records go there, with numbers that no entry was promised.
    fn enter_target(&mut self) -> (u32, u64) {
        let current = self.target();
        let promised = u64::try_from(self.pending().len() / RECORD_ENTRIES).expect("few records");
        let base = self.position.next + promised + 1;
        self.position = Position { current, base, next: base, spare: Spare::Stale };
        self.moving.as_mut().expect("a move at work").first = base;
        (current, base)
    }

    /// A record of the move is written.
    pub(super) fn note_carried(&mut self) {
        let step = self.moving.as_ref().expect("a move at work").step;
        match step {
            Step::Carrying if self.pending().is_empty() => self.set_step(Step::Covering),
            Step::Carrying => {}
            Step::Settling => self.set_step(Step::Sealing),
            _ => unreachable!("a record is written at {step:?}"),
        }
    }

    /// The broken zone is empty, or dead: the journal goes on.
    fn end_move(&mut self, spare: Spare) {
        let moving = self.moving.take().expect("a move at work");
        self.position.spare = spare;
        self.restart(moving.first);
    }
}

impl<D: ZonedDevice> InbandCore<D> {
    /// Hands all that is alive to the journal, under a stamp of its own as an opening does.
    fn carry(&mut self) {
        let media = &mut self.media;
        media.stamp += 1;
        media.opening = media.stamp;
        let journal = &mut media.journal;
        journal.pending().clear();
        for life in media.lives.values_mut() {
            life.rebase(|entry| journal.push(entry));
        }
        // Whoever waits for a record that was not begun waits for the move.
        let moved = journal.moving.as_ref().map(|moving| moving.first);
        for writing in media.lives.values().flat_map(|life| &life.writes) {
            if let Work::Write(write) = &mut self.tasks.get_mut(writing.slot).work {
                write.record = write.record.or(moved);
            }
        }
        for (zone, reset) in &mut media.resets {
            reset.record = journal.push(Entry::Mark { zone: *zone, durable: 0, stamp: reset.stamp });
        }
        let records = u64::try_from(journal.pending().len().div_ceil(RECORD_ENTRIES)).expect("few records");
        if records >= journal.zone_records() / 2 {
            journal.give_up();
        } else if records == 0 {
            journal.note_carried();
        }
    }
}

impl<D: ZonedDevice> InbandDrive<D> {
    /// True while the journal moves from a zone that broke to the other.
    #[must_use]
    pub fn is_moving_journal(&self) -> bool {
        self.core.media.journal.moving.is_some()
    }

    /// True while the journal moves to a zone that had what is needed.
    #[must_use]
    pub fn is_journal_at_risk(&self) -> bool {
        self.core.media.journal.moving.is_some_and(|moving| moving.is_at_risk)
    }

    /// Zone of the device in which the journal is written.
    #[must_use]
    pub fn journal_zone(&self) -> u32 {
        self.core.media.journal.current().0
    }

    /// Records that the journal's zone has room for.
    #[must_use]
    pub fn journal_left(&self) -> u64 {
        let journal = &self.core.media.journal;
        journal.position.base + journal.zone_records() - journal.position.next
    }

    /// Begins the next steps of a move, if one is at work.
    pub(super) fn move_journal(&mut self, now: Instant) {
        while !self.core.media.journal.has_failed()
            && let Some(step) = self.core.media.journal.next_step()
        {
            let target = ZoneIndex(self.core.media.journal.target());
            match step {
                Step::Waiting => unreachable!("a move that waits has nothing to begin"),
                Step::Flushing | Step::Covering | Step::Sealing => {
                    if self.core.geometry.volatile_cache {
                        self.core.media.carried = Some(self.core.media.what_is_completed());
                        self.core.ask(now, Waiter::Move, ZoneIndex(0), Op::Flush);
                    } else {
                        self.take_move(now, Status::Success, &[]);
                    }
                }
                Step::Resetting => self.core.ask(now, Waiter::Move, target, Op::Reset),
                Step::Heading => {
                    let (zone, base) = self.core.media.journal.enter_target();
                    let mut frame = self.core.frame();
                    frame.data = Header { label: self.core.label, base }.encode();
                    let op = Op::Write { offset: 0, frames: vec![frame] };
                    self.core.ask(now, Waiter::Move, ZoneIndex(zone), op);
                }
                Step::Carrying => self.core.carry(),
                // By the journal's next record.
                Step::Settling => {}
                Step::Retiring => self.core.ask(now, Waiter::Move, ZoneIndex(1 - target.0), Op::Reset),
                Step::Asking => {
                    self.core.ask(now, Waiter::Move, ZoneIndex(1 - target.0), Op::Report { count: 1 });
                }
            }
        }
    }

    /// A step of a move is through, or failed.
    pub(super) fn take_move(&mut self, now: Instant, status: Status, report: &[ZoneDescriptor]) {
        let journal = &mut self.core.media.journal;
        let Some(step) = journal.moving.as_ref().map(|moving| moving.step) else { return };
        match (step, status) {
            (Step::Flushing, Status::Success) => {
                if let Some(durable) = self.core.media.carried.take() {
                    self.core.take_durable(durable);
                }
                self.core.media.journal.set_step(Step::Resetting);
            }
            (Step::Resetting, Status::Success) => journal.set_step(Step::Heading),
            (Step::Heading, Status::Success) => journal.set_step(Step::Carrying),
            (Step::Heading, _) => journal.begin_move(),
            (Step::Covering, Status::Success) => journal.set_step(Step::Settling),
            (Step::Sealing, Status::Success) => journal.set_step(Step::Retiring),
            (Step::Retiring, Status::Success) => {
                journal.end_move(Spare::Resetting);
                self.core.head_spare(now);
            }
            (Step::Retiring, _) => journal.set_step(Step::Asking),
            (Step::Asking, _) => {
                let state = report.first().map(|descriptor| descriptor.state);
                match state {
                    Some(ZoneState::ReadOnly | ZoneState::Offline) => journal.end_move(Spare::Dead),
                    _ => journal.give_up(),
                }
            }
            _ => journal.give_up(),
        }
        let journal = &self.core.media.journal;
        if journal.moving.is_none() || journal.has_failed() {
            self.after_write(now);
        }
    }
}
