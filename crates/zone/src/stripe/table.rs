//! The stripe table: which stripe lies in which slot, for segments under Zone Append (ZapRAID section 3.2).
//!
//! ```text
//!  entry of (drive, slot) = stripe within the slot's group        G = 20, packed to 5 bits:
//!  entries:  drive 0 | 3 0 1 2 .. | drive 1 | 0 2 3 1 .. | ..     00011 00000 00001 00010 ..
//!  filled:   one bit per entry, until all are (stripe 0 is a stripe)
//! ```
//! An entry takes ceil(log2 G) bits, or that rounded up to bytes ([`Packing`]). A segment that is sealed usually has a
//! chunk in every slot: its table gives up the bits that tell filled slots from empty ones, and is what the paper
//! computes, (k+m) * S * ceil(log2 G) bits.
//!
//! Bad at: nothing is stored for Zone Write segments, whose mapping is static.

use crate::stripe::{GROUP_STRIPES_MAX, Layout};
use std::ops::Range;

/// Bits that [`StripeTable::find`] compares at a time, as many entries as they hold: what is left of eight bytes, wherever
/// in the first of them an entry begins.
const FIND_BITS: u32 = 57;
/// Bytes an entry is read from, wherever its bits begin.
const WINDOW_BYTES: usize = 4;
/// Bytes behind the last entry, for a search that begins there.
const PADDING_BYTES: usize = 8;
/// An entry of the largest group, begun in the last bit of a byte, lies in the window.
const _: () = assert!(bits_of(GROUP_STRIPES_MAX) + 7 <= 32);

/// Packing of the entries of stripe tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// ceil(log2 G) bits each: least memory.
    #[default]
    Bits,
    /// Rounded up to bytes, as plain arrays have them: more memory, and no faster to search.
    Bytes,
}

impl Packing {
    /// Bits of an entry.
    #[must_use]
    pub fn entry_bits(self, layout: &Layout) -> u32 {
        // A group that is larger than the segment has no more stripes than the segment.
        let bits = bits_of(layout.group_stripes.min(layout.stripes));
        match self {
            Packing::Bits => bits,
            Packing::Bytes => bits.next_multiple_of(8),
        }
    }
}

/// ceil(log2 `count`), at least one.
const fn bits_of(count: u32) -> u32 {
    let bits = u32::BITS - count.saturating_sub(1).leading_zeros();
    if bits == 0 { 1 } else { bits }
}

/// The stripe table of one segment.
#[derive(Clone, Debug)]
pub struct StripeTable {
    entry_bits: u32,
    slots: usize,
    members: usize,
    /// Entries one behind the other, the least bit first; padding follows the last.
    bytes: Vec<u8>,
    /// Set of the filled slots; empty when all are filled and will stay so.
    filled: Vec<u64>,
}

impl StripeTable {
    /// A table with every slot empty.
    ///
    /// # Panics
    /// When a group has more than [`GROUP_STRIPES_MAX`] stripes.
    #[must_use]
    pub fn new(layout: &Layout, packing: Packing) -> StripeTable {
        assert!(layout.group_stripes <= GROUP_STRIPES_MAX);
        let entry_bits = packing.entry_bits(layout);
        let (slots, members) = (layout.stripes as usize, layout.members());
        let bytes = vec![0; (slots * members * entry_bits as usize).div_ceil(8) + PADDING_BYTES];
        let filled = vec![0; (slots * members).div_ceil(64)];
        StripeTable { entry_bits, slots, members, bytes, filled }
    }

    /// A table with every slot empty, of one group alone: its slots count from the group's first.
    #[must_use]
    pub fn of_group(layout: &Layout, group: u32, packing: Packing) -> StripeTable {
        let stripes = layout.group_len(group);
        StripeTable::new(&Layout { stripes, ..*layout }, packing)
    }

    /// True when it has room for just the slots of a layout.
    #[must_use]
    pub fn fits(&self, layout: &Layout, packing: Packing) -> bool {
        (packing.entry_bits(layout), layout.stripes as usize, layout.members())
            == (self.entry_bits, self.slots, self.members)
    }

