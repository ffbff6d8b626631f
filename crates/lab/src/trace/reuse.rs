//! Made-up traces by their reuse distances: how much is written between two writes of a block.
//!
//! What is quoted of traces of the BIZA paper is one point of that distribution. Chosen, since nothing more is said: distances on either
//! side of the point are equally likely, those beyond it up to 224 MiB; all requests are writes of one block; what was not written
//! before lies anywhere.

use super::{Event, Op};
use base::random::Random;
use base::time::Nanos;
use std::collections::BTreeMap;

/// Tries to find a block whose last write is as long ago as was drawn.
const TRIES: u32 = 32;
/// Farthest distance: 224 MiB, four times the windows of four drives.
const DISTANCE_MAX_BLOCKS: u64 = 224 << 8;

/// A point of the distribution: so many of a thousand rewrites come within so many blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// Distance in blocks.
    pub within_blocks: u64,
    /// Rewrites of a thousand.
    pub per_mille: u64,
}

/// Writes over a volume, the same for a seed.
#[must_use]
pub fn events(count: usize, volume_blocks: u64, reuse: Reuse, seed: u64) -> Vec<Event> {
    let mut random = Random::from_seed(seed ^ 0x5EED_F00D);
    let mut written: Vec<u64> = Vec::with_capacity(count);
    let mut last: BTreeMap<u64, usize> = BTreeMap::new();
    for at in 0..count {
        let is_near = random.chance(reuse.per_mille, 1000);
        let mut again = || {
            let distance = if is_near {
                1 + random.below(reuse.within_blocks)
            } else {
                reuse.within_blocks + 1 + random.below(DISTANCE_MAX_BLOCKS - reuse.within_blocks)
            };
            let before = at.checked_sub(usize::try_from(distance).ok()?)?;
            // Blocks that were written since are nearer than that.
            (last.get(&written[before]) == Some(&before)).then(|| written[before])
        };
        let found = (0..TRIES).find_map(|_| again());
        let lba = found.unwrap_or_else(|| random.below(volume_blocks));
        last.insert(lba, at);
        written.push(lba);
    }
    let event = |lba| Event { at: Nanos(0), op: Op::Write, lba, blocks: 1 };
    written.into_iter().map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rewrites come within the distance as often as was asked for.
    #[test]
    fn distances_have_the_quoted_share() {
        for reuse in [(14_336, 917), (14_336, 98), (3_584, 170)] {
            let reuse = Reuse { within_blocks: reuse.0, per_mille: reuse.1 };
            let all = events(200_000, 1 << 30, reuse, 3);
            let mut last: BTreeMap<u64, usize> = BTreeMap::new();
            let (mut near, mut far) = (0_u64, 0_u64);
            for (at, event) in all.iter().enumerate() {
                // At first there is nothing that far back.
                if let Some(before) = last.insert(event.lba, at).filter(|_| at > 60_000) {
                    let is_near = (at - before) as u64 <= reuse.within_blocks;
                    *if is_near { &mut near } else { &mut far } += 1;
                }
            }
            let share = 1000 * near / (near + far);
            assert!(share.abs_diff(reuse.per_mille) < 30, "{reuse:?}: {share} of a thousand");
        }
    }

    #[test]
    fn a_seed_gives_one_trace() {
        let reuse = Reuse { within_blocks: 100, per_mille: 500 };
        assert_eq!(events(1_000, 5_000, reuse, 1), events(1_000, 5_000, reuse, 1));
        assert_ne!(events(1_000, 5_000, reuse, 1), events(1_000, 5_000, reuse, 2));
        assert!(events(1_000, 5_000, reuse, 1).iter().all(|event| event.lba < 5_000));
    }
}
