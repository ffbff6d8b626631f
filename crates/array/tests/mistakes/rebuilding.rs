//! Mistakes of a rebuild: what may replace a member, a crash or a dead drive at every command, and who is
//! believed afterwards.

use super::device::Device;
use super::mortal::{LastCommand, Mortal, SharedFuse, fuse, is_burnt, mortals};
use super::rig::{Rig, power_cycled, raid5, report, uuid};
use super::shape::Shape;
use array::engine::Engine;
use array::log::ReplaceError;
use array::log::check::Problem;
use array::log::status::Health;
use base::units::{DriveIndex, ZoneIndex};
use zone::device::{Geometry, ZoneState, ZonedDevice};
use zone::format::superblock::MemberState;
use zone::stripe::Level;

const NEW: [u8; 16] = [77; 16];
const LAST: [LastCommand; 3] = [LastCommand::Lost, LastCommand::Torn, LastCommand::Done];

fn blank(rig: &Rig) -> Device {
    Device::new(rig.config.geometry, NEW, 7)
}

fn health(rig: &Rig) -> Health {
    rig.volume.engine.status().health
}

/// Gives a drive for a member, as soon as the array can take it.
fn replace_by(rig: &mut Rig, member: usize, uuid: [u8; 16], drive: impl Fn() -> Box<dyn ZonedDevice>) {
    for _ in 0..1_000 {
        match rig.volume.replace_member(rig.now, DriveIndex::at(member), drive(), uuid) {
            Ok(()) => return,
            Err(error) => assert_eq!(error, ReplaceError::Busy),
        }
        rig.turn(&mut Vec::new());
    }
    panic!("busy for ever");
}

fn replace(rig: &mut Rig, member: usize, device: Device, uuid: [u8; 16]) {
    replace_by(rig, member, uuid, || Box::new(device.clone()));
    rig.devices[member] = Some(device);
}

/// The rebuild ends, and every member can be lost then.
fn expect_whole(rig: &mut Rig) {
    rig.rest();
    assert_eq!(health(rig), Health::Clean);
    rig.verify();
    assert_eq!(rig.check().problems, []);
    let whole = power_cycled(&rig.devices);
    for lost in 0..rig.config.members {
        let mut devices = power_cycled(&whole);
        devices[lost] = None;
        rig.mount(devices).unwrap();
        rig.verify_by(64);
    }
    rig.mount(power_cycled(&whole)).unwrap();
}

/// A small array with open and sealed segments of both streams, one member failed.
fn degraded(shape: &Shape, lost: usize) -> Rig {
    let mut rig = Rig::new(shape);
    rig.fill();
    for lba in 0..30 {
        rig.write_fua(lba * 3 % rig.config.volume_blocks, 1);
    }
    rig.volume.fail_member(DriveIndex::at(lost));
    rig.write_fua(1, 2);
    rig.rest();
    rig.devices[lost] = None;
    rig
}

#[test]
fn wrong_drive_taken_as_a_replacement() {
    let mut rig = Rig::new(&raid5());
    rig.fill();
    let refused = |rig: &mut Rig, member: u8, device: Device, uuid: [u8; 16]| {
        rig.volume.replace_member(rig.now, DriveIndex(member), Box::new(device), uuid).unwrap_err()
    };
    let device = blank(&rig);
    assert_eq!(refused(&mut rig, 2, device.clone(), NEW), ReplaceError::NotFailed);
    assert_eq!(refused(&mut rig, 9, device.clone(), NEW), ReplaceError::NoSuchMember { members: 4 });
    let used = power_cycled(&rig.devices)[2].clone().unwrap();
    rig.volume.fail_member(DriveIndex(2));
    rig.rest();
    assert_eq!(refused(&mut rig, 2, device.clone(), uuid(1)), ReplaceError::UuidInUse);
    assert_eq!(refused(&mut rig, 2, used, NEW), ReplaceError::NotBlank { zone: ZoneIndex(0) });
    let small = Geometry { zones: 11, ..rig.config.geometry };
    assert_eq!(refused(&mut rig, 2, Device::new(small, NEW, 7), NEW), ReplaceError::Geometry);
    let weak = Geometry { active_zones_max: 5, open_zones_max: 5, ..rig.config.geometry };
    assert_eq!(refused(&mut rig, 2, Device::new(weak, NEW, 7), NEW), ReplaceError::Geometry);
    let dead = blank(&rig);
    dead.with(drive::emulated::EmulatedDrive::die);
    assert!(matches!(refused(&mut rig, 2, dead, NEW), ReplaceError::Drive { .. }));
    assert_eq!(health(&rig), Health::Degraded);
    rig.verify();
    rig.volume.fail_member(DriveIndex(1));
    assert_eq!(refused(&mut rig, 2, device, NEW), ReplaceError::Broken);
}

