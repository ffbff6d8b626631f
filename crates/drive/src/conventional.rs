//! A conventional drive as a zoned one: an SSD, a partition, a logical volume or a raw file, cut into zones.
//!
//! ```text
//!   host: write, append ──> gate of the zone ──> data, and the identities of units that get full ──> device
//!                                          └───> identities of the others ──> journal ─────────────> device
//!         answered, in the order of the zone, when both are written
//!
//!         read ──> data ──> device;  identities from the zone's life, the cache, or beside the data
//!         reset ─> zone table, durable ──> answered ──> discard, before the zone is written again
//! ```
//! The device knows blocks of 4 KiB and nothing else: the 64 bytes of metadata that a zoned drive keeps with every block are its
//! *identity* and lie behind each 59 blocks (`layout`, `identity`). Until those are full the identities are in the
//! journal (`journal`). What a zone is and since when, the zone table says (`table`).
//!
//! After a crash a zone holds what was written up to some block, and nothing behind it, as zoned drives promise
//! (`recovery`): blocks that were answered, or flushed where the device has a volatile cache, are there. Torn blocks
//! are told by checksums; nothing depends on 4 KiB being written all or none.
//!
//! *Stamps* tell lives apart: each opening of the drive and each reset takes a new one, and what has the stamp of
//! another life of the zone is not believed, whatever it looks like.

pub mod device;
mod gate;
pub mod journal;
pub mod label;
pub mod layout;
mod manage;
mod open;
mod read;
mod recovery;
pub mod table;
#[cfg(test)]
mod tests;
mod write;

pub use open::{Options, format, open};
pub use recovery::{FileSource, Found, FoundZone, OpenError, Source, look};

use crate::answer::{Asked, frames_of, status_of};
use crate::units::identities::Identities;
use crate::units::life::Life;
use crate::units::turn::{Gates, is_in_turn};
use ::block::device::{self as block_device, BlockDevice};
use base::frame::Frame;
use base::slab::Slab;
use base::time::Instant;
use base::units::ZoneIndex;
use journal::Journal;
use label::Label;
use layout::sector_of;
use std::collections::{BTreeMap, BTreeSet};
use table::Table;
use zone::condition::{Condition, Outstanding};
use zone::device::{Command, Completion, Geometry, Op, Status, ZonedDevice};
use zone::rules::ZoneTable;

/// Waiter for a command of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiter {
    /// Data of a command of the host.
    Data(u32),
    /// Identities that a read needs, of a unit.
    Identity { slot: u32, unit: u32 },
    /// A record of the journal.
    Record,
    /// A page of the zone table.
    Page(u32),
    /// Discard of a zone that was reset.
    Discard(ZoneIndex),
    /// Flush that nobody but the drive itself wants.
    Flush,
}

/// Work on a command of the host.
#[derive(Debug)]
enum Work {
    Read(read::Read),
    Write(write::Write),
    Reset,
    Finish(manage::Finish),
    Flush(Option<Durable>),
    SelfTest(manage::SelfTest),
}

/// A command of the host that is not answered.
#[derive(Debug)]
struct Task {
    asked: Asked,
    since: Instant,
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
pub struct ConventionalDrive<D> {
    device: D,
    label: Label,
    geometry: Geometry,
    /// Zones are discarded when they were reset.
    discards: bool,
    rules: ZoneTable,
    media: Media,
    gates: Gates,
    /// Zones whose next write waits until fewer zones may be in use, or for room in the journal.
    waiting_for_place: BTreeSet<ZoneIndex>,
    tasks: Slab<Task>,
    waiters: Slab<Waiter>,
    done: Vec<Completion>,
    /// Kept for their memory.
    spare: Vec<Frame>,
    answers: Vec<block_device::Completion>,
    /// Nothing was looked at since the drive was opened.
    is_new: bool,
    is_gone: bool,
}

/// What lies on the media beside data.
#[derive(Debug)]
struct Media {
    table: Table,
    journal: Journal,
    lives: BTreeMap<ZoneIndex, Life>,
    identities: Identities,
    /// Changes of the table that are on their way.
    changes: Vec<(table::Change, manage::Changing)>,
    /// Highest stamp in use, and the first of this opening.
    stamp: u64,
    opening: u64,
    /// Of the drive's own flush in flight: what it makes durable.
    flush: Option<Durable>,
    /// Something was written since the last flush was begun.
    is_unflushed: bool,
    /// A flush of the drive's own, or a change of the table, failed.
    has_failed: bool,
}

impl Media {
    fn what_is_completed(&self) -> Durable {
        let zones = self.lives.values().map(|life| (life.zone, life.stamp, life.completed())).collect();
        Durable { zones, record: self.journal.completed() }
    }

    /// Something could not be written: zones may stay in use for good.
    fn has_failed(&self) -> bool {
        self.has_failed || self.journal.has_failed() || self.lives.values().any(|life| life.has_failed)
    }

    fn oldest_record(&self) -> Option<u64> {
        self.lives.values().map(Life::oldest_record).min()
    }
}

impl<D: BlockDevice> ConventionalDrive<D> {
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

    /// From now on zones are discarded when they were reset, or are not.
    pub fn set_discards(&mut self, discards: bool) {
        self.discards = discards;
    }

    /// Asks the device.
    fn ask(&mut self, now: Instant, waiter: Waiter, op: block_device::Op) {
        let slot = self.waiters.insert(waiter);
        let token = block_device::Token(u64::from(slot));
        self.device.submit(now, block_device::Command { token, op });
    }

