//! A scripted drive below a patient one: it answers what it is told to, when it is told to.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::emulated::EmulatedDrive;
use crate::inband::tests::{GEOMETRY, carry_out};
use crate::inband::{self, InbandDrive};
use base::hiccups::Hiccups;
use std::sync::{Arc, Mutex};
use zone::condition::Outstanding;
use zone::device::Areas;

const PATIENCE: Nanos = Nanos(60_000_000_000);
const LIMIT: Nanos = Nanos(30_000_000_000);
const MS: u64 = 1_000_000;

fn geometry() -> Geometry {
    Geometry {
        zones: 8,
        zone_size_blocks: 64,
        zone_capacity_blocks: 48,
        open_zones_max: 4,
        active_zones_max: 4,
        append_blocks_max: 8,
        transfer_blocks_max: 8,
        volatile_cache: false,
        areas: Some(Areas { zones_max: 2, window_blocks: 8, granule_blocks: 4, explicit_commit: true }),
    }
}

/// What becomes of commands that are cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    Not,
    /// So many blocks of it are written.
    Partly(usize),
}

/// The drive, shared by its handles and the test.
struct Core {
    media: EmulatedDrive,
    /// Commands that were given and not answered.
    held: Vec<Command>,
    answers: Vec<Completion>,
    /// Commands are held until the test lets them go.
    holds: bool,
    /// Time of the first of them.
    held_since: Instant,
    is_away: bool,
    /// Handles with a lower number are dead.
    device: u32,
    reports: u32,
    /// What it reads has metadata.
    keeps_metadata: bool,
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Core>>);

struct Handle(Shared, u32, Geometry);

impl ZonedDevice for Handle {
    fn geometry(&self) -> &Geometry {
        &self.2
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let mut core = self.0.0.lock().unwrap();
        core.reports += u32::from(matches!(command.op, Op::Report { .. }));
        if core.is_away || core.device != self.1 {
            let asked = Asked::of(command.token, command.zone, &command.op);
            return core.answers.push(asked.done(Err(Status::DeviceGone), frames_of(command.op)));
        }
        if core.holds {
            if core.held.is_empty() {
                core.held_since = now;
            }
            return core.held.push(command);
        }
        core.carry_out(command);
    }

    fn poll(&mut self, _: Instant, completions: &mut Vec<Completion>) {
        completions.append(&mut self.0.0.lock().unwrap().answers);
    }

    fn condition(&mut self, _: Instant) -> Condition {
        let core = self.0.0.lock().unwrap();
        let loss = (core.device != self.1).then_some(Loss::Removed);
        let oldest = core.held.first().map(|held| Outstanding { zone: held.zone, since: core.held_since });
        Condition { loss, oldest, ..Condition::default() }
    }
}

impl WayBack for Shared {
    fn look(&mut self) -> Option<Box<dyn ZonedDevice>> {
        let core = self.0.lock().unwrap();
        let geometry = *core.media.geometry();
        (!core.is_away).then(|| Box::new(Handle(self.clone(), core.device, geometry)) as Box<dyn ZonedDevice>)
    }
}

impl Core {
    fn carry_out(&mut self, command: Command) {
        let is_read = matches!(command.op, Op::Read { .. });
        let mut answers = Vec::new();
        self.media.submit(Instant(0), command);
        self.media.poll(Instant(0), &mut answers);
        if is_read && !self.keeps_metadata {
            let frames = answers.iter_mut().flat_map(|answer| &mut answer.frames);
            frames.for_each(|frame| frame.oob = Frame::zeroed().oob);
        }
        self.answers.append(&mut answers);
    }
}

impl Shared {
    fn new(geometry: Geometry, keeps_metadata: bool) -> Shared {
        let media = EmulatedDrive::on_heap(geometry, [1; 16]).unwrap();
        let (held, answers) = (Vec::new(), Vec::new());
        let (holds, is_away, held_since) = (false, false, Instant(0));
        let (device, reports) = (0, 0);
        let core = Core { media, held, answers, holds, held_since, is_away, device, reports, keeps_metadata };
        Shared(Arc::new(Mutex::new(core)))
    }

    fn patient(&self, handle: Handle) -> Patient {
        Patient::new(Box::new(handle), Some(Box::new(self.clone())), PATIENCE).with_limit(LIMIT)
    }
}

