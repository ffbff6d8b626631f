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

mod core;
pub mod device;
mod gate;
pub mod journal;
pub mod label;
pub mod layout;
mod manage;
mod open;
pub mod patient;
mod read;
mod recovery;
pub mod table;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use open::Direct;
pub use open::{CarryOut, Options, format, open};
pub use recovery::{FileSource, Found, FoundZone, OpenError, Source, look};

use self::core::{ConventionalCore, Task, Waiter, Work};
use crate::answer::{Asked, frames_of, status_of};
use crate::units::turn::is_in_turn;
use ::block::device::{self as block_device, BlockDevice};
use base::frame::Frame;
use base::slab::Slab;
use base::time::Instant;
use base::units::ZoneIndex;
use zone::condition::{Condition, Outstanding};
use zone::device::{Command, Completion, Geometry, Status, ZonedDevice};

/// See the module.
#[derive(Debug)]
pub struct ConventionalDrive<D> {
    core: ConventionalCore<D>,
    answers: Vec<block_device::Completion>,
    /// Nothing was looked at since the drive was opened.
    is_new: bool,
    is_gone: bool,
}

impl<D: BlockDevice> ConventionalDrive<D> {
    /// Identity of the drive.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.core.label.uuid
    }

    /// Stamp of this opening: another one has a higher stamp.
    #[must_use]
    pub fn opening(&self) -> u64 {
        self.core.media.opening
    }

    /// The same drive on a device that is laid on its own, before anything is asked of it.
    #[must_use]
    pub fn lay_on<E: BlockDevice>(self, lay: impl FnOnce(D) -> E) -> ConventionalDrive<E> {
        let ConventionalDrive { core, answers, is_new, is_gone } = self;
        ConventionalDrive { core: core.lay_on(lay), answers, is_new, is_gone }
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.core.device
    }

    /// The device, for what is asked of it beside commands.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.core.device
    }

    /// From now on zones are discarded when they were reset, or are not.
    pub fn set_discards(&mut self, discards: bool) {
        self.core.discards = discards;
    }

    fn take_answer(&mut self, now: Instant, answer: block_device::Completion) {
        let slot = u32::try_from(answer.token.0).expect("tokens are slots");
        let status = status_of(answer.status);
        let mut frames = answer.frames;
        match self.core.waiters.remove(slot) {
            Waiter::Data(slot) => self.take_data(now, slot, status, frames),
            Waiter::Identity { slot, unit } => {
                self.core.take_identity(slot, unit, status, &frames);
                self.core.spare.append(&mut frames);
            }
            Waiter::Record => {
                self.core.media.journal.end(status == Status::Success);
                self.core.media.is_unflushed = true;
                self.core.spare.append(&mut frames);
                self.after_write(now);
            }
            Waiter::Page(page) => {
                self.core.media.table.end_write(page, status == Status::Success);
                self.core.spare.append(&mut frames);
                self.after_page(now, page, status);
            }
            Waiter::Discard(zone) => self.open_gate(now, zone),
            Waiter::Flush => {
                let durable = self.core.media.flush.take().expect("a flush of the drive's own");
                self.core.media.has_failed |= status != Status::Success;
                if status == Status::Success {
                    self.core.take_durable(durable);
                    self.core.after_durable(now);
                }
            }
        }
    }

    fn take_data(&mut self, now: Instant, slot: u32, status: Status, frames: Vec<Frame>) {
        match &mut self.core.tasks.get_mut(slot).work {
            Work::Read(_) => self.core.take_read(slot, status, frames),
            Work::Write(_) => self.take_written(now, slot, status, frames),
            Work::Finish(_) => self.take_finish(now, slot, status, frames),
            Work::SelfTest(_) => self.core.take_self_test(now, slot, status, frames),
            Work::Flush(durable) => {
                let durable = durable.take().expect("a flush that is answered once");
                if status == Status::Success {
                    self.core.take_durable(durable);
                }
                self.core.answer(slot, if status == Status::Success { Ok(()) } else { Err(status) });
                self.core.after_durable(now);
            }
            Work::Reset => unreachable!("a reset writes no data"),
        }
    }

    /// The drive is gone: nothing waits any more.
    fn answer_all(&mut self) {
        for command in std::mem::take(&mut self.core.gates).into_waiting() {
            let asked = Asked::of(command.token, command.zone, &command.op);
            self.core.done.push(asked.done(Err(Status::DeviceGone), frames_of(command.op)));
        }
        for Task { asked, work, .. } in std::mem::take(&mut self.core.tasks).into_values() {
            self.core.done.push(asked.done(Err(Status::DeviceGone), work.into_frames()));
        }
        self.core.waiters = Slab::default();
    }
}

impl<D: BlockDevice> ZonedDevice for ConventionalDrive<D> {
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
        self.write_journal(now);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
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
                self.core.after_durable(now);
            }
            if !self.core.waiting_for_place.is_empty() {
                self.let_waiting_pass(now);
            }
            self.write_journal(now);
        }
        self.core.spare.truncate(256);
        completions.append(&mut self.core.done);
    }

    fn next_event(&self) -> Option<Instant> {
        self.core.device.next_event()
    }

    fn condition(&mut self, now: Instant) -> Condition {
        let ::block::condition::Condition { loss, left_behind, waits_for_room_since, oldest, hiccups, calls } =
            self.core.device.condition(now);
        let zone =
            self.core.tasks.iter().min_by_key(|task| task.since).map_or(ZoneIndex(0), |task| task.asked.zone);
        let oldest = oldest.map(|since| Outstanding { zone, since });
        let identities = Some(self.core.media.identities.usage());
        Condition {
            loss,
            left_behind,
            waits_for_room_since,
            oldest,
            hiccups,
            identities,
            calls,
            ..Condition::default()
        }
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
