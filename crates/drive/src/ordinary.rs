//! Ordinary drives: files, partitions and whole drives that are written in place.
//!
//! ```text
//!   submit ──> a drive on a disk:  io_uring, past the page cache where the device allows ──> bell ──> poll
//!         └──> a file in memory:   done at once ──────────────────────────────────────────────────────> poll
//! ```
//! [`open`] opens a device and tells what it is, [`OrdinaryDrive`] carries out the commands of an array on it. What the kernel
//! works on belongs to `ring` until it is answered.
//!
//! A write that finds no room on its file system waits, and is tried again; it is not an error of the drive. So does a command that
//! the kernel has no memory or no place for now, after pauses that grow, until patience is over. After a flush has
//! failed all later ones fail: the kernel forgets which pages it could not write. Where the kernel forgets that a write is to be
//! durable ([`Opened::forgets_durable`]), a flush follows it before it is answered.

pub mod bell;
mod commands;
mod memory;
mod not_now;
pub mod open;
mod page;
mod permission;
mod ring;
#[cfg(test)]
mod tests;

use crate::hosted::Heard;
use base::kernel_calls::KernelCalls;
use base::slab::Slab;
use base::time::{Instant, Nanos};
use block::condition::{Condition, Hiccups, Loss};
use block::device::{BlockDevice, Command, Completion, Geometry, Op, Status, Token};
use commands::{Answer, Durable, Step, Task};
use not_now::{NotNow, Pauses};
use open::Opened;
pub use permission::NotPermitted;
use ring::FileRing;
use rustix::fd::OwnedFd;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Time after which a write that found no room is tried again.
const TRY_AGAIN_AFTER: Nanos = Nanos(100_000_000);

/// Way in which commands are carried out.
#[derive(Debug)]
enum Way {
    /// A file in memory: nothing waits.
    Memory,
    /// A disk.
    Ring(Box<FileRing>),
}

/// Command that is not answered.
#[derive(Debug)]
struct Pending {
    token: Token,
    task: Task,
    since: Instant,
    /// Found no room on the file system, and is to be tried again.
    lacks_room: bool,
    /// Those before it was tried again, for the kernel had refused it for now.
    pauses: Pauses,
}

/// Commands that found no room on the file system.
#[derive(Debug, Default)]
struct Room {
    waiting: Vec<u32>,
    since: Option<Instant>,
    try_again: Option<Instant>,
}

/// See the module.
#[derive(Debug)]
pub struct OrdinaryDrive {
    geometry: Geometry,
    /// File of the drive, for what is asked of it beside commands.
    file: File,
    /// True for a regular file, which can be removed or cut short.
    is_file: bool,
    /// True for a block device that is read and written past the page cache.
    is_disk: bool,
    way: Way,
    durable: Durable,
    pending: Slab<Pending>,
    room: Room,
    not_now: NotNow,
    done: Vec<Completion>,
    answers: Vec<Answer>,
    flush_failed: bool,
    /// Whoever has the drive writes what was not flushed again when a flush has failed: later ones may succeed.
    tries_flushes_again: bool,
    /// A command that was cut off is answered with [`Status::DeviceGone`].
    outlives: bool,
    loss: Option<Loss>,
}

impl OrdinaryDrive {
    /// A drive of what was opened for writing; answers of a disk make `bell`, an eventfd, readable.
    ///
    /// # Errors
    /// When the kernel has no io_uring, or forbids it.
    pub fn new(opened: Opened, bell: &OwnedFd) -> io::Result<OrdinaryDrive> {
        let geometry = Geometry {
            sectors: opened.sectors(),
            atomic_sectors: opened.logical_sectors(),
            volatile_cache: opened.has_volatile_cache(),
        };
        let way = if opened.is_in_memory() {
            Way::Memory
        } else {
            Way::Ring(Box::new(FileRing::new(opened.file().try_clone()?, bell)?))
        };
        let durable = if opened.forgets_durable() { Durable::ByFlush } else { Durable::ByFlag };
        let kind = (opened.is_file(), !opened.is_file() && opened.is_direct());
        Ok(OrdinaryDrive::with_way(opened.into_file(), (geometry, kind), (way, durable)))
    }

