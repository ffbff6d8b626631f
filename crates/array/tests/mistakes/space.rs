//! Overwritten for ever at the largest size the array allows: space never runs out.

use super::rig::{Rig, raid5};
use super::support::world::{Shape, World};
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

/// The same with many requests in flight on drives that take their time, and now and then a crash.
#[test]
fn space_runs_out_over_crashes() {
    for seed in 0..6 {
        let chunk_blocks = [1, 4, 2][seed as usize % 3];
        let group_stripes = [1, 16, 256][seed as usize / 2];
        let mut world = World::new(&Shape { chunk_blocks, group_stripes, zones: 9, ..raid5() }, seed);
        let blocks = world.oracle.blocks();
        for lba in (0..blocks).step_by(8) {
            world.write(lba, 8.min(blocks - lba), true);
        }
        world.drain();
        for _ in 0..12 {
            for _ in 0..60 {
                let lba = world.random.below(blocks);
                world.write(lba, 1, true);
                world.turn();
            }
            world.crash(None).unwrap();
        }
        world.quiesce();
        world.verify_all();
    }
}

/// Clients that never wait: as many writes in flight as the engine takes.
#[test]
fn space_runs_out_under_load() {
    for seed in 0..4 {
        let group_stripes = [1, 16, 256][seed as usize % 3];
        let mut world = World::new(&Shape { group_stripes, zones: 10, ..raid5() }, seed);
        let blocks = world.oracle.blocks();
        for lba in 0..blocks {
            world.write(lba, 1, true);
        }
        for _ in 0..4 {
            for _ in 0..2 * blocks {
                let lba = world.random.below(blocks);
                world.write(lba, 1, true);
            }
            world.drain();
        }
        world.quiesce();
        world.verify_all();
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
