//! Clients in a closed loop: so many requests in flight, each followed by another.

use super::rig::{Answer, Array, Ask, bytes_of};
use crate::precise::precise_u64;
use crate::workload::Measured;
use anyhow::Result;
use base::random::Random;
use base::time::Instant;
use serde::Serialize;
use std::collections::BTreeMap;

/// Places that requests go to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Places {
    /// Places one after the other, again from the start when the volume is through.
    Sequential,
    /// Any with the same chance.
    Uniform,
    /// Nine of ten to the first so many blocks, the others anywhere.
    Hot(u64),
    /// By Zipf's law with this skew, popular places spread over the volume, as fio does it.
    Zipf(f64),
}

/// Sizes of requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sizes {
    /// All of so many blocks.
    Equal(u32),
    /// The first count of blocks in so many of a hundred cases, the second in the others (`bssplit` of fio).
    Split([u32; 2], u64),
}

impl Sizes {
    /// Bytes of a request in the mean.
    #[must_use]
    pub fn bytes_mean(self) -> u64 {
        match self {
            Sizes::Equal(blocks) => bytes_of(blocks),
            Sizes::Split([first, second], percent) => {
                (bytes_of(first) * percent + bytes_of(second) * (100 - percent)) / 100
            }
        }
    }

    /// The larger size.
    #[must_use]
    pub fn blocks_max(self) -> u32 {
        match self {
            Sizes::Equal(blocks) => blocks,
            Sizes::Split(blocks, _) => blocks[0].max(blocks[1]),
        }
    }

    /// Returns the alignment of requests in blocks: the smaller size, as in fio.
    #[must_use]
    pub fn blocks_min(self) -> u32 {
        match self {
            Sizes::Equal(blocks) => blocks,
            Sizes::Split(blocks, _) => blocks[0].min(blocks[1]),
        }
    }

    /// Draws the size of a request.
    #[must_use]
    pub fn choose(self, random: &mut Random) -> u32 {
        match self {
            Sizes::Equal(blocks) => blocks,
            Sizes::Split(blocks, first_percent) => blocks[usize::from(random.below(100) >= first_percent)],
        }
    }
}

/// Load of clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Write, or else read.
    pub writes: bool,
    /// Places of the requests.
    pub places: Places,
    /// Sizes of the requests.
    pub sizes: Sizes,
    /// Requests in flight.
    pub queue_depth: u32,
    /// Requests before the measurement: buffers fill, stripes spread.
    pub warm_up: u64,
    /// Requests measured.
    pub requests: u64,
    /// Count only reads of blocks that had to be decoded; one request is in flight then.
    pub only_degraded: bool,
}

/// Runs a load and measures it.
///
/// # Errors
/// When a request fails.
pub fn run(rig: &mut impl Array, load: &Load, seed: u64) -> Result<Measured> {
    let mut chooser = Chooser::new(load, rig.volume_blocks(), seed);
    let mut submitted: BTreeMap<u64, (Instant, u32)> = BTreeMap::new();
    let mut measured = Measured::default();
    let (mut answered, mut degraded, mut begin) = (0, rig.blocks_decoded(), rig.now());
    let mut answers: Vec<Answer> = Vec::new();
    for _ in 0..load.queue_depth {
        ask(rig, &mut chooser, &mut submitted);
    }
    let wanted = |measured: &Measured| (measured.latencies_us.len() as u64) < load.requests;
    while wanted(&measured) {
        rig.wait(None, &mut answers)?;
        for answer in answers.drain(..) {
            let (since, blocks) = submitted.remove(&answer.id).expect("answered once");
            let decoded = rig.blocks_decoded();
            let counts = !load.only_degraded || decoded > degraded;
            degraded = decoded;
            answered += 1;
            if answered <= load.warm_up {
                begin = answer.at;
            } else if counts && wanted(&measured) {
                measured.latencies_us.push(precise_u64(answer.at.since(since).0) / 1000.0);
                measured.bytes += bytes_of(blocks);
                measured.span_us = precise_u64(answer.at.since(begin).0) / 1000.0;
            }
            ask(rig, &mut chooser, &mut submitted);
        }
    }
    drain(rig, submitted.len())?;
    Ok(measured)
}

/// Submits one request more, and notes when it was asked for and its blocks.
fn ask(rig: &mut impl Array, chooser: &mut Chooser, submitted: &mut BTreeMap<u64, (Instant, u32)>) {
    let ask = chooser.next_ask();
    let id = rig.submit(ask);
    submitted.insert(id, (rig.now(), ask.blocks));
}

/// Waits for what is left.
fn drain(rig: &mut impl Array, mut left: usize) -> Result<()> {
    let mut answers = Vec::new();
    while left > 0 {
        rig.wait(None, &mut answers)?;
        left -= answers.len();
        answers.clear();
    }
    Ok(())
}

/// Writes the whole volume once, in order, by requests of this size, many at a time.
///
/// # Errors
/// When a request fails.
pub fn fill(rig: &mut impl Array, request_blocks: u32) -> Result<()> {
    let requests = rig.volume_blocks() / u64::from(request_blocks);
    let load = Load {
        writes: true,
        places: Places::Sequential,
        sizes: Sizes::Equal(request_blocks),
        queue_depth: 64,
        warm_up: 0,
        requests,
        only_degraded: false,
    };
    run(rig, &load, 0)?;
    Ok(())
}

