//! The door to io_uring for one file: what the kernel reads or writes lies in pages that belong to the ring until the kernel has
//! answered.
//!
//! Invariant: a slot of `in_flight` is in use exactly while the kernel may post a completion for it. A ring that is dropped with
//! operations in flight leaks their pages rather than free memory that the kernel may still write to.

use super::commands::{Answer, Call, Task, called};
use super::page::{self, Page};
use crate::hosted::Heard;
use crate::lane::Lane;
use base::kernel_calls::KernelCalls;
use base::slab::Slab;
use base::units::BLOCK_BYTES;
use io_uring::{opcode, squeue, types};
use rustix::fd::OwnedFd;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Buffers that are kept for later commands, and the pages of the largest of them: 8 MiB at most.
const SPARE_MAX: usize = 256;
const SPARE_PAGES_MAX: usize = 8;
/// Time that the end of a ring waits for operations in flight.
const END_MAX: Duration = Duration::from_secs(3);

/// Operation that the kernel has.
#[derive(Debug)]
struct InFlight {
    /// Command that waits for it.
    waiter: u32,
    pages: Vec<Page>,
    /// First byte of a read, whose pages go into the command's frames.
    reads_from: Option<usize>,
}

/// See the module.
pub(super) struct FileRing {
    lane: Lane,
    file: File,
    in_flight: Slab<InFlight>,
    /// Nobody wants the answers any more.
    is_abandoned: bool,
    /// Slots and results that were taken and not yet interpreted.
    raw: Vec<(u64, i32)>,
    /// Pages of operations that are through, kept for their memory.
    spare: Vec<Vec<Page>>,
}

impl std::fmt::Debug for FileRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileRing").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

impl FileRing {
    /// A ring for a file; completions make `bell` readable.
    ///
    /// # Errors
    /// When the kernel has no io_uring, or forbids it.
    pub(super) fn new(file: File, bell: &OwnedFd) -> io::Result<FileRing> {
        let mut lane = Lane::new(false)?;
        lane.set_bell(bell)?;
        Ok(FileRing {
            lane,
            file,
            in_flight: Slab::default(),
            is_abandoned: false,
            raw: Vec::new(),
            spare: Vec::new(),
        })
    }

    /// From now on completions make this eventfd readable.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub(super) fn set_bell(&mut self, bell: &OwnedFd) -> io::Result<()> {
        self.lane.set_bell(bell)
    }

    /// Until somebody sleeps until the bell rings, a look for answers waits a moment.
    pub(super) fn wait_until(&mut self, heard: Heard) {
        self.lane.wait_until(heard);
    }

    /// Queues the next call of a command.
    #[allow(unsafe_code)]
    pub(super) fn begin(&mut self, waiter: u32, task: &Task) {
        assert!(!self.is_abandoned, "a drive that was given up begins nothing");
        let call = task.call();
        let mut pages = self.spare.pop().unwrap_or_default();
        let reads_from = match call {
            Call::Read { done, .. } => {
                pages.resize(task.frames().len(), Page([0; BLOCK_BYTES]));
                Some(done)
            }
            Call::Write { .. } => {
                page::of_frames(task.frames(), &mut pages);
                None
            }
            Call::Zeros { bytes, .. } => {
                let count = usize::try_from(bytes).expect("at most a MiB").div_ceil(BLOCK_BYTES);
                pages.clear();
                pages.resize(count, Page([0; BLOCK_BYTES]));
                None
            }
            Call::Sync | Call::Allocate { .. } => None,
        };
        let slot = self.in_flight.insert(InFlight { waiter, pages, reads_from });
        let entry = self.entry(slot, call);
        // SAFETY: the pages that the entry points at belong to `in_flight` until its completion (see the module's invariant), and
        // the file is closed after the ring.
        // WHY: io_uring takes many operations with one system call and none of them makes the thread wait.
        unsafe { self.lane.push(&entry.user_data(slot.into())) };
    }

    /// The kernel's description of a call on the pages of a slot.
    fn entry(&mut self, slot: u32, call: Call) -> squeue::Entry {
        let fd = types::Fd(self.file.as_raw_fd());
        let pages = &mut self.in_flight.get_mut(slot).pages;
        let whole = pages.len() * BLOCK_BYTES;
        let start: *mut u8 = pages.as_mut_ptr().cast();
        let length = |bytes: usize| u32::try_from(bytes).expect("a transfer is less than 4 GiB");
        match call {
            Call::Read { at, done } => {
                opcode::Read::new(fd, start.wrapping_add(done), length(whole - done)).offset(at).build()
            }
            Call::Write { at, done, durable } => {
                let flags = if durable { libc::RWF_DSYNC } else { 0 };
                opcode::Write::new(fd, start.wrapping_add(done), length(whole - done))
                    .offset(at)
                    .rw_flags(flags)
                    .build()
            }
            Call::Zeros { at, bytes } => {
                let bytes = usize::try_from(bytes).expect("at most a MiB");
                opcode::Write::new(fd, start, length(bytes)).offset(at).build()
            }
            Call::Sync => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
            Call::Allocate { flags, at, bytes } => {
                opcode::Fallocate::new(fd, bytes).offset(at).mode(flags.bits().cast_signed()).build()
            }
        }
    }

    /// Adds the answers that have come. Of reads, `copy` is handed the pages and the bytes of them that were read.
    pub(super) fn poll(
        &mut self,
        answers: &mut Vec<Answer>,
        mut copy: impl FnMut(u32, &[Page], Range<usize>),
    ) {
        let mut raw = std::mem::take(&mut self.raw);
        self.lane.take(|entry| raw.push((entry.user_data(), entry.result())));
        for (slot, result) in raw.drain(..) {
            let slot = u32::try_from(slot).expect("a slot that was chosen here");
            let InFlight { waiter, pages, reads_from } = self.in_flight.remove(slot);
            let result = called(result);
            if !self.is_abandoned {
                if let (Some(from), Ok(moved)) = (reads_from, result) {
                    copy(waiter, &pages, from..from + moved);
                }
                answers.push(Answer { slot: waiter, result });
            }
            if self.spare.len() < SPARE_MAX && (1..=SPARE_PAGES_MAX).contains(&pages.len()) {
                self.spare.push(pages);
            }
        }
        self.raw = raw;
    }

    /// Operations so far, and the calls of the kernel that they took.
    pub(super) fn calls(&self) -> KernelCalls {
        self.lane.calls()
    }

    /// Calls that the kernel has not completed.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Nobody wants the answers any more.
    pub(super) fn abandon(&mut self) {
        self.is_abandoned = true;
    }
}

/// What the kernel has begun is waited for, and left behind when that takes too long.
impl Drop for FileRing {
    fn drop(&mut self) {
        self.is_abandoned = true;
        let begun = Instant::now();
        while !self.in_flight.is_empty() && begun.elapsed() < END_MAX {
            self.lane.insist();
            self.poll(&mut Vec::new(), |_, _, _| {});
            std::thread::sleep(Duration::from_millis(1));
        }
        if !self.in_flight.is_empty() {
            log::warn!("a drive does not answer and is left behind with what it was asked");
            std::mem::forget(std::mem::take(&mut self.in_flight));
        }
    }
}
