//! One io_uring of a drive: entries go in, completions come out, and calls are counted.
//!
//! A *polled* lane (IORING_SETUP_IOPOLL) has no interrupts: a completion is found only by whoever asks the kernel for it, so its
//! owner asks as long as something is in flight. The driver needs queues for that ([`can_poll`]).
//!
//! Before service, when nobody sleeps until a bell rings, a look waits a moment for completions: its caller would only look again.

use crate::hosted::Heard;
use crate::ordinary::open::queue_attribute;
use base::kernel_calls::KernelCalls;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, squeue};
use rustix::fd::OwnedFd;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Operations that may be queued before the kernel is told; the ring submits early when full.
const SUBMISSIONS_MAX: u32 = 256;
/// Completions that may be waiting. The kernel keeps more if they come.
const COMPLETIONS_MAX: u32 = 1024;
/// Time that a look waits for completions before service, in nanoseconds.
const MOMENT: u32 = 1_000_000;

/// See the module.
pub(crate) struct Lane<S = squeue::Entry, C = cqueue::Entry>
where
    S: squeue::EntryMarker,
    C: cqueue::EntryMarker,
{
    uring: IoUring<S, C>,
    /// Entries were queued since the kernel was told.
    queued: bool,
    /// Operations that the kernel has not completed.
    in_flight: usize,
    /// Completions that had to be taken before their time.
    early: Vec<C>,
    calls: KernelCalls,
    /// A look waits a moment until this is set; never without it.
    waits_until: Option<Heard>,
}

impl<S: squeue::EntryMarker, C: cqueue::EntryMarker> Lane<S, C> {
    /// A lane that announces completions, or one that is polled.
    ///
    /// # Errors
    /// When the kernel has no io_uring, or forbids it.
    pub(crate) fn new(is_polled: bool) -> io::Result<Lane<S, C>> {
        let mut builder = IoUring::<S, C>::builder();
        builder.setup_cqsize(COMPLETIONS_MAX);
        if is_polled {
            builder.setup_iopoll();
        }
        Ok(Lane {
            uring: builder.build(SUBMISSIONS_MAX)?,
            queued: false,
            in_flight: 0,
            early: Vec::new(),
            calls: KernelCalls { is_polled, ..KernelCalls::default() },
            waits_until: None,
        })
    }

    /// From now on completions make this eventfd readable. Those of a polled lane never do.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub(crate) fn set_bell(&mut self, bell: &OwnedFd) -> io::Result<()> {
        // There may be none yet.
        let _ = self.uring.submitter().unregister_eventfd();
        self.uring.submitter().register_eventfd(bell.as_raw_fd())
    }

    /// Until somebody sleeps until the bell rings, a look waits a moment.
    pub(crate) fn wait_until(&mut self, heard: Heard) {
        self.waits_until = Some(heard);
    }

    /// Queues an operation.
    ///
    /// # Safety
    /// What the entry points at stays where it is, and nobody else touches it, until its completion was taken.
    // SAFETY: it is the caller who knows what an entry points at.
    // WHY: one queue for both kinds of drives that have a ring.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn push(&mut self, entry: &S) {
        // SAFETY: the caller's promise is the one that the queue wants.
        // WHY: io_uring takes many operations with one system call and none of them makes the thread wait.
        while unsafe { self.uring.submission().push(entry) }.is_err() {
            if let Err(error) = self.call() {
                // The kernel takes no more before its completions are taken.
                log::debug!("the queue is full: {error}");
                self.early.extend(self.uring.completion());
                std::thread::yield_now();
            }
        }
        self.queued = true;
        self.in_flight += 1;
        self.calls.operations += 1;
    }

    /// Tells the kernel what is queued, and takes the completions that have come.
    pub(crate) fn take(&mut self, mut each: impl FnMut(C)) {
        self.tell_kernel();
        if self.in_flight > 0 && self.early.is_empty() && self.uring.completion().is_empty() && self.waits() {
            self.wait_a_moment();
        }
        let taken = self.early.drain(..).chain(self.uring.completion());
        let in_flight = &mut self.in_flight;
        taken.for_each(|entry| {
            *in_flight = in_flight.checked_sub(1).expect("a completion of an operation");
            each(entry);
        });
    }

    /// Submits what is queued. The kernel hands over completions for which there was no place when it is told so, too, and those of a
    /// polled lane never otherwise.
    fn tell_kernel(&mut self) {
        let asks = self.calls.is_polled && self.in_flight > 0;
        let has_overflow = self.uring.submission().cq_overflow();
        if !std::mem::take(&mut self.queued) && !has_overflow && !asks {
            return;
        }
        if let Err(error) = self.call() {
            // Completions have to be taken first, or the kernel is short of memory: the queue stays as it is.
            log::debug!("operations are submitted later: {error}");
            self.queued = true;
        }
    }

    fn waits(&self) -> bool {
        !self.calls.is_polled && self.waits_until.as_ref().is_some_and(|heard| !heard.is_set())
    }

    fn wait_a_moment(&mut self) {
        self.calls.calls += 1;
        let moment = Timespec::new().nsec(MOMENT);
        // That the moment is over is an error, too: whoever looks looks again.
        let _ = self.uring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&moment));
    }

    fn call(&mut self) -> io::Result<()> {
        self.calls.calls += 1;
        self.uring.submit().map(|_| ())
    }

    /// True while completions come only if they are asked for.
    pub(crate) fn wants_poll(&self) -> bool {
        self.calls.is_polled && self.in_flight > 0
    }

    /// The kernel is told again with the next look, whether something is queued or not.
    pub(crate) fn insist(&mut self) {
        self.queued = true;
    }

    /// Operations and calls so far.
    pub(crate) fn calls(&self) -> KernelCalls {
        self.calls
    }
}

/// True when the driver of a block device has queues whose completions are polled.
pub(crate) fn can_poll(device: &File) -> bool {
    queue_attribute(device, "io_poll").is_some_and(|can| can == "1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use io_uring::opcode;

    /// Looks that it takes until a pause of 5 ms is over.
    #[allow(unsafe_code)]
    fn looks(lane: &mut Lane) -> u32 {
        let pause = Timespec::new().nsec(5_000_000);
        // SAFETY: the pause outlives its completion.
        // WHY: an operation that takes a while on every host.
        unsafe { lane.push(&opcode::Timeout::new(&raw const pause).build()) };
        let (mut looks, mut is_over) = (0, false);
        while !is_over {
            looks += 1;
            lane.take(|entry| is_over = entry.result() == -libc::ETIME);
        }
        looks
    }

    #[test]
    fn a_look_waits_a_moment_until_somebody_listens() {
        let mut lane = Lane::new(false).expect("a ring");
        let bell = crate::hosted::Bell::new().expect("a bell");
        lane.wait_until(bell.heard());
        assert!(looks(&mut lane) <= 50, "each is up to a millisecond");
        assert!(lane.waits() && lane.calls().operations == 1);
        bell.listen();
        assert!(!lane.waits());
        looks(&mut lane);
        assert_eq!(lane.calls().operations, 2);
    }
}
