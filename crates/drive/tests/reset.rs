//! What is in flight behind a reset on a disk, which is answered when the zone's space was given back, and what the
//! space of a zone is worth.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use base::frame::Frame;
use base::time::Instant;
use base::units::ZoneIndex;
use drive::emulated::{CreateOptions, EmulatedDrive, describe};
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZonedDevice};

const BLOCKS: u32 = 256;
const GEOMETRY: Geometry = Geometry {
    zones: 4,
    zone_size_blocks: BLOCKS,
    zone_capacity_blocks: BLOCKS,
    open_zones_max: 4,
    active_zones_max: 4,
    append_blocks_max: BLOCKS,
    transfer_blocks_max: BLOCKS,
    volatile_cache: true,
    areas: None,
};

fn frame(fill: u8) -> Frame {
    let mut frame = Frame::zeroed();
    frame.data.fill(fill);
    frame.oob.fill(fill);
    frame
}

fn submit(drive: &mut EmulatedDrive, token: u64, zone: u32, op: Op) {
    drive.submit(Instant(0), Command { token: Token(token), zone: ZoneIndex(zone), op });
}

fn append(fill: u8, blocks: u32) -> Op {
    Op::Append { frames: (0..blocks).map(|_| frame(fill)).collect() }
}

fn settle(drive: &mut EmulatedDrive, count: usize) -> Vec<Completion> {
    let mut completions = Vec::new();
    while completions.len() < count {
        drive.poll(Instant(0), &mut completions);
    }
    assert_eq!(completions.len(), count);
    assert!(completions.iter().all(|done| done.status == Status::Success), "{completions:?}");
    completions
}

#[test]
fn what_changes_a_zone_waits_for_its_reset_and_keeps_its_order() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    let path = place.path().join("drive");
    let mut drive = EmulatedDrive::create(&path, &CreateOptions::new(GEOMETRY, [1; 16])).unwrap();
    submit(&mut drive, 0, 0, append(1, BLOCKS));
    submit(&mut drive, 1, 1, append(2, BLOCKS));
    settle(&mut drive, 2);
    let full = describe(&path).unwrap().allocated_bytes;
    for round in 0..20_u8 {
        submit(&mut drive, 10, 0, Op::Reset);
        submit(&mut drive, 11, 0, append(10 + round, 3));
        submit(&mut drive, 12, 0, Op::Close);
        submit(&mut drive, 13, 0, append(100 + round, 3));
        submit(&mut drive, 14, 0, Op::Finish);
        // Another zone and a flush wait for nothing.
        submit(&mut drive, 20, 1, Op::Read { offset: 0, frames: vec![frame(0)] });
        submit(&mut drive, 21, 1, Op::Flush);
        let done = settle(&mut drive, 7);
        let order = done.iter().map(|done| done.token.0).filter(|token| *token < 20);
        assert_eq!(order.collect::<Vec<_>>(), [10, 11, 12, 13, 14]);
        let offset_of = |token| done.iter().find(|done| done.token == Token(token)).unwrap().offset;
        assert_eq!((offset_of(11), offset_of(13)), (0, 3));
        submit(&mut drive, 30, 0, Op::Read { offset: 0, frames: (0..7).map(|_| frame(9)).collect() });
        let found = settle(&mut drive, 1).pop().unwrap().frames;
        let expected = [10 + round, 10 + round, 10 + round, 100 + round, 100 + round, 100 + round, 0];
        assert!(found.iter().zip(expected).all(|(found, fill)| found.data == [fill; 4096]));
    }
    // Most of the zone is a hole by now, and the other one is whole.
    let after = describe(&path).unwrap().allocated_bytes;
    assert!(after + u64::from(BLOCKS - 16) * 4160 < full, "{after} of {full}");
    submit(&mut drive, 40, 1, Op::Read { offset: 0, frames: (0..BLOCKS).map(|_| frame(0)).collect() });
    assert!(
        settle(&mut drive, 1)[0].frames.iter().all(|found| found.data == [2; 4096] && found.oob == [2; 64])
    );
}

