//! Groups of entries, of which only some are in memory (ADR 17).
//!
//! ```text
//!               install                     replace
//!   Absent ───────────────> Resident, clean ───────> Resident, dirty
//!     ^  <───── evict ──────       ^                     │
//!                                  └──── written ────────┘
//! ```
//! Each group lies in a *mapping block* of its own, or in none: then nothing was mapped in it when it was evicted. What
//! is evicted is chosen by CLOCK: a hand goes round those that are resident, and takes the first that nobody used
//! since it came by. Pins, changes that are not written, and writes under way keep a group resident; so it stays when it was
//! just read, until whoever asked for it has had a turn. Else requests that wait for different groups could evict each
//! other's for ever.
//!
//! This is the account of it. Who reads and writes mapping blocks is `off_load.rs`.

use crate::log::index::entries::{Entries, EntryBytes};
use crate::log::pba::Pba;
use base::units::{BLOCK_BYTES, Lba, index_of};
use base::xor::Block;
use std::fmt;
use std::ops::Range;

/// Times that the hand passes by a group that was just loaded.
const PASSES_AFTER_LOAD: u8 = 3;
/// Groups that are looked at for a better one than the first that would do.
const STEPS_MAX: usize = 64;

/// Limit on groups: the entries of each, and how many groups may be resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLimit {
    /// Entries of a group.
    pub entries: usize,
    /// Groups that may be resident.
    pub resident_max: usize,
    /// Groups in memory that the collector may hold.
    pub held_by_collector_max: usize,
    /// Segments that mapping blocks have for themselves.
    pub mapping_segments: u32,
}

/// Entries that a mapping block holds.
#[must_use]
pub fn entries_per_block(bytes: EntryBytes) -> usize {
    BLOCK_BYTES / usize::from(bytes.count())
}

/// Number in the LBAs of mapping blocks, where blocks of checkpoints have the number of theirs and summaries zero.
const NUMBER: u32 = u32::MAX;

/// A group of entries of the index, by its number from the first block of the volume on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexGroup(pub u32);

impl IndexGroup {
    /// The group whose mapping block has an LBA.
    #[must_use]
    pub fn at(lba: u64) -> Option<IndexGroup> {
        u32::try_from(lba.checked_sub(IndexGroup(0).lba())?).ok().map(IndexGroup)
    }

    /// The LBA of the group's mapping block.
    #[must_use]
    pub fn lba(self) -> u64 {
        u64::from(NUMBER) << 32 | u64::from(self.0)
    }

    /// The group behind this one.
    #[must_use]
    pub fn next(self) -> IndexGroup {
        IndexGroup(self.0 + 1)
    }

    /// The group as an index into a table with one entry per group.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for IndexGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Residence of a group, which says whether it can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    /// The group is in memory.
    Here,
    /// The group is being read.
    Coming,
    /// The group is in its mapping block, or maps nothing.
    Absent,
    /// The mapping block of the group is beyond rescue.
    Lost,
}

/// Holder of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A write on its way.
    Client,
    /// A block being moved.
    Collector,
}

/// A group of entries.
#[derive(Default)]
struct Group {
    entries: Option<Entries>,
    /// Place of its mapping block; outdated while the group is dirty.
    place: Option<Pba>,
    pins: u32,
    pins_of_clients: u32,
    /// Times that the hand passes by.
    passes: u8,
    dirty: bool,
    writing: bool,
    loading: bool,
    /// It was read, and who asked for it had no turn yet.
    fresh: bool,
    lost: bool,
}

impl Group {
    fn is_writable(&self) -> bool {
        self.dirty && !self.writing && self.pins == 0
    }

    fn is_evictable(&self) -> bool {
        self.entries.is_some() && !self.dirty && !self.writing && !self.fresh && self.pins == 0
    }
}

/// Counts of groups by their state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    dirty: usize,
    writing: usize,
    loading: usize,
    placed: usize,
    writable: usize,
    evictable: usize,
    held_by_clients: usize,
    held_by_collector: usize,
}

