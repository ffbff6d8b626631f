//! The drive over a controller made of [`ZoneTable`], which answers in any order, fills what was never written with garbage, and has the
//! fault of QEMU 7.2 when told to.

use super::passthrough::{Answer, Job, Queue};
use super::quirk::Quirks;
use super::wire::{Action, Transition, Turn, encode};
use super::*;
use base::bytes::u32_at;
use base::random::Random;
use base::units::{BLOCK_BYTES, ZoneIndex};
use std::collections::BTreeMap;
use zone::device::{Areas, Token};
use zone::rules::ZoneTable;

const NOW: Instant = Instant(0);
const QEMU: Quirks = Quirks { identifiers_repeat: true, metadata_lost: true, areas_from_one: true };

fn geometry(quirks: Quirks) -> Geometry {
    Geometry {
        zones: 1300,
        zone_size_blocks: 64,
        zone_capacity_blocks: 48,
        open_zones_max: 3,
        active_zones_max: 4,
        append_blocks_max: quirks.whole_transfer(16),
        transfer_blocks_max: 32,
        volatile_cache: true,
        areas: None,
    }
}

struct Controller {
    table: ZoneTable,
    blocks: BTreeMap<u64, ([u8; BLOCK_BYTES], [u8; OOB_BYTES])>,
    ready: Vec<Answer>,
    random: Random,
    loses_metadata: bool,
    /// What was never written reads as zeros, as a drive with areas has to say.
    reads_zeros: bool,
    /// Results of the next commands, instead of carrying them out.
    results: VecDeque<i32>,
    /// Commands are kept, as by a drive that hangs.
    hangs: bool,
    kept: Vec<Job>,
    is_there: bool,
    /// Zone Writes that were begun and not answered, and the most at a time.
    writes: (u32, u32),
}

impl Controller {
    fn new(geometry: Geometry, quirks: Quirks) -> Controller {
        Controller {
            table: ZoneTable::new(geometry),
            blocks: BTreeMap::new(),
            ready: Vec::new(),
            random: Random::from_seed(7),
            loses_metadata: quirks.metadata_lost,
            reads_zeros: geometry.areas.is_some(),
            results: VecDeque::new(),
            hangs: false,
            kept: Vec::new(),
            is_there: true,
            writes: (0, 0),
        }
    }

    fn split(block: u64) -> (ZoneIndex, u32) {
        (ZoneIndex(u32::try_from(block / 64).unwrap()), u32::try_from(block % 64).unwrap())
    }

    fn carry_out(&mut self, job: &mut Job) -> Result<u64, Status> {
        let count = block_count(&job.payload.frames);
        let start = match job.action {
            Action::Read { block } => {
                let (zone, offset) = Controller::split(block);
                self.table.read(zone, offset, count)?;
                block
            }
            Action::Write { block } => {
                let (zone, offset) = Controller::split(block);
                self.table.write(zone, offset, count)?;
                block
            }
            Action::Append { zone_start } => {
                zone_start + u64::from(self.table.append(Controller::split(zone_start).0, count)?)
            }
            Action::Flush => return Ok(0),
            Action::Manage { zone_start, transition } => {
                let zone = Controller::split(zone_start).0;
                match transition {
                    Transition::Close => self.table.close(zone)?,
                    Transition::Finish => self.table.finish(zone)?,
                    Transition::Open => self.table.open(zone)?,
                    Transition::OpenWithArea => self.table.open_with_area(zone)?,
                    Transition::Reset => {
                        self.table.reset(zone)?;
                        if self.reads_zeros {
                            self.blocks.retain(|block, _| Controller::split(*block).0 != zone);
                        }
                    }
                }
                return Ok(0);
            }
            Action::Commit { last_block } => {
                let (zone, last) = Controller::split(last_block);
                self.table.commit(zone, last + 1)?;
                return Ok(0);
            }
            Action::Report { zone_start } => {
                let (zone, _) = Controller::split(zone_start);
                let zones =
                    self.table.report(zone, u32::try_from(job.payload.bytes.len() / 64 - 1).unwrap())?;
                let report = report::encode(zone.0, &zones, 64);
                job.payload.bytes[..report.len()].copy_from_slice(&report);
                return Ok(0);
            }
            Action::ReportTurned { zone_start, turn } => {
                let (first, _) = Controller::split(zone_start);
                let zones = self.table.report(first, u32::MAX)?;
                let wanted = if turn == Turn::ReadOnly { ZoneState::ReadOnly } else { ZoneState::Offline };
                let found = (first.0..).zip(zones).find(|(_, zone)| zone.state == wanted);
                let report = found.map_or(vec![0; 64], |(zone, found)| report::encode(zone, &[found], 64));
                job.payload.bytes[..report.len()].copy_from_slice(&report);
                return Ok(0);
            }
            Action::ManageAll { .. } | Action::Identify { .. } | Action::Health => {
                panic!("not of a drive in service")
            }
        };
        self.transfer(job, start);
        Ok(start)
    }

