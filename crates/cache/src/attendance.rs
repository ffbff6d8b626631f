//! Attendance: whether a cache was without a server for longer than it may be (ADR 56).
//!
//! ```text
//!   record of a life before ──> kept: the machine has run since, and no longer than the limit
//!            │             └──> absent: everything is forgotten; no record is made until superblocks say so
//!            └── made anew eight times in each span of the limit, and at a stop
//! ```
//! The clock is that of the machine since its start, suspended or not. Nothing proves how long a machine was off, so what
//! was served before its start is forgotten, and a record need not survive the machine.

use base::bytes::{array_at, put, u32_at, u64_at};
use base::checksum::crc32c;
use base::record_fields;
use base::time::{Instant, Nanos};
use std::fmt;

record_fields! { RECORD_BYTES;
    MAGIC: 0, 8, "`ZWCSEEN1`";
    CACHE: 8, 16, "cache UUID";
    BOOT: 24, 16, "identity of the start of the machine (`/proc/sys/kernel/random/boot_id`)";
    SEEN: 40, 8, "when the cache was served last, in nanoseconds since the start of the machine (`CLOCK_BOOTTIME`)";
    LIMIT: 48, 8, "longest time without a server that what it holds may have seen, in nanoseconds";
    RESERVED: 56, 4, "zero";
    CRC: 60, 4, "CRC32C of the record with this field zero";
}

/// Bytes of a record.
pub const RECORD_BYTES: usize = 64;
const MAGIC: &[u8; 8] = b"ZWCSEEN1";
/// Records in each span of the limit.
const RECORDS_A_LIMIT: u64 = 8;

/// Cache that is served, and the start of the machine it is served in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Identity of the cache.
    pub cache: [u8; 16],
    /// Identity of the start.
    pub boot: [u8; 16],
}

/// Why everything has to be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// No record says when the cache was served last.
    Unknown,
    /// The machine was started since.
    OtherStart,
    /// Nobody served it for this time.
    For(Nanos),
    /// Time without a server that the objects may have seen already, as the limit of an earlier life allowed.
    Allowed(Nanos),
}

/// A time for people.
struct Seconds(Nanos);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} s", self.0.0 / 1_000_000_000, self.0.0 / 100_000_000 % 10)
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Absence::Unknown => f.write_str("nothing tells when it was served last"),
            Absence::OtherStart => f.write_str("the machine was started since it was served last"),
            Absence::For(time) => write!(f, "it was without a server for {}", Seconds(*time)),
            Absence::Allowed(time) => {
                write!(f, "it was served last by a server that let it be alone for {}", Seconds(*time))
            }
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Attendance {
    place: Place,
    limit: Nanos,
    /// Time at which the cache was served last, or why it is unknown.
    seen: Result<Instant, Absence>,
    /// Time at which a record of this life was made last.
    recorded: Option<Instant>,
}

impl Attendance {
    /// Attendance of a life that begins, with the record of lives before it.
    #[must_use]
    pub fn new(place: Place, limit: Nanos, record: &[u8]) -> Attendance {
        Attendance { place, limit, seen: last_seen(place, limit, record), recorded: None }
    }

    /// The cache is served now. Returns why everything has to be forgotten before the next
    /// of them is answered.
    pub fn see(&mut self, now: Instant) -> Option<Absence> {
        let absence = match self.seen {
            Ok(last) if now < last => Some(Absence::OtherStart),
            Ok(last) => Some(now.since(last)).filter(|time| *time > self.limit).map(Absence::For),
            Err(absence) => Some(absence),
        };
        self.seen = Ok(now.max(self.seen.unwrap_or(now)));
        absence
    }

    /// Time from one record to the next.
    #[must_use]
    pub fn interval(&self) -> Nanos {
        Nanos(self.limit.0 / RECORDS_A_LIMIT)
    }

