//! Arrays of any level and size over small drives.

use super::device::Device;
use array::log::config::{ArrayConfig, OpenSegments};
use zone::device::{Geometry, ZonedDevice};
use zone::stripe::Level;

/// Shape of an array.
pub struct Shape {
    pub level: Level,
    pub members: usize,
    pub chunk_blocks: u32,
    pub group_stripes: u32,
    pub zones: u32,
    pub capacity: u32,
    /// Part of the largest volume, in percent.
    pub fill_percent: u64,
}

impl Shape {
    pub fn config(&self) -> ArrayConfig {
        let geometry = Geometry {
            zones: self.zones,
            zone_size_blocks: self.capacity.next_power_of_two(),
            zone_capacity_blocks: self.capacity,
            open_zones_max: 6,
            active_zones_max: 6,
            append_blocks_max: 16,
            transfer_blocks_max: 32,
            volatile_cache: false,
            areas: None,
        };
        let mut config = ArrayConfig {
            array: *b"array under test",
            level: self.level,
            members: self.members,
            chunk_blocks: self.chunk_blocks,
            group_stripes: self.group_stripes,
            open: OpenSegments::default(),
            volume_blocks: 1,
            geometry,
        };
        config.volume_blocks = (config.volume_blocks_max() * self.fill_percent / 100).max(1);
        config.validate().unwrap();
        config
    }
}

/// Drives as an array takes them.
pub fn boxed(devices: &[Option<Device>]) -> Vec<Option<Box<dyn ZonedDevice>>> {
    devices
        .iter()
        .map(|device| device.clone().map(|device| Box::new(device) as Box<dyn ZonedDevice>))
        .collect()
}
