//! A budget of bytes: credited evenly, spent by what is written.
//!
//! What is left of it says what is admitted (pages are written some milliseconds later, and journals and what is written anew
//! are not asked: what they cost is missing to those who are).

use super::{Shares, WHOLE};
use base::time::Instant;

const NANOS_PER_DAY: i128 = 86_400 * 1_000_000_000;
/// Nothing is credited beyond what comes in so long: who wrote nothing for a day may not write all of it at once.
const NANOS_KEPT: i128 = NANOS_PER_DAY / 24;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Bytes a day.
    rate: i128,
    /// Credit, in bytes times the nanoseconds of a day; negative when too much was written.
    credit: i128,
    /// Time, and bytes written, until which it was counted.
    counted: Option<(Instant, u64)>,
}

impl Budget {
    /// A budget of so many bytes a day, half of what is kept being there.
    #[must_use]
    pub fn new(bytes_per_day: u64) -> Budget {
        let rate = i128::from(bytes_per_day.max(1));
        Budget { rate, credit: rate * NANOS_KEPT / 2, counted: None }
    }

    /// Notes the time, and the bytes written in all: credits the one and charges the other.
    pub fn note(&mut self, now: Instant, bytes_written: u64) {
        let (then, before) = self.counted.unwrap_or((now, bytes_written));
        let passed = i128::from(now.0.saturating_sub(then.0));
        let spent = i128::from(bytes_written.saturating_sub(before));
        let credit = self.credit + self.rate * passed - spent * NANOS_PER_DAY;
        self.credit = credit.min(self.rate * NANOS_KEPT);
        self.counted = Some((now.max(then), bytes_written));
    }

    /// Level of the credit, as a share of the most that is kept, in 1024ths.
    #[must_use]
    pub fn level(&self) -> u32 {
        let share = self.credit * i128::from(WHOLE) / (self.rate * NANOS_KEPT);
        u32::try_from(share.max(0)).unwrap_or(WHOLE).min(WHOLE)
    }
}

/// Shares that are admitted while so much is left: all above three quarters; below, fewer of those that come for the first time;
/// none of them below a quarter, and fewer of the others.
#[must_use]
pub fn shares(level: u32) -> Shares {
    let quarter = WHOLE / 4;
    assert!(level <= WHOLE, "no more than everything is left: {level}");
    let first = level.saturating_sub(quarter) * 2;
    let shares = Shares { first: first.min(WHOLE), again: (level * 4).min(WHOLE) };
    assert!(
        shares.first <= shares.again,
        "what comes again is admitted before what comes for the first time"
    );
    shares
}
