//! The only door to io_uring: safe operations that own what the kernel works on.
//!
//! An operation takes its socket (`Rc<OwnedFd>`) and its [`Transfer`] along and its
//! [`Completion`] brings the transfer back. Until then nobody else can reach the buffers, and the
//! descriptor cannot be closed and its number reused. A ring that is dropped with operations in
//! flight leaks their buffers rather than free memory the kernel may still write to.
//!
//! Invariant: `in_flight[i]` is occupied exactly while the kernel may post completions for it.

use crate::transfer::{Piece, Transfer};
use base::time::Nanos;
use io_uring::{IoUring, opcode, squeue, types};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::rc::Rc;

/// Longest list of buffers the kernel takes in one call (UIO_MAXIOV).
const IOVECS_MAX: usize = 1024;

/// Operations that may be queued before the kernel is told; the ring submits early when full.
const SUBMISSIONS_MAX: u32 = 512;

/// Completions that may be waiting. The kernel keeps more for us if they come (FEAT_NODROP).
const COMPLETIONS_MAX: u32 = 4096;
const _: () = assert!(SUBMISSIONS_MAX.is_power_of_two() && COMPLETIONS_MAX >= 2 * SUBMISSIONS_MAX);

/// The ring's name for an operation in flight, for [`Ring::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationId(usize);

/// End of an operation, or one occurrence of an operation that repeats, with its result.
#[derive(Debug)]
pub enum Event {
    /// A connection was accepted.
    Accepted(io::Result<OwnedFd>),
    /// A descriptor has become readable.
    Readable(io::Result<()>),
    /// Bytes were received; zero is the end of the stream.
    Received(io::Result<usize>, Box<Transfer>),
    /// Bytes were sent.
    Sent(io::Result<usize>, Box<Transfer>),
    /// An eventfd was written.
    Signalled(io::Result<()>),
    /// A driver has answered a command with this.
    Answered(i32),
}

/// An eventfd is written this.
static ONE: [u8; 8] = 1_u64.to_ne_bytes();

/// Report of the kernel about an operation.
#[derive(Debug)]
pub struct Completion<T> {
    /// Token of whoever started the operation.
    pub token: T,
    /// Event that happened.
    pub event: Event,
    /// The operation goes on and will complete again.
    pub more: bool,
}

/// A message as the kernel reads it; boxed, because the kernel keeps its address. The header comes
/// first, so that a pointer to the message is a pointer to its header.
#[repr(C)]
struct Message {
    header: libc::msghdr,
    iovecs: Vec<libc::iovec>,
}

enum Work {
    Accept,
    Poll,
    Signal,
    Command,
    /// Raw pointers, not boxes: moving a box asserts that nobody else has its address.
    Receive(*mut Transfer, *mut Message),
    Send(*mut Transfer, *mut Message),
}

struct InFlight<T> {
    token: T,
    work: Work,
    /// Keeps the descriptor open and its number taken.
    _fd: Rc<OwnedFd>,
}

/// Completions of cancellations carry nothing anybody waits for.
const CANCELLATION: u64 = u64::MAX;

/// An io_uring whose operations own their buffers. `T` is the caller's name for who waits.
pub struct Ring<T> {
    uring: IoUring,
    in_flight: Vec<Option<InFlight<T>>>,
    vacant: Vec<usize>,
    #[allow(clippy::vec_box, reason = "they move between here and the kernel")]
    spare_messages: Vec<Box<Message>>,
    /// Entries taken off the completion queue, waiting to be interpreted.
    raw: Vec<(u64, i32, u32)>,
}

impl<T: Copy> Ring<T> {
    /// A ring for the calling thread.
    ///
    /// # Errors
    /// When the kernel has no io_uring, or forbids it.
    pub fn new() -> io::Result<Ring<T>> {
        let mut tuned = IoUring::builder();
        tuned.setup_cqsize(COMPLETIONS_MAX).setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        let uring = tuned.build(SUBMISSIONS_MAX).or_else(|_| IoUring::new(SUBMISSIONS_MAX))?;
        Ok(Ring {
            uring,
            in_flight: Vec::new(),
            vacant: Vec::new(),
            spare_messages: Vec::new(),
            raw: Vec::new(),
        })
    }

