//! A slab: values in numbered slots that stay put, for things that are in flight and named by a
//! token.

/// Values in numbered slots. Grows to the most that were ever in use at once and stays there. `K` is the type of the numbers,
/// where those of several slabs meet.
#[derive(Debug)]
pub struct Slab<T, K = u32> {
    slots: Vec<Option<T>>,
    free: Vec<K>,
}

impl<T, K> Default for Slab<T, K> {
    fn default() -> Slab<T, K> {
        Slab { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T, K: Copy + From<u32> + Into<u32>> Slab<T, K> {
    /// Puts a value into a free slot.
    ///
    /// # Panics
    /// When 2^32 values are in use.
    #[inline]
    pub fn insert(&mut self, value: T) -> K {
        if let Some(slot) = self.free.pop() {
            self.slots[index(slot)] = Some(value);
            return slot;
        }
        let slot = u32::try_from(self.slots.len()).expect("fewer than 2^32 values in flight");
        self.slots.push(Some(value));
        K::from(slot)
    }

    /// Slots, in use or free.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The value in a slot.
    ///
    /// # Panics
    /// When the slot is empty.
    #[inline]
    #[must_use]
    pub fn get(&self, slot: K) -> &T {
        self.slots[index(slot)].as_ref().expect("slab slot in use")
    }

    /// The value in a slot.
    ///
    /// # Panics
    /// When the slot is empty.
    #[inline]
    pub fn get_mut(&mut self, slot: K) -> &mut T {
        self.slots[index(slot)].as_mut().expect("slab slot in use")
    }

    /// Takes the value out of a slot.
    ///
    /// # Panics
    /// When the slot is empty.
    #[inline]
    pub fn remove(&mut self, slot: K) -> T {
        let value = self.slots[index(slot)].take().expect("slab slot in use");
        self.free.push(slot);
        value
    }

    /// The values in use, in the order of their slots.
    pub fn into_values(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().flatten()
    }

    /// Values in use with their slots, in the order of these.
    pub fn numbered(&self) -> impl Iterator<Item = (K, &T)> {
        (0..).zip(&self.slots).filter_map(|(slot, value)| value.as_ref().map(|value| (K::from(slot), value)))
    }

    /// Values in use, in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// Values in use.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// True when no value is in use.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[inline]
fn index(slot: impl Into<u32>) -> usize {
    slot.into() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused() {
        let mut slab: Slab<char> = Slab::default();
        let a = slab.insert('a');
        let b = slab.insert('b');
        assert_eq!(slab.remove(a), 'a');
        assert_eq!(slab.insert('c'), a);
        assert_eq!((*slab.get(a), *slab.get(b)), ('c', 'b'));
        assert_eq!(slab.len(), 2);
    }
}
