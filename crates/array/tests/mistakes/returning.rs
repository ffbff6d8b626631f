//! Mistakes about drives that come back: who they are, and whose history they share.

use super::device::Device;
use super::mortal::{LastCommand, fuse_on, is_burnt, mortals};
use super::rig::{Rig, execute, power_cycled, raid5, read_block, uuid};
use super::shape::{Shape, boxed};
use array::log::config::Tuning;
use array::log::{MountError, MountReport, ReAdd, ReAddRefusal, ReAdded, mount, mount_with_re_add};
use base::time::Instant;
use base::units::{DriveIndex, ZoneIndex};
use std::sync::{Arc, Mutex};
use zone::device::{Command, Completion, Geometry, Op, Status, ZonedDevice};
use zone::format::superblock::Superblock;
use zone::stripe::Level;

/// A member that failed in service, and a little later all comes to rest.
fn failed(member: usize) -> Rig {
    let mut rig = Rig::new(&raid5());
    // Some segments are sealed, and nothing has to be collected.
    for lba in (0..rig.config.volume_blocks / 2).step_by(10) {
        rig.write(lba, 10);
    }
    rig.volume.fail_member(DriveIndex::at(member));
    rig.write(0, 20);
    rig.rest();
    rig
}

fn returned(
    drives: Vec<Option<Box<dyn ZonedDevice>>>,
    member: usize,
    or_without: bool,
    mount_tag: u64,
) -> Result<MountReport, MountError> {
    let tuning = Tuning { mount_tag, ..Tuning::default() };
    let now = Instant(1);
    mount_with_re_add(drives, ReAdd { member, or_without }, tuning, now).map(|(.., report)| report)
}

fn refusal(devices: &[Option<Device>], member: usize) -> ReAddRefusal {
    match returned(boxed(devices), member, false, 9) {
        Err(MountError::NotReAdded { member: refused, why }) if refused == member => why,
        other => panic!("{other:?}"),
    }
}

/// Cuts a re-add of drive 0 off at each command of a kind, and repeats it. Judges what it came to, and what the repeated one counts; returns
/// how often it was cut off.
fn cut_at_each(
    devices: &[Option<Device>],
    counts: fn(&Op) -> bool,
    judge: impl Fn(&str, Result<MountReport, MountError>, ReAdded),
) -> u32 {
    let mut cuts = 0;
    for last in [LastCommand::Lost, LastCommand::Done] {
        for dies_at in 0.. {
            let copies = power_cycled(devices);
            let fuse = fuse_on(counts, last);
            fuse.lock().unwrap().dies_at = dies_at;
            let cut = returned(mortals(&copies, &fuse), 0, false, 20);
            if !is_burnt(&fuse) {
                assert!(cut.unwrap().re_added.is_some());
                break;
            }
            cuts += 1;
            let repeated = returned(boxed(&power_cycled(&copies)), 0, false, 21).unwrap();
            judge(&format!("cut at command {dies_at}, {last:?}"), cut, repeated.re_added.unwrap());
        }
    }
    cuts
}

/// Cut off at any write of a superblock, a re-add can be repeated: the drive never holds a record that no other does.
#[test]
fn returning_drive_told_before_the_others() {
    let devices = failed(0).devices;
    let is_record = |op: &Op| match op {
        Op::Write { frames, .. } => frames.iter().any(|frame| Superblock::decode(&frame.data).is_some()),
        _ => false,
    };
    let cuts = cut_at_each(&devices, is_record, |cut_at, _, repeated| {
        assert!(repeated.segments_whole > 0, "{cut_at}: {repeated:?}");
    });
    assert!(cuts >= 16, "two records on each of four drives: {cuts}");
}

/// Drive that sees how many resets it and others are given before somebody asks for an answer.
struct Crowded {
    device: Device,
    resets: Arc<Mutex<Resets>>,
}

#[derive(Default)]
struct Resets {
    waiting: u32,
    most: u32,
}

impl ZonedDevice for Crowded {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let mut seen = self.resets.lock().unwrap();
        seen.waiting += u32::from(matches!(command.op, Op::Reset));
        seen.most = seen.most.max(seen.waiting);
        drop(seen);
        self.device.submit(now, command);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.resets.lock().unwrap().waiting = 0;
        self.device.poll(now, completions);
    }
}

/// What a drive need not hold any more is reset at once, and not zone by zone while clients wait. Cut off at any reset, a re-add can be
/// repeated, and as much counts as before.
#[test]
fn stale_zones_reset_one_by_one() {
    let mut rig = failed(0);
    // Segments that it holds are collected, and their zones used again on the others.
    for lba in (0..rig.config.volume_blocks - 10).step_by(10).cycle().take(200) {
        rig.write(lba, 10);
    }
    rig.rest();
    let devices = rig.devices;
    let resets = Arc::new(Mutex::new(Resets::default()));
    let crowded =
        |device: Device| Box::new(Crowded { device, resets: Arc::clone(&resets) }) as Box<dyn ZonedDevice>;
    let drives = power_cycled(&devices).into_iter().map(|device| device.map(crowded)).collect();
    let whole = returned(drives, 0, false, 20).unwrap().re_added.unwrap();
    let is_reset = |op: &Op| matches!(op, Op::Reset);
    let cuts = cut_at_each(&devices, is_reset, |cut_at, cut, repeated| {
        assert!(cut.is_err(), "{cut_at}");
        assert_eq!(repeated.segments_whole, whole.segments_whole, "{cut_at}");
    });
    let seen = resets.lock().unwrap();
    assert!(seen.most >= 2 && cuts == 2 * seen.most, "{} at once, {cuts} cuts", seen.most);
}

