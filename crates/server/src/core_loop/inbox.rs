//! What a client has sent and nobody has looked at yet.
//!
//! One receive brings many small requests into the *staging* buffer, from where they are parsed
//! and payloads copied into frames. The rest of a long payload is received into its frames
//! directly, without a copy.
//!
//! ```text
//! staging   | parsed | from .. to: waiting | room              |
//! transfer  | frames of the open part, filled so far .. | room |   then what follows it
//! ```
//!
//! Invariant: while the kernel has the transfer, nothing is parsed.

use crate::nbd::transmission::Cut;
use crate::transfer::{Piece, Transfer};
use base::frame::{Frame, FramePool};
use base::units::BLOCK_BYTES;

/// Staging bytes of a new client: enough for negotiation, cheap for a thousand idle ones.
const STAGING_SMALL_BYTES: usize = 4096;

/// Staging bytes of a client that fills the small buffer: some sixty requests of 4 KiB per receive.
const STAGING_BYTES: usize = 256 << 10;
const _: () = assert!(STAGING_SMALL_BYTES < STAGING_BYTES);

/// Payloads up to this long are taken from staging once they are complete, so a client that
/// stalls in the middle of one holds no frames.
pub(crate) const STAGED_PAYLOAD_BYTES_MAX: usize = 64 << 10;

const _: () = assert!(STAGED_PAYLOAD_BYTES_MAX * 2 <= STAGING_BYTES);

/// The part of a write whose payload is arriving; its frames are in the transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) cut: Cut,
    pub(crate) bytes_filled: usize,
    pub(crate) bytes_total: usize,
}

impl Part {
    pub(crate) fn new(cut: Cut) -> Part {
        let bytes_total = usize::try_from(cut.bytes()).expect("a part is at most 1 MiB");
        Part { cut, bytes_filled: 0, bytes_total }
    }

    pub(crate) fn bytes_missing(&self) -> usize {
        self.bytes_total - self.bytes_filled
    }

    /// The place of the next byte: frame, first byte within it, and how many bytes fit there.
    fn place(&self, bytes_filled: usize) -> (usize, usize, usize) {
        let at = self.cut.first_byte_in_block() + bytes_filled;
        let (index, from) = (at / BLOCK_BYTES, at % BLOCK_BYTES);
        debug_assert!(bytes_filled < self.bytes_total, "a part that is full has no place left");
        (index, from, (BLOCK_BYTES - from).min(self.bytes_total - bytes_filled))
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// Transfer with the staging buffer; `None` while the kernel has it.
    transfer: Option<Box<Transfer>>,
    from: usize,
    to: usize,
    part: Option<Part>,
    /// The last receive filled all the room there was.
    is_cramped: bool,
    staging_bytes: usize,
}

impl Inbox {
    pub(crate) fn new() -> Inbox {
        Inbox {
            transfer: Some(Box::default()),
            from: 0,
            to: 0,
            part: None,
            is_cramped: false,
            staging_bytes: 0,
        }
    }

    /// True while a receive is in flight.
    pub(crate) fn is_receiving(&self) -> bool {
        self.transfer.is_none()
    }

    /// The bytes nobody has looked at.
    pub(crate) fn staged(&self) -> &[u8] {
        self.transfer.as_ref().map_or(&[], |transfer| &transfer.bytes[self.from..self.to])
    }

    /// Drops the first `count` staged bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        assert!(self.from + count <= self.to, "no more is parsed than was received");
        self.from += count;
    }

    /// The part that is being filled.
    pub(crate) fn part(&self) -> Option<Part> {
        self.part
    }

    /// Begins a part; `take` puts its frames into the vector it is given.
    pub(crate) fn begin_part(&mut self, cut: Cut, take: impl FnOnce(&mut Vec<Frame>)) {
        assert!(self.part.is_none(), "one part at a time");
        let transfer = self.transfer.as_mut().expect("parts begin while parsing");
        assert!(transfer.frames.is_empty(), "frames of the part before have left");
        take(&mut transfer.frames);
        assert!(transfer.frames.len() as u64 == cut.blocks(), "a frame for each block of the part");
        self.part = Some(Part::new(cut));
    }

