//! Entries of the index: packed addresses of four bytes where those reach every block of the drives (16 TiB of
//! them), of five beyond (4 PiB).

use crate::log::pba::Pba;

/// Bytes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryBytes {
    /// For addresses below 2^32 - 1.
    Four,
    /// For addresses below 2^40 - 1.
    Five,
}

impl EntryBytes {
    /// As a number.
    #[must_use]
    pub fn count(self) -> u8 {
        match self {
            EntryBytes::Four => 4,
            EntryBytes::Five => 5,
        }
    }

    /// The size that a number stands for.
    #[must_use]
    pub fn of(count: u8) -> Option<EntryBytes> {
        [EntryBytes::Four, EntryBytes::Five].into_iter().find(|bytes| bytes.count() == count)
    }

    /// The entry that maps nothing: all ones.
    #[must_use]
    pub fn unmapped(self) -> u64 {
        match self {
            EntryBytes::Four => 0xFFFF_FFFF,
            EntryBytes::Five => 0xFF_FFFF_FFFF,
        }
    }
}

/// A table of entries.
pub enum Entries {
    /// Entries of four bytes.
    Four(Vec<u32>),
    /// Entries of five bytes, little-endian.
    Five(Vec<[u8; 5]>),
}

impl Entries {
    /// A table that maps nothing.
    #[must_use]
    pub fn new(bytes: EntryBytes, len: usize) -> Entries {
        match bytes {
            EntryBytes::Four => Entries::Four(vec![u32::MAX; len]),
            EntryBytes::Five => Entries::Five(vec![[u8::MAX; 5]; len]),
        }
    }

    /// A table from entries of `stored` bytes; `None` when one of them does not fit.
    #[must_use]
    pub fn decode(bytes: EntryBytes, stored: EntryBytes, table: &[u8]) -> Option<Entries> {
        let stored_bytes = usize::from(stored.count());
        assert!(
            table.len().is_multiple_of(stored_bytes),
            "{} bytes of entries of {stored_bytes}",
            table.len()
        );
        let mut entries = Entries::new(bytes, table.len() / stored_bytes);
        for (at, entry) in table.chunks_exact(stored_bytes).enumerate() {
            let number = number_of(entry);
            if number == stored.unmapped() {
                continue;
            }
            if number >= bytes.unmapped() {
                return None;
            }
            entries.replace(at, Some(Pba(number)));
        }
        Some(entries)
    }

    /// Bytes of an entry.
    #[must_use]
    pub fn entry_bytes(&self) -> EntryBytes {
        match self {
            Entries::Four(_) => EntryBytes::Four,
            Entries::Five(_) => EntryBytes::Five,
        }
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Entries::Four(entries) => entries.len(),
            Entries::Five(entries) => entries.len(),
        }
    }

    /// Returns the place an entry points to.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<Pba> {
        let (entry, unmapped) = match self {
            Entries::Four(entries) => (u64::from(entries[at]), EntryBytes::Four.unmapped()),
            Entries::Five(entries) => (number_of(&entries[at]), EntryBytes::Five.unmapped()),
        };
        (entry != unmapped).then_some(Pba(entry))
    }

    /// Points an entry elsewhere and returns where it pointed to.
    ///
    /// # Panics
    /// When the address does not fit.
    pub fn replace(&mut self, at: usize, pba: Option<Pba>) -> Option<Pba> {
        let before = self.get(at);
        match self {
            Entries::Four(entries) => {
                entries[at] =
                    pba.map_or(u32::MAX, |pba| u32::try_from(pba.0).expect("an address of 4 bytes"));
            }
            Entries::Five(entries) => {
                let number = pba.map_or(EntryBytes::Five.unmapped(), |pba| pba.0);
                let [low @ .., 0, 0, 0] = number.to_le_bytes() else { panic!("an address of 5 bytes") };
                entries[at] = low;
            }
        }
        before
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<Pba>> + '_ {
        (0..self.len()).map(|at| self.get(at))
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match self {
            Entries::Four(entries) => entries.capacity() * size_of::<u32>(),
            Entries::Five(entries) => entries.capacity() * size_of::<[u8; 5]>(),
        }
    }
}

/// A stored entry, little-endian.
fn number_of(entry: &[u8]) -> u64 {
    let mut number = [0; 8];
    number[..entry.len()].copy_from_slice(entry);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_both_sizes_come_back() {
        for (bytes, last) in [(EntryBytes::Four, 0xFFFF_FFFE), (EntryBytes::Five, 0xFF_FFFF_FFFE)] {
            let mut entries = Entries::new(bytes, 4);
            assert!(entries.iter().eq([None; 4]));
            assert_eq!(entries.replace(1, Some(Pba(last))), None);
            assert_eq!(entries.replace(2, Some(Pba(0))), None);
            assert!(entries.iter().eq([None, Some(Pba(last)), Some(Pba(0)), None]));
            assert_eq!(entries.replace(1, Some(Pba(7))), Some(Pba(last)));
            assert_eq!(entries.replace(1, None), Some(Pba(7)));
            assert_eq!(entries.get(1), None);
            assert_eq!(entries.memory_bytes(), 4 * usize::from(bytes.count()));
            assert_eq!(EntryBytes::of(bytes.count()), Some(bytes));
        }
    }

    /// A table of one size is read into one of the other, unless an address is too high for it.
    #[test]
    fn sizes_change_where_addresses_fit() {
        let stored = [7, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF];
        let entries = Entries::decode(EntryBytes::Four, EntryBytes::Five, &stored).unwrap();
        assert!(entries.iter().eq([Some(Pba(7)), None]));
        let entries = Entries::decode(EntryBytes::Five, EntryBytes::Four, &[0xFF; 8]).unwrap();
        assert!(entries.iter().eq([None, None]));
        for high in [[0xFF, 0xFF, 0xFF, 0xFF, 0], [0, 0, 0, 0, 1]] {
            assert!(Entries::decode(EntryBytes::Four, EntryBytes::Five, &high).is_none());
        }
    }
}