    /// Sends and receives in flight.
    #[must_use]
    pub fn transfers_in_flight(&self) -> usize {
        let moves = |slot: &&InFlight<T>| matches!(slot.work, Work::Receive(..) | Work::Send(..));
        let (count, all) = (self.in_flight.iter().flatten().filter(moves).count(), self.in_flight.len());
        assert!(count + self.vacant.len() <= all, "{count} transfers in {all} places");
        count
    }

    /// Accepts connections until cancelled.
    ///
    /// # Errors
    /// When the kernel refuses submissions.
    pub fn accept(&mut self, listener: &Rc<OwnedFd>, token: T) -> io::Result<OperationId> {
        let id = self.reserve(listener, token, Work::Accept);
        let fd = types::Fd(listener.as_raw_fd());
        self.push(opcode::AcceptMulti::new(fd).flags(libc::SOCK_CLOEXEC).build(), id)
    }

    /// Accepts one connection.
    ///
    /// # Errors
    /// When the kernel refuses submissions.
    pub fn accept_one(&mut self, listener: &Rc<OwnedFd>, token: T) -> io::Result<OperationId> {
        let id = self.reserve(listener, token, Work::Accept);
        let fd = types::Fd(listener.as_raw_fd());
        let (address, length) = (std::ptr::null_mut(), std::ptr::null_mut());
        self.push(opcode::Accept::new(fd, address, length).flags(libc::SOCK_CLOEXEC).build(), id)
    }

    /// Adds one to an eventfd. Whoever never reads it makes nobody wait but this operation.
    ///
    /// # Errors
    /// When the kernel refuses submissions.
    pub fn signal(&mut self, eventfd: &Rc<OwnedFd>, token: T) -> io::Result<OperationId> {
        let id = self.reserve(eventfd, token, Work::Signal);
        let fd = types::Fd(eventfd.as_raw_fd());
        let length = u32::try_from(ONE.len()).expect("8");
        // At no offset: an eventfd has none.
        self.push(opcode::Write::new(fd, ONE.as_ptr(), length).offset(u64::MAX).build(), id)
    }

    /// Gives the driver of `fd` a command without buffers.
    ///
    /// # Errors
    /// When the kernel refuses submissions.
    pub fn command(
        &mut self,
        fd: &Rc<OwnedFd>,
        number: u32,
        bytes: [u8; 16],
        token: T,
    ) -> io::Result<OperationId> {
        let id = self.reserve(fd, token, Work::Command);
        self.push(opcode::UringCmd16::new(types::Fd(fd.as_raw_fd()), number).cmd(bytes).build(), id)
    }