    /// Another drive of the same device, for another thread: what completed on one is seen and flushed by the other.
    ///
    /// # Errors
    /// When the kernel has no descriptors or no memory left for a ring.
    pub fn sibling(&self, bell: &OwnedFd) -> io::Result<OrdinaryDrive> {
        let file = self.file.try_clone()?;
        let way = match &self.way {
            Way::Memory => Way::Memory,
            Way::Ring(_) => Way::Ring(Box::new(FileRing::new(file.try_clone()?, bell)?)),
        };
        Ok(OrdinaryDrive::with_way(file, (self.geometry, (self.is_file, self.is_disk)), (way, self.durable)))
    }

    fn with_way(
        file: File,
        (geometry, (is_file, is_disk)): (Geometry, (bool, bool)),
        (way, durable): (Way, Durable),
    ) -> OrdinaryDrive {
        OrdinaryDrive {
            geometry,
            file,
            is_file,
            is_disk,
            way,
            durable,
            pending: Slab::default(),
            room: Room::default(),
            not_now: NotNow::default(),
            done: Vec::new(),
            answers: Vec::new(),
            flush_failed: false,
            tries_flushes_again: false,
            outlives: false,
            loss: None,
        }
    }

    /// True for a block device that is read and written past the page cache: what it is asked is what the kernel asks of it, and
    /// nothing is kept in between.
    #[must_use]
    pub fn is_disk(&self) -> bool {
        self.is_disk
    }

    /// From now on a flush that fails is not the end of flushes: its owner writes what was not flushed again. Only where the page cache has no
    /// part in it, of which the kernel forgets what it could not write.
    pub fn try_flushes_again(&mut self) {
        self.tries_flushes_again = true;
    }

    /// From now on commands that the kernel refuses for now are tried again for so long.
    pub fn set_patience(&mut self, patience: Nanos) {
        self.not_now.set_patience(patience);
    }

    /// Until somebody sleeps until the bell rings, a poll waits a moment for answers of a disk.
    pub fn wait_until(&mut self, heard: Heard) {
        if let Way::Ring(ring) = &mut self.way {
            ring.wait_until(heard);
        }
    }

    /// From now on answers of a disk make this eventfd readable.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn set_bell(&mut self, bell: &OwnedFd) -> io::Result<()> {
        match &mut self.way {
            Way::Memory => Ok(()),
            Way::Ring(ring) => ring.set_bell(bell),
        }
    }

    /// Begins a command, or the rest of one.
    fn begin(&mut self, slot: u32) {
        let task = &mut self.pending.get_mut(slot).task;
        match &mut self.way {
            Way::Memory => self.answers.push(Answer { slot, result: memory::carry_out(&self.file, task) }),
            Way::Ring(ring) => ring.begin(slot, task),
        }
    }

    fn take_answers(&mut self, now: Instant) {
        if let Way::Ring(ring) = &mut self.way {
            let pending = &mut self.pending;
            ring.poll(&mut self.answers, |slot, pages, bytes| {
                page::copy_out(pages, bytes, pending.get_mut(slot).task.frames_mut());
            });
        }
        while let Some(Answer { slot, result }) = self.answers.pop() {
            let pending = self.pending.get_mut(slot);
            match pending.task.advance(result) {
                Step::Again => self.begin(slot),
                Step::Done(status) => self.end(slot, status),
                Step::NoRoom => {
                    pending.lacks_room = true;
                    self.room.waiting.push(slot);
                    self.room.since.get_or_insert(now);
                    self.room.try_again.get_or_insert(now + TRY_AGAIN_AFTER);
                }
                Step::CutOff(status) => {
                    self.end(slot, if self.outlives { Status::DeviceGone } else { status })
                }
                Step::NotNow(status) => {
                    if !self.not_now.wait(now, slot, &mut pending.pauses) {
                        self.end(slot, status);
                    }
                }
            }
        }
    }

    fn end(&mut self, slot: u32, status: Status) {
        let Pending { token, task, .. } = self.pending.remove(slot);
        let status = match (task.is_flush(), self.flush_failed) {
            (true, true) => Status::WriteError,
            (true, false) => {
                self.flush_failed = status != Status::Success && !self.tries_flushes_again;
                status
            }
            (false, _) => status,
        };
        self.done.push(Completion { token, status, frames: task.into_frames() });
    }

    /// Tries again what was refused for now, and what found no room, if it is time to.
    fn retry(&mut self, now: Instant) {
        for slot in self.not_now.take_due(now) {
            match self.loss {
                Some(_) => self.end(slot, Status::DeviceGone),
                None => self.begin(slot),
            }
        }
        if self.room.try_again.is_none_or(|due| due > now) {
            return;
        }
        self.room.try_again = None;
        for slot in std::mem::take(&mut self.room.waiting) {
            // The kernel says the same of a device that it takes away.
            if self.loss.is_some() {
                self.end(slot, Status::DeviceGone);
                continue;
            }
            self.pending.get_mut(slot).lacks_room = false;
            self.pending.get_mut(slot).since = now;
            self.begin(slot);
        }
    }

    /// A file that was removed or cut short answers as if nothing had happened for as long as it is open. The kernel takes
    /// the node of a device away when the device goes.
    fn look(&self) -> Option<Loss> {
        let Ok(metadata) = self.file.metadata() else { return Some(Loss::Unreadable) };
        if !self.is_file {
            return (metadata.nlink() == 0).then_some(Loss::Removed);
        }
        let is_short = metadata.len() / block::md::SECTOR_BYTES_U64 < self.geometry.sectors;
        match (metadata.nlink(), is_short) {
            (0, _) => Some(Loss::Unlinked),
            (_, true) => Some(Loss::CutShort),
            (_, false) => None,
        }
    }
}

