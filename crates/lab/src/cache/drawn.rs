//! Loads that are drawn: popularity by Zipf's law, objects that are asked for once, objects that replace others, stores, sizes by a
//! lognormal distribution.

use super::load::{Ask, Kind, Load};
use crate::experiment::clients::Zipf;
use crate::precise::precise_u64;
use base::random::Random;
use std::fmt;

/// Statistics of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Skew of popularity, in hundredths.
    pub skew_percent: u64,
    /// Requests in a thousand for objects that nobody asks for again.
    pub once_per_mille: u64,
    /// Requests in a thousand with which a new object takes the popularity of another one.
    pub churn_per_mille: u64,
    /// Requests in a thousand that store, beside those that store what they missed.
    pub stores_per_mille: u64,
    /// Median bytes of objects.
    pub median_bytes: u64,
    /// Mean bytes of objects.
    pub mean_bytes: u64,
    /// Requests for each of the popular objects, on the mean.
    pub asks_per_object: u64,
}

/// Loads with the statistics that Meta publishes of two of its caches (the hit ratio configurations of `CacheLib`'s `cachebench`): slopes fitted
/// to the popularity buckets, weighted by requests; the shares of objects that are asked for once are theirs.
pub const NAMED: [(&str, Drawn); 2] = [
    (
        "kv",
        Drawn {
            skew_percent: 100,
            once_per_mille: 135,
            churn_per_mille: 0,
            stores_per_mille: 0,
            median_bytes: 160,
            mean_bytes: 351,
            asks_per_object: 8,
        },
    ),
    (
        "cdn",
        Drawn {
            skew_percent: 59,
            once_per_mille: 9,
            churn_per_mille: 0,
            stores_per_mille: 0,
            median_bytes: 13_000,
            mean_bytes: 33_000,
            asks_per_object: 5,
        },
    ),
];

/// Clusters of Twitter's caches by their published means (`stat/2020Mar.md` of twitter/cache-trace; Yang, Yue and Rashmi, OSDI '20), CC BY 4.0.
///
/// Exponent of Zipf's law and mean bytes of key and value are theirs; stores are those that are more than the misses; requests for each object
/// give about as many first requests as theirs. Of sizes there are means only, so all objects of a cluster have one size. Zipf's law asks for
/// more objects once than the clusters do, so no others are.
pub const TWITTER: [(&str, Drawn); 4] = [
    ("twitter-48", cluster(82, 200, 114, 2)),
    ("twitter-52", cluster(121, 20, 293, 17)),
    ("twitter-29", cluster(123, 0, 835, 3)),
    ("twitter-53", cluster(121, 50, 9249, 17)),
];

const fn cluster(skew_percent: u64, stores_per_mille: u64, bytes: u64, asks_per_object: u64) -> Drawn {
    Drawn {
        skew_percent,
        once_per_mille: 0,
        churn_per_mille: 0,
        stores_per_mille,
        median_bytes: bytes,
        mean_bytes: bytes,
        asks_per_object,
    }
}

impl Drawn {
    /// Draws statistics.
    #[must_use]
    pub fn of_seed(seed: u64) -> Drawn {
        let mut random = Random::from_seed(seed ^ 0xCAC4E);
        let median_bytes = 512 << random.below(6);
        Drawn {
            skew_percent: 50 + random.below(71),
            once_per_mille: [0, 10, 100, 300, 600][random.index(5)],
            churn_per_mille: [0, 1, 10, 50][random.index(4)],
            median_bytes,
            mean_bytes: median_bytes * (10 + random.below(21)) / 10,
            asks_per_object: 4 + random.below(9),
            stores_per_mille: [0, 0, 20, 200][random.index(4)],
        }
    }

    /// Requests of objects that take about so many bytes.
    ///
    /// # Panics
    /// When there is no room for an object.
    #[must_use]
    pub fn load(&self, name: &str, footprint: u64, seed: u64) -> Load {
        // Objects that are asked for once, or that replace others, count as much as popular ones do.
        let fresh_per_mille =
            self.once_per_mille + (1000 - self.once_per_mille) * self.churn_per_mille / 1000;
        let per_object = self.asks_per_object * fresh_per_mille + 1000;
        let count = footprint / self.mean_bytes * 1000 / per_object;
        assert!(count > 0, "there is room for an object");
        let mut random = Random::from_seed(seed);
        let zipf = Zipf::new(count, precise_u64(self.skew_percent) / 100.0);
        let mut objects: Vec<u64> = (0..count).collect();
        let mut fresh = count;
        let salt = random.bits();
        let asks = (0..count * self.asks_per_object).map(|_| {
            let is_once = random.chance(self.once_per_mille, 1000);
            let rank = usize::try_from(zipf.rank(&mut random)).expect("ranks of objects in memory");
            let is_new = !is_once && random.chance(self.churn_per_mille, 1000);
            fresh += u64::from(is_once || is_new);
            if is_new {
                objects[rank] = fresh;
            }
            let key = if is_once { fresh } else { objects[rank] };
            let is_store =
                !is_once && self.stores_per_mille > 0 && random.chance(self.stores_per_mille, 1000);
            let kind = if is_store { Kind::Set } else { Kind::Get };
            Ask { key, bytes: self.bytes_of(key, salt), kind }
        });
        Load { name: name.to_owned(), asks: asks.collect() }
    }

