//! A hosted drive against the same drive in place, one whose thread is stuck, and one whose file goes away.

use super::*;
use crate::emulated::CreateOptions;
use base::units::ZoneIndex;
use std::sync::Mutex;
use zone::drives::{DriveCommand, DriveSet};

const GEOMETRY: Geometry = Geometry {
    zones: 4,
    zone_size_blocks: 64,
    zone_capacity_blocks: 64,
    open_zones_max: 3,
    active_zones_max: 3,
    append_blocks_max: 8,
    transfer_blocks_max: 64,
    volatile_cache: true,
    areas: None,
};

/// A drive whose thread gets stuck as long as the gate is locked.
struct Stuck {
    drive: EmulatedDrive,
    gate: Arc<Mutex<()>>,
}

impl ZonedDevice for Stuck {
    fn geometry(&self) -> &Geometry {
        self.drive.geometry()
    }
    fn submit(&mut self, now: Instant, command: Command) {
        self.drive.submit(now, command);
    }
    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let _passes = self.gate.lock().unwrap();
        self.drive.poll(now, completions);
    }
}

impl Works for Stuck {
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn look(&mut self) -> Option<Loss> {
        None
    }
    fn room(&mut self, _room: Room) {}
    fn has_waiting(&self) -> bool {
        false
    }
    fn waiting_for_room(&self, _tokens: &mut Vec<Token>) {}
}

fn on_disk(place: &tempfile::TempDir) -> EmulatedDrive {
    EmulatedDrive::create(&place.path().join("drive"), &CreateOptions::new(GEOMETRY, [9; 16])).unwrap()
}

fn append(token: u64, zone: u32, fill: u8) -> Command {
    let mut frame = Frame::zeroed();
    frame.data.fill(fill);
    frame.oob.fill(fill);
    Command { token: Token(token), zone: ZoneIndex(zone), op: Op::Append { frames: vec![frame] } }
}

fn read(token: u64, zone: u32, offset: u32) -> Command {
    let op = Op::Read { offset, frames: vec![Frame::zeroed()] };
    Command { token: Token(token), zone: ZoneIndex(zone), op }
}

