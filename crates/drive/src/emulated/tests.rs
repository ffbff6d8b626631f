//! Behaviour of the emulated drive, on the heap and in files. `tests/model.rs` holds it to a model.

use super::*;
use base::frame::Frame;
use std::os::unix::fs::FileExt;
use zone::device::{Token, ZoneDescriptor, ZoneState};

const A: ZoneIndex = ZoneIndex(0);
const B: ZoneIndex = ZoneIndex(1);
const NOW: Instant = Instant(0);
const UUID: [u8; 16] = *b"drive-under-test";

fn geometry() -> Geometry {
    Geometry {
        zones: 4,
        zone_size_blocks: 256,
        zone_capacity_blocks: 200,
        open_zones_max: 2,
        active_zones_max: 3,
        append_blocks_max: 64,
        transfer_blocks_max: 100,
        volatile_cache: false,
        areas: None,
    }
}

fn heap() -> EmulatedDrive {
    EmulatedDrive::on_heap(geometry(), UUID).unwrap()
}

fn options() -> CreateOptions {
    CreateOptions::new(geometry(), UUID)
}

/// Frames whose every byte follows from `seed` and their place.
fn frames(seed: u64, count: usize) -> Vec<Frame> {
    let mut random = base::random::Random::from_seed(seed);
    let mut frames: Vec<Frame> = (0..count).map(|_| Frame::zeroed()).collect();
    for frame in &mut frames {
        random.fill(&mut frame.data);
        random.fill(&mut frame.oob);
    }
    frames
}

fn same(left: &[Frame], right: &[Frame]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(l, r)| l.data == r.data && l.oob == r.oob)
}

fn submit(drive: &mut EmulatedDrive, token: u64, zone: ZoneIndex, op: Op) {
    drive.submit(NOW, Command { token: Token(token), zone, op });
}

/// Polls until `count` completions are there, asleep on the eventfd when one has to wait.
fn settle(drive: &mut EmulatedDrive, count: usize) -> Vec<Completion> {
    let mut completions = Vec::new();
    drive.poll(NOW, &mut completions);
    while completions.len() < count {
        let wake = drive.wake_fd().expect("drives on the heap complete at once");
        let mut sleepers = [rustix::event::PollFd::from_borrowed_fd(wake, rustix::event::PollFlags::IN)];
        let patience = rustix::event::Timespec { tv_sec: 20, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut sleepers, Some(&patience)), Ok(1), "the eventfd wakes the owner");
        drive.poll(NOW, &mut completions);
    }
    assert_eq!(completions.len(), count);
    completions
}

fn run(drive: &mut EmulatedDrive, zone: ZoneIndex, op: Op) -> Completion {
    submit(drive, 1, zone, op);
    settle(drive, 1).pop().unwrap()
}

fn append(drive: &mut EmulatedDrive, zone: ZoneIndex, seed: u64, count: usize) -> Completion {
    run(drive, zone, Op::Append { frames: frames(seed, count) })
}

fn read(drive: &mut EmulatedDrive, zone: ZoneIndex, offset: u32, count: usize) -> Completion {
    run(drive, zone, Op::Read { offset, frames: frames(999, count) })
}

fn describe_zone(drive: &mut EmulatedDrive, zone: ZoneIndex) -> ZoneDescriptor {
    run(drive, zone, Op::Report { count: 1 }).report[0]
}

#[test]
fn a_crash_leaves_what_was_completed_and_closes_what_was_open() {
    let mut drive = heap();
    append(&mut drive, A, 1, 3);
    assert_eq!(run(&mut drive, B, Op::Open).status, Status::Success);
    let mut after = EmulatedDrive::from_heap(drive.heap_snapshot().unwrap()).unwrap();
    append(&mut drive, A, 2, 1);
    assert_eq!(describe_zone(&mut after, A).write_pointer, 3);
    assert_eq!(describe_zone(&mut after, A).state, ZoneState::Closed);
    assert_eq!(describe_zone(&mut after, B).state, ZoneState::Closed);
    assert!(same(&read(&mut after, A, 0, 3).frames, &frames(1, 3)));
    assert!(same(&read(&mut after, A, 3, 1).frames, &[Frame::zeroed()]));
    assert_eq!(after.uuid(), UUID);
}

