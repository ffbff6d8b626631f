//! The kernel's zoned block devices as drives with zones and without metadata: host-managed disks, ZNS namespaces that are
//! formatted without metadata, null_blk. `inband` makes drives with metadata of them.
//!
//! ```text
//!   read, write, flush ──────────────> an ordinary drive: io_uring, past the page cache ──┬──> bell ──> poll
//!   report, reset, open, close, finish ──> a thread: ioctl ───────────────────────────────┘
//! ```
//! The kernel says EIO of most that goes wrong: a write that failed is a write fault, whatever the zone has become. It is not told
//! here how many zones are open or active (EOVERFLOW, ETOOMANYREFS). Of a device that goes it says EIO as well, so where that
//! is outlived (ADR 72) a zone report follows each error: who does not report is not there, and nobody knows what it has done.

mod device;
mod elsewhere;
mod helper;
mod ioctl;
mod shape;

pub use device::{
    DiskDrive, Journal, Peek, ZonedProblem, expect_unused, format_device, geometry_of, geometry_with,
    is_inband, is_zoned, open_if, reopen, wipe,
};
pub use elsewhere::journal_at;
pub use shape::{Shape, ShapeError};

use crate::answer::{Asked, block_count, frames_of, status_of};
use crate::hosted::Heard;
use crate::ordinary::OrdinaryDrive;
use ::block::device::{self as block_device, BlockDevice};
use base::frame::Frame;
use base::slab::Slab;
use base::time::{Instant, Nanos};
use helper::{Answer, Helper, Task};
use ioctl::{Change, Line};
use rustix::fd::OwnedFd;
use std::io;
use zone::condition::{Condition, Outstanding};
use zone::device::{Command, Completion, Geometry, Op, Status, ZoneDescriptor, ZonedDevice};

/// Command that is not answered.
#[derive(Debug)]
struct Pending {
    asked: Asked,
    since: Instant,
    /// Frames of a write that are through, and those that are not handed over yet.
    moved: Vec<Frame>,
    left: Vec<Frame>,
    /// What the command is answered if the device is there, which is asked.
    doubted: Option<Status>,
}

/// See the module.
#[derive(Debug)]
pub struct ZonedDisk {
    geometry: Geometry,
    shape: Shape,
    /// Most blocks of a write that the device gets as one command.
    write_blocks_max: usize,
    disk: OrdinaryDrive,
    helper: Helper,
    pending: Slab<Pending>,
    done: Vec<Completion>,
    answers: Vec<block_device::Completion>,
    zone_answers: Vec<Answer>,
    is_abandoned: bool,
    /// A device that goes may come back: commands that it had are answered one by one.
    outlives: bool,
}