/// A file that is cut short under a mapping is a signal; the drive answers, and the process lives.
#[test]
fn a_mapped_file_that_is_cut_short_is_a_lost_drive() {
    for directory in ["/dev/shm", "/tmp"] {
        let place = tempfile::tempdir_in(directory).unwrap();
        let path = place.path().join("drive");
        let mut drive = EmulatedDrive::create(&path, &CreateOptions::new(GEOMETRY, [1; 16])).unwrap();
        submit(&mut drive, 0, 0, append(1, 8));
        settle(&mut drive, 1);
        std::fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        submit(&mut drive, 1, 0, append(1, 8));
        submit(&mut drive, 2, 0, Op::Read { offset: 0, frames: vec![frame(0)] });
        let mut completions = Vec::new();
        while completions.len() < 2 {
            drive.poll(Instant(0), &mut completions);
        }
        // Writing to a file on a disk makes it longer again; what is missing is noticed by looking.
        let is_mapped = !drive.geometry().volatile_cache;
        let gone = completions.iter().filter(|done| done.status == Status::DeviceGone).count();
        assert!(!is_mapped || gone == 2, "{completions:?}");
        assert_eq!(drive.look(), Some(zone::condition::Loss::CutShort), "{directory}");
        // Another drive of this process is untouched by it.
        let other = place.path().join("other");
        let mut other = EmulatedDrive::create(&other, &CreateOptions::new(GEOMETRY, [2; 16])).unwrap();
        submit(&mut other, 0, 0, append(1, 8));
        settle(&mut other, 1);
    }
}

#[test]
fn a_file_that_is_removed_is_a_lost_drive() {
    use zone::condition::Loss;
    for directory in ["/dev/shm", "/tmp"] {
        let place = tempfile::tempdir_in(directory).unwrap();
        let path = place.path().join("drive");
        let options = CreateOptions::new(GEOMETRY, [1; 16]);
        let mut drive = EmulatedDrive::create(&path, &options).unwrap();
        assert_eq!(drive.look(), None);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(drive.look(), Some(Loss::Unlinked));
        submit(&mut drive, 1, 0, append(1, 8));
        let mut completions = Vec::new();
        drive.poll(Instant(0), &mut completions);
        assert_eq!(completions[0].status, Status::DeviceGone);
    }
}

/// The next write makes it long again, and all of the rest is holes.
#[test]
fn a_file_that_was_cut_short_for_a_moment_is_a_lost_drive() {
    for directory in ["/dev/shm", "/tmp"] {
        let place = tempfile::tempdir_in(directory).unwrap();
        let path = place.path().join("drive");
        let mut drive = EmulatedDrive::create(&path, &CreateOptions::new(GEOMETRY, [1; 16])).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let bytes = file.metadata().unwrap().len();
        file.set_len(0).unwrap();
        file.set_len(bytes).unwrap();
        assert_eq!(drive.look(), Some(zone::condition::Loss::CutShort), "{directory}");
    }
}

/// Header and zone table are zeros while the drive works: it says so, goes on, and writes both anew when asked to.
#[test]
fn a_file_that_is_overwritten_is_repaired_from_memory() {
    let self_test = |drive: &mut EmulatedDrive, repair: bool| {
        submit(drive, 7, 0, Op::SelfTest { repair });
        let mut completions = Vec::new();
        drive.poll(Instant(0), &mut completions);
        completions[0].status
    };
    for directory in ["/dev/shm", "/tmp"] {
        let place = tempfile::tempdir_in(directory).unwrap();
        let path = place.path().join("drive");
        let mut drive = EmulatedDrive::create(&path, &CreateOptions::new(GEOMETRY, [1; 16])).unwrap();
        submit(&mut drive, 1, 0, append(1, 8));
        settle(&mut drive, 1);
        assert_eq!(self_test(&mut drive, false), Status::Success);
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let spoil = |at| std::os::unix::fs::FileExt::write_all_at(&file, &[0; 4096], at).unwrap();
        for (at, is_header) in [(0, true), (4096, false)] {
            spoil(at);
            assert_eq!(drive.look(), None, "{directory}");
            assert_eq!(drive.header_is_damaged(), is_header, "{directory}");
            assert_eq!(self_test(&mut drive, false), Status::InternalError, "{directory}, byte {at}");
            assert_eq!(self_test(&mut drive, true), Status::Success, "{directory}, byte {at}");
        }
        spoil(0);
        spoil(4096);
        submit(&mut drive, 1, 0, append(2, 8));
        assert_eq!(settle(&mut drive, 1)[0].status, Status::Success);
        assert_eq!(self_test(&mut drive, true), Status::Success, "{directory}");
        assert_eq!(self_test(&mut drive, false), Status::Success, "{directory}");
        assert!(!drive.header_is_damaged());
        drop(drive);
        let mut drive = EmulatedDrive::open(&path).unwrap();
        submit(&mut drive, 1, 0, Op::Report { count: 1 });
        assert_eq!(settle(&mut drive, 1)[0].report[0].write_pointer, 16, "{directory}");
    }
}