/// The drive under test, and the one below.
struct Rig<D = Patient> {
    drive: D,
    below: Shared,
    now: Instant,
    done: Vec<Completion>,
}

impl Rig {
    fn new() -> Rig {
        let below = Shared::new(geometry(), true);
        let mut drive = below.patient(Handle(below.clone(), 0, geometry()));
        drive.outlive_hiccups(true);
        let mut rig = Rig { drive, below, now: Instant(0), done: Vec::new() };
        // It learns what its zones are before anything else.
        rig.give(0, 0, Op::Flush);
        assert_eq!(rig.answers(), [(0, Success, 0)]);
        rig
    }
}

/// Zones of which the first two are a journal.
const WITH_JOURNAL: Geometry = Geometry { zones: 6, ..GEOMETRY };

impl Rig<InbandDrive<Patient>> {
    /// A drive with identities in-band, over a patient one without metadata.
    fn inband() -> Rig<InbandDrive<Patient>> {
        let below = Shared::new(WITH_JOURNAL, false);
        let mut handle = Handle(below.clone(), 0, WITH_JOURNAL);
        inband::format(&mut handle, [9; 16], &mut carry_out).unwrap();
        Rig::over(below)
    }

    /// The drive as the next process finds it.
    fn next(&self) -> Rig<InbandDrive<Patient>> {
        let below = Shared::new(WITH_JOURNAL, false);
        let media = EmulatedDrive::from_heap(self.core().media.heap_snapshot().unwrap()).unwrap();
        below.0.lock().unwrap().media = media;
        Rig::over(below)
    }

    fn over(below: Shared) -> Rig<InbandDrive<Patient>> {
        let handle = Handle(below.clone(), 0, WITH_JOURNAL);
        let drive = inband::open(handle, 16, &mut carry_out).unwrap();
        let mut drive = drive.lay_on(|handle| below.patient(handle).without_metadata());
        drive.outlive_hiccups(true);
        Rig { drive, below, now: Instant(0), done: Vec::new() }
    }

    /// Bytes of data and of metadata of blocks, from the start of a zone.
    fn holds(&mut self, zone: u32, blocks: u32) -> Vec<(u8, u8)> {
        let mut found = Vec::new();
        for offset in (0..blocks).step_by(30) {
            let frames = (offset..blocks.min(offset + 30)).map(|_| Frame::zeroed()).collect();
            self.give(99, zone, Op::Read { offset, frames });
            self.wait(100);
            let read = self.done.pop().unwrap();
            assert_eq!(read.status, Success);
            found.extend(read.frames.iter().map(|frame| (frame.data[0], frame.oob[0])));
        }
        found
    }
}

impl<D: ZonedDevice> Rig<D> {
    fn core(&self) -> std::sync::MutexGuard<'_, Core> {
        self.below.0.lock().unwrap()
    }

    fn give(&mut self, token: u64, zone: u32, op: Op) {
        self.drive.submit(self.now, Command { token: Token(token), zone: ZoneIndex(zone), op });
        self.turn();
    }

    fn turn(&mut self) {
        for _ in 0..4 {
            self.drive.poll(self.now, &mut self.done);
        }
    }

    fn wait(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(100) {
            self.now = Instant(self.now.0 + 100 * MS);
            self.turn();
        }
    }

    /// Commands below are carried out, and those that come are no longer held.
    fn let_go(&mut self) {
        let mut core = self.core();
        core.holds = false;
        let held = std::mem::take(&mut core.held);
        held.into_iter().for_each(|command| core.carry_out(command));
    }

    /// Commands below are cut off, with these fates in their order.
    fn cut(&mut self, fates: &[Fate]) {
        let held = std::mem::take(&mut self.core().held);
        assert_eq!(held.len(), fates.len(), "{held:?}");
        for (mut command, fate) in held.into_iter().zip(fates) {
            let asked = Asked::of(command.token, command.zone, &command.op);
            let copy = match &command.op {
                Op::Write { offset, frames } => Op::Write { offset: *offset, frames: copies(frames) },
                Op::Append { frames } => Op::Append { frames: copies(frames) },
                Op::Reset => Op::Reset,
                Op::Finish => Op::Finish,
                _ => Op::Flush,
            };
            let frames = frames_of(std::mem::replace(&mut command.op, copy));
            let mut core = self.core();
            if let (Fate::Partly(blocks), Op::Write { frames, .. } | Op::Append { frames }) =
                (*fate, &mut command.op)
            {
                frames.truncate(blocks);
            }
            if *fate != Fate::Not {
                core.media.submit(Instant(0), command);
                core.media.poll(Instant(0), &mut Vec::new());
            }
            core.answers.push(asked.done(Err(Status::DeviceGone), frames));
        }
        self.turn();
    }

    /// Status, offset and first byte of the answers so far, by their tokens.
    fn answers(&mut self) -> Vec<(u64, Status, u32)> {
        let mut answers: Vec<(u64, Status, u32)> =
            self.done.drain(..).map(|done| (done.token.0, done.status, done.offset)).collect();
        answers.sort_by_key(|(token, ..)| *token);
        answers
    }

    fn pointer(&self, zone: u32) -> u32 {
        self.core().media.zone(ZoneIndex(zone)).write_pointer
    }

    fn byte(&self, zone: u32, offset: u32) -> u8 {
        let mut core = self.core();
        let op = Op::Read { offset, frames: vec![Frame::zeroed()] };
        core.media.submit(Instant(0), Command { token: Token(0), zone: ZoneIndex(zone), op });
        let mut done = Vec::new();
        core.media.poll(Instant(0), &mut done);
        done[0].frames[0].data[0]
    }
}

