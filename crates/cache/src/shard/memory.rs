//! The memory cache: copies of objects that lie on flash. A hit needs no command.
//!
//! ```text
//!   landed, or hit on flash again -> newest ... oldest -> gone
//!                                       ^---------'  what was hit meanwhile goes round once more
//! ```
//! An entry is a copy of what a slot of the index leads to, and counts while it does: a write frees all slots of an ident,
//! and with them all copies; so do damage and a clear. A zone that is evicted, or lost with its drive, is not looked for
//! here: an entry names the life of its zone, and is nothing when that is over. So an object is in memory only if it is
//! in the index too, and whatever counts or walks over objects need not know of this.

use super::core::Core;
use super::objects::Objects;
use crate::hash::{FullKey, Ident};
use crate::index::PageNumber;
use crate::request::{Namespace, Object};
use crate::share::{Share, Shares};
use base::chains::Chains;
use base::slab::Slab;

/// Neighbour of the newest and of the oldest entry.
const NOBODY: u32 = u32::MAX;
/// Entries that one who makes room passes over because they were hit: a turn ends also when all were.
const SECOND_CHANCES_MAX: usize = 64;
/// An object is kept in memory when it takes no more than this part of it.
const LARGEST_SHARE: u64 = 8;
/// Bytes of an entry beside those of its key and its value: itself, and what three allocations waste.
const ENTRY_BYTES: usize = size_of::<Entry>() + 3 * 16;
/// Bytes of a slot of the slab and of the chains: it stays when its entry goes.
const SLOT_BYTES: usize = size_of::<Option<Box<Entry>>>() + size_of::<u32>() + Chains::SLOT_BYTES;
// ADR 43 tells it.
const _: () = assert!(ENTRY_BYTES + SLOT_BYTES == 184);

/// A copy of an object, and where the object lies.
#[derive(Debug)]
pub struct Copied {
    /// Key of the object.
    pub key: FullKey,
    /// Identity of the key in the index.
    pub ident: Ident,
    /// The object.
    pub object: Object,
    /// Page it begins in.
    pub page: PageNumber,
    /// Life of the zone of this page.
    pub birth: u64,
}

impl Copied {
    fn weight(&self) -> u64 {
        (ENTRY_BYTES + self.key.bytes().len() + self.object.value.heap_bytes()) as u64
    }
}

#[derive(Debug)]
struct Entry {
    copied: Copied,
    /// True when the copy was hit since it came, or went round.
    was_hit: bool,
    older: u32,
    newer: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Memory {
    /// Boxed, so that their bytes come back.
    entries: Slab<Box<Entry>>,
    by_ident: Chains,
    oldest: u32,
    newest: u32,
    weight: u64,
}

impl Default for Memory {
    fn default() -> Memory {
        let (entries, by_ident) = (Slab::default(), Chains::default());
        Memory { entries, by_ident, oldest: NOBODY, newest: NOBODY, weight: 0 }
    }
}

impl Memory {
    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        self.weight + (SLOT_BYTES * self.entries.slots()) as u64
    }

    /// Copies that it holds, those of zones that are gone included.
    pub fn objects(&self) -> usize {
        self.by_ident.len()
    }

    /// All copies.
    pub fn copies(&self) -> impl Iterator<Item = &Copied> {
        self.entries.iter().map(|entry| &entry.copied)
    }

