//! The door to the kernel's NVMe driver: commands through io_uring, and one at a time through ioctl where a drive is opened or looked at.
//!
//! Invariant: a slot of `in_flight` is in use exactly while the kernel may post a completion for it, and what its command points at
//! is in that slot. Nobody's patience changes that: a command that timed out is the kernel's until its completion comes, which was
//! seen to take ten times as long. A ring that is dropped with commands in flight leaks their buffers rather than free memory that
//! the drive may still write to.
//!
//! All pointers and lengths come from [`wire::encode`](super::wire::encode).

use super::open::Node;
use super::wire::{Action, COMMAND_BYTES, Encoded, Payload, encode};
use crate::hosted::Heard;
use crate::lane::Lane;
use base::kernel_calls::KernelCalls;
use base::slab::Slab;
use io_uring::{cqueue, opcode, squeue, types};
use rustix::fd::OwnedFd;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// Commands of io_uring: of the namespace with a data pointer, and with a pointer to vectors.
const URING_IO: u32 = 0xc048_4e80;
const URING_IO_VECTORS: u32 = 0xc048_4e81;
/// Commands of ioctl; C libraries differ in the type of their numbers.
const IOCTL_NAMESPACE: libc::Ioctl = libc::_IO(b'N' as u32, 0x40);
const IOCTL_ADMIN: libc::Ioctl = libc::_IOWR::<[u8; COMMAND_BYTES]>(b'N' as u32, 0x47);
const IOCTL_IO: libc::Ioctl = libc::_IOWR::<[u8; COMMAND_BYTES]>(b'N' as u32, 0x48);
const IOCTL_IO_VECTORS: libc::Ioctl = libc::_IOWR::<[u8; COMMAND_BYTES]>(b'N' as u32, 0x49);

/// Time that the end of a ring waits for commands in flight.
const END_MAX: Duration = Duration::from_secs(3);

/// A command and its buffers.
#[derive(Debug)]
pub struct Job {
    /// Task that waits for it.
    pub waiter: u32,
    /// Operation.
    pub action: Action,
    /// Buffers.
    pub payload: Payload,
}

/// A command that was answered.
#[derive(Debug)]
pub struct Answer {
    /// The command, with its buffers.
    pub job: Job,
    /// Below zero an error number, above an NVMe status.
    pub result: i32,
    /// Block at which an append was written, if it was.
    pub place: u64,
}

/// Where commands are carried out.
pub trait Queue: Send {
    /// Begins a command.
    fn begin(&mut self, job: Job);

    /// Takes the answers that have come.
    fn take(&mut self, answers: &mut Vec<Answer>);

    /// Commands that are not answered.
    fn in_flight(&self) -> usize;

    /// True while answers come only if they are asked for.
    fn wants_poll(&self) -> bool {
        false
    }

    /// Commands so far, and the calls of the kernel that they took.
    fn calls(&self) -> KernelCalls {
        KernelCalls::default()
    }

    /// False when the drive was taken out of its host.
    fn is_there(&self) -> bool;
}

/// See the module.
pub struct Ring {
    lane: Lane<squeue::Entry128, cqueue::Entry32>,
    node: Node,
    namespace: u32,
    in_flight: Slab<Job>,
}

impl Ring {
    /// A ring for a namespace.
    ///
    /// # Errors
    /// When the kernel has no io_uring, or forbids it.
    pub(super) fn new(node: Node, namespace: u32) -> io::Result<Ring> {
        Ok(Ring { lane: Lane::new(false)?, node, namespace, in_flight: Slab::default() })
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

    /// From now on answers are asked for until they come. False when the driver has no queues for that.
    ///
    /// # Errors
    /// When the kernel refuses another ring.
    pub(super) fn poll_answers(&mut self) -> io::Result<bool> {
        assert!(self.in_flight.is_empty(), "{} commands are in flight", self.in_flight.len());
        let can = self.node.can_poll();
        if can {
            self.lane = Lane::new(true)?;
        }
        Ok(can)
    }
}

impl Queue for Ring {
    #[allow(unsafe_code)]
    fn begin(&mut self, job: Job) {
        let slot = self.in_flight.insert(job);
        let Job { action, payload, .. } = self.in_flight.get_mut(slot);
        let Encoded { bytes, is_vectored } = encode(*action, self.namespace, payload);
        let code = if is_vectored { URING_IO_VECTORS } else { URING_IO };
        let entry = opcode::UringCmd80::new(types::Fd(self.node.file().as_raw_fd()), code).cmd(bytes).build();
        // SAFETY: what the entry points at belongs to a job in `in_flight` until its completion (see the module's invariant), its
        // lengths were computed from the buffers that it points at, and the file is closed after the ring. A job's vectors are not
        // resized meanwhile: nobody can reach them.
        // WHY: passthrough is the only way to blocks with metadata.
        unsafe { self.lane.push(&entry.user_data(slot.into())) };
    }

    fn take(&mut self, answers: &mut Vec<Answer>) {
        let in_flight = &mut self.in_flight;
        self.lane.take(|entry| {
            let slot = u32::try_from(entry.user_data()).expect("a slot that was chosen here");
            let (result, place) = (entry.result(), entry.big_cqe()[0]);
            answers.push(Answer { job: in_flight.remove(slot), result, place });
        });
    }

    fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn wants_poll(&self) -> bool {
        self.lane.wants_poll()
    }

    fn calls(&self) -> KernelCalls {
        self.lane.calls()
    }

    /// The kernel takes the name of a node away when its device goes.
    fn is_there(&self) -> bool {
        self.node.file().metadata().is_ok_and(|metadata| metadata.nlink() > 0)
    }
}

/// What the kernel has begun is waited for, and left behind when that takes too long.
impl Drop for Ring {
    fn drop(&mut self) {
        let begun = Instant::now();
        while !self.in_flight.is_empty() && begun.elapsed() < END_MAX {
            self.lane.insist();
            self.take(&mut Vec::new());
            std::thread::sleep(Duration::from_millis(1));
        }
        if !self.in_flight.is_empty() {
            log::warn!("a drive does not answer and is left behind with what it was asked");
            std::mem::forget(std::mem::take(&mut self.in_flight));
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

/// Number of the namespace of a node.
///
/// # Errors
/// When it is none of a namespace.
#[allow(unsafe_code)]
pub(super) fn namespace_of(file: &File) -> io::Result<u32> {
    // SAFETY: the command takes no argument and touches no memory of ours.
    // WHY: nothing else tells the number.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), IOCTL_NAMESPACE) };
    match u32::try_from(result) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Carries a command out and waits for it; the result is as that of a completion.
#[allow(unsafe_code)]
pub(super) fn carry_out(file: &File, namespace: u32, action: Action, payload: &mut Payload) -> i32 {
    let Encoded { bytes: mut command, is_vectored } = encode(action, namespace, payload);
    let code = match (action, is_vectored) {
        (Action::Identify { .. } | Action::Health, _) => IOCTL_ADMIN,
        (_, true) => IOCTL_IO_VECTORS,
        (_, false) => IOCTL_IO,
    };
    const { assert!(COMMAND_BYTES == 80, "the ioctl's structure has a result behind the 72 bytes of a command") }
    // SAFETY: the kernel reads and writes the 80 bytes of the command, and the buffers that it points at, which are exclusively
    // borrowed for the length of the call; their lengths were computed from them.
    // WHY: a ring for the few commands before service would have to be waited for.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), code, command.as_mut_ptr()) };
    match result {
        0.. => result,
        _ => -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
    }
}