fn copies(frames: &[Frame]) -> Vec<Frame> {
    let copy = |frame: &Frame| {
        let mut copy = Frame::zeroed();
        (copy.data, copy.oob) = (frame.data, frame.oob);
        copy
    };
    frames.iter().map(copy).collect()
}

fn blocks(bytes: &[u8]) -> Vec<Frame> {
    let block = |byte: &u8| {
        let mut frame = Frame::zeroed();
        (frame.data[0], frame.oob[0]) = (*byte, *byte);
        frame
    };
    bytes.iter().map(block).collect()
}

fn append(bytes: &[u8]) -> Op {
    Op::Append { frames: blocks(bytes) }
}

fn write(offset: u32, bytes: &[u8]) -> Op {
    Op::Write { offset, frames: blocks(bytes) }
}

fn read(offset: u32) -> Op {
    Op::Read { offset, frames: vec![Frame::zeroed()] }
}

use self::Fate::{Done, Not, Partly};
use zone::device::Status::{DeviceGone, Stalled, Success, WriteFault};

#[test]
fn appends_that_landed_are_answered_and_others_are_given_again() {
    let mut rig = Rig::new();
    rig.give(1, 2, append(&[1, 2]));
    assert_eq!(rig.answers(), [(1, Success, 0)]);
    rig.core().holds = true;
    rig.give(2, 2, append(&[3, 4]));
    rig.give(3, 2, append(&[5, 6]));
    rig.give(4, 3, append(&[7]));
    rig.give(5, 2, read(0));
    rig.core().holds = false;
    rig.cut(&[Not, Done, Done, Not]);
    assert_eq!(rig.answers(), [(2, Success, 4), (3, Success, 2), (4, Success, 0), (5, Stalled, 0)]);
    assert_eq!((rig.byte(2, 2), rig.byte(2, 4), rig.pointer(2), rig.pointer(3)), (5, 3, 6, 1));
    let Hiccups { count, stalled_since, last, .. } = rig.drive.condition(rig.now).hiccups;
    assert_eq!((count, stalled_since), (1, None));
    assert_eq!(last.map(|last| (last.waited, last.landed, last.repeated)), Some((3, 2, 1)));
}

#[test]
fn a_write_that_landed_in_part_is_completed() {
    let mut rig = Rig::new();
    rig.core().holds = true;
    rig.give(1, 2, write(0, &[1, 2, 3, 4]));
    rig.core().holds = false;
    rig.cut(&[Partly(3)]);
    assert_eq!(rig.answers(), [(1, Success, 0)]);
    assert_eq!((rig.pointer(2), rig.byte(2, 2), rig.byte(2, 3)), (4, 3, 4));
}

#[test]
fn an_append_that_landed_in_part_costs_its_zone() {
    let mut rig = Rig::new();
    rig.core().holds = true;
    rig.give(1, 2, append(&[1, 2, 3, 4]));
    rig.give(2, 2, append(&[5]));
    rig.core().holds = false;
    rig.cut(&[Partly(3), Not]);
    rig.give(3, 2, append(&[6]));
    assert_eq!(rig.answers(), [(1, WriteFault, 0), (2, WriteFault, 0), (3, WriteFault, 0)]);
    assert_eq!(rig.pointer(2), 3, "nothing is appended where nobody expects it");
    rig.give(4, 2, Op::Reset);
    rig.give(5, 2, append(&[7]));
    assert_eq!(rig.answers(), [(4, Success, 0), (5, Success, 0)]);
}