/// Polls until so many answers have come.
fn answers(drive: &mut HostedDrive, now: u64, count: usize) -> Vec<Completion> {
    let mut answers = Vec::new();
    for _ in 0..2000 {
        drive.poll(Instant(now), &mut answers);
        if answers.len() >= count {
            return answers;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{} of {count} answers", answers.len());
}

#[test]
fn a_hosted_drive_does_what_it_would_do_in_place() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    let bell = Bell::new().unwrap();
    let mut drive = HostedDrive::start(on_disk(&place), &bell).unwrap();
    for round in 0..3 {
        for at in 0..30_u8 {
            drive.submit(Instant(0), append(u64::from(at), 1, at + round));
        }
        let done = answers(&mut drive, 1, 30);
        assert!(done.iter().all(|done| done.status == Status::Success));
        for done in &done {
            assert_eq!(u64::from(done.offset), done.token.0, "one zone keeps its order");
        }
        // A reset that gives space back, an append that waits for it, and a flush.
        drive.submit(Instant(1), read(100, 1, 7));
        let found = answers(&mut drive, 1, 1).pop().unwrap();
        assert_eq!((found.token, found.offset), (Token(100), 7));
        assert_eq!(found.frames[0].data, [7 + round; 4096]);
        drive.submit(Instant(1), Command { token: Token(101), zone: ZoneIndex(1), op: Op::Reset });
        drive.submit(Instant(1), append(102, 1, 0xee));
        drive.submit(Instant(1), Command { token: Token(103), zone: ZoneIndex(0), op: Op::Flush });
        bell.listen();
        let done = answers(&mut drive, 1, 3);
        assert!(done.iter().all(|done| done.status == Status::Success), "{done:?}");
        let place = |token| done.iter().position(|done| done.token == Token(token)).unwrap();
        assert!(place(101) < place(102), "what changes a zone waits for its reset");
        drive.submit(Instant(1), read(104, 1, 0));
        assert_eq!(answers(&mut drive, 1, 1)[0].frames[0].data, [0xee; 4096]);
        drive.submit(Instant(1), Command { token: Token(105), zone: ZoneIndex(1), op: Op::Reset });
        answers(&mut drive, 1, 1);
    }
    drop(drive);
    EmulatedDrive::open(&place.path().join("drive")).expect("the thread has let go of the file");
}

#[test]
fn a_drive_that_does_not_answer_is_given_up_and_its_late_answers_are_harmless() {
    let gate = Arc::new(Mutex::new(()));
    let stuck = Stuck { drive: EmulatedDrive::on_heap(GEOMETRY, [1; 16]).unwrap(), gate: Arc::clone(&gate) };
    let bell = Bell::new().unwrap();
    bell.listen();
    let hosted = HostedDrive::start(stuck, &bell).unwrap();
    let well = EmulatedDrive::on_heap(GEOMETRY, [2; 16]).unwrap();
    let mut set = DriveSet::new(vec![Some(Box::new(hosted)), Some(Box::new(well))]);
    let drives = [base::units::DriveIndex(0), base::units::DriveIndex(1)];
    let closed = gate.lock().unwrap();
    let mut done = Vec::new();
    for drive in drives {
        set.submit(Instant(5), DriveCommand { drive, command: append(drive.0.into(), 2, 1) });
        set.submit(Instant(9), DriveCommand { drive, command: read(drive.0.into(), 2, 0) });
    }
    set.poll(Instant(9), &mut done);
    assert!(done.iter().all(|(drive, _)| *drive == drives[1]), "the other drive goes on");
    assert_eq!(done.len(), 2);
    let oldest = set.condition(Instant(1000), drives[0]).unwrap().oldest;
    assert_eq!(oldest, Some(Outstanding { zone: ZoneIndex(2), since: Instant(5) }));

    done.clear();
    set.abandon(drives[0]);
    set.submit(Instant(1001), DriveCommand { drive: drives[0], command: append(77, 0, 1) });
    set.poll(Instant(1001), &mut done);
    assert_eq!(done.len(), 3, "all is answered at once");
    assert!(done.iter().all(|(_, done)| done.status == Status::DeviceGone && done.frames.len() == 1));
    assert_eq!(set.in_flight(drives[0]), 0);
    assert_eq!(set.condition(Instant(1002), drives[0]).unwrap().loss, Some(Loss::Abandoned));

    drop(closed);
    done.clear();
    std::thread::sleep(Duration::from_millis(20));
    set.poll(Instant(2000), &mut done);
    assert!(done.is_empty(), "what comes late is heard by nobody");
}

#[test]
fn a_drive_whose_thread_is_stuck_can_be_let_go() {
    let gate = Arc::new(Mutex::new(()));
    let stuck = Stuck { drive: EmulatedDrive::on_heap(GEOMETRY, [1; 16]).unwrap(), gate: Arc::clone(&gate) };
    let mut hosted = HostedDrive::start(stuck, &Bell::new().unwrap()).unwrap();
    let closed = gate.lock().unwrap();
    hosted.submit(Instant(0), append(0, 0, 0));
    hosted.poll(Instant(0), &mut Vec::new());
    // This ends, or the test does not.
    drop(hosted);
    drop(closed);
}

#[test]
fn latency_is_told_in_the_owners_time() {
    let drive = EmulatedDrive::on_heap(GEOMETRY, [1; 16]).unwrap();
    let mut drive = HostedDrive::start(drive, &Bell::new().unwrap()).unwrap();
    for token in 0..8 {
        drive.submit(Instant(100), append(token, 0, 0));
    }
    answers(&mut drive, 5_000_100, 8);
    let latency = drive.condition(Instant(6_000_000)).latency;
    assert_eq!(latency.count, 8);
    assert!((5_000_000..10_000_000).contains(&latency.p99.0), "{latency:?}");
}

#[test]
fn a_removed_file_is_noticed_by_the_thread() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    let mut drive = HostedDrive::start(on_disk(&place), &Bell::new().unwrap()).unwrap();
    assert_eq!(drive.condition(Instant(0)).loss, None);
    std::fs::remove_file(place.path().join("drive")).unwrap();
    let noticed = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        drive.condition(Instant(0)).loss == Some(Loss::Unlinked)
    });
    assert!(noticed, "nothing was asked of the drive, and still");
    drive.submit(Instant(0), append(0, 0, 0));
    assert_eq!(answers(&mut drive, 0, 1)[0].status, Status::DeviceGone);
}