/// Every drive of every kind of array; the drive it replaces comes back, and is not believed.
#[test]
fn rebuild_of_drive_0_only() {
    for (level, chunk_blocks, group_stripes) in
        [(Level::Raid5, 1, 16), (Level::Raid5, 4, 1), (Level::Raid4, 2, 256), (Level::Raid5, 2, 4)]
    {
        for lost in 0..4 {
            let shape = Shape { level, chunk_blocks, group_stripes, ..raid5() };
            let mut rig = Rig::new(&shape);
            rig.fill();
            let old = power_cycled(&rig.devices)[lost].clone();
            rig.volume.fail_member(DriveIndex::at(lost));
            for lba in 0..40 {
                rig.write_fua(lba * 2, 1);
            }
            rig.rest();
            let device = blank(&rig);
            replace(&mut rig, lost, device, NEW);
            let Health::Rebuilding { segments_done, segments_total } = health(&rig) else { panic!() };
            assert!(segments_done == 0 && segments_total > 4);
            rig.verify();
            rig.write(5, 20);
            rig.rest();
            let degraded = rig.volume.engine.counters().blocks_read_degraded;
            rig.verify();
            assert_eq!(
                rig.volume.engine.counters().blocks_read_degraded,
                degraded,
                "read from the new drive"
            );
            let mut devices = power_cycled(&rig.devices);
            devices.push(old);
            rig.mount(devices).unwrap();
            rig.devices.truncate(4);
            expect_whole(&mut rig);
        }
    }
}

/// A real drive keeps its identity when it is emptied. It has more zones than the others here, which nobody uses.
#[test]
fn emptied_drive_refused_in_its_own_place() {
    let mut rig = degraded(&raid5(), 2);
    let larger = Geometry { zones: rig.config.geometry.zones + 3, ..rig.config.geometry };
    let device = Device::new(larger, uuid(2), 7);
    replace(&mut rig, 2, device, uuid(2));
    expect_whole(&mut rig);
}

/// The old drive is back and the new one is not: the array goes on without either.
#[test]
fn replaced_drive_believed_when_its_replacement_is_missing() {
    for during in [true, false] {
        let mut rig = Rig::new(&raid5());
        rig.fill();
        let old = power_cycled(&rig.devices)[0].clone();
        rig.volume.fail_member(DriveIndex(0));
        rig.rest();
        let device = blank(&rig);
        replace(&mut rig, 0, device, NEW);
        rig.turn(&mut Vec::new());
        rig.write(7, 30);
        if !during {
            rig.rest();
        }
        let mut devices = power_cycled(&rig.devices);
        devices[0].clone_from(&old);
        rig.mount(devices).unwrap();
        assert_eq!(health(&rig), Health::Degraded);
        rig.verify();
    }
}

/// A check of an array whose rebuild has not come to its end says that, and nothing else.
#[test]
fn missing_zones_taken_for_damage() {
    let mut rig = degraded(&raid5(), 3);
    let device = blank(&rig);
    replace(&mut rig, 3, device, NEW);
    let mut seen = 0;
    while health(&rig) != Health::Clean {
        let problems = rig.check().problems;
        if rig.volume.engine.status().members[3] == MemberState::Rebuilding && !problems.is_empty() {
            seen += 1;
            let rebuilding = [Problem::MemberRebuilding { drive: DriveIndex(3) }];
            let missing = [Problem::MemberMissing { drive: DriveIndex(3) }];
            assert!(problems == rebuilding || problems == missing, "{problems:?}");
        }
        rig.turn(&mut Vec::new());
    }
    assert!(seen > 0);
}

