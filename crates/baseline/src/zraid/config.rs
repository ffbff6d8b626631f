//! Limits of an array of ZRAID: what follows from its drives, chunks and windows. The array is described as the baseline's is.

use crate::config::{CHUNK_BLOCKS_MAX, ConfigError, OTHER_RECORDS_MAX, RaiznConfig, count};
use base::erasure::PIECES_MAX;
use zone::device::Geometry;

/// Zones at the end of each drive for superblocks, logs and the partial parity of zones that end: one is written, one is empty.
pub const LOG_ZONES: u32 = 2;
/// Fewest drives: the two copies of a log of write pointers lie on other drives than the block that they speak of.
const MEMBERS_MIN: usize = 3;

/// Limits that follow from the drives.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Blocks of a drive's zone.
    pub capacity: u32,
    /// Half a window: partial parity lies so far above its stripe, and data no farther from the write pointer.
    pub half: u32,
    /// Logical zones that may be open.
    pub open_zones: usize,
}

impl Limits {
    /// Limits of an array, once what the engine relies on is checked.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn of(config: &RaiznConfig) -> Result<Limits, ConfigError> {
        let Geometry { zones, zone_capacity_blocks: capacity, .. } = config.geometry;
        let areas = config.geometry.areas.filter(|areas| areas.explicit_commit).ok_or(ConfigError::Areas)?;
        let (chunk, granule) = (config.chunk_blocks, areas.granule_blocks);
        if !(MEMBERS_MIN..=PIECES_MAX).contains(&config.members) {
            return Err(ConfigError::Members(config.members));
        }
        if config.geometry.volatile_cache {
            return Err(ConfigError::VolatileCache);
        }
        if chunk == 0 || !chunk.is_multiple_of(2 * granule) {
            return Err(ConfigError::Granule { chunk, granule });
        }
        if chunk > CHUNK_BLOCKS_MAX {
            return Err(ConfigError::ChunkBlocks(chunk));
        }
        if capacity == 0 || !capacity.is_multiple_of(chunk) {
            return Err(ConfigError::ZoneCapacity(capacity));
        }
        let half = areas.window_blocks / 2 / chunk * chunk;
        if half < chunk {
            return Err(ConfigError::Window(areas.window_blocks));
        }
        for most in [config.geometry.transfer_blocks_max, config.geometry.append_blocks_max] {
            if most < chunk {
                return Err(ConfigError::Transfer(most));
            }
        }
        let open = config.geometry.open_zones_max.min(config.geometry.active_zones_max);
        let open_zones =
            open.saturating_sub(LOG_ZONES).min(areas.zones_max).min(zones.saturating_sub(LOG_ZONES));
        if zones <= LOG_ZONES || open_zones == 0 {
            return Err(ConfigError::Zones);
        }
        let limits = Limits { capacity, half, open_zones: open_zones as usize };
        let needed = 2 * limits.mount_blocks();
        if needed > capacity {
            return Err(ConfigError::LogZone { needed, capacity });
        }
        Ok(limits)
    }

    /// Most blocks that a mount, or one zone of a log that replaces another, writes at once to the log of a drive: partial parity of all
    /// zones that end, and what is said of members and zones.
    #[must_use]
    pub fn mount_blocks(&self) -> u32 {
        count(self.open_zones) * self.half + OTHER_RECORDS_MAX
    }
}

/// Logical zones: logical zone i is zone i of every drive.
#[must_use]
pub fn logical_zones(config: &RaiznConfig) -> u32 {
    config.geometry.zones - LOG_ZONES
}
