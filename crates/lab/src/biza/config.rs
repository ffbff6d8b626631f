//! Drives, groups of zones and thresholds of the array.

use anyhow::{Result, ensure};
use zone::device::{Areas, Geometry};

/// Groups of zones, by what is written to them.
pub const GROUPS: usize = 4;
/// Blocks that will be overwritten while they are in a window.
pub const HIGH_PROFIT: usize = 0;
/// Blocks that are overwritten often, but not so soon.
pub const HIGH_REVENUE: usize = 1;
/// All other blocks of clients.
pub const TRIVIAL: usize = 2;
/// Blocks that the collector moves.
pub const MOVED: usize = 3;

/// Open zones of each drive for the groups, as published.
const ZONES: [u32; GROUPS] = [2, 4, 6, 2];
/// Open zones in all are at most a half of the zones that are not needed for the volume: the published drives have thousands.
const SPARE_PER_OPEN_ZONE: u32 = 2;
/// Windows of the published array, and its caches in blocks: 4 GiB, 1 GiB and 64 MiB beside four drives of 14 windows of 1 MiB.
const PUBLISHED_WINDOWS_BLOCKS: u64 = 4 * 14 * 256;
const PUBLISHED_CACHES_BLOCKS: [u64; 3] = [1 << 20, 1 << 18, 1 << 14];
/// Most drives.
pub const MEMBERS_MAX: usize = 16;

/// An array.
#[derive(Clone, Debug)]
pub struct BizaConfig {
    /// Count of drives; one block of each stripe is parity.
    pub members: usize,
    /// Size of the volume.
    pub volume_blocks: u64,
    /// Drives.
    pub geometry: Geometry,
    /// Blocks are told apart by the selector; else clients' blocks all go to the same zones.
    pub selects: bool,
    /// Clients write to zones on other channels than the collector does.
    pub avoids: bool,
}

impl BizaConfig {
    /// Checks what the engine relies on, and returns the areas of the drives.
    ///
    /// # Errors
    /// When there can be no such array.
    pub fn validate(&self) -> Result<Areas> {
        let areas = self.geometry.areas.filter(|areas| areas.explicit_commit);
        let Some(areas) = areas else {
            anyhow::bail!("BIZA needs drives that commit their write areas when told to")
        };
        let capacity = self.geometry.zone_capacity_blocks;
        ensure!((3..=MEMBERS_MAX).contains(&self.members), "BIZA takes 3 to {MEMBERS_MAX} drives");
        ensure!(!self.geometry.volatile_cache, "BIZA sends no flushes: volatile caches are not for it");
        ensure!(capacity.is_multiple_of(areas.granule_blocks), "zones are not made of whole granules");
        ensure!(
            areas.window_blocks.is_multiple_of(areas.granule_blocks),
            "windows are not made of whole granules"
        );
        ensure!(capacity >= 2 * areas.window_blocks, "zones have no room for two windows");
        let (zones, open) = (self.zones_for_volume(), self.zones().into_iter().sum::<u32>());
        ensure!(
            self.geometry.zones > zones + open,
            "{} zones are too few for {zones} of data and {open} open ones",
            self.geometry.zones
        );
        Ok(areas)
    }

    /// Blocks of data in each stripe.
    #[must_use]
    pub fn data_blocks(&self) -> usize {
        self.members - 1
    }

    /// Blocks of data that fit a zone of each drive.
    #[must_use]
    pub fn segment_blocks(&self) -> u64 {
        self.data_blocks() as u64 * u64::from(self.geometry.zone_capacity_blocks)
    }

    /// Zones of each drive that the volume fills.
    fn zones_for_volume(&self) -> u32 {
        u32::try_from(self.volume_blocks.div_ceil(self.segment_blocks())).unwrap_or(u32::MAX)
    }

    /// Zones of each drive that the volume does not need.
    #[must_use]
    pub fn zones_spare(&self) -> u32 {
        self.geometry.zones.saturating_sub(self.zones_for_volume())
    }

    /// Open zones of each drive for each group: as published, or fewer where drives allow fewer or have few to spare.
    #[must_use]
    pub fn zones(&self) -> [u32; GROUPS] {
        let areas = self.geometry.areas.map_or(0, |areas| areas.zones_max);
        let most = areas.min(self.geometry.open_zones_max).min(self.geometry.active_zones_max);
        let published: u32 = ZONES.iter().sum();
        let open = most.min(self.zones_spare() / SPARE_PER_OPEN_ZONE).min(published);
        let scaled = ZONES.map(|zones| (zones * open / published).max(1));
        if self.selects {
            return scaled;
        }
        let clients = scaled[..MOVED].iter().sum();
        [0, 0, clients, scaled[MOVED]]
    }

    /// Blocks that the three caches of the selector remember.
    #[must_use]
    pub fn caches_blocks(&self) -> [u64; 3] {
        PUBLISHED_CACHES_BLOCKS
            .map(|blocks| (blocks * self.windows_blocks() / PUBLISHED_WINDOWS_BLOCKS).max(1))
    }

    /// Blocks of all windows that drives allow.
    #[must_use]
    pub fn windows_blocks(&self) -> u64 {
        let areas = self
            .geometry
            .areas
            .map_or(0, |areas| areas.zones_max.min(self.geometry.open_zones_max) * areas.window_blocks);
        u64::from(areas) * self.members as u64
    }
}
