//! An emulated drive that takes as long as a modelled one.
//!
//! Two halves that do not know each other: the [`EmulatedDrive`] decides what a command does, the
//! [`Model`] when it is done.
//!
//! ```text
//!   submit -> EmulatedDrive: executed at once, in the order of submission -> completion is held
//!         `-> Model: when will it be done? -----------------------------------------`-> poll
//! ```
//! Appends of one zone land in the order of submission and may complete in another, as the model
//! says. A command that the rules refuse takes the short time of a refusal. What a held command
//! has changed is there before its completion is delivered; a host that waits for completions does
//! not notice, and one that does not is wrong on any drive.
//!
//! The drive lives on any clock. In virtual time the owner goes from [`ZonedDevice::next_event`] to
//! the next; on the wall clock it sleeps until then and polls. Either way the model's times depend
//! on the times of submission alone, not on when it is polled. [`TimedDrive::lag`] tells how late
//! completions were picked up: when that grows, the host is too slow for this drive.
//!
//! The emulated drive may be smaller than the modelled one: costs that depend on how full a zone is
//! go by the fraction of its capacity, data and padding by their bytes.

use super::EmulatedDrive;
use super::timing::{Access, Done, Model, ModelOptions, Profile, Wear, ZoneCondition};
use crate::answer::block_count;
use base::slab::Slab;
use base::time::{Instant, Nanos};
use base::units::{BLOCK_BYTES_U64, ZoneIndex};
use rustix::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use zone::condition::Condition;
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZoneState, ZonedDevice};

/// For how long a late completion is remembered, at least; at most twice as long.
const LAG_WINDOW: Nanos = Nanos(1_000_000_000);

/// A command whose time has not come.
#[derive(Debug)]
struct Held {
    token: Token,
    /// Completion of the command; `None` while a disk is being flushed or a zone's space given back.
    completion: Option<Completion>,
    /// The model's time, once that has come.
    done: Option<Instant>,
}

/// Starts the clock of a drive that has gone into an array, and tells how it keeps up.
#[derive(Clone, Debug, Default)]
pub struct Pace(Arc<PaceState>);

#[derive(Debug, Default)]
struct PaceState {
    runs: AtomicBool,
    lag_ns: AtomicU64,
}

impl Pace {
    /// From now on commands take their time.
    pub fn start(&self) {
        self.0.runs.store(true, Ordering::Release);
    }

    /// The worst lag since the last question.
    #[must_use]
    pub fn take_lag(&self) -> Nanos {
        Nanos(self.0.lag_ns.swap(0, Ordering::Relaxed))
    }

    fn runs(&self) -> bool {
        self.0.runs.load(Ordering::Acquire)
    }
}

/// An emulated drive with the timing of a real one.
#[derive(Debug)]
pub struct TimedDrive {
    drive: EmulatedDrive,
    model: Model,
    pace: Pace,
    /// Zones have changed without the model's knowledge.
    model_is_behind: bool,
    held: Slab<Held>,
    /// Kept for their memory.
    executed: Vec<Completion>,
    done: Vec<Done>,
    /// Commands whose time has come before the disk's answer.
    late: Vec<u32>,
    /// Worst lag of the window that began then, and of the one before.
    lag_since: Instant,
    lag: [Nanos; 2],
}

impl TimedDrive {
    /// The drive with the timing of a profile. Zones are as the drive has them.
    #[must_use]
    pub fn new(drive: EmulatedDrive, profile: &Profile, options: ModelOptions) -> TimedDrive {
        let (mut drive, pace) = TimedDrive::paced(drive, profile, options);
        drive.catch_up();
        pace.start();
        drive
    }

    /// The same, but commands take no time until its pace is started: an array is mounted before its clock
    /// begins.
    #[must_use]
    pub fn paced(drive: EmulatedDrive, profile: &Profile, options: ModelOptions) -> (TimedDrive, Pace) {
        let pace = Pace::default();
        let model = Model::new(&profile.with_geometry(drive.geometry()), options);
        let drive = TimedDrive {
            drive,
            model,
            pace: pace.clone(),
            model_is_behind: true,
            held: Slab::default(),
            executed: Vec::new(),
            done: Vec::new(),
            late: Vec::new(),
            lag_since: Instant(0),
            lag: [Nanos(0); 2],
        };
        (drive, pace)
    }

    fn catch_up(&mut self) {
        self.drive.teach(&mut self.model);
        self.model_is_behind = false;
    }

    /// What the drive's flash was written with since its clock began. What its windows held then counts as written.
    #[must_use]
    pub fn wear(&self) -> Wear {
        self.model.wear()
    }

    /// The drive without its timing, for faults and snapshots.
    #[must_use]
    pub fn drive(&self) -> &EmulatedDrive {
        &self.drive
    }

    /// The drive without its timing, for faults and snapshots.
    pub fn drive_mut(&mut self) -> &mut EmulatedDrive {
        &mut self.drive
    }

    /// The timing without the drive.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The timing without the drive, for starting in a certain state.
    pub fn model_mut(&mut self) -> &mut Model {
        &mut self.model
    }

    /// Delay, behind its time, with which the latest completion of the last second or two was delivered.
    #[must_use]
    pub fn lag(&self) -> Nanos {
        self.lag[0].max(self.lag[1])
    }