    /// Moves blocks as QEMU 7.2 does, or as a drive should.
    fn transfer(&mut self, job: &mut Job, start: u64) {
        let count = job.payload.frames.len();
        let lost_from =
            if self.loses_metadata && count > 8 && !count.is_multiple_of(8) { count % 8 } else { count };
        for (index, block) in (0..count).zip(start..) {
            let has_metadata = index < lost_from;
            if job.action.reads() {
                let unwritten = match self.reads_zeros {
                    true => ([0; BLOCK_BYTES], [0; OOB_BYTES]),
                    false => ([0xa5; BLOCK_BYTES], [0x5a; OOB_BYTES]),
                };
                let (data, metadata) = *self.blocks.get(&block).unwrap_or(&unwritten);
                job.payload.frames[index].data = data;
                if has_metadata {
                    *job.payload.metadata_mut(index) = metadata;
                }
            } else {
                let metadata =
                    if has_metadata { *job.payload.metadata_mut(index) } else { [0x77; OOB_BYTES] };
                self.blocks.insert(block, (job.payload.frames[index].data, metadata));
            }
        }
    }
}

impl Queue for Controller {
    fn begin(&mut self, mut job: Job) {
        let command = encode(job.action, 1, &mut job.payload).bytes;
        if let Some(less_one) = u32::try_from(job.payload.frames.len()).unwrap().checked_sub(1) {
            assert_eq!(u32_at(&command, 48), less_one, "blocks of the command");
        }
        if matches!(job.action, Action::Write { .. }) {
            self.writes.0 += 1;
            self.writes.1 = self.writes.1.max(self.writes.0);
        }
        if self.hangs {
            return self.kept.push(job);
        }
        let (result, place) = match self.results.pop_front() {
            Some(result) => (result, u64::MAX),
            None => match self.carry_out(&mut job) {
                Ok(place) => (0, place),
                Err(status) => (i32::from(status.nvme_code()) | 0x4000, u64::MAX),
            },
        };
        self.ready.push(Answer { job, result, place });
    }

    fn take(&mut self, answers: &mut Vec<Answer>) {
        let count = self.random.below(self.ready.len() as u64 + 1);
        for _ in 0..count {
            let index = usize::try_from(self.random.below(self.ready.len() as u64)).unwrap();
            let answer = self.ready.swap_remove(index);
            self.writes.0 -= u32::from(matches!(answer.job.action, Action::Write { .. }));
            answers.push(answer);
        }
    }

    fn in_flight(&self) -> usize {
        self.kept.len() + self.ready.len()
    }

    fn is_there(&self) -> bool {
        self.is_there
    }
}

type Drive = NvmeDrive<Controller>;

fn drive(quirks: Quirks) -> Drive {
    drive_of(geometry(quirks), quirks)
}