/// A drive on each kind of media, and its name. The directories go away with the first.
fn one_of_each() -> (Vec<tempfile::TempDir>, Vec<(&'static str, EmulatedDrive)>) {
    let mut places = Vec::new();
    let mut drives = vec![("heap", heap())];
    for directory in ["/dev/shm", "/tmp"] {
        let place = tempfile::tempdir_in(directory).unwrap();
        drives.push((directory, EmulatedDrive::create(&place.path().join("drive"), &options()).unwrap()));
        places.push(place);
    }
    (places, drives)
}

#[test]
fn a_file_keeps_everything_and_gives_the_space_of_a_reset_zone_back() {
    for directory in ["/dev/shm", "/tmp"] {
        let place = tempfile::tempdir_in(directory).unwrap();
        let path = place.path().join("drive");
        let mut drive = EmulatedDrive::create(&path, &options()).unwrap();
        for seed in 0..2 {
            assert_eq!(append(&mut drive, A, seed, 64).status, Status::Success);
        }
        append(&mut drive, B, 7, 1);
        drive.fail_zone(ZoneIndex(2), ZoneState::ReadOnly);
        drop(drive);
        let mut drive = EmulatedDrive::open(&path).unwrap();
        assert!(same(&read(&mut drive, A, 64, 64).frames, &frames(1, 64)), "{directory}");
        assert_eq!(describe_zone(&mut drive, ZoneIndex(2)).state, ZoneState::ReadOnly);

        let before = describe(&path).unwrap();
        let counted = ZoneCounts { empty: 1, active: 2, read_only: 1, ..ZoneCounts::default() };
        assert_eq!((before.uuid, before.zones), (UUID, counted));
        assert_eq!(run(&mut drive, A, Op::Reset).status, Status::Success);
        assert!(same(&read(&mut drive, A, 0, 1).frames, &[Frame::zeroed()]), "no hole, but zeros");
        let after = describe(&path).unwrap();
        match after.geometry.volatile_cache {
            // 128 blocks, but for the pages at the ends that are shared with what is around them.
            true => {
                assert!(after.allocated_bytes + 126 * 4160 <= before.allocated_bytes, "{after:?} {before:?}")
            }
            false => {
                assert!(after.allocated_bytes >= before.allocated_bytes, "what is mapped keeps its space")
            }
        }
        assert!(same(&read(&mut drive, B, 0, 1).frames, &frames(7, 1)), "the neighbour is untouched");
    }
}

#[test]
fn a_new_drive_takes_all_of_its_memory_and_none_of_its_disk() {
    for directory in ["/dev/shm", "/tmp"] {
        let place = tempfile::tempdir_in(directory).unwrap();
        let path = place.path().join("drive");
        create(&path, &options()).unwrap();
        let Description { allocated_bytes, geometry, .. } = describe(&path).unwrap();
        let length = path.metadata().unwrap().len();
        let taken = if geometry.volatile_cache { 8192..65536 } else { length..length + 4096 };
        assert!(taken.contains(&allocated_bytes), "{directory}: {allocated_bytes} of {length}");
    }
}

#[test]
fn commands_behind_a_reset_find_the_zone_empty() {
    let (_places, drives) = one_of_each();
    for (name, mut drive) in drives {
        for seed in 0..3 {
            append(&mut drive, A, seed, 64);
        }
        submit(&mut drive, 10, A, Op::Reset);
        for token in 11..14 {
            submit(&mut drive, token, A, Op::Append { frames: frames(token, 50) });
        }
        submit(&mut drive, 20, B, Op::Report { count: 1 });
        let completions = settle(&mut drive, 5);
        assert!(completions.iter().all(|completion| completion.status == Status::Success));
        for (place, token) in (0_u32..).zip(11..14) {
            let completion = completions.iter().find(|completion| completion.token == Token(token)).unwrap();
            assert_eq!(completion.offset, 50 * place, "{name}");
            assert!(same(&read(&mut drive, A, 50 * place, 50).frames, &frames(token, 50)), "{name}");
        }
    }
}

/// Token, offset and status of each completion.
fn told(completions: &[Completion]) -> Vec<(u64, u32, Status)> {
    completions.iter().map(|done| (done.token.0, done.offset, done.status)).collect()
}

#[test]
fn transfers_that_continue_each_other_run_together() {
    let (_places, drives) = one_of_each();
    for (name, mut drive) in drives {
        submit(&mut drive, 0, A, Op::Append { frames: frames(0, 2) });
        submit(&mut drive, 1, B, Op::Append { frames: frames(1, 3) });
        submit(&mut drive, 2, A, Op::Write { offset: 2, frames: frames(2, 1) });
        submit(&mut drive, 3, A, Op::Read { offset: 1, frames: frames(0, 2) });
        submit(&mut drive, 4, B, Op::Append { frames: frames(4, 1) });
        submit(&mut drive, 5, A, Op::Append { frames: frames(5, 1) });
        submit(&mut drive, 6, A, Op::Read { offset: 2, frames: frames(0, 1) });
        submit(&mut drive, 7, A, Op::Read { offset: 3, frames: frames(0, 4) });
        let completions = settle(&mut drive, 8);
        let places = [(0, 0), (2, 2), (1, 0), (4, 3), (3, 1), (5, 3), (6, 2), (7, 3)];
        assert!(
            told(&completions).iter().copied().eq(places.map(|(t, at)| (t, at, Status::Success))),
            "{name}"
        );
        assert!(same(&completions[4].frames, &[frames(0, 2).remove(1), frames(2, 1).remove(0)]), "{name}");
        assert!(same(&completions[6].frames, &frames(2, 1)), "{name}");
        assert!(same(&completions[7].frames[..1], &frames(5, 1)), "{name}");
        assert!(same(&completions[7].frames[1..], &[(); 3].map(|()| Frame::zeroed())), "{name}");
        assert!(same(&read(&mut drive, B, 3, 1).frames, &frames(4, 1)), "{name}");
    }
}

#[test]
fn a_fault_in_a_run_hits_the_command_it_belongs_to() {
    let (_places, drives) = one_of_each();
    for (name, mut drive) in drives {
        drive.fail_write_at(A, 3);
        drive.fail_writes(B, 1);
        for token in 0..4 {
            submit(&mut drive, token, A, Op::Append { frames: frames(token, 2) });
        }
        submit(&mut drive, 4, A, Op::Write { offset: 6, frames: frames(4, 1) });
        submit(&mut drive, 5, A, Op::Write { offset: 8, frames: frames(5, 1) });
        submit(&mut drive, 6, A, Op::Append { frames: frames(6, 65) });
        submit(&mut drive, 7, A, Op::Append { frames: frames(7, 1) });
        submit(&mut drive, 8, B, Op::Append { frames: frames(8, 1) });
        submit(&mut drive, 9, B, Op::Append { frames: frames(9, 1) });
        let completions = settle(&mut drive, 10);
        let expected = [
            (0, 0, Status::Success),
            (1, 2, Status::WriteFault),
            (2, 2, Status::Success),
            (3, 4, Status::Success),
            (4, 6, Status::Success),
            (5, 8, Status::ZoneInvalidWrite),
            (6, 0, Status::InvalidField),
            (7, 7, Status::Success),
            (8, 0, Status::WriteFault),
            (9, 0, Status::Success),
        ];
        assert_eq!(told(&completions), expected, "{name}");
        assert_eq!(describe_zone(&mut drive, A).write_pointer, 8, "{name}");
        assert!(same(&read(&mut drive, A, 2, 2).frames, &frames(2, 2)), "{name}");
        assert!(same(&read(&mut drive, A, 7, 1).frames, &frames(7, 1)), "{name}");

        drive.fail_reads(A, 4);
        for token in 0..4 {
            let offset = 2 * u32::try_from(token).unwrap();
            submit(&mut drive, token, A, Op::Read { offset, frames: frames(99, 2) });
        }
        let failed: Vec<bool> =
            settle(&mut drive, 4).iter().map(|read| read.status == Status::UnrecoveredReadError).collect();
        assert_eq!(failed, [false, false, true, false], "{name}");
    }
}

/// 28 of 30 appends of 7 blocks fit, in runs of 9, 9, 9 and 1.
#[test]
fn a_run_has_a_limit_and_a_zone_an_end() {
    let (_places, drives) = one_of_each();
    for (name, mut drive) in drives {
        for token in 0..30 {
            submit(&mut drive, token, A, Op::Append { frames: frames(token, 7) });
        }
        let completions = settle(&mut drive, 30);
        for (block, done) in (0..).step_by(7).zip(&completions[..28]) {
            assert_eq!((done.status, done.offset), (Status::Success, block), "{name}");
            assert!(same(&read(&mut drive, A, block, 7).frames, &frames(done.token.0, 7)), "{name}");
        }
        assert!(completions[28..].iter().all(|done| done.status == Status::ZoneBoundaryError), "{name}");
    }
}

#[test]
fn a_flush_of_a_disk_comes_later_and_one_of_memory_at_once() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    let mut drive = EmulatedDrive::create(&place.path().join("drive"), &options()).unwrap();
    if !drive.geometry().volatile_cache {
        println!("/tmp lies in memory here: nothing to flush");
        return;
    }
    for token in 0..3 {
        submit(&mut drive, token, A, Op::Flush);
    }
    let flushed = settle(&mut drive, 3);
    assert!(flushed.iter().all(|completion| completion.status == Status::Success));

    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut drive = EmulatedDrive::create(&place.path().join("drive"), &options()).unwrap();
    assert!(!drive.geometry().volatile_cache);
    let mut completions = Vec::new();
    submit(&mut drive, 0, A, Op::Flush);
    drive.poll(NOW, &mut completions);
    assert_eq!(completions.len(), 1);
}

