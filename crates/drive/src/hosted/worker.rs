//! The thread of a hosted drive: takes what was asked, lets the drive do it, and leaves the answers.
//!
//! ```text
//!   owner --commands--> desk --> thread: drive --answers--> desk --> owner
//!        \-> eventfd, if the thread sleeps             \-> bell
//! ```
//! Nobody waits for the other but for the moment in which the desk is locked.

use super::bell::{Bell, ring};
use super::{Room, Works};
use base::time::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;
use zone::condition::Loss;
use zone::device::{Command, Completion, Token};

/// Interval between looks whether the drive's file is still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval at which a write that found no room is tried again.
const TRY_AGAIN_EVERY: Duration = Duration::from_millis(100);

/// State that owner and thread share.
#[derive(Debug)]
pub(super) struct Shared {
    desk: Mutex<Desk>,
    /// Answers have come, or the thread has ended.
    pub(super) changed: Condvar,
    /// Set when there are answers that the owner has not taken.
    pub(super) has_news: AtomicBool,
    pub(super) bell: Bell,
    wake: OwnedFd,
}

/// Messages and state between owner and thread.
#[derive(Debug, Default)]
pub(super) struct Desk {
    commands: Vec<Command>,
    pub(super) answers: Vec<Completion>,
    /// Commands that wait for room.
    pub(super) waiting_for_room: Vec<Token>,
    pub(super) loss: Option<Loss>,
    pub(super) header_damaged: bool,
    sleeps: bool,
    /// Nobody wants any more answers.
    is_over: bool,
    pub(super) has_ended: bool,
}

impl Shared {
    pub(super) fn new(bell: Bell) -> std::io::Result<Shared> {
        use rustix::event::{EventfdFlags, eventfd};
        Ok(Shared {
            desk: Mutex::new(Desk::default()),
            changed: Condvar::new(),
            has_news: AtomicBool::new(false),
            bell,
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    pub(super) fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().expect("nobody panics while the desk is locked")
    }

    /// Hands over commands, and wakes the thread if need be.
    pub(super) fn ask(&self, commands: &mut Vec<Command>) {
        let mut desk = self.desk();
        desk.commands.append(commands);
        self.wake(desk);
    }

    /// The thread is to end when it is through with what it has begun.
    pub(super) fn end(&self) {
        let mut desk = self.desk();
        desk.is_over = true;
        desk.commands.clear();
        self.wake(desk);
    }

    fn wake(&self, mut desk: MutexGuard<'_, Desk>) {
        if std::mem::take(&mut desk.sleeps) {
            drop(desk);
            ring(&self.wake);
        }
    }
}

/// State that the thread owns.
pub(super) struct Worker<D> {
    pub(super) drive: D,
    pub(super) shared: std::sync::Arc<Shared>,
    commands: Vec<Command>,
    answers: Vec<Completion>,
    looked_at: std::time::Instant,
    tried_at: std::time::Instant,
}

impl<D: Works> Worker<D> {
    pub(super) fn new(drive: D, shared: std::sync::Arc<Shared>) -> Worker<D> {
        let now = std::time::Instant::now();
        Worker { drive, shared, commands: Vec::new(), answers: Vec::new(), looked_at: now, tried_at: now }
    }

    pub(super) fn run(mut self) {
        while self.take() {
            self.work();
            self.leave_answers();
            self.rest();
        }
        let Worker { drive, shared, .. } = self;
        // Its file is unlocked before anybody is told.
        drop(drive);
        shared.desk().has_ended = true;
        shared.changed.notify_all();
    }

    /// Takes what there is to do; false when it is over.
    fn take(&mut self) -> bool {
        let mut desk = self.shared.desk();
        std::mem::swap(&mut desk.commands, &mut self.commands);
        !desk.is_over
    }

    fn work(&mut self) {
        for command in self.commands.drain(..) {
            self.drive.submit(Instant(0), command);
        }
        let now = std::time::Instant::now();
        if now.duration_since(self.looked_at) >= LOOK_EVERY {
            self.looked_at = now;
            if let Some(loss) = self.drive.look() {
                self.shared.desk().loss = Some(loss);
                self.shared.bell.ring();
            }
            self.shared.desk().header_damaged = self.drive.header_is_damaged();
        }
        if now.duration_since(self.tried_at) >= TRY_AGAIN_EVERY {
            self.tried_at = now;
            self.drive.room(Room::TryAgain);
        }
        self.drive.poll(Instant(0), &mut self.answers);
    }

    fn leave_answers(&mut self) {
        let mut desk = self.shared.desk();
        if !desk.waiting_for_room.is_empty() || self.drive.has_waiting() {
            desk.waiting_for_room.clear();
            self.drive.waiting_for_room(&mut desk.waiting_for_room);
        }
        if self.answers.is_empty() {
            return;
        }
        desk.answers.append(&mut self.answers);
        drop(desk);
        self.shared.changed.notify_all();
        // Whoever has not taken the news that are there was rung for already, and takes these with them.
        if !self.shared.has_news.swap(true, Ordering::AcqRel) {
            self.shared.bell.ring();
        }
    }

    /// Sleeps until there are commands, the drive has something, or it is time to look.
    fn rest(&mut self) {
        {
            let mut desk = self.shared.desk();
            if !desk.commands.is_empty() || desk.is_over {
                return;
            }
            desk.sleeps = true;
        }
        let longest = if self.drive.has_waiting() { TRY_AGAIN_EVERY } else { LOOK_EVERY };
        let longest =
            Timespec { tv_sec: longest.as_secs().cast_signed(), tv_nsec: longest.subsec_nanos().into() };
        let mut ready =
            [PollFd::new(&self.shared.wake, PollFlags::IN), PollFd::new(&self.shared.wake, PollFlags::IN)];
        if let Some(fd) = self.drive.wake_fd() {
            ready[1] = PollFd::from_borrowed_fd(fd, PollFlags::IN);
        }
        // An interrupted sleep is a short one.
        let _woken = poll(&mut ready, Some(&longest));
        if ready[0].revents().contains(PollFlags::IN) {
            let mut count = [0; 8];
            let _rung = rustix::io::read(&self.shared.wake, &mut count);
        }
        self.shared.desk().sleeps = false;
    }
}