/// Writes so many blocks at random, 64 requests at a time: half of requests are of one block, half of 16.
///
/// # Errors
/// When a request fails.
pub fn write_at_random(rig: &mut impl Array, blocks: u64, seed: u64) -> Result<()> {
    let sizes = Sizes::Split([1, 16], 50);
    let load = Load {
        writes: true,
        places: Places::Uniform,
        sizes,
        queue_depth: 64,
        warm_up: 0,
        requests: bytes_of(1) * blocks / sizes.bytes_mean(),
        only_degraded: false,
    };
    run(rig, &load, seed)?;
    Ok(())
}

/// Chooses where requests go.
pub struct Chooser {
    writes: bool,
    places: Places,
    sizes: Sizes,
    /// Places to choose from.
    count: u64,
    next: u64,
    random: Random,
    zipf: Option<Zipf>,
}

impl Chooser {
    /// Requests of a load to a volume of so many blocks.
    ///
    /// # Panics
    /// When a request is larger than the volume.
    #[must_use]
    pub fn new(load: &Load, volume_blocks: u64, seed: u64) -> Chooser {
        let largest = u64::from(load.sizes.blocks_max());
        assert!(largest <= volume_blocks, "a volume has room for a request");
        let count = (volume_blocks - largest) / u64::from(load.sizes.blocks_min()) + 1;
        let zipf = match load.places {
            Places::Zipf(skew) => Some(Zipf::new(count, skew)),
            Places::Sequential | Places::Uniform | Places::Hot(_) => None,
        };
        Chooser {
            writes: load.writes,
            places: load.places,
            sizes: load.sizes,
            count,
            next: 0,
            random: Random::from_seed(seed ^ 0x00C1_1E47),
            zipf,
        }
    }

    /// The next request.
    pub fn next_ask(&mut self) -> Ask {
        let place = match (self.places, &self.zipf) {
            (Places::Zipf(_), Some(zipf)) => scatter(zipf.rank(&mut self.random), self.count),
            (Places::Sequential, _) => self.next % self.count,
            (Places::Hot(blocks), _) if self.random.chance(9, 10) => {
                self.random.below(blocks.min(self.count))
            }
            (Places::Uniform | Places::Hot(_) | Places::Zipf(_), _) => self.random.below(self.count),
        };
        self.next += 1;
        let lba = place * u64::from(self.sizes.blocks_min());
        Ask { writes: self.writes, lba, blocks: self.sizes.choose(&mut self.random) }
    }
}

/// A place of its own for each rank, far from those of its neighbours.
#[must_use]
pub fn scatter(rank: u64, count: u64) -> u64 {
    // Steps of the golden section, made coprime to the count, visit every place once.
    let mut step = (count * 618 / 1000).max(1);
    while greatest_common_divisor(step, count) != 1 {
        step += 1;
    }
    u64::try_from(u128::from(rank) * u128::from(step) % u128::from(count)).expect("below the count")
}

fn greatest_common_divisor(first: u64, second: u64) -> u64 {
    if second == 0 { first } else { greatest_common_divisor(second, first % second) }
}

/// Ranks by Zipf's law: rank r (from 0) with a probability proportional to (r + 1)^-skew.
pub struct Zipf {
    /// Probability of all ranks up to each, times the sum of all.
    cumulated: Vec<f64>,
}

impl Zipf {
    /// Ranks below a count, with this skew.
    #[must_use]
    pub fn new(count: u64, skew: f64) -> Zipf {
        let mut sum = 0.0;
        let cumulated = (1..=count).map(|rank| {
            sum += precise_u64(rank).powf(-skew);
            sum
        });
        Zipf { cumulated: cumulated.collect() }
    }

    /// Draws a rank.
    pub fn rank(&self, random: &mut Random) -> u64 {
        let all = self.cumulated.last().copied().unwrap_or(0.0);
        // 53 bits: what a double holds.
        let share = precise_u64(random.bits() >> 11) / precise_u64(1 << 53);
        let rank = self.cumulated.partition_point(|sum| *sum <= share * all);
        (rank as u64).min(self.cumulated.len() as u64 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn places_of_ranks_are_all_places() {
        for count in [1, 2, 7, 100, 1024] {
            let places: BTreeSet<u64> = (0..count).map(|rank| scatter(rank, count)).collect();
            assert_eq!(places, (0..count).collect());
        }
    }

    /// The last place leaves room for the larger size, whichever comes.
    #[test]
    fn requests_of_two_sizes_come_in_their_shares_and_stay_in_the_volume() {
        let load = Load {
            writes: true,
            places: Places::Uniform,
            sizes: Sizes::Split([1, 4], 75),
            queue_depth: 1,
            warm_up: 0,
            requests: 1,
            only_degraded: false,
        };
        let mut chooser = Chooser::new(&load, 6, 1);
        let asks: Vec<Ask> = (0..30_000).map(|_| chooser.next_ask()).collect();
        assert!(asks.iter().all(|ask| ask.lba + u64::from(ask.blocks) <= 6));
        assert!((0..3).all(|lba| asks.iter().any(|ask| (ask.lba, ask.blocks) == (lba, 4))));
        let small = asks.iter().filter(|ask| ask.blocks == 1).count();
        assert!((22_000..23_000).contains(&small), "{small}");
    }

    /// With skew 1 over two ranks, the first comes twice as often as the second.
    #[test]
    fn ranks_follow_zipfs_law() {
        let zipf = Zipf::new(2, 1.0);
        let mut random = Random::from_seed(1);
        let first = (0..30_000).filter(|_| zipf.rank(&mut random) == 0).count();
        assert!((19_500..20_500).contains(&first), "{first}");
    }
}