impl BlockDevice for OrdinaryDrive {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Instant, Command { token, op }: Command) {
        let refusal = match self.loss {
            Some(_) => Some(Status::DeviceGone),
            None if !op.is_within(self.geometry.sectors) => Some(Status::OutOfRange),
            None => None,
        };
        if let Some(status) = refusal {
            return self.done.push(Completion { token, status, frames: op.into_frames() });
        }
        if matches!(op, Op::Flush) && self.flush_failed {
            return self.done.push(Completion { token, status: Status::WriteError, frames: Vec::new() });
        }
        let task = Task::new(op, self.durable);
        let slot = self.pending.insert(Pending {
            token,
            task,
            since: now,
            lacks_room: false,
            pauses: Pauses::default(),
        });
        self.begin(slot);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.retry(now);
        self.take_answers(now);
        completions.append(&mut self.done);
    }

    fn next_event(&self) -> Option<Instant> {
        [self.room.try_again, self.not_now.next_event()].into_iter().flatten().min()
    }

    fn condition(&mut self, _: Instant) -> Condition {
        self.loss = self.loss.or_else(|| self.look());
        let unanswered = self.pending.iter().filter(|command| !command.lacks_room);
        let (in_flight, calls) = match &self.way {
            Way::Ring(ring) => (ring.in_flight(), ring.calls()),
            Way::Memory => (0, KernelCalls::default()),
        };
        let left_behind = if self.loss.is_some() { in_flight } else { 0 };
        Condition {
            loss: self.loss,
            left_behind: u32::try_from(left_behind).expect("a u32 of slots"),
            waits_for_room_since: self.room.since.filter(|_| !self.room.waiting.is_empty()),
            oldest: unanswered.map(|command| command.since).min(),
            calls,
            hiccups: Hiccups::default(),
        }
    }

    fn abandon(&mut self) {
        self.loss.get_or_insert(Loss::Abandoned);
        if let Way::Ring(ring) = &mut self.way {
            ring.abandon();
        }
        self.room = Room::default();
        self.not_now.clear();
        self.answers.clear();
        for Pending { token, task, .. } in std::mem::take(&mut self.pending).into_values() {
            self.done.push(Completion { token, status: Status::DeviceGone, frames: task.into_frames() });
        }
    }

    fn outlive_hiccups(&mut self, outlives: bool) {
        self.outlives = outlives;
    }
}
