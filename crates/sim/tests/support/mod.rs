//! A cache over two drives in memory, for tests of what the simulation does not judge.

use base::time::Instant;
use cache::request::{Marks, Object, WallMillis};
use cache::{CacheConfig, CacheVolume, Options, format, mount};
use drive::emulated::EmulatedDrive;
use zone::device::{Geometry, ZonedDevice};
use zone::drives::DriveSet;

/// Blocks of a zone.
const ZONE_BLOCKS: u32 = 32;

/// An empty cache of two drives with so many zones.
pub fn new_cache(zones: u32, wall: WallMillis, options: Options) -> CacheVolume {
    let geometry = Geometry {
        zones,
        zone_size_blocks: ZONE_BLOCKS,
        zone_capacity_blocks: ZONE_BLOCKS,
        open_zones_max: 8,
        active_zones_max: 8,
        append_blocks_max: 32,
        transfer_blocks_max: 8,
        volatile_cache: false,
        areas: None,
    };
    let uuids = [[1; 16], [2; 16]];
    let device = |uuid| -> Option<Box<dyn ZonedDevice>> {
        Some(Box::new(EmulatedDrive::on_heap(geometry, uuid).expect("a geometry that works")))
    };
    let mut drives = DriveSet::new(uuids.into_iter().map(device).collect());
    let config = CacheConfig { cache: [9; 16], secret: [3; 16], drives: uuids.to_vec() };
    format(&mut drives, Instant(0), &config).expect("empty drives");
    mount(drives, Instant(0), wall, options).expect("a new cache")
}

/// Nothing is answered from copies in memory. The index has room to spare: stores that it cannot tell from others fill the journal, and
/// a zone that is kept for ever would hold its horizon.
pub fn roomy() -> Options {
    Options { memory_bytes: 16 << 20, copies_bytes_max: 0, object_mean: 100, ..Options::default() }
}

/// An object of 500 bytes that never expires.
pub fn object() -> Object {
    Object { value: vec![b'.'; 500].into(), flags: 0, marks: Marks::default(), expires: None }
}