/// Drives with a volatile cache are flushed; the path is the same.
#[test]
fn rebuild_with_volatile_caches() {
    let mut config = raid5().config();
    config.geometry.volatile_cache = true;
    let mut rig = Rig::with_config(config);
    rig.fill();
    rig.volume.fail_member(DriveIndex(1));
    rig.rest();
    let device = blank(&rig);
    replace(&mut rig, 1, device, NEW);
    expect_whole(&mut rig);
}

/// A block of another member is damaged while one is missing: it cannot be rebuilt. Reading it fails, also
/// after the rebuild and a mount; everything else is rebuilt.
#[test]
fn block_that_cannot_be_decoded_rebuilt_as_if_it_were_whole() {
    for chunk_blocks in [1, 4] {
        let mut rig = degraded(&Shape { chunk_blocks, ..raid5() }, 0);
        let victims: Vec<_> = rig.stored(2).into_iter().step_by(37).collect();
        for stored in &victims {
            rig.device(2).with(|drive| drive.corrupt(stored.zone, stored.offset, 1_000, 0x20));
        }
        let device = blank(&rig);
        replace(&mut rig, 0, device, NEW);
        rig.rest();
        assert_eq!(health(&rig), Health::Clean);
        for _ in 0..2 {
            let mut failed = 0;
            for lba in 0..rig.config.volume_blocks {
                match rig.read(lba, 1) {
                    Some(found) => assert_eq!(found, [rig.blocks[lba as usize]], "block {lba}"),
                    None => failed += 1,
                }
            }
            assert!(failed > 0 && failed <= 2 * victims.len() * chunk_blocks as usize, "{failed} failed");
            rig.remount();
        }
    }
}

/// Runs until the rebuild is over, or a fuse is burnt.
fn run(rig: &mut Rig, power: &SharedFuse) {
    for _ in 0..20_000 {
        if health(rig) == Health::Clean || is_burnt(power) {
            return;
        }
        rig.turn(&mut Vec::new());
    }
    panic!("the rebuild never ends: {:?}", rig.volume.engine.status());
}

fn small(chunk_blocks: u32, group_stripes: u32) -> Shape {
    Shape { chunk_blocks, group_stripes, members: 3, zones: 9, capacity: 40, ..raid5() }
}

/// The power goes at every command from the replacement on, and again at one of the next mount or of the
/// rebuild that goes on then.
#[test]
fn rebuild_not_resumable() {
    for (chunk_blocks, group_stripes) in [(1, 16), (4, 1)] {
        let before = degraded(&small(chunk_blocks, group_stripes), 1);
        let mut dies_at = 0;
        let mut ended = false;
        while !ended {
            let mut rig = Rig::with_config(before.config.clone());
            rig.blocks.clone_from(&before.blocks);
            rig.mount(power_cycled(&before.devices)).unwrap();
            rig.rest();
            let power = fuse(u64::MAX - 1, LAST[dies_at as usize % 3]);
            let devices = power_cycled(&rig.devices);
            rig.mount_until(mortals(&devices, &power), Some(&power)).unwrap();
            rig.devices = devices;
            let device = blank(&rig);
            replace_by(&mut rig, 1, NEW, || Box::new(Mortal::new(device.clone(), power.clone())));
            rig.devices[1] = Some(device);
            let now = power.lock().unwrap().commands;
            power.lock().unwrap().dies_at = now + dies_at;
            run(&mut rig, &power);
            ended = !is_burnt(&power);
            // Once more, somewhere in the mount or after it.
            let devices = power_cycled(&rig.devices);
            let power = fuse(dies_at * 7 % 300, LAST[dies_at as usize / 3 % 3]);
            if rig.mount_until(mortals(&devices, &power), Some(&power)).is_ok() {
                run_on(&mut rig, &power);
            }
            rig.devices = power_cycled(&devices);
            rig.remount();
            if health(&rig) == Health::Degraded {
                // The new drive had not been told who it is.
                rig.verify();
                let device = blank(&rig);
                replace(&mut rig, 1, device, [78; 16]);
            }
            rig.rest();
            assert_eq!(health(&rig), Health::Clean, "cut at {dies_at}");
            rig.verify();
            assert_eq!(rig.check().problems, [], "cut at {dies_at}");
            rig.devices[dies_at as usize % 3] = None;
            rig.remount();
            rig.verify();
            dies_at += 1;
        }
        assert!(dies_at > 60, "{dies_at} commands");
    }
}

