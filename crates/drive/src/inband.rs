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

mod gate;
pub mod header;
mod health;
pub mod journal;
pub mod layout;
mod manage;
pub mod moving;
mod open;
mod read;
mod recovery;
#[cfg(test)]
mod tests;
mod write;

pub use open::{format, open};
pub use recovery::{Found, FoundZone, OpenError, Source, find_label, look};

use crate::answer::{Asked, frames_of};
use crate::units::identities::Identities;
use crate::units::life::Life;
use crate::units::turn::{Gates, is_in_turn};
use base::frame::Frame;
use base::slab::Slab;
use base::time::Instant;
use base::units::ZoneIndex;
use header::Label;
use journal::Journal;
use std::collections::{BTreeMap, BTreeSet};
use write::Lane;
use zone::condition::Condition;
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZonedDevice};
use zone::rules::ZoneTable;

/// Waiter for a command of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiter {
    /// Data of a command of the host, but for writes.
    Data(u32),
    /// Writes of a zone.
    Lane(ZoneIndex),
    /// Identities that a read needs, of a unit.
    Identity { slot: u32, unit: u32 },
    /// Identities of the first unit of a zone that a read needs, for their stamp.
    Birth { slot: u32 },
    /// A record of the journal.
    Record,
    /// The spare zone of the journal, which is reset.
    SpareReset,
    /// Its header.
    SpareHeader,
    /// Flush that nobody but the drive itself wants.
    Flush,
    /// A step of the journal's move to its other zone.
    Move,
    /// State of a zone of which a command failed, and the reset or finish that is answered with it.
    State { zone: ZoneIndex, change: Option<(u32, Status)> },
    /// Search for zones that turned.
    Search { slot: u32 },
}

/// Work on a command of the host.
#[derive(Debug)]
enum Work {
    Read(read::Read),
    Write(write::Write),
    Reset,
    Finish(manage::Finish),
    Flush(Option<Durable>),
    SelfTest,
    /// Search for a zone that turned, among so many.
    Search(u32),
}

/// A command of the host that is not answered.
#[derive(Debug)]
struct Task {
    asked: Asked,
    work: Work,
}

/// What is durable when a flush is through that begins now.
#[derive(Clone, Debug)]
struct Durable {
    zones: Vec<(ZoneIndex, u64, u32)>,
    record: u64,
}

/// See the module.
#[derive(Debug)]
pub struct InbandDrive<D> {
    device: D,
    label: Label,
    geometry: Geometry,
    rules: ZoneTable,
    media: Media,
    /// Writes of zones, one at a time.
    lanes: BTreeMap<ZoneIndex, Lane>,
    gates: Gates,
    /// Zones whose next write waits until fewer zones may be in use, or for room in the journal.
    waiting_for_place: BTreeSet<ZoneIndex>,
    tasks: Slab<Task>,
    waiters: Slab<Waiter>,
    done: Vec<Completion>,
    /// Kept for their memory.
    spare: Vec<Frame>,
    answers: Vec<Completion>,
    /// Nothing was looked at since the drive was opened.
    is_new: bool,
    /// Since when something may have come that leaves with the end of the turn.
    held_since: Option<Instant>,
    is_gone: bool,
}

/// What lies on the media beside data.
#[derive(Debug)]
struct Media {
    journal: Journal,
    lives: BTreeMap<ZoneIndex, Life>,
    identities: Identities,
    /// Stamps before which identities are of earlier lives of a zone; `None` where that is not known yet.
    births: Vec<Option<u64>>,
    /// Zones that are reset when the marks that say so are durable.
    resets: BTreeMap<ZoneIndex, manage::Reset>,
    /// Highest stamp in use, and that of this opening.
    stamp: u64,
    opening: u64,
    /// Of the drive's own flush in flight: what it makes durable.
    flush: Option<Durable>,
    /// Of the flush of a move.
    carried: Option<Durable>,
    /// Something was written since the last flush was begun.
    is_unflushed: bool,
    /// A flush of the drive's own failed, or the device is gone.
    has_failed: bool,
    health: health::Health,
}

impl Media {
    fn what_is_completed(&self) -> Durable {
        let zones = self.lives.values().map(|life| (life.zone, life.stamp, life.completed())).collect();
        Durable { zones, record: self.journal.completed() }
    }

    /// Nothing becomes durable, or is recorded, any more.
    fn has_failed(&self) -> bool {
        self.has_failed || self.journal.has_failed()
    }

    fn oldest_record(&self) -> Option<u64> {
        let resets = self.resets.values().map(|reset| reset.record);
        self.lives.values().map(Life::oldest_record).chain(resets).min()
    }
}

