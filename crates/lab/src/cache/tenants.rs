//! What a share of its own gives a namespace whose neighbour floods the cache.
//!
//! A setting is drawn: drives, policy, the share, what the *quiet* namespace asks for, and what the *loud* one does, some times for each read
//! of the quiet one. Both are look-aside caches: what is missed is stored. The quiet one's hit ratio is measured three times: in a
//! cache of its own with as much flash as the share, beside the flood without a share, and beside it with one.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "statistics of small numbers"
)]

use super::rig::{CacheRig, DEPTH, Popularity, between, draw_eviction, geometry, in_words, name, part};
use anyhow::{Context, Result};
use base::random::Random;
use base::units::BLOCK_BYTES_U64;
use cache::Options;
use cache::policy::Eviction;
use cache::request::{Marks, Namespace, Object, Op, Outcome, WallMillis};
use cache::share::{Share, Shares};
use serde::Serialize;
use zone::device::Geometry;

const WALL: WallMillis = WallMillis(1_790_000_000_000);
const QUIET: Namespace = Namespace(1);
const LOUD: Namespace = Namespace(0);
/// Reads of the quiet namespace, for each object that it has: before anything is counted, and while it is.
const ROUNDS: (usize, usize) = (3, 2);

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
    /// Bytes of a value.
    pub value_bytes: u64,
    /// Share of the quiet namespace, in hundredths.
    pub share_percent: u32,
    /// Bytes of all its keys and values over those of its share.
    pub footprint: f64,
    /// Exponent of the popularity of its keys.
    pub skew: f64,
    /// Reads of the loud namespace for each read of the quiet one.
    pub flood: f64,
    /// Bytes of all keys and values of the loud namespace over those of all flash; none where it never asks for an object again.
    pub loud_footprint: Option<f64>,
    /// Eviction policy: chooses the zones that go.
    #[serde(serialize_with = "in_words")]
    pub eviction: Eviction,
}

/// Hit ratios of the quiet namespace.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The setting.
    pub setting: Setting,
    /// In a cache of its own, as large as its share.
    pub alone: f64,
    /// Beside the flood, without a share.
    pub flooded: f64,
    /// Beside the flood, with its share.
    pub shared: f64,
}

impl Setting {
    /// The setting of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Setting {
        let mut random = Random::from_seed(seed ^ 0x7e4a_4175);
        let narrow = |value: u64| u32::try_from(value).expect("a small number");
        Setting {
            seed,
            drives: narrow(1 + random.below(3)),
            zones: narrow(60 + random.below(60)),
            zone_blocks: 32 << random.below(2),
            value_bytes: 200 << random.below(4),
            share_percent: narrow(10 + random.below(51)),
            footprint: between(&mut random, 0.3, 4.0),
            skew: 0.5 + part(&mut random) * 0.6,
            flood: between(&mut random, 0.5, 10.0),
            loud_footprint: random.chance(3, 4).then(|| between(&mut random, 0.5, 10.0)),
            eviction: draw_eviction(&mut random),
        }
    }

    fn geometry(&self, zones: u32) -> Geometry {
        geometry(zones, self.zone_blocks)
    }

    fn shares(&self) -> Result<Shares> {
        let share = Share {
            namespace: QUIET,
            flash_percent: self.share_percent,
            eviction: self.eviction,
            ..Share::default()
        };
        Shares::new(&[share]).context("one share")
    }

    /// Zones of a drive that the share is.
    fn own_zones(&self) -> Result<u32> {
        let own = self.shares()?.on(&self.geometry(self.zones));
        Ok(u32::try_from(own.first().context("the drive has room for it")?.zones_max)?)
    }

    fn hit_ratio(&self, zones: u32, shares: Shares, flood: f64) -> Result<f64> {
        let options = Options {
            eviction: self.eviction,
            object_mean: self.value_bytes / 2,
            memory_bytes: 64 << 20,
            copies_bytes_max: 0,
            ttl_groups: [0; 3],
            shares,
            ..Options::default()
        };
        let mut rig = CacheRig::new(self.drives, self.geometry(zones), options, WALL)?;
        let own_bytes = u64::from(self.own_zones()? * self.drives * self.zone_blocks) * BLOCK_BYTES_U64;
        let keys = (own_bytes as f64 * self.footprint / (self.value_bytes + 20) as f64) as usize;
        let popularity = Popularity::new(keys.max(DEPTH), self.skew);
        let all_bytes = u64::from(self.zones * self.drives * self.zone_blocks) * BLOCK_BYTES_U64;
        let loud_keys =
            |footprint: f64| (all_bytes as f64 * footprint / (self.value_bytes + 20) as f64) as usize;
        let loud =
            self.loud_footprint.map(|footprint| Popularity::new(loud_keys(footprint).max(DEPTH), self.skew));
        let mut random = Random::from_seed(self.seed ^ 0x7e4a_c11e);
        let object = || Object {
            value: vec![b'.'; self.value_bytes as usize].into(),
            flags: 0,
            marks: Marks::default(),
            expires: None,
        };
        let mut scanned = 0..;
        let (mut owed, mut found, mut asked) = (0.0, 0, 0);
        for round in 0..(ROUNDS.0 + ROUNDS.1) * keys / DEPTH {
            owed += flood * DEPTH as f64;
            let floods = owed as usize;
            owed -= floods as f64;
            let quiet: Vec<usize> = (0..DEPTH).map(|_| popularity.draw(&mut random)).collect();
            let flooding: Vec<usize> = match &loud {
                Some(loud) => (0..floods).map(|_| loud.draw(&mut random)).collect(),
                None => scanned.by_ref().take(floods).collect(),
            };
            let asks: Vec<(Namespace, usize)> = quiet
                .into_iter()
                .map(|key| (QUIET, key))
                .chain(flooding.into_iter().map(|key| (LOUD, key)))
                .collect();
            let gets = asks.iter().map(|(namespace, key)| (*namespace, Op::Get { key: name(*key) }));
            let answers = rig.ask(WALL, gets.collect())?;
            let is_missed = |answer: &Outcome| *answer == Outcome::Found(None);
            if round * DEPTH >= ROUNDS.0 * keys {
                asked += DEPTH;
                found += answers[..DEPTH].iter().filter(|answer| !is_missed(answer)).count();
            }
            let missed = asks.iter().zip(&answers).filter(|(_, answer)| is_missed(answer));
            let sets = missed
                .map(|((namespace, key), _)| (*namespace, Op::Set { key: name(*key), object: object() }));
            rig.ask(WALL, sets.collect())?;
        }
        Ok(f64::from(u32::try_from(found)?) / f64::from(u32::try_from(asked.max(1))?))
    }
}

/// Runs a setting in all three ways.
///
/// # Errors
/// When the cache cannot be made.
pub fn compare(setting: Setting) -> Result<Compared> {
    // A cache of its own needs superblocks, a journal and free zones beside what the share is.
    let alone = setting.hit_ratio(setting.own_zones()? + 6, Shares::default(), 0.0)?;
    let flooded = setting.hit_ratio(setting.zones, Shares::default(), setting.flood)?;
    let shared = setting.hit_ratio(setting.zones, setting.shares()?, setting.flood)?;
    Ok(Compared { setting, alone, flooded, shared })
}
