//! How many entries of a journal zone are needed, now that zones of data have gone.
//!
//! ```text
//!                  births of zones of data | the journal zone is born
//!   sequences of entries ->  |--- 70 ---|--- 64 ---|-- 81 --|---- 66 ----|
//!                              written again       | new: a part ends at its highest entry
//!                                 ^ horizon     `---- needed ----'
//! ```
//! An entry hides what was born before it, so it is needed while its sequence is above the birth of the oldest zone of data, the horizon.
//! The entries are counted in a few parts, by sequence, and a part is needed as long as its highest entry may be: the count is never
//! too low.

/// Most parts for entries that are written again, and most for new ones.
const PARTS: usize = 16;

/// Entries with sequences up to `last`, above those of the part before.
#[derive(Clone, Copy, Debug)]
struct Part {
    last: u64,
    count: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Needed {
    /// Lowest sequences first.
    parts: Vec<Part>,
    /// Parts of what is older than the journal zone.
    older: usize,
}

impl Needed {
    /// Count for a journal zone without entries, beside zones of data with these births, lowest first; younger ones do not count.
    #[must_use]
    pub fn new(births: &[u64], birth: u64) -> Needed {
        debug_assert!(births.is_sorted(), "births stand in their order");
        let births = &births[..births.partition_point(|own| *own < birth)];
        let step = births.len().div_ceil(PARTS).max(1);
        let ends = births.iter().skip(step).step_by(step).chain([&birth]);
        let parts: Vec<Part> = ends.map(|end| Part { last: *end, count: 0 }).collect();
        Needed { older: parts.len(), parts }
    }

    /// An entry was written: one that is older than the zone, or the newest.
    pub fn add(&mut self, sequence: u64) {
        let place = self.parts.partition_point(|part| part.last < sequence);
        if let Some(part) = self.parts.get_mut(place) {
            part.count += 1;
            return;
        }
        self.parts.push(Part { last: sequence, count: 1 });
        if self.parts.len() > self.older + PARTS {
            self.merge();
        }
    }

    /// Makes one part of the two neighbours with the fewest new entries.
    fn merge(&mut self) {
        let pairs = self.parts[self.older..].windows(2).map(|pair| pair[0].count + pair[1].count);
        let (place, _) = pairs.enumerate().min_by_key(|(_, count)| *count).expect("there are many parts");
        let lower = self.parts.remove(self.older + place);
        self.parts[self.older + place].count += lower.count;
        debug_assert!(self.parts.is_sorted_by_key(|part| part.last), "parts stand in their order");
    }

    /// True when some entry is needed, when this is the birth of the oldest zone of data.
    #[must_use]
    pub fn is_any_above(&self, horizon: u64) -> bool {
        // The highest part tells, as a rule.
        self.parts.iter().rev().any(|part| part.count > 0 && part.last > horizon)
    }

    /// Entries that are needed, when this is the birth of the oldest zone of data.
    #[must_use]
    pub fn above(&self, horizon: u64) -> u64 {
        self.parts.iter().filter(|part| part.last > horizon).map(|part| part.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::random::Random;

    #[test]
    fn never_fewer_and_hardly_more_than_are_needed() {
        let mut random = Random::from_seed(7);
        let births: Vec<u64> = (0..100).map(|zone| zone * 100).collect();
        for (old, new) in [(0, 3_000), (3_000, 0), (2_000, 1_000), (5, 7), (1, 0)] {
            let mut needed = Needed::new(&births, 10_000);
            let mut sequences: Vec<u64> = (0..old).map(|_| 1 + random.below(9_999)).collect();
            sequences.extend(10_001..10_001 + new);
            sequences.iter().for_each(|sequence| needed.add(*sequence));
            let all = sequences.len() as u64;
            for horizon in (0..13_100).step_by(7) {
                let truth = sequences.iter().filter(|sequence| **sequence > horizon).count() as u64;
                let told = needed.above(horizon);
                assert_eq!(needed.is_any_above(horizon), told > 0);
                assert!(told >= truth, "{told} of {truth} entries are needed above {horizon}");
                assert!(told <= truth + all.div_ceil(5), "{told} for {truth} of {all} above {horizon}");
            }
            assert_eq!((needed.above(0), needed.above(10_000 + new)), (all, 0));
        }
    }

    #[test]
    fn parts_are_few() {
        let mut needed = Needed::new(&(1..1_000).collect::<Vec<u64>>(), 1_000);
        (1..5_000).for_each(|sequence| needed.add(sequence));
        assert!(needed.parts.len() <= 2 * PARTS + 1);
        let without = Needed::new(&[], 7);
        assert_eq!(without.above(0), 0);
    }
}
