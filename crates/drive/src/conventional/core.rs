//! Core of the drive: zones, what lies on the media, commands of the host and of the device that are under way.

use super::journal::Journal;
use super::label::Label;
use super::layout::sector_of;
use super::table::Table;
use super::{manage, read, table, write};
use crate::answer::Asked;
use crate::units::identities::Identities;
use crate::units::life::Life;
use crate::units::turn::Gates;
use ::block::device::{self as block_device, BlockDevice};
use base::frame::Frame;
use base::slab::Slab;
use base::time::Instant;
use base::units::ZoneIndex;
use std::collections::{BTreeMap, BTreeSet};
use zone::device::{Completion, Geometry, Status};
use zone::rules::ZoneTable;

/// Waiter for a command of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
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
pub(super) enum Work {
    Read(read::Read),
    Write(write::Write),
    Reset,
    Finish(manage::Finish),
    Flush(Option<Durable>),
    SelfTest(manage::SelfTest),
}

/// A command of the host that is not answered.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) asked: Asked,
    pub(super) since: Instant,
    pub(super) work: Work,
}

/// What is durable when a flush is through that begins now.
#[derive(Clone, Debug)]
pub(super) struct Durable {
    pub(super) zones: Vec<(ZoneIndex, u64, u32)>,
    pub(super) record: u64,
}

/// What the drive knows, and what is begun on the device: nothing here is called by what it answers.
#[derive(Debug)]
pub(super) struct ConventionalCore<D> {
    pub(super) device: D,
    pub(super) label: Label,
    pub(super) geometry: Geometry,
    /// Zones are discarded when they were reset.
    pub(super) discards: bool,
    pub(super) rules: ZoneTable,
    pub(super) media: Media,
    pub(super) gates: Gates,
    /// Zones whose next write waits until fewer zones may be in use, or for room in the journal.
    pub(super) waiting_for_place: BTreeSet<ZoneIndex>,
    pub(super) tasks: Slab<Task>,
    pub(super) waiters: Slab<Waiter>,
    pub(super) done: Vec<Completion>,
    /// Kept for their memory.
    pub(super) spare: Vec<Frame>,
}

/// What lies on the media beside data.
#[derive(Debug)]
pub(super) struct Media {
    pub(super) table: Table,
    pub(super) journal: Journal,
    pub(super) lives: BTreeMap<ZoneIndex, Life>,
    pub(super) identities: Identities,
    /// Changes of the table that are on their way.
    pub(super) changes: Vec<(table::Change, manage::Changing)>,
    /// Highest stamp in use, and the first of this opening.
    pub(super) stamp: u64,
    pub(super) opening: u64,
    /// Of the drive's own flush in flight: what it makes durable.
    pub(super) flush: Option<Durable>,
    /// Something was written since the last flush was begun.
    pub(super) is_unflushed: bool,
    /// A flush of the drive's own, or a change of the table, failed.
    pub(super) has_failed: bool,
}

impl Media {
    pub(super) fn what_is_completed(&self) -> Durable {
        let zones = self.lives.values().map(|life| (life.zone, life.stamp, life.completed())).collect();
        Durable { zones, record: self.journal.completed() }
    }

    /// Something could not be written: zones may stay in use for good.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed || self.journal.has_failed() || self.lives.values().any(|life| life.has_failed)
    }

    pub(super) fn oldest_record(&self) -> Option<u64> {
        self.lives.values().map(Life::oldest_record).min()
    }
}

impl<D> ConventionalCore<D> {
    /// The same on another device.
    pub(super) fn lay_on<E>(self, lay: impl FnOnce(D) -> E) -> ConventionalCore<E> {
        assert!(self.waiters.is_empty() && self.tasks.is_empty(), "a device changes while it is at work");
        ConventionalCore {
            device: lay(self.device),
            label: self.label,
            geometry: self.geometry,
            discards: self.discards,
            rules: self.rules,
            media: self.media,
            gates: self.gates,
            waiting_for_place: self.waiting_for_place,
            tasks: self.tasks,
            waiters: self.waiters,
            done: self.done,
            spare: self.spare,
        }
    }
}

impl<D: BlockDevice> ConventionalCore<D> {
    /// Asks the device.
    pub(super) fn ask(&mut self, now: Instant, waiter: Waiter, op: block_device::Op) {
        if let block_device::Op::Write { frames, .. } = &op {
            self.media.identities.count_device(frames.len());
        }
        let slot = self.waiters.insert(waiter);
        let token = block_device::Token(u64::from(slot));
        self.device.submit(now, block_device::Command { token, op });
    }

    pub(super) fn read_place(&mut self, now: Instant, waiter: Waiter, place: u64, frames: Vec<Frame>) {
        self.ask(now, waiter, block_device::Op::Read { sector: sector_of(place), frames });
    }

    pub(super) fn write_place(
        &mut self,
        now: Instant,
        waiter: Waiter,
        place: u64,
        frames: Vec<Frame>,
        durable: bool,
    ) {
        self.ask(now, waiter, block_device::Op::Write { sector: sector_of(place), frames, durable });
    }

    pub(super) fn frame(&mut self) -> Frame {
        self.spare.pop().unwrap_or_else(Frame::zeroed)
    }

    pub(super) fn begin_task(&mut self, now: Instant, asked: Asked, work: Work) -> u32 {
        self.tasks.insert(Task { asked, since: now, work })
    }

    /// Answers a command that has no frames.
    pub(super) fn answer(&mut self, slot: u32, outcome: Result<(), Status>) {
        let Task { asked, .. } = self.tasks.remove(slot);
        self.done.push(asked.plain(outcome));
    }

    /// Carries out a command that moves no data.
    pub(super) fn obey(&mut self, asked: Asked, change: impl FnOnce(&mut ZoneTable) -> Result<(), Status>) {
        let outcome = change(&mut self.rules);
        self.done.push(asked.plain(outcome));
    }

    pub(super) fn begin_flush(&mut self, now: Instant, asked: Asked) {
        if !self.geometry.volatile_cache {
            return self.done.push(asked.plain(Ok(())));
        }
        let durable = self.media.what_is_completed();
        let slot = self.begin_task(now, asked, Work::Flush(Some(durable)));
        self.ask(now, Waiter::Data(slot), block_device::Op::Flush);
    }

    /// A flush is through.
    pub(super) fn take_durable(&mut self, durable: Durable) {
        for (zone, stamp, completed) in durable.zones {
            if let Some(life) = self.media.lives.get_mut(&zone).filter(|life| life.stamp == stamp) {
                life.note_durable(completed);
            }
        }
        self.media.journal.note_durable(durable.record);
    }
}

impl Work {
    pub(super) fn into_frames(self) -> Vec<Frame> {
        match self {
            Work::Read(read) => read.into_frames(),
            Work::Write(write) => write.into_frames(),
            Work::Reset | Work::Finish(_) | Work::Flush(_) | Work::SelfTest(_) => Vec::new(),
        }
    }
}
