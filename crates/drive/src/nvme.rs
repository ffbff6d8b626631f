//! NVMe drives with zones (ZNS) and 64 bytes of metadata, by the kernel's passthrough (ADR 62).
//!
//! ```text
//!   /dev/ng0n1 ── open ──> identity, quirks, geometry, write pointers ──> NvmeDrive
//!
//!   submit ──> Task ──part──> Job ──> Queue (io_uring) ──> Answer ──> outcome ──> next part, again later, or completion
//!               │  a zone's Zone Writes, one at a time, but in a random write area
//! ```
//! [`wire`] makes commands and [`passthrough`] hands them to the kernel; [`identify`], [`report`] and [`outcome`] interpret what comes
//! back. A transfer is one command, but where a [`quirk`] wants it in parts, one after the other.
//!
//! Blocks at or beyond the write pointer read as zeros because this drive says so: it follows the pointers by what was answered, as
//! drives may return anything there. A report says nothing of that: it may be older than a reset. A read sees the pointer of the moment at which it was submitted. Of a zone that was full when the drive was opened
//! nobody knows how far it was written: there blocks of nothing but ones, metadata included, read as zeros too, for drives return
//! zeros or ones where nothing was written. `drive qualify` finds those that return anything else.
//!
//! In a zone with a random write area only the drive knows which blocks were written, so there it is believed; drives that return
//! anything but zeros where nothing was written have no areas (`identify`).
//!
//! A drive that was given up answers for its commands; their frames stay with the kernel until it answers.

mod census;
pub mod health;
pub mod identify;
pub mod node;
pub mod open;
mod outcome;
mod passthrough;
pub mod quirk;
pub mod report;
mod search;
#[cfg(test)]
mod tests;
mod wire;

use crate::answer::{Asked, block_count, frames_of};
use crate::hosted::Heard;
use base::frame::Frame;
use base::loss::Loss;
use base::time::{Instant, Nanos};
use base::units::OOB_BYTES;
use census::{Census, is_crowded};
use outcome::{Outcome, outcome_of};
use passthrough::{Answer, Job, Queue, Ring};
use quirk::Quirks;
use rustix::fd::OwnedFd;
use search::Search;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use wire::{Action, Payload, Transition};
use zone::condition::{Condition, Outstanding};
use zone::device::{Command, Completion, Geometry, Op, Status, ZoneDescriptor, ZoneState, ZonedDevice};

/// First pause before a command that was not taken is tried again, the longest one, and the time after which it is given up.
const PAUSE_MIN: Nanos = Nanos(1_000_000);
const PAUSE_MAX: Nanos = Nanos(1_000_000_000);
const PATIENCE: Nanos = Nanos(60_000_000_000);

/// Command of the engine that is not answered.
#[derive(Debug)]
struct Task {
    asked: Asked,
    kind: Kind,
    since: Instant,
    /// Frames that were not handed over yet, and those that are through.
    left: Vec<Frame>,
    moved: Vec<Frame>,
    /// Frames that the kernel has.
    out_count: usize,
    /// Set from when the command was not taken: how long it waits now, and since when that goes on.
    refused: Option<(Nanos, Instant)>,
}

#[derive(Debug)]
enum Kind {
    /// Blocks from the pointer on are zeros, and perhaps blocks of ones.
    Read {
        pointer: u32,
        was_full: bool,
    },
    /// Writes at a write pointer take turns; in an area there may be any number.
    Write {
        takes_turns: bool,
    },
    Append,
    Manage(Transition),
    /// Commits an area up to a block of its zone.
    Commit {
        end: u32,
    },
    Flush,
    Report {
        zones_left: u32,
        found: Vec<ZoneDescriptor>,
        /// Tasks that were begun before it, when there was no other: none may change a zone meanwhile.
        alone_since: Option<u64>,
    },
    /// Zones that turned: read-only ones are asked for first.
    Search(Search),
}

