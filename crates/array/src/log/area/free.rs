//! Slots that are free, by the drives that have their copies: a block goes to those that have least to do.
//!
//! ```text
//!   3+1, m + 1 = 2      drives 0 1: slots 0 2 4 ..      two writes at once find drives of their own
//!                       drives 2 3: slots 1 3 5 ..
//! ```
//! Of one set of drives, the slot that is free for longest comes first, at the beginning one of each zone in turn: so blocks that are written
//! together lie in windows of all zones of the area.

use crate::log::area::slots::SlotPlaces;
use std::collections::VecDeque;

/// Free slots.
#[derive(Debug)]
pub struct FreeSlots {
    places: SlotPlaces,
    /// For each set of drives.
    by_set: Vec<VecDeque<u32>>,
    len: usize,
}

impl FreeSlots {
    /// None of so many is free.
    #[must_use]
    pub fn new(places: SlotPlaces, zones: u32) -> FreeSlots {
        let sets = places.drive_sets();
        let slots = places.slots() * zones;
        let of_set = || VecDeque::with_capacity(slots.div_ceil(sets) as usize + zones as usize);
        FreeSlots { places, by_set: (0..sets).map(|_| of_set()).collect(), len: 0 }
    }

    /// All slots of so many zones of each drive are free.
    pub fn fill(&mut self, zones: u32) {
        for slot in 0..self.places.slots() {
            (0..zones).for_each(|zone| self.push(zone * self.places.slots() + slot));
        }
    }

    /// Slots that are free.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A slot is free from now on.
    pub fn push(&mut self, id: u32) {
        let set = self.places.drive_set(id % self.places.slots());
        self.by_set[set as usize].push_back(id);
        self.len += 1;
    }

    /// A free slot on the drives with the fewest copies in flight, and how many the busiest of them has. Of drives that are alike, those
    /// with the most free slots.
    #[must_use]
    pub fn idlest(&self, in_flight: &[u32]) -> Option<(u32, u32)> {
        let first = |set: &VecDeque<u32>| {
            let id = *set.front()?;
            Some((self.places.busiest(id % self.places.slots(), in_flight), usize::MAX - set.len(), id))
        };
        self.by_set.iter().filter_map(first).min().map(|(busiest, _, id)| (id, busiest))
    }

    /// A free slot is free no more.
    ///
    /// # Panics
    /// When it is not the next one of its drives.
    pub fn take(&mut self, id: u32) {
        let set = self.places.drive_set(id % self.places.slots());
        let first = self.by_set[set as usize].pop_front();
        assert!(first == Some(id), "slot {id} is the next one of its drives");
        self.len -= 1;
    }

    /// Only these slots are still free.
    pub fn retain(&mut self, is_free: impl Fn(u32) -> bool) {
        self.by_set.iter_mut().for_each(|set| set.retain(|id| is_free(*id)));
        self.len = self.by_set.iter().map(VecDeque::len).sum();
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_set.iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn free(members: u32, zones: u32) -> FreeSlots {
        let mut free = FreeSlots::new(SlotPlaces { members, copies: 2, blocks: 6, first: 1 }, zones);
        free.fill(zones);
        free
    }

    #[test]
    fn writes_at_once_find_drives_of_their_own_and_zones_in_turn() {
        let mut free = free(4, 2);
        let places = free.places;
        let mut in_flight = [0; 4];
        let mut taken = Vec::new();
        for _ in 0..6 {
            let (id, busiest) = free.idlest(&in_flight).unwrap();
            free.take(id);
            (0..2).for_each(|copy| in_flight[places.of(id % places.slots(), copy).0] += 1);
            taken.push((id / places.slots(), id % places.slots(), busiest));
        }
        // Zone, slot, and what its drives had to do before.
        assert_eq!(taken, [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1), (0, 2, 2), (0, 3, 2)]);
    }

    proptest! {
        /// Each free slot is taken once, always on drives that none is idler than, and is free again when it comes back.
        #[test]
        fn the_idlest_of_all_is_taken(members in 2..8_u32, zones in 1..4_u32, busy in proptest::collection::vec(0..5_u32, 8)) {
            let mut free = free(members, zones);
            let (places, all) = (free.places, free.len());
            let mut taken = Vec::new();
            while let Some((id, busiest)) = free.idlest(&busy) {
                let of = |id: u32| places.busiest(id % places.slots(), &busy);
                prop_assert_eq!(busiest, of(id));
                prop_assert!(free.iter().all(|other| of(other) >= busiest));
                free.take(id);
                taken.push(id);
            }
            prop_assert!(free.is_empty());
            taken.sort_unstable();
            taken.dedup();
            prop_assert_eq!(taken.len(), all);
            prop_assert_eq!(all, (places.slots() * zones) as usize);
            taken.into_iter().for_each(|id| free.push(id));
            free.retain(|id| id % 2 == 0);
            prop_assert_eq!((free.len(), free.iter().count()), (all.div_ceil(2), all.div_ceil(2)));
        }
    }
}
