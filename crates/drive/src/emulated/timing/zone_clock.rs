//! What the model knows of a zone: enough for its costs.

use super::noise::Noise;
use super::profile::Profile;
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

impl ZoneClock {
    /// Returns a zone that was never written.
    pub(super) fn empty(profile: &Profile, zone: u32, noise: &mut Noise) -> ZoneClock {
        let row_bytes = profile.program.row_bytes;
        ZoneClock {
            condition: ZoneCondition::Empty,
            written_bytes: 0,
            in_flight: 0,
            gathered_bytes: 0,
            // Zones smaller than a row share one; each stands somewhere in it.
            row_bytes: if profile.geometry.zone_capacity_bytes < row_bytes {
                noise.below(row_bytes)
            } else {
                0
            },
            next_die: noise.index(profile.program.dies_per_group as usize),
            read_end: u64::MAX,
            group: profile.group_of(zone),
            is_pinned: false,
            window: None,
            area_end: 0,
        }
    }

    /// The die of a stripe: the zone's stripes go round the dies of its group.
    pub(super) fn die_of(&self, zone: u32, stripe: u64, dies_per_group: u32) -> usize {
        let count = u64::from(dies_per_group);
        let die = u64::from(self.group) * count + (u64::from(zone) + stripe) % count;
        usize::try_from(die).expect("a place in a table of dies")
    }

    /// Bytes of a read, from its start, that lie before the window of the zone; all of them where it has none.
    pub(super) fn committed_part(&self, offset_bytes: u64, bytes: u64) -> u64 {
        match self.window {
            Some(_) => self.written_bytes.saturating_sub(offset_bytes).min(bytes),
            None => bytes,
        }
    }
}
