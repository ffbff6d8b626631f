//! A cache over modelled drives, and connections that ask it one thing after the other.

use super::flat::Flat;
use crate::precise::precise_u64;
use crate::workload::percentile;
use anyhow::{Context, Result, anyhow, bail, ensure};
use base::time::{Instant, Nanos};
use base::units::BLOCK_BYTES_U64;
use cache::request::{Cache, Marks, Namespace, Object, Op, Outcome, Reply, Request, RequestId, WallMillis};
use cache::shared::{Host, bytes_for};
use cache::status::Status;
use cache::{CacheConfig, CacheVolume, Options, format, mount_on};
use drive::emulated::{EmulatedDrive, TimedDrive};
use drive::timing::{ModelOptions, Profile};
use std::collections::BTreeSet;
use std::ops::Range;
use zone::device::{Geometry, ZonedDevice};
use zone::drives::DriveSet;

/// Turns at one instant after which the engine is stuck.
const TURNS_MAX: u32 = 10_000_000;
/// Drives in virtual time have been busy until some instant; mounting waits for them from there.
const MOUNTED_AT: Instant = Instant(1_000_000_000);
const SERVED_AT: Instant = Instant(10_000_000_000);
/// Connections that fill a cache.
const FILLERS: usize = 64;
/// Secret of the hashes.
pub(super) const SECRET: [u8; 16] = [3; 16];

/// Entries that the command's file has room for.
const SHARED_ENTRIES: usize = 4096;

/// Drives of a cache.
#[derive(Clone, Debug)]
pub(super) struct Drives {
    /// Count of drives.
    pub(super) count: u8,
    geometry: Geometry,
    profile: Profile,
    seed: u64,
    /// Conventional drives that are cut into these zones, instead of drives with zones.
    pub(super) flat: Option<Flat>,
}

impl Drives {
    /// Drives of a profile with smaller zones: what is done to whole zones takes less by as much.
    pub(super) fn new(profile: &Profile, (count, zones, zone_blocks): (u8, u32, u32), seed: u64) -> Drives {
        let profile = profile.with_small_zones(zone_blocks);
        let geometry = Geometry { zones, ..profile.geometry() };
        Drives { count, geometry, profile, seed, flat: None }
    }

    /// Zones of a drive.
    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Bytes of all zones.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.count) * self.geometry.capacity_blocks() * BLOCK_BYTES_U64
    }

    /// A drive that is empty.
    pub(super) fn make(&self, uuid: [u8; 16]) -> Result<Box<dyn ZonedDevice>> {
        let model = ModelOptions { seed: self.seed + u64::from(uuid[0]), ..ModelOptions::default() };
        if let Some(flat) = &self.flat {
            return Ok(Box::new(flat.drive(self.geometry, uuid, model)?));
        }
        let drive = EmulatedDrive::on_heap(self.geometry, uuid)?;
        Ok(Box::new(TimedDrive::new(drive, &self.profile, model)))
    }
}

/// Most kinds of requests that a load tells apart.
const KINDS: usize = 3;

/// Meaning of an answer to a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Time that counts among those of a kind.
    Counts(usize),
    /// Time that does not count.
    Passes,
}

/// Load: requests of connections.
pub(super) trait Load {
    /// Next request of a connection; `None` if it has none any more.
    fn next(&mut self, now: Instant, connection: usize) -> Option<Op>;

    /// A connection was answered.
    fn answered(&mut self, now: Instant, connection: usize, outcome: Outcome) -> Result<Answer>;

    /// Time from an answer to what a connection asks next.
    fn think(&self, _connection: usize) -> Nanos {
        Nanos(0)
    }

    /// Everything that happens at this instant has happened.
    fn rests(&mut self, _now: Instant, _volume: &CacheVolume) {}
}

/// Fails where a request was refused.
pub(super) fn must_be_done(outcome: &Outcome) -> Result<()> {
    ensure!(!matches!(outcome, Outcome::Refused(_)), "a request was answered with {outcome:?}");
    Ok(())
}

/// Connections that ask what a function says, of which no answer is looked at.
struct Asks<F>(F);

impl<F: FnMut() -> Option<Op>> Load for Asks<F> {
    fn next(&mut self, _now: Instant, _connection: usize) -> Option<Op> {
        (self.0)()
    }

