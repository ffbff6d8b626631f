//! Cell `policies`: which zones go, and what it costs to choose whole zones instead of objects.
//!
//! Engine and models have the same bytes of flash, and no copies in memory. A model has all of them for objects; the engine has its
//! superblocks, journal, headers, directories and free zones in them, too.

use super::drawn::{Drawn, NAMED, TWITTER};
use super::load::Load;
use super::models::{Belady, Model, ObjectLru, RegionLru, Sieve, play};
use super::replay::{self, Measured, Setting};
use super::score::Score;
use crate::pool;
use crate::precise::precise_u64;
use anyhow::Result;
use base::random::Random;
use cache::policy::Eviction;
use serde::Serialize;
use std::sync::Arc;

/// Policies of the engine, and what they may write anew of a zone, in hundredths.
const POLICIES: [(&str, Eviction, u32); 6] = [
    ("fifo", Eviction::Fifo, 0),
    ("lru", Eviction::Lru, 25),
    ("sieve", Eviction::Sieve, 25),
    ("s3fifo-0", Eviction::S3Fifo, 0),
    ("s3fifo", Eviction::S3Fifo, 25),
    ("s3fifo-100", Eviction::S3Fifo, 100),
];

/// Models, by name.
const MODELS: [&str; 4] = ["object-lru", "object-sieve", "region-lru", "belady"];

/// Regions of Navy; smaller where zones are.
const REGION_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a zone in loads that are drawn: less where objects are small, for requests to be few enough.
const ZONE_BYTES: u64 = 1 << 20;
const ZONE_BYTES_SMALL: u64 = 512 << 10;
/// Most requests of a load that is drawn.
const ASKS_MAX: u64 = 4_000_000;
/// Fewest zones of a setting that is drawn.
const ZONES_MIN: u32 = 32;
/// Times that they may double: 1,024 at most.
const ZONES_DOUBLE: f64 = 5.0;

/// Least advance of `s3fifo` over regions, and most that it may be behind objects.
pub const BAR_REGIONS: f64 = 0.01;
const BAR_OBJECTS: f64 = -0.015;
/// Up to this share of the footprint it is to be ahead of objects.
const SMALL_PERCENT: f64 = 10.0;

/// Load and cache.
#[derive(Clone, Debug)]
pub struct Case {
    load: Source,
    /// Flash, in hundredths of the footprint; about, where the load is drawn.
    percent: u32,
    zones: u32,
    /// Most of a zone that `s3fifo` writes anew, in hundredths, beside what all cases try.
    quota: Option<u32>,
    seed: u64,
}

#[derive(Clone, Debug)]
enum Source {
    Drawn(String, Drawn),
    Trace(Arc<Load>),
}

impl Case {
    /// The loads with published statistics. Small objects are many: a cache of a few hundredths of them would take too many requests.
    #[must_use]
    pub fn named(seed: u64) -> Vec<Case> {
        let sizes: [&[(u32, u32)]; 6] = [
            &[(20, 64), (40, 64)],
            &[(5, 128), (10, 32), (10, 128), (10, 1024), (30, 128)],
            &[(16, 64)],
            &[(25, 32)],
            &[(2, 32)],
            &[(5, 64)],
        ];
        let loads = NAMED.into_iter().chain(TWITTER).zip(sizes);
        let cases = loads.flat_map(|((name, drawn), sizes)| {
            sizes.iter().map(move |size| Case::of(name, drawn, *size, seed))
        });
        cases.collect()
    }

    /// Settings that are drawn: 32 to 1,024 zones, as likely between any number and twice it, and any quota. What would take too many
    /// requests is drawn again.
    #[must_use]
    pub fn drawn(seed: u64) -> Case {
        let mut random = Random::from_seed(seed ^ 0x9011_C1E5);
        let drawn = Drawn::of_seed(seed);
        loop {
            let percent = [3, 5, 10, 20, 30, 40][random.index(6)];
            let case = Case::of("drawn", drawn, (percent, draw_zones(&mut random)), seed);
            let quota = u32::try_from(random.below(101)).expect("a hundred at most");
            if case.asks(&drawn) <= ASKS_MAX {
                return Case { quota: Some(quota), ..case };
            }
        }
    }

    /// A trace in each of these sizes and with so many zones.
    #[must_use]
    pub fn of_trace(load: Load, percents: &[u32], zones: &[u32]) -> Vec<Case> {
        let load = Arc::new(load);
        let sizes = percents.iter().flat_map(|percent| zones.iter().map(move |zones| (*percent, *zones)));
        let case = |(percent, zones)| Case {
            load: Source::Trace(Arc::clone(&load)),
            percent,
            zones,
            quota: None,
            seed: 1,
        };
        sizes.map(case).collect()
    }

    fn of(name: &str, drawn: Drawn, (percent, zones): (u32, u32), seed: u64) -> Case {
        Case { load: Source::Drawn(name.to_owned(), drawn), percent, zones, quota: None, seed }
    }

