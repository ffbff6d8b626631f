//! The thread that flushes to the disk, which takes long, so that the drive's owner does not wait.
//!
//! ```text
//!   poll --flush--> channel --> thread: fdatasync --> channel --answer--> a later poll
//!                                                \-> eventfd, for owners that sleep
//! ```
//! One `fdatasync` serves every flush that was waiting when it began. After one has failed, all
//! later ones fail: the kernel forgets that pages it could not write are not on the disk, and a
//! second attempt would succeed without them.

use super::file::FileMedia;
use crate::answer::Asked;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use zone::device::Status;

/// A helper thread with a file handle of its own.
#[derive(Debug)]
pub(super) struct Helper {
    /// `None` only while the helper is being dropped.
    flushes: Option<Sender<Asked>>,
    answers: Receiver<(Asked, Status)>,
    wake: OwnedFd,
    pending_count: usize,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    /// Starts the thread for the file of `media`, which it duplicates.
    pub(super) fn start(media: &FileMedia) -> std::io::Result<Helper> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let (flushes, flushes_out) = channel();
        let (answers_in, answers) = channel();
        let worker = Worker {
            file: media.file.try_clone()?,
            path: media.path.clone(),
            flushes: flushes_out,
            answers: answers_in,
            wake: wake.try_clone()?,
            flush_failed: false,
        };
        let thread = std::thread::Builder::new().name("drive-helper".into()).spawn(move || worker.run())?;
        Ok(Helper { flushes: Some(flushes), answers, wake, pending_count: 0, thread: Some(thread) })
    }

    /// Readable while answers wait.
    pub(super) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Asks for a flush; its answer comes out of [`Helper::collect`].
    pub(super) fn flush(&mut self, asked: Asked) {
        let flushes = self.flushes.as_ref().expect("present until dropped");
        flushes.send(asked).expect("the thread lives until the channel closes");
        self.pending_count += 1;
    }

    /// Hands over the answers that have come in. Costs nothing while no flush is pending.
    pub(super) fn collect(&mut self, mut each: impl FnMut(Asked, Status)) {
        if self.pending_count == 0 {
            return;
        }
        // The thread sends an answer before it counts it here, so each one counted is there.
        let mut count = [0; 8];
        if rustix::io::read(&self.wake, &mut count).is_err() {
            return;
        }
        for _ in 0..u64::from_ne_bytes(count) {
            let (asked, status) = self.answers.try_recv().expect("an answer is sent before it is counted");
            assert!(self.pending_count > 0);
            self.pending_count -= 1;
            each(asked, status);
        }
    }
}

/// Waits for the flush in progress: the file stays locked as long as the thread holds it.
impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.flushes.take());
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
    flushes: Receiver<Asked>,
    answers: Sender<(Asked, Status)>,
    wake: OwnedFd,
    flush_failed: bool,
}

impl Worker {
    fn run(mut self) {
        let mut waiting = Vec::new();
        while let Ok(first) = self.flushes.recv() {
            waiting.push(first);
            waiting.extend(self.flushes.try_iter());
            let status = self.sync();
            waiting.drain(..).for_each(|asked| self.answer(asked, status));
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
    fn answer(&self, asked: Asked, status: Status) {
        if self.answers.send((asked, status)).is_ok() {
            let counted = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
            assert!(counted == Ok(8), "an eventfd counts to 2^64");
        }
    }
}
