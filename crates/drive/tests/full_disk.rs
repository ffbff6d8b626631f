//! A drive on a disk that has no more space answers with a status and keeps working; one in memory
//! takes its space when it is created and opened, or says how much is missing.
//!
//! The file systems are a small ext4 and a small tmpfs, which only root can mount; without root the
//! tests say so and pass.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use base::frame::Frame;
use base::time::Instant;
use base::units::ZoneIndex;
use drive::emulated::{CreateOptions, DriveError, DriveProblem, EmulatedDrive};
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::Duration;
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZonedDevice};

const GEOMETRY: Geometry = Geometry {
    zones: 4,
    zone_size_blocks: 256,
    zone_capacity_blocks: 256,
    open_zones_max: 4,
    active_zones_max: 4,
    append_blocks_max: 64,
    transfer_blocks_max: 256,
    volatile_cache: false,
    areas: None,
};

/// A file system that goes away when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// A tmpfs: a drive here is in memory.
    fn in_memory(kibibytes: u32) -> Option<SmallDisk> {
        let place = tempfile::tempdir().unwrap();
        let size = format!("size={kibibytes}k");
        let mounted =
            succeeds(Process::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(place.path()));
        mounted.then_some(SmallDisk(place))
    }

    /// An ext4 in a file: a drive here is on a disk. The file goes when the file system does.
    fn on_disk(kibibytes: u64) -> Option<SmallDisk> {
        let place = tempfile::tempdir().unwrap();
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(kibibytes << 10).unwrap();
        let made = succeeds(
            Process::new("mkfs.ext4").args(["-q", "-F", "-m", "0", "-O", "^has_journal"]).arg(image.path()),
        );
        let mounted =
            made && succeeds(Process::new("mount").args(["-o", "loop"]).arg(image.path()).arg(place.path()));
        mounted.then_some(SmallDisk(place))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("drive")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A process that another test is starting may hold the drive's descriptor until it runs.
        let is_unmounted = (0..200).any(|_| {
            let tried = Process::new("umount").arg(self.0.path()).output();
            let is_done = tried.is_ok_and(|output| output.status.success());
            if !is_done {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            is_done
        });
        assert!(is_unmounted, "the drive's file is closed");
    }
}

fn succeeds(command: &mut Process) -> bool {
    let output = command.output();
    let success = output.as_ref().is_ok_and(|output| output.status.success());
    if !success {
        println!("skipped: cannot do this here: {command:?}: {output:?}");
    }
    success
}

#[test]
fn a_full_disk_is_a_write_fault() {
    let Some(disk) = SmallDisk::on_disk(1024) else { return };
    let mut drive = EmulatedDrive::create(&disk.path(), &CreateOptions::new(GEOMETRY, [1; 16])).unwrap();
    assert!(drive.wake_fd().is_some(), "this is a disk");
    let appends: Vec<Completion> = (0..8).map(|fill| append(&mut drive, 0, fill, 32)).collect();
    let faults = appends.iter().filter(|completion| completion.status == Status::WriteFault).count();
    assert!((1..8).contains(&faults), "1 MiB holds some of 8 * 130 KiB");
    let written = u32::try_from(8 - faults).unwrap() * 32;
    let report = run(&mut drive, 0, Op::Report { count: 2 }).report;
    assert_eq!(report[0].write_pointer, written, "the write pointer moves by whole commands");
    check(&mut drive, 0, written);

    assert_eq!(append(&mut drive, 1, 50, 64).status, Status::WriteFault);
    assert_eq!(run(&mut drive, 0, Op::Reset).status, Status::Success);
    assert_eq!(append(&mut drive, 0, 0, 32).status, Status::Success, "a reset zone has its space");
    drop(drive);
    let mut drive = open(&disk.path()).unwrap();
    check(&mut drive, 0, 32);
}

/// Appends of one zone that were in flight together: those that fit are there, the others failed.
#[test]
fn a_disk_that_fills_up_within_a_run() {
    let Some(disk) = SmallDisk::on_disk(1024) else { return };
    let mut drive = EmulatedDrive::create(&disk.path(), &CreateOptions::new(GEOMETRY, [1; 16])).unwrap();
    for token in 0..32 {
        let frames = (0..8).map(|_| frame(u8::try_from(token).unwrap())).collect();
        let op = Op::Append { frames };
        drive.submit(Instant(0), Command { token: Token(token), zone: ZoneIndex(0), op });
    }
    let mut completions = Vec::new();
    drive.poll(Instant(0), &mut completions);
    assert_eq!(completions.len(), 32);
    let written = completions.iter().take_while(|done| done.status == Status::Success).count();
    assert!(written % 8 != 0, "{written}: a run of 64 blocks fails in its middle");
    assert!(completions[written..].iter().all(|done| done.status == Status::WriteFault));
    for (token, done) in (0..).zip(&completions[..written]) {
        assert_eq!((done.token, done.offset), (Token(token), u32::try_from(token).unwrap() * 8));
        let frames = (0..8).map(|_| frame(0xee)).collect();
        let found = run(&mut drive, 0, Op::Read { offset: done.offset, frames }).frames;
        let expected = frame(u8::try_from(token).unwrap());
        assert!(found.iter().all(|found| found.data == expected.data && found.oob == expected.oob));
    }
    let report = run(&mut drive, 0, Op::Report { count: 1 }).report;
    assert_eq!(report[0].write_pointer as usize, written * 8);
}

