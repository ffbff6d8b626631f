//! What is done to a cache that nobody serves: it is mounted, and left when that is on its media.

use super::directory::CacheDirectory;
use super::drives;
use super::host::host;
use super::serve::wall;
use crate::exit::Exit;
use crate::replace::Attempt;
use anyhow::Result;
use base::time::Instant;
use cache::config::Invalidate;
use cache::request::{Cache, Op, Outcome, Reply, Request, RequestId};
use cache::{CacheVolume, mount_whole};
use zone::drives::DriveSet;

/// A cache that is mounted for one thing.
pub struct Offline {
    /// It.
    pub volume: CacheVolume,
    now: Instant,
}

impl Offline {
    /// Mounts a cache that nobody serves.
    ///
    /// # Errors
    /// When it is served meanwhile, or cannot be mounted.
    pub fn mount(directory: &CacheDirectory) -> Result<Offline> {
        let drives = DriveSet::new(drives::open(directory, None)?.devices);
        let dir = directory.path.display();
        let host = host(directory, Invalidate::Media)?;
        let volume = mount_whole(host, drives, Instant(0), wall())
            .map_err(|error| Exit::Failed.error(format!("{dir}: {error}")))?;
        Ok(Offline { volume, now: Instant(0) })
    }

    /// Asks for something, and waits for what comes of it.
    pub fn ask(&mut self, op: Op) -> Outcome {
        let request = Request { id: RequestId(0), namespace: Default::default(), op };
        self.volume.submit(self.now, wall(), request);
        loop {
            if let Some(reply) = self.turn().pop() {
                return reply.outcome;
            }
        }
    }

    /// Tries something until it is done, and superblocks say so.
    ///
    /// # Errors
    /// Those of what is tried.
    pub fn settle<T>(
        &mut self,
        mut attempt: impl FnMut(&mut CacheVolume) -> Result<Attempt<T>>,
    ) -> Result<T> {
        let done = loop {
            if let Attempt::Done(done) = attempt(&mut self.volume)? {
                break done;
            }
            self.turn();
        };
        while !self.volume.has_recorded() && !self.volume.is_frozen() {
            self.turn();
        }
        Ok(done)
    }

    fn turn(&mut self) -> Vec<Reply> {
        let mut replies = Vec::new();
        if !self.volume.turn(self.now, wall(), &mut replies)
            && let Some(next) = self.volume.next_event()
        {
            self.now = self.now.max(next);
        }
        replies
    }
}
