//! Drives, chunks and windows of the array.

use anyhow::{Context, Result, ensure};
use baseline::config::{Map, RaiznConfig};
use zone::device::Geometry;

/// Zones at the end of each drive for superblocks, logs and the partial parity of zones that end: one is written, one is empty.
pub const LOG_ZONES: u32 = 2;

/// An array.
#[derive(Clone, Debug)]
pub struct ZraidConfig {
    /// Count of drives.
    pub members: usize,
    /// Blocks of a chunk.
    pub chunk_blocks: u32,
    /// Drives.
    pub geometry: Geometry,
}

/// What follows from the drives.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Blocks of a drive's zone.
    pub capacity: u32,
    /// Half a window: partial parity lies so far above its stripe, and data no farther from the write pointer.
    pub half: u32,
    /// Logical zones that may be open.
    pub open_zones: usize,
}

impl ZraidConfig {
    /// Checks what the engine relies on.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn validate(&self) -> Result<Limits> {
        let Geometry { zones, zone_capacity_blocks: capacity, .. } = self.geometry;
        let areas = self.geometry.areas.filter(|areas| areas.explicit_commit);
        let areas = areas.context("ZRAID needs drives that commit their write areas when told to")?;
        let (chunk, granule) = (self.chunk_blocks, areas.granule_blocks);
        ensure!((3..=16).contains(&self.members), "ZRAID takes 3 to 16 drives");
        ensure!(!self.geometry.volatile_cache, "ZRAID sends no flushes: volatile caches are not for it");
        ensure!(zones > LOG_ZONES, "{zones} zones are too few: {LOG_ZONES} are for logs");
        ensure!(
            chunk > 0 && chunk.is_multiple_of(2 * granule),
            "a chunk is no two steps of {granule} blocks"
        );
        ensure!(capacity.is_multiple_of(chunk), "zones of {capacity} blocks do not hold whole chunks");
        let half = areas.window_blocks / 2 / chunk * chunk;
        ensure!(half >= chunk, "half a window of {} blocks is below a chunk", areas.window_blocks);
        for most in [self.geometry.transfer_blocks_max, self.geometry.append_blocks_max] {
            ensure!(most >= chunk, "transfers of {most} blocks are below a chunk");
        }
        let open = self.geometry.open_zones_max.min(self.geometry.active_zones_max);
        let open_zones = open.saturating_sub(LOG_ZONES).min(areas.zones_max);
        ensure!(open_zones > 0, "too few zones may be open");
        Ok(Limits { capacity, half, open_zones: open_zones as usize })
    }

    /// Logical zones: logical zone i is zone i of every drive.
    #[must_use]
    pub fn logical_zones(&self) -> u32 {
        self.geometry.zones - LOG_ZONES
    }

    /// Places of blocks: those of the baseline.
    #[must_use]
    pub fn map(&self) -> Map {
        let (members, chunk_blocks, geometry) = (self.members, self.chunk_blocks, self.geometry);
        RaiznConfig { array: *b"virtual array 02", members, chunk_blocks, geometry }.map()
    }
}