    fn setting(&self) -> String {
        let load = match &self.load {
            Source::Drawn(name, _) if self.quota.is_some() => format!("{name} {}", self.seed),
            Source::Drawn(name, _) => name.clone(),
            Source::Trace(load) => load.name.rsplit('/').next().unwrap_or_default().to_owned(),
        };
        format!("{load}, {} %, {} zones", self.percent, self.zones)
    }

    fn asks(&self, drawn: &Drawn) -> u64 {
        self.drawn_footprint(drawn) / drawn.mean_bytes * drawn.asks_per_object
    }

    fn drawn_footprint(&self, drawn: &Drawn) -> u64 {
        let zone_bytes = if drawn.mean_bytes < 1024 { ZONE_BYTES_SMALL } else { ZONE_BYTES };
        u64::from(self.zones) * zone_bytes * 100 / u64::from(self.percent)
    }

    fn load(&self) -> Arc<Load> {
        match &self.load {
            Source::Trace(load) => Arc::clone(load),
            Source::Drawn(name, drawn) => {
                Arc::new(drawn.load(&format!("{name}: {drawn}"), self.drawn_footprint(drawn), self.seed))
            }
        }
    }

    /// Bytes of flash.
    fn flash_bytes(&self, footprint: u64) -> u64 {
        let of = match &self.load {
            Source::Trace(_) => footprint,
            Source::Drawn(_, drawn) => self.drawn_footprint(drawn),
        };
        of * u64::from(self.percent) / 100
    }
}

/// From 32 to 1,024, evenly by their logarithm.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "32 to 1,024")]
fn draw_zones(random: &mut Random) -> u32 {
    let part = precise_u64(random.below(1_000_001)) / 1e6;
    (f64::from(ZONES_MIN) * (part * ZONES_DOUBLE).exp2()).round() as u32
}

/// Result of a policy, or of a model.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name; of `s3fifo` with what it may write anew, in hundredths.
    pub policy: String,
    /// Share of gets that hit.
    pub hit_ratio: f64,
    /// Share of bytes that hit.
    pub byte_hit_ratio: f64,
    /// All bytes written over those of keys and values admitted; none for a model, or when nothing was.
    pub write_amplification: Option<f64>,
    /// Share of bytes admitted that were written anew; none for a model.
    pub reinserted_share: Option<f64>,
    /// Zones that went; none for a model.
    pub zones_evicted: Option<u64>,
    /// Share of the zones that hold objects at the end; none for a model.
    pub data_share: Option<f64>,
}

/// Results of a case.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Load, flash that was asked for and zones, in words.
    pub setting: String,
    /// The load.
    pub load: String,
    /// Seed of the load.
    pub seed: u64,
    /// Requests.
    pub requests: u64,
    /// Bytes of all objects.
    pub footprint_bytes: u64,
    /// Bytes of flash.
    pub flash_bytes: u64,
    /// Flash, in hundredths of the footprint.
    pub flash_percent: f64,
    /// Zones of the drive.
    pub zones: u32,
    /// Policies and models.
    pub rows: Vec<Row>,
    /// `s3fifo` is ahead of regions by this, of hit ratios.
    pub ahead_of_regions: f64,
    /// `s3fifo` is ahead of objects by this.
    pub ahead_of_objects: f64,
    /// True when both bars are met.
    pub met: bool,
}

/// Runs all cases; `done` is told how many of how many runs are done.
///
/// # Errors
/// When a cache cannot be made like that.
pub fn run(cases: &[Case], done: impl Fn(usize, usize, &str) + Sync) -> Result<Vec<Outcome>> {
    let results = pool::map(cases, judge, |count, case| {
        done(count, cases.len(), &format!("{} zones, {} %", case.zones, case.percent));
    });
    results.into_iter().collect()
}

fn judge(case: &Case) -> Result<Outcome> {
    let load = case.load();
    let footprint = load.footprint();
    let flash_bytes = case.flash_bytes(footprint);
    let setting =
        Setting { flash_bytes, zones: case.zones, eviction: Eviction::default(), reinsert_percent: 0 };
    let mut rows = Vec::new();
    let policies = POLICIES.map(|(name, eviction, quota)| (name.to_owned(), eviction, quota));
    let quota = case.quota.map(|quota| (format!("s3fifo-{quota}"), Eviction::S3Fifo, quota));
    let is_new = |(name, ..): &(String, Eviction, u32)| policies.iter().all(|(own, ..)| own != name);
    let quota = quota.filter(is_new);
    for (name, eviction, reinsert_percent) in policies.iter().cloned().chain(quota) {
        let found = replay::play(&load, &Setting { eviction, reinsert_percent, ..setting.clone() })?;
        rows.push(Row::of_engine(name, &found));
    }
    for name in MODELS {
        let mut model = model_of(name, &setting, &load);
        rows.push(Row::of_model(name, play(&load, setting.object_bytes_max(), model.as_mut())));
    }
    let hit_ratio =
        |name: &str| rows.iter().find(|row| row.policy == name).expect("all of them were run").hit_ratio;
    let ahead_of_regions = hit_ratio("s3fifo") - hit_ratio("region-lru");
    let ahead_of_objects = hit_ratio("s3fifo") - hit_ratio("object-lru");
    let flash_percent = 100.0 * precise_u64(flash_bytes) / precise_u64(footprint);
    let least = least_to_objects(flash_percent);
    Ok(Outcome {
        setting: case.setting(),
        load: load.name.clone(),
        seed: case.seed,
        requests: load.asks.len() as u64,
        footprint_bytes: footprint,
        flash_bytes,
        flash_percent,
        zones: case.zones,
        rows,
        ahead_of_regions,
        ahead_of_objects,
        met: ahead_of_regions >= BAR_REGIONS && ahead_of_objects >= least,
    })
}

