//! The engine alone on several threads: shards that a thread owns each, against one shard behind a lock that all threads take.
//!
//! Clients are the threads themselves, without sockets: each asks for some objects at a time, waits for the answers, and asks again. Drives
//! answer at once. Time is that of processors, of all threads, so waiting for the lock costs what it burns, and no more; requests a second
//! are what this machine shows.

use super::rig::{CacheRig, geometry, name};
use crate::paired::median;
use crate::precise::{precise, precise_u64};
use anyhow::{Result, anyhow, bail, ensure};
use base::random::Random;
use cache::Options;
use cache::request::{Marks, Namespace, Object, Op, Outcome, WallMillis};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::sync::{Barrier, Mutex};
use std::time::Instant;

const OBJECTS: usize = 100_000;
const VALUE_BYTES: usize = 100;
const MEMORY_BYTES: u64 = 256 << 20;
const ZONES: u32 = 64;
const ZONE_BLOCKS: u32 = 1024;
const WALL: WallMillis = WallMillis(1_000_000);

/// Loads: name, true for SET, and requests at a time.
const LOADS: [(&str, bool, usize); 4] = [
    ("GET of 100 B from memory, 16 at a time", false, 16),
    ("GET of 100 B from memory, one at a time", false, 1),
    ("SET of 100 B, 16 at a time", true, 16),
    ("SET of 100 B, one at a time", true, 1),
];

/// Measurements of each number of threads.
#[derive(Clone, Copy, Debug)]
pub struct LockOptions {
    /// Most threads.
    pub threads_max: usize,
    /// Requests of each measurement.
    pub requests: usize,
    /// Measurements of each side.
    pub rounds: u32,
}

/// Medians.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The load.
    pub name: &'static str,
    /// Threads, and shards where each has one.
    pub threads: usize,
    /// Microseconds of processor time for a request with a shard for each thread.
    pub shards_us: f64,
    /// The same with one shard behind a lock.
    pub lock_us: f64,
    /// Requests a second with a shard for each thread.
    pub shards_per_second: f64,
    /// The same with one shard behind a lock.
    pub lock_per_second: f64,
}

