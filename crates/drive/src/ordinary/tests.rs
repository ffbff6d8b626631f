//! Ordinary drives on files: on a disk through io_uring, and in memory.

use super::open::{OpenProblem, Opened};
use super::*;
use base::frame::Frame;
use rustix::event::{EventfdFlags, eventfd};
use std::path::{Path, PathBuf};

const NOW: Instant = Instant(0);

fn bell() -> OwnedFd {
    eventfd(0, EventfdFlags::NONBLOCK).unwrap()
}

/// A file of a MiB in a folder, and the folder.
fn file_in(folder: &Path) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in(folder).unwrap();
    let path = folder.path().join("member");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    (folder, path)
}

/// Drives on a disk and in memory, where there is one.
fn drives() -> Vec<(tempfile::TempDir, PathBuf, OrdinaryDrive)> {
    let folders = [std::env::temp_dir(), PathBuf::from("/dev/shm")];
    let drives = folders.iter().filter(|folder| folder.is_dir()).map(|folder| {
        let (folder, path) = file_in(folder);
        let drive = OrdinaryDrive::new(opened(&path), &bell()).unwrap();
        (folder, path, drive)
    });
    drives.collect()
}

fn opened(path: &Path) -> Opened {
    let mut opened = Opened::to_write(path).unwrap();
    opened.make_direct().unwrap();
    opened
}

fn filled(seed: u8, count: u8) -> Vec<Frame> {
    let frame = |number: u8| {
        let mut frame = Frame::zeroed();
        frame.data.fill(seed.wrapping_add(number));
        frame
    };
    (0..count).map(frame).collect()
}

/// What a command is answered of which the kernel says this.
fn answered(drive: &mut OrdinaryDrive, op: Op, error: rustix::io::Errno) -> Status {
    let (task, pauses) = (Task::new(op, Durable::ByFlag), Pauses::default());
    let slot = drive.pending.insert(Pending { token: Token(3), task, since: NOW, lacks_room: false, pauses });
    drive.answers.push(Answer { slot, result: Err(error) });
    let mut completions = Vec::new();
    drive.poll(NOW, &mut completions);
    completions.pop().unwrap().status
}

#[test]
fn a_command_that_was_cut_off_is_told_to_who_outlives_that() {
    let (_folder, path) = file_in(&std::env::temp_dir());
    let mut drive = OrdinaryDrive::new(opened(&path), &bell()).unwrap();
    let write = || Op::Write { sector: 0, frames: filled(9, 1), durable: false };
    for error in [rustix::io::Errno::TIMEDOUT, rustix::io::Errno::CANCELED] {
        drive.outlive_hiccups(false);
        assert_eq!(answered(&mut drive, write(), error), Status::WriteError);
        drive.outlive_hiccups(true);
        assert_eq!(answered(&mut drive, write(), error), Status::DeviceGone);
    }
    assert_eq!(answered(&mut drive, write(), rustix::io::Errno::IO), Status::WriteError);
}

#[test]
fn flushes_end_with_one_that_failed_unless_they_are_tried_again() {
    let (_folder, path) = file_in(&std::env::temp_dir());
    let mut drive = OrdinaryDrive::new(opened(&path), &bell()).unwrap();
    drive.try_flushes_again();
    assert_eq!(answered(&mut drive, Op::Flush, rustix::io::Errno::IO), Status::WriteError);
    assert_eq!(execute(&mut drive, Op::Flush).status, Status::Success);
    drive.tries_flushes_again = false;
    assert_eq!(answered(&mut drive, Op::Flush, rustix::io::Errno::IO), Status::WriteError);
    assert_eq!(execute(&mut drive, Op::Flush).status, Status::WriteError);
}

