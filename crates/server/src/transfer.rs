//! Transfers: bytes and frames on their way into or out of a socket.
//!
//! A transfer owns its buffers and lists, in order, the *pieces* of them that a socket fills or
//! sends. It leaves with an operation of the ring and comes home with its completion, so nobody
//! can touch what the kernel is reading or writing.
//!
//! ```text
//! pieces  bytes[0..28] | frame 0 [0..4096] | frame 1 [0..4096] | bytes[28..44] | ...
//!                                  ^ done: everything before is sent (or received)
//! ```

use base::frame::{Frame, FramePool};
use base::units::BLOCK_BYTES;
use cache::value::Value;

/// A run of bytes within a transfer's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// `bytes[from..to]`.
    Bytes {
        /// First byte.
        from: usize,
        /// End of the piece: one past its last byte.
        to: usize,
    },
    /// `frames[index].data[from..to]`.
    Frame {
        /// Index of the frame.
        index: usize,
        /// First byte.
        from: usize,
        /// End of the piece: one past its last byte.
        to: usize,
    },
    /// `values[index][from..to]`.
    Value {
        /// Index of the value.
        index: usize,
        /// First byte.
        from: usize,
        /// End of the piece: one past its last byte.
        to: usize,
    },
}

impl Piece {
    fn bounds(&mut self) -> (&mut usize, usize) {
        match self {
            Piece::Bytes { from, to } | Piece::Frame { from, to, .. } | Piece::Value { from, to, .. } => {
                (from, *to)
            }
        }
    }
}

/// Buffers and the list of their pieces.
#[derive(Debug, Default)]
pub struct Transfer {
    /// Headers and small payloads.
    pub bytes: Vec<u8>,
    /// Blocks of data.
    pub frames: Vec<Frame>,
    /// Values of a cache, sent from where they are. Others read them too: nothing is received into them.
    values: Vec<Value>,
    pieces: Vec<Piece>,
    pieces_done: usize,
}

impl Transfer {
    /// True when nothing is left to send or receive.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.pieces_done == self.pieces.len()
    }

    /// Pieces left to send or receive.
    #[must_use]
    pub fn pieces_left(&self) -> &[Piece] {
        let (done, all) = (self.pieces_done, self.pieces.len());
        assert!(done <= all, "{done} pieces of {all} are done");
        &self.pieces[self.pieces_done..]
    }

    /// Appends what `write` adds to `bytes` as something to send. Neighbours become one piece.
    pub fn push_bytes(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let from = self.bytes.len();
        write(&mut self.bytes);
        let to = self.bytes.len();
        assert!(to >= from, "bytes are added, and none taken");
        if let Some(Piece::Bytes { to: end, .. }) = self.pieces.last_mut()
            && *end == from
        {
            *end = to;
        } else if to > from {
            self.pieces.push(Piece::Bytes { from, to });
        }
    }

    /// Appends bytes `from..to` of `frame`, which moves in.
    pub fn push_frame(&mut self, frame: Frame, from: usize, to: usize) {
        assert!(from < to, "a piece has bytes");
        assert!(to <= BLOCK_BYTES, "a piece lies in its frame");
        self.pieces.push(Piece::Frame { index: self.frames.len(), from, to });
        self.frames.push(frame);
    }

    /// Appends a value to send.
    pub fn push_value(&mut self, value: Value) {
        assert!(!value.is_empty(), "a piece has bytes");
        self.pieces.push(Piece::Value { index: self.values.len(), from: 0, to: value.len() });
        self.values.push(value);
    }

    /// Appends room to receive into: bytes `from..to` of a buffer that is there already.
    pub fn push_room(&mut self, piece: Piece) {
        let is_there = match piece {
            Piece::Bytes { from, to } => from < to && to <= self.bytes.len(),
            Piece::Frame { index, from, to } => from < to && to <= BLOCK_BYTES && index < self.frames.len(),
            Piece::Value { .. } => false,
        };
        assert!(is_there, "room of a buffer that is there and may be written: {piece:?}");
        self.pieces.push(piece);
    }

    /// Forgets the pieces, done or not; buffers stay.
    pub fn clear_pieces(&mut self) {
        self.pieces.clear();
        self.pieces_done = 0;
    }

    /// Ready for reuse: frames go home, bytes and pieces are forgotten, capacity stays.
    pub fn clear(&mut self, pool: &mut FramePool) {
        pool.give_many(&mut self.frames);
        self.bytes.clear();
        self.clear_pieces();
    }

    /// Notes that the first `count` bytes of what was left are done.
    ///
    /// # Panics
    /// When less was left.
    pub fn advance(&mut self, count: usize) {
        let mut left = count;
        while left > 0 {
            assert!(self.pieces_done < self.pieces.len(), "no more is done than was left");
            let (from, to) = self.pieces[self.pieces_done].bounds();
            let step = left.min(to - *from);
            *from += step;
            left -= step;
            if *from == to {
                self.pieces_done += 1;
            }
        }
    }

    /// True when there is something that may only be sent.
    #[must_use]
    pub fn has_values(&self) -> bool {
        !self.values.is_empty()
    }

    /// Where a piece begins, and its bytes. What a value holds must not be written.
    pub(crate) fn memory_of(&mut self, piece: Piece) -> (*mut u8, usize) {
        let slice = match piece {
            Piece::Bytes { from, to } => &mut self.bytes[from..to],
            Piece::Frame { index, from, to } => &mut self.frames[index].data[from..to],
            Piece::Value { index, from, to } => {
                let slice = &self.values[index][from..to];
                return (slice.as_ptr().cast_mut(), slice.len());
            }
        };
        (slice.as_mut_ptr(), slice.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_headers_are_one_piece_and_progress_counts_bytes() {
        let mut transfer = Transfer::default();
        transfer.push_bytes(|out| out.extend([1; 16]));
        transfer.push_bytes(|out| out.extend([2; 16]));
        transfer.push_frame(Frame::zeroed(), 512, 1024);
        transfer.push_bytes(|_| {});
        transfer.push_bytes(|out| out.push(3));
        assert_eq!(transfer.pieces_left().len(), 3);
        transfer.advance(40);
        assert_eq!(transfer.pieces_left()[0], Piece::Frame { index: 0, from: 520, to: 1024 });
        transfer.advance(505);
        assert!(transfer.is_done());
    }
}
