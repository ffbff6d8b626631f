//! The index: which pages may hold the object of a key.
//!
//! ```text
//!   bucket, 64 bytes: | slot: tag 12 bits, page 28 bits | x 12 | heat: 2 bits x 12 | 1 byte unused |
//! ```
//! A key has two buckets, and its slot lies in either. A slot does not say which of the keys of its [`Ident`] it is of:
//! the page does. The invalidation rules (ADR 40) decide when a slot may leave.

mod walk;

use crate::hash::{Ident, KeyHash, Shape, TAG_BITS_MAX};
pub use walk::Window;

/// Slots of a bucket.
pub const SLOTS: usize = 12;
/// Bytes of a bucket.
pub const BUCKET_BYTES: usize = 64;
const SLOT_BYTES: usize = 5;
const HEAT_AT: usize = SLOTS * SLOT_BYTES;
const PAGE_BITS: u32 = 28;
/// Most pages that an index can name.
pub const PAGES_MAX: u64 = 1 << PAGE_BITS;
/// Most heat of an object: hits are counted up to it.
pub const HEAT_MAX: u8 = 3;

/// Number of a page among all pages of all drives; never zero, for that is in the superblock log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageNumber(pub u32);

/// Place of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SlotAt {
    bucket: u64,
    slot: usize,
}

#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Bucket([u8; BUCKET_BYTES]);

impl Bucket {
    /// Tag and page of a slot; `None` when it is free.
    fn slot(&self, slot: usize) -> Option<(u16, PageNumber)> {
        // What follows the last slot is in the bucket, too.
        let bytes = self.0[slot * SLOT_BYTES..][..8].try_into().expect("eight bytes");
        let word = u64::from_le_bytes(bytes);
        let page = u32::try_from(word & (PAGES_MAX - 1)).expect("28 bits");
        let tag = u16::try_from((word >> PAGE_BITS) & ((1 << TAG_BITS_MAX) - 1)).expect("12 bits");
        (page != 0).then_some((tag, PageNumber(page)))
    }

    fn set(&mut self, slot: usize, tag: u16, page: PageNumber, heat: u8) {
        assert!(
            page.0 != 0 && u64::from(page.0) < PAGES_MAX && heat <= HEAT_MAX,
            "{page:?} with heat {heat}"
        );
        assert!(tag >> TAG_BITS_MAX == 0, "a tag has 12 bits: {tag:x}");
        let word = u64::from(tag) << PAGE_BITS | u64::from(page.0);
        self.0[slot * SLOT_BYTES..][..SLOT_BYTES].copy_from_slice(&word.to_le_bytes()[..SLOT_BYTES]);
        self.set_heat(slot, heat);
    }

    fn free(&mut self, slot: usize) {
        self.0[slot * SLOT_BYTES..][..SLOT_BYTES].fill(0);
        self.set_heat(slot, 0);
    }

    fn heat(&self, slot: usize) -> u8 {
        self.0[HEAT_AT + slot / 4] >> (slot % 4 * 2) & HEAT_MAX
    }

    fn set_heat(&mut self, slot: usize, heat: u8) {
        let (byte, shift) = (HEAT_AT + slot / 4, slot % 4 * 2);
        self.0[byte] = self.0[byte] & !(HEAT_MAX << shift) | heat << shift;
    }

    fn free_slot(&self) -> Option<usize> {
        (0..SLOTS).find(|slot| self.slot(*slot).is_none())
    }
}

/// The index finds no slot for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSlot;

/// The index of a shard.
#[derive(Debug)]
pub struct Index {
    shape: Shape,
    buckets: Vec<Bucket>,
    used: u64,
}

impl Index {
    /// An empty index.
    ///
    /// # Panics
    /// When memory has no room for its buckets.
    #[must_use]
    pub fn new(shape: Shape) -> Index {
        let count = usize::try_from(shape.buckets()).expect("buckets fit memory");
        Index { shape, buckets: vec![Bucket([0; BUCKET_BYTES]); count], used: 0 }
    }

