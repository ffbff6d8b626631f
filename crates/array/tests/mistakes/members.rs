//! Mistakes about who belongs to the array, and reads without a member.

use super::device::Device;
use super::rig::{Rig, media_of, power_cycled, raid5};
use super::shape::Shape;
use array::log::MountError;
use base::units::{DriveIndex, ZoneIndex};

use zone::stripe::Level;

/// Written here, decoded there: with each member missing in turn, in service and from the mount on,
/// every block comes back. Rotation, metadata parity and recovery must agree.
#[test]
fn parity_rotation_computed_differently_in_two_places() {
    for (level, chunk_blocks, group_stripes) in
        [(Level::Raid5, 1, 16), (Level::Raid5, 4, 1), (Level::Raid4, 2, 256), (Level::Raid5, 2, 4)]
    {
        for lost in 0..4 {
            let mut rig = Rig::new(&Shape { level, chunk_blocks, group_stripes, ..raid5() });
            rig.fill();
            for lba in 0..100 {
                rig.write_fua(lba * 2, 1);
            }
            let (mut whole, contents) = (power_cycled(&rig.devices), rig.blocks.clone());
            rig.volume.fail_member(DriveIndex::at(lost));
            rig.verify();
            rig.fill();
            rig.verify();
            rig.remount();
            rig.verify();
            // And as if the member had been lost with a crash.
            whole[lost] = None;
            rig.blocks = contents;
            rig.mount(whole).unwrap();
            rig.verify();
        }
    }
}

/// A degraded read of a chunk of many blocks returns all of them.
#[test]
fn degraded_read_decodes_only_the_first_4_kib() {
    for chunk_blocks in [4, 16] {
        let mut rig = Rig::new(&Shape { chunk_blocks, capacity: 120, ..raid5() });
        rig.fill();
        for lost in 0..4 {
            let devices = power_cycled(&rig.devices);
            let kept = power_cycled(&rig.devices);
            rig.mount(devices).unwrap();
            rig.volume.fail_member(DriveIndex(lost));
            rig.verify_by(64);
            assert!(rig.volume.engine.counters().blocks_read_degraded > u64::from(chunk_blocks));
            rig.devices = kept;
        }
    }
}

/// A drive that missed writes is not believed when it returns, however often.
#[test]
fn returning_stale_drive_believed() {
    for stale in 0..4 {
        let mut rig = Rig::new(&raid5());
        rig.fill();
        let old = power_cycled(&rig.devices);
        rig.devices[stale] = None;
        rig.remount();
        rig.fill();
        for _ in 0..3 {
            rig.devices[stale].clone_from(&power_cycled(&old)[stale]);
            rig.remount();
            rig.verify();
            rig.write(3, 10);
        }
        // In service too: what a drive that was failed by hand holds does not count.
        let mut rig = Rig::new(&raid5());
        rig.fill();
        rig.volume.fail_member(DriveIndex::at(stale));
        rig.fill();
        rig.rest();
        rig.remount();
        rig.verify();
    }
}

/// Members are told by what their superblocks say, not by their place in the list.
#[test]
fn array_with_a_missing_drive_reordered() {
    for missing in [None, Some(0), Some(2)] {
        let mut rig = Rig::new(&raid5());
        rig.fill();
        let mut devices = power_cycled(&rig.devices);
        if let Some(missing) = missing {
            devices[missing] = None;
        }
        for order in [[1, 0, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1]] {
            let listed: Vec<Option<Device>> = order.iter().map(|place| devices[*place].clone()).collect();
            rig.mount(listed).unwrap();
            rig.verify();
            rig.write(5, 20);
            rig.verify();
        }
        // Without the empty places.
        let present: Vec<Option<Device>> = devices.iter().flatten().cloned().map(Some).collect();
        rig.mount(present).unwrap();
        rig.verify();
    }
}