    /// Nothing more will be put in: when every slot is filled, the bits that say so are given away, for a table that
    /// is to be filled.
    pub fn settle(&mut self) -> Option<Vec<u64>> {
        let entries = self.slots * self.members;
        let count: usize = self.filled.iter().map(|word| word.count_ones() as usize).sum();
        (count == entries).then(|| std::mem::take(&mut self.filled))
    }

    /// Empties every slot. The bits that a settled table has given away are taken from `spare`, where some fit.
    pub fn clear(&mut self, spare: &mut Vec<Vec<u64>>) {
        if self.filled.is_empty() {
            let words = (self.slots * self.members).div_ceil(64);
            let fits = spare.iter().position(|bits| bits.capacity() >= words);
            self.filled = fits.map(|at| spare.swap_remove(at)).unwrap_or_default();
            self.filled.resize(words, 0);
        }
        self.filled.fill(0);
    }

    /// Records that `slot` of `drive`'s zone holds stripe `within` of the slot's group.
    ///
    /// # Panics
    /// When the number is too large, or the table is settled.
    pub fn set(&mut self, drive: usize, slot: u32, within: u32) {
        let entry = self.entry(drive, slot);
        assert!(within <= self.mask());
        let (at, shift) = self.window(entry);
        let bits = self.read_window(at) & !(self.mask() << shift) | within << shift;
        self.bytes[at..at + WINDOW_BYTES].copy_from_slice(&bits.to_le_bytes());
        self.filled[entry / 64] |= 1 << (entry % 64);
    }

    /// Stripe within its group that `slot` of `drive`'s zone holds; `None` for an empty slot.
    #[must_use]
    pub fn stripe_within(&self, drive: usize, slot: u32) -> Option<u32> {
        let entry = self.entry(drive, slot);
        let filled = self.filled.get(entry / 64).is_none_or(|word| word >> (entry % 64) & 1 == 1);
        let (at, shift) = self.window(entry);
        let within = self.read_window(at) >> shift & self.mask();
        filled.then_some(within)
    }

    /// Slot among `slots` of `drive`'s zone that holds stripe `within` of their group. `likely` is
    /// looked at first: a chunk usually lands near its own number.
    #[must_use]
    pub fn find(&self, drive: usize, slots: Range<u32>, within: u32, likely: u32) -> Option<u32> {
        let holds = |slot: &u32| self.stripe_within(drive, *slot) == Some(within);
        if holds(&likely) {
            return Some(likely);
        }
        let lanes = FIND_BITS / self.entry_bits;
        let ones = (0..lanes).fold(0_u64, |ones, lane| ones | 1 << (lane * self.entry_bits));
        let tops = ones << (self.entry_bits - 1);
        slots.clone().step_by(lanes as usize).find_map(|first| {
            let (at, shift) = self.window(self.entry(drive, first));
            let differ = (base::bytes::u64_at(&self.bytes, at) >> shift) ^ (ones * u64::from(within));
            // Taking one from a lane that is zero borrows from its top bit. Lanes above it may look the same.
            let may_hold = differ.wrapping_sub(ones) & !differ & tops != 0;
            may_hold.then(|| (first..(first + lanes).min(slots.end)).find(holds)).flatten()
        })
    }

    /// Bytes of memory the table takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + 8 * self.filled.capacity()
    }

    fn entry(&self, drive: usize, slot: u32) -> usize {
        assert!((slot as usize) < self.slots);
        drive * self.slots + slot as usize
    }

    /// First byte of the window with an entry, and the entry's first bit in it.
    fn window(&self, entry: usize) -> (usize, usize) {
        let bit = entry * self.entry_bits as usize;
        (bit / 8, bit % 8)
    }

    fn read_window(&self, at: usize) -> u32 {
        base::bytes::u32_at(&self.bytes, at)
    }

    /// The largest entry.
    fn mask(&self) -> u32 {
        (1 << self.entry_bits) - 1
    }
}

#[cfg(test)]
mod tests;
