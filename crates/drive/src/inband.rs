//! A drive with zones and without metadata as one with 64 bytes of metadata for each block: their identities lie in the zones.
//!
//! ```text
//!   host: write, append ──> gate of the zone ──> lane: one write at a time ──> data, identities of units that get full ──> device
//!                                          └───> identities of the others ──> journal: two zones in turn ──> device
//!         answered, in the order of the zone, when its identities are written in either place; what comes in a turn leaves together
//!
//!         read ──> data ──> device;  identities from the zone's life, the cache, or beside the data
//!         reset ─> mark in the journal, durable ──> device ──> answered
//! ```
//! The device is a zoned one, too: that it keeps no metadata is all that is different. What lies below a write pointer is of the zone's
//! present life, so the pointer is the device's, and no table of zones is needed. The 64 bytes of metadata of a block are its
//! *identity*: that of each 59 blocks lies behind them (`layout`); until those are full it is in the journal (`journal`).
//!
//! After a crash a zone holds what was written up to some block with metadata, as much as was answered, or flushed where the device has
//! a volatile cache. Behind that, up to the device's write pointer, there may be blocks that were never answered: they have no
//! metadata (zeros), which the engine knows as torn (`recovery`).

mod core;
mod gate;
pub mod header;
mod health;
mod joined;
pub mod journal;
pub mod layout;
mod manage;
pub mod moving;
mod open;
pub mod pair;
mod read;
mod recovery;
pub mod seal;
pub mod table;
#[cfg(test)]
pub(crate) mod tests;
mod write;

pub use joined::Joined;
pub use open::{Elsewhere, format, format_elsewhere, layout_elsewhere, open};
pub use recovery::{Found, FoundZone, Hex, OpenError, Source, find_journal_path, find_label, look};

use self::core::{InbandCore, Task, Waiter, Work};
use crate::answer::{Asked, frames_of};
use crate::units::turn::is_in_turn;
use base::frame::Frame;
use base::slab::Slab;
use base::time::Instant;
use zone::condition::Condition;
use zone::device::{Command, Completion, Geometry, Status, ZonedDevice};

/// See the module.
#[derive(Debug)]
pub struct InbandDrive<D> {
    core: InbandCore<D>,
    answers: Vec<Completion>,
    /// Nothing was looked at since the drive was opened.
    is_new: bool,
    is_gone: bool,
}