    fn numbers(&self, ident: Ident) -> impl Iterator<Item = u32> + '_ {
        let of_hash = self.by_ident.slots(ident.hash());
        of_hash.filter(move |number| self.entries.get(*number).copied.ident == ident)
    }

    fn find(&self, ident: Ident, key: &FullKey) -> Option<u32> {
        self.numbers(ident).find(|number| self.entries.get(*number).copied.key == *key)
    }

    /// Takes a copy, which becomes the newest.
    ///
    /// # Panics
    /// When there is one of its key.
    pub fn put(&mut self, copied: Copied) {
        assert!(self.find(copied.ident, &copied.key).is_none(), "a write of a key drops what is here of it");
        self.weight += copied.weight();
        let hash = copied.ident.hash();
        let entry = Entry { copied, was_hit: false, older: NOBODY, newer: NOBODY };
        let number = self.entries.insert(Box::new(entry));
        self.by_ident.insert(hash, number);
        self.link(number);
    }

    /// Drops all copies of an ident.
    pub fn drop_ident(&mut self, ident: Ident) {
        let next = |memory: &Memory| memory.numbers(ident).next();
        while let Some(number) = next(self) {
            self.remove(number);
        }
    }

    /// Drops all copies of namespaces that are chosen.
    pub fn drop_all(&mut self, chosen: impl Fn(Namespace) -> bool) {
        let all = self.entries.numbered();
        let of_them = all.filter(|(_, entry)| chosen(entry.copied.key.namespace()));
        let numbers: Vec<u32> = of_them.map(|(number, _)| number).collect();
        numbers.into_iter().for_each(|number| self.remove(number));
    }

    /// Drops copies until it takes no more than so many bytes: the oldest first, but for those that were hit.
    pub fn shrink(&mut self, limit: u64) {
        let mut chances = SECOND_CHANCES_MAX;
        while self.bytes() > limit && self.oldest != NOBODY {
            let number = self.oldest;
            if chances > 0 && std::mem::take(&mut self.entries.get_mut(number).was_hit) {
                chances -= 1;
                self.unlink(number);
                self.link(number);
            } else {
                self.remove(number);
            }
        }
        if self.by_ident.is_empty() && self.bytes() > limit {
            *self = Memory::default();
        }
    }

    fn remove(&mut self, number: u32) {
        self.unlink(number);
        let Entry { copied, .. } = *self.entries.remove(number);
        assert!(copied.weight() <= self.weight, "what goes was counted when it came");
        self.weight -= copied.weight();
        self.by_ident.remove(copied.ident.hash(), number);
    }

    /// An entry becomes the newest.
    fn link(&mut self, number: u32) {
        let before = std::mem::replace(&mut self.newest, number);
        let entry = self.entries.get_mut(number);
        assert!(entry.older == NOBODY && entry.newer == NOBODY, "an entry is in the queue once");
        entry.older = before;
        match before {
            NOBODY => self.oldest = number,
            _ => self.entries.get_mut(before).newer = number,
        }
    }

    fn unlink(&mut self, number: u32) {
        let entry = self.entries.get_mut(number);
        let (older, newer) = (entry.older, entry.newer);
        (entry.older, entry.newer) = (NOBODY, NOBODY);
        match older {
            NOBODY => self.oldest = newer,
            _ => self.entries.get_mut(older).newer = newer,
        }
        match newer {
            NOBODY => self.newest = older,
            _ => self.entries.get_mut(newer).older = older,
        }
    }
}

/// Copies of all namespaces: those with a share of memory have a queue of their own, which takes no more.
#[derive(Debug, Default)]
pub struct Copies {
    common: Memory,
    own: Vec<OwnMemory>,
}

/// Copies of a namespace.
#[derive(Debug)]
struct OwnMemory {
    namespace: Namespace,
    percent: u32,
    memory: Memory,
}

impl Copies {
    /// Empty copies, with a memory for each share that has one.
    pub fn new(shares: &Shares) -> Copies {
        let of_memory = shares.all().filter(|share| share.memory_percent > 0);
        let own = |share: &Share| OwnMemory {
            namespace: share.namespace,
            percent: share.memory_percent,
            memory: Memory::default(),
        };
        Copies { common: Memory::default(), own: of_memory.map(own).collect() }
    }