    /// As [`EmulatedDrive::wake_fd`]: readable when a flush of a disk has ended. The owner sleeps on
    /// it and on [`ZonedDevice::next_event`].
    #[must_use]
    pub fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.drive.wake_fd()
    }

    /// Executes what the drive has and keeps the completions with the commands they belong to.
    fn execute(&mut self, now: Instant) {
        self.drive.poll(now, &mut self.executed);
        for completion in self.executed.drain(..) {
            let slot = u32::try_from(completion.token.0).expect("tokens of the inner drive are slots");
            self.held.get_mut(slot).completion = Some(completion);
        }
    }

    fn note_lag(&mut self, now: Instant, due: Instant) {
        if now.since(self.lag_since) >= LAG_WINDOW {
            let stale = now.since(self.lag_since).0 >= 2 * LAG_WINDOW.0;
            self.lag = [Nanos(0), if stale { Nanos(0) } else { self.lag[0] }];
            self.lag_since = now;
        }
        let lag = now.since(due);
        self.lag[0] = self.lag[0].max(lag);
        self.pace.0.lag_ns.fetch_max(lag.0, Ordering::Relaxed);
    }

    /// Delivers a command if both halves are through with it, and tells whether they were.
    fn deliver(&mut self, slot: u32, now: Instant, completions: &mut Vec<Completion>) -> bool {
        let held = self.held.get(slot);
        let (Some(due), Some(_)) = (held.done, &held.completion) else { return false };
        self.note_lag(now, due);
        let Held { token, completion, .. } = self.held.remove(slot);
        let dead = self.drive.is_dead();
        completions.extend(completion.map(|completion| {
            let status = if dead { Status::DeviceGone } else { completion.status };
            Completion { token, status, ..completion }
        }));
        true
    }
}

impl EmulatedDrive {
    /// Tells a model how the zones are.
    pub fn teach(&self, model: &mut Model) {
        for zone in 0..self.geometry.zones {
            let found = self.table.zone(ZoneIndex(zone));
            let all = found.write_pointer == self.geometry.zone_capacity_blocks;
            let condition = match found.state {
                ZoneState::Empty => ZoneCondition::Empty,
                ZoneState::ImplicitOpen | ZoneState::ExplicitOpen => ZoneCondition::Open,
                ZoneState::Closed => ZoneCondition::Closed,
                _ if all => ZoneCondition::Written,
                _ => ZoneCondition::Finished,
            };
            let written_bytes = u64::from(found.write_pointer) * BLOCK_BYTES_U64;
            model.preset_zone(zone, written_bytes, condition);
            if found.area.is_some() {
                let held = self.uncommitted(ZoneIndex(zone));
                model.preset_area(zone, held.map(|block| u64::from(block) * BLOCK_BYTES_U64));
            }
        }
    }
}

impl ZonedDevice for TimedDrive {
    fn geometry(&self) -> &Geometry {
        self.drive.geometry()
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let Command { token, zone, op } = command;
        let access = Access::of(zone, &op);
        let untimed = !self.pace.runs();
        if !untimed && self.model_is_behind {
            self.catch_up();
        }
        let slot = self.held.insert(Held { token, completion: None, done: untimed.then_some(now) });
        self.drive.submit(now, Command { token: Token(u64::from(slot)), zone, op });
        self.execute(now);
        if untimed {
            self.late.push(slot);
            return;
        }
        let succeeds = match &self.held.get(slot).completion {
            Some(completion) => completion.status == Status::Success,
            // A flush, a reset that gives space back, and what comes after that in its zone.
            None => true,
        };
        self.model.submit(now, u64::from(slot), if succeeds { access } else { Access::Refused });
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let mut done = std::mem::take(&mut self.done);
        self.model.advance(now, &mut done);
        self.execute(now);
        let mut late = std::mem::take(&mut self.late);
        late.retain(|slot| !self.deliver(*slot, now, completions));
        for Done { tag, at } in done.drain(..) {
            let slot = u32::try_from(tag).expect("tags are slots");
            self.held.get_mut(slot).done = Some(at);
            if !self.deliver(slot, now, completions) {
                late.push(slot);
            }
        }
        (self.done, self.late) = (done, late);
    }

    fn next_event(&self) -> Option<Instant> {
        self.model.next_event()
    }

    /// Looks for the drive's file, and may wait for the disk: nobody else does, for the drive has no thread of its own.
    fn condition(&mut self, now: Instant) -> Condition {
        self.drive.look();
        self.drive.condition(now)
    }
}

impl Access {
    /// A command as the model sees it.
    #[must_use]
    pub fn of(ZoneIndex(zone): ZoneIndex, op: &Op) -> Access {
        let bytes_of = |blocks: u32| u64::from(blocks) * BLOCK_BYTES_U64;
        match op {
            Op::Read { offset, frames } => {
                Access::Read { zone, offset_bytes: bytes_of(*offset), bytes: bytes_of(block_count(frames)) }
            }
            Op::Write { offset, frames } => {
                Access::Write { zone, offset_bytes: bytes_of(*offset), bytes: bytes_of(block_count(frames)) }
            }
            Op::Append { frames } => Access::Append { zone, bytes: bytes_of(block_count(frames)) },
            Op::Reset => Access::Reset { zone },
            Op::Finish => Access::Finish { zone },
            Op::Open => Access::Open { zone },
            Op::OpenWithArea => Access::ZrwaOpen { zone },
            Op::Commit { end } => Access::ZrwaCommit { zone, end_bytes: bytes_of(*end) },
            Op::Close => Access::Close { zone },
            Op::Report { .. } | Op::FindTurned { .. } | Op::SelfTest { .. } => Access::Report,
            Op::Flush => Access::Flush,
        }
    }
}

#[cfg(test)]
mod tests;