/// What is known of a zone.
#[derive(Debug, Default)]
struct Line {
    /// Write pointer, as far as answers tell; the capacity where the zone got an area, until it is reset.
    pointer: u32,
    /// It has a random write area, as far as answers tell.
    has_area: bool,
    /// It was full when the drive was opened.
    was_full: bool,
    /// A Zone Write is in flight.
    is_writing: bool,
    /// Zone Writes that come after it.
    waiting: VecDeque<u32>,
}

/// See the module.
#[derive(Debug)]
pub struct NvmeDrive<Q = Ring> {
    geometry: Geometry,
    quirks: Quirks,
    queue: Q,
    tasks: base::slab::Slab<Task>,
    zones: Vec<Line>,
    /// Commands to try again, and when.
    again: Vec<(Instant, u32)>,
    done: Vec<Completion>,
    answers: Vec<Answer>,
    loss: Option<Loss>,
    /// A command whose fate nobody knows is answered alone, and others go on.
    outlives: bool,
    /// Tasks that were begun.
    begun: u64,
    /// Time of the last look at the queue.
    looked_at: Instant,
    /// Results that were logged already.
    said: BTreeSet<i32>,
    census: Census,
}

impl NvmeDrive<Ring> {
    /// From now on answers make this eventfd readable.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn set_bell(&mut self, bell: &OwnedFd) -> io::Result<()> {
        self.queue.set_bell(bell)
    }

    /// Until somebody sleeps until the bell rings, a poll waits a moment for answers.
    pub fn wait_until(&mut self, heard: Heard) {
        self.queue.wait_until(heard);
    }

    /// From now on answers are asked for until they come, and make no bell ring. False when the driver has no queues for that.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn poll_answers(&mut self) -> io::Result<bool> {
        self.queue.poll_answers()
    }
}

impl<Q: Queue> NvmeDrive<Q> {
    /// A drive whose zones were found like this.
    fn new(geometry: Geometry, quirks: Quirks, queue: Q, found: &[ZoneDescriptor]) -> NvmeDrive<Q> {
        assert!(
            found.len() == geometry.zones as usize,
            "a report on {} of {} zones",
            found.len(),
            geometry.zones
        );
        let line = |zone: &ZoneDescriptor| Line {
            pointer: pointer_of(zone, &geometry),
            has_area: zone.has_area,
            was_full: zone.state == ZoneState::Full,
            ..Line::default()
        };
        NvmeDrive {
            geometry,
            quirks,
            queue,
            tasks: base::slab::Slab::default(),
            zones: found.iter().map(line).collect(),
            again: Vec::new(),
            done: Vec::new(),
            answers: Vec::new(),
            loss: None,
            outlives: false,
            begun: 0,
            looked_at: Instant(0),
            said: BTreeSet::new(),
            census: Census::default(),
        }
    }

    /// Status of a command that is not handed to the drive. What would reach into another zone must not be.
    fn refusal(&self, command: &Command) -> Option<Status> {
        let Geometry { zones, zone_size_blocks, append_blocks_max, transfer_blocks_max, .. } = self.geometry;
        let is_zoned = !matches!(command.op, Op::Flush | Op::SelfTest { .. });
        if is_zoned && command.zone.0 >= zones {
            return Some(Status::LbaOutOfRange);
        }
        let (offset, frames, most) = match &command.op {
            Op::Read { offset, frames } | Op::Write { offset, frames } => {
                (*offset, frames, transfer_blocks_max)
            }
            Op::Append { frames } => (0, frames, append_blocks_max),
            Op::OpenWithArea if self.geometry.areas.is_none() => return Some(Status::InvalidZoneOperation),
            Op::Commit { end } => {
                let commits = self.geometry.areas.is_some_and(|areas| areas.explicit_commit);
                let is_inside = *end > 0 && *end <= self.geometry.zone_capacity_blocks;
                return (!commits || !is_inside).then_some(Status::InvalidField);
            }
            // There is nothing beside the blocks.
            Op::SelfTest { .. } => return Some(Status::Success),
            Op::Reset
            | Op::Finish
            | Op::Open
            | Op::OpenWithArea
            | Op::Close
            | Op::Report { .. }
            | Op::FindTurned { .. }
            | Op::Flush => return None,
        };
        let count = block_count(frames);
        if count == 0 || count > most {
            return Some(Status::InvalidField);
        }
        let end = u64::from(offset) + u64::from(count);
        (end > u64::from(zone_size_blocks)).then_some(Status::ZoneBoundaryError)
    }