/// The tokens and offsets of one poll of 16 appends.
fn shuffled(seed: u64) -> Vec<(u64, u32)> {
    let mut drive = heap();
    drive.set_append_order(AppendOrder::Shuffled { seed });
    for token in 0..16 {
        submit(&mut drive, token, A, Op::Append { frames: frames(token, 1) });
    }
    let completions = settle(&mut drive, 16);
    for done in &completions {
        assert!(same(&read(&mut drive, A, done.offset, 1).frames, &frames(done.token.0, 1)));
    }
    completions.iter().map(|completion| (completion.token.0, completion.offset)).collect()
}

#[test]
fn shuffled_appends_come_out_of_order_and_a_seed_repeats() {
    let order = shuffled(5);
    assert_eq!(order, shuffled(5));
    assert_ne!(order, shuffled(6));
    assert!(!order.is_sorted_by_key(|(token, _)| *token), "delivered out of order");
    let mut by_token = order.clone();
    by_token.sort_unstable();
    assert!(!by_token.is_sorted_by_key(|(_, offset)| *offset), "executed out of order");
    by_token.sort_unstable_by_key(|(_, offset)| *offset);
    assert!(by_token.iter().map(|(_, offset)| *offset).eq(0..16), "each at a place of its own");
}

#[test]
fn shuffled_appends_leave_other_commands_in_their_place() {
    let mut drive = heap();
    drive.set_append_order(AppendOrder::Shuffled { seed: 1 });
    submit(&mut drive, 0, A, Op::Write { offset: 0, frames: frames(0, 1) });
    for token in 1..8 {
        submit(&mut drive, token, B, Op::Append { frames: frames(token, 1) });
    }
    submit(&mut drive, 8, A, Op::Write { offset: 1, frames: frames(8, 1) });
    assert!(settle(&mut drive, 9).iter().all(|completion| completion.status == Status::Success));
}

