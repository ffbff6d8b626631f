//! Core of the drive: zones, what lies on the media, commands of the host and of the device that are under way.

use super::header::Label;
use super::journal::Journal;
use super::write::Lane;
use super::{header, health, manage, read, write};
use crate::answer::Asked;
use crate::units::identities::Identities;
use crate::units::life::Life;
use crate::units::turn::Gates;
use base::frame::Frame;
use base::slab::Slab;
use base::time::Instant;
use base::units::ZoneIndex;
use std::collections::{BTreeMap, BTreeSet};
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZonedDevice};
use zone::rules::ZoneTable;

/// Waiter for a command of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
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
pub(super) enum Work {
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
pub(super) struct Task {
    pub(super) asked: Asked,
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
pub(super) struct InbandCore<D> {
    pub(super) device: D,
    pub(super) label: Label,
    pub(super) geometry: Geometry,
    pub(super) rules: ZoneTable,
    pub(super) media: Media,
    /// Writes of zones, one at a time.
    pub(super) lanes: BTreeMap<ZoneIndex, Lane>,
    pub(super) gates: Gates,
    /// Zones whose next write waits until fewer zones may be in use, or for room in the journal.
    pub(super) waiting_for_place: BTreeSet<ZoneIndex>,
    pub(super) tasks: Slab<Task>,
    pub(super) waiters: Slab<Waiter>,
    pub(super) done: Vec<Completion>,
    /// Kept for their memory.
    pub(super) spare: Vec<Frame>,
    /// Since when something may have come that leaves with the end of the turn.
    pub(super) held_since: Option<Instant>,
}

/// What lies on the media beside data.
#[derive(Debug)]
pub(super) struct Media {
    pub(super) journal: Journal,
    pub(super) lives: BTreeMap<ZoneIndex, Life>,
    pub(super) identities: Identities,
    /// Stamps before which identities are of earlier lives of a zone; `None` where that is not known yet.
    pub(super) births: Vec<Option<u64>>,
    /// Zones that are reset when the marks that say so are durable.
    pub(super) resets: BTreeMap<ZoneIndex, manage::Reset>,
    /// Highest stamp in use, and that of this opening.
    pub(super) stamp: u64,
    pub(super) opening: u64,
    /// Of the drive's own flush in flight: what it makes durable.
    pub(super) flush: Option<Durable>,
    /// Of the flush of a move.
    pub(super) carried: Option<Durable>,
    /// Something was written since the last flush was begun.
    pub(super) is_unflushed: bool,
    /// A flush of the drive's own failed, or the device is gone.
    pub(super) has_failed: bool,
    pub(super) health: health::Health,
}

impl Media {
    pub(super) fn what_is_completed(&self) -> Durable {
        let zones = self.lives.values().map(|life| (life.zone, life.stamp, life.completed())).collect();
        Durable { zones, record: self.journal.completed() }
    }

    /// Nothing becomes durable, or is recorded, any more.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed || self.journal.has_failed()
    }

    pub(super) fn oldest_record(&self) -> Option<u64> {
        let resets = self.resets.values().map(|reset| reset.record);
        self.lives.values().map(Life::oldest_record).chain(resets).min()
    }
}

impl<D> InbandCore<D> {
    /// The same with another device.
    pub(super) fn lay_on<E>(self, lay: impl FnOnce(D) -> E) -> InbandCore<E> {
        assert!(self.waiters.is_empty() && self.tasks.is_empty(), "a device changes while it is at work");
        InbandCore {
            device: lay(self.device),
            label: self.label,
            geometry: self.geometry,
            rules: self.rules,
            media: self.media,
            lanes: self.lanes,
            gates: self.gates,
            waiting_for_place: self.waiting_for_place,
            tasks: self.tasks,
            waiters: self.waiters,
            done: self.done,
            spare: self.spare,
            held_since: self.held_since,
        }
    }
}

impl<D: ZonedDevice> InbandCore<D> {
    /// Asks the device, about one of its zones.
    pub(super) fn ask(&mut self, now: Instant, waiter: Waiter, zone: ZoneIndex, op: Op) {
        if let Op::Write { frames, .. } = &op {
            self.media.identities.count_device(frames.len());
        }
        let slot = self.waiters.insert(waiter);
        self.device.submit(now, Command { token: Token(u64::from(slot)), zone, op });
    }

    pub(super) fn frame(&mut self) -> Frame {
        self.spare.pop().unwrap_or_else(Frame::zeroed)
    }

    pub(super) fn begin_task(&mut self, asked: Asked, work: Work) -> u32 {
        self.tasks.insert(Task { asked, work })
    }

    /// Answers a command that has no frames.
    pub(super) fn answer(&mut self, slot: u32, outcome: Result<(), Status>) {
        let Task { asked, .. } = self.tasks.remove(slot);
        self.done.push(asked.plain(outcome));
    }

    /// Carries out a command that the device does not hear of: it opens zones when they are written.
    pub(super) fn obey(&mut self, asked: Asked, change: impl FnOnce(&mut ZoneTable) -> Result<(), Status>) {
        let outcome = change(&mut self.rules);
        self.done.push(asked.plain(outcome));
    }

    pub(super) fn begin_flush(&mut self, now: Instant, asked: Asked) {
        if !self.geometry.volatile_cache {
            return self.done.push(asked.plain(Ok(())));
        }
        let durable = self.media.what_is_completed();
        let slot = self.begin_task(asked, Work::Flush(Some(durable)));
        self.ask(now, Waiter::Data(slot), ZoneIndex(0), Op::Flush);
    }

    /// Gives the spare zone of the journal its header.
    pub(super) fn head_spare(&mut self, now: Instant) {
        let (zone, base) = self.media.journal.head();
        let mut frame = self.frame();
        frame.data = header::Header { label: self.label, base }.encode();
        let op = Op::Write { offset: 0, frames: vec![frame] };
        self.ask(now, Waiter::SpareHeader, ZoneIndex(zone), op);
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
            Work::Reset | Work::Finish(_) | Work::Flush(_) | Work::SelfTest | Work::Search(_) => Vec::new(),
        }
    }
}
