//! Sizing: as many zones as an array needs for its volume.

use array::log::config::{ArrayConfig, ConfigError};
use zone::format::SUPERBLOCK_ZONES;

/// Fewest zones of each drive that an array works with.
#[must_use]
pub fn zones_min(config: &ArrayConfig) -> u32 {
    SUPERBLOCK_ZONES + config.segments_overhead() + 1
}

/// The array with the fewest zones that are enough, and a volume of this many blocks.
///
/// # Errors
/// When there can be no such array, or they are not enough for the volume.
pub fn fit_zones(
    mut config: ArrayConfig,
    volume_blocks: u64,
    is_enough: impl Fn(&ArrayConfig) -> bool,
) -> Result<ArrayConfig, ConfigError> {
    config.geometry.zones = zones_min(&config);
    config.volume_blocks = 1;
    config.validate()?;
    while !is_enough(&config) {
        config.geometry.zones += 1;
    }
    config.volume_blocks = volume_blocks;
    config.validate()?;
    Ok(config)
}

/// The array with the fewest zones that hold a volume of this many blocks.
///
/// # Errors
/// As [`fit_zones`].
pub fn fit_volume(config: ArrayConfig, volume_blocks: u64) -> Result<ArrayConfig, ConfigError> {
    fit_zones(config, volume_blocks, |config| config.volume_blocks_max() >= volume_blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use array::log::config::OpenSegments;
    use zone::device::Geometry;
    use zone::stripe::Level;

    #[test]
    fn no_zone_too_many_and_none_too_few() {
        let geometry = Geometry {
            zones: 0,
            zone_size_blocks: 4096,
            zone_capacity_blocks: 4096,
            open_zones_max: 14,
            active_zones_max: 14,
            append_blocks_max: 16,
            transfer_blocks_max: 64,
            volatile_cache: false,
            areas: None,
        };
        let config = ArrayConfig {
            array: [1; 16],
            level: Level::Raid5,
            members: 4,
            chunk_blocks: 1,
            group_stripes: 256,
            open: OpenSegments::default(),
            volume_blocks: 0,
            geometry,
        };
        for volume_blocks in [1, 12_000, 100_000] {
            let fitted = fit_volume(config.clone(), volume_blocks).unwrap();
            assert_eq!(fitted.validate(), Ok(()));
            let mut fewer = fitted;
            fewer.geometry.zones -= 1;
            assert!(fewer.validate().is_err(), "{volume_blocks}");
        }
        assert!(fit_volume(ArrayConfig { chunk_blocks: 0, ..config }, 1).is_err());
    }
}