#[test]
fn no_report_is_asked_for_before_all_commands_came_back() {
    let mut rig = Rig::new();
    rig.core().holds = true;
    rig.give(1, 2, append(&[1]));
    rig.give(2, 3, append(&[2]));
    let late = rig.core().held.pop().unwrap();
    rig.core().holds = false;
    rig.cut(&[Not]);
    rig.wait(1000);
    assert!(rig.drive.is_stalled() && rig.core().reports == 1, "the first one was at the start");
    rig.core().held.push(late);
    rig.cut(&[Done]);
    assert_eq!(rig.answers(), [(1, Success, 0), (2, Success, 0)]);
    assert_eq!((rig.pointer(2), rig.pointer(3)), (1, 1));
}

#[test]
fn commands_wait_while_the_drive_is_away_and_keep_their_order() {
    let mut rig = Rig::new();
    rig.core().is_away = true;
    rig.give(1, 2, write(0, &[1]));
    rig.give(2, 2, write(1, &[2]));
    rig.give(3, 3, Op::Finish);
    rig.give(4, 2, read(1));
    rig.give(5, 0, Op::Flush);
    rig.wait(59_000);
    assert!(rig.answers().is_empty() && rig.drive.is_stalled());
    assert!((590..=592).contains(&rig.core().reports), "it is asked every 100 ms");
    rig.core().is_away = false;
    rig.wait(100);
    let all = [(1, Success, 0), (2, Success, 1), (3, Success, 0), (4, Success, 1), (5, Success, 0)];
    assert_eq!(rig.answers(), all);
    assert_eq!(rig.byte(2, 1), 2);
}

#[test]
fn when_patience_is_over_the_drive_is_lost() {
    let mut rig = Rig::new();
    rig.core().is_away = true;
    rig.give(1, 2, append(&[1]));
    rig.give(2, 2, append(&[2]));
    rig.wait(59_900);
    assert!(rig.answers().is_empty());
    rig.wait(100);
    assert_eq!(rig.answers(), [(1, DeviceGone, 0), (2, DeviceGone, 0)]);
    assert_eq!(rig.drive.condition(rig.now).loss, Some(Loss::Interrupted));
    rig.core().is_away = false;
    rig.wait(1000);
    rig.give(3, 2, append(&[3]));
    assert_eq!(rig.answers(), [(3, DeviceGone, 0)]);
    assert_eq!(rig.pointer(2), 0);
}

#[test]
fn time_in_which_nobody_looked_does_not_count() {
    let mut rig = Rig::new();
    rig.core().is_away = true;
    rig.give(1, 2, append(&[1]));
    rig.now = Instant(rig.now.0 + 3_600_000 * MS);
    rig.turn();
    assert!(rig.drive.is_stalled());
    rig.core().is_away = false;
    rig.wait(100);
    assert_eq!(rig.answers(), [(1, Success, 0)]);
}

#[test]
fn a_device_that_was_pulled_is_found_anew() {
    let mut rig = Rig::new();
    rig.give(1, 2, append(&[1]));
    {
        let mut core = rig.core();
        (core.is_away, core.device) = (true, 1);
    }
    rig.give(2, 2, append(&[2]));
    rig.wait(5_000);
    assert_eq!(rig.answers(), [(1, Success, 0)]);
    rig.core().is_away = false;
    rig.wait(100);
    assert_eq!(rig.answers(), [(2, Success, 1)]);
}

#[test]
fn a_drive_that_goes_again_while_it_is_read_is_asked_again() {
    let mut rig = Rig::new();
    rig.core().holds = true;
    rig.give(1, 2, append(&[1, 2]));
    rig.cut(&[Done]);
    assert_eq!(rig.core().held.len(), 1, "a report");
    let report = rig.core().held.pop().unwrap();
    rig.core().carry_out(report);
    rig.turn();
    assert!(matches!(rig.core().held[0].op, Op::Read { .. }));
    rig.cut(&[Not]);
    assert!(rig.answers().is_empty());
    rig.core().holds = false;
    rig.wait(100);
    assert_eq!(rig.answers(), [(1, Success, 0)]);
    assert_eq!((rig.pointer(2), rig.drive.condition(rig.now).hiccups.count), (2, 1));
}

