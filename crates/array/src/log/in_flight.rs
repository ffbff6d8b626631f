//! Which blocks have writes in flight, so that the newest write wins whatever order they complete.
//!
//! The index holds no sequence numbers. Two writes of one block may be in flight in two stripes and
//! complete in either order; this table remembers, for each block with writes in flight, the newest
//! sequence that was applied, until the last of them has completed.
//!
//! An open-addressing table with linear probing and backward-shift deletion: bounded by the stripe
//! slots, allocated once, one or two cache lines per operation.

use base::units::Lba;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    lba: u64,
    /// Lowest sequence that is or was in flight.
    first: u64,
    applied: u64,
    writes: u32,
}

const FREE: Slot = Slot { lba: 0, first: 0, applied: 0, writes: 0 };

/// The table.
#[derive(Debug)]
pub struct InFlight {
    slots: Vec<Slot>,
    used: usize,
}

impl InFlight {
    /// A table for at most `blocks_max` blocks with writes in flight.
    #[must_use]
    pub fn new(blocks_max: usize) -> InFlight {
        // Half full at most, so that probes stay short.
        InFlight { slots: vec![FREE; (blocks_max * 2).next_power_of_two()], used: 0 }
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    /// A write of `lba` leaves; sequences only grow.
    ///
    /// # Panics
    /// When more blocks are in flight than the table was made for.
    pub fn begin(&mut self, lba: Lba, sequence: u64) {
        let at = self.find(lba.0);
        if self.slots[at].writes == 0 {
            assert!(self.used * 2 < self.slots.len(), "more blocks in flight than stripe slots");
            self.slots[at] = Slot { lba: lba.0, first: sequence, applied: 0, writes: 0 };
            self.used += 1;
        }
        self.slots[at].writes += 1;
    }

    /// A write of `lba` with `sequence` completed; true when it is the newest so far.
    ///
    /// # Panics
    /// When no write of `lba` is in flight.
    pub fn complete(&mut self, lba: Lba, sequence: u64) -> bool {
        let at = self.find(lba.0);
        let slot = &mut self.slots[at];
        assert!(slot.writes > 0, "block {lba} completed a write that never began");
        let newest = sequence > slot.applied;
        slot.applied = slot.applied.max(sequence);
        slot.writes -= 1;
        if slot.writes == 0 {
            self.remove(at);
        }
        newest
    }

    /// With writes of `lba` in flight, a sequence below theirs and not below that of its newest durable copy.
    #[must_use]
    pub fn sequence_before(&self, lba: Lba) -> Option<u64> {
        let slot = &self.slots[self.find(lba.0)];
        (slot.writes > 0).then(|| slot.applied.max(slot.first - 1))
    }

    /// True when no write is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The slot of `lba`, or the free slot where it would go.
    fn find(&self, lba: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.home(lba);
        while self.slots[at].writes > 0 && self.slots[at].lba != lba {
            at = (at + 1) & mask;
        }
        at
    }

    /// Frees a slot and moves later entries of its run back, so that no probe meets a gap.
    fn remove(&mut self, mut gap: usize) {
        let mask = self.slots.len() - 1;
        let mut at = (gap + 1) & mask;
        while self.slots[at].writes > 0 {
            let displacement = at.wrapping_sub(self.home(self.slots[at].lba)) & mask;
            if displacement >= (at.wrapping_sub(gap) & mask) {
                self.slots[gap] = self.slots[at];
                gap = at;
            }
            at = (at + 1) & mask;
        }
        self.slots[gap] = FREE;
        self.used -= 1;
    }

    fn home(&self, lba: u64) -> usize {
        let bits = self.slots.len().trailing_zeros();
        let hash = lba.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits.max(1));
        usize::try_from(hash).expect("below the table's length") & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_newest_wins_in_any_order() {
        let mut table = InFlight::new(4);
        table.begin(Lba(5), 10);
        table.begin(Lba(5), 20);
        assert_eq!(table.sequence_before(Lba(5)), Some(9));
        assert!(table.complete(Lba(5), 20));
        assert_eq!(table.sequence_before(Lba(5)), Some(20), "a copy of its own, the first write is older");
        assert!(!table.complete(Lba(5), 10), "older write, completed later");
        assert!(table.is_empty());
        assert_eq!(table.sequence_before(Lba(5)), None);
        table.begin(Lba(5), 21);
        assert!(table.complete(Lba(5), 21));
    }

    proptest! {
        /// Against a map that does the same slowly.
        #[test]
        fn agrees_with_a_map(steps in proptest::collection::vec((any::<bool>(), 0..24_u64, 1..1000_u64), 1..400)) {
            let mut table = InFlight::new(32);
            let mut model: BTreeMap<u64, (u64, u32, u64)> = BTreeMap::new();
            for (begin, lba, sequence) in steps {
                if begin {
                    table.begin(Lba(lba * 64), sequence);
                    model.entry(lba).or_insert((0, 0, sequence)).1 += 1;
                } else if let Some((applied, writes, _)) = model.get_mut(&lba) {
                    let newest = sequence > *applied;
                    *applied = (*applied).max(sequence);
                    *writes -= 1;
                    if *writes == 0 {
                        model.remove(&lba);
                    }
                    prop_assert_eq!(table.complete(Lba(lba * 64), sequence), newest);
                }
                prop_assert_eq!(table.used, model.len());
                let before = model.get(&lba).map(|(applied, _, first)| (*applied).max(first - 1));
                prop_assert_eq!(table.sequence_before(Lba(lba * 64)), before);
            }
        }
    }
}