impl ZonedDisk {
    /// From now on answers make this eventfd readable.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn set_bell(&mut self, bell: &OwnedFd) -> io::Result<()> {
        self.disk.set_bell(bell)?;
        self.helper.set_bell(bell)
    }

    /// Until somebody sleeps until the bell rings, a poll waits a moment for reads and writes.
    pub fn wait_until(&mut self, heard: Heard) {
        self.disk.wait_until(heard);
    }

    /// From now on reads, writes and flushes that the kernel refuses for now are tried again for so long.
    pub fn set_patience(&mut self, patience: Nanos) {
        self.disk.set_patience(patience);
    }

    /// Status of a command that is not handed to the device.
    fn refusal(&self, command: &Command) -> Option<Status> {
        if self.is_abandoned {
            return Some(Status::DeviceGone);
        }
        let is_zoned = !matches!(command.op, Op::Flush | Op::SelfTest { .. });
        if is_zoned && command.zone.0 >= self.geometry.zones {
            return Some(Status::LbaOutOfRange);
        }
        match &command.op {
            Op::Read { offset, frames } | Op::Write { offset, frames } => {
                let end = u64::from(*offset) + frames.len() as u64;
                let is_small = (1..=self.geometry.transfer_blocks_max as usize).contains(&frames.len());
                match end > u64::from(self.geometry.zone_capacity_blocks) {
                    true => Some(Status::ZoneBoundaryError),
                    false => (!is_small).then_some(Status::InvalidField),
                }
            }
            Op::Append { .. } | Op::OpenWithArea | Op::Commit { .. } => Some(Status::InvalidZoneOperation),
            // There is nothing beside the blocks.
            Op::SelfTest { .. } => Some(Status::Success),
            Op::Reset
            | Op::Finish
            | Op::Open
            | Op::Close
            | Op::Report { .. }
            | Op::FindTurned { .. }
            | Op::Flush => None,
        }
    }

    fn ask_disk(&mut self, now: Instant, slot: u32, op: block_device::Op) {
        let token = block_device::Token(u64::from(slot));
        self.disk.submit(now, block_device::Command { token, op });
    }

    /// Hands the next part of a write over: were it taken apart below, parts could change places.
    fn write_next(&mut self, now: Instant, slot: u32) {
        let Pending { asked, moved, left, .. } = self.pending.get_mut(slot);
        let rest = left.split_off(left.len().min(self.write_blocks_max));
        let frames = std::mem::replace(left, rest);
        let sector = self.shape.sector_of(asked.zone.0, asked.offset + block_count(moved));
        self.ask_disk(now, slot, block_device::Op::Write { sector, frames, durable: false });
    }

    fn end(&mut self, slot: u32, status: Status, mut frames: Vec<Frame>) {
        let Pending { asked, mut moved, mut left, .. } = self.pending.remove(slot);
        moved.append(&mut frames);
        moved.append(&mut left);
        self.done.push(asked.done(Err(status), moved));
    }

    fn take_disk_answer(&mut self, now: Instant, answer: block_device::Completion) {
        let block_device::Completion { token, status, mut frames } = answer;
        let slot = u32::try_from(token.0).expect("tokens are slots");
        let status = status_of(status);
        let pending = self.pending.get_mut(slot);
        if status == Status::Success && !pending.left.is_empty() {
            pending.moved.append(&mut frames);
            return self.write_next(now, slot);
        }
        if self.outlives && !matches!(status, Status::Success | Status::DeviceGone) {
            pending.moved.append(&mut frames);
            return self.doubt(slot, status);
        }
        self.end(slot, status, frames);
    }

    /// A command failed, with this status if the device is there: it is asked for the zone.
    fn doubt(&mut self, slot: u32, status: Status) {
        let pending = self.pending.get_mut(slot);
        pending.doubted = Some(status);
        self.helper.ask(slot, Task::Report { zone: pending.asked.zone.0, count: 1 });
    }

    fn take_zone_answer(&mut self, Answer { slot, outcome, before }: Answer) {
        if let Some(status) = self.pending.get(slot).doubted {
            // One that goes has no zones any more.
            let is_there = outcome.is_ok_and(|lines| !lines.is_empty());
            return self.end(slot, if is_there { status } else { Status::DeviceGone }, Vec::new());
        }
        if let Err(error) = &outcome
            && self.outlives
            && status_of_error(error) == Status::InternalError
        {
            return self.doubt(slot, Status::InternalError);
        }
        let Pending { mut asked, .. } = self.pending.remove(slot);
        let report = outcome.map_err(|error| status_of_error(&error)).and_then(|lines| {
            let told: Option<Vec<ZoneDescriptor>> =
                lines.iter().map(|line: &Line| self.shape.descriptor(line)).collect();
            told.ok_or(Status::InternalError)
        });
        asked.offset = before;
        self.done.push(asked.report(report));
    }
}

/// Meaning of an error of an ioctl.
fn status_of_error(error: &io::Error) -> Status {
    match error.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => Status::DeviceGone,
        Some(libc::EINVAL) => Status::InvalidField,
        Some(libc::EOVERFLOW) => Status::TooManyActiveZones,
        Some(libc::ETOOMANYREFS) => Status::TooManyOpenZones,
        _ => Status::InternalError,
    }
}

