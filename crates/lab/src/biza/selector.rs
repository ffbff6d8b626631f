//! The zone group selector: three levels of a ghost, as published.
//!
//! ```text
//!   written again ── more than 3 times ──> high revenue ── within twice the windows ──> high profit
//!                                          gives up the one     gives up the one with
//!                                          with the fewest      the longest distance
//!                                          rewrites
//! ```
//! High-profit blocks are high-revenue blocks, too. What is written for the first time is trivial, and so is what the least-recently-used
//! level has forgotten; that gives blocks which were overwritten a second chance for every two times.

use super::config::{HIGH_PROFIT, HIGH_REVENUE, TRIVIAL};
use std::collections::BTreeSet;

/// Rewrites from which on a block is of high revenue: more than so many accesses (slides: reaccess number > 3).
const ACCESSES: u32 = 3;
/// Rewrites that a second chance costs.
const CHANCE: u32 = 2;
/// Blocks that are given another chance in one step at most.
const CHANCES_MAX: u32 = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Time of the last write, in blocks written; 0 where nothing is known.
    last: u64,
    distance: u64,
    rewrites: u32,
    is_revenue: bool,
    is_profit: bool,
}

/// The selector of a volume.
#[derive(Debug)]
pub struct Selector {
    /// By block.
    entries: Vec<Entry>,
    /// Blocks that are known, the one written longest ago first.
    recent: BTreeSet<(u64, u32)>,
    /// High-revenue blocks, the one with the fewest rewrites first.
    revenue: BTreeSet<(u32, u32)>,
    /// High-profit blocks, the one with the shortest distance first.
    profit: BTreeSet<(u64, u32)>,
    caches: [usize; 3],
    /// Distance below which a block will be overwritten in its window.
    near: u64,
    /// Blocks written.
    now: u64,
}

impl Selector {
    /// The selector of a volume, with caches of so many blocks beside windows of so many.
    ///
    /// # Panics
    /// When the volume has more than 2^32 blocks.
    #[must_use]
    pub fn new(volume_blocks: u64, caches_blocks: [u64; 3], windows_blocks: u64) -> Selector {
        let blocks = u32::try_from(volume_blocks).expect("a u32 of blocks");
        Selector {
            entries: vec![Entry::default(); blocks as usize],
            recent: BTreeSet::new(),
            revenue: BTreeSet::new(),
            profit: BTreeSet::new(),
            caches: caches_blocks.map(|blocks| usize::try_from(blocks).unwrap_or(usize::MAX)),
            near: 2 * windows_blocks,
            now: 0,
        }
    }

    /// Notes that a block is written, and returns the group of zones for it.
    pub fn note(&mut self, block: u32) -> usize {
        self.now += 1;
        let entry = self.entries[block as usize];
        if entry.last == 0 {
            if self.recent.len() >= self.caches[0] {
                self.forget_one();
            }
            self.entries[block as usize].last = self.now;
            self.recent.insert((self.now, block));
            return TRIVIAL;
        }
        self.remove_keys(block);
        let entry = &mut self.entries[block as usize];
        entry.rewrites += 1;
        entry.distance = self.now - entry.last;
        entry.last = self.now;
        self.insert_keys(block);
        self.promote(block);
        self.group_of(block)
    }

    fn group_of(&self, block: u32) -> usize {
        let entry = &self.entries[block as usize];
        match (entry.is_profit, entry.is_revenue) {
            (true, _) => HIGH_PROFIT,
            (false, true) => HIGH_REVENUE,
            (false, false) => TRIVIAL,
        }
    }