    /// Tells, each time, that `fd` has become readable, until cancelled.
    ///
    /// # Errors
    /// When the kernel refuses submissions.
    pub fn poll(&mut self, fd: &Rc<OwnedFd>, token: T) -> io::Result<OperationId> {
        let id = self.reserve(fd, token, Work::Poll);
        let events = u32::from(libc::POLLIN.unsigned_abs());
        self.push(opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), events).multi(true).build(), id)
    }

    /// Receives into the pieces left of `transfer`, as many bytes as there are.
    ///
    /// # Errors
    /// When the kernel refuses submissions.
    pub fn receive(
        &mut self,
        socket: &Rc<OwnedFd>,
        mut transfer: Box<Transfer>,
        token: T,
    ) -> io::Result<OperationId> {
        assert!(!transfer.has_values(), "others read values: nothing is received into them");
        let message = self.message(&mut transfer);
        let id = self.reserve(socket, token, Work::Receive(Box::into_raw(transfer), message));
        let fd = types::Fd(socket.as_raw_fd());
        let header = message.cast::<libc::msghdr>();
        self.push(opcode::RecvMsg::new(fd, header).build(), id)
    }

    /// Sends the pieces left of `transfer`, or the first [`IOVECS_MAX`] of them.
    ///
    /// # Errors
    /// When the kernel refuses submissions.
    pub fn send(
        &mut self,
        socket: &Rc<OwnedFd>,
        mut transfer: Box<Transfer>,
        token: T,
    ) -> io::Result<OperationId> {
        let message = self.message(&mut transfer);
        let id = self.reserve(socket, token, Work::Send(Box::into_raw(transfer), message));
        let fd = types::Fd(socket.as_raw_fd());
        let header = message.cast::<libc::msghdr>().cast_const();
        let flags = libc::MSG_NOSIGNAL.unsigned_abs();
        self.push(opcode::SendMsg::new(fd, header).flags(flags).build(), id)
    }

    /// Asks the kernel to end an operation; its completion still comes.
    ///
    /// # Errors
    /// When the kernel refuses submissions.
    pub fn cancel(&mut self, id: OperationId) -> io::Result<()> {
        assert!(id.0 < self.in_flight.len(), "operation {} of {} is cancelled", id.0, self.in_flight.len());
        let entry = opcode::AsyncCancel::new(user_data(id)).build().user_data(CANCELLATION);
        self.push_entry(&entry)
    }

    /// Submits what is queued and waits for a completion, at most for `timeout`. `Some(0)` does
    /// not wait.
    ///
    /// # Errors
    /// When the kernel refuses to work for us; interruptions and timeouts are not errors.
    pub fn wait(&mut self, timeout: Option<Nanos>) -> io::Result<()> {
        let result = match timeout {
            Some(Nanos(0)) => self.uring.submit(),
            None => self.uring.submit_and_wait(1),
            Some(Nanos(nanos)) => {
                let subsec = u32::try_from(nanos % 1_000_000_000).expect("less than 10^9");
                let timespec = types::Timespec::new().sec(nanos / 1_000_000_000).nsec(subsec);
                let args = types::SubmitArgs::new().timespec(&timespec);
                self.uring.submitter().submit_with_args(1, &args)
            }
        };
        match result {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // EBUSY: completions must be taken first, which the caller is about to do.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Takes the completions there are.
    pub fn completions(&mut self, into: &mut Vec<Completion<T>>) {
        let mut raw = std::mem::take(&mut self.raw);
        raw.extend(self.uring.completion().map(|entry| (entry.user_data(), entry.result(), entry.flags())));
        for (user_data, result, flags) in raw.drain(..) {
            if user_data != CANCELLATION {
                into.push(self.complete(user_data, result, io_uring::cqueue::more(flags)));
            }
        }
        self.raw = raw;
    }

    fn complete(&mut self, user_data: u64, result: i32, more: bool) -> Completion<T> {
        let index = usize::try_from(user_data).expect("an index we chose");
        let places = self.in_flight.len();
        assert!(index < places, "operation {index} of {places} ends");
        let slot = self.in_flight[index].as_ref().expect("completions come for operations in flight");
        let token = slot.token;
        // Its buffers are given back once: whoever had them twice would free them twice.
        let is_transfer = matches!(slot.work, Work::Receive(..) | Work::Send(..));
        assert!(!(more && is_transfer), "a transfer completes once");
        let count = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
        let event = match slot.work {
            Work::Accept => Event::Accepted(count.map(|_| adopt(result))),
            Work::Poll => Event::Readable(count.map(|_| ())),
            Work::Signal => Event::Signalled(count.map(|_| ())),
            Work::Command => Event::Answered(result),
            Work::Receive(transfer, message) => Event::Received(count, self.reclaim(transfer, message)),
            Work::Send(transfer, message) => Event::Sent(count, self.reclaim(transfer, message)),
        };
        if !more {
            self.in_flight[index] = None;
            self.vacant.push(index);
            let (vacant, all) = (self.vacant.len(), self.in_flight.len());
            assert!(vacant <= all, "{vacant} places of {all} are vacant");
        }
        Completion { token, event, more }
    }

    /// Takes a transfer back from the kernel.
    #[allow(unsafe_code)]
    fn reclaim(&mut self, transfer: *mut Transfer, message: *mut Message) -> Box<Transfer> {
        // SAFETY: the pointers came from `Box::into_raw` in `receive` or `send`; sends and receives
        // complete exactly once, so the kernel is done with them and nobody else reclaims them.
        // WHY: only the kernel knows when it is done; ownership has to pass through it as a pointer.
        let (transfer, message) = unsafe { (Box::from_raw(transfer), Box::from_raw(message)) };
        self.spare_messages.push(message);
        transfer
    }

    /// The kernel's description of the pieces left of `transfer`.
    fn message(&mut self, transfer: &mut Transfer) -> *mut Message {
        let mut message = self.spare_messages.pop().unwrap_or_else(|| Box::new(Message::new()));
        message.describe(transfer);
        Box::into_raw(message)
    }

    fn reserve(&mut self, fd: &Rc<OwnedFd>, token: T, work: Work) -> OperationId {
        let operation = Some(InFlight { token, work, _fd: Rc::clone(fd) });
        if let Some(index) = self.vacant.pop() {
            assert!(self.in_flight[index].is_none(), "the kernel has no operation in a vacant place");
            self.in_flight[index] = operation;
            return OperationId(index);
        }
        self.in_flight.push(operation);
        OperationId(self.in_flight.len() - 1)
    }

    fn push(&mut self, entry: squeue::Entry, id: OperationId) -> io::Result<OperationId> {
        self.push_entry(&entry.user_data(user_data(id)))?;
        Ok(id)
    }

    #[allow(unsafe_code)]
    fn push_entry(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the entry's descriptor and buffers are owned by `in_flight` (see the module's
        // invariant) until its last completion; a ring dropped before that leaks them.
        // WHY: io_uring is the one system call per turn this server is built around.
        while unsafe { self.uring.submission().push(entry) }.is_err() {
            self.uring.submit()?;
        }
        Ok(())
    }
}

impl Message {
    #[allow(unsafe_code)]
    fn new() -> Message {
        // SAFETY: `msghdr` is integers and pointers, for which zero is a value.
        // WHY: it has private padding on some targets and no constructor.
        let header = unsafe { std::mem::zeroed() };
        Message { header, iovecs: Vec::new() }
    }

    // The number of pieces is a `size_t` in glibc and an `int` in musl.
    #[allow(clippy::useless_conversion)]
    fn describe(&mut self, transfer: &mut Transfer) {
        self.iovecs.clear();
        let count = transfer.pieces_left().len().min(IOVECS_MAX);
        assert!(count > 0, "an operation on no bytes would look like the end of the stream");
        for index in 0..count {
            let piece: Piece = transfer.pieces_left()[index];
            let (memory, bytes) = transfer.memory_of(piece);
            self.iovecs.push(libc::iovec { iov_base: memory.cast(), iov_len: bytes });
        }
        assert!(self.iovecs.len() == count, "{} places for {count} pieces", self.iovecs.len());
        self.header.msg_iov = self.iovecs.as_mut_ptr();
        self.header.msg_iovlen = count.try_into().expect("at most IOVECS_MAX");
    }
}

/// Takes ownership of a descriptor that the kernel just made for us.
#[allow(unsafe_code)]
fn adopt(fd: i32) -> OwnedFd {
    assert!(fd >= 0, "{fd} is no descriptor");
    // SAFETY: a successful accept returns a new descriptor that nobody else knows of.
    // WHY: io_uring returns it as a number.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn user_data(id: OperationId) -> u64 {
    u64::try_from(id.0).expect("an index fits 64 bits")
}
