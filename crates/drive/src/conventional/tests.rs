//! The formats as documented, and drives on files.

use super::device::{Peek, format_device, is_conventional, layout_for, open_path, size_of, wipe};
use super::label::Label;
use super::recovery::{FileSource, find_opening};
use super::{label, table};
use crate::emulated::DriveProblem;
use crate::inband::{header, seal, table as journal_table};
use crate::ordinary::open::Opened;
use crate::units::{identity, record};
use base::fields::{Field, with_tables};
use base::frame::Frame;
use base::time::Instant;
use base::units::ZoneIndex;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use zone::device::{Command, Completion, Op, Status, Token, ZonedDevice};

#[test]
fn the_documented_tables_are_those_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FORMAT.md");
    let document = std::fs::read_to_string(path).unwrap();
    let tables: [(&str, &[Field]); 7] = [
        ("conventional-label", label::FIELDS),
        ("conventional-table", table::FIELDS),
        ("conventional-identity", identity::FIELDS),
        ("conventional-journal", record::FIELDS),
        ("inband-header", header::FIELDS),
        ("journal-table", journal_table::FIELDS),
        ("journal-seal", seal::FIELDS),
    ];
    let expected = with_tables(&document, &tables);
    if std::env::var_os("ZONEWEAVE_BLESS").is_some() {
        std::fs::write(path, &expected).unwrap();
        return;
    }
    assert_eq!(document, expected, "ZONEWEAVE_BLESS=1 cargo test -p zoneweave-drive rewrites the tables");
}

fn file(folder: &Path, bytes: u64) -> std::path::PathBuf {
    let path = folder.join("device");
    std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
    path
}

fn run(drive: &mut impl ZonedDevice, zone: u32, op: Op) -> Completion {
    drive.submit(Instant(0), Command { token: Token(0), zone: ZoneIndex(zone), op });
    let mut completions = Vec::new();
    while completions.is_empty() {
        drive.poll(Instant(0), &mut completions);
    }
    completions.pop().unwrap()
}

fn frames(count: u8) -> Vec<Frame> {
    let frame = |number: u8| {
        let mut frame = Frame::zeroed();
        frame.data.fill(number);
        frame.oob.fill(number + 100);
        frame
    };
    (1..=count).map(frame).collect()
}

#[test]
fn a_file_keeps_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 64 << 20);
    let layout = layout_for(size_of(&path).unwrap(), Some(1 << 20));
    format_device(&path, &Label { uuid: [9; 16], layout }).unwrap();
    assert!(is_conventional(&path));
    {
        let mut opened = open_path(&path).unwrap();
        assert!(matches!(open_path(&path).unwrap_err().problem, DriveProblem::Held(_)), "one user at a time");
        let written = run(&mut opened.drive, 3, Op::Append { frames: frames(32) });
        assert_eq!((written.status, written.offset), (Status::Success, 0));
        let written = run(&mut opened.drive, 3, Op::Write { offset: 32, frames: frames(40) });
        assert_eq!(written.status, Status::Success);
    }
    let peek = Peek::open(&path).unwrap();
    assert_eq!((peek.uuid(), peek.written_blocks(3), peek.written_blocks(4)), ([9; 16], 72, 0));
    assert_eq!(peek.block(3, 71).unwrap()[7], 40);
    let mut opened = open_path(&path).unwrap();
    let read = run(&mut opened.drive, 3, Op::Read { offset: 30, frames: frames(60) });
    assert_eq!(read.status, Status::Success);
    let seen: Vec<(u8, u8)> = read.frames.iter().map(|frame| (frame.data[9], frame.oob[9])).collect();
    let expected = (31..=32).chain(1..=40).map(|number| (number, number + 100));
    assert_eq!(seen, expected.chain((42..60).map(|_| (0, 0))).collect::<Vec<_>>());
    assert_eq!(run(&mut opened.drive, 3, Op::Reset).status, Status::Success);
    assert!(run(&mut opened.drive, 3, Op::Read { offset: 0, frames: frames(1) }).frames[0].is_blank());
    drop(opened);
    wipe(&path).unwrap();
    assert!(!is_conventional(&path));
}

#[test]
fn a_zone_is_discarded_when_it_was_reset_unless_it_must_not_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 64 << 20);
    let layout = layout_for(size_of(&path).unwrap(), Some(1 << 20));
    format_device(&path, &Label { uuid: [9; 16], layout }).unwrap();
    // Bytes of the file that a zone takes from when it is written to when it was reset, and the next command of it was answered.
    let kept_by_a_reset = |zone: u32, discards: bool| {
        let mut opened = open_path(&path).unwrap();
        opened.drive.set_discards(discards);
        let taken = || std::fs::metadata(&path).unwrap().blocks() * 512;
        let before = taken();
        for step in 0..3 {
            let written = run(&mut opened.drive, zone, Op::Write { offset: 63 * step, frames: frames(63) });
            assert_eq!(written.status, Status::Success);
        }
        assert_eq!(run(&mut opened.drive, zone, Op::Reset).status, Status::Success);
        assert_eq!(run(&mut opened.drive, zone, Op::Append { frames: frames(1) }).status, Status::Success);
        taken() - before
    };
    let written = 3 * 64 * 4096;
    let (with, without) = (kept_by_a_reset(5, true), kept_by_a_reset(6, false));
    assert!(with < written && without >= written, "{with} and {without} bytes of {written} are kept");
}

#[test]
fn a_disk_that_another_opened_meanwhile_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 64 << 20);
    let layout = layout_for(size_of(&path).unwrap(), Some(1 << 20));
    format_device(&path, &Label { uuid: [9; 16], layout }).unwrap();
    let newest = || {
        let opened = Opened::to_read(&path).unwrap();
        find_opening(&mut FileSource::new(opened.file(), opened.sectors())).unwrap()
    };
    let opening = {
        let mut opened = open_path(&path).unwrap();
        for zone in 0..3 {
            assert_eq!(
                run(&mut opened.drive, zone, Op::Append { frames: frames(9) }).status,
                Status::Success
            );
            assert_eq!(run(&mut opened.drive, zone, Op::Reset).status, Status::Success);
        }
        assert_eq!(newest(), opened.drive.opening(), "resets are no openings");
        opened.drive.opening()
    };
    drop(open_path(&path).unwrap());
    assert!(newest() > opening);
}

#[test]
fn what_is_no_drive_or_damaged_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 16 << 20);
    let problem = |path: &Path| open_path(path).unwrap_err().problem.to_string();
    assert!(problem(&path).contains("no label"), "{}", problem(&path));
    let layout = layout_for(size_of(&path).unwrap(), Some(1 << 20));
    format_device(&path, &Label { uuid: [9; 16], layout }).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(8 << 20).unwrap();
    assert!(problem(&path).contains("its label says 4096"), "{}", problem(&path));
    assert!(layout_for(1 << 20, Some(1 << 20)).validate().is_err());
    assert!(open_path(folder.path()).is_err(), "a directory");
}
