//! How a command's outcome becomes its completion; shared by all drives of this crate.

use ::block::device as block_device;
use base::frame::Frame;
use base::units::ZoneIndex;
use zone::device::{Completion, Op, Status, Token, ZoneDescriptor};

/// Parts of a command that its completion repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) token: Token,
    pub(crate) zone: ZoneIndex,
    /// First block of a read or write; 0 for all others.
    pub(crate) offset: u32,
}

impl Asked {
    #[inline]
    pub(crate) fn of(token: Token, zone: ZoneIndex, op: &Op) -> Asked {
        let offset = match op {
            Op::Read { offset, .. } | Op::Write { offset, .. } => *offset,
            Op::Append { .. } => 0,
            Op::Reset
            | Op::Finish
            | Op::Open
            | Op::OpenWithArea
            | Op::Commit { .. }
            | Op::Close
            | Op::Report { .. }
            | Op::FindTurned { .. }
            | Op::Flush
            | Op::SelfTest { .. } => 0,
        };
        Asked { token, zone, offset }
    }

    /// The completion of a command that brings frames home.
    #[inline]
    pub(crate) fn done(self, outcome: Result<(), Status>, frames: Vec<Frame>) -> Completion {
        let Asked { token, zone, offset } = self;
        let status = outcome.err().unwrap_or(Status::Success);
        Completion { token, status, zone, offset, frames, report: Vec::new() }
    }

    /// The completion of an append: `outcome` holds the first block written.
    #[inline]
    pub(crate) fn appended(self, outcome: Result<u32, Status>, frames: Vec<Frame>) -> Completion {
        match outcome {
            Ok(offset) => Asked { offset, ..self }.done(Ok(()), frames),
            Err(status) => self.done(Err(status), frames),
        }
    }

    /// The completion of a command that has no answer but its status.
    #[inline]
    pub(crate) fn plain(self, outcome: Result<(), Status>) -> Completion {
        self.done(outcome, Vec::new())
    }

    /// The completion of a zone report.
    pub(crate) fn report(self, outcome: Result<Vec<ZoneDescriptor>, Status>) -> Completion {
        match outcome {
            Ok(report) => Completion { report, ..self.plain(Ok(())) },
            Err(status) => self.plain(Err(status)),
        }
    }

    /// The completion of a search for a zone: `outcome` holds the number of zones before it.
    pub(crate) fn found(self, outcome: Result<Option<(u32, ZoneDescriptor)>, Status>) -> Completion {
        match outcome {
            Ok(Some((offset, zone))) => Asked { offset, ..self }.report(Ok(vec![zone])),
            Ok(None) => self.plain(Ok(())),
            Err(status) => self.plain(Err(status)),
        }
    }
}

/// The frames of a command that will not be executed.
pub(crate) fn frames_of(op: Op) -> Vec<Frame> {
    match op {
        Op::Read { frames, .. } | Op::Write { frames, .. } | Op::Append { frames } => frames,
        Op::Reset
        | Op::Finish
        | Op::Open
        | Op::OpenWithArea
        | Op::Commit { .. }
        | Op::Close
        | Op::Report { .. }
        | Op::FindTurned { .. }
        | Op::Flush
        | Op::SelfTest { .. } => Vec::new(),
    }
}

/// Blocks of a transfer. More than a u32 can count exceeds every transfer limit all the same.
#[inline]
pub(crate) fn block_count(frames: &[Frame]) -> u32 {
    u32::try_from(frames.len()).unwrap_or(u32::MAX)
}

/// Status of a zoned drive for one of the block device below, whose commands lie within it.
pub(crate) fn status_of(status: block_device::Status) -> Status {
    match status {
        block_device::Status::Success => Status::Success,
        block_device::Status::OutOfRange => Status::InternalError,
        block_device::Status::ReadError => Status::UnrecoveredReadError,
        block_device::Status::WriteError => Status::WriteFault,
        block_device::Status::DeviceGone => Status::DeviceGone,
        block_device::Status::Stalled => Status::Stalled,
    }
}