impl<D: ZonedDevice> InbandDrive<D> {
    /// Identity of the drive.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.label.uuid
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device, for what is asked of it beside commands.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Asks the device, about one of its zones.
    fn ask(&mut self, now: Instant, waiter: Waiter, zone: ZoneIndex, op: Op) {
        let slot = self.waiters.insert(waiter);
        self.device.submit(now, Command { token: Token(u64::from(slot)), zone, op });
    }

    fn frame(&mut self) -> Frame {
        self.spare.pop().unwrap_or_else(Frame::zeroed)
    }

    fn begin_task(&mut self, asked: Asked, work: Work) -> u32 {
        self.tasks.insert(Task { asked, work })
    }

    /// Answers a command that has no frames.
    fn answer(&mut self, slot: u32, outcome: Result<(), Status>) {
        let Task { asked, .. } = self.tasks.remove(slot);
        self.done.push(asked.plain(outcome));
    }

    /// Begins a command, in its zone's turn.
    fn begin(&mut self, now: Instant, command: Command) {
        let asked = Asked::of(command.token, command.zone, &command.op);
        match command.op {
            Op::Read { offset, frames } => self.begin_read(now, asked, offset, frames),
            Op::Write { offset, frames } => self.begin_write(now, asked, Some(offset), frames),
            Op::Append { frames } => self.begin_write(now, asked, None, frames),
            Op::Reset => self.begin_reset(now, asked),
            Op::Finish => self.begin_finish(now, asked),
            Op::Flush => self.begin_flush(now, asked),
            Op::SelfTest { .. } => self.begin_self_test(now, asked),
            Op::Report { count } => {
                let report = self.rules.report(asked.zone, count);
                self.done.push(asked.report(report));
            }
            Op::FindTurned { count } => self.begin_search(now, asked, count),
            Op::Open => self.obey(asked, |rules| rules.open(asked.zone)),
            Op::Close => self.obey(asked, |rules| rules.close(asked.zone)),
            Op::OpenWithArea => self.obey(asked, |rules| rules.open_with_area(asked.zone)),
            Op::Commit { end } => self.obey(asked, |rules| rules.commit(asked.zone, end)),
        }
    }

    /// Carries out a command that the device does not hear of: it opens zones when they are written.
    fn obey(&mut self, asked: Asked, change: impl FnOnce(&mut ZoneTable) -> Result<(), Status>) {
        let outcome = change(&mut self.rules);
        self.done.push(asked.plain(outcome));
    }

    fn begin_flush(&mut self, now: Instant, asked: Asked) {
        if !self.geometry.volatile_cache {
            return self.done.push(asked.plain(Ok(())));
        }
        let durable = self.media.what_is_completed();
        let slot = self.begin_task(asked, Work::Flush(Some(durable)));
        self.ask(now, Waiter::Data(slot), ZoneIndex(0), Op::Flush);
    }

    fn take_answer(&mut self, now: Instant, answer: Completion) {
        let slot = u32::try_from(answer.token.0).expect("tokens are slots");
        let Completion { status, offset, mut frames, report, .. } = answer;
        let has_succeeded = status == Status::Success;
        match self.waiters.remove(slot) {
            Waiter::Data(slot) => self.take_data(now, slot, status, frames),
            Waiter::Lane(zone) => self.take_written(now, zone, status, frames),
            Waiter::Identity { slot, unit } => {
                self.take_identity(slot, unit, status, &frames);
                self.spare.append(&mut frames);
            }
            Waiter::Birth { slot } => {
                self.take_birth(now, slot, status, &frames);
                self.spare.append(&mut frames);
            }
            Waiter::Record => {
                if status == Status::DeviceGone {
                    self.media.journal.give_up();
                }
                self.media.journal.end(has_succeeded);
                self.media.is_unflushed = true;
                self.spare.append(&mut frames);
                self.after_write(now);
            }
            Waiter::SpareReset if has_succeeded => self.head_spare(now),
            Waiter::SpareHeader if has_succeeded => {
                self.spare.append(&mut frames);
                self.media.journal.end_turn();
                self.let_waiting_pass(now);
            }
            waiter @ (Waiter::SpareReset | Waiter::SpareHeader) => {
                self.spare.append(&mut frames);
                if status == Status::DeviceGone {
                    self.media.journal.give_up();
                }
                self.media.journal.lose_turn(waiter == Waiter::SpareHeader);
                self.after_write(now);
            }
            Waiter::Move => {
                self.spare.append(&mut frames);
                self.take_move(now, status, &report);
            }
            Waiter::State { zone, change } => self.take_state(now, zone, change, &report),
            Waiter::Search { slot } => self.take_search(now, slot, status, offset, &report),
            Waiter::Flush => {
                let durable = self.media.flush.take().expect("a flush of the drive's own");
                if has_succeeded {
                    self.take_durable(durable);
                    self.after_durable(now);
                } else {
                    self.media.has_failed = true;
                    self.fail_resets(now);
                }
            }
        }
    }

