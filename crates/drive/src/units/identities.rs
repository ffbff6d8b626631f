//! Cache of the identities of full units.
//!
//! The cache is a table of sets; in a full set the one that was not asked for since the hand passed it goes (CLOCK).

use super::identity::Unit;
use base::units::{BLOCK_BYTES_U64, ZoneIndex};
use zone::condition::IdentityCache;

/// Units of a set.
const WAYS: usize = 8;

/// Which unit.
pub type Key = (ZoneIndex, u32);

#[derive(Debug)]
struct Way {
    key: Key,
    unit: Unit,
    was_asked_for: bool,
}

#[derive(Debug, Default)]
struct Set {
    ways: Vec<Way>,
    hand: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Identities {
    sets: Vec<Set>,
    /// Units that are kept.
    units: usize,
    /// Units that were looked for.
    lookups: u64,
    /// Units that were found.
    hits: u64,
    /// Blocks that the host has written, and those written to the device.
    host_blocks: u64,
    device_blocks: u64,
}

impl Identities {
    /// A cache of about so many units, at least one set.
    #[must_use]
    pub fn new(units: usize) -> Identities {
        let sets = (units / WAYS).max(1);
        let sets = (0..sets).map(|_| Set::default()).collect();
        Identities { sets, units: 0, lookups: 0, hits: 0, host_blocks: 0, device_blocks: 0 }
    }

    fn set_of(&self, (zone, unit): Key) -> usize {
        // Units that follow one another go to sets that follow one another.
        let number = u64::from(zone.0).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(unit));
        usize::try_from(number % self.sets.len() as u64).expect("less than the sets")
    }

    /// Identities of a unit of a life that began at `birth` or later.
    pub fn find(&mut self, key: Key, birth: u64) -> Option<&Unit> {
        self.lookups += 1;
        let set = self.set_of(key);
        let way = self.sets[set].ways.iter_mut().find(|way| way.key == key && way.unit.stamp >= birth)?;
        way.was_asked_for = true;
        self.hits += 1;
        Some(&way.unit)
    }

    /// What is kept, and what came of it. A unit counts as the block that it lies in.
    #[must_use]
    pub fn usage(&self) -> IdentityCache {
        let bytes = |units: usize| units as u64 * BLOCK_BYTES_U64;
        IdentityCache {
            bytes: bytes(self.units),
            bytes_max: bytes(self.sets.len() * WAYS),
            hits: self.hits,
            misses: self.lookups - self.hits,
            host_blocks: self.host_blocks,
            device_blocks: self.device_blocks,
        }
    }

    /// Counts blocks that the host writes.
    pub fn count_host(&mut self, blocks: u32) {
        self.host_blocks += u64::from(blocks);
    }

    /// Counts blocks that are written to the device.
    pub fn count_device(&mut self, blocks: usize) {
        self.device_blocks += blocks as u64;
    }

    /// Keeps identities that were read or written.
    pub fn keep(&mut self, key: Key, unit: Unit) {
        let index = self.set_of(key);
        let set = &mut self.sets[index];
        if let Some(way) = set.ways.iter_mut().find(|way| way.key == key) {
            way.unit = unit;
            return;
        }
        let way = Way { key, unit, was_asked_for: false };
        if set.ways.len() < WAYS {
            set.ways.push(way);
            self.units += 1;
            return;
        }
        while std::mem::take(&mut set.ways[set.hand].was_asked_for) {
            set.hand = (set.hand + 1) % WAYS;
        }
        set.ways[set.hand] = way;
        set.hand = (set.hand + 1) % WAYS;
    }
}

#[cfg(test)]
mod tests {
    use super::super::identity::Identity;
    use super::*;

    fn unit(stamp: u64) -> Unit {
        Unit::of(&[Identity { crc: 1, oob: [2; 64] }], stamp)
    }

    #[test]
    fn what_was_asked_for_stays() {
        let mut identities = Identities::new(WAYS);
        let key = |unit| (ZoneIndex(1), unit);
        (0..8).for_each(|number| identities.keep(key(number), unit(5)));
        assert!(identities.find(key(0), 5).is_some());
        identities.keep(key(8), unit(5));
        assert!(identities.find(key(0), 5).is_some(), "it was asked for");
        assert!(identities.find(key(1), 5).is_none(), "it was not");
        assert!(identities.find(key(8), 6).is_none(), "of an earlier life");
        let set = WAYS as u64 * BLOCK_BYTES_U64;
        let usage =
            IdentityCache { bytes: set, bytes_max: set, hits: 2, misses: 2, ..IdentityCache::default() };
        assert_eq!(identities.usage(), usage, "one took the place of another");
    }
}