    fn start_of(&self, zone: usize) -> u64 {
        zone as u64 * u64::from(self.geometry.zone_size_blocks)
    }

    /// Begins the next part of a task.
    fn begin(&mut self, slot: u32) {
        let task = self.tasks.get_mut(slot);
        let zone = task.asked.zone.index();
        let moved = block_count(&task.moved);
        let start = zone as u64 * u64::from(self.geometry.zone_size_blocks);
        let at = start + u64::from(task.asked.offset) + u64::from(moved);
        let action = match &task.kind {
            Kind::Read { .. } => Action::Read { block: at },
            Kind::Write { .. } => Action::Write { block: at },
            Kind::Append => Action::Append { zone_start: start },
            Kind::Manage(transition) => Action::Manage { zone_start: start, transition: *transition },
            Kind::Commit { end } => Action::Commit { last_block: start + u64::from(*end) - 1 },
            Kind::Flush => Action::Flush,
            Kind::Search(search) => search.action(start),
            Kind::Report { found, .. } => {
                let found = found.len() as u64;
                Action::Report { zone_start: start + found * u64::from(self.geometry.zone_size_blocks) }
            }
        };
        let payload = match &task.kind {
            Kind::Report { zones_left, .. } => {
                Payload::of_bytes(report::bytes_of((*zones_left).min(report::zones_max(&self.geometry))))
            }
            Kind::Search(_) => Payload::of_bytes(report::bytes_of(1)),
            Kind::Read { .. } | Kind::Write { .. } => {
                let part = self.quirks.blocks_of_command(block_count(&task.left)) as usize;
                let rest = if part == task.left.len() { Vec::new() } else { task.left.split_off(part) };
                Payload::of_frames(std::mem::replace(&mut task.left, rest))
            }
            Kind::Append => Payload::of_frames(std::mem::take(&mut task.left)),
            Kind::Manage(_) | Kind::Commit { .. } | Kind::Flush => Payload::default(),
        };
        task.out_count = payload.frames.len();
        self.queue.begin(Job { waiter: slot, action, payload });
    }

    fn take_answers(&mut self, now: Instant) {
        let mut answers = std::mem::take(&mut self.answers);
        self.queue.take(&mut answers);
        for answer in answers.drain(..) {
            // Of a drive that was given up the answers were given already: this only frees what the kernel had.
            if self.loss.is_none() {
                self.on_answer(now, answer);
            }
        }
        self.answers = answers;
    }

    fn on_answer(&mut self, now: Instant, answer: Answer) {
        if answer.job.waiter == census::WAITER {
            return self.on_census(&answer);
        }
        let Answer { job: Job { waiter: slot, action, mut payload }, result, place } = answer;
        let outcome = outcome_of(result);
        if outcome == Outcome::Answered(Status::Success) && action.reads() {
            payload.scatter();
        }
        let task = self.tasks.get_mut(slot);
        task.out_count = 0;
        // Who qualifies a drive wants to hear it; in service it may be otherwise soon.
        let is_full_up = self.outlives && matches!(outcome, Outcome::Answered(status) if is_crowded(status));
        let is_refused = outcome == Outcome::NotNow || is_full_up;
        if is_refused && now.since(task.refused.map_or(now, |(_, since)| since)) < PATIENCE {
            payload.frames.append(&mut task.left);
            task.left = payload.frames;
            let (pause, since) = task
                .refused
                .map_or((PAUSE_MIN, now), |(pause, since)| (Nanos(pause.0 * 2).min(PAUSE_MAX), since));
            task.refused = Some((pause, since));
            self.again.push((now + pause, slot));
            if is_full_up {
                self.begin_census();
            }
            return;
        }
        match task.moved.is_empty() {
            true => task.moved = payload.frames,
            false => task.moved.append(&mut payload.frames),
        }
        match outcome {
            Outcome::Answered(Status::Success) => {
                task.refused = None;
                self.advance(slot, place, &payload.bytes);
            }
            Outcome::Answered(status) => self.end(slot, status),
            Outcome::NotNow | Outcome::Unknown | Outcome::Gone | Outcome::Unexpected => {
                self.say(slot, action, result, outcome);
                self.end_badly(slot, outcome);
            }
        }
    }

