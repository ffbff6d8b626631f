//! The thread that asks the kernel about zones and changes them: these calls block, and the drive's owner does not wait.
//!
//! ```text
//!   submit --task--> channel --> thread: ioctl --> channel --answer--> a later poll
//!                                             \-> bell of the owner
//! ```

use super::ioctl::{self, Change, Line};
use super::shape::Shape;
use rustix::fd::OwnedFd;
use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Task for the thread.
#[derive(Debug)]
pub(super) enum Task {
    /// Zones are reported, so many from one on.
    Report { zone: u32, count: u32 },
    /// The first of so many zones from one on that turned read-only or offline is reported.
    Search { zone: u32, count: u32 },
    /// A zone is changed.
    Change { zone: u32, change: Change },
}

/// Answer to a task.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) slot: u32,
    pub(super) outcome: io::Result<Vec<Line>>,
    /// Zones that lie before the one that was searched for.
    pub(super) before: u32,
}

#[derive(Debug)]
enum Message {
    Task(u32, Task),
    /// From now on this is rung.
    Bell(OwnedFd),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Helper {
    /// Sender of tasks; `None` only while the helper is being dropped.
    messages: Option<Sender<Message>>,
    answers: Receiver<Answer>,
    pending_count: usize,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    /// Starts the thread for a device.
    pub(super) fn start(file: &File, shape: Shape, bell: &OwnedFd) -> io::Result<Helper> {
        let (messages, messages_out) = channel();
        let (answers_in, answers) = channel();
        let worker = Worker {
            file: file.try_clone()?,
            shape,
            bell: bell.try_clone()?,
            messages: messages_out,
            answers: answers_in,
        };
        let thread = std::thread::Builder::new().name("drive-zones".into()).spawn(move || worker.run())?;
        Ok(Helper { messages: Some(messages), answers, pending_count: 0, thread: Some(thread) })
    }

    fn send(&self, message: Message) {
        let messages = self.messages.as_ref().expect("present until dropped");
        messages.send(message).expect("the thread lives until the channel closes");
    }

    /// From now on answers ring this bell.
    pub(super) fn set_bell(&self, bell: &OwnedFd) -> io::Result<()> {
        self.send(Message::Bell(bell.try_clone()?));
        Ok(())
    }

    /// Asks for something.
    pub(super) fn ask(&mut self, slot: u32, task: Task) {
        self.send(Message::Task(slot, task));
        self.pending_count += 1;
    }

    /// Answers that have come; nothing is asked while none is to come.
    pub(super) fn take(&mut self, answers: &mut Vec<Answer>) {
        if self.pending_count > 0 {
            let before = answers.len();
            answers.extend(self.answers.try_iter());
            self.pending_count -= answers.len() - before;
        }
    }

    /// Tasks that are not answered.
    pub(super) fn pending(&self) -> usize {
        self.pending_count
    }
}

/// Waits for the task in progress: the device stays open as long as the thread holds it.
impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.messages.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread for the zones of a drive panicked");
        }
    }
}

/// State that the thread owns.
struct Worker {
    file: File,
    shape: Shape,
    bell: OwnedFd,
    messages: Receiver<Message>,
    answers: Sender<Answer>,
}

impl Worker {
    fn run(mut self) {
        while let Ok(message) = self.messages.recv() {
            match message {
                Message::Bell(bell) => self.bell = bell,
                Message::Task(slot, task) => {
                    let (outcome, before) = match self.carry_out(&task) {
                        Ok((lines, before)) => (Ok(lines), before),
                        Err(error) => (Err(error), 0),
                    };
                    // A drive that is being dropped no longer listens, which is no error.
                    if self.answers.send(Answer { slot, outcome, before }).is_ok() {
                        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
                    }
                }
            }
        }
    }

    /// Lines of zones, and how many zones lie before those that were searched for.
    fn carry_out(&self, task: &Task) -> io::Result<(Vec<Line>, u32)> {
        let (Task::Report { zone, .. } | Task::Search { zone, .. } | Task::Change { zone, .. }) = *task;
        let first = self.shape.sector_of(zone, 0);
        match *task {
            Task::Report { count, .. } => Ok((ioctl::report(&self.file, first, count)?, 0)),
            Task::Search { count, .. } => {
                let found = ioctl::find_turned(&self.file, first, count)?;
                Ok(found.map_or((Vec::new(), 0), |(before, line)| (vec![line], before)))
            }
            Task::Change { change, .. } => {
                ioctl::change(&self.file, change, first, self.shape.zone_sectors())?;
                Ok((Vec::new(), 0))
            }
        }
    }
}