    /// Shape of the index.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Slots in use.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes of memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shape.buckets() * BUCKET_BYTES as u64
    }

    fn slots(&self) -> u64 {
        self.shape.buckets() * SLOTS as u64
    }

    fn bucket(&self, bucket: u64) -> &Bucket {
        &self.buckets[usize::try_from(bucket).expect("buckets fit memory")]
    }

    fn bucket_mut(&mut self, bucket: u64) -> &mut Bucket {
        &mut self.buckets[usize::try_from(bucket).expect("buckets fit memory")]
    }

    /// The buckets of an ident, each once.
    fn buckets_of(&self, ident: Ident) -> impl Iterator<Item = u64> + use<> {
        let second = self.shape.other(ident.bucket, ident.tag);
        std::iter::once(ident.bucket).chain((second != ident.bucket).then_some(second))
    }

    /// Slots of an ident, each once.
    fn slots_of(&self, ident: Ident) -> impl Iterator<Item = (SlotAt, PageNumber)> + '_ {
        self.buckets_of(ident).flat_map(move |bucket| {
            let found = self.bucket(bucket);
            (0..SLOTS).filter_map(move |slot| {
                let (tag, page) = found.slot(slot)?;
                (tag == ident.tag).then_some((SlotAt { bucket, slot }, page))
            })
        })
    }

    /// Pages that may hold the object of a key with this ident.
    pub fn find(&self, ident: Ident) -> impl Iterator<Item = PageNumber> + '_ {
        self.slots_of(ident).map(|(_, page)| page)
    }

    /// Loads the buckets of a key that is about to be inserted. Who does so for several keys before the first of them waits for memory
    /// once, and not for each: an index is larger than the caches of a processor.
    pub fn load(&self, hash: KeyHash) {
        let first = self.shape.first(hash);
        let second = self.shape.other(first, self.shape.tag(hash));
        for bucket in [first, second] {
            std::hint::black_box(self.bucket(bucket).0[0]);
        }
    }

    /// Gives a key a slot for a page.
    ///
    /// # Errors
    /// When both of its buckets are full and nothing of them fits its other bucket.
    pub fn insert(&mut self, hash: KeyHash, page: PageNumber) -> Result<(), NoSlot> {
        self.insert_warm(hash, page, 0)
    }

    /// The same, with heat.
    ///
    /// # Errors
    /// As for [`Index::insert`].
    pub fn insert_warm(&mut self, hash: KeyHash, page: PageNumber, heat: u8) -> Result<(), NoSlot> {
        let tag = self.shape.tag(hash);
        let first = self.shape.first(hash);
        let second = self.shape.other(first, tag);
        let load = |bucket: u64| (0..SLOTS).filter(|slot| self.bucket(bucket).slot(*slot).is_some()).count();
        let emptier = if load(second) < load(first) { second } else { first };
        let place = match self.bucket(emptier).free_slot() {
            Some(slot) => SlotAt { bucket: emptier, slot },
            None => self.make_room(first).or_else(|| self.make_room(second)).ok_or(NoSlot)?,
        };
        debug_assert!(self.bucket(place.bucket).slot(place.slot).is_none(), "a slot that is given is free");
        self.bucket_mut(place.bucket).set(place.slot, tag, page, heat);
        self.used += 1;
        assert!(self.used <= self.slots(), "no more slots are in use than there are");
        Ok(())
    }

    /// Moves a slot of a full bucket to its other bucket, if one of them has room there.
    fn make_room(&mut self, bucket: u64) -> Option<SlotAt> {
        for slot in 0..SLOTS {
            let (tag, page) = self.bucket(bucket).slot(slot)?;
            let other = self.shape.other(bucket, tag);
            if other == bucket {
                continue;
            }
            if let Some(room) = self.bucket(other).free_slot() {
                let heat = self.bucket(bucket).heat(slot);
                self.bucket_mut(other).set(room, tag, page, heat);
                self.bucket_mut(bucket).free(slot);
                return Some(SlotAt { bucket, slot });
            }
        }
        None
    }

    /// Frees the slots of an ident whose pages are chosen, and counts them.
    pub fn remove(&mut self, ident: Ident, mut chosen: impl FnMut(PageNumber) -> bool) -> u64 {
        let mut freed = 0;
        for bucket in self.buckets_of(ident) {
            let found = self.bucket_mut(bucket);
            for slot in 0..SLOTS {
                let is_chosen = |(tag, page)| tag == ident.tag && chosen(page);
                if found.slot(slot).is_some_and(is_chosen) {
                    found.free(slot);
                    freed += 1;
                }
            }
        }
        assert!(freed <= self.used, "what is freed was in use");
        self.used -= freed;
        freed
    }

    /// Notes a hit of an ident in a page.
    pub fn warm(&mut self, ident: Ident, page: PageNumber) {
        let found = self.slots_of(ident).find(|(_, at)| *at == page);
        if let Some((SlotAt { bucket, slot }, _)) = found {
            let heat = (self.bucket(bucket).heat(slot) + 1).min(HEAT_MAX);
            self.bucket_mut(bucket).set_heat(slot, heat);
        }
    }

    /// Heat of an ident in a page: hits, 3 at most.
    #[must_use]
    pub fn heat(&self, ident: Ident, page: PageNumber) -> u8 {
        let found = self.slots_of(ident).find(|(_, at)| *at == page);
        found.map_or(0, |(place, _)| self.bucket(place.bucket).heat(place.slot))
    }

    /// Tells pages of objects that were hit, and how hot these are, of slots in `count` buckets from `from` on; returns where to go on, `None` at the end.
    pub fn look(&self, from: u64, count: u64, mut tell: impl FnMut(PageNumber, u8)) -> Option<u64> {
        assert!(from < self.shape.buckets() && count > 0, "a look goes on within the index: {from}");
        let end = (from + count).min(self.shape.buckets());
        for bucket in from..end {
            let found = self.bucket(bucket);
            for slot in (0..SLOTS).filter(|slot| found.heat(*slot) > 0) {
                found.slot(slot).into_iter().for_each(|(_, page)| tell(page, found.heat(slot)));
            }
        }
        (end < self.shape.buckets()).then_some(end)
    }

    /// Frees the slots with chosen pages in `count` buckets from `from` on; returns where to go on, `None` at the end.
    pub fn sweep(
        &mut self,
        from: u64,
        count: u64,
        mut chosen: impl FnMut(Ident, PageNumber) -> bool,
    ) -> Option<u64> {
        assert!(from < self.shape.buckets() && count > 0, "a pass goes on within the index: {from}");
        let end = (from + count).min(self.shape.buckets());
        for bucket in from..end {
            for slot in 0..SLOTS {
                let Some((tag, page)) = self.bucket(bucket).slot(slot) else { continue };
                if chosen(self.shape.ident_of(bucket, tag), page) {
                    self.bucket_mut(bucket).free(slot);
                    assert!(self.used > 0, "what is freed was in use");
                    self.used -= 1;
                }
            }
        }
        (end < self.shape.buckets()).then_some(end)
    }

    /// Frees all slots.
    pub fn clear(&mut self) {
        self.buckets.fill(Bucket([0; BUCKET_BYTES]));
        self.used = 0;
    }
}

#[cfg(test)]
mod tests;