/// Least advance of `s3fifo` over objects with so much flash.
#[must_use]
pub fn least_to_objects(flash_percent: f64) -> f64 {
    if flash_percent <= SMALL_PERCENT { 0.0 } else { BAR_OBJECTS }
}

fn model_of(name: &str, setting: &Setting, load: &Load) -> Box<dyn Model> {
    let capacity = setting.flash_bytes;
    let region_bytes = (capacity / u64::from(setting.zones)).min(REGION_BYTES_MAX);
    match name {
        "object-lru" => Box::new(ObjectLru::new(capacity)),
        "object-sieve" => Box::new(Sieve::new(capacity)),
        "region-lru" => Box::new(RegionLru::new(capacity, region_bytes)),
        _ => Box::new(Belady::new(capacity, load)),
    }
}

impl Row {
    fn of_engine(policy: String, found: &Measured) -> Row {
        let counters = found.counters();
        let share = precise_u64(counters.bytes_reinserted) / precise_u64(counters.bytes_admitted.max(1));
        Row {
            write_amplification: found.status.write_amplification(),
            reinserted_share: Some(share),
            zones_evicted: Some(counters.zones_evicted),
            data_share: Some(found.data_share()),
            ..Row::of_model(&policy, found.score)
        }
    }

    fn of_model(policy: &str, score: Score) -> Row {
        Row {
            policy: policy.to_owned(),
            hit_ratio: score.hit_ratio(),
            byte_hit_ratio: score.byte_hit_ratio(),
            write_amplification: None,
            reinserted_share: None,
            zones_evicted: None,
            data_share: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_that_are_drawn_have_few_enough_requests() {
        for case in (0..200).map(Case::drawn).chain(Case::named(1)) {
            let Source::Drawn(name, drawn) = &case.load else { panic!("drawn") };
            assert!(case.asks(drawn) <= ASKS_MAX, "{name}: {drawn}");
            assert!((32..=1024).contains(&case.zones) && case.percent <= 100, "{case:?}");
        }
    }

    #[test]
    fn zones_and_quotas_are_drawn_from_all_of_their_ranges() {
        let cases: Vec<Case> = (0..400).map(Case::drawn).collect();
        for zones in [32..64, 64..128, 128..256, 256..512, 512..1025] {
            assert!(cases.iter().any(|case| zones.contains(&case.zones)), "{zones:?}");
        }
        for quota in 0..10 {
            let is_in = |case: &Case| case.quota.is_some_and(|own| own / 10 == quota);
            assert!(cases.iter().any(is_in), "{quota}");
        }
        assert!(cases.iter().filter(|case| case.zones.is_power_of_two()).count() < 100);
    }

    #[test]
    fn a_case_sets_engine_and_models_beside_each_other() {
        let drawn = Drawn { mean_bytes: 8_000, median_bytes: 4_000, asks_per_object: 4, ..NAMED[1].1 };
        let load = drawn.load("small", 64 << 20, 1);
        let mut cases = Case::of_trace(load, &[50], &[32]);
        cases.extend([
            Case { quota: Some(37), ..cases[0].clone() },
            Case { quota: Some(100), ..cases[0].clone() },
        ]);
        let outcomes = run(&cases, |_, _, _| ()).unwrap();
        let rows = &outcomes[0].rows;
        assert_eq!(rows.len(), POLICIES.len() + MODELS.len());
        assert_eq!(outcomes[1].rows[POLICIES.len()].policy, "s3fifo-37");
        assert_eq!(outcomes[2].rows.len(), rows.len(), "what all cases try is not tried twice");
        let best = rows.iter().find(|row| row.policy == "belady").unwrap().hit_ratio;
        assert!(rows.iter().all(|row| row.hit_ratio > 0.0 && row.hit_ratio <= best), "{rows:?}");
        let amplified = rows[0].write_amplification.unwrap();
        assert!((1.0..2.0).contains(&amplified), "{amplified}");
        assert!((49.0..50.1).contains(&outcomes[0].flash_percent));
    }
}
