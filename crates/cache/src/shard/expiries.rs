//! When the records of a zone expire: the first and the last of them to the millisecond, the others by samples.
//!
//! The record is a sample that lies where a sixteenth of the zone ends, so each is as likely to be one as it is long. That is the same
//! after a mount, costs nothing to keep, and over the zones of a drive tells the part that has expired to about a hundredth.

use crate::format::directory::{SAMPLES, ToldExpiries};
use crate::request::WallMillis;

/// Time at which what never expires does.
const NEVER: u64 = u64::MAX;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiries {
    /// Earliest of all records.
    first: u64,
    /// Latest of all records.
    last: u64,
    /// Bytes of records.
    bytes: u64,
    /// Bytes between samples.
    step: u64,
    /// When the records expire that are samples, in the order in which they came.
    samples: [u64; SAMPLES],
    count: usize,
}

impl Expiries {
    /// Those of a zone without records, that holds so many bytes.
    #[must_use]
    pub fn new(zone_bytes: u64) -> Expiries {
        let step = (zone_bytes / SAMPLES as u64).max(1);
        Expiries { first: NEVER, last: 0, bytes: 0, step, samples: [NEVER; SAMPLES], count: 0 }
    }

    /// Those of a zone that holds so many bytes, as a directory tells them.
    #[must_use]
    pub fn told(zone_bytes: u64, told: &ToldExpiries) -> Expiries {
        let ToldExpiries { first, last, bytes, samples, count } = *told;
        Expiries { first, last, bytes, samples, count: usize::from(count), ..Expiries::new(zone_bytes) }
    }

    /// As a directory tells them.
    #[must_use]
    pub fn tell(&self) -> ToldExpiries {
        let count = u8::try_from(self.count).expect("few samples");
        ToldExpiries { first: self.first, last: self.last, bytes: self.bytes, samples: self.samples, count }
    }

    /// A record is written.
    pub fn add(&mut self, expires: Option<WallMillis>, record_bytes: usize) {
        let at = expires.map_or(NEVER, |at| at.0);
        self.first = self.first.min(at);
        self.last = self.last.max(at);
        self.bytes += record_bytes as u64;
        // The first sample is in the middle of its part.
        while self.count < SAMPLES && self.bytes >= self.step / 2 + self.step * self.count as u64 {
            self.samples[self.count] = at;
            self.count += 1;
        }
    }

    /// Time from which on nothing of it is alive; `None` when there is none, or no record.
    #[must_use]
    pub fn last(&self) -> Option<WallMillis> {
        (self.bytes > 0 && self.last < NEVER).then_some(WallMillis(self.last))
    }

    /// True when some of it has expired.
    #[must_use]
    pub fn have_begun(&self, wall: WallMillis) -> bool {
        self.first <= wall.0
    }

    /// True when all of it has expired.
    #[must_use]
    pub fn are_over(&self, wall: WallMillis) -> bool {
        self.last().is_some_and(|last| last <= wall)
    }

    /// Bytes of records that have expired, as samples tell.
    #[must_use]
    pub fn expired_bytes(&self, wall: WallMillis) -> u64 {
        let expired = self.samples[..self.count].iter().filter(|at| **at <= wall.0).count() as u64;
        self.bytes * expired / self.count.max(1) as u64
    }
}

#[cfg(test)]
mod tests;