    /// Gives the spare zone of the journal its header.
    fn head_spare(&mut self, now: Instant) {
        let (zone, base) = self.media.journal.head();
        let mut frame = self.frame();
        frame.data = header::Header { label: self.label, base }.encode();
        let op = Op::Write { offset: 0, frames: vec![frame] };
        self.ask(now, Waiter::SpareHeader, ZoneIndex(zone), op);
    }

    fn take_data(&mut self, now: Instant, slot: u32, status: Status, mut frames: Vec<Frame>) {
        let outcome = if status == Status::Success { Ok(()) } else { Err(status) };
        match &mut self.tasks.get_mut(slot).work {
            Work::Read(_) => self.take_read(slot, status, frames),
            Work::Write(_) | Work::Search(_) => unreachable!("writes and searches are answered elsewhere"),
            Work::Finish(_) => self.take_finish(now, slot, status, frames),
            Work::Reset => self.take_reset(now, slot, outcome),
            Work::SelfTest => {
                let header = frames.first().map(|frame| header::Header::decode(&frame.data));
                let is_good =
                    matches!(header, Some(Ok(header)) if header.label == self.label) && outcome.is_ok();
                self.spare.append(&mut frames);
                self.answer(slot, if is_good { Ok(()) } else { Err(Status::InternalError) });
            }
            Work::Flush(durable) => {
                let durable = durable.take().expect("a flush that is answered once");
                if outcome.is_ok() {
                    self.take_durable(durable);
                }
                self.answer(slot, outcome);
                self.after_durable(now);
            }
        }
    }

    /// A flush is through.
    fn take_durable(&mut self, durable: Durable) {
        for (zone, stamp, completed) in durable.zones {
            if let Some(life) = self.media.lives.get_mut(&zone).filter(|life| life.stamp == stamp) {
                life.note_durable(completed);
            }
        }
        self.media.journal.note_durable(durable.record);
    }

    /// The drive is gone: nothing waits any more.
    fn answer_all(&mut self) {
        for command in std::mem::take(&mut self.gates).into_waiting() {
            let asked = Asked::of(command.token, command.zone, &command.op);
            self.done.push(asked.done(Err(Status::DeviceGone), frames_of(command.op)));
        }
        for Task { asked, work } in std::mem::take(&mut self.tasks).into_values() {
            self.done.push(asked.done(Err(Status::DeviceGone), work.into_frames()));
        }
        self.waiters = Slab::default();
        self.lanes.clear();
        self.held_since = None;
    }
}

impl Work {
    fn into_frames(self) -> Vec<Frame> {
        match self {
            Work::Read(read) => read.into_frames(),
            Work::Write(write) => write.into_frames(),
            Work::Reset | Work::Finish(_) | Work::Flush(_) | Work::SelfTest | Work::Search(_) => Vec::new(),
        }
    }
}

impl<D: ZonedDevice> ZonedDevice for InbandDrive<D> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Instant, command: Command) {
        if self.is_gone {
            let asked = Asked::of(command.token, command.zone, &command.op);
            return self.done.push(asked.done(Err(Status::DeviceGone), frames_of(command.op)));
        }
        match is_in_turn(&command.op) {
            true => self.pass_gate(now, command),
            false => self.begin(now, command),
        }
        self.hold(now);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        if !self.is_gone && self.held_since.is_some() {
            self.end_turn(now);
        }
        let mut answers = std::mem::take(&mut self.answers);
        self.device.poll(now, &mut answers);
        for answer in answers.drain(..) {
            if self.is_gone {
                self.spare.append(&mut { answer.frames });
            } else {
                self.take_answer(now, answer);
            }
        }
        self.answers = answers;
        if !self.is_gone {
            if std::mem::take(&mut self.is_new) {
                self.after_durable(now);
            }
            if !self.waiting_for_place.is_empty() {
                self.let_waiting_pass(now);
            }
            // Whoever is answered may have more, which leaves together with what waits.
            if self.done.is_empty() { self.end_turn(now) } else { self.hold(now) }
        }
        self.spare.truncate(256);
        completions.append(&mut self.done);
    }

    fn next_event(&self) -> Option<Instant> {
        self.held_since.or_else(|| self.device.next_event())
    }

    fn condition(&mut self, now: Instant) -> Condition {
        let identities = Some(self.media.identities.usage());
        Condition { identities, ..self.device.condition(now) }
    }

    fn abandon(&mut self) {
        if !std::mem::replace(&mut self.is_gone, true) {
            self.device.abandon();
            self.answer_all();
        }
    }

    fn outlive_hiccups(&mut self, outlives: bool) {
        self.device.outlive_hiccups(outlives);
    }

    fn is_stalled(&self) -> bool {
        self.device.is_stalled()
    }
}