    fn answered(&mut self, _now: Instant, _connection: usize, outcome: Outcome) -> Result<Answer> {
        must_be_done(&outcome)?;
        Ok(Answer::Counts(0))
    }
}

/// Objects of one size: what is stored under each key follows from its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Objects {
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
}

impl Objects {
    /// Bytes of a key and its value.
    pub(super) fn bytes(self) -> u64 {
        (self.key_bytes + self.value_bytes) as u64
    }

    /// A cache for them, of which flash alone is looked at: no copies of objects are in memory.
    pub(super) fn options(self) -> Options {
        Options { copies_bytes_max: 0, object_mean: self.bytes(), ..Options::default() }
    }

    pub(super) fn key(self, number: u64) -> Vec<u8> {
        format!("{number:0width$}", width = self.key_bytes).into_bytes()
    }

    fn value(self, number: u64) -> Vec<u8> {
        vec![number.to_le_bytes()[0] ^ number.to_le_bytes()[1]; self.value_bytes]
    }

    pub(super) fn get(self, number: u64) -> Op {
        Op::Get { key: self.key(number) }
    }

    pub(super) fn remove(self, number: u64) -> Op {
        Op::Remove { key: self.key(number) }
    }

    pub(super) fn set(self, number: u64) -> Op {
        let value = self.value(number);
        let object = Object { value: value.into(), flags: 0, marks: Marks::default(), expires: None };
        Op::Set { key: self.key(number), object }
    }

    /// True when a get found the object; fails where it found something else.
    pub(super) fn is_found(self, number: u64, outcome: &Outcome) -> Result<bool> {
        match outcome {
            Outcome::Found(None) => Ok(false),
            Outcome::Found(Some(object)) if *object.value == *self.value(number) => Ok(true),
            Outcome::Found(Some(_)) => bail!("object {number} was found with another value"),
            _ => bail!("a get was answered with {outcome:?}"),
        }
    }
}

/// Times in which requests of a kind were answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Times(Vec<f64>);

impl Times {
    /// Adds a time.
    pub(super) fn note(&mut self, span: Nanos) {
        self.0.push(precise_u64(span.0) / 1e3);
    }

    /// Number of requests.
    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Times of both.
    pub(super) fn with(&self, others: &Times) -> Times {
        Times(self.0.iter().chain(&others.0).copied().collect())
    }

    /// The time in microseconds in which so many of a hundred were answered; none without requests.
    pub(super) fn percentile_us(&self, percent: f64) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        (!sorted.is_empty()).then(|| percentile(&sorted, percent))
    }
}

/// Measurements from the first request of a load to its last answer.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// By kind.
    pub(super) times: [Times; KINDS],
    /// From the first request to the last answer.
    pub(super) seconds: f64,
    /// The cache before and after.
    pub(super) before: Status,
    pub(super) after: Status,
}

impl Measured {
    /// Requests of all kinds.
    pub(super) fn all(&self) -> Times {
        self.times.iter().fold(Times::default(), |all, own| all.with(own))
    }

    /// Growth of a counter meanwhile.
    pub(super) fn counted(&self, of: impl Fn(&Status) -> u64) -> f64 {
        precise_u64(of(&self.after) - of(&self.before))
    }
}

/// See the module.
pub(super) struct CacheRig {
    pub(super) volume: CacheVolume,
    now: Instant,
}

impl CacheRig {
    /// An empty cache.
    pub(super) fn new(drives: &Drives, options: Options) -> Result<CacheRig> {
        let uuids: Vec<[u8; 16]> = (1..=drives.count).map(|drive| [drive; 16]).collect();
        let devices: Result<Vec<_>> = uuids.iter().map(|uuid| Ok(Some(drives.make(*uuid)?))).collect();
        let mut set = DriveSet::new(devices?);
        format(&mut set, Instant(0), &CacheConfig { cache: [9; 16], secret: SECRET, drives: uuids })?;
        let memory = Box::new(vec![0; bytes_for(SHARED_ENTRIES)]);
        let host = Host { boot: [1; 16], memory: Some(memory) };
        let volume = mount_on(host, set, MOUNTED_AT, (wall(MOUNTED_AT), options))?;
        Ok(CacheRig { volume, now: SERVED_AT })
    }

