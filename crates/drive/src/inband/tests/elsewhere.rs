//! Drives over emulated ones, with their journal in a raw file.

use super::{device, frames, run, seen};
use crate::conventional::FileSource;
use crate::emulated::EmulatedDrive;
use crate::inband::header::Label;
use crate::inband::layout::{Layout, LayoutError};
use crate::inband::pair::{self, PairError, look};
use crate::inband::{Elsewhere, Hex, InbandDrive, Joined, OpenError, format_elsewhere, open};
use crate::ordinary::open::Opened;
use crate::ordinary::{OrdinaryDrive, bell};
use ::block::device::BlockDevice;
use base::time::Instant;
use std::os::unix::fs::FileExt;
use std::path::Path;
use zone::device::{Command, Completion, Op, Status, ZoneState, ZonedDevice};

type Device = Joined<EmulatedDrive, OrdinaryDrive>;

/// Blocks of a journal for two active zones.
const BLOCKS: u64 = 2 + 2 * (16 * 4 + 4 * 64 + 10);

fn carry_out(device: &mut Device, command: Command) -> Option<Completion> {
    device.submit(Instant(0), command);
    let mut completions = Vec::new();
    while completions.is_empty() {
        device.poll(Instant(0), &mut completions);
    }
    completions.pop()
}

fn carry_out_disk(disk: &mut OrdinaryDrive, op: ::block::device::Op) -> Option<::block::device::Completion> {
    disk.submit(Instant(0), ::block::device::Command { token: ::block::device::Token(0), op });
    let mut completions = Vec::new();
    while completions.is_empty() {
        disk.poll(Instant(0), &mut completions);
    }
    completions.pop()
}

fn disk(path: &Path) -> OrdinaryDrive {
    OrdinaryDrive::new(Opened::to_write(path).unwrap(), &bell::new().unwrap()).unwrap()
}

fn file(dir: &Path, name: &str, blocks: u64) -> std::path::PathBuf {
    let path = dir.join(name);
    std::fs::File::create(&path).unwrap().set_len(blocks * 4096).unwrap();
    path
}

/// Makes a drive; its device, with what lies there.
fn formatted(path: &Path, [drive, journal]: [u8; 2]) -> (EmulatedDrive, Label) {
    let who = Elsewhere { drive: [drive; 16], journal: [journal; 16], path: "there".to_owned() };
    let mut snapshot = None;
    let label = format_elsewhere(device(), disk(path), &who, &mut |device: &mut Device, command| {
        let answer = carry_out(device, command);
        snapshot = device.device().heap_snapshot();
        answer
    });
    (EmulatedDrive::from_heap(snapshot.unwrap()).unwrap(), label.unwrap())
}

fn found(path: &Path, label: &Label) -> Result<crate::inband::pair::FoundPair, PairError> {
    let opened = Opened::to_read(path).unwrap();
    look(&mut FileSource::new(opened.file(), opened.sectors()), label)
}

fn opened(device: EmulatedDrive, path: &Path, label: &Label) -> InbandDrive<Device> {
    let pair = pair::open(disk(path), label, &mut carry_out_disk).unwrap();
    open(Joined::with(device, pair), 16, &mut carry_out).unwrap()
}

/// The drive as the next process finds it.
fn reopened(drive: InbandDrive<Device>, path: &Path, label: &Label) -> InbandDrive<Device> {
    let device = EmulatedDrive::from_heap(drive.device().device().heap_snapshot().unwrap()).unwrap();
    drop(drive);
    opened(device, path, label)
}

#[test]
fn a_drive_keeps_what_was_written_with_its_journal_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "journal", BLOCKS);
    let (device, label) = formatted(&path, [9, 8]);
    let mut drive = opened(device, &path, &label);
    assert_eq!(drive.geometry().zones, 6);
    for round in 0..1_000 {
        // Each writes records for two lives of zone 1: the zones of the journal are used in turn.
        assert_eq!(run(&mut drive, 1, Op::Write { offset: 0, frames: frames(1) }).status, Status::Success);
        assert_eq!(run(&mut drive, 1, Op::Reset).status, Status::Success);
        if round == 100 {
            let written = run(&mut drive, 5, Op::Write { offset: 0, frames: frames(3) });
            assert_eq!(written.status, Status::Success);
        }
        if round % 250 == 249 {
            drive = reopened(drive, &path, &label);
        }
    }
    let read = run(&mut drive, 5, Op::Read { offset: 0, frames: frames(4) });
    assert_eq!(seen(&read), [(1, 101), (2, 102), (3, 103), (0, 0)]);
    assert_eq!(run(&mut drive, 0, Op::SelfTest { repair: false }).status, Status::Success);
    assert_eq!(run(&mut drive, 0, Op::Flush).status, Status::Success);
}