    /// Goes on after a part that was carried out.
    fn advance(&mut self, slot: u32, place: u64, bytes: &[u8]) {
        let start = self.start_of(self.tasks.get(slot).asked.zone.index());
        let geometry = self.geometry;
        let task = self.tasks.get_mut(slot);
        let line = &mut self.zones[task.asked.zone.index().min(geometry.zones as usize - 1)];
        let end = task.asked.offset.saturating_add(block_count(&task.moved));
        match &mut task.kind {
            Kind::Read { pointer, was_full } => {
                let first_blank = pointer.saturating_sub(task.asked.offset) as usize;
                if task.left.is_empty() {
                    task.moved.iter_mut().skip(first_blank).for_each(blank);
                    if *was_full {
                        task.moved.iter_mut().filter(|frame| has_ones_alone(frame)).for_each(blank);
                    }
                }
            }
            Kind::Write { .. } => line.pointer = line.pointer.max(end),
            Kind::Append => {
                let offset = place.checked_sub(start).and_then(|at| u32::try_from(at).ok());
                let Some(offset) = offset.filter(|at| *at < geometry.zone_capacity_blocks) else {
                    log::error!(
                        "a drive says that an append to the zone at block {start} went to block {place}"
                    );
                    return self.end(slot, Status::InternalError);
                };
                task.asked.offset = offset;
                line.pointer = line.pointer.max(offset.saturating_add(block_count(&task.moved)));
            }
            Kind::Manage(Transition::Reset) => {
                (line.pointer, line.has_area, line.was_full) = (0, false, false);
            }
            Kind::Manage(Transition::OpenWithArea) => {
                (line.pointer, line.has_area) = (geometry.zone_capacity_blocks, true);
            }
            Kind::Manage(Transition::Finish) => line.has_area = false,
            Kind::Commit { end } => line.has_area &= *end < geometry.zone_capacity_blocks,
            Kind::Manage(Transition::Close | Transition::Open) | Kind::Flush => {}
            Kind::Report { .. } => return self.advance_report(slot, bytes),
            Kind::Search(_) => return self.advance_search(slot, bytes),
        }
        if task.left.is_empty() { self.end(slot, Status::Success) } else { self.begin(slot) }
    }

    fn advance_report(&mut self, slot: u32, bytes: &[u8]) {
        let geometry = self.geometry;
        let task = self.tasks.get_mut(slot);
        let first = task.asked.zone.0;
        let Kind::Report { zones_left, found, .. } = &mut task.kind else {
            unreachable!("a report was answered")
        };
        let first = first + u32::try_from(found.len()).expect("a u32 of zones");
        let count = (*zones_left).min(report::zones_max(&geometry));
        match report::parse(bytes, (first, count), geometry.zone_size_blocks) {
            Ok(zones) => {
                *zones_left -= count;
                found.extend(zones);
                if *zones_left > 0 {
                    return self.begin(slot);
                }
                self.follow_report(slot);
                self.end(slot, Status::Success);
            }
            Err(problem) => {
                log::error!(
                    "a report of a drive on {count} zones from {first} on makes no sense: {problem:?}"
                );
                self.end(slot, Status::InternalError);
            }
        }
    }

    /// Follows the write pointers of a report during which nothing else was under way: commands that nobody answered may have moved
    /// them.
    fn follow_report(&mut self, slot: u32) {
        let Task { asked, kind, .. } = self.tasks.get(slot);
        let Kind::Report { found, alone_since, .. } = kind else { unreachable!("a report was answered") };
        if *alone_since != Some(self.begun) {
            return;
        }
        let geometry = self.geometry;
        for (line, zone) in self.zones.iter_mut().skip(asked.zone.index()).zip(found) {
            let pointer = pointer_of(zone, &geometry);
            let is_full = zone.state == ZoneState::Full;
            // Of a zone that was finished, what was answered says more.
            if is_full && line.pointer < pointer {
                line.was_full = true;
            }
            (line.pointer, line.has_area) = (pointer, zone.has_area);
        }
    }

