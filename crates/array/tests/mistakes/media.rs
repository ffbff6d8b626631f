//! What the media do by themselves: bits flip, blocks become unreadable, zones turn read-only or
//! offline.

use super::rig::{Rig, Stored, power_cycled, raid5};
use super::shape::Shape;
use array::log::check::{Problem, Record};
use array::log::status::Health;
use base::random::Random;
use base::units::{DriveIndex, ZoneIndex};
use std::collections::BTreeSet;
use zone::device::ZoneState;
use zone::stripe::Level;

const STRIDE: u64 = 4096 + 64;

/// Newest copies of user blocks on a member.
pub fn live_on(rig: &Rig, member: usize) -> Vec<Stored> {
    let copies = rig.copies();
    let newest = |copy: &Stored| {
        rig.blocks[copy.lba() as usize] != 0
            && copies.iter().all(|other| other.lba() != copy.lba() || other.sequence() <= copy.sequence())
    };
    let mut seen = BTreeSet::new();
    let mut live: Vec<Stored> = copies.iter().copied().filter(newest).collect();
    // A moved block has two copies with one sequence: which one is read is not known here.
    live.retain(|copy| copies.iter().filter(|other| other.sequence() == copy.sequence()).count() == 1);
    live.retain(|copy| copy.member == member && seen.insert(copy.lba()));
    live
}

fn flip(rig: &Rig, copy: &Stored, random: &mut Random) {
    let byte = if random.chance(1, 3) { 4096 + random.below(64) } else { random.below(STRIDE) };
    let mask = 1 << random.below(8);
    rig.device(copy.member).with(|drive| drive.corrupt(copy.zone, copy.offset, byte as usize, mask));
}

pub fn filled(shape: &Shape, seed: u64) -> Rig {
    let mut rig = Rig::new(shape);
    let mut random = Random::from_seed(seed);
    rig.fill();
    for _ in 0..40 {
        rig.write(random.below(rig.config.volume_blocks), 1);
    }
    rig.rest();
    rig
}

/// Flipped bits in data and metadata of users' blocks: reads stay right, the damage is counted, named
/// by a check, and mended by the read that found it.
#[test]
fn bit_rot_is_returned_to_the_reader() {
    for seed in 0..8 {
        let mut random = Random::from_seed(seed);
        let chunk_blocks = [1, 2, 4, 1][seed as usize % 4];
        let group_stripes = [1, 16, 256][seed as usize % 3];
        let mut rig = filled(&Shape { chunk_blocks, group_stripes, fill_percent: 40, ..raid5() }, seed);
        let member = random.index(4);
        let live = live_on(&rig, member);
        let mut flipped = BTreeSet::new();
        for _ in 0..12 {
            let copy = live[random.index(live.len())];
            if flipped.insert((copy.zone, copy.offset, copy.lba())) {
                flip(&rig, &copy, &mut random);
            }
        }
        for (_, _, lba) in &flipped {
            assert_eq!(rig.read(*lba, 1).unwrap(), [rig.blocks[*lba as usize]]);
        }
        rig.rest();
        assert_eq!(rig.volume.engine.counters().blocks_corrected, flipped.len() as u64, "seed {seed}");
        rig.verify();
        assert_eq!(rig.volume.engine.counters().blocks_corrected, flipped.len() as u64, "read directly now");
        rig.remount();
        rig.verify();
    }
}

