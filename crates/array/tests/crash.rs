//! Random work, crashes and lost drives against an oracle.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test")]

mod support;

use base::random::Random;
use support::world::{Shape, World};
use zone::stripe::Level;

/// Seeds of each test; more with ZONEWEAVE_SEEDS.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let count = std::env::var("ZONEWEAVE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(count);
    let first = std::env::var("ZONEWEAVE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    first..first + count
}

#[test]
fn random_work_is_read_back() {
    for seed in seeds(60) {
        println!("seed {seed}");
        let shape = Shape::draw(&mut Random::from_seed(seed));
        let mut world = World::new(&shape, seed);
        for _ in 0..1500 {
            world.step();
        }
        world.quiesce();
        world.verify_all();
        let report = world.check();
        assert_eq!(report.problems, [], "seed {seed}");
        assert!(report.blocks_checked > 0);
    }
}

#[test]
fn crashes_lose_nothing_acknowledged() {
    for seed in seeds(80) {
        println!("seed {seed}");
        let shape = Shape::draw(&mut Random::from_seed(seed));
        let mut world = World::new(&shape, seed);
        for _ in 0..8 {
            for _ in 0..world.random.below(300) {
                world.step();
            }
            world.crash(None).unwrap();
        }
        world.quiesce();
        world.verify_all();
        assert_eq!(world.check().problems, [], "seed {seed}");
    }
}

/// A drive is lost with the crash, and stays away; or comes back, and is not believed.
#[test]
fn crashes_with_a_drive_lost_lose_nothing() {
    for seed in seeds(60) {
        println!("seed {seed}");
        let mut shape = Shape::draw(&mut Random::from_seed(seed));
        shape.level = if shape.level == Level::Raid0 { Level::Raid5 } else { shape.level };
        let mut world = World::new(&shape, seed);
        for _ in 0..world.random.below(400) {
            world.step();
        }
        let lost = world.random.index(shape.members);
        let stale = world.devices[lost].clone();
        world.crash(Some(lost)).unwrap();
        for _ in 0..4 {
            for _ in 0..world.random.below(300) {
                world.step();
            }
            if world.random.chance(1, 2) {
                world.devices[lost] = stale.clone();
            }
            world.crash(None).unwrap();
        }
        world.quiesce();
        world.verify_all();
        let report = world.check();
        assert_eq!(report.problems_count, 1, "only the missing member: {:?}", report.problems);
    }
}

/// A drive dies in the middle of service.
#[test]
fn a_drive_that_dies_in_service_is_survived() {
    for seed in seeds(60) {
        println!("seed {seed}");
        let mut shape = Shape::draw(&mut Random::from_seed(seed));
        shape.level = if shape.level == Level::Raid0 { Level::Raid5 } else { shape.level };
        let mut world = World::new(&shape, seed);
        for _ in 0..world.random.below(400) {
            world.step();
        }
        let lost = world.random.index(shape.members);
        world.devices[lost].as_ref().unwrap().with(drive::emulated::EmulatedDrive::die);
        for _ in 0..world.random.below(400) {
            world.step();
        }
        world.quiesce();
        world.verify_all();
        world.crash(Some(lost)).unwrap();
        for _ in 0..200 {
            world.step();
        }
        world.quiesce();
        world.verify_all();
    }
}