fn drive_of(geometry: Geometry, quirks: Quirks) -> Drive {
    let controller = Controller::new(geometry, quirks);
    let zones = controller.table.report(ZoneIndex(0), u32::MAX).unwrap();
    NvmeDrive::new(geometry, quirks, controller, &zones)
}

/// Windows of 8 blocks in granules of 4, in two zones at a time.
fn drive_with_areas(quirks: Quirks) -> Drive {
    let areas = Areas { zones_max: 2, window_blocks: 8, granule_blocks: 4, explicit_commit: true };
    drive_of(Geometry { areas: Some(areas), ..geometry(quirks) }, quirks)
}

/// The same media, opened anew.
fn reopened(drive: Drive) -> Drive {
    let (geometry, quirks, controller) = (drive.geometry, drive.quirks, drive.queue);
    let zones = controller.table.report(ZoneIndex(0), u32::MAX).unwrap();
    NvmeDrive::new(geometry, quirks, controller, &zones)
}

fn frames(seed: u8, count: usize) -> Vec<Frame> {
    (0..count)
        .zip(seed..)
        .map(|(_, byte)| {
            let mut frame = Frame::zeroed();
            frame.data = [byte; BLOCK_BYTES];
            frame.oob = [byte ^ 0xff; OOB_BYTES];
            frame
        })
        .collect()
}

fn submit(drive: &mut Drive, token: u64, zone: u32, op: Op) {
    drive.submit(NOW, Command { token: Token(token), zone: ZoneIndex(zone), op });
}

/// Polls until so many answers have come.
fn collect(drive: &mut Drive, count: usize) -> Vec<Completion> {
    let mut completions = Vec::new();
    for _ in 0..10_000 {
        drive.poll(NOW, &mut completions);
        if completions.len() == count {
            return completions;
        }
    }
    panic!("{} of {count} answers", completions.len());
}

fn run(drive: &mut Drive, zone: u32, op: Op) -> Completion {
    submit(drive, 1, zone, op);
    collect(drive, 1).remove(0)
}

fn read(drive: &mut Drive, zone: u32, offset: u32, count: usize) -> Vec<Frame> {
    let completion = run(drive, zone, Op::Read { offset, frames: frames(0xc0, count) });
    assert_eq!(completion.status, Status::Success);
    completion.frames
}

fn is_same(one: &[Frame], other: &[Frame]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| one.data == other.data && one.oob == other.oob)
}

/// All sizes at all offsets, with the quirk and without: data and metadata of each block are as written.
#[test]
fn transfers_of_all_sizes_keep_data_and_metadata() {
    for quirks in [QEMU, Quirks::default()] {
        let mut drive = drive(quirks);
        for (zone, count) in (0..32).zip(1..=32) {
            for op in [Op::Write { offset: 0, frames: frames(count, count.into()) }, Op::Finish] {
                assert_eq!(run(&mut drive, zone, op).status, Status::Success);
            }
            for (start, first) in (0..count).zip(count..) {
                let found = read(&mut drive, zone, start.into(), (count - start).into());
                assert!(
                    is_same(&found, &frames(first, (count - start).into())),
                    "{count} blocks from {start}"
                );
            }
        }
        let most = drive.geometry.append_blocks_max as usize;
        assert_eq!(most, if quirks == QEMU { 8 } else { 16 });
        for count in 1..=most {
            let zone = 100 + u32::try_from(count).unwrap();
            let appended = run(&mut drive, zone, Op::Append { frames: frames(9, count) });
            assert_eq!((appended.status, appended.offset), (Status::Success, 0));
            assert!(is_same(&read(&mut drive, zone, 0, count), &frames(9, count)));
            run(&mut drive, zone, Op::Reset);
        }
    }
}

