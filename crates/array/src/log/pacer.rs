//! The pacer: keeps something in the background from moving more bytes than an operator allows.
//!
//! Bytes are paid for when they are begun: the next may begin when the time is over that these take at the
//! rate. So the rate holds from the first byte on, and nothing is saved up while there is nothing to do.

use base::mutant::{self, Mutant};
use base::time::{Instant, Nanos};

/// A limit on bytes per second, or none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    bytes_per_second: Option<u64>,
    /// When what was begun is paid for.
    free_at: Instant,
    /// Somebody waits until then.
    wakes_at: Option<Instant>,
}

impl Pacer {
    /// Allows another rate from now on; `None` and zero are no limit.
    pub fn set_rate(&mut self, bytes_per_second: Option<u64>) {
        self.bytes_per_second = bytes_per_second.filter(|rate| *rate > 0);
        self.free_at = Instant(0);
    }

    /// The rate that is allowed; `None` without limit.
    #[must_use]
    pub fn rate(&self) -> Option<u64> {
        self.bytes_per_second
    }

    /// Nobody waits, until [`Pacer::may_begin`] says so.
    pub fn forget_waiting(&mut self) {
        self.wakes_at = None;
    }

    /// True when more bytes may be begun. If not, [`Pacer::wakes_at`] tells when.
    pub fn may_begin(&mut self, now: Instant) -> bool {
        let may_begin = self.free_at <= now || self.bytes_per_second.is_none();
        self.wakes_at = (!may_begin && !mutant::is(Mutant::PacerNeverWakes)).then_some(self.free_at);
        may_begin
    }

    /// Bytes are begun.
    pub fn begin(&mut self, now: Instant, bytes: u64) {
        let Some(rate) = self.bytes_per_second else { return };
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        self.free_at = self.free_at.max(now) + Nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    }

    /// When somebody who had to wait may go on.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Instant> {
        self.wakes_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_holds_whatever_the_size_of_a_step() {
        for step in [1, 1_000, 70_000] {
            let mut pacer = Pacer::default();
            pacer.set_rate(Some(100_000));
            let (mut now, mut begun) = (Instant(5), 0);
            while now < Instant(5 + 10_000_000_000) {
                assert!(pacer.may_begin(now));
                pacer.begin(now, step);
                begun += step;
                pacer.may_begin(now);
                now = pacer.wakes_at().expect("it has to wait");
            }
            assert!((1_000_000..1_000_000 + step).contains(&begun), "{begun} bytes in ten seconds");
        }
    }

    #[test]
    fn nothing_is_saved_up_and_another_rate_counts_at_once() {
        let mut pacer = Pacer::default();
        assert!(pacer.may_begin(Instant(0)));
        pacer.begin(Instant(0), u64::MAX);
        assert!(pacer.may_begin(Instant(0)), "there is no limit");
        pacer.set_rate(Some(1_000));
        pacer.begin(Instant(1_000_000_000_000), 1_000);
        assert!(!pacer.may_begin(Instant(1_000_999_999_999)));
        assert!(pacer.may_begin(Instant(1_001_000_000_000)));
        pacer.begin(Instant(1_001_000_000_000), 1_000_000);
        assert!(!pacer.may_begin(Instant(1_002_000_000_000)));
        pacer.set_rate(Some(0));
        assert!(pacer.may_begin(Instant(1_002_000_000_000)));
        assert_eq!(pacer.wakes_at(), None);
    }
}
