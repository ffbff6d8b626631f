//! The timed drive does what the drive does, when the model says.

use super::*;
use base::frame::Frame;
use base::units::DriveIndex;
use zone::drives::{DriveCommand, DriveSet};

const GEOMETRY: Geometry = Geometry {
    zones: 4,
    zone_size_blocks: 1024,
    zone_capacity_blocks: 1000,
    open_zones_max: 3,
    active_zones_max: 3,
    append_blocks_max: 64,
    transfer_blocks_max: 64,
    volatile_cache: false,
    areas: None,
};

fn timed() -> TimedDrive {
    let drive = EmulatedDrive::on_heap(GEOMETRY, [1; 16]).unwrap();
    TimedDrive::new(drive, &Profile::named("zn540-1tb").unwrap(), ModelOptions::default())
}

fn frames(blocks: usize) -> Vec<Frame> {
    (0..blocks).map(|_| Frame::zeroed()).collect()
}

fn submit(drive: &mut TimedDrive, now: u64, token: u64, zone: u32, op: Op) {
    drive.submit(Instant(now), Command { token: Token(token), zone: ZoneIndex(zone), op });
}

/// Goes on in virtual time until `count` commands are done.
fn settle(drive: &mut TimedDrive, count: usize) -> (Instant, Vec<Completion>) {
    let mut completions = Vec::new();
    let mut now = Instant(0);
    while completions.len() < count {
        now = drive.next_event().expect("commands are in flight");
        drive.poll(now, &mut completions);
    }
    (now, completions)
}

#[test]
fn a_completion_comes_in_its_time_and_not_before() {
    let mut drive = timed();
    submit(&mut drive, 0, 7, 0, Op::Append { frames: frames(1) });
    let mut completions = Vec::new();
    drive.poll(Instant(12_000), &mut completions);
    assert!(completions.is_empty(), "the first append to a zone takes 17.5 us");
    let (now, completions) = settle(&mut drive, 1);
    assert!((15_000..30_000).contains(&now.0), "{now:?}");
    assert_eq!((completions[0].token, completions[0].status), (Token(7), Status::Success));
    assert_eq!(drive.lag(), Nanos(0), "in virtual time nobody is late");
}

#[test]
fn appends_take_effect_in_the_order_of_submission() {
    let mut drive = timed();
    for token in 0..8 {
        submit(&mut drive, 0, token, 1, Op::Append { frames: frames(1 + usize::try_from(token).unwrap()) });
    }
    let (_, mut completions) = settle(&mut drive, 8);
    completions.sort_by_key(|completion| completion.token.0);
    let offsets: Vec<u32> = completions.iter().map(|completion| completion.offset).collect();
    assert_eq!(offsets, [0, 1, 3, 6, 10, 15, 21, 28]);
}

#[test]
fn refusals_are_quick_and_late_polls_are_lag() {
    let mut drive = timed();
    submit(&mut drive, 0, 1, 9, Op::Reset);
    submit(&mut drive, 0, 2, 0, Op::Write { offset: 5, frames: frames(1) });
    let mut completions = Vec::new();
    drive.poll(Instant(1_000_000), &mut completions);
    let mut statuses: Vec<(u64, Status)> =
        completions.iter().map(|completion| (completion.token.0, completion.status)).collect();
    statuses.sort_by_key(|(token, _)| *token);
    assert_eq!(statuses, [(1, Status::LbaOutOfRange), (2, Status::ZoneInvalidWrite)]);
    assert!(drive.lag() > Nanos(900_000), "{:?}", drive.lag());
    submit(&mut drive, 5_000_000_000, 3, 0, Op::Flush);
    let (_, flushed) = settle(&mut drive, 1);
    assert_eq!(flushed[0].status, Status::Success);
    assert_eq!(drive.lag(), Nanos(0), "old lag is forgotten");
}

#[test]
fn costs_follow_the_zones_that_were_there_and_their_fraction() {
    let mut inner = EmulatedDrive::on_heap(GEOMETRY, [1; 16]).unwrap();
    let mut completions = Vec::new();
    for offset in (0..500).step_by(50) {
        let op = Op::Write { offset, frames: frames(50) };
        inner.submit(Instant(0), Command { token: Token(0), zone: ZoneIndex(2), op });
    }
    inner.poll(Instant(0), &mut completions);
    let mut drive = TimedDrive::new(inner, &Profile::named("zn540-1tb").unwrap(), ModelOptions::default());
    submit(&mut drive, 0, 1, 2, Op::Reset);
    let (now, _) = settle(&mut drive, 1);
    assert!((10_500_000..14_500_000).contains(&now.0), "a half-full zone takes about 11.6 ms: {now:?}");
}

#[test]
fn a_drive_that_dies_takes_what_is_in_flight_along() {
    let mut drive = timed();
    submit(&mut drive, 0, 1, 0, Op::Append { frames: frames(2) });
    drive.drive_mut().die();
    submit(&mut drive, 0, 2, 0, Op::Append { frames: frames(2) });
    let (_, completions) = settle(&mut drive, 2);
    assert!(completions.iter().all(|completion| completion.status == Status::DeviceGone));
    assert!(completions.iter().all(|completion| completion.frames.len() == 2), "frames come home");
}

