//! What zones of their own for objects that expire together give a cache: the same requests with groups and without.
//!
//! A setting is drawn: drives, sizes of objects, how keys are asked for, how many of them expire within minutes, hours and days,
//! the policy of eviction, and how long it takes to write the flash once. Clients read a key and store it when they miss it.
//! Time of the drives and time of the day pass apart from each other: hours of a day pass while a flash of some MiB is written
//! at the rate of a busy cache, so that pages fill as they would.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "statistics of small numbers"
)]

use super::rig::{CacheRig, DEPTH, Popularity, between, draw_eviction, geometry, in_words, name, part};
use anyhow::Result;
use base::random::Random;
use base::units::BLOCK_BYTES_U64;
use cache::config::TTL_GROUPS;
use cache::policy::Eviction;
use cache::request::{Marks, Namespace, Object, Op, Outcome, WallMillis};
use cache::{Options, Status};
use serde::Serialize;
use zone::device::Geometry;

/// Times that the flash is written before anything is counted, and while it is.
const ROUNDS: (f64, f64) = (2.0, 2.0);
/// Looks at the expired share while it is counted.
const LOOKS: u64 = 200;
/// Beginning of time: a day in 2026.
const WALL: u64 = 1_790_000_000_000;

/// Times to live, in seconds, that clients say: minutes, hours, days and longer.
const USUAL: [[u64; 4]; 4] = [
    [30, 60, 120, 300],
    [600, 1_800, 3_600, 7_200],
    [21_600, 43_200, 86_400, 172_800],
    [259_200, 604_800, 1_209_600, 2_592_000],
];

/// Setting that a seed draws.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// Seed of the setting.
    pub seed: u64,
    /// Drives.
    pub drives: u32,
    /// Zones of each.
    pub zones: u32,
    /// Blocks of a zone.
    pub zone_blocks: u32,
    /// Bytes of a value on the mean.
    pub value_mean: u64,
    /// Bytes of all keys and values over those of the flash.
    pub footprint: f64,
    /// Exponent of the popularity of keys.
    pub skew: f64,
    /// Parts of keys that expire within 5 minutes, 2 hours, 2 days, 30 days, and never.
    pub mix: [f64; 5],
    /// Milliseconds that those of the first four live, a tenth less at most; none where they are spread over all of that time.
    pub lives: [Option<u64>; 4],
    /// Hours in which the flash is written once, about.
    pub turnover_hours: f64,
    /// Eviction policy: chooses the zones that go.
    #[serde(serialize_with = "in_words")]
    pub eviction: Eviction,
}

/// Outcomes of a setting.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Outcomes {
    /// Reads that found something.
    pub hit_ratio: f64,
    /// Bytes written over bytes of keys and values that were stored.
    pub write_amplification: f64,
    /// Bytes written anew when zones went, over the same.
    pub reinserted: f64,
    /// Part of the flash in use that expired objects take, on the mean.
    pub expired_share: f64,
    /// Share of the zones that went in which everything had expired.
    pub expired_zones: f64,
}

/// A setting with both.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The setting.
    pub setting: Setting,
    /// Without groups.
    pub mixed: Outcomes,
    /// With groups.
    pub grouped: Outcomes,
}

impl Setting {
    /// The setting of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Setting {
        let mut random = Random::from_seed(seed ^ 0x77_1cac);
        let narrow = |value: u64| u32::try_from(value).expect("a small number");
        let weights: [f64; 5] =
            std::array::from_fn(|_| if random.chance(1, 4) { 0.0 } else { part(&mut random) });
        let all = weights.iter().sum::<f64>().max(1e-9);
        Setting {
            seed,
            drives: narrow(1 + random.below(3)),
            zones: narrow(40 + random.below(60)),
            zone_blocks: 32 << random.below(3),
            value_mean: 200 << random.below(4),
            footprint: between(&mut random, 1.2, 6.0),
            skew: 0.5 + part(&mut random) * 0.6,
            mix: weights.map(|weight| weight / all),
            lives: USUAL.map(|usual| random.chance(3, 4).then(|| usual[random.index(usual.len())] * 1_000)),
            turnover_hours: between(&mut random, 0.5, 168.0),
            eviction: draw_eviction(&mut random),
        }
    }

    fn geometry(&self) -> Geometry {
        geometry(self.zones, self.zone_blocks)
    }

    fn flash_bytes(&self) -> f64 {
        self.geometry().capacity_blocks() as f64 * f64::from(self.drives) * BLOCK_BYTES_U64 as f64
    }

    fn keys(&self) -> usize {
        (self.flash_bytes() * self.footprint / (self.value_mean + 20) as f64) as usize
    }

    /// Runs it with groups of these times to live.
    fn run(&self, options: Options) -> Result<Outcomes> {
        let mut client = Client::new(self, options)?;
        let flash = self.flash_bytes();
        client.go_on(flash * ROUNDS.0)?;
        let before = client.rig.volume.status();
        client.found = 0;
        client.asked = 0;
        let (mut share, mut looks) = (0.0, 0);
        for look in 1..=LOOKS {
            client.go_on(flash * (ROUNDS.0 + ROUNDS.1 * look as f64 / LOOKS as f64))?;
            share += client.rig.volume.status().expired_share();
            looks += 1;
        }
        let after = client.rig.volume.status();
        let since = |of: fn(&Status) -> u64| (of(&after) - of(&before)) as f64;
        let stored = since(|status| status.counters.bytes_admitted);
        let (evicted, expired) =
            (since(|status| status.counters.zones_evicted), since(|status| status.counters.zones_expired));
        Ok(Outcomes {
            hit_ratio: client.found as f64 / client.asked as f64,
            write_amplification: since(|status| status.counters.bytes_written()) / stored,
            reinserted: since(|status| status.counters.bytes_reinserted) / stored,
            expired_share: share / f64::from(looks),
            expired_zones: expired / (evicted + expired).max(1.0),
        })
    }
}