impl Tally {
    fn add(&mut self, group: &Group) {
        for (count, is) in self.rows(group) {
            *count += usize::from(is);
        }
    }

    fn subtract(&mut self, group: &Group) {
        for (count, is) in self.rows(group) {
            assert!(*count >= usize::from(is), "groups are counted by their state");
            *count -= usize::from(is);
        }
    }

    fn rows(&mut self, group: &Group) -> [(&mut usize, bool); 8] {
        [
            (&mut self.dirty, group.dirty),
            (&mut self.writing, group.writing),
            (&mut self.loading, group.loading),
            (&mut self.placed, group.place.is_some()),
            (&mut self.writable, group.is_writable()),
            (&mut self.evictable, group.is_evictable()),
            (&mut self.held_by_clients, group.pins_of_clients > 0),
            (&mut self.held_by_collector, group.pins > group.pins_of_clients),
        ]
    }
}

/// Bytes that the table of groups takes for each, resident or not.
pub const TABLE_BYTES_PER_GROUP: usize = size_of::<Group>();

/// All groups of a volume.
pub struct Groups {
    entry_bytes: EntryBytes,
    blocks: usize,
    limit: GroupLimit,
    groups: Vec<Group>,
    /// Resident groups, in the order of the clock.
    clock: Vec<IndexGroup>,
    hand: usize,
    /// Position in the clock where the search for the next one to write begins.
    broom: usize,
    tally: Tally,
    /// Groups that were read, and are fresh until the next turn ends.
    fresh: Vec<IndexGroup>,
    /// Set when some group is lost: what is live is not known any more.
    any_lost: bool,
}

impl Groups {
    /// A table in groups; all are resident and none has a mapping block.
    #[must_use]
    pub fn of(table: &Entries, limit: GroupLimit) -> Groups {
        assert!(limit.entries > 0, "a group has entries");
        assert!(limit.held_by_collector_max <= limit.resident_max, "the collector holds resident groups");
        let count = table.len().div_ceil(limit.entries);
        let mut groups = Groups {
            entry_bytes: table.entry_bytes(),
            blocks: table.len(),
            limit,
            groups: (0..count).map(|_| Group::default()).collect(),
            clock: Vec::new(),
            hand: 0,
            broom: 0,
            tally: Tally::default(),
            fresh: Vec::new(),
            any_lost: false,
        };
        for group in groups.all() {
            let mut entries = groups.empty(group);
            for (at, lba) in groups.range(group).enumerate() {
                entries.replace(at, table.get(index_of(lba)));
            }
            groups.admit(group, entries);
            groups.mark_dirty(group);
        }
        groups
    }

    /// Changes a group, and the tally with it.
    fn change<R>(&mut self, group: IndexGroup, change: impl FnOnce(&mut Group) -> R) -> R {
        let group = &mut self.groups[group.index()];
        self.tally.subtract(group);
        let result = change(group);
        self.tally.add(group);
        result
    }

    /// The group of a block.
    #[must_use]
    pub fn group_of(&self, lba: Lba) -> IndexGroup {
        IndexGroup(u32::try_from(lba.index() / self.limit.entries).expect("a u32 of groups"))
    }

