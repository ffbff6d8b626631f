//! What is done to a cache that nobody serves: it is mounted, and left when that is on its media.

use super::directory::CacheDirectory;
use super::drives;
use super::host::host;
use super::serve::wall;
use super::shards::{bells, expect_shards, failed};
use crate::replace::Attempt;
use anyhow::Result;
use base::time::Instant;
use cache::config::Invalidate;
use cache::request::{Cache, Op, Outcome, Reply, Request, RequestId};
use cache::volumes::Volumes;
use cache::{CacheVolume, Seen};
use drive::Bell;
use drive::slices::sliced;
use zone::device::Geometry;
use zone::drives::DriveSet;

/// A cache that is mounted for one thing.
pub struct Offline {
    /// Shards of the cache.
    volumes: Vec<CacheVolume>,
    /// Nobody listens to them.
    bells: Vec<Bell>,
    wholes: Vec<Option<Geometry>>,
    now: Instant,
}

impl Offline {
    /// Drives of all shards of a cache that nobody serves.
    ///
    /// # Errors
    /// When it is served meanwhile, or cannot be found.
    pub fn sets(directory: &CacheDirectory) -> Result<Vec<DriveSet>> {
        let open = drives::open(directory, None)?;
        let bells = bells(directory.file.shards)?;
        let (seen, _) = expect_shards(directory, open.devices, &bells, Instant(0))?;
        Ok(seen.into_iter().map(Seen::into_drives).collect())
    }

    /// Mounts a cache that nobody serves.
    ///
    /// # Errors
    /// When it is served meanwhile, or cannot be mounted.
    pub fn mount(directory: &CacheDirectory) -> Result<Offline> {
        Offline::mount_without(directory, None)
    }

    /// The same without the drive in a place.
    ///
    /// # Errors
    /// As [`Offline::mount`].
    pub fn mount_without(directory: &CacheDirectory, place: Option<usize>) -> Result<Offline> {
        let mut open = drives::open(directory, None)?;
        place.into_iter().for_each(|place| open.devices[place] = None);
        let (wholes, bells) = (open.geometries(), bells(directory.file.shards)?);
        let (seen, _) = expect_shards(directory, open.devices, &bells, Instant(0))?;
        let mut volumes = Vec::new();
        for (number, seen) in seen.into_iter().enumerate() {
            let host = host(directory, number, Invalidate::Media)?;
            let volume = seen.mount_whole(host, wall());
            volumes.push(volume.map_err(|error| failed(directory, &error))?);
        }
        Ok(Offline { volumes, bells, wholes, now: Instant(0) })
    }

    /// Asks all shards for something, and waits for what comes of it.
    pub fn ask(&mut self, op: &dyn Fn() -> Op) -> Vec<Outcome> {
        (0..self.volumes.len()).map(|shard| self.ask_one(shard, op())).collect()
    }

    fn ask_one(&mut self, shard: usize, op: Op) -> Outcome {
        let request = Request { id: RequestId(0), namespace: Default::default(), op };
        self.volumes[shard].submit(self.now, wall(), request);
        loop {
            if let Some(reply) = self.turn(shard).pop() {
                return reply.outcome;
            }
        }
    }

    /// All shards, as an operator acts on them.
    pub fn volumes(&mut self) -> Volumes<'_> {
        let cut = Box::new(|drive| sliced(drive, &self.bells));
        Volumes::new(self.volumes.iter_mut().collect(), cut, &mut self.wholes)
    }

    /// Tries something until it is done, and superblocks say so.
    ///
    /// # Errors
    /// Those of what is tried.
    pub fn settle<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Volumes<'_>) -> Result<Attempt<T>>,
    ) -> Result<T> {
        let done = loop {
            if let Attempt::Done(done) = attempt(&mut self.volumes())? {
                break done;
            }
            self.turn_all();
        };
        while !self.volumes().has_recorded() && !self.volumes().is_frozen() {
            self.turn_all();
        }
        Ok(done)
    }

    fn turn_all(&mut self) {
        (0..self.volumes.len()).for_each(|shard| drop(self.turn(shard)));
    }

    fn turn(&mut self, shard: usize) -> Vec<Reply> {
        let (mut replies, volume) = (Vec::new(), &mut self.volumes[shard]);
        if !volume.turn(self.now, wall(), &mut replies)
            && let Some(next) = volume.next_event()
        {
            self.now = self.now.max(next);
        }
        replies
    }
}
