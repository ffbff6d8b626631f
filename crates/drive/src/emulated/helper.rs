//! The thread that does what takes long, so that the drive's owner does not wait: flushing to the
//! disk and giving the space of a reset zone back.
//!
//! ```text
//!   poll --job--> channel --> thread: fdatasync | punch holes --> channel --answer--> a later poll
//!                                                            \-> eventfd, for owners that sleep
//! ```
//! One `fdatasync` serves every flush that was waiting when it began. After one has failed, all
//! later ones fail: the kernel forgets that pages it could not write are not on the disk, and a
//! second attempt would succeed without them.

use super::file::{FileMedia, punch};
use super::header::FileLayout;
use crate::answer::Asked;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use zone::device::Status;

/// Work for the thread, and who waits for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) asked: Asked,
    pub(super) kind: JobKind,
}

/// What the thread can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobKind {
    Flush,
    /// Gives the space of the zone back. Nobody may write to the zone until the answer has come.
    Discard,
}

/// A helper thread with a file handle of its own.
#[derive(Debug)]
pub(super) struct Helper {
    /// `None` only while the helper is being dropped.
    jobs: Option<Sender<Job>>,
    answers: Receiver<(Job, Status)>,
    wake: OwnedFd,
    pending_count: usize,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    /// Starts the thread for the file of `media`, which it duplicates.
    pub(super) fn start(media: &FileMedia) -> std::io::Result<Helper> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let (jobs, jobs_out) = channel();
        let (answers_in, answers) = channel();
        let worker = Worker {
            file: media.file.try_clone()?,
            path: media.path.clone(),
            layout: media.layout,
            jobs: jobs_out,
            answers: answers_in,
            wake: wake.try_clone()?,
            flush_failed: false,
        };
        let thread = std::thread::Builder::new().name("drive-helper".into()).spawn(move || worker.run())?;
        Ok(Helper { jobs: Some(jobs), answers, wake, pending_count: 0, thread: Some(thread) })
    }

    /// Readable while answers wait.
    pub(super) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Asks for a job to be done; its answer comes out of [`Helper::collect`].
    pub(super) fn ask(&mut self, job: Job) {
        let jobs = self.jobs.as_ref().expect("present until dropped");
        jobs.send(job).expect("the thread lives until the channel closes");
        self.pending_count += 1;
    }

    /// Hands over the answers that have come in. Costs nothing while no job is pending.
    pub(super) fn collect(&mut self, mut each: impl FnMut(Job, Status)) {
        if self.pending_count == 0 {
            return;
        }
        // The thread sends an answer before it counts it here, so each one counted is there.
        let mut count = [0; 8];
        if rustix::io::read(&self.wake, &mut count).is_err() {
            return;
        }
        for _ in 0..u64::from_ne_bytes(count) {
            let (job, status) = self.answers.try_recv().expect("an answer is sent before it is counted");
            assert!(self.pending_count > 0);
            self.pending_count -= 1;
            each(job, status);
        }
    }
}

/// Waits for the job in progress: the file stays locked as long as the thread holds it.
impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the helper thread of a drive panicked");
        }
    }
}

/// What the thread owns.
struct Worker {
    file: File,
    path: PathBuf,
    layout: FileLayout,
    jobs: Receiver<Job>,
    answers: Sender<(Job, Status)>,
    wake: OwnedFd,
    flush_failed: bool,
}

impl Worker {
    fn run(mut self) {
        let mut flushes = Vec::new();
        while let Ok(first) = self.jobs.recv() {
            let mut next = Some(first);
            while let Some(job) = next {
                match job.kind {
                    JobKind::Flush => flushes.push(job),
                    JobKind::Discard => {
                        punch(&self.file, &self.path, &self.layout, job.asked.zone);
                        self.answer(job, Status::Success);
                    }
                }
                next = self.jobs.try_recv().ok();
            }
            if !flushes.is_empty() {
                let status = self.sync();
                flushes.drain(..).for_each(|job| self.answer(job, status));
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

    /// A drive that is being dropped no longer listens, which is no error.
    fn answer(&self, job: Job, status: Status) {
        if self.answers.send((job, status)).is_ok() {
            let counted = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
            assert!(counted == Ok(8), "an eventfd counts to 2^64");
        }
    }
}
