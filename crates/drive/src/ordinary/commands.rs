//! Commands as calls of the kernel: what each call asks for, and what follows from its result.
//!
//! ```text
//!   read, write    whole transfer ──> the rest of a short one ──> ... ──> done
//!   durable write  the same, flagged; where the file system forgets the flag, fdatasync behind the last byte
//!   flush          fdatasync
//!   write-zeroes   a hole, where that is allowed ──> a range of zeros ──> zeros written, piece by piece
//!   discard        a hole; whatever comes of it is well
//! ```

use base::frame::Frame;
use block::device::{Op, Status};
use block::md::SECTOR_BYTES_U64;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::io;

/// Most bytes of zeros that one call writes.
pub(super) const ZEROS_BYTES_MAX: u64 = 1 << 20;

/// Result of one call: bytes that were moved, or none.
pub(super) type Called = Result<usize, Errno>;

/// A call's answer to the command in a slot.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) slot: u32,
    pub(super) result: Called,
}

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Reads the frames from the byte `done` on.
    Read { at: u64, done: usize },
    /// Writes the frames from the byte `done` on.
    Write { at: u64, done: usize, durable: bool },
    /// Flushes.
    Sync,
    /// Makes room, a hole, or zeros of a range.
    Allocate { flags: FallocateFlags, at: u64, bytes: u64 },
    /// Writes zeros, at most [`ZEROS_BYTES_MAX`].
    Zeros { at: u64, bytes: u64 },
}

/// What comes after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Another call.
    Again,
    /// The file system has no room.
    NoRoom,
    /// The kernel has no memory or no place for it now. The status is for when patience is over.
    NotNow(Status),
    /// Nobody knows whether it was done. The status is for who does not wait for devices that are away.
    CutOff(Status),
    /// The end of the command.
    Done(Status),
}

/// How a durable write is made so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durable {
    /// The write says that it is to be (`RWF_DSYNC`).
    ByFlag,
    /// A flush follows the write.
    ByFlush,
}

/// Way of making zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zeroing {
    Hole,
    Range,
    Written,
}

/// A command under way.
#[derive(Debug)]
pub(super) struct Task {
    op: Op,
    /// Bytes that are done.
    done: u64,
    zeroing: Zeroing,
    durable: Durable,
}

impl Task {
    /// A command of which nothing is done yet.
    pub(super) fn new(op: Op, durable: Durable) -> Task {
        let zeroing = match op {
            Op::WriteZeroes { may_unmap: false, .. } => Zeroing::Range,
            Op::WriteZeroes { .. } | Op::Discard { .. } => Zeroing::Hole,
            Op::Read { .. } | Op::Write { .. } | Op::Flush => Zeroing::Written,
        };
        Task { op, done: 0, zeroing, durable }
    }

    /// True when the next call, or the last one of what has ended, is a flush.
    pub(super) fn is_flush(&self) -> bool {
        matches!(self.call(), Call::Sync)
    }

    /// True when a flush follows what is written.
    fn wants_flush(&self) -> bool {
        self.durable == Durable::ByFlush && matches!(self.op, Op::Write { durable: true, .. })
    }

    /// Frames of the command.
    pub(super) fn frames(&self) -> &[Frame] {
        match &self.op {
            Op::Read { frames, .. } | Op::Write { frames, .. } => frames,
            Op::Flush | Op::WriteZeroes { .. } | Op::Discard { .. } => &[],
        }
    }

    /// Frames of the command.
    pub(super) fn frames_mut(&mut self) -> &mut [Frame] {
        match &mut self.op {
            Op::Read { frames, .. } | Op::Write { frames, .. } => frames,
            Op::Flush | Op::WriteZeroes { .. } | Op::Discard { .. } => &mut [],
        }
    }

    /// Frames of a command that has ended.
    pub(super) fn into_frames(self) -> Vec<Frame> {
        self.op.into_frames()
    }