#[test]
fn a_failed_write_leaves_the_zone_as_it_was() {
    let mut drive = heap();
    drive.fail_writes(A, 2);
    assert_eq!(append(&mut drive, A, 1, 1).status, Status::WriteFault);
    assert_eq!(describe_zone(&mut drive, A).state, ZoneState::Empty);
    assert_eq!(append(&mut drive, B, 1, 1).status, Status::Success, "other zones are not concerned");
    let refused = run(&mut drive, A, Op::Write { offset: 0, frames: frames(1, 2) });
    assert_eq!((refused.status, refused.frames.len()), (Status::WriteFault, 2));
    for block in 0..4 {
        assert_eq!(append(&mut drive, A, block, 49).status, Status::Success);
    }
    drive.fail_writes(A, 1);
    assert_eq!(append(&mut drive, A, 9, 4).status, Status::WriteFault, "it would have filled the zone");
    assert_eq!(describe_zone(&mut drive, A).write_pointer, 196);
    assert_eq!(append(&mut drive, A, 9, 4).status, Status::Success);
    assert_eq!(describe_zone(&mut drive, A).state, ZoneState::Full);
}

#[test]
fn unreadable_and_corrupt_blocks() {
    let (_places, drives) = one_of_each();
    for (_, mut drive) in drives {
        append(&mut drive, A, 1, 4);
        drive.fail_reads(A, 2);
        assert_eq!(read(&mut drive, A, 0, 3).status, Status::UnrecoveredReadError);
        assert_eq!(read(&mut drive, A, 3, 1).status, Status::Success);
        assert_eq!(run(&mut drive, A, Op::Reset).status, Status::Success);
        append(&mut drive, A, 1, 4);
        drive.corrupt(A, 2, 4095, 0x80);
        drive.corrupt(A, 2, 4096, 0x01);
        let found = read(&mut drive, A, 0, 4);
        let mut expected = frames(1, 4);
        expected[2].data[4095] ^= 0x80;
        expected[2].oob[0] ^= 0x01;
        assert_eq!(found.status, Status::Success);
        assert!(same(&found.frames, &expected));
    }
}