/// The one that is newer than the others, and the one of a clone, are refused; the array goes on without them where that is wanted.
#[test]
fn drive_used_apart_believed() {
    let mut rig = Rig::new(&raid5());
    rig.fill();
    rig.rest();
    let clone = power_cycled(&rig.devices);
    for tag in [30, 31] {
        mount(boxed(&clone), Tuning { mount_tag: tag, ..Tuning::default() }, rig.now).unwrap();
    }
    rig.volume.fail_member(DriveIndex(2));
    rig.write(0, 20);
    rig.rest();
    let with_clone = |devices: &[Option<Device>]| {
        let mut devices = power_cycled(devices);
        devices[2].clone_from(&power_cycled(&clone)[2]);
        devices
    };
    let ReAddRefusal::Newer { own, others } = refusal(&with_clone(&rig.devices), 2) else { panic!("newer") };
    assert!(own > others);
    let why = ReAddRefusal::Newer { own, others }.to_string();
    let generations =
        [own.generation, others.generation].map(|generation| format!("generation {generation})"));
    assert!(generations.iter().all(|words| why.contains(words)), "{why}");
    // Of the same age, and younger: nobody wrote its record but it.
    for mounts in [2, 3] {
        let mut devices = power_cycled(&rig.devices);
        devices[2] = None;
        for tag in 0..mounts {
            mount(boxed(&devices), Tuning { mount_tag: 40 + tag, ..Tuning::default() }, rig.now).unwrap();
        }
        let devices = with_clone(&devices);
        let why = refusal(&devices, 2);
        assert!(matches!(why, ReAddRefusal::Apart { .. }), "{why:?}");
        let report = returned(boxed(&devices), 2, true, 50).unwrap();
        assert_eq!((report.re_added, report.re_add_refused), (None, Some(why)));
    }
}

/// A refusal says what is wrong with the drive.
#[test]
fn other_drive_taken_for_the_one_that_left() {
    let mut rig = failed(1);
    let mut devices = power_cycled(&rig.devices);
    let geometry = Geometry { zones: 11, ..*devices[1].as_ref().unwrap().geometry() };
    let smaller = Device::new(geometry, uuid(1), 7);
    let record = read_block(rig.device(1), ZoneIndex(0), 0).unwrap();
    let written = execute(&smaller, ZoneIndex(0), Op::Write { offset: 0, frames: vec![record] });
    assert_eq!(written.status, Status::Success);
    devices[1] = Some(smaller);
    assert_eq!(refusal(&devices, 1), ReAddRefusal::Geometry { what: "zones", found: 11, wanted: 12 });
    devices[1] = Some(Device::new(rig.config.geometry, uuid(1), 7));
    assert_eq!(refusal(&devices, 1), ReAddRefusal::NotThere, "a blank one is nobody");
    assert_eq!(refusal(&rig.devices, 0), ReAddRefusal::NotFailed);
    let successor = Device::new(rig.config.geometry, [77; 16], 7);
    rig.volume.replace_member(rig.now, DriveIndex(1), Box::new(successor.clone()), [77; 16]).unwrap();
    rig.rest();
    rig.volume.fail_member(DriveIndex(1));
    rig.rest();
    let why = refusal(&rig.devices, 1);
    assert_eq!(why, ReAddRefusal::Replaced { own: uuid(1), successor: [77; 16] });
    assert!(why.to_string().contains("4d4d4d4d-4d4d-4d4d-4d4d-4d4d4d4d4d4d"), "{why}");
}

/// Where all accuse one another, the newest is believed only if it wrote what the others did: who was served apart is as good as it is.
#[test]
fn newest_of_drives_served_apart_believed() {
    let mut rig = Rig::new(&Shape { level: Level::Raid6, members: 3, ..raid5() });
    rig.write(0, 1);
    rig.rest();
    let devices = power_cycled(&rig.devices);
    let serve = |members: &[usize], mount_tag: u64| {
        let mut there = devices.clone();
        (0..3).filter(|member| !members.contains(member)).for_each(|member| there[member] = None);
        mount(boxed(&there), Tuning { mount_tag, ..Tuning::default() }, rig.now).map(|_| ())
    };
    for (member, mount_tag) in [(0, 60), (1, 61), (1, 62)] {
        serve(&[member], mount_tag).unwrap();
    }
    assert_eq!(serve(&[0, 1, 2], 63), Err(MountError::SplitBrain));
    assert_eq!(serve(&[0, 1], 64), Err(MountError::SplitBrain));
    serve(&[1, 2], 65).unwrap();
}
