//! A slab: values in numbered slots that stay put, for things that are in flight and named by a
//! token.

/// Values in numbered slots. Grows to the most that were ever in use at once and stays there.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Puts a value into a free slot.
    ///
    /// # Panics
    /// When 2^32 values are in use.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(value);
            return slot;
        }
        let slot = u32::try_from(self.slots.len()).expect("fewer than 2^32 values in flight");
        self.slots.push(Some(value));
        slot
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
    pub fn get(&self, slot: u32) -> &T {
        self.slots[slot as usize].as_ref().expect("slab slot in use")
    }

    /// The value in a slot.
    ///
    /// # Panics
    /// When the slot is empty.
    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> &mut T {
        self.slots[slot as usize].as_mut().expect("slab slot in use")
    }

    /// Takes the value out of a slot.
    ///
    /// # Panics
    /// When the slot is empty.
    #[inline]
    pub fn remove(&mut self, slot: u32) -> T {
        let value = self.slots[slot as usize].take().expect("slab slot in use");
        self.free.push(slot);
        value
    }

    /// The values in use, in the order of their slots.
    pub fn into_values(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().flatten()
    }

    /// Values in use with their slots, in the order of these.
    pub fn numbered(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.slots).filter_map(|(slot, value)| value.as_ref().map(|value| (slot, value)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused() {
        let mut slab = Slab::default();
        let a = slab.insert('a');
        let b = slab.insert('b');
        assert_eq!(slab.remove(a), 'a');
        assert_eq!(slab.insert('c'), a);
        assert_eq!((*slab.get(a), *slab.get(b)), ('c', 'b'));
        assert_eq!(slab.len(), 2);
    }
}