    /// So many connections ask until they have nothing more to ask.
    pub(super) fn run(&mut self, load: &mut dyn Load, connections: usize) -> Result<Measured> {
        let (before, since) = (self.volume.status(), self.now);
        let mut due: BTreeSet<(Instant, usize)> = (0..connections).map(|own| (self.now, own)).collect();
        let mut open: Vec<Option<Instant>> = vec![None; connections];
        let mut times: [Times; KINDS] = Default::default();
        let mut replies = Vec::new();
        let (mut in_flight, mut turns) = (0, 0);
        loop {
            while let Some((at, connection)) = due.first().copied().filter(|(at, _)| *at <= self.now) {
                due.remove(&(at, connection));
                let Some(op) = load.next(self.now, connection) else { continue };
                open[connection] = Some(self.now);
                in_flight += 1;
                let request = Request { id: RequestId(connection as u64), namespace: Namespace(0), op };
                self.volume.submit(self.now, wall(self.now), request);
            }
            let has_moved = self.volume.turn(self.now, wall(self.now), &mut replies);
            for Reply { id, outcome } in replies.drain(..) {
                let connection = usize::try_from(id.0)?;
                let asked = open[connection].take().context("an answer that nobody waits for")?;
                in_flight -= 1;
                let answer = load.answered(self.now, connection, outcome)?;
                if let Answer::Counts(kind) = answer {
                    times[kind].note(self.now.since(asked));
                }
                due.insert((self.now + load.think(connection), connection));
            }
            if has_moved || due.first().is_some_and(|(at, _)| *at <= self.now) {
                turns += 1;
                ensure!(turns < TURNS_MAX, "the engine does not come to rest");
                continue;
            }
            load.rests(self.now, &self.volume);
            if in_flight == 0 && due.is_empty() {
                break;
            }
            let next = due.first().map(|(at, _)| *at).into_iter().chain(self.next_event()).min();
            self.now = next.context("a request is not answered, and nothing is to come")?;
            turns = 0;
        }
        let seconds = precise_u64(self.now.since(since).0) / 1e9;
        Ok(Measured { times, seconds, before, after: self.volume.status() })
    }

    /// Stores objects, as fast as the cache takes them.
    pub(super) fn fill(&mut self, objects: Objects, numbers: Range<u64>) -> Result<Measured> {
        let mut left = numbers;
        self.run(&mut Asks(|| left.next().map(|number| objects.set(number))), FILLERS)
    }

    /// Waits until nothing is in buffers and no command is under way.
    pub(super) fn settle(&mut self) -> Result<()> {
        self.wait(|volume| volume.is_flushed() && volume.in_flight() == 0)
    }

    /// The process ends: what is left are the drives, at this time.
    pub(super) fn end(self) -> (DriveSet, Instant) {
        (self.volume.into_drives(), self.now)
    }

    /// A drive is taken out of service.
    pub(super) fn lose(&mut self, place: usize) -> Result<()> {
        self.volume.take_out(place).map_err(|refusal| anyhow!("the drive cannot be taken out: {refusal}"))
    }

    /// An empty drive takes the place of one that is lost, as soon as it may.
    pub(super) fn replace(&mut self, place: usize, drives: &Drives) -> Result<()> {
        let uuid = [drives.count + 1 + u8::try_from(place)?; 16];
        let device = drives.make(uuid)?;
        let geometry = *device.geometry();
        self.wait(|volume| volume.may_join(place, &geometry).is_ok())?;
        self.volume.join(place, device, uuid);
        Ok(())
    }

    /// Lets time pass until something holds, though nobody asks.
    fn wait(&mut self, is_over: impl Fn(&CacheVolume) -> bool) -> Result<()> {
        let mut replies = Vec::new();
        loop {
            if self.volume.turn(self.now, wall(self.now), &mut replies) {
                continue;
            }
            if is_over(&self.volume) {
                ensure!(replies.is_empty(), "nobody asked");
                return Ok(());
            }
            self.now = self.next_event().context("the cache is not ready, and nothing is to come")?;
        }
    }

    /// The next time at which anything happens in drives or buffers.
    fn next_event(&self) -> Option<Instant> {
        let events = [self.volume.next_event(), self.volume.next_deadline()];
        events.into_iter().flatten().filter(|next| *next > self.now).min()
    }
}

pub(super) fn wall(now: Instant) -> WallMillis {
    WallMillis(now.0 / 1_000_000)
}
