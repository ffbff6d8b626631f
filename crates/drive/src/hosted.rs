//! A drive in a thread of its own, so that nobody but this thread waits for a disk.
//!
//! The owner submits and polls as with any drive, and neither ever waits: commands go to the thread when the owner
//! polls, and answers come with a later poll, after the [`Bell`] has rung. A file system that is frozen, a disk that
//! takes long and a full one hold up this drive and no other.
//!
//! ```text
//!   submit, submit, poll -> thread ... bell -> poll: answers
//!                             |
//!                             `- stuck: `oldest` gets old -> owner abandons it: all is answered, DeviceGone
//! ```
//! What is answered in the thread's stead has other frames than it was asked with: the thread still has those, for the
//! kernel may be reading them. They are freed when it comes back, if it ever does, and what it says then is heard by
//! nobody. The thread of a drive that was given up is left to itself; so is its file, which stays locked until then.
//!
//! Bad at: latency. A command costs two wake-ups more than one that is executed in place, some 10 us when all sleep. A
//! drive in memory waits for nothing and is not hosted.

mod bell;
mod histogram;
#[cfg(test)]
mod tests;
mod worker;

pub use bell::{Bell, Heard};

use crate::answer::{Asked, frames_of};
use crate::emulated::EmulatedDrive;
use base::frame::Frame;
use base::slab::Slab;
use base::time::Instant;
use histogram::Histogram;
use rustix::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use worker::{Shared, Worker};
use zone::condition::{Condition, Loss, Outstanding};
use zone::device::{Command, Completion, Geometry, Op, Status, Token, ZonedDevice};

/// Time that a poll waits for answers while nobody listens to the bell.
const POLL_MAX: Duration = Duration::from_millis(10);
/// Time that the owner waits, in the end, for a thread that is still at work.
const END_MAX: Duration = Duration::from_secs(3);

/// Treatment of writes that find no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Writes without room wait, from now on.
    Wait,
    /// Writes that wait are tried again with the next poll.
    TryAgain,
}

/// A drive that can work in a thread of its own: its commands may take long, and all of what they do is done by `poll`.
pub trait Works: ZonedDevice + 'static {
    /// Readable while there are answers to poll that no command is behind.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>>;
    /// Looks whether the drive is still there. May take long.
    fn look(&mut self) -> Option<Loss>;
    /// True when the last look found damaged what the drive needs to be opened again.
    fn header_is_damaged(&self) -> bool {
        false
    }
    /// Says what becomes of writes that find no room.
    fn room(&mut self, room: Room);
    /// True when commands wait for room.
    fn has_waiting(&self) -> bool;
    /// Adds the commands that wait for room.
    fn waiting_for_room(&self, tokens: &mut Vec<Token>);
}

impl Works for EmulatedDrive {
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        EmulatedDrive::wake_fd(self)
    }

    fn look(&mut self) -> Option<Loss> {
        EmulatedDrive::look(self)
    }

    fn header_is_damaged(&self) -> bool {
        EmulatedDrive::header_is_damaged(self)
    }

    fn room(&mut self, room: Room) {
        match room {
            Room::Wait => self.wait_for_room(),
            Room::TryAgain => self.try_again(),
        }
    }

    fn has_waiting(&self) -> bool {
        EmulatedDrive::waiting_for_room(self).next().is_some()
    }

    fn waiting_for_room(&self, tokens: &mut Vec<Token>) {
        tokens.extend(EmulatedDrive::waiting_for_room(self));
    }
}

/// A command that the thread has.
#[derive(Clone, Copy, Debug)]
struct Pending {
    asked: Asked,
    frames: usize,
    since: Instant,
}

/// See the module.
#[derive(Debug)]
pub struct HostedDrive {
    geometry: Geometry,
    shared: Arc<Shared>,
    /// By the token that the thread knows.
    pending: Slab<Pending>,
    /// Submitted since the last poll.
    commands: Vec<Command>,
    /// Kept for its memory.
    answers: Vec<Completion>,
    /// Answered in the thread's stead.
    refused: Vec<Completion>,
    loss: Option<Loss>,
    header_damaged: bool,
    /// The thread is left to itself.
    is_abandoned: bool,
    waits_for_room_since: Option<Instant>,
    histogram: Histogram,
    thread: Option<JoinHandle<()>>,
}

impl HostedDrive {
    /// Starts the thread of a drive. It holds writes that find no room.
    ///
    /// # Errors
    /// When the system has no threads or descriptors left.
    pub fn start(mut drive: impl Works, bell: &Bell) -> std::io::Result<HostedDrive> {
        let geometry = *drive.geometry();
        drive.room(Room::Wait);
        let shared = Arc::new(Shared::new(bell.clone())?);
        let worker = Worker::new(drive, Arc::clone(&shared));
        let thread = std::thread::Builder::new().name("drive".into()).spawn(move || worker.run())?;
        Ok(HostedDrive {
            geometry,
            shared,
            pending: Slab::default(),
            commands: Vec::new(),
            answers: Vec::new(),
            refused: Vec::new(),
            loss: None,
            header_damaged: false,
            is_abandoned: false,
            waits_for_room_since: None,
            histogram: Histogram::new(),
            thread: Some(thread),
        })
    }