#[test]
fn without_the_quirk_the_fault_would_show() {
    let mut drive = drive(QEMU);
    drive.quirks = Quirks::default();
    run(&mut drive, 0, Op::Write { offset: 0, frames: frames(1, 9) });
    assert!(!is_same(&read(&mut drive, 0, 0, 9), &frames(1, 9)));
}

#[test]
fn what_was_not_written_reads_as_zeros() {
    let mut drive = drive(Quirks::default());
    let blanks = |frames: &[Frame]| frames.iter().map(Frame::is_blank).collect::<Vec<_>>();
    assert_eq!(blanks(&read(&mut drive, 5, 0, 2)), [true, true]);
    run(&mut drive, 5, Op::Append { frames: frames(1, 3) });
    assert_eq!(blanks(&read(&mut drive, 5, 1, 4)), [false, false, true, true]);
    let mut drive = reopened(drive);
    assert_eq!(blanks(&read(&mut drive, 5, 1, 4)), [false, false, true, true]);
    // A read that was submitted before a write does not see what it wrote, nor what was there before.
    submit(&mut drive, 1, 5, Op::Read { offset: 3, frames: frames(0, 1) });
    submit(&mut drive, 2, 5, Op::Write { offset: 3, frames: frames(9, 1) });
    let answers = collect(&mut drive, 2);
    let seen = answers.iter().find(|answer| answer.token == Token(1)).unwrap();
    assert!(seen.frames[0].is_blank());
    run(&mut drive, 5, Op::Finish);
    assert_eq!(blanks(&read(&mut drive, 5, 2, 4)), [false, false, true, true]);
    run(&mut drive, 5, Op::Reset);
    assert_eq!(blanks(&read(&mut drive, 5, 0, 4)), [true; 4]);
}

#[test]
fn a_zone_that_was_full_may_read_as_ones() {
    let mut drive = drive(Quirks::default());
    run(&mut drive, 5, Op::Write { offset: 0, frames: frames(1, 1) });
    run(&mut drive, 5, Op::Finish);
    drive.queue.blocks.insert(5 * 64 + 1, ([0xff; BLOCK_BYTES], [0xff; OOB_BYTES]));
    drive.queue.blocks.insert(5 * 64 + 2, ([0xff; BLOCK_BYTES], [0xfe; OOB_BYTES]));
    let found = read(&mut reopened(drive), 5, 0, 3);
    assert!(!found[0].is_blank() && found[1].is_blank());
    assert_eq!(found[2].oob, [0xfe; OOB_BYTES], "a block with metadata was written");
}