#[test]
fn what_the_kernel_refuses_for_now_is_tried_again() {
    let (_folder, path) = file_in(&std::env::temp_dir());
    let mut drive = OrdinaryDrive::new(opened(&path), &bell()).unwrap();
    drive.set_patience(Nanos(2_000_000));
    let refused = Err(rustix::io::Errno::NOMEM);
    let begin = |drive: &mut OrdinaryDrive| {
        let task = Task::new(Op::Write { sector: 0, frames: filled(9, 1), durable: false }, Durable::ByFlag);
        let pauses = Pauses::default();
        let slot =
            drive.pending.insert(Pending { token: Token(3), task, since: NOW, lacks_room: false, pauses });
        drive.answers.push(Answer { slot, result: refused });
        slot
    };
    let mut completions = Vec::new();
    begin(&mut drive);
    drive.poll(NOW, &mut completions);
    assert!(completions.is_empty(), "a refusal is no error");
    assert_eq!(drive.next_event(), Some(Instant(1_000_000)));
    while completions.is_empty() {
        drive.poll(Instant(1_000_000), &mut completions);
    }
    assert_eq!(completions.pop().unwrap().status, Status::Success);
    let slot = begin(&mut drive);
    drive.poll(NOW, &mut completions);
    drive.not_now.take_due(Instant(u64::MAX));
    for _ in 0..2 {
        drive.answers.push(Answer { slot, result: refused });
        drive.poll(NOW, &mut completions);
    }
    assert_eq!(completions.pop().unwrap().status, Status::WriteError, "patience is over");
}

/// Carries out one command and waits for its answer.
fn execute(drive: &mut OrdinaryDrive, op: Op) -> Completion {
    drive.submit(NOW, Command { token: Token(7), op });
    let mut completions = Vec::new();
    while completions.is_empty() {
        drive.poll(NOW, &mut completions);
        std::thread::yield_now();
    }
    assert!(completions.len() == 1 && completions[0].token == Token(7));
    completions.remove(0)
}

fn read(drive: &mut OrdinaryDrive, sector: u64, count: u8) -> Vec<u8> {
    let completion = execute(drive, Op::Read { sector, frames: filled(0xee, count) });
    assert_eq!(completion.status, Status::Success);
    completion.frames.iter().map(|frame| frame.data[17]).collect()
}

#[test]
fn what_is_written_is_read() {
    for (_folder, path, mut drive) in drives() {
        assert!(drive.is_file && drive.geometry().sectors == 2048);
        for (sector, durable) in [(0, false), (800, true)] {
            let written = execute(&mut drive, Op::Write { sector, frames: filled(1, 3), durable });
            assert_eq!((written.status, written.frames.len()), (Status::Success, 3));
        }
        assert_eq!(read(&mut drive, 0, 4), [1, 2, 3, 0]);
        assert_eq!(read(&mut drive, 808, 2), [2, 3]);
        assert_eq!(execute(&mut drive, Op::Flush).status, Status::Success);
        let media = std::fs::read(&path).unwrap();
        assert_eq!((media[4095], media[4096], media[800 * 512]), (1, 2, 1));
    }
}

#[test]
fn data_may_begin_at_any_sector() {
    for (_folder, _, mut drive) in drives() {
        assert_eq!(
            execute(&mut drive, Op::Write { sector: 3, frames: filled(9, 2), durable: false }).status,
            Status::Success
        );
        assert_eq!(read(&mut drive, 3, 2), [9, 10]);
        assert_eq!(read(&mut drive, 2048 - 8, 1), [0]);
    }
}

#[test]
fn zeros_are_zeros() {
    for (_folder, _, mut drive) in drives() {
        for may_unmap in [true, false] {
            execute(&mut drive, Op::Write { sector: 0, frames: filled(5, 8), durable: false });
            let zeroed = execute(&mut drive, Op::WriteZeroes { sector: 8, sectors: 24, may_unmap });
            assert_eq!(zeroed.status, Status::Success);
            assert_eq!(read(&mut drive, 0, 8), [5, 0, 0, 0, 9, 10, 11, 12]);
        }
        assert_eq!(execute(&mut drive, Op::Discard { sector: 0, sectors: 2048 }).status, Status::Success);
    }
}

#[test]
fn what_lies_beyond_the_end_is_refused() {
    for (_folder, _, mut drive) in drives() {
        let read = execute(&mut drive, Op::Read { sector: 2041, frames: filled(1, 1) });
        assert_eq!((read.status, read.frames.len()), (Status::OutOfRange, 1));
        let zeroed = execute(&mut drive, Op::WriteZeroes { sector: u64::MAX, sectors: 1, may_unmap: true });
        assert_eq!(zeroed.status, Status::OutOfRange);
    }
}