    /// The next call.
    pub(super) fn call(&self) -> Call {
        let done = usize::try_from(self.done).expect("transfers fit memory");
        let (sector, sectors) = self.op.range().unwrap_or((0, 0));
        let at = sector * SECTOR_BYTES_U64 + self.done;
        let bytes = sectors * SECTOR_BYTES_U64 - self.done;
        match (&self.op, self.zeroing) {
            (Op::Read { .. }, _) => Call::Read { at, done },
            (Op::Write { .. }, _) if bytes == 0 && self.wants_flush() => Call::Sync,
            (Op::Write { durable, .. }, _) => {
                Call::Write { at, done, durable: *durable && self.durable == Durable::ByFlag }
            }
            (Op::Flush, _) => Call::Sync,
            (_, Zeroing::Hole) => {
                Call::Allocate { flags: FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, bytes }
            }
            (_, Zeroing::Range) => {
                Call::Allocate { flags: FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, at, bytes }
            }
            (_, Zeroing::Written) => Call::Zeros { at, bytes: bytes.min(ZEROS_BYTES_MAX) },
        }
    }

    /// Takes the result of the last call.
    pub(super) fn advance(&mut self, result: Called) -> Step {
        match result {
            Ok(moved) => self.moved(moved),
            Err(Errno::INTR) => Step::Again,
            Err(Errno::AGAIN | Errno::NOMEM | Errno::BUSY) if !matches!(self.op, Op::Discard { .. }) => {
                Step::NotNow(self.failure())
            }
            Err(Errno::NOSPC | Errno::DQUOT) => Step::NoRoom,
            Err(Errno::TIMEDOUT | Errno::CANCELED) => Step::CutOff(self.failure()),
            Err(Errno::NODEV | Errno::NXIO | Errno::SHUTDOWN) => Step::Done(Status::DeviceGone),
            Err(error) => self.failed(error),
        }
    }

    fn moved(&mut self, moved: usize) -> Step {
        let call = self.call();
        let total = self.op.range().map_or(0, |(_, sectors)| sectors * SECTOR_BYTES_U64);
        match call {
            Call::Sync | Call::Allocate { .. } => return Step::Done(Status::Success),
            // The end of the file: it is shorter than it was.
            Call::Read { .. } if moved == 0 => return Step::Done(Status::ReadError),
            Call::Write { .. } | Call::Zeros { .. } if moved == 0 => return Step::Done(Status::WriteError),
            Call::Read { .. } | Call::Write { .. } | Call::Zeros { .. } => {}
        }
        self.done += u64::try_from(moved).expect("a count of bytes");
        assert!(self.done <= total, "{} bytes moved of {total}", self.done);
        if self.done == total && !self.wants_flush() { Step::Done(Status::Success) } else { Step::Again }
    }

    fn failed(&mut self, error: Errno) -> Step {
        let is_unknown = matches!(error, Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::NOTTY);
        match (&self.op, self.zeroing) {
            (Op::WriteZeroes { .. }, Zeroing::Hole) if is_unknown => {
                self.zeroing = Zeroing::Range;
                Step::Again
            }
            (Op::WriteZeroes { .. }, Zeroing::Range) if is_unknown => {
                self.zeroing = Zeroing::Written;
                Step::Again
            }
            _ => Step::Done(self.failure()),
        }
    }

    /// Status of the command when a call has failed.
    fn failure(&self) -> Status {
        match self.op {
            Op::Discard { .. } => Status::Success,
            Op::Read { .. } => Status::ReadError,
            Op::Write { .. } | Op::WriteZeroes { .. } | Op::Flush => Status::WriteError,
        }
    }
}

/// Result of a call as io_uring gives it.
pub(super) fn called(result: i32) -> Called {
    usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result))
}