/// An array that lacks too much is refused and left as it is.
#[test]
fn mounting_without_enough_members_changes_something() {
    for (level, lost) in [
        (Level::Raid5, vec![0, 2]),
        (Level::Raid4, vec![2, 3]),
        (Level::Raid0, vec![1]),
        (Level::Raid6, vec![0, 1, 3]),
        (Level::Raid01, vec![1, 3]),
    ] {
        let mut rig = Rig::new(&Shape { level, ..raid5() });
        rig.fill();
        let mut devices = power_cycled(&rig.devices);
        let whole = power_cycled(&rig.devices);
        lost.iter().for_each(|lost| devices[*lost] = None);
        let before: Vec<_> = devices.iter().flatten().map(media_of).collect();
        let refused = rig.mount(devices.clone()).unwrap_err();
        assert!(matches!(refused, MountError::TooFewMembers { .. }), "{refused:?}");
        let after: Vec<_> = devices.iter().flatten().map(media_of).collect();
        assert!(before == after, "the media changed");
        lost.iter().for_each(|lost| devices[*lost].clone_from(&whole[*lost]));
        rig.mount(devices).unwrap();
        rig.verify();
        assert_eq!(rig.check().problems, []);
    }
}

/// A drive of another array is refused by name, and nothing is written to anyone.
#[test]
fn foreign_drive_in_the_list() {
    let mut rig = Rig::new(&raid5());
    rig.fill();
    let mut other = raid5().config();
    other.array = *b"quite other one!";
    let foreign = Rig::with_config(other);
    let mut devices = power_cycled(&rig.devices);
    devices[1].clone_from(&power_cycled(&foreign.devices)[1]);
    let before: Vec<_> = devices.iter().flatten().map(media_of).collect();
    let refused = rig.mount(devices.clone()).unwrap_err();
    assert!(matches!(refused, MountError::ForeignDrive { place: 1, .. }), "{refused:?}");
    assert!(before == devices.iter().flatten().map(media_of).collect::<Vec<_>>());
    rig.remount();
    rig.verify();
}

/// A blank drive in the place of a member is no member: the array runs degraded, the blank one stays
/// blank. Two of them are too many.
#[test]
fn blank_drive_taken_for_a_member() {
    let mut rig = Rig::new(&raid5());
    rig.fill();
    let blank = || Some(Device::new(rig.config.geometry, [99; 16], 1));
    let mut devices = power_cycled(&rig.devices);
    (devices[0], devices[3]) = (blank(), blank());
    let twice = devices.clone();
    let whole = power_cycled(&rig.devices);
    let refused = rig.mount(twice).unwrap_err();
    assert!(matches!(refused, MountError::TooFewMembers { .. }), "{refused:?}");
    devices[0].clone_from(&whole[0]);
    let untouched = devices[3].clone().unwrap();
    rig.mount(devices).unwrap();
    rig.verify();
    rig.fill();
    rig.verify();
    assert!(media_of(&untouched).iter().all(|(zone, _)| zone.write_pointer == 0));
}

/// A drive and its copy: one of them is wrong, and nobody can tell which.
#[test]
fn copied_drive_believed() {
    let mut rig = Rig::new(&raid5());
    rig.fill();
    let mut devices = power_cycled(&rig.devices);
    devices[2].clone_from(&power_cycled(&rig.devices)[1]);
    assert_eq!(rig.mount(devices).unwrap_err(), MountError::DuplicateMember { member: 1 });
}

/// Any status a drive can answer with is an event, not the end: every write of every zone fails once
/// on one drive, at all times in the life of a segment.
#[test]
fn nvme_error_ends_the_process() {
    for zone in 0..12 {
        for writes_before in [0, 1, 30, 80] {
            let mut rig = Rig::new(&raid5());
            for lba in 0..writes_before {
                rig.write_fua(lba, 1);
            }
            rig.device(2).with(|drive| drive.fail_writes(ZoneIndex(zone), 1));
            rig.fill();
            rig.fill();
            rig.verify();
            rig.rest();
            rig.remount();
            rig.verify();
        }
    }
}

/// A drive vanishes at any command of a busy array.
#[test]
fn drive_that_vanishes_ends_the_process() {
    for lost in 0..4 {
        let mut rig = Rig::new(&raid5());
        rig.fill();
        rig.device(lost).with(drive::emulated::EmulatedDrive::die);
        rig.verify();
        rig.fill();
        rig.verify();
        rig.devices[lost] = None;
        rig.remount();
        rig.verify();
    }
}
