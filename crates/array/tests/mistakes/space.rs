//! Overwritten for ever at the largest size the array allows: space never runs out.

use super::rig::{Rig, raid5};
use super::shape::Shape;
use array::log::config::Tuning;
use base::random::Random;
use base::units::DriveIndex;
use zone::stripe::Level;

/// Overwrites `times` the volume at random, each write in a padded stripe of its own.
fn overwrite(shape: &Shape, times: u64, missing: Option<usize>, seed: u64) {
    let mut rig = Rig::new(shape);
    let mut random = Random::from_seed(seed);
    rig.fill();
    if let Some(missing) = missing {
        rig.volume.fail_member(DriveIndex::at(missing));
    }
    let total = times * rig.config.volume_blocks;
    let mut written = 0;
    while written < total {
        let lba = random.below(rig.config.volume_blocks);
        let blocks = [1, 1, 1, 2, 5, 16][random.index(6)].min(rig.config.volume_blocks - lba);
        rig.write_fua(lba, blocks);
        written += blocks;
    }
    rig.verify();
    rig.rest();
    rig.remount();
    rig.verify();
}

#[test]
fn space_runs_out_with_tiny_zones() {
    overwrite(&raid5(), 20, None, 1);
    overwrite(&Shape { group_stripes: 1, ..raid5() }, 20, Some(1), 2);
    overwrite(&Shape { group_stripes: 256, zones: 9, capacity: 40, chunk_blocks: 2, ..raid5() }, 20, None, 3);
    overwrite(&Shape { level: Level::Raid0, members: 2, chunk_blocks: 4, ..raid5() }, 20, None, 4);
}

#[test]
fn space_runs_out_with_larger_zones() {
    overwrite(&Shape { zones: 14, capacity: 420, group_stripes: 64, ..raid5() }, 20, None, 5);
    overwrite(&Shape { zones: 12, capacity: 300, chunk_blocks: 4, ..raid5() }, 20, Some(3), 6);
}

/// Clients that never wait, on drives that take their time: as many writes in flight as the engine takes.
#[test]
fn space_runs_out_under_load() {
    for seed in 0..4 {
        let group_stripes = [1, 16, 256][seed as usize % 3];
        let config = Shape { group_stripes, zones: 10, ..raid5() }.config();
        let mut rig = Rig::with_seed(config, Tuning::default(), seed);
        rig.set_lazy();
        let mut random = Random::from_seed(seed);
        let blocks = rig.config.volume_blocks;
        rig.write_at_once(0..blocks);
        for _ in 0..4 {
            rig.write_at_once((0..2 * blocks).map(|_| random.below(blocks)));
        }
        rig.rest();
        rig.verify();
    }
}

/// Four drives of the size of a ZN540 of 4 TB: addresses take 40 bits, and are kept, moved and found again as such.
#[test]
fn addresses_that_do_not_fit_four_bytes() {
    let mut config = raid5().config();
    config.geometry.zones = 3690;
    config.geometry.zone_size_blocks = 1 << 19;
    config.geometry.zone_capacity_blocks = 275_712;
    config.volume_blocks = 3000;
    config.validate().unwrap();
    let mut rig = Rig::with_config(config);
    rig.fill();
    rig.write_fua(1000, 500);
    rig.trim(100, 50);
    rig.verify();
    rig.remount();
    rig.verify();
    rig.volume.fail_member(base::units::DriveIndex(3));
    rig.verify();
}