    fn all(&self) -> impl Iterator<Item = &Memory> {
        self.own.iter().map(|own| &own.memory).chain([&self.common])
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Memory> {
        self.own.iter_mut().map(|own| &mut own.memory).chain([&mut self.common])
    }

    fn own(&self, namespace: Namespace) -> Option<&OwnMemory> {
        self.own.iter().find(|own| own.namespace == namespace)
    }

    fn of(&self, namespace: Namespace) -> &Memory {
        self.own(namespace).map_or(&self.common, |own| &own.memory)
    }

    fn of_mut(&mut self, namespace: Namespace) -> &mut Memory {
        let own = self.own.iter_mut().find(|own| own.namespace == namespace);
        own.map_or(&mut self.common, |own| &mut own.memory)
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> u64 {
        self.all().map(Memory::bytes).sum()
    }

    /// Bytes in the share of a namespace; 0 without one.
    #[must_use]
    pub fn share_bytes(&self, namespace: Namespace) -> u64 {
        self.own(namespace).map_or(0, |own| own.memory.bytes())
    }

    /// Copies that there are, those of zones that are gone included.
    pub fn objects(&self) -> usize {
        self.all().map(Memory::objects).sum()
    }

    /// All copies.
    pub fn copies(&self) -> impl Iterator<Item = &Copied> {
        self.all().flat_map(Memory::copies)
    }

    /// Drops all copies of an ident, which keys of several namespaces may have.
    pub fn drop_ident(&mut self, ident: Ident) {
        self.all_mut().for_each(|memory| memory.drop_ident(ident));
    }

    /// Drops all copies of namespaces that are chosen.
    pub fn drop_all(&mut self, chosen: impl Fn(Namespace) -> bool + Copy) {
        self.all_mut().for_each(|memory| memory.drop_all(chosen));
    }

    /// Bytes that copies of a namespace may take, of so many for all.
    fn limit_of(&self, namespace: Namespace, limit: u64) -> u64 {
        self.own(namespace).map_or(limit, |own| part(limit, own.percent))
    }

    /// Drops copies until they take no more than so many bytes: those beyond the share of their namespace, then those without one.
    pub fn shrink(&mut self, limit: u64) {
        let mut left = limit;
        for own in &mut self.own {
            own.memory.shrink(part(limit, own.percent));
            left = left.saturating_sub(own.memory.bytes());
        }
        self.common.shrink(left);
    }
}

fn part(bytes: u64, percent: u32) -> u64 {
    bytes / 100 * u64::from(percent)
}

impl Objects {
    /// The object of a key, when a copy of it is in memory that counts.
    pub(super) fn remember(&mut self, core: &mut Core, (ident, key): (Ident, &FullKey)) -> Option<Object> {
        let namespace = key.namespace();
        let memory = self.memory.of(namespace);
        let number = memory.find(ident, key)?;
        let counts = core.counts(&memory.entries.get(number).copied);
        let memory = self.memory.of_mut(namespace);
        if !counts {
            memory.remove(number);
            return None;
        }
        let entry = memory.entries.get_mut(number);
        let (page, object) = (entry.copied.page, entry.copied.object.clone());
        // What is hit in memory is worth its flash.
        if !std::mem::replace(&mut entry.was_hit, true) {
            core.index.warm(ident, page);
        }
        core.note_hit(page);
        Some(object)
    }

    /// Keeps a copy in memory, if it is not too large. One of the same object, which was written anew, makes place for it.
    pub(super) fn keep(&mut self, core: &mut Core, copied: Copied) {
        let (limit, namespace) = (self.memory_limit(core), copied.key.namespace());
        let memory = self.memory.of_mut(namespace);
        if let Some(number) = memory.find(copied.ident, &copied.key) {
            memory.remove(number);
        }
        if copied.weight() <= self.memory.limit_of(namespace, limit) / LARGEST_SHARE {
            self.memory.of_mut(namespace).put(copied);
            self.memory.shrink(limit);
        }
    }

    /// Bytes that copies may take: what index, ghosts, listings and buffers leave of the memory.
    pub(super) fn memory_limit(&self, core: &Core) -> u64 {
        let tables = core.index.bytes() + self.ghost_bytes() + core.options.listing_bytes();
        let taken = tables + self.buffer.bytes();
        core.options.memory_bytes.saturating_sub(taken).min(core.options.copies_bytes_max)
    }

    /// Every copy that counts is of an object in the index: for checks.
    pub(super) fn has_slots_for_copies(&self, core: &Core) -> bool {
        let mut counting = self.memory.copies().filter(|copied| core.counts(copied));
        counting.all(|copied| core.index.find(copied.ident).any(|page| page == copied.page))
    }
}

impl Core {
    /// True while a copy is of what a slot leads to.
    pub(super) fn counts(&self, copied: &Copied) -> bool {
        let (drive, zone, _) = self.locate(copied.page);
        let own = &self.drives[drive];
        let found = &own.zones[zone.index()];
        own.up && found.is_readable() && found.birth == copied.birth
    }
}

#[cfg(test)]
mod tests;