    /// Answers a command that came to no good end.
    fn end_badly(&mut self, slot: u32, outcome: Outcome) {
        let is_in_doubt = matches!(outcome, Outcome::Gone | Outcome::Unknown | Outcome::NotNow);
        if is_in_doubt && self.outlives {
            return self.end(slot, Status::DeviceGone);
        }
        match outcome {
            Outcome::Gone => return self.give_up(Loss::Removed),
            Outcome::Unknown | Outcome::NotNow => return self.give_up(Loss::Interrupted),
            Outcome::Unexpected | Outcome::Answered(_) => {}
        }
        let status = match self.tasks.get(slot).kind {
            Kind::Read { .. } => Status::UnrecoveredReadError,
            Kind::Write { .. } | Kind::Append => Status::WriteFault,
            Kind::Manage(_) | Kind::Commit { .. } | Kind::Flush | Kind::Report { .. } | Kind::Search(_) => {
                Status::InternalError
            }
        };
        self.end(slot, status);
    }

    /// Logs an answer, each once.
    fn say(&mut self, slot: u32, action: Action, result: i32, outcome: Outcome) {
        if !self.said.insert(result) {
            return;
        }
        let Task { asked, out_count, moved, .. } = self.tasks.get(slot);
        let answer = match result {
            ..0 => io::Error::from_raw_os_error(-result).to_string(),
            _ => format!("NVMe status {result:#x}"),
        };
        let count = moved.len() + out_count;
        log::error!(
            "a drive answered {action:?} (zone {}, {count} blocks) with {answer}: {outcome:?}",
            asked.zone
        );
    }

    /// Answers a command.
    fn end(&mut self, slot: u32, status: Status) {
        let Task { asked, kind, mut left, mut moved, .. } = self.tasks.remove(slot);
        moved.append(&mut left);
        let zone = asked.zone.index();
        let took_its_turn = matches!(kind, Kind::Write { takes_turns: true });
        let report = match kind {
            Kind::Report { found, .. } if status == Status::Success => found,
            Kind::Search(search) if status == Status::Success => {
                return self.done.push(asked.found(Ok(search.found())));
            }
            _ => Vec::new(),
        };
        self.done.push(Completion { report, ..asked.done(Err(status), moved) });
        if took_its_turn {
            self.next_write(zone);
        }
    }

    /// Begins the Zone Write that has waited longest for one to a zone to end.
    fn next_write(&mut self, zone: usize) {
        let line = &mut self.zones[zone];
        assert!(line.is_writing, "a Zone Write ended that was not begun");
        match line.waiting.pop_front() {
            Some(slot) => self.begin(slot),
            None => line.is_writing = false,
        }
    }

    /// Tries commands again whose pause is over.
    fn retry(&mut self, now: Instant) {
        let again = std::mem::take(&mut self.again);
        let (due, later) = again.into_iter().partition(|(at, _)| *at <= now);
        self.again = later;
        due.into_iter().for_each(|(_, slot)| self.begin(slot));
    }

    /// Answers everything now and from now on: the drive is lost. Frames that the kernel has are replaced by others.
    fn give_up(&mut self, loss: Loss) {
        self.loss.get_or_insert(loss);
        self.again.clear();
        self.zones.iter_mut().for_each(|line| line.waiting.clear());
        for Task { asked, mut left, mut moved, out_count, .. } in
            std::mem::take(&mut self.tasks).into_values()
        {
            moved.extend((0..out_count).map(|_| Frame::zeroed()));
            moved.append(&mut left);
            self.done.push(asked.done(Err(Status::DeviceGone), moved));
        }
    }
}

