//! A drive on a file system that has no more space answers with a status and keeps working.
//!
//! The file system is a small tmpfs, which only root can mount; without root the test says so and
//! passes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use base::frame::Frame;
use base::time::Instant;
use base::units::ZoneIndex;
use drive::emulated::{CreateOptions, DriveProblem, EmulatedDrive};
use std::path::{Path, PathBuf};
use std::process::Command as Process;
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
};

/// A tmpfs that goes away when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(kibibytes: u32) -> Option<SmallDisk> {
        let place = tempfile::tempdir().unwrap();
        let size = format!("size={kibibytes}k");
        let mount =
            Process::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(place.path()).output();
        match mount {
            Ok(output) if output.status.success() => Some(SmallDisk(place)),
            other => {
                println!("skipped: cannot mount a tmpfs here: {other:?}");
                None
            }
        }
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("drive")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Process::new("umount").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "the drive's file is closed");
    }
}

#[test]
fn a_full_disk_is_a_write_fault() {
    let Some(disk) = SmallDisk::mount(1024) else { return };
    let mut drive = EmulatedDrive::create(&disk.path(), &CreateOptions::new(GEOMETRY, [1; 16])).unwrap();
    let appends: Vec<Completion> = (0..8).map(|fill| append(&mut drive, 0, fill, 32)).collect();
    let faults = appends.iter().filter(|completion| completion.status == Status::WriteFault).count();
    assert!((1..8).contains(&faults), "1 MiB holds some of 8 * 130 KiB");
    let written = u32::try_from(8 - faults).unwrap() * 32;
    let report = run(&mut drive, 0, Op::Report { count: 2 }).report;
    assert_eq!(report[0].write_pointer, written, "the write pointer moves by whole commands");
    check(&mut drive, 0, written);

    assert_eq!(append(&mut drive, 1, 50, 64).status, Status::WriteFault);
    assert_eq!(run(&mut drive, 0, Op::Reset).status, Status::Success);
    assert_eq!(append(&mut drive, 1, 0, 32).status, Status::Success, "a reset makes room");
    drop(drive);
    let mut drive = EmulatedDrive::open(&disk.path()).unwrap();
    check(&mut drive, 1, 32);
}

#[test]
fn a_drive_whose_zone_table_does_not_fit_is_not_created() {
    let Some(disk) = SmallDisk::mount(64) else { return };
    let geometry = Geometry { zones: 20_000, ..GEOMETRY };
    let error = EmulatedDrive::create(&disk.path(), &CreateOptions::new(geometry, [1; 16])).unwrap_err();
    assert!(matches!(error.problem, DriveProblem::Io { doing: "allocate the zone table", .. }), "{error}");
    assert!(!Path::new(&disk.path()).exists());
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