    /// Hands over what was submitted.
    fn ask(&mut self) {
        if !self.commands.is_empty() {
            self.shared.ask(&mut self.commands);
        }
        if !self.pending.is_empty() && !self.shared.bell.is_heard() {
            let desk = self.shared.desk();
            let is_waiting = |desk: &mut worker::Desk| desk.answers.is_empty() && !desk.has_ended;
            let waited = self.shared.changed.wait_timeout_while(desk, POLL_MAX, is_waiting);
            drop(waited.expect("nobody panics while the desk is locked"));
        }
    }

    fn take_answers(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        if !self.shared.has_news.swap(false, Ordering::AcqRel) {
            return;
        }
        std::mem::swap(&mut self.shared.desk().answers, &mut self.answers);
        for answer in self.answers.drain(..) {
            let slot = u32::try_from(answer.token.0).expect("the thread's tokens are slots");
            let Pending { asked, since, .. } = self.pending.remove(slot);
            self.histogram.note(now, now.since(since));
            completions.push(Completion { token: asked.token, ..answer });
        }
    }

    /// Commands that wait for room have not waited for the drive: their time begins anew.
    fn note_room(&mut self, now: Instant) {
        let desk = self.shared.desk();
        let is_waiting = !desk.waiting_for_room.is_empty();
        for token in &desk.waiting_for_room {
            // An answer that the thread has left meanwhile is still pending here.
            let slot = u32::try_from(token.0).expect("the thread's tokens are slots");
            self.pending.get_mut(slot).since = now;
        }
        self.loss = self.loss.or(desk.loss);
        self.header_damaged = desk.header_damaged;
        drop(desk);
        self.waits_for_room_since = is_waiting.then(|| self.waits_for_room_since.unwrap_or(now));
    }

    fn oldest(&self, now: Instant) -> Option<Outstanding> {
        let waiting = self.pending.iter().filter(|pending| pending.since < now);
        let outstanding =
            waiting.map(|pending| Outstanding { zone: pending.asked.zone, since: pending.since });
        outstanding.min_by_key(|outstanding| outstanding.since)
    }
}

impl ZonedDevice for HostedDrive {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let Command { token, zone, op } = command;
        let asked = Asked::of(token, zone, &op);
        if self.is_abandoned {
            return self.refused.push(asked.done(Err(Status::DeviceGone), frames_of(op)));
        }
        let slot = self.pending.insert(Pending { asked, frames: frame_count(&op), since: now });
        self.commands.push(Command { token: Token(u64::from(slot)), zone, op });
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        completions.append(&mut self.refused);
        if !self.is_abandoned {
            self.ask();
            self.take_answers(now, completions);
        }
    }

    fn condition(&mut self, now: Instant) -> Condition {
        if !self.is_abandoned {
            self.note_room(now);
        }
        // The thread says nothing of what it has begun before it ends.
        let left_behind = u32::from(self.is_abandoned && !self.shared.desk().has_ended);
        Condition {
            loss: self.loss,
            left_behind,
            header_damaged: self.header_damaged,
            waits_for_room_since: self.waits_for_room_since,
            oldest: self.oldest(now),
            latency: self.histogram.latency(now),
            ..Condition::default()
        }
    }

    fn abandon(&mut self) {
        if std::mem::replace(&mut self.is_abandoned, true) {
            return;
        }
        self.loss.get_or_insert(Loss::Abandoned);
        self.waits_for_room_since = None;
        self.shared.end();
        self.commands.clear();
        for &Pending { asked, frames, .. } in std::mem::take(&mut self.pending).iter() {
            let others = (0..frames).map(|_| Frame::zeroed()).collect();
            self.refused.push(asked.done(Err(Status::DeviceGone), others));
        }
    }
}

/// Waits for what the thread has begun: the drive's file is locked as long as it has it. It is left behind when that
/// takes too long, or when it was given up before.
impl Drop for HostedDrive {
    fn drop(&mut self) {
        self.shared.end();
        let patience = if self.is_abandoned { Duration::ZERO } else { END_MAX };
        let waited =
            self.shared.changed.wait_timeout_while(self.shared.desk(), patience, |desk| !desk.has_ended);
        let has_ended = waited.expect("nobody panics while the desk is locked").0.has_ended;
        let Some(thread) = self.thread.take() else { return };
        if !has_ended {
            log::warn!("the thread of a drive does not come back and is left behind; its file stays locked");
        } else if thread.join().is_err() {
            log::error!("the thread of a drive panicked");
        }
    }
}

fn frame_count(op: &Op) -> usize {
    match op {
        Op::Read { frames, .. } | Op::Write { frames, .. } | Op::Append { frames } => frames.len(),
        Op::Reset
        | Op::Finish
        | Op::Open
        | Op::OpenWithArea
        | Op::Commit { .. }
        | Op::Close
        | Op::Report { .. }
        | Op::FindTurned { .. }
        | Op::Flush
        | Op::SelfTest { .. } => 0,
    }
}
