//! Outlet of a connection: what is on its way to the client, one send at a time.

use super::STALL_LIMIT;
use crate::core_loop::watch::Watch;
use crate::resp::answer::Output;
use crate::transfer::{Piece, Transfer};
use base::time::{Instant, Nanos};

/// Output buffer that a connection keeps.
const OUTPUT_BYTES_KEPT: usize = 16 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Outlet {
    /// Bytes that are being sent.
    sending_bytes: usize,
    is_sending: bool,
    spare: Vec<u8>,
    watch: Watch,
}

impl Outlet {
    /// True while the kernel has something to send.
    pub(super) fn is_sending(&self) -> bool {
        self.is_sending
    }

    /// Memory of what is sent, and of the buffer that is kept.
    pub(super) fn bytes_held(&self) -> usize {
        self.sending_bytes + self.spare.capacity()
    }

    /// Time since when the client owes the reading of bytes.
    pub(super) fn idle_for(&self, now: Instant) -> Option<Nanos> {
        self.watch.idle_for(now, STALL_LIMIT)
    }

    /// What there is to send, unless a send is under way.
    pub(super) fn begin(&mut self, output: &mut Output, now: Instant) -> Option<Box<Transfer>> {
        if self.is_sending || output.is_empty() {
            return None;
        }
        let empty = std::mem::take(&mut self.spare);
        assert!(self.sending_bytes == 0, "{} bytes are sent, and no send is under way", self.sending_bytes);
        self.sending_bytes = output.len();
        let (bytes, values) = output.take(empty);
        let mut transfer = Box::<Transfer>::default();
        let mut at = 0;
        let end = bytes.len();
        transfer.bytes = bytes;
        for (place, value) in values {
            assert!((at..=end).contains(&place), "values lie among the bytes, in order");
            if place > at {
                transfer.push_room(Piece::Bytes { from: at, to: place });
            }
            transfer.push_value(value);
            at = place;
        }
        if end > at {
            transfer.push_room(Piece::Bytes { from: at, to: end });
        }
        self.is_sending = true;
        self.watch.arm(now, STALL_LIMIT);
        Some(transfer)
    }

    /// `count` bytes are sent; true when that was all.
    pub(super) fn advance(&mut self, transfer: &mut Transfer, count: usize, now: Instant) -> bool {
        assert!(self.is_sending, "what is sent was begun");
        transfer.advance(count);
        self.watch.progress(now, STALL_LIMIT, count);
        if !transfer.is_done() {
            return false;
        }
        let mut bytes = std::mem::take(&mut transfer.bytes);
        bytes.clear();
        if bytes.capacity() <= OUTPUT_BYTES_KEPT {
            self.spare = bytes;
        }
        (self.is_sending, self.sending_bytes) = (false, 0);
        self.watch.disarm();
        true
    }
}