    /// Groups.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.groups.len()).expect("a u32 of groups")
    }

    /// True for a group of this volume.
    #[must_use]
    pub fn has(&self, group: IndexGroup) -> bool {
        group.index() < self.groups.len()
    }

    /// All groups, in order.
    pub fn all(&self) -> impl Iterator<Item = IndexGroup> + use<> {
        (0..self.count()).map(IndexGroup)
    }

    /// The blocks of a group.
    #[must_use]
    pub fn range(&self, group: IndexGroup) -> Range<u64> {
        let first = group.index() * self.limit.entries;
        let end = (first + self.limit.entries).min(self.blocks);
        first as u64..end as u64
    }

    /// Blocks of the volume.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    fn empty(&self, group: IndexGroup) -> Entries {
        let range = self.range(group);
        Entries::new(self.entry_bytes, index_of(range.end - range.start))
    }

    fn admit(&mut self, group: IndexGroup, entries: Entries) {
        self.change(group, |group| {
            assert!(group.entries.is_none());
            group.entries = Some(entries);
            group.passes = PASSES_AFTER_LOAD;
        });
        self.clock.push(group);
    }

    /// Returns whether a group can be used.
    #[must_use]
    pub fn residence(&self, group: IndexGroup) -> Residence {
        match &self.groups[group.index()] {
            Group { entries: Some(_), .. } => Residence::Here,
            Group { lost: true, .. } => Residence::Lost,
            Group { loading: true, .. } => Residence::Coming,
            Group { .. } => Residence::Absent,
        }
    }

    /// True when it is known, without the group, that it maps nothing.
    #[must_use]
    pub fn maps_nothing(&self, group: IndexGroup) -> bool {
        let Group { entries, place, lost, .. } = &self.groups[group.index()];
        entries.is_none() && place.is_none() && !lost
    }

    /// Returns the place of a block.
    ///
    /// # Panics
    /// When its group is not resident, and may map something.
    #[must_use]
    pub fn get(&self, lba: Lba) -> Option<Pba> {
        match &self.groups[lba.index() / self.limit.entries] {
            Group { entries: Some(entries), .. } => entries.get(lba.index() % self.limit.entries),
            Group { place, .. } => {
                assert!(place.is_none(), "block {lba} was looked up in a group that is not there");
                None
            }
        }
    }

    /// Points a block elsewhere and returns where it pointed to.
    ///
    /// # Panics
    /// When its group is not resident, and something is to be mapped or may be.
    pub fn replace(&mut self, lba: Lba, pba: Option<Pba>) -> Option<Pba> {
        let group = self.group_of(lba);
        if pba.is_none() && self.maps_nothing(group) {
            return None;
        }
        self.mark_dirty(group);
        self.use_group(group);
        let entries = self.groups[group.index()].entries.as_mut().expect("the group is resident");
        entries.replace(lba.index() % self.limit.entries, pba)
    }

    /// Somebody uses a group.
    pub fn use_group(&mut self, group: IndexGroup) {
        self.groups[group.index()].passes = 1;
    }

    /// Keeps a group resident.
    ///
    /// # Panics
    /// When it is not, or [`Groups::may_pin`] does not allow it.
    pub fn pin(&mut self, group: IndexGroup, holder: Holder) {
        assert!(self.may_pin(group, holder));
        self.change(group, |group| {
            assert!(group.entries.is_some());
            group.pins += 1;
            group.pins_of_clients += u32::from(holder == Holder::Client);
            group.passes = 1;
        });
    }

    /// Releases a group for one of those who keep it.
    pub fn unpin(&mut self, group: IndexGroup, holder: Holder) {
        self.change(group, |group| {
            assert!(group.pins > 0);
            group.pins -= 1;
            assert!(
                holder == Holder::Collector || group.pins_of_clients > 0,
                "clients release what they hold"
            );
            group.pins_of_clients -= u32::from(holder == Holder::Client);
        });
    }

    /// True when somebody may pin a group: clients hold half of what the collector leaves, so that reads and whoever
    /// needs one more find room.
    #[must_use]
    pub fn may_pin(&self, group: IndexGroup, holder: Holder) -> bool {
        let Group { pins, pins_of_clients, .. } = self.groups[group.index()];
        let GroupLimit { resident_max, held_by_collector_max, .. } = self.limit;
        let (is_held, held, most) = match holder {
            Holder::Client => {
                let most = (resident_max - held_by_collector_max) / 2;
                (pins_of_clients > 0, self.tally.held_by_clients, most)
            }
            Holder::Collector => {
                (pins > pins_of_clients, self.tally.held_by_collector, held_by_collector_max)
            }
        };
        is_held || held < most
    }

    /// Groups that are resident, or will be.
    #[must_use]
    pub fn resident(&self) -> usize {
        self.clock.len() + self.tally.loading
    }

    /// True when one more group fits.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.resident() < self.limit.resident_max
    }

    /// True when fewer groups should be resident.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.resident() > self.limit.resident_max
    }

    /// Gives up a group that is written and not in use; false when there is none.
    pub fn evict(&mut self) -> bool {
        if self.tally.evictable == 0 {
            return false;
        }
        let rounds = usize::from(PASSES_AFTER_LOAD) + 1;
        for _ in 0..rounds * self.clock.len() {
            if self.hand >= self.clock.len() {
                self.hand = 0;
            }
            let at = self.clock[self.hand];
            let group = &mut self.groups[at.index()];
            if group.passes > 0 {
                group.passes -= 1;
                self.hand += 1;
            } else if !group.is_evictable() {
                self.hand += 1;
            } else {
                self.change(at, |group| {
                    group.entries = None;
                    group.dirty = false;
                });
                self.clock.swap_remove(self.hand);
                return true;
            }
        }
        false
    }

    /// True when groups should be written so that others find room: too many are dirty, or resident.
    #[must_use]
    pub fn should_write(&self) -> bool {
        self.is_over() && self.tally.dirty > 0 || self.tally.dirty > self.limit.resident_max * 3 / 4
    }

    /// A dirty group that nobody holds and that is not being written: one that nobody used lately, if there is.
    pub fn next_to_write(&mut self) -> Option<IndexGroup> {
        if self.tally.writable == 0 {
            return None;
        }
        let mut used = None;
        for step in 0..self.clock.len() {
            if used.is_some() && step > STEPS_MAX {
                break;
            }
            self.broom = if self.broom + 1 < self.clock.len() { self.broom + 1 } else { 0 };
            let at = self.clock[self.broom];
            let group = &self.groups[at.index()];
            if group.is_writable() && group.passes == 0 {
                return Some(at);
            }
            used = used.or(Some(at).filter(|_| group.is_writable()));
        }
        used
    }

    /// A group is about to be written; false when it maps nothing, which needs no block.
    pub fn begin_write(&mut self, group: IndexGroup, block: &mut Block) -> bool {
        assert!(!self.groups[group.index()].writing, "a group is written once at a time");
        block.fill(0);
        let width = usize::from(self.entry_bytes.count());
        let entries = self.groups[group.index()].entries.as_ref().expect("it is resident");
        let mut any = false;
        for (entry, bytes) in entries.iter().zip(block.chunks_exact_mut(width)) {
            any |= entry.is_some();
            let number = entry.map_or(self.entry_bytes.unmapped(), |pba| pba.0);
            bytes.copy_from_slice(&number.to_le_bytes()[..width]);
        }
        self.change(group, |group| {
            group.dirty = false;
            group.writing = any;
        });
        any
    }

    /// The mapping block of a group is durable, or lost: then the group is as dirty as it was.
    pub fn end_write(&mut self, group: IndexGroup, lost: bool) {
        self.change(group, |group| {
            assert!(group.writing);
            group.writing = false;
            group.dirty = group.dirty || lost;
        });
    }

    /// True while the mapping block of a group is being written.
    #[must_use]
    pub fn is_being_written(&self, group: IndexGroup) -> bool {
        self.groups[group.index()].writing
    }

    /// Returns the place of the mapping block of a group.
    #[must_use]
    pub fn place(&self, group: IndexGroup) -> Option<Pba> {
        self.groups[group.index()].place
    }

    /// The mapping block of a group lies elsewhere, or nowhere; returns where it was.
    pub fn set_place(&mut self, group: IndexGroup, place: Option<Pba>) -> Option<Pba> {
        self.change(group, |group| std::mem::replace(&mut group.place, place))
    }

    /// A resident group is to be written: it changed, or its mapping block is damaged.
    pub fn mark_dirty(&mut self, group: IndexGroup) {
        if !self.groups[group.index()].dirty {
            self.change(group, |group| group.dirty = true);
        }
    }

    /// The mapping block of a group cannot be read, and the group is not resident: what it maps is not known any more, and
    /// the block is of no more use.
    pub fn lose(&mut self, group: IndexGroup) {
        self.groups[group.index()].lost = true;
        self.any_lost = true;
    }

    /// A group is being read.
    pub fn begin_load(&mut self, group: IndexGroup) {
        self.change(group, |group| group.loading = true);
    }

    /// Groups being read.
    #[must_use]
    pub fn loading(&self) -> usize {
        self.tally.loading
    }

    /// A group that maps nothing becomes resident.
    pub fn install_empty(&mut self, group: IndexGroup) {
        assert!(self.maps_nothing(group));
        let entries = self.empty(group);
        self.admit(group, entries);
    }

    /// A mapping block was read, or could not be; false when it makes no group, which is lost then ([`Groups::lose`]).
    pub fn end_load(&mut self, group: IndexGroup, block: Option<&Block>) -> bool {
        self.change(group, |group| group.loading = false);
        let range = self.range(group);
        let bytes = index_of(range.end - range.start) * usize::from(self.entry_bytes.count());
        let entries =
            block.and_then(|block| Entries::decode(self.entry_bytes, self.entry_bytes, &block[..bytes]));
        let Some(entries) = entries else { return false };
        self.admit(group, entries);
        self.change(group, |group| (group.lost, group.fresh) = (false, true));
        self.fresh.push(group);
        true
    }

    /// All who wait for groups had a turn: those that were read may go. False when there was none.
    pub fn end_turn(&mut self) -> bool {
        let fresh = std::mem::take(&mut self.fresh);
        fresh.iter().for_each(|group| self.change(*group, |group| group.fresh = false));
        !fresh.is_empty()
    }

    /// True when some group is lost: nobody can tell any more what is live.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.any_lost
    }

    /// Returns the blocks mapped in resident groups, with their places.
    pub fn mapped(&self) -> impl Iterator<Item = (Lba, Pba)> + '_ {
        let resident = self.all().filter(|group| self.groups[group.index()].entries.is_some());
        resident.flat_map(|group| self.mapped_in(group))
    }

    /// Returns the blocks mapped in a resident group, with their places.
    pub fn mapped_in(&self, group: IndexGroup) -> impl Iterator<Item = (Lba, Pba)> + '_ {
        self.range(group).map(Lba).filter_map(|lba| Some((lba, self.get(lba)?)))
    }

    /// Mapping blocks, with the group of each.
    pub fn places(&self) -> impl Iterator<Item = (IndexGroup, Pba)> + '_ {
        self.all().zip(&self.groups).filter_map(|(group, state)| Some((group, state.place?)))
    }

    /// Mapping blocks that count.
    #[must_use]
    pub fn placed(&self) -> u64 {
        self.tally.placed as u64
    }

    /// Bytes of the groups that are resident, and of the table of groups.
    #[must_use]
    pub fn memory_bytes(&self) -> (usize, usize) {
        let group = self.limit.entries * usize::from(self.entry_bytes.count());
        let table =
            self.groups.capacity() * size_of::<Group>() + self.clock.capacity() * size_of::<IndexGroup>();
        (self.clock.len() * group, table)
    }

    /// Bytes of groups that may be resident.
    #[must_use]
    pub fn limit_bytes(&self) -> usize {
        self.limit.resident_max * self.limit.entries * usize::from(self.entry_bytes.count())
    }

    /// Asserts what must hold between events.
    ///
    /// # Panics
    /// When an invariant is broken.
    pub fn check_invariants(&self) {
        let mut tally = Tally::default();
        self.groups.iter().for_each(|group| tally.add(group));
        assert!(self.tally == tally, "{:?} is kept, {tally:?} counted", self.tally);
        assert!(self.clock.len() == self.groups.iter().filter(|group| group.entries.is_some()).count());
        let mut absent = self.groups.iter().filter(|group| group.entries.is_none());
        assert!(absent.all(|group| !group.dirty && !group.writing && !group.fresh && group.pins == 0));
    }

    /// True when nobody holds a group and none is being read or written.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.tally.loading == 0 && self.tally.writing == 0 && self.groups.iter().all(|group| group.pins == 0)
    }

    /// Groups that somebody holds.
    #[must_use]
    pub fn held(&self) -> usize {
        self.groups.iter().filter(|group| group.pins > 0).count()
    }
}

#[cfg(test)]
mod tests;
