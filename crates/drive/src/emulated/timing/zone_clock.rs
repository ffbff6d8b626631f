//! What the model knows of a zone: enough for its costs.

/// Condition of a zone, as far as costs depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneCondition {
    /// Nothing written, not open.
    Empty,
    /// Open.
    Open,
    /// Active and not open.
    Closed,
    /// Full because the host wrote all of it.
    Written,
    /// Full because it was finished.
    Finished,
}

/// State of a zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZoneClock {
    pub(super) condition: ZoneCondition,
    /// Bytes that the host has written since the last reset, in order of submission.
    pub(super) written_bytes: u64,
    /// Writes in flight.
    pub(super) in_flight: u32,
    /// Acknowledged and less than a program unit.
    pub(super) gathered_bytes: u64,
    /// Written since the last change of block rows.
    pub(super) row_bytes: u64,
    /// Die that takes the next unit if loads are equal.
    pub(super) next_die: usize,
    /// End of the last read.
    pub(super) read_end: u64,
    pub(super) group: u32,
    /// End of what was written into the random write area; its start is `written_bytes`.
    pub(super) area_end: u64,
}