/// A check names exactly the blocks that rotted, wherever in a stripe they are.
#[test]
fn check_overlooks_or_invents_bit_rot() {
    for seed in 0..6 {
        let mut random = Random::from_seed(seed);
        let rig = filled(&Shape { chunk_blocks: [1, 4][seed as usize % 2], ..raid5() }, seed);
        let member = random.index(4);
        // Parity and padding too, but only where a footer keeps the metadata: in an open segment a
        // damaged chunk is taken for a torn one, and completed by the next mount.
        let sealed: Vec<Stored> = rig
            .stored(member)
            .into_iter()
            .filter(|stored| stored.protected.is_some() || stored.oob.place.row == 0)
            .collect();
        assert_eq!(rig.check().problems, []);
        let open = rig.zones(member);
        let mut wanted = BTreeSet::new();
        while wanted.len() < 10 {
            let copy = sealed[random.index(sealed.len())];
            let in_open = open[copy.zone.index()].state.is_active();
            let byte = random.below(if in_open { 4096 } else { STRIDE }) as usize;
            if wanted.insert((copy.zone.0, copy.offset)) {
                rig.device(member).with(|drive| drive.corrupt(copy.zone, copy.offset, byte, 0x40));
            }
        }
        let report = rig.check();
        let found: BTreeSet<(u32, u32)> = report
            .problems
            .iter()
            .map(|problem| match problem {
                Problem::BlockDamaged { drive, zone, offset, rebuildable: true } => {
                    assert_eq!(*drive, DriveIndex::at(member));
                    (zone.0, *offset)
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(found, wanted, "seed {seed}");
        assert_eq!(report.problems_count, 10);
    }
}

/// Bits flip anywhere on one drive, headers, footers and superblocks included, and the power goes.
#[test]
fn bit_rot_of_the_engines_own_records_loses_data() {
    for seed in 0..24 {
        let mut random = Random::from_seed(seed);
        let chunk_blocks = [1, 1, 2, 4][seed as usize % 4];
        let group_stripes = [1, 16, 256][seed as usize % 3];
        let level = [Level::Raid5, Level::Raid4][seed as usize % 2];
        let mut rig = filled(&Shape { level, chunk_blocks, group_stripes, ..raid5() }, seed);
        let member = random.index(4);
        for _ in 0..40 {
            let zone = random.below(12) as u32;
            let zone = if random.chance(1, 6) { 0 } else { zone };
            // A finished zone may end before its capacity.
            let written = rig.zones(member)[zone as usize].write_pointer.min(58);
            if written == 0 {
                continue;
            }
            let offset = match random.below(4) {
                0 => 0,
                1 => written - 1,
                _ => random.below(u64::from(written)) as u32,
            };
            let byte = random.below(STRIDE) as usize;
            rig.device(member).with(|drive| drive.corrupt(ZoneIndex(zone), offset, byte, 1));
        }
        rig.remount();
        rig.verify();
        rig.fill();
        rig.verify();
        rig.rest();
        rig.remount();
        rig.verify();
    }
}

/// Two blocks of one stripe rot: what cannot be rebuilt is an error, never something else. (Data in
/// any segment, metadata in sealed ones; see `found` for metadata in open ones.)
#[test]
fn two_damaged_blocks_of_a_stripe_give_wrong_data() {
    let mut lost = 0;
    for seed in 0..10 {
        let mut random = Random::from_seed(seed);
        let level = [Level::Raid5, Level::Raid4, Level::Raid0][seed as usize % 3];
        let mut rig = filled(&Shape { level, chunk_blocks: [1, 2][seed as usize % 2], ..raid5() }, seed);
        let (a, b) = (random.index(4), random.index(3));
        let b = if b >= a { b + 1 } else { b };
        for first in live_on(&rig, a).into_iter().step_by(3) {
            let place = first.oob.place;
            let same = |other: &Stored| {
                other.oob.place.segment == place.segment
                    && other.oob.place.stripe == place.stripe
                    && other.oob.place.row == place.row
            };
            let Some(second) = rig.stored(b).into_iter().find(same) else { continue };
            for copy in [first, second] {
                let sealed = rig.zones(copy.member)[copy.zone.index()].state == ZoneState::Full;
                let byte = random.below(if sealed { STRIDE } else { 4096 }) as usize;
                rig.device(copy.member).with(|drive| drive.corrupt(copy.zone, copy.offset, byte, 8));
            }
        }
        for mounted_again in [false, true] {
            for lba in 0..rig.config.volume_blocks {
                match rig.read(lba, 1) {
                    Some(found) => assert_eq!(found, [rig.blocks[lba as usize]], "seed {seed}, block {lba}"),
                    None => lost += 1,
                }
            }
            if !mounted_again {
                rig.rest();
                rig.remount();
            }
        }
    }
    assert!(lost > 20);
}

/// Blocks the drive itself refuses to return.
#[test]
fn unreadable_blocks_end_in_an_error() {
    let mut rig = filled(&Shape { fill_percent: 40, ..raid5() }, 1);
    let live = live_on(&rig, 2);
    for copy in live.iter().step_by(4) {
        rig.device(2).with(|drive| drive.fail_reads(copy.zone, copy.offset));
    }
    rig.verify_by(32);
    rig.rest();
    assert_eq!(rig.volume.engine.counters().blocks_corrected as usize, live.len().div_ceil(4));
    rig.fill();
    rig.verify();
}

/// Zones of one drive turn read-only or offline between two mounts, with live data in them. All data
/// is there, and the array goes on.
#[test]
fn zone_that_failed_between_mounts_loses_data() {
    for state in [ZoneState::ReadOnly, ZoneState::Offline] {
        for member in 0..4 {
            let mut rig = filled(&Shape { fill_percent: 20, ..raid5() }, 1);
            for zone in (2..12).filter(|zone| rig.zones(member)[*zone].state == ZoneState::Full) {
                rig.device(member).with(|drive| drive.fail_zone(ZoneIndex(zone as u32), state));
            }
            rig.remount();
            rig.verify();
            rig.write(0, 40);
            rig.verify();
            rig.rest();
            assert_eq!(rig.volume.engine.status().health, Health::Clean);
        }
    }
}

/// A zone that was being written turns read-only between two mounts: its segment is collected first.
#[test]
fn open_zone_that_turned_read_only_loses_data() {
    for seed in 0..4 {
        let mut rig = filled(&Shape { fill_percent: 50, ..raid5() }, seed);
        let member = seed as usize;
        let open: Vec<usize> = (2..12).filter(|zone| rig.zones(member)[*zone].state.is_active()).collect();
        for zone in &open {
            rig.device(member).with(|drive| drive.fail_zone(ZoneIndex(*zone as u32), ZoneState::ReadOnly));
        }
        let devices = power_cycled(&rig.devices);
        rig.mount(devices).unwrap();
        rig.verify();
        rig.write(0, 40);
        rig.verify();
        rig.rest();
    }
}

/// Records that describe the array rot: nothing is lost, and a check names the places.
#[test]
fn damaged_headers_and_footers_pass_a_check() {
    let mut rig = filled(&raid5(), 3);
    assert_eq!(rig.check().problems, []);
    let zone = (2..12).find(|zone| rig.zones(1)[*zone].state == ZoneState::Full).unwrap();
    let zone = ZoneIndex(zone as u32);
    let footer = rig.config.user_layout().footer_offset();
    let newest = rig.zones(0)[0].write_pointer - 1;
    let damage = [(0, ZoneIndex(0), newest), (1, zone, 0), (1, zone, footer)];
    for (member, zone, offset) in damage {
        rig.device(member).with(|drive| drive.corrupt(zone, offset, 100, 1));
    }
    let problem = |record, (member, zone, offset): (usize, ZoneIndex, u32)| Problem::RecordDamaged {
        record,
        drive: DriveIndex::at(member),
        zone,
        offset,
    };
    let problems = rig.check().problems;
    for (record, place) in [Record::Superblock, Record::Header, Record::Footer].into_iter().zip(damage) {
        assert!(problems.contains(&problem(record, place)), "{record:?}: {problems:?}");
    }
    rig.remount();
    rig.verify();
    let problems = rig.check().problems;
    assert!(
        !problems.contains(&problem(Record::Superblock, damage[0])),
        "the mount wrote a newer one: {problems:?}"
    );
    assert!(problems.contains(&problem(Record::Header, damage[1])), "{problems:?}");
}
