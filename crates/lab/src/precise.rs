//! Counts as numbers to compute with.

/// A count of things in memory.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "counts below 2^53")]
pub fn precise(count: usize) -> f64 {
    count as f64
}

/// Bytes, nanoseconds, or a count of events.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "below 2^53: 9 PB, 104 days")]
pub fn precise_u64(count: u64) -> f64 {
    count as f64
}
