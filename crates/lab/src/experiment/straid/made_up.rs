//! Made-up traces with the figures that the StRAID paper quotes of its six (table 4 and section 5.4).
//!
//! *Quoted*: how many reads there are for each write, and the mean size of both; of `prxy_0`, that 66 % of its writes are sequential. *Chosen*, since
//! nothing is said: sizes are geometric about their mean, whole blocks of 4 KiB, a MiB at most; the same share of writes is
//! sequential in the other traces, in four streams of 64 requests in the mean, which begin anywhere; other writes, and all reads, go to places by Zipf's law
//! with a skew of 0.99, spread over a GiB.
//!
//! Of `prxy_0` it is also said that 9.5 % of its writes are of 40 KB or more, "0.51 million": that is 4.2 % of 12.14 million, and with a
//! mean of 4.65 KiB in whole blocks even those are too many. So each of its writes has one block or ten, and as many have ten as the
//! mean leaves room for: 1.8 %.

use super::super::clients::{Zipf, scatter};
use super::super::published::Published;
use crate::trace::{Event, Op};
use base::random::Random;
use base::time::Nanos;

/// Blocks that a trace reaches: 1 GiB.
pub const VOLUME_BLOCKS: u64 = 1 << 18;
const MILLION: u64 = 1_000_000;
/// Skew of the places that are not sequential.
const SKEW: f64 = 0.99;
/// Sequential writes of a hundred.
const SEQUENTIAL_PERCENT: u64 = 66;
const STREAMS: usize = 4;
/// Requests of a stream in the mean.
const STREAM_REQUESTS: u64 = 64;
const BLOCKS_MAX: u32 = 256;
/// Blocks of the large writes of `prxy_0`.
const LARGE_BLOCKS: u32 = 10;

/// Trace of the table: names of its published numbers.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    /// As the table has it.
    pub name: &'static str,
    /// Reads per write.
    pub reads: &'static str,
    /// Mean size of a write, in KiB.
    pub write_kib: &'static str,
    /// Mean size of a read, in KiB.
    pub read_kib: &'static str,
}

macro_rules! traces {
    ($($name:literal),*) => {
        [$(Trace {
            name: $name,
            reads: concat!("straid-", $name, "-reads"),
            write_kib: concat!("straid-", $name, "-write-kib"),
            read_kib: concat!("straid-", $name, "-read-kib"),
        }),*]
    };
}

/// The traces of table 4.
pub const TRACES: [Trace; 6] = traces!("pangu-a", "pangu-b", "prxy_0", "prn_0", "varmail", "fileserver");
/// The trace that a given one takes the place of, and that the cache is measured with.
pub const PRXY_0: &str = "prxy_0";

/// Distribution of sizes.
#[derive(Clone, Copy, Debug)]
enum Sizes {
    /// Geometric distribution: one more block in so many of a million cases, again and again.
    Geometric(u64),
    /// Two sizes: one block, or [`LARGE_BLOCKS`] in so many of a million cases.
    OneOrLarge(u64),
}

/// Millionths of a share.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share from 0 to 1")]
fn millionths(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * 1e6).round() as u64
}

impl Sizes {
    fn new(mean_kib: f64, is_large: bool) -> Sizes {
        let blocks = mean_kib / 4.0;
        match is_large {
            true => Sizes::OneOrLarge(millionths((blocks - 1.0) / f64::from(LARGE_BLOCKS - 1))),
            false => Sizes::Geometric(millionths(1.0 - 1.0 / blocks)),
        }
    }

    fn choose(self, random: &mut Random) -> u32 {
        match self {
            Sizes::OneOrLarge(share) => {
                if random.chance(share, MILLION) {
                    LARGE_BLOCKS
                } else {
                    1
                }
            }
            Sizes::Geometric(share) => {
                let more = (1..BLOCKS_MAX).take_while(|_| random.chance(share, MILLION));
                1 + u32::try_from(more.count()).expect("below 256")
            }
        }
    }
}

/// Requests of a trace, as many as move so many blocks; the same for a seed.
#[must_use]
pub fn events(trace: &Trace, blocks: u64, seed: u64) -> Vec<Event> {
    let published = Published::load();
    let value = |id| published.number(id).value;
    let writes_share = millionths(1.0 / (1.0 + value(trace.reads)));
    let of_writes = Sizes::new(value(trace.write_kib), trace.name == PRXY_0);
    let of_reads = Sizes::new(value(trace.read_kib), false);
    let mut places = Places::new(seed);
    let (mut events, mut moved) = (Vec::new(), 0);
    while moved < blocks {
        let writes = places.random.chance(writes_share, MILLION);
        let sizes = if writes { of_writes } else { of_reads };
        let blocks = sizes.choose(&mut places.random);
        let lba = if writes { places.of_write(blocks) } else { places.anywhere(blocks) };
        events.push(Event { at: Nanos(0), op: Op::of(writes), lba, blocks });
        moved += u64::from(blocks);
    }
    events
}

/// Places of requests.
struct Places {
    random: Random,
    zipf: Zipf,
    /// Block that comes next in each stream.
    streams: [u64; STREAMS],
}

impl Places {
    fn new(seed: u64) -> Places {
        let mut random = Random::from_seed(seed ^ 0x0057_4A1D);
        let streams = [(); STREAMS].map(|()| random.below(VOLUME_BLOCKS));
        Places { random, zipf: Zipf::new(VOLUME_BLOCKS, SKEW), streams }
    }

    fn of_write(&mut self, blocks: u32) -> u64 {
        if !self.random.chance(SEQUENTIAL_PERCENT, 100) {
            return self.anywhere(blocks);
        }
        let stream = self.random.index(STREAMS);
        if self.random.chance(1, STREAM_REQUESTS) {
            self.streams[stream] = self.random.below(VOLUME_BLOCKS);
        }
        let first = within(self.streams[stream], blocks);
        self.streams[stream] = first + u64::from(blocks);
        first
    }

    fn anywhere(&mut self, blocks: u32) -> u64 {
        within(scatter(self.zipf.rank(&mut self.random), VOLUME_BLOCKS), blocks)
    }
}

/// A place from which so many blocks lie within the volume: this one, or the beginning.
fn within(lba: u64, blocks: u32) -> u64 {
    if lba + u64::from(blocks) > VOLUME_BLOCKS { 0 } else { lba }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_gives_one_trace_within_the_volume() {
        for trace in &TRACES {
            let [first, again, other] = [1, 1, 2].map(|seed| events(trace, 20_000, seed));
            assert!(first == again && first != other, "{}", trace.name);
            let is_within = |event: &Event| event.lba + u64::from(event.blocks) <= VOLUME_BLOCKS;
            assert!(first.iter().all(is_within), "{}", trace.name);
        }
    }

    /// As many writes begin where one of the last hundred ended as are said to be sequential, less the first of each stream.
    #[test]
    fn as_many_writes_are_sequential_as_are_quoted() {
        let trace = TRACES.iter().find(|trace| trace.name == PRXY_0).unwrap();
        let writes: Vec<Event> =
            events(trace, 100_000, 3).into_iter().filter(|event| event.op == Op::Write).collect();
        let end = |event: &Event| event.lba + u64::from(event.blocks);
        let follows = |window: &&[Event]| {
            let (last, before) = window.split_last().expect("a hundred");
            before.iter().map(end).collect::<BTreeSet<u64>>().contains(&last.lba)
        };
        let share = 100 * writes.windows(100).filter(follows).count() / (writes.len() - 99);
        assert!((62..=69).contains(&share), "{share} %");
    }
}
