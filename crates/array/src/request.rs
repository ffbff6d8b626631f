//! What a client asks of a volume and what it is told.
//!
//! Addresses and sizes are in whole 4-KiB blocks; front ends translate. A front end takes frames
//! for a write's payload from the volume's pool and hands them over with the request; frames of a
//! read come with its reply and go back to the pool once their contents are sent.

use base::frame::{Frame, FramePool};
use base::time::Instant;
use base::units::Lba;

/// The front end's name for a request; it comes back with the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A request.
#[derive(Debug)]
pub struct Request {
    /// Comes back with the reply.
    pub id: RequestId,
    /// Operation that is asked.
    pub op: RequestOp,
}

/// Operation on the volume. Ranges lie within the volume and are not empty; the front end has checked that.
#[derive(Debug)]
pub enum RequestOp {
    /// Read blocks. Blocks never written, or trimmed, read as zeros.
    Read {
        /// First block.
        lba: Lba,
        /// Count of blocks.
        blocks: u32,
    },
    /// Write blocks. The reply comes when they survive a crash and the loss of m drives.
    Write {
        /// First block.
        lba: Lba,
        /// The data; metadata is filled in by the engine.
        frames: Vec<Frame>,
        /// Also survive a power failure that empties the drives' volatile caches.
        force_unit_access: bool,
    },
    /// Make blocks read as zeros (trim and write-zeroes). As durable as a write.
    Trim {
        /// First block.
        lba: Lba,
        /// Count of blocks.
        blocks: u64,
        /// As for a write.
        force_unit_access: bool,
    },
    /// Make everything received before this request survive a power failure.
    Flush,
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done, and as durable as was asked.
    Done,
    /// The data cannot be read or written: more drives failed than the array can lose, or a block
    /// and what it could be rebuilt from are both damaged.
    IoError,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Reply {
    /// The request.
    pub id: RequestId,
    /// Outcome of the request.
    pub outcome: Outcome,
    /// The blocks of a read that is `Done`; empty otherwise.
    pub frames: Vec<Frame>,
}

/// A volume as a front end drives it: one thread calls [`Volume::turn`] in a loop.
pub trait Volume {
    /// Size in blocks.
    fn blocks(&self) -> u64;

    /// The pool that payload frames come from and go back to.
    fn frames(&mut self) -> &mut FramePool;

    /// Frames a front end may have out at this moment: for a write before it submits, for a read
    /// as many as it asks for. Below the size of a request, the request waits.
    fn client_frames_available(&self) -> usize;

    /// Accepts a request. It is answered by a later turn.
    fn submit(&mut self, now: Instant, request: Request);

    /// Makes what progress is possible without waiting and adds the answers to `replies`.
    /// True when another turn may make more progress at once.
    fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool;

    /// Returns the time at which the next turn is due even if nothing happens.
    fn next_deadline(&self) -> Option<Instant>;

    /// True while a drive is away and waited for: some requests may not be answered before it is back.
    fn awaits_drive(&self) -> bool {
        false
    }

    /// True when nothing is answered any more, for good: whoever serves the volume ends.
    fn has_ended(&self) -> bool {
        false
    }

    /// Asked before the thread sleeps: false when something has come that another turn would take. From a true answer on, whatever comes
    /// makes a descriptor readable that the thread waits for.
    fn may_sleep(&mut self) -> bool {
        true
    }
}

/// A volume with an operator: it is served with a control socket.
pub trait Controlled: Volume {
    /// Answers one line of the control protocol (see `server::control`).
    fn control(&mut self, now: Instant, line: &str) -> String;
}
