//! Random walks of a cache over drives that crash at any command, lose volatile caches, die and come back: a read never
//! answers with an older value than was acknowledged or read, a deleted, an expired or a foreign one.
//!
//! `ZONEWEAVE_CACHE_SEEDS=20000 cargo test -p zoneweave-cache --test walks` walks longer.

#![allow(clippy::unwrap_used, reason = "a test")]

mod rig;

use base::random::Random;
use base::time::Instant;
use cache::request::{
    Cache, Change, Kind, Namespace, Object, Op, Outcome, Reply, Request, RequestId, WallMillis,
};
use cache::{CacheConfig, CacheVolume, MountError, Options, format, mount};
use drive::emulated::EmulatedDrive;
use rig::{Bay, Handle, Power};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use zone::device::{Geometry, ZonedDevice};
use zone::drives::DriveSet;

const KEYS: usize = 24;

/// What the oracle knows of a key.
#[derive(Clone, Default)]
struct Known {
    /// Version that was begun last.
    begun: u64,
    /// Older versions may not be seen any more.
    floor: u64,
    /// Expiry by version.
    expires: BTreeMap<u64, u64>,
}

struct Pending {
    key: usize,
    version: u64,
    wall: u64,
}

struct World {
    random: Random,
    bays: Vec<Arc<Mutex<Bay>>>,
    power: Arc<Mutex<Power>>,
    volume: Option<CacheVolume>,
    options: Options,
    now: u64,
    wall: u64,
    known: Vec<Known>,
    pending: BTreeMap<u64, Pending>,
    /// Clears that are not answered: of all namespaces or one, and the versions that they make void.
    clears: BTreeMap<u64, (bool, Vec<u64>)>,
    next_request: u64,
    volatile: bool,
    hits: u64,
    crashes: u64,
}

fn geometry(random: &mut Random, volatile_cache: bool) -> Geometry {
    let capacity = 12 + u32::try_from(random.below(20)).unwrap();
    Geometry {
        zones: 9 + u32::try_from(random.below(6)).unwrap(),
        zone_size_blocks: 32,
        zone_capacity_blocks: capacity,
        open_zones_max: 6,
        active_zones_max: 6,
        append_blocks_max: 8,
        transfer_blocks_max: 1 + u32::try_from(random.below(8)).unwrap(),
        volatile_cache,
        areas: None,
    }
}

fn key_of(key: usize) -> (Namespace, Vec<u8>) {
    (Namespace(u8::try_from(key % 2).unwrap()), format!("key{key}").into_bytes())
}

fn value_of(key: usize, version: u64, bytes: usize) -> Vec<u8> {
    let mut value = format!("{key}:{version}:").into_bytes();
    value.resize(value.len().max(bytes), b'.');
    value
}

