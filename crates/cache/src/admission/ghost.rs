//! A ghost: hashes of objects that were stored, and forgotten before anybody asked for them.

use crate::hash::KeyHash;

/// A table with one place for each hash: what is remembered there was the last to come.
#[derive(Debug)]
pub struct Ghost {
    /// Marks of hashes; zero where nothing is remembered.
    marks: Vec<u32>,
}

impl Ghost {
    /// A ghost with room for so many hashes.
    #[must_use]
    pub fn new(hashes: usize) -> Ghost {
        Ghost { marks: vec![0; hashes] }
    }

    /// Bytes of memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.marks.len() * size_of::<u32>()) as u64
    }

    /// The place of a hash by its upper bits, and a mark by its lower ones.
    fn place(&self, hash: KeyHash) -> Option<(usize, u32)> {
        let place = usize::try_from(hash.bits() >> 16).ok()?.checked_rem(self.marks.len())?;
        let mark = u32::try_from(hash.bits() & u64::from(u32::MAX)).expect("32 bits");
        Some((place, mark.max(1)))
    }

    /// Remembers a hash.
    pub fn remember(&mut self, hash: KeyHash) {
        if let Some((place, mark)) = self.place(hash) {
            self.marks[place] = mark;
        }
    }

    /// True when a hash is remembered, which it is not from then on.
    pub fn recall(&mut self, hash: KeyHash) -> bool {
        let Some((place, mark)) = self.place(hash) else { return false };
        let is_known = self.marks[place] == mark;
        if is_known {
            self.marks[place] = 0;
        }
        is_known
    }
}