    /// Bytes of an object, always the same.
    fn bytes_of(&self, key: u64, salt: u64) -> u32 {
        let mut random = Random::from_seed(key ^ salt);
        let mut share = || precise_u64((random.bits() >> 11) + 1) / precise_u64(1 << 53);
        let normal = (-2.0 * share().ln()).sqrt() * (std::f64::consts::TAU * share()).cos();
        let sigma = (2.0 * (precise_u64(self.mean_bytes) / precise_u64(self.median_bytes)).ln()).sqrt();
        let bytes = precise_u64(self.median_bytes) * (sigma * normal).exp();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to what objects have"
        )]
        let bytes = bytes.clamp(f64::from(BYTES_MIN), f64::from(BYTES_MAX)) as u32;
        bytes
    }
}

/// Least bytes of an object: those of a key, and a little.
const BYTES_MIN: u32 = 32;
/// Most bytes of an object.
const BYTES_MAX: u32 = 8 << 20;

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "zipf {:.2}, {:.1} % once, {:.1} % replaced, {:.1} % stores, {} B median, {} B mean",
            precise_u64(self.skew_percent) / 100.0,
            precise_u64(self.once_per_mille) / 10.0,
            precise_u64(self.churn_per_mille) / 10.0,
            precise_u64(self.stores_per_mille) / 10.0,
            self.median_bytes,
            self.mean_bytes
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn loads_have_the_statistics_that_they_say() {
        for (name, drawn) in NAMED {
            let load = drawn.load(name, 64 << 20, 3);
            let again = drawn.load(name, 64 << 20, 3);
            assert_eq!(load.asks, again.asks, "{name}");
            let mut asked: HashMap<u64, (u32, u64)> = HashMap::new();
            for ask in &load.asks {
                asked.entry(ask.key).or_insert((ask.bytes, 0)).1 += 1;
                assert_eq!(asked[&ask.key].0, ask.bytes, "an object has one size");
            }
            let sum: u64 = asked.values().map(|(bytes, _)| u64::from(*bytes)).sum();
            let mean = sum / asked.len() as u64;
            assert!(
                mean.abs_diff(drawn.mean_bytes) * 5 < drawn.mean_bytes,
                "{name}: {mean} bytes on the mean"
            );
            let mut sizes: Vec<u32> = asked.values().map(|(bytes, _)| *bytes).collect();
            sizes.sort_unstable();
            let median = u64::from(sizes[sizes.len() / 2]);
            assert!(median.abs_diff(drawn.median_bytes) * 10 < drawn.median_bytes, "{name}: {median} bytes");
        }
    }

    #[test]
    fn clusters_have_the_first_requests_that_are_published() {
        // Compulsory miss ratios of clusters 48, 52, 29 and 53.
        for ((name, drawn), wanted) in TWITTER.into_iter().zip([0.284, 0.0307, 0.0445, 0.0362]) {
            let footprint = 3_000_000 / drawn.asks_per_object * drawn.mean_bytes;
            let load = drawn.load(name, footprint, 3);
            let objects: HashSet<u64> = load.asks.iter().map(|ask| ask.key).collect();
            let first = precise_u64(objects.len() as u64) / precise_u64(load.asks.len() as u64);
            assert!((first / wanted - 1.0).abs() < 0.2, "{name}: {first} of {wanted}");
            assert!(load.asks.iter().all(|ask| u64::from(ask.bytes) == drawn.mean_bytes), "{name}");
            let stores = load.asks.iter().filter(|ask| ask.kind == Kind::Set).count() as u64;
            let stores = stores * 1000 / load.asks.len() as u64;
            assert!(stores.abs_diff(drawn.stores_per_mille) < 5, "{name}: {stores}");
        }
    }

    #[test]
    fn objects_that_are_replaced_are_not_asked_for_any_more() {
        let drawn = Drawn { churn_per_mille: 50, once_per_mille: 300, ..NAMED[0].1 };
        let load = drawn.load("churn", 4 << 20, 1);
        let mut last = HashMap::new();
        for (at, ask) in load.asks.iter().enumerate() {
            last.insert(ask.key, at);
        }
        let gone = last.values().filter(|at| **at < load.asks.len() / 2).count();
        assert!(
            gone * 4 > last.len(),
            "{gone} of {} objects are not asked for in the second half",
            last.len()
        );
    }

    #[test]
    fn footprints_are_about_what_was_asked_for() {
        for seed in 0..20 {
            let drawn = Drawn::of_seed(seed);
            let footprint = drawn.load("drawn", 32 << 20, seed).footprint();
            assert!((8 << 20..64 << 20).contains(&footprint), "{drawn}: {footprint}");
        }
    }
}
