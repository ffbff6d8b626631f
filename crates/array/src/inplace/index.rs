//! Numbers by key: open addressing, at most half full. A key is kept with what its number stands for, not here.

/// Place that has no number.
const NOBODY: u32 = u32::MAX;

/// See the module.
#[derive(Debug)]
pub struct Index {
    places: Vec<u32>,
}

impl Index {
    /// An index of so many places, a power of two; one without places is never asked.
    #[must_use]
    pub fn new(places: usize) -> Index {
        assert!(places == 0 || places.is_power_of_two(), "{places} places");
        Index { places: vec![NOBODY; places] }
    }

    /// Numbers that it takes.
    #[must_use]
    pub fn room(&self) -> usize {
        self.places.len() / 2
    }

    /// Numbers that it has. Counted one by one, for invariants.
    #[must_use]
    pub fn count(&self) -> usize {
        self.places.iter().filter(|number| **number != NOBODY).count()
    }

    /// Forgets all numbers.
    pub fn clear(&mut self) {
        self.places.fill(NOBODY);
    }

    /// Place where the search of a key begins.
    #[inline]
    fn home(&self, key: u64) -> usize {
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        usize::try_from(mixed).expect("32 bits") & (self.places.len() - 1)
    }

    /// Place of a key and its number, or the place where it would be.
    #[inline]
    fn place(&self, key: u64, key_of: impl Fn(u32) -> u64) -> Result<(usize, u32), usize> {
        let mut place = self.home(key);
        loop {
            match self.places[place] {
                NOBODY => return Err(place),
                number if key_of(number) == key => return Ok((place, number)),
                _ => place = (place + 1) & (self.places.len() - 1),
            }
        }
    }

    /// Number of a key.
    #[inline]
    #[must_use]
    pub fn find(&self, key: u64, key_of: impl Fn(u32) -> u64) -> Option<u32> {
        self.place(key, key_of).ok().map(|(_, number)| number)
    }

    /// Adds the number of a key; there is room.
    ///
    /// # Panics
    /// When the key has one.
    #[inline]
    pub fn insert(&mut self, key: u64, number: u32, key_of: impl Fn(u32) -> u64) {
        let place = self.place(key, key_of).expect_err("a key that is not there");
        self.places[place] = number;
    }

    /// Takes the number of a key out.
    #[inline]
    pub fn remove(&mut self, key: u64, key_of: impl Fn(u32) -> u64) -> Option<u32> {
        let (mut hole, number) = self.place(key, &key_of).ok()?;
        self.places[hole] = NOBODY;
        // Those behind move up, as long as that brings them no further from home than the search reaches.
        let mask = self.places.len() - 1;
        let mut next = (hole + 1) & mask;
        while self.places[next] != NOBODY {
            let home = self.home(key_of(self.places[next]));
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.places.swap(hole, next);
                hole = next;
            }
            next = (next + 1) & mask;
        }
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::random::Random;
    use std::collections::BTreeMap;

    #[test]
    fn it_says_what_a_map_says() {
        let mut random = Random::from_seed(4);
        let (mut index, mut keys, mut map) = (Index::new(16), [0; 8], BTreeMap::new());
        for _ in 0..20_000 {
            let key = random.below(12) << 32;
            let found = map.get(&key).copied();
            assert_eq!(index.find(key, |number| keys[number as usize]), found);
            let free = (0..8).find(|number| !map.values().any(|used| used == number));
            if found.is_some() {
                assert_eq!(index.remove(key, |number| keys[number as usize]), found);
                map.remove(&key);
            } else if let Some(number) = free {
                index.insert(key, number, |number| keys[number as usize]);
                keys[number as usize] = key;
                map.insert(key, number);
            }
            assert_eq!((index.count(), index.room()), (map.len(), 8));
        }
    }
}