#[test]
fn the_zones_that_the_journal_left_are_not_needed() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "journal", BLOCKS);
    let (device, label) = formatted(&path, [9, 8]);
    let mut drive = opened(device, &path, &label);
    assert_eq!(run(&mut drive, 5, Op::Write { offset: 0, frames: frames(3) }).status, Status::Success);
    drive.device_mut().device_mut().fail_zone(base::units::ZoneIndex(0), ZoneState::Offline);
    assert_eq!(run(&mut drive, 4, Op::Write { offset: 0, frames: frames(2) }).status, Status::Success);
    let mut drive = reopened(drive, &path, &label);
    let read = run(&mut drive, 5, Op::Read { offset: 0, frames: frames(4) });
    assert_eq!(seen(&read), [(1, 101), (2, 102), (3, 103), (0, 0)]);
}

#[test]
fn a_journal_of_another_drive_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (file(dir.path(), "one", BLOCKS), file(dir.path(), "other", BLOCKS));
    let (_, label) = formatted(&one, [9, 8]);
    assert_eq!(found(&other, &label), Err(PairError::NotThere));
    formatted(&other, [7, 6]);
    assert_eq!(found(&other, &label), Err(PairError::NotThere));
    // The same identity, for another drive.
    formatted(&other, [7, 8]);
    assert_eq!(found(&other, &label), Err(PairError::OtherDrive(Hex([7; 16]))));
    // An older life of this drive.
    let (_, newer) = formatted(&one, [9, 5]);
    assert_eq!(found(&one, &label), Err(PairError::NotThere));
    let fresh = found(&one, &newer).unwrap();
    assert_eq!(fresh.pointers, [2, 0], "a header and a record, none of the life before");
}

#[test]
fn a_table_is_found_when_either_copy_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "journal", BLOCKS);
    let (_, label) = formatted(&path, [9, 8]);
    let whole = found(&path, &label).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    for copy in 0..2 {
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[0xee; 512], copy * 4096).unwrap();
        let seen = found(&path, &label).unwrap();
        assert_eq!((seen.table, seen.pointers), (whole.table, whole.pointers));
        drop(pair::open(disk(&path), &label, &mut carry_out_disk).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "who opens it writes the copy again");
        file.write_all_at(&bytes, 0).unwrap();
    }
    std::fs::File::options().write(true).open(&path).unwrap().set_len(40 * 4096).unwrap();
    let shrunk = PairError::Shrunk { has: 40, said: BLOCKS };
    assert_eq!(found(&path, &label), Err(shrunk));
    let layout = Layout { journal_places: Some(300), ..label.layout };
    let differs = PairError::OtherSize { has: label.layout.journal_zone_places(), said: 300 };
    assert_eq!(found(&path, &Label { layout, ..label }), Err(differs));
}

#[test]
fn a_drive_whose_journal_is_missing_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "journal", BLOCKS);
    let (device, _) = formatted(&path, [9, 8]);
    let refused = open(Device::alone(device), 16, &mut carry_out).unwrap_err();
    assert_eq!(refused, OpenError::JournalElsewhere(Hex([8; 16])));
    assert_eq!(
        refused.to_string(),
        "the drive's identities need journal 08080808-0808-0808-0808-080808080808, which lies on another device"
    );
}

#[test]
fn a_device_that_is_too_small_for_a_journal_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "journal", 100);
    let who = Elsewhere { drive: [9; 16], journal: [8; 16], path: String::new() };
    let refused = format_elsewhere(device(), disk(&path), &who, &mut carry_out).unwrap_err();
    assert!(matches!(refused, OpenError::Layout(LayoutError::ZoneTooSmall { has: 49, .. })), "{refused}");
    assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 0), "nothing is written");
}
