//! Blocks that nothing can bring back: they fail, they stay known, and they cost no more space than others.

use super::rig::{Rig, Stored, power_cycled, raid5};
use super::shape::Shape;
use base::random::Random;
use std::collections::BTreeSet;
use zone::format::oob::{Kind, Role};
use zone::stripe::Level;

/// Flips a bit in the data of a share of the blocks of a member.
fn rot(rig: &Rig, member: usize, percent: u64, random: &mut Random) {
    let rotten: Vec<Stored> =
        rig.stored(member).into_iter().filter(|_| random.chance(percent, 100)).collect();
    for block in rotten {
        rig.device(member).with(|drive| drive.corrupt(block.zone, block.offset, 77, 1));
    }
}

/// Reads all blocks; returns those that fail. None may be wrong.
pub fn unreadable(rig: &mut Rig) -> BTreeSet<u64> {
    let mut failed = BTreeSet::new();
    for lba in 0..rig.config.volume_blocks {
        match rig.read(lba, 1) {
            Some(found) => assert_eq!(found, [rig.blocks[lba as usize]], "block {lba}"),
            None => assert!(failed.insert(lba)),
        }
    }
    failed
}

fn beyond_rescue(shape: &Shape, seed: u64) -> Rig {
    let mut rig = Rig::new(shape);
    let mut random = Random::from_seed(seed);
    rig.fill();
    for _ in 0..100 {
        rig.write(random.below(rig.config.volume_blocks), 1);
    }
    rig.rest();
    rot(&rig, 1, 10, &mut random);
    let mut devices = power_cycled(&rig.devices);
    if shape.level == Level::Raid5 {
        devices[0] = None;
    }
    rig.mount(devices).unwrap();
    rig
}

/// Blocks beyond rescue in every segment, and a client that overwrites others for ever: there must be room,
/// and what is lost must stay lost, over power failures, until it is written or trimmed.
#[test]
fn segments_with_lost_blocks_are_never_erased() {
    for (seed, shape) in
        [raid5(), Shape { level: Level::Raid0, chunk_blocks: 2, ..raid5() }].iter().enumerate()
    {
        let mut rig = beyond_rescue(shape, seed as u64);
        let lost = unreadable(&mut rig);
        assert!(lost.len() > 20, "{} are lost", lost.len());
        let half = rig.config.volume_blocks / 2;
        let mut random = Random::from_seed(9);
        for _ in 0..6 * rig.config.volume_blocks {
            rig.write_fua(random.below(half), 1);
        }
        let left: BTreeSet<u64> = lost.into_iter().filter(|lba| *lba >= half).collect();
        assert!(rig.volume.engine.counters().blocks_lost > 0, "none was written off");
        assert_eq!(unreadable(&mut rig), left);
        rig.rest();
        rig.remount();
        assert_eq!(unreadable(&mut rig), left, "after a power failure");
        let (written, trimmed) = (*left.first().unwrap(), *left.last().unwrap());
        rig.write(written, 1);
        rig.trim(trimmed, 1);
        rig.remount();
        let found = unreadable(&mut rig);
        assert!(!found.contains(&written) && !found.contains(&trimmed));
        rig.fill();
        rig.remount();
        assert_eq!(unreadable(&mut rig), BTreeSet::new());
    }
}

/// Every tombstone rots.
pub fn rot_tombstones(rig: &Rig) {
    let is_tombstone = |block: &Stored| {
        block.oob.place.role == Role::Data && block.protected.is_some_and(|it| it.kind == Kind::Tombstone)
    };
    let blocks: Vec<Stored> = (0..4).flat_map(|member| rig.stored(member)).filter(is_tombstone).collect();
    assert!(!blocks.is_empty());
    for block in &blocks {
        rig.device(block.member).with(|drive| drive.corrupt(block.zone, block.offset, 5, 1));
    }
}

/// The record of trimmed blocks rots where nothing can rebuild it: the volume is there all the same, and
/// what the record may have hidden is not read.
#[test]
fn lost_tombstone_brings_trimmed_blocks_back_or_stops_the_mount() {
    let mut rig = Rig::new(&Shape { level: Level::Raid0, ..raid5() });
    rig.write(0, 80);
    rig.trim(20, 30);
    rig.write(25, 5);
    rig.rest();
    rot_tombstones(&rig);
    rig.remount();
    assert_eq!(rig.report.regions_doubtful, [0]);
    let mut failed = unreadable(&mut rig);
    assert!((20..25).chain(30..50).all(|lba| failed.contains(&lba)), "{failed:?}");
    failed.retain(|lba| *lba < 100);
    assert!(!(25..30).any(|lba| failed.contains(&lba)), "written after the trim");
    // The rest of the region is written anew, and collection writes the record off.
    let mut random = Random::from_seed(1);
    for _ in 0..4 * rig.config.volume_blocks {
        rig.write_fua(100 + random.below(rig.config.volume_blocks - 100), 1);
    }
    rig.rest();
    rig.remount();
    assert_eq!(rig.report.regions_doubtful, [0; 0], "written off, and written anew");
    let mut found = unreadable(&mut rig);
    found.retain(|lba| *lba < 100);
    assert_eq!(found, failed);
    rig.trim(0, rig.config.volume_blocks);
    rig.remount();
    assert_eq!(unreadable(&mut rig), BTreeSet::new());
}