    /// The record of this moment, if one is due, or this life ends. To be asked for when nothing that has to be forgotten could
    /// come back.
    ///
    /// # Panics
    /// When nobody has seen the cache in this life.
    pub fn record(&mut self, ends: bool) -> Option<[u8; RECORD_BYTES]> {
        let now = self.seen.expect("it was seen in this life");
        let is_due = self.recorded.is_none_or(|last| now.since(last) >= self.interval());
        if !is_due && !ends {
            return None;
        }
        self.recorded = Some(now);
        let mut record = [0; RECORD_BYTES];
        put(&mut record, at::MAGIC, MAGIC);
        put(&mut record, at::CACHE, &self.place.cache);
        put(&mut record, at::BOOT, &self.place.boot);
        put(&mut record, at::SEEN, &now.0.to_le_bytes());
        put(&mut record, at::LIMIT, &self.limit.0.to_le_bytes());
        let crc = crc32c(&record);
        put(&mut record, at::CRC, &crc.to_le_bytes());
        Some(record)
    }
}

/// Time of the last service that a record proves, or why it proves none.
fn last_seen(place: Place, limit: Nanos, record: &[u8]) -> Result<Instant, Absence> {
    let record: &[u8; RECORD_BYTES] = record.try_into().map_err(|_| Absence::Unknown)?;
    let mut summed = *record;
    put(&mut summed, at::CRC, &[0; 4]);
    let is_whole = &record[..8] == MAGIC && crc32c(&summed) == u32_at(record, at::CRC);
    if !is_whole || array_at::<16>(record, at::CACHE) != place.cache {
        return Err(Absence::Unknown);
    }
    if array_at::<16>(record, at::BOOT) != place.boot {
        return Err(Absence::OtherStart);
    }
    let allowed = Nanos(u64_at(record, at::LIMIT));
    if allowed > limit {
        return Err(Absence::Allowed(allowed));
    }
    Ok(Instant(u64_at(record, at::SEEN)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { cache: [7; 16], boot: [8; 16] };
    const LIMIT: Nanos = Nanos(80);

    fn record(limit: Nanos, now: u64) -> [u8; RECORD_BYTES] {
        let mut own = Attendance::new(PLACE, limit, &[]);
        assert_eq!(own.see(Instant(now)), Some(Absence::Unknown));
        own.record(false).expect("the first is due")
    }

    #[test]
    fn a_record_proves_a_short_absence_alone() {
        let record = record(LIMIT, 1_000);
        let see = |place, limit, record: &[u8], now| Attendance::new(place, limit, record).see(Instant(now));
        assert_eq!(see(PLACE, LIMIT, &record, 1_080), None);
        assert_eq!(see(PLACE, LIMIT, &record, 1_081), Some(Absence::For(Nanos(81))));
        // A clock of one start of a machine does not go back.
        assert_eq!(see(PLACE, LIMIT, &record, 999), Some(Absence::OtherStart));
        assert_eq!(see(Place { boot: [9; 16], ..PLACE }, LIMIT, &record, 1_001), Some(Absence::OtherStart));
        assert_eq!(see(Place { cache: [9; 16], ..PLACE }, LIMIT, &record, 1_001), Some(Absence::Unknown));
        assert_eq!(see(PLACE, Nanos(79), &record, 1_001), Some(Absence::Allowed(LIMIT)));
        assert_eq!(see(PLACE, Nanos(81), &record, 1_081), None);
        assert_eq!(see(PLACE, LIMIT, &record[..63], 1_001), Some(Absence::Unknown));
        for byte in 0..RECORD_BYTES {
            let mut torn = record;
            torn[byte] ^= 1;
            assert!(see(PLACE, LIMIT, &torn, 1_001).is_some(), "byte {byte}");
        }
    }

    #[test]
    fn records_come_at_an_interval_and_at_the_end() {
        let mut own = Attendance::new(PLACE, LIMIT, &record(LIMIT, 50));
        assert_eq!((own.see(Instant(60)), own.record(false).is_some()), (None, true));
        assert_eq!((own.see(Instant(69)), own.record(false)), (None, None));
        assert_eq!((own.see(Instant(70)), own.record(false).is_some()), (None, true));
        assert_eq!((own.see(Instant(71)), own.record(true).is_some()), (None, true));
        // A server that did not run for so long is none.
        assert_eq!(own.see(Instant(152)), Some(Absence::For(Nanos(81))));
        assert_eq!(own.see(Instant(153)), None);
    }
}