/// Result of a call as the standard library gives it.
pub(super) fn of_io(result: io::Result<usize>) -> Called {
    result.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(count: usize) -> Vec<Frame> {
        (0..count).map(|_| Frame::zeroed()).collect()
    }

    fn flagged(op: Op) -> Task {
        Task::new(op, Durable::ByFlag)
    }

    #[test]
    fn a_short_transfer_goes_on_where_it_ended() {
        let mut task = flagged(Op::Read { sector: 3, frames: frames(2) });
        assert_eq!(task.call(), Call::Read { at: 1536, done: 0 });
        assert_eq!(task.advance(Ok(5000)), Step::Again);
        assert_eq!(task.call(), Call::Read { at: 6536, done: 5000 });
        assert_eq!(task.advance(Err(Errno::INTR)), Step::Again);
        assert_eq!(task.advance(Ok(3192)), Step::Done(Status::Success));
    }

    #[test]
    fn errors_are_told_apart() {
        let read = || flagged(Op::Read { sector: 0, frames: frames(1) });
        let write = || flagged(Op::Write { sector: 0, frames: frames(1), durable: true });
        assert_eq!(read().advance(Ok(0)), Step::Done(Status::ReadError));
        assert_eq!(read().advance(Err(Errno::IO)), Step::Done(Status::ReadError));
        assert_eq!(read().advance(Err(Errno::NODEV)), Step::Done(Status::DeviceGone));
        assert_eq!(write().advance(Err(Errno::IO)), Step::Done(Status::WriteError));
        assert_eq!(write().advance(Err(Errno::NOSPC)), Step::NoRoom);
        for refusal in [Errno::AGAIN, Errno::NOMEM, Errno::BUSY] {
            assert_eq!(read().advance(Err(refusal)), Step::NotNow(Status::ReadError));
            assert_eq!(write().advance(Err(refusal)), Step::NotNow(Status::WriteError));
        }
        assert_eq!(write().advance(Err(Errno::TIMEDOUT)), Step::CutOff(Status::WriteError));
        assert_eq!(flagged(Op::Flush).advance(Err(Errno::IO)), Step::Done(Status::WriteError));
    }

    #[test]
    fn zeros_are_written_where_neither_holes_nor_ranges_can_be_made() {
        let mut task = flagged(Op::WriteZeroes { sector: 8, sectors: 4096, may_unmap: true });
        assert!(matches!(task.call(), Call::Allocate { at: 4096, bytes: 2_097_152, .. }));
        assert_eq!(task.advance(Err(Errno::OPNOTSUPP)), Step::Again);
        assert_eq!(task.advance(Err(Errno::OPNOTSUPP)), Step::Again);
        assert_eq!(task.call(), Call::Zeros { at: 4096, bytes: ZEROS_BYTES_MAX });
        assert_eq!(task.advance(Ok(1 << 20)), Step::Again);
        assert_eq!(task.call(), Call::Zeros { at: 4096 + (1 << 20), bytes: 1 << 20 });
        assert_eq!(task.advance(Ok(1 << 20)), Step::Done(Status::Success));
        let mut discard = flagged(Op::Discard { sector: 0, sectors: 8 });
        assert_eq!(discard.advance(Err(Errno::IO)), Step::Done(Status::Success));
    }

    #[test]
    fn a_device_is_not_asked_to_make_holes_unless_that_is_allowed() {
        let task = flagged(Op::WriteZeroes { sector: 0, sectors: 8, may_unmap: false });
        let zeros = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        assert_eq!(task.call(), Call::Allocate { flags: zeros, at: 0, bytes: 4096 });
    }

    #[test]
    fn a_flush_follows_durable_writes_whose_flag_is_forgotten() {
        let write = |durable| {
            let op = Op::Write { sector: 8, frames: frames(2), durable };
            Task::new(op, Durable::ByFlush)
        };
        let mut task = write(true);
        assert_eq!(task.call(), Call::Write { at: 4096, done: 0, durable: false });
        assert_eq!((task.advance(Ok(5000)), task.is_flush()), (Step::Again, false));
        assert_eq!((task.advance(Ok(3192)), task.call()), (Step::Again, Call::Sync));
        assert_eq!(task.advance(Err(Errno::INTR)), Step::Again);
        assert_eq!((task.advance(Ok(0)), task.is_flush()), (Step::Done(Status::Success), true));
        let mut fails = write(true);
        assert_eq!(fails.advance(Ok(8192)), Step::Again);
        assert_eq!((fails.advance(Err(Errno::IO)), fails.is_flush()), (Step::Done(Status::WriteError), true));
        let mut plain = write(false);
        assert_eq!((plain.advance(Ok(8192)), plain.is_flush()), (Step::Done(Status::Success), false));
    }
}