/// What is done to the media while the drive is away makes it a lost one.
#[track_caller]
fn expect_lost(change: impl Fn(&mut EmulatedDrive)) {
    let mut rig = Rig::new();
    rig.give(1, 2, append(&[1, 2, 3]));
    rig.give(2, 3, append(&[1]));
    rig.core().holds = true;
    rig.give(3, 2, append(&[4]));
    rig.core().is_away = true;
    rig.cut(&[Not]);
    change(&mut rig.core().media);
    (rig.core().holds, rig.core().is_away) = (false, false);
    rig.wait(200);
    assert_eq!(rig.answers().last(), Some(&(3, DeviceGone, 0)));
    assert_eq!(rig.drive.condition(rig.now).loss, Some(Loss::Changed));
}

fn by_others(media: &mut EmulatedDrive, zone: u32, op: Op) {
    media.submit(Instant(0), Command { token: Token(0), zone: ZoneIndex(zone), op });
    media.poll(Instant(0), &mut Vec::new());
}

#[test]
fn zones_that_are_not_what_they_were_are_no_hiccup() {
    expect_lost(|media| media.lose_tail(ZoneIndex(2), 2));
    expect_lost(|media| media.lose_tail(ZoneIndex(3), 0));
    expect_lost(|media| by_others(media, 3, append(&[9])));
    expect_lost(|media| by_others(media, 2, append(&[9])));
    expect_lost(|media| by_others(media, 3, Op::Reset));
    expect_lost(|media| by_others(media, 5, Op::Finish));
}

#[test]
fn an_append_where_there_were_blocks_shows_that_they_are_lost() {
    let mut rig = Rig::new();
    rig.give(1, 2, append(&[1, 2, 3]));
    rig.core().media.lose_tail(ZoneIndex(2), 1);
    rig.give(2, 2, append(&[4]));
    assert_eq!(rig.answers(), [(1, Success, 0), (2, DeviceGone, 1)]);
    assert_eq!(rig.drive.condition(rig.now).loss, Some(Loss::Changed));
}

#[test]
fn resets_and_finishes_are_given_again() {
    let mut rig = Rig::new();
    for (token, zone) in [(1, 2), (2, 3), (3, 4), (4, 5)] {
        rig.give(token, zone, append(&[1, 2]));
    }
    rig.core().holds = true;
    for (token, zone, op) in [(5, 2, Op::Reset), (6, 3, Op::Reset), (7, 4, Op::Finish), (8, 5, Op::Finish)] {
        rig.give(token, zone, op);
    }
    rig.core().holds = false;
    rig.answers();
    rig.cut(&[Done, Not, Done, Not]);
    assert_eq!(rig.answers(), [5, 6, 7, 8].map(|token| (token, Success, 0)));
    rig.give(9, 2, append(&[3]));
    rig.give(10, 3, append(&[4]));
    assert_eq!(rig.answers(), [(9, Success, 0), (10, Success, 0)]);
    assert_eq!(rig.core().media.zone(ZoneIndex(5)).state, zone::device::ZoneState::Full);
}

#[test]
fn a_drive_that_is_given_up_answers_at_once() {
    let mut rig = Rig::new();
    rig.core().is_away = true;
    rig.give(1, 2, append(&[1]));
    rig.drive.abandon();
    rig.turn();
    assert_eq!(rig.answers(), [(1, DeviceGone, 0)]);
    assert!(!rig.drive.is_stalled());
}