/// Block from which on a zone reads as zeros.
fn pointer_of(zone: &ZoneDescriptor, geometry: &Geometry) -> u32 {
    match zone.state {
        _ if zone.has_area => geometry.zone_capacity_blocks,
        ZoneState::Empty | ZoneState::ImplicitOpen | ZoneState::ExplicitOpen | ZoneState::Closed => {
            zone.write_pointer
        }
        // How far they were written is not told.
        ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => geometry.zone_capacity_blocks,
    }
}

fn has_ones_alone(frame: &Frame) -> bool {
    frame.oob == [0xff; OOB_BYTES] && frame.data.iter().all(|byte| *byte == 0xff)
}

fn blank(frame: &mut Frame) {
    frame.data.fill(0);
    frame.oob = [0; OOB_BYTES];
}

impl<Q: Queue> ZonedDevice for NvmeDrive<Q> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let asked = Asked::of(command.token, command.zone, &command.op);
        let refusal = self.loss.map(|_| Status::DeviceGone).or_else(|| self.refusal(&command));
        if let Some(status) = refusal {
            return self.done.push(asked.done(Err(status), frames_of(command.op)));
        }
        let zone = command.zone.index();
        let kind = match &command.op {
            Op::Read { .. } => {
                let Line { pointer, was_full, .. } = self.zones[zone];
                Kind::Read { pointer, was_full }
            }
            Op::Write { .. } => Kind::Write { takes_turns: !self.zones[zone].has_area },
            Op::Append { .. } => Kind::Append,
            Op::Reset => Kind::Manage(Transition::Reset),
            Op::Finish => Kind::Manage(Transition::Finish),
            Op::Open => Kind::Manage(Transition::Open),
            Op::OpenWithArea => Kind::Manage(Transition::OpenWithArea),
            Op::Commit { end } => Kind::Commit { end: *end },
            Op::Close => Kind::Manage(Transition::Close),
            Op::Flush => Kind::Flush,
            Op::Report { count } => {
                let zones_left = (*count).min(self.geometry.zones - command.zone.0);
                let alone_since = self.tasks.is_empty().then_some(self.begun + 1);
                Kind::Report { zones_left, found: Vec::new(), alone_since }
            }
            Op::FindTurned { count } => {
                let zones = (*count).min(self.geometry.zones - command.zone.0);
                Kind::Search(Search::among(zones))
            }
            Op::SelfTest { .. } => unreachable!("answered above"),
        };
        if matches!(kind, Kind::Report { zones_left: 0, .. }) {
            return self.done.push(asked.plain(Ok(())));
        }
        let takes_turns = matches!(kind, Kind::Write { takes_turns: true });
        let (left, moved) = (frames_of(command.op), Vec::new());
        let task = Task { asked, kind, since: now, left, moved, out_count: 0, refused: None };
        let slot = self.tasks.insert(task);
        self.begun += 1;
        if takes_turns && std::mem::replace(&mut self.zones[zone].is_writing, true) {
            return self.zones[zone].waiting.push_back(slot);
        }
        self.begin(slot);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.looked_at = now;
        self.retry(now);
        self.take_answers(now);
        completions.append(&mut self.done);
    }

    fn next_event(&self) -> Option<Instant> {
        let at_once = self.queue.wants_poll().then_some(self.looked_at);
        self.again.iter().map(|(at, _)| *at).chain(at_once).min()
    }

    fn condition(&mut self, _: Instant) -> Condition {
        let is_removed = self.loss.is_none() && !self.queue.is_there();
        if is_removed && !self.outlives {
            self.give_up(Loss::Removed);
        }
        let outstanding = |task: &Task| Outstanding { zone: task.asked.zone, since: task.since };
        let oldest = self.tasks.iter().map(outstanding).min_by_key(|command| command.since);
        let left_behind = if self.loss.is_some() { self.queue.in_flight() } else { 0 };
        let left_behind = u32::try_from(left_behind).expect("a u32 of slots");
        let loss = self.loss.or(is_removed.then_some(Loss::Removed));
        Condition { loss, left_behind, oldest, calls: self.queue.calls(), ..Condition::default() }
    }

    fn abandon(&mut self) {
        self.give_up(Loss::Abandoned);
    }

    fn outlive_hiccups(&mut self, outlives: bool) {
        self.outlives = outlives;
    }
}