impl ZonedDevice for ZonedDisk {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let Command { token, zone, .. } = command;
        let asked = Asked::of(token, zone, &command.op);
        if let Some(status) = self.refusal(&command) {
            return self.done.push(asked.done(Err(status), frames_of(command.op)));
        }
        let (moved, left) = (Vec::new(), Vec::new());
        let slot = self.pending.insert(Pending { asked, since: now, moved, left, doubted: None });
        let change = |change| Task::Change { zone: zone.0, change };
        let sector = self.shape.sector_of(zone.0, asked.offset);
        match command.op {
            Op::Read { frames, .. } => self.ask_disk(now, slot, block_device::Op::Read { sector, frames }),
            Op::Write { frames, .. } => {
                self.pending.get_mut(slot).left = frames;
                self.write_next(now, slot);
            }
            Op::Flush => self.ask_disk(now, slot, block_device::Op::Flush),
            Op::Report { count } => {
                let count = count.min(self.geometry.zones - zone.0);
                self.helper.ask(slot, Task::Report { zone: zone.0, count });
            }
            Op::FindTurned { count } => {
                let count = count.min(self.geometry.zones - zone.0);
                self.helper.ask(slot, Task::Search { zone: zone.0, count });
            }
            Op::Reset => self.helper.ask(slot, change(Change::Reset)),
            Op::Finish => self.helper.ask(slot, change(Change::Finish)),
            Op::Open => self.helper.ask(slot, change(Change::Open)),
            Op::Close => self.helper.ask(slot, change(Change::Close)),
            Op::Append { .. } | Op::OpenWithArea | Op::Commit { .. } | Op::SelfTest { .. } => {
                unreachable!("answered above")
            }
        }
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let mut answers = std::mem::take(&mut self.answers);
        self.disk.poll(now, &mut answers);
        for answer in answers.drain(..) {
            self.take_disk_answer(now, answer);
        }
        self.answers = answers;
        let mut zone_answers = std::mem::take(&mut self.zone_answers);
        self.helper.take(&mut zone_answers);
        for answer in zone_answers.drain(..) {
            // Of a drive that was given up the answers were given already.
            if !self.is_abandoned {
                self.take_zone_answer(answer);
            }
        }
        self.zone_answers = zone_answers;
        completions.append(&mut self.done);
    }

    fn next_event(&self) -> Option<Instant> {
        self.disk.next_event()
    }

    fn condition(&mut self, now: Instant) -> Condition {
        let ::block::condition::Condition { loss, left_behind, waits_for_room_since, calls, .. } =
            self.disk.condition(now);
        let outstanding = |pending: &Pending| Outstanding { zone: pending.asked.zone, since: pending.since };
        let oldest = self.pending.iter().map(outstanding).min_by_key(|command| command.since);
        let with_helper = if loss.is_some() { self.helper.pending() } else { 0 };
        let left_behind = left_behind + u32::try_from(with_helper).expect("few tasks");
        Condition { loss, left_behind, waits_for_room_since, oldest, calls, ..Condition::default() }
    }

    fn abandon(&mut self) {
        if std::mem::replace(&mut self.is_abandoned, true) {
            return;
        }
        self.disk.abandon();
        let mut answers = Vec::new();
        self.disk.poll(Instant(0), &mut answers);
        for block_device::Completion { token, frames, .. } in answers {
            let slot = u32::try_from(token.0).expect("tokens are slots");
            self.end(slot, Status::DeviceGone, frames);
        }
        for Pending { asked, moved, .. } in std::mem::take(&mut self.pending).into_values() {
            self.done.push(asked.done(Err(Status::DeviceGone), moved));
        }
    }

    fn outlive_hiccups(&mut self, outlives: bool) {
        self.outlives = outlives;
        self.disk.outlive_hiccups(outlives);
    }
}