/// Measures both sides in turn; `told` is told each row as it is there.
///
/// # Errors
/// When a request is refused.
pub fn run(options: &LockOptions, mut told: impl FnMut(&Row)) -> Result<Vec<Row>> {
    ensure!(options.threads_max > 0 && options.rounds > 0, "there is something to measure");
    let mut rows = Vec::new();
    for (name, stores, depth) in LOADS {
        for threads in 1..=options.threads_max {
            let own = filled(threads)?;
            let shared = filled(1)?;
            let mut sides: [Vec<Cost>; 2] = Default::default();
            for _ in 0..options.rounds {
                for (side, caches) in sides.iter_mut().zip([&own, &shared]) {
                    side.push(play(caches, threads, (stores, depth), options.requests)?);
                }
            }
            let [us, per_second]: [fn(&Cost) -> f64; 2] = [|cost| cost.us, |cost| cost.per_second];
            let of =
                |side: usize, of: fn(&Cost) -> f64| median(&sides[side].iter().map(of).collect::<Vec<f64>>());
            let row = Row {
                name,
                threads,
                shards_us: of(0, us),
                lock_us: of(1, us),
                shards_per_second: of(0, per_second),
                lock_per_second: of(1, per_second),
            };
            told(&row);
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Cost of requests in one measurement.
#[derive(Clone, Copy, Debug)]
struct Cost {
    us: f64,
    per_second: f64,
}

/// Caches that hold all objects between them, each in that of its number.
fn filled(count: usize) -> Result<Vec<Mutex<CacheRig>>> {
    let memory_bytes = MEMORY_BYTES / u64::try_from(count)?;
    let options = Options { memory_bytes, object_mean: 132, ..Options::default() };
    let made = (0..count).map(|place| {
        let mut rig = CacheRig::new(1, geometry(ZONES, ZONE_BLOCKS), options, WALL)?;
        let keys: Vec<usize> = (place..OBJECTS).step_by(count).collect();
        for some in keys.chunks(64) {
            let stores = some.iter().map(|key| (Namespace(0), op(*key, true))).collect();
            answered(rig.ask(WALL, stores)?, true)?;
        }
        Ok(Mutex::new(rig))
    });
    made.collect()
}

/// So many threads ask: each the cache of its own number, or all of them the only one.
fn play(caches: &[Mutex<CacheRig>], threads: usize, load: (bool, usize), requests: usize) -> Result<Cost> {
    let begin = Barrier::new(threads + 1);
    let (costs, seconds) = std::thread::scope(|scope| {
        let place = |thread: usize| thread % caches.len();
        let (begin, each) = (&begin, requests / threads);
        let spawned: Vec<_> = (0..threads)
            .map(|thread| {
                let keys = (place(thread), caches.len());
                scope.spawn(move || client(&caches[place(thread)], (thread, keys), load, (each, begin)))
            })
            .collect();
        begin.wait();
        let since = Instant::now();
        let costs: Vec<Result<u64>> = spawned
            .into_iter()
            .map(|own| own.join().unwrap_or_else(|_| Err(anyhow!("a client has panicked"))))
            .collect();
        (costs, since.elapsed().as_secs_f64())
    });
    let nanoseconds: u64 = costs.into_iter().sum::<Result<u64>>()?;
    let asked = precise(requests / threads * threads);
    Ok(Cost { us: precise_u64(nanoseconds) / 1e3 / asked, per_second: asked / seconds })
}

/// Asks, and returns the processor time in nanoseconds.
fn client(
    cache: &Mutex<CacheRig>,
    (thread, (first, step)): (usize, (usize, usize)),
    (stores, depth): (bool, usize),
    (requests, begin): (usize, &Barrier),
) -> Result<u64> {
    let mut random = Random::from_seed(u64::try_from(thread)? + 1);
    begin.wait();
    let before = processor_time();
    for _ in 0..requests / depth {
        let key = |random: &mut Random| first + step * random.index((OBJECTS - first).div_ceil(step));
        let ops = (0..depth).map(|_| (Namespace(0), op(key(&mut random), stores))).collect();
        let mut rig = cache.lock().map_err(|_| anyhow!("another client has panicked"))?;
        let outcomes = rig.ask(WALL, ops)?;
        drop(rig);
        answered(outcomes, stores)?;
    }
    Ok(processor_time() - before)
}

fn op(key: usize, stores: bool) -> Op {
    let key = name(key);
    if !stores {
        return Op::Get { key };
    }
    let value = vec![key[key.len() - 1]; VALUE_BYTES];
    Op::Set { key, object: Object { value: value.into(), flags: 0, marks: Marks::default(), expires: None } }
}

/// Fails where a request was refused. A get may miss: a store may forget another object of the same tag.
fn answered(outcomes: Vec<Outcome>, stores: bool) -> Result<()> {
    for outcome in outcomes {
        match outcome {
            Outcome::Stored if stores => {}
            Outcome::Found(object) if !stores => {
                ensure!(object.is_none_or(|object| object.value.len() == VALUE_BYTES), "another value");
            }
            other => bail!("a request was answered with {other:?}"),
        }
    }
    Ok(())
}

/// Nanoseconds for which this thread has had a processor.
fn processor_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("a clock that counts from zero")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_answer_all_and_tell_what_it_took() {
        let options = LockOptions { threads_max: 2, requests: 4_000, rounds: 1 };
        let mut told = 0;
        let rows = run(&options, |_| told += 1).unwrap();
        assert_eq!((rows.len(), told), (LOADS.len() * 2, LOADS.len() * 2));
        for row in &rows {
            assert!(row.shards_us > 0.0 && row.lock_us > 0.0, "{row:?}");
            assert!(row.shards_per_second > 0.0 && row.lock_per_second > 0.0, "{row:?}");
        }
    }

    #[test]
    fn shards_hold_all_objects_between_them() {
        let caches = filled(3).unwrap();
        for (place, cache) in caches.iter().enumerate() {
            let mut rig = cache.lock().unwrap();
            let found = rig.ask(WALL, vec![(Namespace(0), op(place + 3 * 1_000, false))]).unwrap();
            assert!(matches!(&found[0], Outcome::Found(Some(_))), "{found:?}");
        }
    }
}
