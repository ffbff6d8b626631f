//! Patience with a client that owes us something: the rest of a message, or the reading of its
//! replies.
//!
//! Within the limit it must finish or move at least [`PROGRESS_BYTES_MIN`]; a byte now and then
//! does not count, or a client could hold buffers for as long as it likes.

use base::time::{Instant, Nanos};

/// Bytes that count as progress: about 2 KB/s with the default limit of 30 s.
const PROGRESS_BYTES_MIN: usize = 64 << 10;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    due: Option<Instant>,
    bytes_since: usize,
}

impl Watch {
    /// Begins to watch, unless we do already.
    pub(crate) fn arm(&mut self, now: Instant, limit: Nanos) {
        if self.due.is_none() {
            self.due = Some(now + limit);
            self.bytes_since = 0;
        }
    }

    /// Nothing is owed.
    pub(crate) fn disarm(&mut self) {
        self.due = None;
    }

    /// Bytes have moved.
    pub(crate) fn progress(&mut self, now: Instant, limit: Nanos, count: usize) {
        self.bytes_since += count;
        if self.due.is_some() && self.bytes_since >= PROGRESS_BYTES_MIN {
            self.due = Some(now + limit);
            self.bytes_since = 0;
        }
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Time for which something has been owed without progress, of a watch with this limit.
    pub(crate) fn idle_for(&self, now: Instant, limit: Nanos) -> Option<Nanos> {
        let due = self.due?;
        assert!(limit.0 <= due.0, "a watch is asked with the limit that it was armed with");
        Some(now.since(Instant(due.0 - limit.0)))
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trickle_is_no_progress() {
        let limit = Nanos(10);
        let mut watch = Watch::default();
        watch.arm(Instant(0), limit);
        watch.progress(Instant(9), limit, PROGRESS_BYTES_MIN - 1);
        assert!(watch.is_over(Instant(10)));
        assert_eq!(watch.idle_for(Instant(7), limit), Some(Nanos(7)));
        watch.progress(Instant(9), limit, 1);
        assert!(!watch.is_over(Instant(10)));
        assert_eq!(watch.due(), Some(Instant(19)));
        watch.disarm();
        assert!(!watch.is_over(Instant(99)));
    }
}
