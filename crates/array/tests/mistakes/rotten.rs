//! Rot beside what a crash left: it must not make more of it than there was, and not be forgotten.

use super::lost::{rot_tombstones, unreadable};
use super::mortal::{Fuse, LastCommand, mortals};
use super::rig::{Rig, Stored, power_cycled, raid5};
use super::shape::Shape;
use array::log::scrub::{ScrubOptions, ScrubState};
use base::random::Random;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use zone::device::Op;
use zone::format::oob::Role;
use zone::stripe::Level;

/// An overwrite of blocks 0..3 of which two of four chunks reached the media before the power went, behind two
/// whole stripes of the same group. Returns a whole chunk of that group on a member that lacks the torn one.
fn torn_overwrite(rig: &mut Rig) -> Stored {
    rig.write_fua(0, 3);
    let fuse = Arc::new(Mutex::new(Fuse {
        commands: 0,
        dies_at: 2 * 4 + 2,
        last: LastCommand::Lost,
        counts: |op| matches!(op, Op::Append { .. }),
        silent: true,
    }));
    rig.devices = power_cycled(&rig.devices);
    let drives = mortals(&rig.devices, &fuse);
    rig.mount_boxed(drives).unwrap();
    rig.write_fua(10, 3);
    rig.write_fua(20, 3);
    let (op, _) = rig.write_op(0, 3, true);
    rig.submit(op);
    for _ in 0..100 {
        rig.turn(&mut Vec::new());
    }
    let stored: Vec<Vec<Stored>> = (0..4).map(|member| rig.stored(member)).collect();
    let last = stored.iter().flatten().map(|block| (block.oob.place.segment, block.oob.place.stripe)).max();
    let is_last = |block: &&Stored| Some((block.oob.place.segment, block.oob.place.stripe)) == last;
    assert_eq!(stored.iter().flatten().filter(is_last).count(), 2, "half of the stripe is there");
    let lacking = stored.iter().position(|blocks| !blocks.iter().any(|block| is_last(&block))).unwrap();
    let group = |block: &&Stored| {
        block.oob.place.segment == last.unwrap().0
            && block.oob.place.group == last.unwrap().1.0 / 16
            && block.oob.place.role != Role::Filler
    };
    *stored[lacking].iter().find(group).unwrap()
}

fn rot_metadata(rig: &Rig, block: &Stored) {
    rig.device(block.member).with(|drive| drive.corrupt(block.zone, block.offset, 4096 + 3, 1));
}

/// A block rots, all drives are there: the old contents of blocks that an unfinished write was to replace are not lost
/// with it.
#[test]
fn rot_beside_a_torn_stripe_takes_the_data_it_was_to_replace() {
    let mut rig = Rig::new(&raid5());
    let neighbour = torn_overwrite(&mut rig);
    rot_metadata(&rig, &neighbour);
    rig.remount();
    rig.verify();
}

/// The same later, when the unfinished write was declared void and the old contents were read.
#[test]
fn rot_brings_a_void_stripe_back() {
    let mut rig = Rig::new(&raid5());
    let neighbour = torn_overwrite(&mut rig);
    rig.remount();
    rig.verify();
    rot_metadata(&rig, &neighbour);
    rig.remount();
    rig.verify();
}

/// A volume whose only tombstone is beyond rescue.
fn doubtful(blocks: u64) -> Rig {
    let mut rig = Rig::new(&Shape { level: Level::Raid0, ..raid5() });
    for lba in 0..blocks {
        rig.write(lba, 1);
    }
    rig.trim(20, 30);
    rig.rest();
    rot_tombstones(&rig);
    rig.remount();
    assert_eq!(rig.report.regions_doubtful, [0]);
    rig
}

/// The next trim of the region writes a tombstone that can be read: it must not end the doubt.
#[test]
fn trim_after_a_lost_tombstone_brings_trimmed_blocks_back() {
    let mut rig = doubtful(80);
    let failed = unreadable(&mut rig);
    rig.trim(70, 5);
    rig.remount();
    let still: BTreeSet<u64> = failed.into_iter().filter(|lba| !(70..75).contains(lba)).collect();
    assert_eq!(unreadable(&mut rig), still);
}

/// Blocks in doubt are live: collecting them must not turn them into zeros after the next mount.
#[test]
fn collection_turns_doubtful_blocks_into_zeros() {
    let mut rig = doubtful(500);
    let mut random = Random::from_seed(1);
    for _ in 0..30 {
        for _ in 0..rig.config.volume_blocks / 16 {
            rig.write_fua(100 + random.below(rig.config.volume_blocks - 100), 1);
        }
        rig.remount();
        unreadable(&mut rig);
    }
}

/// A damaged segment that is open is closed first. While its footers are written there is nothing to collect, and the scrub is not over.
#[test]
fn a_scrub_ends_while_the_segments_that_it_closed_are_sealed() {
    let mut rig = Rig::new(&raid5());
    rig.write_fua(0, 3);
    rig.rest();
    let is_data = |block: &&Stored| block.oob.place.role == Role::Data;
    let stored = (0..4).flat_map(|member| rig.stored(member)).collect::<Vec<_>>();
    let damaged = *stored.iter().find(is_data).unwrap();
    rig.device(damaged.member).with(|drive| drive.fail_reads(damaged.zone, damaged.offset));
    rig.set_lazy();
    rig.volume.start_scrub(ScrubOptions { repair: true, rate: None }).unwrap();
    let mut status = rig.volume.engine.scrub_status().unwrap();
    for _ in 0..10_000 {
        rig.turn(&mut Vec::new());
        status = rig.volume.engine.scrub_status().unwrap();
        if status.state == ScrubState::Done {
            break;
        }
    }
    assert_eq!((status.state, status.findings.segments_damaged), (ScrubState::Done, 1), "{status:?}");
    assert_eq!(status.segments_left, 0, "it said that damage is left: {status:?}");
    rig.rest();
    rig.verify();
}
