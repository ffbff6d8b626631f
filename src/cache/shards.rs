//! Shards of a served cache: each is turned by the loop that owns it, and between turns the operator may look into all of them.

use super::attendance::Watch;
use super::directory::CacheDirectory;
use super::errands::Errands;
use super::host::host;
use crate::drive_clocks;
use crate::exit::Exit;
use anyhow::{Context, Result};
use base::time::Instant;
use cache::request::{Cache, Namespace, Reply, Request, WallMillis};
use cache::spread::Spread;
use cache::{CacheVolume, MountError, Options, Seen};
use drive::Bell;
use drive::slices::sets;
use server::cache_loop::Shard;
use std::sync::{Arc, Mutex, MutexGuard};
use zone::device::ZonedDevice;

/// A shard with what an operator has asked of it.
pub struct Tended {
    /// The shard.
    pub volume: CacheVolume,
    /// Errands that take several turns.
    pub errands: Errands,
    /// Watch that makes the shard forget, with `--forget-after`.
    pub watch: Option<Watch>,
}

impl Tended {
    /// The shard is served now: what has to be forgotten is, before the next client is answered.
    pub fn attend(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.see(&mut self.volume);
        }
    }
}

/// A shard that a loop and the operator share. The loop has it for a turn, the operator for a question.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Tended>>);

impl Shared {
    /// The shard, which nobody else has meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, Tended> {
        self.0.lock().expect("no thread panics while it has a shard")
    }

    /// Several shards, in their order.
    pub fn lock_all(shards: &[Shared]) -> Vec<MutexGuard<'_, Tended>> {
        shards.iter().map(Shared::lock).collect()
    }
}

/// A shard as its loop has it.
pub struct ServedShard {
    shared: Shared,
    /// True when its drives take the time of a profile.
    is_timed: bool,
    looked_at: Instant,
}

impl ServedShard {
    /// A shard with drives that may take the time of a profile.
    pub fn new(shared: Shared, is_timed: bool, now: Instant) -> ServedShard {
        ServedShard { shared, is_timed, looked_at: now }
    }
}

impl Cache for ServedShard {
    fn submit(&mut self, now: Instant, wall: WallMillis, request: Request) {
        let mut tended = self.shared.lock();
        tended.attend();
        tended.volume.submit(now, wall, request);
    }

    fn turn(&mut self, now: Instant, wall: WallMillis, replies: &mut Vec<Reply>) -> bool {
        self.looked_at = now;
        let mut tended = self.shared.lock();
        tended.attend();
        let goes_on = tended.volume.turn(now, wall, replies);
        tended.errands.take(replies);
        goes_on
    }

    fn next_deadline(&self) -> Option<Instant> {
        let volume = &self.shared.lock().volume;
        let own = volume.next_deadline();
        if !self.is_timed {
            return own;
        }
        // What a disk has flushed is heard by nobody then.
        let looks = volume.in_flight() > 0;
        let look = looks.then(|| self.looked_at + drive_clocks::LOOK_EVERY);
        own.into_iter().chain(volume.next_event()).chain(look).min()
    }

    fn objects(&self, namespace: Namespace) -> u64 {
        self.shared.lock().volume.objects(namespace)
    }
}

impl Shard for ServedShard {
    /// Buffers go to the drives by themselves, some milliseconds after they began to fill.
    fn begin_stop(&mut self, _: Instant) {
        self.shared.lock().volume.begin_stop();
    }

    fn has_stopped(&self) -> bool {
        self.shared.lock().volume.has_stopped()
    }
}

/// So many bells, which nobody listens to yet.
///
/// # Errors
/// When the system has no descriptors left.
pub fn bells(count: usize) -> Result<Vec<Bell>> {
    let bells = (0..count).map(|_| Bell::new()).collect::<std::io::Result<_>>();
    bells.context("event descriptors of the shards")
}

/// Says of which cache an error is.
pub fn failed(directory: &CacheDirectory, error: &MountError) -> anyhow::Error {
    Exit::Failed.error(format!("{}: {error}", directory.path.display()))
}

/// Drives of the shards of a cache, one for each bell, and which shard has a key. Nothing has been written.
///
/// # Errors
/// When the drives hold another cache, or one that is cut into another number of shards.
pub fn expect_shards(
    directory: &CacheDirectory,
    drives: Vec<Option<Box<dyn ZonedDevice>>>,
    bells: &[Bell],
    now: Instant,
) -> Result<(Vec<Seen>, Spread)> {
    let (shards, cache) = (bells.len(), *directory.file.uuid.as_bytes());
    let seen =
        cache::see_shards(sets(drives, bells), cache, now).map_err(|error| failed(directory, &error))?;
    seen.ok_or_else(|| {
        let dir = directory.path.display();
        Exit::Failed.error(format!(
            "{dir}: the drives hold another cache than cache.toml says, or one that is not cut into {shards} shards"
        ))
    })
}

/// Finds all shards on their drives, side by side.
///
/// # Errors
/// When one cannot be believed, or a drive fails.
pub fn mount(
    directory: &CacheDirectory,
    seen: Vec<Seen>,
    (wall, options): (WallMillis, Options),
) -> Result<Vec<Shared>> {
    let invalidate = options.invalidate;
    let hosts =
        (0..seen.len()).map(|number| host(directory, number, invalidate)).collect::<Result<Vec<_>>>()?;
    let mount = |host, seen: Seen| seen.mount(host, (wall, options));
    let mounted: Vec<Result<CacheVolume, MountError>> = std::thread::scope(|scope| {
        let begin = |(host, seen)| std::thread::Builder::new().spawn_scoped(scope, move || mount(host, seen));
        let threads = hosts.into_iter().zip(seen).map(begin).collect::<std::io::Result<Vec<_>>>();
        let threads = threads.context("threads of a mount")?;
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        anyhow::Ok(threads.into_iter().map(join).collect())
    })?;
    let tended =
        |volume| Shared(Arc::new(Mutex::new(Tended { volume, errands: Errands::default(), watch: None })));
    let all = mounted.into_iter().map(|volume| volume.map(tended).map_err(|error| failed(directory, &error)));
    all.collect()
}