    fn read_place(&mut self, now: Instant, waiter: Waiter, place: u64, frames: Vec<Frame>) {
        self.ask(now, waiter, block_device::Op::Read { sector: sector_of(place), frames });
    }

    fn write_place(&mut self, now: Instant, waiter: Waiter, place: u64, frames: Vec<Frame>, durable: bool) {
        self.ask(now, waiter, block_device::Op::Write { sector: sector_of(place), frames, durable });
    }

    fn frame(&mut self) -> Frame {
        self.spare.pop().unwrap_or_else(Frame::zeroed)
    }

    fn begin_task(&mut self, now: Instant, asked: Asked, work: Work) -> u32 {
        self.tasks.insert(Task { asked, since: now, work })
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
            Op::SelfTest { repair } => self.begin_self_test(now, asked, repair),
            Op::Report { count } => {
                let report = self.rules.report(asked.zone, count);
                self.done.push(asked.report(report));
            }
            Op::FindTurned { count } => {
                let found = self.rules.find_turned(asked.zone, count);
                self.done.push(asked.found(found));
            }
            Op::Open => self.obey(asked, |rules| rules.open(asked.zone)),
            Op::Close => self.obey(asked, |rules| rules.close(asked.zone)),
            Op::OpenWithArea => self.obey(asked, |rules| rules.open_with_area(asked.zone)),
            Op::Commit { end } => self.obey(asked, |rules| rules.commit(asked.zone, end)),
        }
    }

    /// Carries out a command that moves no data.
    fn obey(&mut self, asked: Asked, change: impl FnOnce(&mut ZoneTable) -> Result<(), Status>) {
        let outcome = change(&mut self.rules);
        self.done.push(asked.plain(outcome));
    }

    fn begin_flush(&mut self, now: Instant, asked: Asked) {
        if !self.geometry.volatile_cache {
            return self.done.push(asked.plain(Ok(())));
        }
        let durable = self.media.what_is_completed();
        let slot = self.begin_task(now, asked, Work::Flush(Some(durable)));
        self.ask(now, Waiter::Data(slot), block_device::Op::Flush);
    }

    fn take_answer(&mut self, now: Instant, answer: block_device::Completion) {
        let slot = u32::try_from(answer.token.0).expect("tokens are slots");
        let status = status_of(answer.status);
        let mut frames = answer.frames;
        match self.waiters.remove(slot) {
            Waiter::Data(slot) => self.take_data(now, slot, status, frames),
            Waiter::Identity { slot, unit } => {
                self.take_identity(slot, unit, status, &frames);
                self.spare.append(&mut frames);
            }
            Waiter::Record => {
                self.media.journal.end(status == Status::Success);
                self.media.is_unflushed = true;
                self.spare.append(&mut frames);
                self.after_write(now);
            }
            Waiter::Page(page) => {
                self.media.table.end_write(page, status == Status::Success);
                self.spare.append(&mut frames);
                self.after_page(now, page, status);
            }
            Waiter::Discard(zone) => self.open_gate(now, zone),
            Waiter::Flush => {
                let durable = self.media.flush.take().expect("a flush of the drive's own");
                self.media.has_failed |= status != Status::Success;
                if status == Status::Success {
                    self.take_durable(durable);
                    self.after_durable(now);
                }
            }
        }
    }

    fn take_data(&mut self, now: Instant, slot: u32, status: Status, frames: Vec<Frame>) {
        match &mut self.tasks.get_mut(slot).work {
            Work::Read(_) => self.take_read(slot, status, frames),
            Work::Write(_) => self.take_written(now, slot, status, frames),
            Work::Finish(_) => self.take_finish(now, slot, status, frames),
            Work::SelfTest(_) => self.take_self_test(now, slot, status, frames),
            Work::Flush(durable) => {
                let durable = durable.take().expect("a flush that is answered once");
                if status == Status::Success {
                    self.take_durable(durable);
                }
                self.answer(slot, if status == Status::Success { Ok(()) } else { Err(status) });
                self.after_durable(now);
            }
            Work::Reset => unreachable!("a reset writes no data"),
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
        for Task { asked, work, .. } in std::mem::take(&mut self.tasks).into_values() {
            self.done.push(asked.done(Err(Status::DeviceGone), work.into_frames()));
        }
        self.waiters = Slab::default();
    }
}

impl Work {
    fn into_frames(self) -> Vec<Frame> {
        match self {
            Work::Read(read) => read.into_frames(),
            Work::Write(write) => write.into_frames(),
            Work::Reset | Work::Finish(_) | Work::Flush(_) | Work::SelfTest(_) => Vec::new(),
        }
    }
}

impl<D: BlockDevice> ZonedDevice for ConventionalDrive<D> {
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
        self.write_journal(now);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
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
            self.write_journal(now);
        }
        self.spare.truncate(256);
        completions.append(&mut self.done);
    }

    fn next_event(&self) -> Option<Instant> {
        self.device.next_event()
    }

    fn condition(&mut self, now: Instant) -> Condition {
        let ::block::condition::Condition { loss, left_behind, waits_for_room_since, oldest } =
            self.device.condition(now);
        let zone =
            self.tasks.iter().min_by_key(|task| task.since).map_or(ZoneIndex(0), |task| task.asked.zone);
        let oldest = oldest.map(|since| Outstanding { zone, since });
        let identities = Some(self.media.identities.usage());
        Condition { loss, left_behind, waits_for_room_since, oldest, identities, ..Condition::default() }
    }

    fn abandon(&mut self) {
        if !std::mem::replace(&mut self.is_gone, true) {
            self.device.abandon();
            self.answer_all();
        }
    }
}