/// As [`run`], for an array that may have lost the new drive.
fn run_on(rig: &mut Rig, power: &SharedFuse) {
    if health(rig) != Health::Degraded {
        run(rig, power);
    }
}

/// A drive dies at every command it is given: the new one, and another takes its place; or another member, which is too
/// much, and it comes back.
#[test]
fn drive_that_dies_in_a_rebuild_ends_it() {
    let before = degraded(&small(2, 4), 2);
    for mortal in 0..3 {
        let mut dies_at = 0;
        let mut ended = false;
        while !ended {
            let mut rig = Rig::with_config(before.config.clone());
            rig.blocks.clone_from(&before.blocks);
            let devices = power_cycled(&before.devices);
            // A torn command takes its frames with it, which an engine that lives on would miss.
            let last = [LastCommand::Lost, LastCommand::Done][dies_at as usize % 2];
            let power = fuse(u64::MAX - 1, last);
            let mut drives = super::shape::boxed(&devices);
            if let Some(device) = &devices[mortal] {
                drives[mortal] = Some(Box::new(Mortal::new(device.clone(), power.clone())));
            }
            rig.mount_boxed(drives).unwrap();
            rig.rest();
            rig.devices = devices;
            let device = blank(&rig);
            replace_by(&mut rig, 2, NEW, || match mortal {
                2 => Box::new(Mortal::new(device.clone(), power.clone())) as Box<dyn ZonedDevice>,
                _ => Box::new(device.clone()),
            });
            rig.devices[2] = Some(device);
            let now = power.lock().unwrap().commands;
            power.lock().unwrap().dies_at = now + dies_at;
            for _ in 0..20_000 {
                if rig.volume.engine.is_quiet() {
                    break;
                }
                rig.turn(&mut Vec::new());
            }
            ended = !is_burnt(&power);
            if ended {
                power.lock().unwrap().dies_at = u64::MAX - 1;
            }
            after_death(&mut rig, mortal, ended);
            dies_at += 1;
        }
        assert!(dies_at > 20, "{dies_at} commands");
    }
}

fn after_death(rig: &mut Rig, mortal: usize, ended: bool) {
    match health(rig) {
        Health::Clean => assert!(ended),
        Health::Degraded => {
            rig.verify();
            let failed =
                rig.volume.engine.status().members.iter().position(|member| *member != MemberState::Active);
            assert_eq!(failed, Some(mortal));
            let device = blank(rig);
            replace(rig, mortal, device, [78; 16]);
        }
        Health::Failed => {
            // What can be read is right.
            for lba in 0..rig.config.volume_blocks {
                if let Some(found) = rig.read(lba, 1) {
                    assert_eq!(found, [rig.blocks[lba as usize]], "block {lba}");
                }
            }
            assert_eq!(rig.try_write(0, 3, true), array::request::Outcome::IoError);
            rig.blocks[..3].fill(0);
            rig.remount();
            let found = rig.read(0, 3).unwrap();
            rig.blocks[..3].copy_from_slice(&found);
        }
        Health::Rebuilding { .. } => panic!("the rebuild does not go on"),
    }
    rig.rest();
    assert_eq!(health(rig), Health::Clean);
    rig.verify();
    assert_eq!(rig.check().problems, []);
}

/// A zone that is not full when the power goes is erased and written anew; one that is counts.
#[test]
fn half_a_zone_counts_as_a_whole_one() {
    let mut rig = degraded(&raid5(), 0);
    let device = blank(&rig);
    replace(&mut rig, 0, device, NEW);
    let full = |rig: &Rig| report(rig.device(0)).iter().filter(|zone| zone.state == ZoneState::Full).count();
    while full(&rig) < 3 {
        rig.turn(&mut Vec::new());
    }
    let at_crash = full(&rig);
    let total = rig.volume.engine.status().segments_sealed;
    rig.remount();
    rig.rest();
    let rebuilt = rig.volume.engine.counters().segments_rebuilt;
    assert!(rebuilt + at_crash as u64 <= total + 2, "{rebuilt} rebuilt, {at_crash} were there of {total}");
    expect_whole(&mut rig);
}