    fn promote(&mut self, block: u32) {
        let entry = self.entries[block as usize];
        if !entry.is_revenue && entry.rewrites >= ACCESSES {
            let fewest = self.revenue.first().copied();
            let has_room = self.revenue.len() < self.caches[1];
            if let Some((rewrites, other)) = fewest.filter(|_| !has_room)
                && rewrites < entry.rewrites
            {
                self.demote(other);
            }
            if self.revenue.len() < self.caches[1] {
                self.entries[block as usize].is_revenue = true;
                self.revenue.insert((entry.rewrites, block));
            }
        }
        let entry = self.entries[block as usize];
        if entry.is_revenue && !entry.is_profit && entry.distance < self.near {
            let farthest = self.profit.last().copied();
            let has_room = self.profit.len() < self.caches[2];
            if let Some((distance, other)) = farthest.filter(|_| !has_room)
                && distance > entry.distance
            {
                self.profit.remove(&(distance, other));
                self.entries[other as usize].is_profit = false;
            }
            if self.profit.len() < self.caches[2] {
                self.entries[block as usize].is_profit = true;
                self.profit.insert((entry.distance, block));
            }
        }
    }

    /// A block is trivial again.
    fn demote(&mut self, block: u32) {
        let entry = &mut self.entries[block as usize];
        self.revenue.remove(&(entry.rewrites, block));
        self.profit.remove(&(entry.distance, block));
        (entry.is_revenue, entry.is_profit) = (false, false);
    }

    fn remove_keys(&mut self, block: u32) {
        let entry = &self.entries[block as usize];
        self.recent.remove(&(entry.last, block));
        self.revenue.remove(&(entry.rewrites, block));
        self.profit.remove(&(entry.distance, block));
    }

    /// A high-profit block whose distance has grown stays one while there is room, and is then the first to go.
    fn insert_keys(&mut self, block: u32) {
        let entry = &self.entries[block as usize];
        self.recent.insert((entry.last, block));
        if entry.is_revenue {
            self.revenue.insert((entry.rewrites, block));
        }
        if entry.is_profit {
            self.profit.insert((entry.distance, block));
        }
    }

    /// Forgets the block that was written longest ago and has no other chance.
    fn forget_one(&mut self) {
        for step in 0.. {
            let Some((_, block)) = self.recent.first().copied() else { return };
            self.remove_keys(block);
            let entry = &mut self.entries[block as usize];
            if entry.rewrites < CHANCE || step >= CHANCES_MAX {
                *entry = Entry::default();
                return;
            }
            entry.rewrites -= CHANCE;
            // Among those that are written now.
            self.now += 1;
            entry.last = self.now;
            self.insert_keys(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_overwritten_soon_and_often_is_of_profit() {
        let mut selector = Selector::new(100, [50, 20, 2], 5);
        let groups: Vec<usize> = (0..5).map(|_| selector.note(7)).collect();
        assert_eq!(groups, [TRIVIAL, TRIVIAL, TRIVIAL, HIGH_PROFIT, HIGH_PROFIT]);
        // Every 20th write: often, but not within twice the windows.
        let mut last = TRIVIAL;
        for _ in 0..6 {
            last = selector.note(8);
            (20..39).for_each(|block| assert!(selector.note(block) != HIGH_PROFIT));
        }
        assert_eq!(last, HIGH_REVENUE);
    }

    #[test]
    fn full_caches_give_up_those_that_promise_least() {
        let mut selector = Selector::new(100, [50, 2, 1], 5);
        let write = |selector: &mut Selector, block, times| {
            (0..times).map(|_| selector.note(block)).last().unwrap_or(9)
        };
        assert_eq!(write(&mut selector, 1, 5), HIGH_PROFIT);
        assert_eq!(
            write(&mut selector, 2, 4),
            HIGH_REVENUE,
            "distances are equal: the one that is there stays"
        );
        assert_eq!(write(&mut selector, 3, 4), TRIVIAL, "not more rewrites than the others");
        assert_eq!(write(&mut selector, 3, 1), HIGH_REVENUE);
        assert_eq!(selector.group_of(2), TRIVIAL);
        assert_eq!((selector.revenue.len(), selector.profit.len()), (2, 1));
    }

    #[test]
    fn what_is_forgotten_is_trivial_again() {
        let mut selector = Selector::new(100, [3, 2, 1], 5);
        (0..4).for_each(|_| assert!(selector.note(1) <= TRIVIAL));
        (2..40).for_each(|block| assert_eq!(selector.note(block), TRIVIAL));
        assert!(selector.recent.len() <= 3 && selector.revenue.is_empty() && selector.profit.is_empty());
        assert_eq!(selector.note(1), TRIVIAL);
    }
}