#[test]
fn failed_zones_stay_failed_and_a_dead_drive_answers_gone() {
    let mut drive = heap();
    append(&mut drive, A, 1, 2);
    append(&mut drive, B, 2, 2);
    drive.fail_zone(A, ZoneState::ReadOnly);
    drive.fail_zone(B, ZoneState::Offline);
    let mut drive = EmulatedDrive::from_heap(drive.heap_snapshot().unwrap()).unwrap();
    assert_eq!(append(&mut drive, A, 1, 1).status, Status::ZoneIsReadOnly);
    assert!(same(&read(&mut drive, A, 0, 2).frames, &frames(1, 2)));
    assert_eq!(read(&mut drive, B, 0, 1).status, Status::ZoneIsOffline);
    submit(&mut drive, 1, A, Op::Read { offset: 0, frames: frames(0, 2) });
    drive.die();
    submit(&mut drive, 2, A, Op::Flush);
    let gone = settle(&mut drive, 2);
    assert!(gone.iter().all(|completion| completion.status == Status::DeviceGone));
    assert_eq!(gone[0].frames.len(), 2, "frames come home");
}

fn problem(result: Result<EmulatedDrive, DriveError>) -> DriveProblem {
    result.expect_err("this drive cannot be opened").problem
}

#[test]
fn every_reason_not_to_open_has_a_name() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = place.path().join("drive");
    assert!(matches!(problem(EmulatedDrive::open(&path)), DriveProblem::NotFound));
    assert!(matches!(problem(EmulatedDrive::open(place.path())), DriveProblem::NotAFile));
    let drive = EmulatedDrive::create(&path, &options()).unwrap();
    assert!(matches!(problem(EmulatedDrive::open(&path)), DriveProblem::InUse));
    assert!(matches!(problem(EmulatedDrive::create(&path, &options())), DriveProblem::AlreadyExists));
    drop(drive);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length - 1).unwrap();
    assert!(matches!(problem(EmulatedDrive::open(&path)), DriveProblem::TooShort { .. }));
    file.set_len(length).unwrap();
    file.write_all_at(&[0xff], 4096 + 8 + 4).unwrap();
    let error = EmulatedDrive::open(&path).expect_err("zone 1 has a damaged entry");
    assert!(matches!(error.problem, DriveProblem::CorruptZone { zone: 1, fault: EntryError::BadCheck }));
    let message = error.to_string();
    assert!(message.contains(path.to_str().unwrap()) && message.contains("zone 1"), "{message}");
    assert_eq!(describe(&path).unwrap().zones.damaged, 1);
    file.write_all_at(b"something else", 0).unwrap();
    assert!(matches!(problem(EmulatedDrive::open(&path)), DriveProblem::NotADrive));
    file.set_len(100).unwrap();
    assert!(matches!(problem(EmulatedDrive::open(&path)), DriveProblem::TooShort { bytes: 100, .. }));
}

