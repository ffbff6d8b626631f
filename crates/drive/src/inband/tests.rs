//! Drives over emulated ones, whose metadata nobody looks at.

mod elsewhere;

use super::recovery::OpenError;
use super::{InbandDrive, format, open};
use crate::emulated::EmulatedDrive;
use base::frame::Frame;
use base::time::Instant;
use base::units::ZoneIndex;
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZoneState, ZonedDevice};

pub(crate) const GEOMETRY: Geometry = Geometry {
    zones: 8,
    zone_size_blocks: 512,
    zone_capacity_blocks: 364,
    open_zones_max: 4,
    active_zones_max: 4,
    append_blocks_max: 1,
    transfer_blocks_max: 128,
    volatile_cache: false,
    areas: None,
};

/// Carries out a command of a device that answers at once.
pub(crate) fn carry_out<D: ZonedDevice>(device: &mut D, command: Command) -> Option<Completion> {
    device.submit(Instant(0), command);
    let mut completions = Vec::new();
    device.poll(Instant(0), &mut completions);
    completions.pop()
}

fn device() -> EmulatedDrive {
    EmulatedDrive::on_heap(GEOMETRY, [1; 16]).unwrap()
}

fn formatted() -> InbandDrive<EmulatedDrive> {
    let mut device = device();
    format(&mut device, [9; 16], &mut carry_out).unwrap();
    open(device, 16, &mut carry_out).unwrap()
}