/// Whoever sleeps until the next event is told of what no drive answers any more.
#[test]
fn answers_that_nothing_below_gives_are_an_event() {
    let command = |token, zone| Command { token: Token(token), zone: ZoneIndex(zone), op: append(&[1]) };
    let mut rig = Rig::new();
    rig.core().holds = true;
    rig.give(1, 2, append(&[1, 2]));
    rig.core().holds = false;
    rig.cut(&[Partly(1)]);
    assert_eq!((rig.answers(), rig.drive.next_event()), (vec![(1, WriteFault, 0)], None));
    rig.drive.submit(rig.now, command(2, 2));
    assert_eq!(rig.drive.next_event(), Some(Instant(0)), "its zone is spoilt");
    rig.turn();
    assert_eq!((rig.answers(), rig.drive.next_event()), (vec![(2, WriteFault, 0)], None));

    rig.core().is_away = true;
    rig.give(3, 3, append(&[1]));
    rig.drive.abandon();
    assert_eq!(rig.drive.next_event(), Some(Instant(0)), "the drive was given up");
    rig.turn();
    assert_eq!((rig.answers(), rig.drive.next_event()), (vec![(3, DeviceGone, 0)], None));
    rig.drive.submit(rig.now, command(4, 3));
    assert_eq!(rig.drive.next_event(), Some(Instant(0)), "the drive is lost");
    rig.turn();
    assert_eq!((rig.answers(), rig.drive.next_event()), (vec![(4, DeviceGone, 0)], None));
}

#[test]
fn before_service_nobody_is_patient() {
    let mut rig = Rig::new();
    rig.give(1, 2, append(&[1]));
    rig.drive.outlive_hiccups(false);
    rig.core().is_away = true;
    rig.give(2, 2, append(&[2]));
    assert_eq!(rig.answers(), [(1, Success, 0), (2, DeviceGone, 0)]);
}

/// What lies in a window no report tells. Whoever uses none is waited for, whatever drives could do.
#[test]
fn a_drive_with_windows_is_not_waited_for() {
    let mut rig = Rig::new();
    rig.give(1, 2, append(&[1]));
    assert!(rig.drive.outlives, "it has areas, and none is used");
    rig.give(2, 3, Op::OpenWithArea);
    for token in 3..6 {
        rig.give(token, 3, write(5, &[7]));
    }
    rig.drive.outlive_hiccups(true);
    rig.core().is_away = true;
    rig.give(6, 2, append(&[2]));
    let answers = [(1, Success, 0), (2, Success, 0), (3, Success, 5), (4, Success, 5), (5, Success, 5)];
    assert_eq!(rig.answers(), [&answers[..], &[(6, DeviceGone, 0)]].concat());
    assert!(!rig.drive.is_stalled());
}

#[test]
fn a_drive_that_had_windows_before_is_not_waited_for() {
    let before = Rig::new();
    before.core().carry_out(Command { token: Token(0), zone: ZoneIndex(3), op: Op::OpenWithArea });
    before.core().answers.clear();
    let handle = Box::new(Handle(before.below.clone(), 0, geometry()));
    let mut rig = Rig { drive: Patient::new(handle, None, PATIENCE), ..before };
    rig.give(1, 0, Op::Flush);
    rig.drive.outlive_hiccups(true);
    assert!(!rig.drive.outlives);
}

/// Looks at the drive once a second, as those do who watch over drives; returns the last condition.
fn watched(rig: &mut Rig, seconds: u64) -> Condition {
    for _ in 0..seconds {
        rig.wait(1000);
        rig.drive.condition(rig.now);
        rig.turn();
    }
    rig.drive.condition(rig.now)
}

#[test]
fn a_drive_that_does_not_answer_is_stalled_and_not_lost() {
    let mut rig = Rig::new();
    rig.core().holds = true;
    rig.give(1, 2, append(&[1, 2]));
    rig.give(2, 2, read(0));
    assert!(watched(&mut rig, 29).oldest.is_some() && !rig.drive.is_stalled());
    let condition = watched(&mut rig, 1);
    assert_eq!((condition.hiccups.count, condition.hiccups.patience), (1, PATIENCE));
    assert_eq!(rig.answers(), [(2, Stalled, 0)], "others may know what was asked");
    rig.give(3, 2, append(&[3]));
    let condition = watched(&mut rig, 3600);
    assert!(rig.answers().is_empty() && rig.drive.is_stalled(), "nothing was cut off");
    assert_eq!(condition.oldest.map(|oldest| oldest.since), Some(Instant(0)), "for who watches over drives");
    // Patience begins where the kernel's ends.
    rig.cut(&[Done, Not]);
    assert_eq!(watched(&mut rig, 59).oldest, None);
    assert!(rig.answers().is_empty() && rig.drive.is_stalled());
    rig.now = Instant(rig.now.0 + 100 * MS);
    rig.let_go();
    rig.wait(300);
    assert_eq!(rig.answers(), [(1, Success, 0), (3, Success, 2)]);
    assert_eq!((rig.pointer(2), rig.drive.is_stalled()), (3, false));
}