fn version_of(key: usize, value: &[u8]) -> u64 {
    let text = String::from_utf8(value.to_vec()).expect("a value of ours");
    let mut parts = text.split(':');
    assert_eq!(parts.next(), Some(key.to_string().as_str()), "a foreign value");
    parts.next().unwrap().parse().unwrap()
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::from_seed(seed);
        let count = 1 + random.index(3);
        let volatile = random.chance(1, 2);
        let geometry = geometry(&mut random, volatile);
        let bay = |index: usize| {
            let media = EmulatedDrive::on_heap(geometry, [u8::try_from(index).unwrap() + 1; 16]).unwrap();
            Arc::new(Mutex::new(Bay::new(media, seed * 7 + index as u64)))
        };
        let bays: Vec<_> = (0..count).map(bay).collect();
        let options = Options {
            memory_bytes: 512 << 10,
            object_mean: 64 << random.below(7),
            tag_bits: if random.chance(3, 4) { 3 } else { 12 },
            object_max: 12_000,
            batch_pages: 1 + u32::try_from(random.below(8)).unwrap(),
        };
        let world = World {
            random,
            bays,
            power: Arc::default(),
            volume: None,
            options,
            now: 0,
            wall: 1_000_000,
            known: vec![Known::default(); KEYS],
            pending: BTreeMap::new(),
            clears: BTreeMap::new(),
            next_request: 0,
            volatile,
            hits: 0,
            crashes: 0,
        };
        let uuid = |index: usize| [u8::try_from(index).unwrap() + 1; 16];
        let config = CacheConfig { cache: [9; 16], secret: [3; 16], drives: (0..count).map(uuid).collect() };
        let mut drives = world.drive_set(&[]);
        format(&mut drives, Instant(0), &config).expect("a new cache");
        world
    }

    fn drive_set(&self, without: &[usize]) -> DriveSet {
        let device = |index: usize| {
            let handle = Handle::new(&self.bays[index], &self.power);
            (!without.contains(&index)).then(|| Box::new(handle) as Box<dyn ZonedDevice>)
        };
        DriveSet::new((0..self.bays.len()).map(device).collect())
    }

    /// Mounts, with the power failing on the way now and then; false when the walk ends here.
    fn mount(&mut self) -> bool {
        loop {
            *self.power.lock().unwrap() = Power::default();
            self.bays.iter().for_each(|bay| bay.lock().unwrap().dead = false);
            let mut without = Vec::new();
            if self.bays.len() > 1 && self.random.chance(1, 6) {
                without.push(self.random.index(self.bays.len()));
            }
            if self.random.chance(1, 4) {
                // What is dead answers, so that a mount ends, and nothing more takes effect.
                let index = self.random.index(self.bays.len());
                let left = self.random.below(60);
                self.bays[index].lock().unwrap().die_after(left);
            }
            if self.random.chance(1, 3) {
                self.options.object_mean = 64 << self.random.below(7);
            }
            let drives = self.drive_set(&without);
            match mount(drives, Instant(self.now), WallMillis(self.wall), self.options) {
                Ok(volume) => {
                    self.volume = Some(volume);
                    if self.random.chance(1, 8) {
                        self.stop(true);
                        continue;
                    }
                    return true;
                }
                Err(MountError::NoMajority { .. } | MountError::Drive { .. }) => {
                    self.stop(true);
                }
                Err(error) => panic!("a mount is refused: {error}"),
            }
        }
    }

    /// The process or the power ends.
    fn stop(&mut self, power_fails: bool) {
        self.volume = None;
        self.pending.clear();
        self.crashes += 1;
        for bay in &self.bays {
            bay.lock().unwrap().crash(power_fails);
        }
    }

    fn submit(&mut self, key: usize, op: Op) {
        self.next_request += 1;
        let id = self.next_request;
        let (namespace, _) = key_of(key);
        let version = self.known[key].begun;
        self.pending.insert(id, Pending { key, version, wall: self.wall });
        let request = Request { id: RequestId(id), namespace, op };
        let (now, wall) = (Instant(self.now), WallMillis(self.wall));
        self.volume.as_mut().unwrap().submit(now, wall, request);
    }

    fn new_version(&mut self, key: usize) -> Object {
        let known = &mut self.known[key];
        known.begun += 1;
        let version = known.begun;
        let bytes = [20, 100, 700, 3000, 9000][self.random.index(5)];
        let expires = self.random.chance(1, 5).then(|| self.wall + self.random.below(60));
        expires.map(|at| known.expires.insert(version, at));
        let flags = u32::try_from(version % 3).unwrap();
        Object { value: value_of(key, version, bytes), flags, expires: expires.map(WallMillis) }
    }

    fn act(&mut self) {
        let key = self.random.index(KEYS);
        let (namespace, bytes) = key_of(key);
        match self.random.below(100) {
            0..35 => {
                let object = self.new_version(key);
                self.submit(key, Op::Set { key: bytes, object });
            }
            35..50 => {
                self.known[key].begun += 1;
                self.submit(key, Op::Remove { key: bytes });
            }
            50..60 => {
                let object = self.new_version(key);
                let change = match self.random.below(3) {
                    0 => Change::Keep,
                    1 => Change::Remove,
                    _ => Change::Store(object),
                };
                self.submit(key, Op::Update { key: bytes, decide: Box::new(move |_, _| change) });
            }
            60 => {
                let all = self.random.chance(1, 2);
                for other in 0..KEYS {
                    if all || key_of(other).0 == namespace {
                        self.known[other].begun += 1;
                    }
                }
                self.submit(key, Op::Clear { namespace: if all { None } else { Some(namespace) } });
                self.pending.get_mut(&self.next_request).unwrap().version = 0;
                let begun: Vec<u64> = self.known.iter().map(|known| known.begun).collect();
                self.clears.insert(self.next_request, (all, begun));
            }
            _ => self.submit(key, Op::Get { key: bytes }),
        }
    }

    fn turn(&mut self) -> bool {
        let mut replies = Vec::new();
        let (now, wall) = (Instant(self.now), WallMillis(self.wall));
        let moved = self.volume.as_mut().unwrap().turn(now, wall, &mut replies);
        replies.into_iter().for_each(|reply| self.judge(reply));
        moved
    }

    fn saw(&mut self, key: usize, object: &Object, wall: u64) {
        let version = version_of(key, &object.value);
        let known = &mut self.known[key];
        assert!(version >= known.floor, "key {key}: version {version} is stale, {} was known", known.floor);
        assert!(version <= known.begun);
        let expires = known.expires.get(&version).copied();
        assert_eq!(object.expires, expires.map(WallMillis));
        assert!(expires.is_none_or(|at| at > wall), "key {key}: version {version} has expired");
        known.floor = version;
        self.hits += 1;
    }

    fn judge(&mut self, Reply { id, outcome }: Reply) {
        let Pending { key, version, wall } = self.pending.remove(&id.0).expect("one answer for one request");
        assert!(wall <= self.wall);
        match outcome {
            Outcome::Found(Some(object)) => self.saw(key, &object, self.wall),
            Outcome::Found(None) | Outcome::Refused(_) => {}
            Outcome::Stored | Outcome::Removed(_) => {
                self.known[key].floor = self.known[key].floor.max(version);
            }
            Outcome::Updated { before, change } => {
                if let Some(object) = before {
                    // The decision was made some time after the request came.
                    self.saw(key, &object, wall);
                }
                if change != Kind::Kept {
                    self.known[key].floor = self.known[key].floor.max(version);
                }
            }
            Outcome::Cleared => {
                let (all, begun) = self.clears.remove(&id.0).unwrap();
                for (other, begun) in begun.into_iter().enumerate() {
                    if all || key_of(other).0 == key_of(key).0 {
                        self.known[other].floor = self.known[other].floor.max(begun);
                    }
                }
            }
        }
    }

    /// Lets everything come to an end; false when something hangs.
    fn rest(&mut self) {
        for _ in 0..20_000 {
            if self.power.lock().unwrap().off {
                return;
            }
            self.now += 1_000_000;
            let moved = self.turn();
            let volume = self.volume.as_ref().unwrap();
            let is_quiet = !moved && volume.in_flight() == 0;
            if is_quiet && self.pending.is_empty() && (volume.is_flushed() || volume.status().frozen) {
                return;
            }
        }
        let status = self.volume.as_ref().unwrap().status();
        panic!("{} requests are never answered: {status:?}", self.pending.len());
    }

    fn read_all(&mut self) {
        for key in 0..KEYS {
            let (_, bytes) = key_of(key);
            self.submit(key, Op::Get { key: bytes });
        }
        self.rest();
    }

    fn life(&mut self) {
        if self.random.chance(1, 2) {
            let fuse = Some(self.random.below(600));
            self.power.lock().unwrap().fuse = fuse;
        }
        for _ in 0..self.random.below(400) {
            if self.power.lock().unwrap().off {
                return;
            }
            self.now += self.random.below(4_000_000);
            self.wall += self.random.below(4);
            if self.random.chance(2, 3) && self.pending.len() < 30 {
                self.act();
            }
            self.turn();
            if self.bays.len() > 1 && self.random.chance(1, 500) {
                let index = self.random.index(self.bays.len());
                self.bays[index].lock().unwrap().dead = true;
            }
        }
        if self.random.chance(1, 2) {
            self.rest();
            if !self.power.lock().unwrap().off {
                self.read_all();
            }
        }
    }
}

fn walk(seed: u64) -> (u64, u64) {
    let mut world = World::new(seed);
    for _ in 0..8 {
        assert!(world.mount());
        world.read_all();
        if !world.power.lock().unwrap().off {
            world.life();
        }
        let power_fails = world.volatile && world.random.chance(1, 2);
        world.stop(power_fails);
    }
    (world.hits, world.crashes)
}

#[test]
fn no_walk_meets_a_stale_value() {
    let seeds =
        std::env::var("ZONEWEAVE_CACHE_SEEDS").ok().map_or(200, |count| count.parse().expect("a count"));
    let first: u64 =
        std::env::var("ZONEWEAVE_CACHE_SEED").ok().map_or(0, |seed| seed.parse().expect("a seed"));
    let (mut hits, mut crashes) = (0, 0);
    for seed in first..first + seeds {
        let result = std::panic::catch_unwind(|| walk(seed));
        let Ok((own_hits, own_crashes)) = result else { panic!("seed {seed}") };
        hits += own_hits;
        crashes += own_crashes;
    }
    println!("{seeds} walks, {hits} hits, {crashes} crashes");
    assert!(hits > seeds * 50, "the walks read something: {hits} hits");
}
