//! Upkeep of a served array of md beside clients, and what could not be made right: as it is told.

use super::doubt::{self, DoubtReport};
use super::report::ScrubReport;
use crate::progress::Progress;
use array::inplace::status::Status;
use block::md::SECTOR_BYTES_U64;
use serde::{Deserialize, Serialize};
use std::fmt;

/// See the module.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Upkeep {
    /// The resync that goes on, of one member's sectors.
    pub resync: Option<Progress>,
    /// Rates that an operator lets resync, rebuild and scrub have; null without a server.
    #[serde(default)]
    pub sync_speed: Option<SpeedReport>,
    /// A rebuild goes on; not when all that is left are rows that cannot be rebuilt.
    #[serde(default)]
    pub is_rebuilding: bool,
    /// The scrub that goes on, or the last one since the server started.
    #[serde(default)]
    pub scrub: Option<ScrubReport>,
    /// Rows of 4 KiB whose parities nobody could make right.
    pub rows_in_doubt: u64,
    /// Blocks that may be wrong, for `--force` took parities for right as the server began.
    #[serde(default)]
    pub in_doubt: Vec<DoubtReport>,
}

/// Rates in bytes a second of each member.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct SpeedReport {
    /// Rate while clients are at work, as md's `sync_speed_min`; null where it gives way to nobody.
    pub min: Option<u64>,
    /// Rate that is never exceeded, as md's `sync_speed_max`; null where there is none.
    pub max: Option<u64>,
}

impl Upkeep {
    /// Upkeep of an array that is served.
    pub fn of(status: &Status, bytes_per_second: Option<u64>) -> Upkeep {
        let total = status.resync_total * SECTOR_BYTES_U64;
        let left = status.resync_left * SECTOR_BYTES_U64;
        let resync = || Progress::new(total - left.min(total), total, bytes_per_second);
        Upkeep {
            resync: status.is_resyncing.then(resync),
            sync_speed: Some(SpeedReport { min: status.rates.min, max: status.rates.max }),
            is_rebuilding: status.is_rebuilding,
            scrub: status.scrub.as_ref().map(|scrub| ScrubReport::of(scrub, bytes_per_second)),
            rows_in_doubt: u64::try_from(status.rows_in_doubt).unwrap_or(u64::MAX),
            in_doubt: Vec::new(),
        }
    }
}

impl fmt::Display for Upkeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(resync) = &self.resync {
            writeln!(f, "resync    {resync}")?;
        }
        if let Some(scrub) = &self.scrub {
            writeln!(f, "scrub     {scrub}")?;
        }
        if self.rows_in_doubt > 0 {
            writeln!(
                f,
                "doubt     the parities of {} rows of 4 KiB could not be made right",
                self.rows_in_doubt
            )?;
        }
        doubt::in_words(&self.in_doubt).map_or(Ok(()), |said| writeln!(f, "forced    {said}"))
    }
}
