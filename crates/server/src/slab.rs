//! A table whose keys do not outlive their entries.
//!
//! A key names a slot and a generation. Replies and completions that arrive for somebody who has
//! left find nothing, also when the slot has a new tenant.

/// The name of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// The slot, for packing into a request id.
    pub fn index(self) -> u32 {
        self.index
    }
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    entry: Option<T>,
}

/// A table of entries that come and go.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    vacant: Vec<u32>,
}

impl<T> Slab<T> {
    /// An empty table.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "made in one place")]
    pub fn new() -> Slab<T> {
        Slab { slots: Vec::new(), vacant: Vec::new() }
    }

    /// Entries that there are.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a count, not a container")]
    pub fn len(&self) -> usize {
        assert!(self.vacant.len() <= self.slots.len(), "a slot is vacant once");
        self.slots.len() - self.vacant.len()
    }

    /// Adds an entry.
    pub fn insert(&mut self, entry: T) -> Key {
        if let Some(index) = self.vacant.pop() {
            let slot = &mut self.slots[position(index)];
            assert!(slot.entry.is_none(), "a vacant slot has no tenant");
            slot.entry = Some(entry);
            return Key { index, generation: slot.generation };
        }
        let index = u32::try_from(self.slots.len()).expect("tables are limited far below 2^32 entries");
        self.slots.push(Slot { generation: 0, entry: Some(entry) });
        Key { index, generation: 0 }
    }

    /// Takes an entry out, if it is still there.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(position(key.index))?;
        if slot.generation != key.generation {
            return None;
        }
        let entry = slot.entry.take()?;
        debug_assert!(!self.vacant.contains(&key.index), "slot {} is vacant twice", key.index);
        slot.generation = slot.generation.wrapping_add(1);
        self.vacant.push(key.index);
        let (vacant, all) = (self.vacant.len(), self.slots.len());
        assert!(vacant <= all, "{vacant} slots of {all} are vacant");
        Some(entry)
    }

    /// An entry, if it is still there.
    pub fn at(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(position(key.index))?;
        if slot.generation == key.generation { slot.entry.as_mut() } else { None }
    }

    /// The key of the present tenant of a slot.
    pub fn key_at(&self, index: u32) -> Option<Key> {
        let slot = self.slots.get(position(index))?;
        slot.entry.as_ref().map(|_| Key { index, generation: slot.generation })
    }

    /// The keys of all entries, into a vector that the caller reuses.
    pub fn keys(&self, into: &mut Vec<Key>) {
        let before = into.len();
        let slots = (0_u32..).zip(&self.slots);
        into.extend(
            slots
                .filter(|(_, slot)| slot.entry.is_some())
                .map(|(index, slot)| Key { index, generation: slot.generation }),
        );
        assert!(into.len() - before == self.len(), "{} keys of {} entries", into.len() - before, self.len());
    }
}

fn position(index: u32) -> usize {
    usize::try_from(index).expect("usize has at least 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_keys_do_not_find_new_tenants() {
        let mut slab = Slab::new();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(first.index(), second.index());
        assert_eq!(slab.at(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.key_at(second.index()), Some(second));
        assert_eq!(slab.len(), 1);
    }
}