#[test]
fn a_file_that_is_cut_short_or_removed_is_lost() {
    for (_folder, path, mut drive) in drives() {
        assert_eq!(drive.condition(NOW), Condition::default());
        File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
        let beyond = execute(&mut drive, Op::Read { sector: 1024, frames: filled(1, 1) });
        assert_eq!(beyond.status, Status::ReadError, "the end of the file");
        assert_eq!(drive.condition(NOW).loss, Some(Loss::CutShort));
        let after = execute(&mut drive, Op::Write { sector: 0, frames: filled(1, 1), durable: false });
        assert_eq!(after.status, Status::DeviceGone);
    }
    for (_folder, path, mut drive) in drives() {
        std::fs::remove_file(&path).unwrap();
        assert_eq!(drive.condition(NOW).loss, Some(Loss::Unlinked));
    }
}

#[test]
fn a_drive_that_is_given_up_answers_everything() {
    for (_folder, _, mut drive) in drives() {
        for sector in 0..20 {
            drive
                .submit(NOW, Command { token: Token(sector), op: Op::Read { sector, frames: filled(0, 2) } });
        }
        drive.abandon();
        let mut completions = Vec::new();
        drive.poll(NOW, &mut completions);
        assert_eq!(completions.len(), 20);
        assert!(
            completions
                .iter()
                .all(|completion| completion.status == Status::DeviceGone && completion.frames.len() == 2)
        );
        assert_eq!(execute(&mut drive, Op::Flush).status, Status::DeviceGone);
        assert_eq!(drive.condition(NOW).oldest, None);
    }
}

#[test]
fn what_is_in_use_is_refused() {
    let (_folder, path) = file_in(Path::new("/tmp"));
    let _first = Opened::to_write(&path).unwrap();
    assert!(matches!(Opened::to_write(&path).unwrap_err().problem, OpenProblem::InUse(_)));
    assert!(Opened::to_read(&path).is_ok());
    assert!(matches!(
        Opened::to_read(Path::new("/tmp")).unwrap_err().problem,
        OpenProblem::WrongKind | OpenProblem::Io(_)
    ));
    assert!(matches!(
        Opened::to_read(&path.join("x")).unwrap_err().problem,
        OpenProblem::Io(_) | OpenProblem::Absent(_)
    ));
}

#[test]
fn what_is_opened_for_reading_alone_is_never_written() {
    for folder in ["/tmp", "/dev/shm"] {
        let (_folder, path) = file_in(Path::new(folder));
        let before = std::fs::read(&path).unwrap();
        let mut opened = Opened::to_read_alone(&path).unwrap();
        assert!(matches!(Opened::to_write(&path).unwrap_err().problem, OpenProblem::InUse(_)));
        opened.make_direct().unwrap();
        let mut drive = OrdinaryDrive::new(opened, &bell()).unwrap();
        let write = Op::Write { sector: 8, frames: filled(9, 2), durable: true };
        assert_ne!(execute(&mut drive, write).status, Status::Success);
        let zeroes = Op::WriteZeroes { sector: 0, sectors: 8, may_unmap: true };
        assert_ne!(execute(&mut drive, zeroes).status, Status::Success);
        let read = Op::Read { sector: 8, frames: filled(0, 2) };
        assert_eq!(execute(&mut drive, read).status, Status::Success);
        assert!(std::fs::read(&path).unwrap() == before);
    }
}

#[test]
fn many_commands_are_in_flight_at_once() {
    for (_folder, _, mut drive) in drives() {
        // More reads than the kernel keeps completions for, and nobody polls.
        for number in 0..5000 {
            drive.submit(
                NOW,
                Command {
                    token: Token(number),
                    op: Op::Read { sector: number % 2000, frames: filled(0, 1) },
                },
            );
        }
        let mut read_back = Vec::new();
        while read_back.len() < 5000 {
            drive.poll(NOW, &mut read_back);
        }
        for number in 0..255_u8 {
            let op = Op::Write {
                sector: u64::from(number) * 8,
                frames: filled(number, 1),
                durable: number % 7 == 0,
            };
            drive.submit(NOW, Command { token: Token(number.into()), op });
        }
        let mut completions = Vec::new();
        while completions.len() < 255 {
            drive.poll(NOW, &mut completions);
        }
        assert!(completions.iter().all(|completion| completion.status == Status::Success));
        for number in 0..255_u8 {
            assert_eq!(read(&mut drive, u64::from(number) * 8, 1), [number]);
        }
    }
}
