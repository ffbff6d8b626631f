//! Random work beside the rebuild of a member, with crashes and more drives lost, against an oracle.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test")]

mod support;

use array::log::MountError;
use array::log::status::Health;
use base::random::Random;
use base::units::DriveIndex;
use support::world::{Shape, World};
use zone::stripe::Level;

/// Seeds of each test; more with ZONEWEAVE_SEEDS, others with ZONEWEAVE_SEED.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value: String| value.parse().ok());
    let first = number("ZONEWEAVE_SEED").unwrap_or(0);
    first..first + number("ZONEWEAVE_SEEDS").unwrap_or(count)
}

/// A world with work done and a member lost: in service, by hand, or with a crash. And that member.
fn degraded(seed: u64) -> (World, usize) {
    let mut random = Random::from_seed(seed);
    let mut shape = Shape::draw(&mut random);
    shape.level = if shape.level == Level::Raid0 { Level::Raid5 } else { shape.level };
    let mut world = World::new(&shape, seed);
    work(&mut world, 400);
    let lost = world.random.index(shape.members);
    match world.random.below(3) {
        0 => {
            world.kill(lost);
            // Somebody must notice.
            world.volume.fail_member(DriveIndex::at(lost));
        }
        1 => world.volume.fail_member(DriveIndex::at(lost)),
        _ => world.crash(Some(lost)).unwrap(),
    }
    work(&mut world, 200);
    (world, lost)
}

fn work(world: &mut World, steps: u64) {
    for _ in 0..world.random.below(steps) {
        world.step();
    }
}

/// The rebuild ends; then the array is whole, on the media too, and can lose any member.
fn expect_whole(world: &mut World, seed: u64) {
    world.quiesce();
    assert_eq!(world.health(), Health::Clean, "seed {seed}");
    world.verify_all();
    assert_eq!(world.check().problems, [], "seed {seed}");
    let members = world.config.members;
    let lost = world.random.index(members);
    world.crash(Some(lost)).unwrap();
    work(world, 100);
    world.quiesce();
    world.verify_all();
}

#[test]
fn rebuild_under_load_ends_whole() {
    for seed in seeds(60) {
        println!("seed {seed}");
        let (mut world, lost) = degraded(seed);
        world.replace(lost);
        assert!(world.is_rebuilding());
        work(&mut world, 400);
        expect_whole(&mut world, seed);
    }
}

#[test]
fn rebuild_goes_on_after_crashes() {
    let mut crashes = 0;
    for seed in seeds(60) {
        println!("seed {seed}");
        let (mut world, lost) = degraded(seed);
        world.replace(lost);
        for _ in 0..12 {
            work(&mut world, 12);
            if world.health() == Health::Clean {
                break;
            }
            crashes += 1;
            world.crash(None).unwrap();
            // The crash may have come before the new drive knew what it is.
            if world.failed().is_some() {
                world.replace(lost);
            }
        }
        expect_whole(&mut world, seed);
    }
    println!("{crashes} crashes");
}

#[test]
fn new_drive_dies_and_another_takes_its_place() {
    for seed in seeds(60) {
        println!("seed {seed}");
        let (mut world, lost) = degraded(seed);
        for _ in 0..3 {
            world.replace(lost);
            work(&mut world, 30);
            if world.random.chance(1, 2) {
                world.kill(lost);
                world.volume.fail_member(DriveIndex::at(lost));
            } else {
                let stale = world.devices[lost].clone();
                world.crash(Some(lost)).unwrap();
                // It comes back, and is not believed.
                world.devices[lost] = stale;
                if world.random.chance(1, 2) {
                    work(&mut world, 30);
                    world.crash(None).unwrap();
                }
            }
            assert_eq!(world.health(), Health::Degraded);
            work(&mut world, 60);
        }
        world.replace(lost);
        expect_whole(&mut world, seed);
    }
}

/// Another member dies before the new one holds all: reads may fail, writes do, nothing is wrong. When it
/// comes back, all is well.
#[test]
fn another_member_dies_and_comes_back() {
    let mut errors = 0;
    for seed in seeds(60) {
        println!("seed {seed}");
        let (mut world, lost) = degraded(seed);
        world.replace(lost);
        work(&mut world, 12);
        let members = world.config.members;
        let other = (lost + 1 + world.random.index(members - 1)) % members;
        world.errors_expected = true;
        world.write_errors_expected = true;
        world.kill(other);
        work(&mut world, 60);
        world.drain();
        world.verify_all();
        errors += world.errors_seen;
        if world.health() == Health::Failed {
            let kept = world.devices.clone();
            let refused = world.crash(Some(other)).unwrap_err();
            assert!(matches!(refused, MountError::TooFewMembers { .. }), "seed {seed}: {refused:?}");
            world.devices = kept;
        }
        world.errors_expected = false;
        world.write_errors_expected = false;
        world.crash(None).unwrap();
        // Or the rebuild was over when it died.
        if let Some(failed) = world.failed() {
            world.replace(failed);
        }
        expect_whole(&mut world, seed);
    }
    assert!(errors > 0, "the rebuild was always over");
}
