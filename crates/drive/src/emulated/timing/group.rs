//! A channel group: the queue of writes that wait for buffer space, and the reads behind them.

use std::collections::VecDeque;

/// Padding of a zone, unit by unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Padding {
    pub(super) slot: u32,
    pub(super) units: u64,
}

/// A group.
#[derive(Debug)]
pub(super) struct Group {
    /// Writes that were not admitted yet, first come, first served.
    pub(super) waiting: VecDeque<u32>,
    /// Free bytes of the buffer; below zero after a write larger than the buffer.
    pub(super) credit: i64,
    /// Bytes of writes, ever.
    pub(super) submitted: u64,
    pub(super) admitted: u64,
    /// Reads with the count of admitted bytes they wait for.
    pub(super) reads: VecDeque<(u64, u32)>,
    /// Admitted and not done.
    pub(super) landing: u32,
    /// Programs from the buffer that are not done.
    pub(super) programs: u32,
    /// Nothing is admitted before this time.
    pub(super) blocked_until: u64,
    pub(super) padding: VecDeque<Padding>,
    /// Time at which the flash that backs windows has taken all that was written into them.
    pub(super) backing_free: u64,
}

impl Group {
    pub(super) fn new(buffer_bytes: u64) -> Group {
        Group {
            waiting: VecDeque::new(),
            credit: signed(buffer_bytes),
            submitted: 0,
            admitted: 0,
            reads: VecDeque::new(),
            landing: 0,
            programs: 0,
            blocked_until: 0,
            padding: VecDeque::new(),
            backing_free: 0,
        }
    }
}

/// Bytes of one command or buffer, which are far below 2^63.
#[inline]
pub(super) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).expect("sizes are below 2^63")
}