#[test]
fn impossible_drives_are_not_created() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = place.path().join("drive");
    let with_geometry = |change: fn(&mut Geometry)| {
        let mut options = options();
        change(&mut options.geometry);
        match problem(EmulatedDrive::create(&path, &options)) {
            DriveProblem::Geometry(error) => error,
            other => panic!("{other}"),
        }
    };
    assert_eq!(with_geometry(|g| g.zones = 2), GeometryError::TooFewZones { zones: 2 });
    assert_eq!(with_geometry(|g| g.zone_capacity_blocks = 0), GeometryError::NoCapacity);
    assert!(matches!(with_geometry(|g| g.zone_size_blocks = 199), GeometryError::CapacityOverSize { .. }));
    assert_eq!(with_geometry(|g| g.open_zones_max = 0), GeometryError::NoOpenZones);
    assert_eq!(
        with_geometry(|g| g.active_zones_max = 1),
        GeometryError::OpenOverActive { open: 2, active: 1 }
    );
    assert_eq!(with_geometry(|g| g.append_blocks_max = 0), GeometryError::NoAppend);
    assert_eq!(with_geometry(|g| g.transfer_blocks_max = 0), GeometryError::NoTransfer);
    let small_blocks = CreateOptions { block_bytes: 512, ..options() };
    let refused = problem(EmulatedDrive::create(&path, &small_blocks));
    assert!(matches!(refused, DriveProblem::BlockFormat { block_bytes: 512, oob_bytes: 64 }));
    let nowhere = EmulatedDrive::create(&place.path().join("none/drive"), &options());
    assert!(matches!(problem(nowhere), DriveProblem::NoDirectory));
    assert!(!path.exists(), "nothing is left behind");
}

/// A file that a program from before random write areas made: 3 zones of 4 blocks.
#[test]
fn a_drive_from_before_areas_is_opened_as_one_without() {
    const HEADER: [u8; 64] = *b"ZWEAVDRV\x01\0\0\0\0\x10\0\0\x40\0\0\0\x03\0\0\0\x04\0\0\0\x04\0\0\0\
        \x02\0\0\0\x02\0\0\0\x20\0\0\0\x40\0\0\0\xa2\x44\x64\x66\xd0\xb1\x48\xe6\xb2\x3b\xad\x2d\xea\x6e\xf6\x46";
    const WORDS: [u64; 3] = [0x39cf_0001, 0xd806_0001, 0x763e_0001];
    let mut file = vec![0; 8192 + 12 * 4160];
    file[..64].copy_from_slice(&HEADER);
    file[4092..4096].copy_from_slice(&0x9a53_c6c1_u32.to_le_bytes());
    for (zone, word) in WORDS.iter().enumerate() {
        file[4096 + 8 * zone..][..8].copy_from_slice(&word.to_le_bytes());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    std::fs::write(&path, &file).unwrap();
    let drive = EmulatedDrive::open(&path).unwrap();
    assert_eq!((drive.geometry().zones, drive.geometry().areas), (3, None));
    assert_eq!(std::fs::read(&path).unwrap(), file, "opening it writes nothing");
}
