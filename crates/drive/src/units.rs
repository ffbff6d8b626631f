//! Units of a zone whose blocks have their metadata in the zone itself: 59 blocks, then a block with their identities.
//!
//! What drives without metadata have in common, [`conventional`](crate::conventional) ones and those with zones of their own
//! ([`inband`](crate::inband)): the block of identities, the records of a journal for units that are not full, what is known of a zone
//! in use, and the turn that commands take in a zone.

pub mod identities;
pub mod identity;
pub mod life;
pub mod record;
pub(crate) mod turn;

/// Reason why blocks of a device could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The media does not return them.
    Unreadable,
    /// The device is gone.
    Gone,
}

/// Units whose identities a drive keeps in memory: 64 MiB of them at most.
pub const CACHED_UNITS: usize = 16_384;

/// Blocks of data in a unit.
pub const UNIT_BLOCKS: u32 = 59;
/// Blocks of a unit on the media, identities included.
pub const UNIT_PLACES: u32 = UNIT_BLOCKS + 1;

/// Unit of a block of a zone.
#[must_use]
pub fn unit_of(offset: u32) -> u32 {
    offset / UNIT_BLOCKS
}

/// Records that hold what all active zones need of the journal.
#[must_use]
pub fn live_records(active_zones_max: u32) -> u32 {
    let entries = active_zones_max.saturating_mul(UNIT_PLACES);
    entries.div_ceil(u32::try_from(record::RECORD_ENTRIES).expect("50")).saturating_add(1)
}