#[test]
fn a_flush_of_a_disk_waits_for_both_the_disk_and_the_model() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    let options = crate::emulated::CreateOptions::new(GEOMETRY, [1; 16]);
    let inner = EmulatedDrive::create(&place.path().join("drive"), &options).unwrap();
    let mut drive = TimedDrive::new(inner, &Profile::named("zn540-1tb").unwrap(), ModelOptions::default());
    submit(&mut drive, 0, 1, 0, Op::Append { frames: frames(3) });
    submit(&mut drive, 0, 2, 0, Op::Flush);
    submit(&mut drive, 0, 3, 0, Op::Flush);
    let mut completions = Vec::new();
    drive.poll(Instant(5_000), &mut completions);
    assert!(completions.is_empty(), "no disk is so fast that the model need not be waited for");
    for _ in 0..10_000 {
        drive.poll(Instant(10_000_000), &mut completions);
        if completions.len() == 3 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let mut tokens: Vec<u64> = completions.iter().map(|completion| completion.token.0).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, [1, 2, 3]);
}

/// Time passes to each answer in turn, and the same times come out when every event is polled for.
#[test]
fn time_passes_to_the_next_answer_of_any_drive() {
    let drives = || {
        let mut drives = DriveSet::new(vec![Some(Box::new(timed())), None, Some(Box::new(timed()))]);
        for (member, blocks) in [(0, 64), (2, 1)] {
            let op = Op::Append { frames: frames(blocks) };
            let command = Command { token: Token(member as u64), zone: ZoneIndex(0), op };
            drives.submit(Instant(0), DriveCommand { drive: DriveIndex::at(member), command });
        }
        drives
    };
    let (mut polled, mut passed) = (drives(), drives());
    let mut expected = Vec::new();
    while let Some(now) = polled.next_event() {
        let mut completions = Vec::new();
        polled.poll(now, &mut completions);
        expected.extend(completions.iter().map(|(drive, _)| (now, *drive)));
    }
    assert_eq!(expected.iter().map(|(_, drive)| drive.index()).collect::<Vec<_>>(), [2, 0]);

    let mut completions = Vec::new();
    assert_eq!(passed.pass_time(Instant(0), Some(Instant(5_000))), Some(Instant(5_000)));
    passed.poll(Instant(5_000), &mut completions);
    assert!(completions.is_empty(), "nothing is done in 5 us");
    for (at, drive) in expected {
        assert_eq!(passed.pass_time(Instant(5_000), None), Some(at));
        assert_eq!(passed.in_flight(drive), 1, "what nobody has polled for is in flight");
        passed.poll(at, &mut completions);
        assert_eq!(completions.drain(..).map(|(drive, _)| drive).collect::<Vec<_>>(), [drive]);
    }
    assert_eq!(passed.pass_time(Instant(5_000), None), None);
    assert_eq!(passed.pass_time(Instant(5_000), Some(Instant(9_000_000))), Some(Instant(9_000_000)));
}

/// Windows through the drive: the rules decide, the model takes its time, and the counters are those of both.
#[test]
fn windows_take_the_time_of_the_model_and_the_outcome_of_the_rules() {
    let areas =
        zone::device::Areas { zones_max: 1, window_blocks: 16, granule_blocks: 4, explicit_commit: true };
    let geometry = Geometry { areas: Some(areas), ..GEOMETRY };
    let inner = EmulatedDrive::on_heap(geometry, [1; 16]).unwrap();
    let mut drive = TimedDrive::new(inner, &Profile::named("zn540-1tb").unwrap(), ModelOptions::default());
    let mut now = 0;
    let mut run = |drive: &mut TimedDrive, zone: u32, op: Op| {
        submit(drive, now, 1, zone, op);
        let (end, mut completions) = settle(drive, 1);
        let took = end.0 - now;
        now = end.0 + 1_000_000;
        (completions.pop().unwrap().status, took)
    };
    let write = |offset: u32, blocks: usize| Op::Write { offset, frames: frames(blocks) };
    assert_eq!(run(&mut drive, 0, Op::OpenWithArea).0, Status::Success);
    assert_eq!(run(&mut drive, 1, Op::OpenWithArea).0, Status::NoAreaLeft);
    for offset in [8, 0, 8] {
        assert_eq!(run(&mut drive, 0, write(offset, 8)).0, Status::Success);
    }
    let block = BLOCK_BYTES_U64;
    let wear = drive.wear();
    assert_eq!((wear.written_bytes, wear.absorbed_bytes, wear.committed_bytes), (24 * block, 8 * block, 0));
    let (status, took) = run(&mut drive, 0, Op::Read { offset: 3, frames: frames(1) });
    assert!(status == Status::Success && took < 15_000, "out of the buffer: {took} ns");
    assert_eq!(run(&mut drive, 0, write(16, 4)).0, Status::Success);
    assert_eq!(drive.wear().committed_bytes, 4 * block, "implicitly");
    assert_eq!(run(&mut drive, 0, write(0, 4)).0, Status::ZoneInvalidWrite);
    let (status, took) = run(&mut drive, 0, Op::Commit { end: 8 });
    assert!(status == Status::Success && took < 20_000, "{took} ns");
    let wear = drive.wear();
    assert_eq!((wear.committed_bytes, wear.held_bytes()), (8 * block, 12 * block));
    assert_eq!(wear.backing_bytes, wear.window_bytes, "its windows are flash");
    let model = TimedDrive::new(
        EmulatedDrive::from_heap(drive.drive().heap_snapshot().unwrap()).unwrap(),
        &Profile::named("zn540-1tb").unwrap(),
        ModelOptions::default(),
    );
    assert_eq!(model.wear().held_bytes(), 12 * block, "a drive with windows in use goes on with them");
    assert_eq!(run(&mut drive, 0, Op::Finish).0, Status::Success);
    assert_eq!((drive.wear().committed_bytes, drive.wear().held_bytes()), (20 * block, 0));
    assert_eq!(run(&mut drive, 1, Op::OpenWithArea).0, Status::Success, "the area was given back");
}