#[test]
fn zone_writes_go_one_after_the_other() {
    let mut drive = drive(QEMU);
    for (token, offset) in [(1, 0), (2, 13), (3, 14)] {
        let count = if token == 1 { 13 } else { 1 };
        submit(&mut drive, token, 3, Op::Write { offset, frames: frames(1, count) });
    }
    let answers = collect(&mut drive, 3);
    assert!(answers.iter().all(|answer| answer.status == Status::Success), "{answers:?}");
    assert_eq!(answers.iter().map(|answer| answer.token.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(drive.queue.writes, (0, 1));
    // Other zones do not wait.
    submit(&mut drive, 1, 7, Op::Write { offset: 0, frames: frames(1, 1) });
    submit(&mut drive, 2, 8, Op::Write { offset: 0, frames: frames(1, 1) });
    collect(&mut drive, 2);
    assert_eq!(drive.queue.writes.1, 2);
}

#[test]
fn what_would_reach_into_another_zone_is_not_asked() {
    let mut drive = drive(Quirks::default());
    let status = |drive: &mut Drive, zone, op| run(drive, zone, op).status;
    let write = |offset, count| Op::Write { offset, frames: frames(0, count) };
    assert_eq!(status(&mut drive, 0, write(63, 2)), Status::ZoneBoundaryError);
    assert_eq!(
        status(&mut drive, 0, Op::Read { offset: u32::MAX, frames: frames(0, 1) }),
        Status::ZoneBoundaryError
    );
    assert_eq!(status(&mut drive, 1300, write(0, 1)), Status::LbaOutOfRange);
    assert_eq!(status(&mut drive, 0, write(0, 0)), Status::InvalidField);
    assert_eq!(status(&mut drive, 0, write(0, 33)), Status::InvalidField);
    assert_eq!(status(&mut drive, 0, Op::Append { frames: frames(0, 17) }), Status::InvalidField);
    assert_eq!(status(&mut drive, 0, Op::OpenWithArea), Status::InvalidZoneOperation);
    assert_eq!(drive.queue.table.zone(ZoneIndex(1)).state, ZoneState::Empty);
    // The drive's own refusals are passed on.
    assert_eq!(status(&mut drive, 0, write(1, 1)), Status::ZoneInvalidWrite);
    assert_eq!(status(&mut drive, 0, Op::Close), Status::InvalidZoneStateTransition);
}

#[test]
fn areas_are_written_in_any_order_and_committed() {
    for quirks in [QEMU, Quirks::default()] {
        let mut drive = drive_with_areas(quirks);
        let write = |seed, offset, count| Op::Write { offset, frames: frames(seed, count) };
        assert_eq!(run(&mut drive, 3, Op::OpenWithArea).status, Status::Success);
        for (token, op) in (0..).zip([write(50, 5, 2), write(10, 0, 1), write(30, 3, 1)]) {
            submit(&mut drive, token, 3, op);
        }
        assert_eq!(drive.queue.writes, (3, 3), "none waits for another");
        assert!(collect(&mut drive, 3).iter().all(|answer| answer.status == Status::Success));
        run(&mut drive, 3, write(11, 0, 1));
        let zeros = || vec![Frame::zeroed()];
        let window = [frames(11, 1), zeros(), zeros(), frames(30, 1), zeros(), frames(50, 2), zeros()];
        let window: Vec<Frame> = window.into_iter().flatten().collect();
        assert!(is_same(&read(&mut drive, 3, 0, 8), &window), "written or not, before any commit");
        let found = run(&mut drive, 3, Op::Report { count: 1 }).report[0];
        assert_eq!((found.state, found.write_pointer, found.has_area), (ZoneState::ExplicitOpen, 0, true));
        assert_eq!(run(&mut drive, 3, Op::Commit { end: 4 }).status, Status::Success);
        assert_eq!(run(&mut drive, 3, Op::Report { count: 1 }).report[0].write_pointer, 4);
        let mut drive = reopened(drive);
        assert!(is_same(&read(&mut drive, 3, 0, 8), &window), "the same by whoever comes later");
        run(&mut drive, 3, write(90, 10, 1));
        assert_eq!(run(&mut drive, 3, Op::Finish).status, Status::Success);
        let rest = [zeros(), zeros(), zeros(), frames(90, 1), zeros()];
        let rest: Vec<Frame> = rest.into_iter().flatten().collect();
        assert!(is_same(&read(&mut drive, 3, 7, 5), &rest), "what a window held counts as written");
        assert_eq!(run(&mut drive, 3, Op::Reset).status, Status::Success);
        let none: Vec<Frame> = (0..8).flat_map(|_| zeros()).collect();
        assert!(is_same(&read(&mut drive, 3, 0, 8), &none));
        submit(&mut drive, 1, 3, write(1, 0, 1));
        submit(&mut drive, 2, 3, write(2, 1, 1));
        assert!(
            collect(&mut drive, 2).iter().all(|answer| answer.status == Status::Success),
            "in turn again"
        );
    }
}

#[test]
fn areas_that_cannot_be_had_and_commits_of_nothing_are_refused() {
    let status = |drive: &mut Drive, zone, op| run(drive, zone, op).status;
    let mut drive = drive_with_areas(Quirks::default());
    assert_eq!(status(&mut drive, 0, Op::OpenWithArea), Status::Success);
    assert_eq!(status(&mut drive, 1, Op::OpenWithArea), Status::Success);
    assert_eq!(status(&mut drive, 2, Op::OpenWithArea), Status::NoAreaLeft);
    assert_eq!(status(&mut drive, 0, Op::Append { frames: frames(0, 1) }), Status::InvalidZoneOperation);
    assert_eq!(status(&mut drive, 2, Op::Commit { end: 4 }), Status::InvalidZoneOperation);
    for end in [0, 3, 12, 49, u32::MAX] {
        assert_eq!(status(&mut drive, 0, Op::Commit { end }), Status::InvalidField, "{end}");
    }
    assert_eq!(drive.queue.table.zone(ZoneIndex(0)).write_pointer, 0);
    let write = |offset, count| Op::Write { offset, frames: frames(0, count) };
    assert_eq!(status(&mut drive, 0, write(0, 20)), Status::ZoneInvalidWrite, "beyond two windows");
    assert_eq!(status(&mut drive, 0, write(0, 16)), Status::Success);
    assert_eq!(status(&mut drive, 0, write(7, 1)), Status::ZoneInvalidWrite, "it was committed by the last");
    // A zone that is full gives its area to another.
    for (offset, end) in [(16, 24), (24, 32), (32, 40), (40, 48)] {
        assert_eq!(status(&mut drive, 0, write(offset, 8)), Status::Success);
        assert_eq!(status(&mut drive, 0, Op::Commit { end }), Status::Success, "{end}");
    }
    assert_eq!(status(&mut drive, 2, Op::OpenWithArea), Status::Success);
    let mut without = self::drive(Quirks::default());
    assert_eq!(status(&mut without, 0, Op::OpenWithArea), Status::InvalidZoneOperation);
    assert_eq!(status(&mut without, 0, Op::Commit { end: 4 }), Status::InvalidField);
}

#[test]
fn reports_come_in_parts() {
    let mut drive = drive(Quirks::default());
    run(&mut drive, 1299, Op::Write { offset: 0, frames: frames(0, 5) });
    assert_eq!(report::zones_max(&drive.geometry), 1023);
    let found = run(&mut drive, 2, Op::Report { count: u32::MAX }).report;
    assert_eq!(found.len(), 1298);
    assert_eq!((found[1297].state, found[1297].write_pointer), (ZoneState::ImplicitOpen, 5));
    assert_eq!(run(&mut drive, 2, Op::Report { count: 3 }).report.len(), 3);
}

#[test]
fn zones_that_turned_are_found_one_after_the_other() {
    let mut drive = drive(Quirks::default());
    let find = |drive: &mut Drive, zone, count| {
        let found = run(drive, zone, Op::FindTurned { count });
        assert_eq!(found.status, Status::Success);
        found.report.first().map(|zone| (found.offset, zone.state))
    };
    assert_eq!(find(&mut drive, 0, u32::MAX), None);
    drive.queue.table.degrade(ZoneIndex(900), ZoneState::ReadOnly);
    drive.queue.table.degrade(ZoneIndex(40), ZoneState::Offline);
    assert_eq!(find(&mut drive, 0, u32::MAX), Some((40, ZoneState::Offline)));
    assert_eq!(find(&mut drive, 41, u32::MAX), Some((859, ZoneState::ReadOnly)));
    assert_eq!(find(&mut drive, 41, 859), None, "it lies behind those that were asked for");
    assert_eq!(find(&mut drive, 901, u32::MAX), None);
    assert_eq!(run(&mut drive, 1300, Op::FindTurned { count: 1 }).status, Status::LbaOutOfRange);
}

#[test]
fn what_is_not_taken_now_is_asked_again() {
    let mut drive = drive(Quirks::default());
    drive.queue.results = [-libc::EAGAIN, 0x0022].into();
    submit(&mut drive, 1, 0, Op::Append { frames: frames(3, 4) });
    let (mut completions, mut now) = (Vec::new(), NOW);
    for _ in 0..100 {
        drive.poll(now, &mut completions);
        now = drive.next_event().unwrap_or(now);
    }
    assert_eq!((completions[0].status, completions[0].frames.len()), (Status::Success, 4));
    assert!(now.since(NOW) >= Nanos(3_000_000), "pauses of 1 and 2 ms");
    // For ever it is not.
    drive.queue.results = std::iter::repeat_n(-libc::EBUSY, 200).collect();
    submit(&mut drive, 2, 0, Op::Append { frames: frames(3, 4) });
    completions.clear();
    for _ in 0..2_000 {
        drive.poll(now, &mut completions);
        now = drive.next_event().unwrap_or(now);
    }
    assert_eq!((completions[0].status, completions[0].frames.len()), (Status::DeviceGone, 4));
}

/// The kernel keeps commands of a drive that hangs; who gives the drive up gets other frames, and the late answers harm nobody.
#[test]
fn frames_of_a_drive_that_is_given_up_stay_out() {
    let mut drive = drive(QEMU);
    drive.queue.hangs = true;
    submit(&mut drive, 1, 0, Op::Read { offset: 0, frames: frames(0, 9) });
    submit(&mut drive, 2, 0, Op::Write { offset: 0, frames: frames(0, 2) });
    submit(&mut drive, 3, 0, Op::Write { offset: 2, frames: frames(0, 2) });
    assert_eq!(drive.condition(NOW).oldest.map(|oldest| oldest.since), Some(NOW));
    drive.abandon();
    let answers = collect(&mut drive, 3);
    let counts: Vec<_> = answers.iter().map(|answer| answer.frames.len()).collect();
    assert_eq!(counts, [9, 2, 2]);
    assert!(answers.iter().all(|answer| answer.status == Status::DeviceGone));
    assert_eq!(drive.queue.kept.len(), 2, "the third waited for the second");
    assert_eq!(drive.condition(NOW).left_behind, 2);
    let late = std::mem::take(&mut drive.queue.kept);
    drive.queue.ready.extend(late.into_iter().map(|job| Answer { job, result: 0, place: 0 }));
    for _ in 0..50 {
        let mut none = Vec::new();
        drive.poll(NOW, &mut none);
        assert!(none.is_empty());
    }
    assert_eq!(run(&mut drive, 0, Op::Flush).status, Status::DeviceGone);
    let Condition { loss, left_behind, .. } = drive.condition(NOW);
    assert_eq!((loss, left_behind), (Some(Loss::Abandoned), 0));
}

#[test]
fn a_drive_that_is_gone_answers_at_once() {
    let mut drive = drive(Quirks::default());
    drive.queue.results = [-libc::ENODEV].into();
    submit(&mut drive, 1, 0, Op::Append { frames: frames(3, 4) });
    submit(&mut drive, 2, 0, Op::Flush);
    let answers = collect(&mut drive, 2);
    assert!(answers.iter().all(|answer| answer.status == Status::DeviceGone));
    assert_eq!(drive.condition(NOW).loss, Some(Loss::Removed));
    let mut other = self::drive(Quirks::default());
    other.queue.is_there = false;
    assert_eq!(other.condition(NOW).loss, Some(Loss::Removed), "nobody had to ask for anything");
}

#[test]
fn answers_that_make_no_sense_are_no_success() {
    let mut drive = drive(Quirks::default());
    drive.queue.results = [-libc::EPERM, 0x4001].into();
    assert_eq!(
        run(&mut drive, 0, Op::Read { offset: 0, frames: frames(0, 1) }).status,
        Status::UnrecoveredReadError
    );
    assert_eq!(run(&mut drive, 0, Op::Append { frames: frames(0, 1) }).status, Status::WriteFault);
    // A place outside of the zone.
    drive.queue.results = [0].into();
    assert_eq!(run(&mut drive, 0, Op::Append { frames: frames(0, 1) }).status, Status::InternalError);
    // Nobody knows whether it was done.
    drive.queue.results = [-libc::EINTR].into();
    assert_eq!(run(&mut drive, 0, Op::Append { frames: frames(0, 1) }).status, Status::DeviceGone);
    assert_eq!(drive.condition(NOW).loss, Some(Loss::Interrupted));
}

/// Polls at a time until so many answers have come, or everything that can has happened.
fn collect_at(drive: &mut Drive, now: Instant) -> Vec<Completion> {
    let mut completions = Vec::new();
    (0..200).for_each(|_| drive.poll(now, &mut completions));
    completions
}

#[test]
fn zones_that_somebody_else_opened_are_closed_in_service() {
    let mut drive = drive(Quirks::default());
    // Zones beyond the first report.
    for zone in [3, 1100, 1299] {
        drive.queue.table.open(ZoneIndex(zone)).unwrap();
    }
    let refused = run(&mut drive, 0, Op::Append { frames: frames(1, 2) });
    assert_eq!(refused.status, Status::TooManyOpenZones, "who does not outlive hiccups is told");
    drive.outlive_hiccups(true);
    let mut answers = Vec::new();
    submit(&mut drive, 2, 0, Op::Append { frames: frames(1, 2) });
    for at in 0..20 {
        answers.append(&mut collect_at(&mut drive, Instant(at * 1_000_000)));
    }
    let states = [3, 1100, 1299].map(|zone| drive.queue.table.zone(ZoneIndex(zone)).state);
    assert_eq!(states, [ZoneState::Closed; 3]);
    assert_eq!((answers.len(), answers[0].status, answers[0].offset), (1, Status::Success, 0));
    assert!(is_same(&read(&mut drive, 0, 0, 2), &frames(1, 2)), "tried again with all its frames");
}

#[test]
fn a_command_waits_for_zones_until_patience_is_over() {
    let mut drive = drive(Quirks::default());
    drive.outlive_hiccups(true);
    for zone in 0..4 {
        assert_eq!(run(&mut drive, zone, Op::Append { frames: frames(1, 1) }).status, Status::Success);
    }
    for zone in [1, 2] {
        drive.queue.table.open(ZoneIndex(zone)).unwrap();
    }
    // A command of ours for zone 2 waits. Closing makes no zone inactive, so nothing helps but one that gets full.
    drive.queue.results.push_back(0x22);
    submit(&mut drive, 6, 2, Op::Append { frames: frames(5, 1) });
    submit(&mut drive, 7, 9, Op::Append { frames: frames(5, 1) });
    assert!(collect_at(&mut drive, NOW).is_empty());
    let states = [1, 2].map(|zone| drive.queue.table.zone(ZoneIndex(zone)).state);
    assert_eq!(states, [ZoneState::Closed, ZoneState::ExplicitOpen], "what is idle is closed");
    drive.queue.table.finish(ZoneIndex(0)).unwrap();
    let answers = collect_at(&mut drive, Instant(PAUSE_MAX.0));
    assert!(answers.len() == 2 && answers.iter().all(|answer| answer.status == Status::Success));
    // Nobody makes room for the next one.
    submit(&mut drive, 8, 10, Op::Append { frames: frames(5, 1) });
    let seconds = (0..=61).map(|second| Instant(2 * PAUSE_MAX.0 + second * PAUSE_MAX.0));
    let answers: Vec<(Instant, Completion)> = seconds
        .flat_map(|now| collect_at(&mut drive, now).into_iter().map(move |answer| (now, answer)))
        .collect();
    assert_eq!((answers.len(), answers[0].1.status), (1, Status::TooManyActiveZones));
    assert!(answers[0].0.since(Instant(2 * PAUSE_MAX.0)) >= PATIENCE, "not before patience is over");
    assert_eq!(answers[0].1.frames.len(), 1);
}
