//! The write area: what small writes cost the flash, and where they are after a power failure.

use super::rig::{Rig, power_cycled, raid5};
use super::shape::Shape;
use array::log::Counters;
use array::log::config::{ArrayConfig, Tuning};
use array::log::policy::adaptive::DriveTraits;
use base::random::Random;
use zone::device::Areas;

const AREAS: Areas = Areas { zones_max: 14, window_blocks: 256, granule_blocks: 4, explicit_commit: true };

fn array() -> ArrayConfig {
    let shape = Shape { zones: 40, capacity: 4096, fill_percent: 40, ..raid5() };
    let mut config = shape.config();
    config.geometry.areas = Some(AREAS);
    (config.geometry.open_zones_max, config.geometry.active_zones_max) = (14, 14);
    config.validate().unwrap();
    config
}

fn rig(write_area_zones: u32) -> Rig {
    let mut rig = Rig::with_tuning(array(), Tuning { write_area_zones, ..Tuning::default() });
    rig.rest();
    rig
}

/// Blocks that were programmed in zones for each block of clients, between two counts.
fn flash_blocks_per_user_block(before: &Counters, after: &Counters) -> f64 {
    let count = |blocks: u64| f64::from(u32::try_from(blocks).unwrap());
    count(after.flash_blocks() - before.flash_blocks())
        / count(after.user_blocks_written - before.user_blocks_written)
}

/// Flash blocks for each of some writes, forced and one at a time, once slots are full after so many.
fn cost(rig: &mut Rig, fill: u32, mut lba: impl FnMut() -> u64) -> f64 {
    for _ in 0..fill {
        rig.write_fua(lba(), 1);
    }
    let before = *rig.volume.engine.counters();
    for _ in 0..6_000 {
        rig.write_fua(lba(), 1);
    }
    flash_blocks_per_user_block(&before, rig.volume.engine.counters())
}

#[test]
fn lone_writes_go_to_the_log_in_full_stripes() {
    for (zones, most, least) in [(4, 1.45, 1.3), (0, 4.2, 3.9)] {
        let mut rig = rig(zones);
        let mut random = Random::from_seed(1);
        let blocks = rig.config.volume_blocks;
        let cost = cost(&mut rig, 3_000, || random.below(blocks));
        println!("{zones} zones: {cost:.3} blocks of flash for each lone write");
        assert!((least..=most).contains(&cost), "{zones} zones: {cost}");
        rig.verify_by(7);
    }
}

#[test]
fn hot_blocks_are_overwritten_in_their_slots() {
    let mut rig = rig(6);
    let mut random = Random::from_seed(2);
    let blocks = rig.config.volume_blocks;
    // 3,060 slots: the cold tenth fills what hot blocks leave.
    let cost =
        cost(
            &mut rig,
            24_000,
            || if random.chance(9, 10) { random.below(1_024) } else { random.below(blocks) },
        );
    println!("{cost:.3} blocks of flash for each of 90 % to 4 MiB");
    assert!((0.1..=0.25).contains(&cost), "{cost}");
    rig.verify_by(7);
}

#[test]
fn what_leaves_slots_is_one_command_of_each_drive() {
    let tuning = Tuning { write_area_zones: 1, ..Tuning::default() };
    let mut rig = Rig::with_tuning(array().adaptive(DriveTraits::default()), tuning);
    rig.rest();
    let mut random = Random::from_seed(3);
    let blocks = rig.config.volume_blocks;
    // 510 slots are full by then.
    (0..1_000).for_each(|_| rig.write_fua(random.below(blocks), 1));
    rig.rest();
    rig.device(0).take_writes();
    let before = rig.volume.engine.counters().slot_blocks_moved;
    (0..500).for_each(|_| rig.write_fua(random.below(blocks), 1));
    rig.rest();
    let moved = rig.volume.engine.counters().slot_blocks_moved - before;
    let joined: Vec<usize> = rig.device(0).take_writes().into_iter().filter(|blocks| *blocks > 1).collect();
    // Stripes of three blocks, for a sixteenth of the slots.
    let commands = usize::try_from(moved).unwrap() / 3 / 11;
    assert!(commands > 10, "{moved} blocks left");
    assert_eq!(joined, vec![11; commands], "{moved} blocks left");
}

#[test]
fn what_slots_hold_outlives_a_power_failure_and_a_drive() {
    let mut rig = rig(2);
    for lba in (0..100).chain(20..50) {
        rig.write_fua(lba, 1);
    }
    assert!(rig.volume.engine.counters().slot_blocks_absorbed >= 30, "{:?}", rig.volume.engine.counters());
    for lost in 0..4 {
        let mut devices = power_cycled(&rig.devices);
        devices[lost] = None;
        let mut other = Rig::with_tuning(array(), Tuning::default());
        other.blocks.clone_from(&rig.blocks);
        other.mount(devices).unwrap();
        other.verify_by(1);
    }
}
