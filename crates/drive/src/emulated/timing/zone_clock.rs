//! What the model knows of a zone: enough for its costs.

use super::window::Window;

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
#[derive(Clone, Debug)]
pub(super) struct ZoneClock {
    pub(super) condition: ZoneCondition,
    /// Bytes that the host has written since the last reset, in order of submission; with a window, its start.
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
    /// The group was chosen by hand: the drive's map does not move the zone.
    pub(super) is_pinned: bool,
    /// Window of the random write area, if the zone has one.
    pub(super) window: Option<Box<Window>>,
    /// End of what was written into the window, or passed by the write pointer.
    pub(super) area_end: u64,
}