/// Clients of a cache.
struct Client {
    rig: CacheRig,
    random: Random,
    seed: u64,
    mix: [f64; 5],
    lives: [Option<u64>; 4],
    value_mean: u64,
    popularity: Popularity,
    /// Milliseconds of the day, and how many of them pass for a byte that is stored.
    wall: f64,
    wall_per_byte: f64,
    asked: u64,
    found: u64,
}

impl Client {
    fn new(setting: &Setting, options: Options) -> Result<Client> {
        let flash = setting.flash_bytes();
        let options = Options {
            eviction: setting.eviction,
            object_mean: setting.value_mean / 2,
            memory_bytes: 32 << 20,
            copies_bytes_max: (flash / 50.0) as u64,
            ..options
        };
        let rig = CacheRig::new(setting.drives, setting.geometry(), options, WallMillis(WALL))?;
        Ok(Client {
            rig,
            random: Random::from_seed(setting.seed ^ 0x77_c11e),
            seed: setting.seed,
            mix: setting.mix,
            lives: setting.lives,
            value_mean: setting.value_mean,
            popularity: Popularity::new(setting.keys(), setting.skew),
            wall: WALL as f64,
            wall_per_byte: setting.turnover_hours * 3.6e6 / flash,
            asked: 0,
            found: 0,
        })
    }

    /// Asks until so many bytes were stored.
    fn go_on(&mut self, bytes: f64) -> Result<()> {
        while (self.rig.volume.status().counters.bytes_stored as f64) < bytes {
            let keys: Vec<usize> = (0..DEPTH).map(|_| self.popularity.draw(&mut self.random)).collect();
            let gets = keys.iter().map(|key| Op::Get { key: name(*key) }).collect();
            let answers = self.ask(gets)?;
            let missed: Vec<usize> = keys
                .iter()
                .zip(&answers)
                .filter(|(_, answer)| **answer == Outcome::Found(None))
                .map(|(key, _)| *key)
                .collect();
            self.asked += DEPTH as u64;
            self.found += (DEPTH - missed.len()) as u64;
            let before = self.rig.volume.status().counters.bytes_stored;
            let sets =
                missed.iter().map(|key| Op::Set { key: name(*key), object: self.object(*key) }).collect();
            self.ask(sets)?;
            let stored = (self.rig.volume.status().counters.bytes_stored - before) as f64;
            self.wall += self.wall_per_byte * stored;
        }
        Ok(())
    }

    /// Asks about the only namespace there is.
    fn ask(&mut self, ops: Vec<Op>) -> Result<Vec<Outcome>> {
        let ops = ops.into_iter().map(|op| (Namespace(0), op)).collect();
        self.rig.ask(WallMillis(self.wall as u64), ops)
    }

    /// The object of a key: its size and time to live are always the same.
    fn object(&self, key: usize) -> Object {
        let mut random = Random::from_seed(self.seed.wrapping_mul(0x9e37_79b9).wrapping_add(key as u64));
        let value_bytes = (self.value_mean / 4 + random.below(self.value_mean * 3 / 2)) as usize;
        let mut point = part(&mut random);
        let class = self.mix.iter().position(|share| {
            point -= share;
            point < 0.0
        });
        let bounds = [10_000.0, 300_000.0, 7_200_000.0, 172_800_000.0, 2_592_000_000.0];
        let lives = class.filter(|class| *class < 4).map(|class| match self.lives[class] {
            Some(usual) => usual as f64 * (1.0 - part(&mut random) / 10.0),
            None => between(&mut random, bounds[class], bounds[class + 1]),
        });
        let expires = lives.map(|lives| WallMillis((self.wall + lives) as u64));
        Object { value: vec![b'.'; value_bytes].into(), flags: 0, marks: Marks::default(), expires }
    }
}

/// Runs a setting without groups and with them.
///
/// # Errors
/// When the cache cannot be made.
pub fn compare(setting: Setting) -> Result<Compared> {
    let mixed = setting.run(Options { ttl_groups: [0; 3], ..Options::default() })?;
    let grouped = setting.run(Options { ttl_groups: TTL_GROUPS, ..Options::default() })?;
    Ok(Compared { setting, mixed, grouped })
}
