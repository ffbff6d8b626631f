//! A made-up trace with the statistics that the ZapRAID paper quotes of the volumes it chose (sections 2.2 and 5.3).
//!
//! Quoted: more than 60 % of writes of at most 4 KiB, more than 25 % of at least 16 KiB, 88.3 % of requests writes (in
//! 18 of 20 volumes at least). Chosen, since nothing is said: sizes within those classes, popularity of places (nine of
//! ten requests go to a tenth of the volume), arrivals (bursts, with as much time between them).

use super::{EXTENT_BLOCKS, Event, Op};
use base::random::Random;
use base::time::Nanos;

/// Writes among a thousand requests.
const WRITES_PER_MILLE: u64 = 883;
/// Requests of each size in blocks, among a hundred.
const SIZES: [(u64, u32); 6] = [(60, 1), (14, 2), (14, 4), (6, 8), (4, 16), (2, 32)];
/// Requests of a burst, on average, and the time between two requests of one.
const BURST: u64 = 64;
const WITHIN_BURST: Nanos = Nanos(4_000);
/// From one burst to the next, on average: about 120 MiB/s in all.
const BETWEEN_BURSTS: Nanos = Nanos(5_000_000);

/// Requests over a volume, the same for a seed.
#[must_use]
pub fn events(count: usize, volume_blocks: u64, seed: u64) -> Vec<Event> {
    let mut random = Random::from_seed(seed ^ 0x7ACE);
    let mut at = 0;
    let mut events = Vec::with_capacity(count);
    for _ in 0..count {
        let gap = if random.chance(1, BURST) { 2 * BETWEEN_BURSTS.0 } else { 2 * WITHIN_BURST.0 };
        at += random.below(gap);
        let blocks = size(&mut random);
        let places = volume_blocks / u64::from(blocks);
        // Popular places lie together, as those of a volume do: one extent in ten.
        let place = if random.chance(9, 10) {
            let extents = (volume_blocks / EXTENT_BLOCKS / 10).max(1);
            let extent = random.below(extents) * 10 % (volume_blocks / EXTENT_BLOCKS).max(1);
            (extent * EXTENT_BLOCKS + random.below(EXTENT_BLOCKS)) / u64::from(blocks) % places
        } else {
            random.below(places)
        };
        let writes = random.chance(WRITES_PER_MILLE, 1000);
        events.push(Event { at: Nanos(at), op: Op::of(writes), lba: place * u64::from(blocks), blocks });
    }
    events
}

fn size(random: &mut Random) -> u32 {
    let mut left = random.below(100);
    for (share, blocks) in SIZES {
        if left < share {
            return blocks;
        }
        left -= share;
    }
    unreachable!("shares add up to 100")
}