impl<D: ZonedDevice> InbandDrive<D> {
    /// Identity of the drive.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.core.label.uuid
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.core.device
    }

    /// The same drive, whose device is below another one from now on. Nothing is under way.
    #[must_use]
    pub fn lay_on<E: ZonedDevice>(self, lay: impl FnOnce(D) -> E) -> InbandDrive<E> {
        let InbandDrive { core, answers, is_new, is_gone } = self;
        InbandDrive { core: core.lay_on(lay), answers, is_new, is_gone }
    }

    /// The device, for what is asked of it beside commands.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.core.device
    }

    fn take_answer(&mut self, now: Instant, answer: Completion) {
        let slot = u32::try_from(answer.token.0).expect("tokens are slots");
        let Completion { status, offset, mut frames, report, .. } = answer;
        let has_succeeded = status == Status::Success;
        match self.core.waiters.remove(slot) {
            Waiter::Data(slot) => self.take_data(now, slot, status, frames),
            Waiter::Lane(zone) => self.take_written(now, zone, status, frames),
            Waiter::Identity { slot, unit } => {
                self.core.take_identity(slot, unit, status, &frames);
                self.core.spare.append(&mut frames);
            }
            Waiter::Birth { slot } => {
                self.core.take_birth(now, slot, status, &frames);
                self.core.spare.append(&mut frames);
            }
            Waiter::Record => {
                if status == Status::DeviceGone {
                    self.core.media.journal.give_up();
                }
                self.core.media.journal.end(has_succeeded);
                self.core.media.is_unflushed = true;
                self.core.spare.append(&mut frames);
                self.after_write(now);
            }
            Waiter::SpareReset if has_succeeded => self.core.head_spare(now),
            Waiter::SpareHeader if has_succeeded => {
                self.core.spare.append(&mut frames);
                self.core.media.journal.end_turn();
                self.let_waiting_pass(now);
            }
            waiter @ (Waiter::SpareReset | Waiter::SpareHeader) => {
                self.core.spare.append(&mut frames);
                if status == Status::DeviceGone {
                    self.core.media.journal.give_up();
                }
                self.core.media.journal.lose_turn(waiter == Waiter::SpareHeader);
                self.after_write(now);
            }
            Waiter::Move => {
                self.core.spare.append(&mut frames);
                self.take_move(now, status, &report);
            }
            Waiter::State { zone, change } => self.take_state(now, zone, change, &report),
            Waiter::Search { slot } => self.take_search(now, slot, status, offset, &report),
            Waiter::Flush => {
                let durable = self.core.media.flush.take().expect("a flush of the drive's own");
                if has_succeeded {
                    self.core.take_durable(durable);
                    self.after_durable(now);
                } else {
                    self.core.media.has_failed = true;
                    self.fail_resets(now);
                }
            }
        }
    }

    fn take_data(&mut self, now: Instant, slot: u32, status: Status, mut frames: Vec<Frame>) {
        let outcome = if status == Status::Success { Ok(()) } else { Err(status) };
        match &mut self.core.tasks.get_mut(slot).work {
            Work::Read(_) => self.core.take_read(slot, status, frames),
            Work::Write(_) | Work::Search(_) => unreachable!("writes and searches are answered elsewhere"),
            Work::Finish(_) => self.take_finish(now, slot, status, frames),
            Work::Reset => self.take_reset(now, slot, outcome),
            // The journal is the drive's alone: it is asked again, which waits for it.
            Work::SelfTest if status == Status::Stalled => {
                self.core.spare.append(&mut frames);
                self.core.look_at_header(now, slot);
            }
            Work::SelfTest => {
                let header = frames.first().map(|frame| header::Header::decode(&frame.data));
                let is_good =
                    matches!(header, Some(Ok(header)) if header.label == self.core.label) && outcome.is_ok();
                self.core.spare.append(&mut frames);
                self.core.answer(slot, if is_good { Ok(()) } else { Err(Status::InternalError) });
            }
            Work::Flush(durable) => {
                let durable = durable.take().expect("a flush that is answered once");
                if outcome.is_ok() {
                    self.core.take_durable(durable);
                }
                self.core.answer(slot, outcome);
                self.after_durable(now);
            }
        }
    }

    /// The drive is gone: nothing waits any more.
    fn answer_all(&mut self) {
        for command in std::mem::take(&mut self.core.gates).into_waiting() {
            let asked = Asked::of(command.token, command.zone, &command.op);
            self.core.done.push(asked.done(Err(Status::DeviceGone), frames_of(command.op)));
        }
        for Task { asked, work } in std::mem::take(&mut self.core.tasks).into_values() {
            self.core.done.push(asked.done(Err(Status::DeviceGone), work.into_frames()));
        }
        self.core.waiters = Slab::default();
        self.core.lanes.clear();
        self.core.held_since = None;
    }
}

impl<D: ZonedDevice> ZonedDevice for InbandDrive<D> {
    fn geometry(&self) -> &Geometry {
        &self.core.geometry
    }

    fn submit(&mut self, now: Instant, command: Command) {
        if self.is_gone {
            let asked = Asked::of(command.token, command.zone, &command.op);
            return self.core.done.push(asked.done(Err(Status::DeviceGone), frames_of(command.op)));
        }
        match is_in_turn(&command.op) {
            true => self.pass_gate(now, command),
            false => self.begin(now, command),
        }
        self.core.hold(now);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        if !self.is_gone && self.core.held_since.is_some() {
            self.end_turn(now);
        }
        let mut answers = std::mem::take(&mut self.answers);
        self.core.device.poll(now, &mut answers);
        for answer in answers.drain(..) {
            if self.is_gone {
                self.core.spare.append(&mut { answer.frames });
            } else {
                self.take_answer(now, answer);
            }
        }
        self.answers = answers;
        if !self.is_gone {
            if std::mem::take(&mut self.is_new) {
                self.after_durable(now);
            }
            if !self.core.waiting_for_place.is_empty() {
                self.let_waiting_pass(now);
            }
            // Whoever is answered may have more, which leaves together with what waits.
            if self.core.done.is_empty() { self.end_turn(now) } else { self.core.hold(now) }
        }
        self.core.spare.truncate(256);
        completions.append(&mut self.core.done);
    }

    fn next_event(&self) -> Option<Instant> {
        self.core.held_since.or_else(|| self.core.device.next_event())
    }

    fn condition(&mut self, now: Instant) -> Condition {
        let identities = Some(self.core.media.identities.usage());
        Condition { identities, ..self.core.device.condition(now) }
    }

    fn abandon(&mut self) {
        if !std::mem::replace(&mut self.is_gone, true) {
            self.core.device.abandon();
            self.answer_all();
        }
    }

    fn outlive_hiccups(&mut self, outlives: bool) {
        self.core.device.outlive_hiccups(outlives);
    }

    fn is_stalled(&self) -> bool {
        self.core.device.is_stalled()
    }
}
