//! Chains: which slots of a slab hold what has a hash, for lookups that a tree would answer slower and in more memory.
//!
//! ```text
//!   heads  chain -> its first slot     as many chains as the slab ever had values at once
//!   links  slot  -> its hash, the next slot of its chain
//! ```
//! The table grows by one chain with each value (linear hashing, W. Litwin, VLDB 1980), so no insertion moves more than one
//! chain. What comes first depends on hashes and on the order of insertions alone: runs repeat.

/// Behind the last slot of a chain.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    hash: u32,
    next: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Chains {
    heads: Vec<u32>,
    links: Vec<Link>,
    count: usize,
}

impl Chains {
    /// Bytes of memory for each slot of the slab.
    pub const SLOT_BYTES: usize = size_of::<u32>() + size_of::<Link>();

    /// Slots in the chains.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// True when there is no slot in any chain.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a slot, whose value has this hash.
    pub fn insert(&mut self, hash: u64, slot: u32) {
        let (hash, at) = (narrow(hash), slot as usize);
        if self.links.len() <= at {
            self.links.resize(at + 1, Link { hash: 0, next: NONE });
        }
        self.count += 1;
        if self.count > self.heads.len() {
            self.split();
        }
        let chain = self.chain_of(hash);
        self.links[at] = Link { hash, next: self.heads[chain] };
        self.heads[chain] = slot;
    }

    /// Takes a slot out.
    ///
    /// # Panics
    /// When it is not there with this hash.
    pub fn remove(&mut self, hash: u64, slot: u32) {
        let chain = self.chain_of(narrow(hash));
        let next = self.links[slot as usize].next;
        let mut at = self.heads[chain];
        if at == slot {
            self.heads[chain] = next;
        } else {
            while self.links[at as usize].next != slot {
                at = self.links[at as usize].next;
            }
            self.links[at as usize].next = next;
        }
        self.count -= 1;
    }

    /// Slots whose values may have this hash: all that have, and a few others.
    pub fn slots(&self, hash: u64) -> impl Iterator<Item = u32> + '_ {
        let hash = narrow(hash);
        let mut at = if self.heads.is_empty() { NONE } else { self.heads[self.chain_of(hash)] };
        std::iter::from_fn(move || {
            while at != NONE {
                let (slot, link) = (at, self.links[at as usize]);
                at = link.next;
                if link.hash == hash {
                    return Some(slot);
                }
            }
            None
        })
    }

    /// The chain of a hash: the lower bits of the hash name it, one bit less where that chain is not there yet.
    fn chain_of(&self, hash: u32) -> usize {
        let all = self.heads.len().next_power_of_two();
        let chain = hash as usize & (all - 1);
        if chain < self.heads.len() { chain } else { chain & (all / 2 - 1) }
    }

    /// Adds a chain, which takes its slots from the one that had them.
    fn split(&mut self) {
        let added = self.heads.len();
        self.heads.push(NONE);
        if added == 0 {
            return;
        }
        let from = added - (1 << added.ilog2());
        let mut at = std::mem::replace(&mut self.heads[from], NONE);
        while at != NONE {
            let Link { hash, next } = self.links[at as usize];
            let chain = self.chain_of(hash);
            assert!(chain == from || chain == added, "a chain is split in two");
            self.links[at as usize].next = std::mem::replace(&mut self.heads[chain], at);
            at = next;
        }
    }
}

/// Values by keys that the caller hashes, for what only grows.
#[derive(Debug)]
pub struct ChainMap<K, V> {
    values: Vec<(K, V)>,
    chains: Chains,
}

impl<K, V> Default for ChainMap<K, V> {
    fn default() -> ChainMap<K, V> {
        ChainMap { values: Vec::new(), chains: Chains::default() }
    }
}

impl<K: Eq, V: Default> ChainMap<K, V> {
    fn find(&self, hash: u64, key: &K) -> Option<usize> {
        self.chains.slots(hash).map(|slot| slot as usize).find(|slot| self.values[*slot].0 == *key)
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, hash: u64, key: &K) -> Option<&V> {
        self.find(hash, key).map(|slot| &self.values[slot].1)
    }

    /// The value of a key, which has one from now on.
    ///
    /// # Panics
    /// When 2^32 keys have one.
    pub fn entry(&mut self, hash: u64, key: K) -> &mut V {
        let slot = self.find(hash, &key).unwrap_or_else(|| {
            let slot = self.values.len();
            self.chains.insert(hash, u32::try_from(slot).expect("fewer than 2^32 keys"));
            self.values.push((key, V::default()));
            slot
        });
        &mut self.values[slot].1
    }
}

/// The bits of a hash that are kept.
fn narrow(hash: u64) -> u32 {
    u32::try_from(hash & u64::from(u32::MAX)).expect("32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Random, mix};
    use std::collections::{BTreeMap, BTreeSet};

    /// A random walk against a set, with hashes that collide in all of their bits, in those that are kept, and hardly ever.
    #[test]
    fn chains_hold_what_a_set_holds() {
        let hashes: [fn(u64) -> u64; 3] = [|value| value % 3, |value| value << 30, mix];
        for hash_of in hashes {
            let (mut random, mut chains, mut expected) =
                (Random::from_seed(7), Chains::default(), BTreeSet::new());
            for step in 0..20_000_u32 {
                let most = if step < 10_000 { 600 } else { 40 };
                let slot = u32::try_from(random.below(700)).unwrap();
                let hash = hash_of(u64::from(slot / 2));
                if expected.remove(&(hash, slot)) {
                    chains.remove(hash, slot);
                } else if expected.len() < most {
                    expected.insert((hash, slot));
                    chains.insert(hash, slot);
                }
                let mut found: Vec<u32> = chains.slots(hash).collect();
                found.sort_unstable();
                let wanted = expected.iter().filter(|(other, _)| narrow(*other) == narrow(hash));
                let mut wanted: Vec<u32> = wanted.map(|(_, slot)| *slot).collect();
                wanted.sort_unstable();
                assert_eq!(found, wanted);
                assert_eq!(chains.len(), expected.len());
            }
            assert!(chains.heads.len() <= 700);
        }
    }

    #[test]
    fn a_map_holds_what_a_tree_holds() {
        for hash_of in [|value| value % 3, mix] {
            let (mut random, mut map, mut tree) =
                (Random::from_seed(3), ChainMap::default(), BTreeMap::new());
            for _ in 0..2_000 {
                let key = random.below(500);
                *map.entry(hash_of(key), key) += key + 1;
                *tree.entry(key).or_insert(0) += key + 1;
                let other = random.below(500);
                assert_eq!(map.get(hash_of(other), &other), tree.get(&other));
            }
        }
    }

    #[test]
    fn chains_are_short() {
        let mut chains = Chains::default();
        for slot in 0..10_000 {
            chains.insert(mix(u64::from(slot)), slot);
        }
        let length = |head: u32| {
            let next = |slot: &u32| Some(chains.links[*slot as usize].next).filter(|next| *next != NONE);
            std::iter::successors(Some(head).filter(|head| *head != NONE), next).count()
        };
        let longest = chains.heads.iter().map(|head| length(*head)).max();
        assert!(longest <= Some(12), "{longest:?}");
    }
}
