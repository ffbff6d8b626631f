//! How long commands took of late, by powers of two.
//!
//! Two windows take turns, so that what is told is at least one window old and at most two.

use base::time::{Instant, Nanos};
use zone::condition::Latency;

/// Length of a window.
const WINDOW: Nanos = Nanos(10_000_000_000);

/// Count of buckets: one for each power of two of nanoseconds.
const BUCKETS: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Histogram {
    /// The window that began then, and the one before.
    since: Instant,
    now: [u64; BUCKETS],
    before: [u64; BUCKETS],
}

impl Histogram {
    pub(super) fn new() -> Histogram {
        Histogram { since: Instant(0), now: [0; BUCKETS], before: [0; BUCKETS] }
    }

    /// A command was answered at `at`, after so long.
    #[inline]
    pub(super) fn note(&mut self, at: Instant, took: Nanos) {
        if at.since(self.since) >= WINDOW {
            self.turn(at);
        }
        self.now[bucket_of(took)] += 1;
    }

    /// Latency of the commands in the two windows.
    pub(super) fn latency(&mut self, at: Instant) -> Latency {
        if at.since(self.since) >= WINDOW {
            self.turn(at);
        }
        let counts = |bucket: usize| self.now[bucket] + self.before[bucket];
        let count: u64 = (0..BUCKETS).map(counts).sum();
        let beyond = count / 100;
        let mut slower = 0;
        for bucket in (0..BUCKETS).rev() {
            slower += counts(bucket);
            if slower > beyond {
                return Latency { count, p99: Nanos((2_u64 << bucket) - 1) };
            }
        }
        Latency::default()
    }

    #[cold]
    fn turn(&mut self, at: Instant) {
        let is_old = at.since(self.since).0 >= 2 * WINDOW.0;
        self.before = if is_old { [0; BUCKETS] } else { self.now };
        self.now = [0; BUCKETS];
        self.since = at;
    }
}

/// Durations from 2^bucket nanoseconds on, below the double of that. The last buckets hold centuries.
fn bucket_of(took: Nanos) -> usize {
    let bucket = took.0.max(1).ilog2() as usize;
    bucket.min(BUCKETS - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_is_let_go() {
        let mut histogram = Histogram::new();
        (0..99).for_each(|_| histogram.note(Instant(5), Nanos(1000)));
        histogram.note(Instant(5), Nanos(5_000_000_000));
        assert_eq!(histogram.latency(Instant(6)), Latency { count: 100, p99: Nanos(1023) });
        histogram.note(Instant(5), Nanos(5_000_000_000));
        assert_eq!(histogram.latency(Instant(6)), Latency { count: 101, p99: Nanos((1 << 33) - 1) });
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut histogram = Histogram::new();
        histogram.note(Instant(1), Nanos(1 << 20));
        assert_eq!(histogram.latency(Instant(WINDOW.0)).count, 1, "one window later");
        histogram.note(Instant(WINDOW.0 + 1), Nanos(1));
        assert_eq!(histogram.latency(Instant(2 * WINDOW.0)).count, 1, "two windows later the first is gone");
        assert_eq!(histogram.latency(Instant(9 * WINDOW.0)), Latency::default());
    }

    #[test]
    fn extremes_have_a_bucket() {
        let mut histogram = Histogram::new();
        histogram.note(Instant(1), Nanos(0));
        histogram.note(Instant(1), Nanos(u64::MAX));
        assert_eq!(histogram.latency(Instant(1)).p99, Nanos((2 << (BUCKETS - 2)) - 1));
    }
}
