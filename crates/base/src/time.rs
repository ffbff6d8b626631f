//! Time as a value. The engine is told what time it is and never asks; whoever drives it decides
//! whether that is the wall clock or the virtual clock of a simulation.

use std::ops::Add;

/// A point in time, in nanoseconds since an origin that the driver of the engine chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// A span of `micros` microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros * 1_000)
    }
}

impl Instant {
    /// The time from `earlier` until now; zero when `earlier` lies ahead.
    #[must_use]
    pub fn since(self, earlier: Instant) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Nanos> for Instant {
    type Output = Instant;

    fn add(self, span: Nanos) -> Instant {
        Instant(self.0.saturating_add(span.0))
    }
}