#[test]
fn a_drive_that_answers_late_serves_again() {
    let mut rig = Rig::new();
    rig.core().holds = true;
    rig.give(1, 2, append(&[1, 2]));
    watched(&mut rig, 30);
    rig.give(2, 2, append(&[3]));
    rig.let_go();
    rig.wait(200);
    assert_eq!(rig.answers(), [(1, Success, 0), (2, Success, 2)]);
    let Hiccups { stalled_since, last, .. } = rig.drive.condition(rig.now).hiccups;
    let last = last.unwrap();
    assert_eq!((stalled_since, last.landed, last.repeated), (None, 0, 0));
}

#[test]
fn patience_is_over_after_a_command_that_was_cut_off_late() {
    let mut rig = Rig::new();
    rig.core().holds = true;
    rig.give(1, 2, append(&[1]));
    watched(&mut rig, 100);
    rig.core().is_away = true;
    rig.cut(&[Not]);
    assert_eq!(watched(&mut rig, 59).loss, None);
    assert_eq!(watched(&mut rig, 1).loss, Some(Loss::Interrupted));
    assert_eq!(rig.answers(), [(1, DeviceGone, 0)]);
}

#[test]
fn a_drive_is_not_stalled_for_answers_that_nobody_took() {
    let mut rig = Rig::new();
    rig.core().holds = true;
    rig.give(1, 2, append(&[1]));
    rig.now = Instant(rig.now.0 + 3_600_000 * MS);
    rig.drive.condition(rig.now);
    assert!(!rig.drive.is_stalled());
}

/// Data, records of the journal and reads of identities are cut off, and the device has another name afterwards. Each fate of each of
/// them leaves everything where it belongs.
#[test]
fn a_drive_with_identities_in_band_comes_back() {
    let bytes: Vec<u8> = (1..=90).collect();
    let wanted: Vec<(u8, u8)> = bytes.iter().map(|byte| (*byte, *byte)).collect();
    for draw in 0..81_usize {
        let mut rig = Rig::inband();
        rig.give(1, 1, write(0, &bytes[..40]));
        rig.give(2, 2, write(0, &bytes[..9]));
        assert_eq!(rig.answers(), [(1, Success, 0), (2, Success, 0)]);
        rig.core().holds = true;
        rig.give(3, 1, read(3));
        rig.give(4, 1, write(40, &bytes[40..]));
        rig.give(5, 2, Op::Finish);
        let count = rig.core().held.len();
        assert!(count >= 4, "data, a record, identities of a zone that is finished, a read: {count}");
        let fates = [Done, Not, Partly(3)];
        let fates: Vec<Fate> =
            (0..4).map(|digit| fates[draw / 3_usize.pow(digit) % 3]).cycle().take(count).collect();
        rig.core().device += 1;
        rig.core().holds = false;
        rig.cut(&fates);
        rig.wait(300);
        let expected = [(3, Stalled, 3), (4, Success, 40), (5, Success, 0)];
        assert_eq!(rig.answers(), expected, "{fates:?}");
        assert_eq!(rig.holds(1, 90), wanted, "{fates:?}");
        let mut next = rig.next();
        assert_eq!(next.holds(1, 90), wanted, "the next process, {fates:?}");
        assert_eq!(next.holds(2, 10)[7..], [(8, 8), (9, 9), (0, 0)], "the next process, {fates:?}");
    }
}

/// Nobody knows of which life the blocks of a zone are before its first identities were read: that is asked again.
#[test]
fn identities_that_were_cut_off_are_read_again() {
    let mut rig = Rig::inband();
    rig.give(1, 1, write(0, &[1, 2]));
    rig.give(2, 1, Op::Finish);
    assert_eq!(rig.answers(), [(1, Success, 0), (2, Success, 0)]);
    let mut rig = rig.next();
    rig.give(1, 3, write(0, &[3]));
    assert_eq!(rig.answers(), [(1, Success, 0)]);
    rig.core().holds = true;
    rig.give(2, 1, read(0));
    rig.give(3, 0, Op::SelfTest { repair: false });
    rig.core().holds = false;
    rig.cut(&[Not, Not]);
    rig.wait(300);
    assert_eq!(rig.answers(), [(2, Stalled, 0), (3, Success, 0)]);
    assert_eq!(rig.holds(1, 3), [(1, 1), (2, 2), (0, 0)]);
}