    /// Moves staged bytes into the part's frames; true when the part is complete.
    pub(crate) fn fill_part(&mut self) -> bool {
        let part = self.part.as_mut().expect("a part is open");
        let transfer = self.transfer.as_mut().expect("parts are filled while parsing");
        while part.bytes_missing() > 0 && self.from < self.to {
            let (index, at, room) = part.place(part.bytes_filled);
            let count = room.min(self.to - self.from);
            let source = &transfer.bytes[self.from..self.from + count];
            transfer.frames[index].data[at..at + count].copy_from_slice(source);
            part.bytes_filled += count;
            self.from += count;
        }
        part.bytes_missing() == 0
    }

    /// Ends a complete part: its frames leave, `empty` stays in their place.
    pub(crate) fn end_part(&mut self, empty: Vec<Frame>) -> Vec<Frame> {
        let part = self.part.take().expect("a part is open");
        assert!(part.bytes_missing() == 0, "the volume gets whole parts");
        let transfer = self.transfer.as_mut().expect("parts end while parsing");
        std::mem::replace(&mut transfer.frames, empty)
    }

    /// Prepares a receive: room for the rest of the open part, and staging behind it if what
    /// follows the part is not payload as well (`then_staging`).
    pub(crate) fn leave(&mut self, then_staging: bool) -> Box<Transfer> {
        let mut transfer = self.transfer.take().expect("one receive at a time");
        self.make_room(&mut transfer);
        transfer.clear_pieces();
        if let Some(part) = self.part {
            assert!(self.from == self.to, "what was staged is in the part, for it comes first");
            let mut bytes_filled = part.bytes_filled;
            while bytes_filled < part.bytes_total {
                let (index, from, count) = part.place(bytes_filled);
                transfer.push_room(Piece::Frame { index, from, to: from + count });
                bytes_filled += count;
            }
        }
        if self.part.is_none() || then_staging {
            transfer.push_room(Piece::Bytes { from: self.to, to: transfer.bytes.len() });
        }
        transfer
    }

    /// The receive is over and has brought `count` bytes.
    pub(crate) fn come_home(&mut self, transfer: Box<Transfer>, count: usize) {
        assert!(self.transfer.is_none(), "one receive at a time");
        let mut left = count;
        if let Some(part) = &mut self.part {
            let into_part = left.min(part.bytes_missing());
            part.bytes_filled += into_part;
            left -= into_part;
        }
        self.to += left;
        assert!(self.to <= transfer.bytes.len(), "the kernel fills the room it was given");
        self.is_cramped = self.to == transfer.bytes.len();
        self.transfer = Some(transfer);
    }

    /// True when the staging buffer has grown.
    pub(crate) fn has_big_staging(&self) -> bool {
        self.staging_bytes > STAGING_SMALL_BYTES
    }

    /// Gives up an empty staging buffer; the next receive begins with a small one.
    pub(crate) fn shrink(&mut self) {
        assert!(self.from == self.to, "nothing waits in a buffer that is given up");
        let transfer = self.transfer.as_mut().expect("the receive was cancelled");
        transfer.bytes = Vec::new();
        (self.from, self.to, self.staging_bytes) = (0, 0, 0);
    }

    /// The client has gone; frames go home. Those the kernel has come with its completion.
    pub(crate) fn close(&mut self, pool: &mut FramePool) {
        if let Some(transfer) = &mut self.transfer {
            transfer.clear(pool);
        }
    }

    /// Moves what is staged to the front, and to a bigger buffer if the client needs one.
    fn make_room(&mut self, transfer: &mut Transfer) {
        transfer.bytes.copy_within(self.from..self.to, 0);
        self.to -= self.from;
        self.from = 0;
        if transfer.bytes.is_empty() {
            transfer.bytes.resize(STAGING_SMALL_BYTES, 0);
        } else if self.is_cramped {
            transfer.bytes.resize(STAGING_BYTES, 0);
        }
        self.staging_bytes = transfer.bytes.len();
        assert!(self.to < self.staging_bytes, "a receive has room");
    }
}