/// The drive as the next process finds it.
fn reopened(drive: &InbandDrive<EmulatedDrive>) -> InbandDrive<EmulatedDrive> {
    let device = EmulatedDrive::from_heap(drive.device().heap_snapshot().unwrap()).unwrap();
    open(device, 16, &mut carry_out).unwrap()
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

fn seen(completion: &Completion) -> Vec<(u8, u8)> {
    assert_eq!(completion.status, Status::Success);
    completion.frames.iter().map(|frame| (frame.data[9], frame.oob[9])).collect()
}

#[test]
fn a_drive_keeps_what_was_written() {
    let mut drive = formatted();
    assert_eq!(drive.geometry().zones, 6);
    let written = run(&mut drive, 3, Op::Append { frames: frames(32) });
    assert_eq!((written.status, written.offset), (Status::Success, 0));
    let written = run(&mut drive, 3, Op::Write { offset: 32, frames: frames(40) });
    assert_eq!(written.status, Status::Success);
    let mut drive = reopened(&drive);
    assert_eq!(drive.uuid(), [9; 16]);
    let read = run(&mut drive, 3, Op::Read { offset: 30, frames: frames(60) });
    let expected = (31..=32).chain(1..=40).map(|number| (number, number + 100));
    assert_eq!(seen(&read), expected.chain((42..60).map(|_| (0, 0))).collect::<Vec<_>>());
    assert_eq!(run(&mut drive, 0, Op::SelfTest { repair: false }).status, Status::Success);
}

#[test]
fn a_zone_that_was_finished_ends_where_it_did() {
    let mut drive = formatted();
    run(&mut drive, 2, Op::Write { offset: 0, frames: frames(61) });
    assert_eq!(run(&mut drive, 2, Op::Finish).status, Status::Success);
    let mut drive = reopened(&drive);
    let report = run(&mut drive, 2, Op::Report { count: 1 }).report;
    assert_eq!(report[0].state, ZoneState::Full);
    let read = run(&mut drive, 2, Op::Read { offset: 59, frames: frames(10) });
    assert_eq!(seen(&read)[..3], [(60, 160), (61, 161), (0, 0)]);
    assert_eq!(seen(&run(&mut drive, 2, Op::Read { offset: 200, frames: frames(9) })), [(0, 0); 9]);
}

/// Writes more records than the journal has places, all for another zone: three blocks of zone 5 are there afterwards.
#[track_caller]
fn turn_the_journal_beside(mut drive: InbandDrive<EmulatedDrive>) {
    for _ in 0..1_500 {
        assert_eq!(run(&mut drive, 1, Op::Write { offset: 0, frames: frames(1) }).status, Status::Success);
        assert_eq!(run(&mut drive, 1, Op::Reset).status, Status::Success);
    }
    let mut drive = reopened(&drive);
    let read = run(&mut drive, 5, Op::Read { offset: 0, frames: frames(4) });
    assert_eq!(seen(&read), [(1, 101), (2, 102), (3, 103), (0, 0)]);
}

#[test]
fn more_records_than_the_journal_has_places() {
    let mut drive = formatted();
    assert_eq!(run(&mut drive, 5, Op::Write { offset: 0, frames: frames(3) }).status, Status::Success);
    turn_the_journal_beside(drive);
}

/// Writes blocks one by one, all of them in one turn, and waits for the answers.
fn write_in_a_turn(drive: &mut InbandDrive<EmulatedDrive>, places: impl Iterator<Item = (u32, u32)>) {
    let mut waiting = 0;
    for (zone, offset) in places {
        let op = Op::Write { offset, frames: frames(1) };
        drive.submit(Instant(0), Command { token: Token(u64::from(offset)), zone: ZoneIndex(zone), op });
        waiting += 1;
    }
    assert_eq!(drive.next_event(), Some(Instant(0)), "something is held until the turn ends");
    let mut completions = Vec::new();
    while completions.len() < waiting {
        drive.poll(Instant(0), &mut completions);
    }
    assert!(completions.iter().all(|completion| completion.status == Status::Success));
}

#[test]
fn a_unit_of_one_turn_needs_no_entries() {
    let mut drive = formatted();
    assert_eq!(run(&mut drive, 0, Op::Write { offset: 0, frames: frames(1) }).status, Status::Success);
    let before = drive.core.media.journal.completed();
    write_in_a_turn(&mut drive, (1..59).map(|offset| (0, offset)));
    assert_eq!(drive.core.media.journal.completed(), before);
    write_in_a_turn(&mut drive, (59..61).map(|offset| (0, offset)));
    assert_eq!(drive.core.media.journal.completed(), before + 1);
    let mut drive = reopened(&drive);
    let read = run(&mut drive, 0, Op::Read { offset: 0, frames: frames(62) });
    assert_eq!(seen(&read), [vec![(1, 101); 61], vec![(0, 0)]].concat());
}

#[test]
fn records_share_a_command() {
    let mut drive = formatted();
    let before = drive.core.media.journal.completed();
    let mut completions = Vec::new();
    let op = |zone: u32| Command {
        token: Token(0),
        zone: ZoneIndex(zone),
        op: Op::Write { offset: 0, frames: frames(58) },
    };
    (0..2).for_each(|zone| drive.submit(Instant(0), op(zone)));
    drive.end_turn(Instant(0));
    assert!(!drive.core.media.journal.takes_entries(), "records are in flight");
    while completions.len() < 2 {
        drive.poll(Instant(0), &mut completions);
        // What is in flight is all there is: 116 entries and two marks.
        assert!([0, 3].contains(&(drive.core.media.journal.completed() - before)));
    }
    let mut drive = reopened(&drive);
    let read = run(&mut drive, 1, Op::Read { offset: 50, frames: frames(9) });
    let expected = (51..=58).map(|number| (number, number + 100)).chain([(0, 0)]);
    assert_eq!(seen(&read), expected.collect::<Vec<_>>());
}

#[test]
fn data_without_identities_read_as_zeros() {
    let mut drive = formatted();
    assert_eq!(run(&mut drive, 5, Op::Write { offset: 0, frames: frames(3) }).status, Status::Success);
    // The data of two more arrive, and the record of the journal does not.
    let arrived = run(drive.device_mut(), 7, Op::Write { offset: 3, frames: frames(2) });
    assert_eq!(arrived.status, Status::Success);
    let expected = [(1, 101), (2, 102), (3, 103), (0, 0), (0, 0)];
    let mut drive = reopened(&drive);
    assert_eq!(seen(&run(&mut drive, 5, Op::Read { offset: 0, frames: frames(5) })), expected);
    assert_eq!(run(&mut drive, 5, Op::Write { offset: 5, frames: frames(60) }).status, Status::Success);
    let mut drive = reopened(&drive);
    assert_eq!(seen(&run(&mut drive, 5, Op::Read { offset: 0, frames: frames(5) })), expected);
    assert_eq!(seen(&run(&mut drive, 5, Op::Read { offset: 5, frames: frames(1) })), [(1, 101)]);
}

#[test]
fn a_zone_that_died_does_not_keep_the_journal() {
    let mut drive = formatted();
    assert_eq!(run(&mut drive, 5, Op::Write { offset: 0, frames: frames(3) }).status, Status::Success);
    // Two more than the journal's.
    drive.device_mut().fail_zone(ZoneIndex(7), ZoneState::ReadOnly);
    let failed = run(&mut drive, 5, Op::Write { offset: 3, frames: frames(64) });
    assert_eq!(failed.status, Status::ZoneIsReadOnly);
    turn_the_journal_beside(drive);
}

#[test]
fn a_zone_that_died_leaves_its_place() {
    let mut drive = formatted();
    for zone in 0..2 {
        assert_eq!(run(&mut drive, zone, Op::Write { offset: 0, frames: frames(3) }).status, Status::Success);
    }
    drive.device_mut().fail_zone(ZoneIndex(2), ZoneState::ReadOnly);
    let failed = run(&mut drive, 0, Op::Write { offset: 3, frames: frames(1) });
    assert_eq!(failed.status, Status::ZoneIsReadOnly);
    assert_eq!(run(&mut drive, 2, Op::Write { offset: 0, frames: frames(3) }).status, Status::Success);
    assert_eq!(seen(&run(&mut drive, 0, Op::Read { offset: 0, frames: frames(2) })), [(1, 101), (2, 102)]);
    assert_eq!(run(&mut drive, 0, Op::Reset).status, Status::InvalidZoneStateTransition);
}

/// A journal zone dies while three blocks of zone 5 have their identities there; the drive goes on, also when it is opened again.
#[track_caller]
fn outlive(zone: u32, state: ZoneState) -> InbandDrive<EmulatedDrive> {
    let mut drive = formatted();
    assert_eq!(run(&mut drive, 5, Op::Write { offset: 0, frames: frames(3) }).status, Status::Success);
    drive.device_mut().fail_zone(ZoneIndex(zone), state);
    assert_eq!(run(&mut drive, 4, Op::Write { offset: 0, frames: frames(2) }).status, Status::Success);
    assert_eq!(run(&mut drive, 0, Op::SelfTest { repair: false }).status, Status::Success);
    let mut drive = reopened(&drive);
    let read = run(&mut drive, 5, Op::Read { offset: 0, frames: frames(4) });
    assert_eq!(seen(&read), [(1, 101), (2, 102), (3, 103), (0, 0)]);
    assert_eq!(run(&mut drive, 4, Op::Write { offset: 2, frames: frames(2) }).status, Status::Success);
    drive
}

#[test]
fn a_drive_outlives_a_journal_zone() {
    for state in [ZoneState::ReadOnly, ZoneState::Offline] {
        outlive(0, state);
        outlive(1, state);
    }
}

#[test]
fn the_last_journal_zone_keeps_room_for_openings() {
    let mut drive = outlive(0, ZoneState::ReadOnly);
    let written = (0..1_000).take_while(|_| {
        run(&mut drive, 4, Op::Reset).status == Status::Success
            && run(&mut drive, 4, Op::Write { offset: 0, frames: frames(1) }).status == Status::Success
    });
    assert!((100..200).contains(&written.count()), "two records each, in three quarters of 363");
    assert_eq!(run(&mut drive, 5, Op::Write { offset: 3, frames: frames(1) }).status, Status::WriteFault);
    let mut drive = reopened(&drive);
    assert_eq!(seen(&run(&mut drive, 5, Op::Read { offset: 2, frames: frames(1) })), [(3, 103)]);
    assert_eq!(run(&mut drive, 5, Op::Write { offset: 3, frames: frames(1) }).status, Status::WriteFault);
}

#[test]
fn a_drive_without_a_journal_zone_fails_in_order() {
    let mut drive = outlive(0, ZoneState::ReadOnly);
    drive.device_mut().fail_zone(ZoneIndex(1), ZoneState::ReadOnly);
    assert_eq!(run(&mut drive, 5, Op::Write { offset: 3, frames: frames(1) }).status, Status::WriteFault);
    assert_eq!(run(&mut drive, 4, Op::Write { offset: 4, frames: frames(1) }).status, Status::WriteFault);
    assert_eq!(seen(&run(&mut drive, 5, Op::Read { offset: 2, frames: frames(1) })), [(3, 103)]);
    let device = EmulatedDrive::from_heap(drive.device().heap_snapshot().unwrap()).unwrap();
    let refused = open(device, 16, &mut carry_out).unwrap_err();
    assert_eq!(refused, OpenError::JournalDead);
}

#[test]
fn records_that_may_be_lost_are_not_passed_over() {
    let mut drive = formatted();
    assert_eq!(run(&mut drive, 5, Op::Write { offset: 0, frames: frames(3) }).status, Status::Success);
    drive.device_mut().fail_zone(ZoneIndex(0), ZoneState::Offline);
    let device = EmulatedDrive::from_heap(drive.device().heap_snapshot().unwrap()).unwrap();
    let refused = open(device, 16, &mut carry_out).unwrap_err();
    assert_eq!(refused, OpenError::JournalLost(0));
}

#[test]
fn what_is_no_drive_is_not_opened() {
    let refused = open(device(), 16, &mut carry_out).unwrap_err();
    assert!(matches!(refused, OpenError::Header(_)), "{refused}");
    let few = EmulatedDrive::on_heap(Geometry { open_zones_max: 2, ..GEOMETRY }, [1; 16]).unwrap();
    let refused = format(&mut { few }, [9; 16], &mut carry_out).unwrap_err();
    assert!(matches!(refused, OpenError::Layout(_)), "{refused}");
}

/// Where the first zone lies that turned, and its state.
fn find(drive: &mut InbandDrive<EmulatedDrive>, zone: u32, count: u32) -> Option<(u32, ZoneState)> {
    let found = run(drive, zone, Op::FindTurned { count });
    assert_eq!(found.status, Status::Success);
    found.report.first().map(|zone| (found.offset, zone.state))
}

#[test]
fn zones_that_turned_are_found_one_after_the_other() {
    let mut drive = formatted();
    assert_eq!(find(&mut drive, 0, u32::MAX), None);
    // Two more than the journal's, which are not searched.
    drive.device_mut().fail_zone(ZoneIndex(0), ZoneState::ReadOnly);
    assert_eq!(find(&mut drive, 0, u32::MAX), None);
    drive.device_mut().fail_zone(ZoneIndex(7), ZoneState::ReadOnly);
    drive.device_mut().fail_zone(ZoneIndex(3), ZoneState::Offline);
    assert_eq!(find(&mut drive, 0, u32::MAX), Some((1, ZoneState::Offline)));
    assert_eq!(find(&mut drive, 1, 1), Some((0, ZoneState::Offline)));
    assert_eq!(find(&mut drive, 2, u32::MAX), Some((3, ZoneState::ReadOnly)));
    assert_eq!(find(&mut drive, 2, 3), None, "it lies behind those that were asked for");
    assert_eq!(find(&mut drive, 1, 0), None);
    assert_eq!(run(&mut drive, 6, Op::FindTurned { count: 1 }).status, Status::LbaOutOfRange);
    // Reports say what a search has found.
    let report = run(&mut drive, 0, Op::Report { count: 6 }).report;
    let states: Vec<_> = report.iter().map(|zone| zone.state).collect();
    assert_eq!((states[1], states[5]), (ZoneState::Offline, ZoneState::ReadOnly));
    assert!([0, 2, 3, 4].iter().all(|&zone| states[zone] == ZoneState::Empty));
    // The next process finds them, too.
    assert_eq!(find(&mut reopened(&drive), 0, u32::MAX), Some((1, ZoneState::Offline)));
}

#[test]
fn a_zone_that_turned_worse_is_found_as_it_is_now() {
    let mut drive = formatted();
    drive.device_mut().fail_zone(ZoneIndex(4), ZoneState::ReadOnly);
    assert_eq!(find(&mut drive, 0, u32::MAX), Some((2, ZoneState::ReadOnly)));
    drive.device_mut().fail_zone(ZoneIndex(4), ZoneState::Offline);
    assert_eq!(find(&mut drive, 0, u32::MAX), Some((2, ZoneState::Offline)));
}

#[test]
fn a_search_frees_the_place_of_a_zone_that_turned() {
    let mut drive = formatted();
    let begin = |drive: &mut InbandDrive<EmulatedDrive>, zone| {
        run(drive, zone, Op::Write { offset: 0, frames: frames(3) }).status
    };
    // Four zones may be in use, two of them are the journal's.
    assert_eq!([0, 1].map(|zone| begin(&mut drive, zone)), [Status::Success; 2]);
    drive.device_mut().fail_zone(ZoneIndex(2), ZoneState::ReadOnly);
    assert_eq!(begin(&mut drive, 2), Status::TooManyActiveZones);
    assert_eq!(find(&mut drive, 0, 6), Some((0, ZoneState::ReadOnly)));
    assert_eq!(begin(&mut drive, 2), Status::Success);
    assert_eq!(seen(&run(&mut drive, 0, Op::Read { offset: 0, frames: frames(2) })), [(1, 101), (2, 102)]);
}