#[test]
fn a_drive_that_does_not_fit_into_memory_is_not_created() {
    let Some(disk) = SmallDisk::in_memory(1024) else { return };
    let error = EmulatedDrive::create(&disk.path(), &CreateOptions::new(GEOMETRY, [1; 16])).unwrap_err();
    let DriveProblem::NoMemory { bytes_needed, bytes_free } = error.problem else { panic!("{error}") };
    assert_eq!(bytes_needed, 8192 + 4 * 256 * 4160);
    assert_eq!(bytes_free, 1024 << 10);
    assert!(error.to_string().contains("put the drive on a disk"), "{error}");
    assert!(!disk.path().exists());
}

/// A copy may have holes where the drive had zeros.
#[test]
fn a_sparse_copy_that_does_not_fit_into_memory_is_not_opened() {
    let Some(disk) = SmallDisk::in_memory(6 << 10) else { return };
    drop(EmulatedDrive::create(&disk.path(), &CreateOptions::new(GEOMETRY, [1; 16])).unwrap());
    let start = std::fs::read(disk.path()).unwrap()[..8192].to_vec();
    std::fs::remove_file(disk.path()).unwrap();
    std::fs::write(disk.path(), start).unwrap();
    let copy = std::fs::OpenOptions::new().write(true).open(disk.path()).unwrap();
    copy.set_len(8192 + 4 * 256 * 4160).unwrap();
    let ballast = disk.path().with_file_name("ballast");
    std::fs::write(&ballast, vec![1; 4 << 20]).unwrap();
    let error = open(&disk.path()).unwrap_err();
    let DriveProblem::NoMemory { bytes_needed, .. } = error.problem else { panic!("{error}") };
    assert_eq!(bytes_needed, 4 * 256 * 4160);
    std::fs::remove_file(&ballast).unwrap();
    // A process that another test is starting may hold the ballast's descriptor until it runs.
    let opened = (0..1000).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        open(&disk.path()).ok()
    });
    let mut drive = opened.expect("there is room now");
    for zone in 0..4 {
        assert_eq!(append(&mut drive, zone, 0, 32).status, Status::Success);
        check(&mut drive, zone, 32);
    }
}

#[test]
fn a_drive_whose_zone_table_does_not_fit_is_not_created() {
    let Some(disk) = SmallDisk::on_disk(128) else { return };
    let geometry = Geometry { zones: 40_000, ..GEOMETRY };
    let error = EmulatedDrive::create(&disk.path(), &CreateOptions::new(geometry, [1; 16])).unwrap_err();
    assert!(matches!(error.problem, DriveProblem::Io { doing: "allocate the zone table", .. }), "{error}");
    assert!(!disk.path().exists());
}

/// A child that another test has forked and that has not yet become `mount` holds our file, too.
fn open(path: &Path) -> Result<EmulatedDrive, DriveError> {
    for _ in 0..1000 {
        match EmulatedDrive::open(path) {
            Err(DriveError { problem: DriveProblem::InUse, .. }) => {
                std::thread::sleep(Duration::from_millis(1))
            }
            opened => return opened,
        }
    }
    EmulatedDrive::open(path)
}

fn append(drive: &mut EmulatedDrive, zone: u32, fill: u8, blocks: usize) -> Completion {
    let frames = (0..blocks).map(|_| frame(fill)).collect();
    run(drive, zone, Op::Append { frames })
}

/// The first `written` blocks of a zone are those of appends 0, 1, .. of 32 each; the rest is zero.
fn check(drive: &mut EmulatedDrive, zone: u32, written: u32) {
    let frames = (0..GEOMETRY.zone_capacity_blocks).map(|_| frame(0xee)).collect();
    let found = run(drive, zone, Op::Read { offset: 0, frames });
    assert_eq!(found.status, Status::Success);
    for (block, found) in (0_u32..).zip(&found.frames) {
        let expected =
            if block < written { frame(u8::try_from(block / 32).unwrap()) } else { Frame::zeroed() };
        assert!(found.data == expected.data && found.oob == expected.oob, "block {block}");
    }
}

fn frame(fill: u8) -> Frame {
    let mut frame = Frame::zeroed();
    frame.data.fill(fill ^ 0x55);
    frame.oob.fill(fill ^ 0xaa);
    frame
}

fn run(drive: &mut EmulatedDrive, zone: u32, op: Op) -> Completion {
    let mut completions = Vec::new();
    drive.submit(Instant(0), Command { token: Token(1), zone: ZoneIndex(zone), op });
    while completions.is_empty() {
        drive.poll(Instant(0), &mut completions);
    }
    completions.pop().unwrap()
}
