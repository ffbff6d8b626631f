//! The thread that flushes to the disk and gives space back to it, both of which take long, so that
//! the drive's owner does not wait.
//!
//! ```text
//!   poll --task--> channel --> thread: fdatasync, holes --> channel --answer--> a later poll
//!                                                      \-> eventfd, for owners that sleep
//! ```
//! One `fdatasync` serves every task that was waiting when it began. After one has failed, all
//! later ones fail: the kernel forgets that pages it could not write are not on the disk, and a
//! second attempt would succeed without them.
//!
//! A zone that was reset gives its space back only after the zone table that says so is on the
//! disk: otherwise a power failure could leave a table that points to holes. Without its space the
//! next write of a page need not read the old one first.

use super::file::FileMedia;
use crate::answer::Asked;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use zone::device::Status;

/// Holes begin and end at multiples of this, the block of every file system that matters: at other
/// places the kernel would have to read what is around them.
const HOLE_ALIGNMENT: u64 = 4096;

/// Task for the thread.
#[derive(Debug)]
pub(super) enum Task {
    /// Whatever was written before is to be on the disk.
    Flush,
    /// A zone was reset, and these bytes of the file hold nothing any more.
    GiveBack(Range<u64>),
}

/// Result of a task.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) asked: Asked,
    pub(super) status: Status,
    /// The task was to give back the space of the command's zone.
    pub(super) gave_back: bool,
}

/// A helper thread with a file handle of its own.
#[derive(Debug)]
pub(super) struct Helper {
    /// Sender of tasks; `None` only while the helper is being dropped.
    tasks: Option<Sender<(Asked, Task)>>,
    answers: Receiver<Answer>,
    wake: OwnedFd,
    pending_count: usize,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    /// Starts the thread for the file of `media`, which it duplicates.
    pub(super) fn start(media: &FileMedia) -> std::io::Result<Helper> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let (tasks, tasks_out) = channel();
        let (answers_in, answers) = channel();
        let worker = Worker {
            file: media.file.try_clone()?,
            path: media.path.clone(),
            tasks: tasks_out,
            answers: answers_in,
            wake: wake.try_clone()?,
            flush_failed: false,
            keeps_space: false,
        };
        let thread = std::thread::Builder::new().name("drive-helper".into()).spawn(move || worker.run())?;
        Ok(Helper { tasks: Some(tasks), answers, wake, pending_count: 0, thread: Some(thread) })
    }

    /// Readable while answers wait.
    pub(super) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Asks for something; the answer comes out of [`Helper::collect`].
    pub(super) fn ask(&mut self, asked: Asked, task: Task) {
        let tasks = self.tasks.as_ref().expect("present until dropped");
        tasks.send((asked, task)).expect("the thread lives until the channel closes");
        self.pending_count += 1;
    }

    /// Hands over the answers that have come in. Costs nothing while none is pending.
    pub(super) fn collect(&mut self, mut each: impl FnMut(Answer)) {
        if self.pending_count == 0 {
            return;
        }
        // The thread sends an answer before it counts it here, so each one counted is there.
        let mut count = [0; 8];
        if rustix::io::read(&self.wake, &mut count).is_err() {
            return;
        }
        for _ in 0..u64::from_ne_bytes(count) {
            let answer = self.answers.try_recv().expect("an answer is sent before it is counted");
            assert!(self.pending_count > 0);
            self.pending_count -= 1;
            each(answer);
        }
    }
}

/// Waits for the task in progress: the file stays locked as long as the thread holds it.
impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.tasks.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the helper thread of a drive panicked");
        }
    }
}

/// State that the thread owns.
struct Worker {
    file: File,
    path: PathBuf,
    tasks: Receiver<(Asked, Task)>,
    answers: Sender<Answer>,
    wake: OwnedFd,
    flush_failed: bool,
    /// The file system makes no holes.
    keeps_space: bool,
}

impl Worker {
    fn run(mut self) {
        let mut waiting = Vec::new();
        while let Ok(first) = self.tasks.recv() {
            waiting.push(first);
            waiting.extend(self.tasks.try_iter());
            let is_needed = waiting.iter().any(|(_, task)| matches!(task, Task::Flush)) || !self.keeps_space;
            let status = if is_needed { self.sync() } else { Status::Success };
            for (asked, task) in waiting.drain(..) {
                let answer = match task {
                    Task::Flush => Answer { asked, status, gave_back: false },
                    Task::GiveBack(bytes) => {
                        if status == Status::Success && !self.keeps_space {
                            self.give_back(&bytes);
                        }
                        // The zone is empty all the same; that its space stays is no fault of the drive.
                        Answer { asked, status: Status::Success, gave_back: true }
                    }
                };
                self.answer(answer);
            }
        }
    }

    fn sync(&mut self) -> Status {
        if self.flush_failed {
            return Status::WriteFault;
        }
        match rustix::fs::fdatasync(&self.file) {
            Ok(()) => Status::Success,
            Err(error) => {
                log::error!(
                    "drive {}: flush failed, and so will all later ones: {error}",
                    self.path.display()
                );
                self.flush_failed = true;
                Status::WriteFault
            }
        }
    }

    /// Makes a hole. One that cannot be made costs speed and space, and nothing else.
    fn give_back(&mut self, bytes: &Range<u64>) {
        let start = bytes.start.next_multiple_of(HOLE_ALIGNMENT);
        let end = bytes.end - bytes.end % HOLE_ALIGNMENT;
        if start >= end {
            return;
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        loop {
            match rustix::fs::fallocate(&self.file, flags, start, end - start) {
                Ok(()) => return,
                Err(Errno::INTR) => {}
                Err(error) => {
                    log::info!("drive {}: zones keep their space when reset: {error}", self.path.display());
                    self.keeps_space = true;
                    return;
                }
            }
        }
    }

    /// A drive that is being dropped no longer listens, which is no error.
    fn answer(&self, answer: Answer) {
        if self.answers.send(answer).is_ok() {
            let counted = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
            assert!(counted == Ok(8), "an eventfd counts to 2^64");
        }
    }
}
