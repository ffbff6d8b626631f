//! Intake of a connection: bytes that were received and not parsed, and the buffer that they lie in.
//!
//! ```text
//! input   | consumed | from .. to: not parsed | room |    the kernel has it while it receives
//! ```
//!
//! The input begins small, grows when receives fill it, and shrinks when they do not. Beyond [`INPUT_BYTES`] it grows only for a
//! command that is longer, in step with what has arrived.

use super::STALL_LIMIT;
use crate::core_loop::watch::Watch;
use crate::resp::front::Front;
use crate::transfer::{Piece, Transfer};
use base::time::{Instant, Nanos};

/// Input bytes of a client that has said nothing.
pub(super) const INPUT_BYTES_MIN: usize = 1 << 10;
/// Input bytes of a client that sends a lot.
pub(super) const INPUT_BYTES: usize = 64 << 10;
/// Input bytes that it keeps from one long command to the next, while memory is ample.
const INPUT_BYTES_KEPT: usize = 256 << 10;
const _: () = assert!(INPUT_BYTES_MIN <= INPUT_BYTES && INPUT_BYTES <= INPUT_BYTES_KEPT);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Intake {
    input: Option<Box<Transfer>>,
    /// Size of the input that the kernel has.
    lent_bytes: usize,
    from: usize,
    to: usize,
    /// The last receive filled all the room there was.
    is_cramped: bool,
    watch: Watch,
}

impl Intake {
    pub(super) fn new() -> Intake {
        Intake { input: Some(Box::default()), ..Intake::default() }
    }

    /// True while the kernel has the input.
    pub(super) fn is_lent(&self) -> bool {
        self.input.is_none()
    }

    /// Bytes that were not seen, or not understood.
    pub(super) fn unparsed(&self) -> &[u8] {
        self.input.as_ref().map_or(&[][..], |input| &input.bytes[self.from..self.to])
    }

    /// Memory of the input, wherever it is.
    pub(super) fn bytes_held(&self) -> usize {
        self.input.as_ref().map_or(self.lent_bytes, |input| input.bytes.capacity())
    }

    /// Time since when the client owes the rest of a command.
    pub(super) fn idle_for(&self, now: Instant) -> Option<Nanos> {
        self.watch.idle_for(now, STALL_LIMIT)
    }

    pub(super) fn consume(&mut self, count: usize) {
        assert!(self.from + count <= self.to, "no more is parsed than was received");
        self.from += count;
        assert!(self.input.is_some(), "what the kernel has is not parsed");
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
    }

    /// Sees to room for a receive; false when memory is short. `needed` bytes are those of a command that is begun; `is_first` clients may take what they need.
    pub(super) fn make_room(&mut self, front: &Front, needed: usize, is_first: bool) -> bool {
        let input = self.input.as_mut().expect("room is made between receives");
        let bytes = input.bytes.len();
        let kept = if front.memory.is_ample() { INPUT_BYTES_KEPT } else { INPUT_BYTES };
        if self.from == self.to && bytes > kept {
            input.bytes = Vec::new();
        }
        // What is left is the beginning of a command, which is moved once.
        if self.from > 0 {
            input.bytes.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        let bytes = input.bytes.len();
        if self.to < bytes {
            let more = (bytes * 4).min(INPUT_BYTES).saturating_sub(bytes);
            if self.is_cramped && more > 0 && front.memory.fits(more) {
                input.bytes.resize(bytes + more, 0);
            }
            return true;
        }
        let wanted = if bytes == 0 { INPUT_BYTES_MIN } else { bytes * 2 };
        let wanted = wanted.min(needed.max(INPUT_BYTES));
        if !(is_first || bytes < INPUT_BYTES_MIN || front.memory.fits(wanted - bytes)) {
            return false;
        }
        input.bytes.resize(wanted, 0);
        true
    }

    /// The input leaves for the kernel.
    pub(super) fn lend(&mut self, now: Instant, is_mid_command: bool) -> Box<Transfer> {
        let mut input = self.input.take().expect("one receive at a time");
        assert!(self.to < input.bytes.len(), "a receive has room");
        self.lent_bytes = input.bytes.capacity();
        input.clear_pieces();
        input.push_room(Piece::Bytes { from: self.to, to: input.bytes.len() });
        if is_mid_command {
            self.watch.arm(now, STALL_LIMIT);
        } else {
            self.watch.disarm();
        }
        input
    }

    /// The input comes back with `count` bytes more.
    pub(super) fn take_back(&mut self, mut input: Box<Transfer>, count: usize, now: Instant) {
        assert!(self.input.is_none(), "one receive at a time");
        let bytes = input.bytes.len();
        let room = bytes - self.to;
        self.to += count;
        assert!(self.to <= bytes, "the kernel fills the room it was given");
        assert!(self.lent_bytes >= bytes, "the kernel gives back {bytes} bytes of {}", self.lent_bytes);
        self.is_cramped = count == room;
        if self.to * 8 < bytes && bytes > INPUT_BYTES_MIN {
            input.bytes.truncate((bytes / 2).max(INPUT_BYTES_MIN));
            input.bytes.shrink_to_fit();
        }
        self.input = Some(input);
        self.watch.progress(now, STALL_LIMIT, count);
    }
}
