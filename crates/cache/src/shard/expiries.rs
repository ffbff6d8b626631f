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
    /// Expiry times in the form that directories tell.
    told: ToldExpiries,
    /// Bytes between samples.
    step: u64,
}

impl Expiries {
    /// Expiry times of a zone without records, that holds so many bytes.
    #[must_use]
    pub fn new(zone_bytes: u64) -> Expiries {
        let step = (zone_bytes / SAMPLES as u64).max(1);
        let told = ToldExpiries { first: NEVER, last: 0, bytes: 0, samples: [NEVER; SAMPLES], count: 0 };
        Expiries { told, step }
    }

    /// Expiry times of a zone that holds so many bytes, as a directory tells them.
    #[must_use]
    pub fn told(zone_bytes: u64, told: &ToldExpiries) -> Expiries {
        Expiries { told: *told, ..Expiries::new(zone_bytes) }
    }

    /// As a directory tells them.
    #[must_use]
    pub fn tell(&self) -> &ToldExpiries {
        &self.told
    }

    /// A record is written.
    pub fn add(&mut self, expires: Option<WallMillis>, record_bytes: usize) {
        let at = expires.map_or(NEVER, |at| at.0);
        let told = &mut self.told;
        told.first = told.first.min(at);
        told.last = told.last.max(at);
        told.bytes += record_bytes as u64;
        // The first sample is in the middle of its part.
        while told.taken().len() < SAMPLES && told.bytes >= self.step / 2 + self.step * u64::from(told.count)
        {
            told.samples[usize::from(told.count)] = at;
            told.count += 1;
        }
    }

    /// Time from which on nothing of it is alive; `None` when there is none, or no record.
    #[must_use]
    pub fn last(&self) -> Option<WallMillis> {
        (self.told.bytes > 0 && self.told.last < NEVER).then_some(WallMillis(self.told.last))
    }

    /// True when some of it has expired.
    #[must_use]
    pub fn have_begun(&self, wall: WallMillis) -> bool {
        self.told.first <= wall.0
    }

    /// True when all of it has expired.
    #[must_use]
    pub fn are_over(&self, wall: WallMillis) -> bool {
        self.last().is_some_and(|last| last <= wall)
    }

    /// Bytes of records that have expired, as samples tell.
    #[must_use]
    pub fn expired_bytes(&self, wall: WallMillis) -> u64 {
        let expired = self.told.taken().iter().filter(|at| **at <= wall.0).count() as u64;
        self.told.bytes * expired / u64::from(self.told.count).max(1)
    }
}

#[cfg(test)]
mod tests;
