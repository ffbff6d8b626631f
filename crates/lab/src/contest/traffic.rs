//! Traffic: what clients of a cell send, in a closed loop.

use crate::experiment::clients::{Sizes, Zipf, scatter};
use crate::experiment::rig::{Answer, Ask, Rig, bytes_of};
use crate::precise::precise_u64;
use crate::workload::Measured;
use anyhow::Result;
use base::random::Random;
use base::time::{Instant, Nanos};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The hot spot moves on once so many requests were drawn for each of its blocks.
const HOT_SPOT_ROUNDS: u64 = 4;

/// Load of clients.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Traffic {
    /// Reads in a hundred requests.
    pub reads_percent: u64,
    /// Sizes of requests.
    pub sizes: Sizes,
    /// Requests in flight.
    pub depth: u32,
    /// Places of requests.
    pub pattern: Pattern,
    /// Pauses between bursts of requests; none is a steady load.
    pub pauses: Option<Pauses>,
}

/// Places of requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Any with the same chance.
    Uniform,
    /// By Zipf's law, popular places spread over the volume.
    Zipf {
        /// Skew, times a hundred.
        skew_percent: u64,
    },
    /// A part of the volume takes most requests, and moves on.
    HotSpot {
        /// Size of the part, of the volume.
        size_percent: u64,
        /// Requests to it, of all.
        requests_percent: u64,
    },
    /// Streams of requests one after the other.
    Streams {
        /// Count of streams.
        count: u64,
    },
}

/// Pauses of an on-off load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pauses {
    /// Requests between two pauses.
    pub requests: u64,
    /// Length of a pause.
    #[serde(serialize_with = "as_nanos")]
    pub idle: Nanos,
}

fn as_nanos<S: serde::Serializer>(time: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.0)
}

impl Traffic {
    /// Blocks of a request in the mean.
    #[must_use]
    pub fn blocks_mean(&self) -> f64 {
        precise_u64(self.sizes.bytes_mean()) / precise_u64(bytes_of(1))
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = |blocks: u32| bytes_of(blocks) / 1024;
        match self.sizes {
            Sizes::Equal(blocks) => write!(f, "{}k", kib(blocks))?,
            Sizes::Split([one, other], percent) => {
                write!(f, "{}k/{percent}:{}k/{}", kib(one), kib(other), 100 - percent)?;
            }
        }
        write!(f, " depth {}, {} % reads, ", self.depth, self.reads_percent)?;
        match self.pattern {
            Pattern::Uniform => f.write_str("uniform")?,
            Pattern::Zipf { skew_percent } => write!(f, "zipf {:.2}", precise_u64(skew_percent) / 100.0)?,
            Pattern::HotSpot { size_percent, requests_percent } => {
                write!(f, "{requests_percent} % to a moving {size_percent} %")?;
            }
            Pattern::Streams { count } => write!(f, "{count} streams")?,
        }
        if let Some(Pauses { requests, idle }) = self.pauses {
            write!(f, ", {} ms idle after {requests}", idle.0 / 1_000_000)?;
        }
        Ok(())
    }
}

/// Source of requests.
pub struct Generator<'a> {
    traffic: &'a Traffic,
    /// Places to choose from, multiples of the smaller size.
    places: u64,
    place_blocks: u64,
    zipf: Option<Zipf>,
    /// Next place of each stream.
    streams: Vec<u64>,
    drawn: u64,
    random: Random,
}

impl<'a> Generator<'a> {
    /// Requests for a volume.
    ///
    /// # Panics
    /// When the volume has no room for a request.
    #[must_use]
    pub fn new(traffic: &'a Traffic, volume_blocks: u64, seed: u64) -> Generator<'a> {
        let largest = u64::from(traffic.sizes.blocks_max());
        assert!(largest <= volume_blocks, "a volume has room for a request");
        let place_blocks = u64::from(traffic.sizes.blocks_min());
        let places = (volume_blocks - largest) / place_blocks + 1;
        let mut random = Random::from_seed(seed ^ 0x00C0_47E5);
        let zipf = match traffic.pattern {
            Pattern::Zipf { skew_percent } => Some(Zipf::new(places, precise_u64(skew_percent) / 100.0)),
            _ => None,
        };
        let count = if let Pattern::Streams { count } = traffic.pattern { count } else { 0 };
        let streams = (0..count).map(|_| random.below(places)).collect();
        Generator { traffic, places, place_blocks, zipf, streams, drawn: 0, random }
    }

    /// Draws the next request.
    pub fn draw(&mut self) -> Ask {
        self.drawn += 1;
        let writes = !self.random.chance(self.traffic.reads_percent, 100);
        let blocks = self.traffic.sizes.choose(&mut self.random);
        let place = self.place(blocks);
        Ask { writes, lba: place * self.place_blocks, blocks }
    }

    fn place(&mut self, blocks: u32) -> u64 {
        match self.traffic.pattern {
            Pattern::Uniform => self.random.below(self.places),
            Pattern::Zipf { .. } => {
                let zipf = self.zipf.as_ref().expect("made with the generator");
                scatter(zipf.rank(&mut self.random), self.places)
            }
            Pattern::HotSpot { size_percent, requests_percent } => {
                if !self.random.chance(requests_percent, 100) {
                    return self.random.below(self.places);
                }
                let size = (self.places * size_percent / 100).max(1);
                let moves = self.drawn / (HOT_SPOT_ROUNDS * size);
                (moves * size + self.random.below(size)) % self.places
            }
            Pattern::Streams { .. } => {
                let stream = self.random.index(self.streams.len());
                let place = self.streams[stream];
                let next = place + u64::from(blocks).div_ceil(self.place_blocks);
                self.streams[stream] = if next < self.places { next } else { 0 };
                place
            }
        }
    }
}

/// Sends so many requests and waits for all of them; pauses are not measured.
///
/// # Errors
/// When a request fails.
pub fn run(rig: &mut Rig, generator: &mut Generator<'_>, requests: u64) -> Result<Measured> {
    let mut measured = Measured::default();
    let burst = generator.traffic.pauses.map_or(requests, |pauses| pauses.requests);
    let mut left = requests;
    while left > 0 {
        let now = burst.min(left);
        run_burst(rig, generator, now, &mut measured)?;
        left -= now;
        if let Some(pauses) = generator.traffic.pauses {
            rig.idle(pauses.idle)?;
        }
    }
    Ok(measured)
}

fn run_burst(
    rig: &mut Rig,
    generator: &mut Generator<'_>,
    requests: u64,
    measured: &mut Measured,
) -> Result<()> {
    let begin = rig.now();
    let mut submitted: BTreeMap<u64, (Instant, u32)> = BTreeMap::new();
    let (mut asked, mut end) = (0, begin);
    let mut answers: Vec<Answer> = Vec::new();
    let depth = u64::from(generator.traffic.depth);
    let mut answered = 0;
    while answered < requests {
        while asked < requests && asked - answered < depth {
            let ask = generator.draw();
            submitted.insert(rig.submit(ask), (rig.now(), ask.blocks));
            asked += 1;
        }
        rig.wait(None, &mut answers)?;
        for answer in answers.drain(..) {
            let (since, blocks) = submitted.remove(&answer.id).expect("answered once");
            measured.latencies_us.push(precise_u64(answer.at.since(since).0) / 1000.0);
            measured.bytes += bytes_of(blocks);
            (answered, end) = (answered + 1, answer.at);
        }
    }
    measured.span_us += precise_u64(end.since(begin).0) / 1000.0;
    Ok(())
}
