//! Bad blocks: sectors of members that cannot be returned though the member works otherwise, as its log on the media lists them.
//!
//! ```text
//!   a write fails, a row cannot be rebuilt ──> listed ─┐                      log written, then feature 8
//!   a row is written there ──────────────────> cleared ┴─> dirty ──> flush ─┤
//!                                                                           feature 8 goes, then the log is zeros
//! ```
//! What is listed is not read, whatever the media return; it is written as ever, and what is written clears it. Writes are answered
//! when lists say so on the media, for a list that is too long is as wrong as one that is too short: of a row that lacks two
//! pieces a write makes both good, and nothing may be left that says otherwise.
//!
//! *One sector* of a log is written at once, 64 entries. Longer lists, as md can make them, only shrink, one entry at a time:
//! nobody knows in which order sectors of a log arrive.

use super::core::Core;
use super::pages::PAGE_BYTES;
use super::places::Places;
use super::{Effects, members};
use block::md::Role;
use block::md::bad_blocks::{BadBlocks as Entry, ENTRY_BYTES, decode, encode};
use block::md::superblock::{Superblock, feature};
use std::collections::BTreeMap;
use std::ops::Range;

/// Most entries of a log that is written at once: one sector of it.
const ENTRIES_MAX: usize = 512 / ENTRY_BYTES;
/// Most sectors of an entry.
const ENTRY_SECTORS_MAX: u64 = 512;

/// Log with these entries.
fn log_of(entries: &[Entry]) -> [u8; PAGE_BYTES] {
    let mut log = [0; PAGE_BYTES];
    encode(entries, &mut log);
    log
}

/// Bad blocks of one member.
#[derive(Clone, Debug, Default)]
struct List {
    /// Entries in the order of the log; some may be there twice.
    entries: Vec<Entry>,
    /// Something can be listed: the member has a log.
    has_log: bool,
}

fn end(entry: &Entry) -> u64 {
    entry.sector.saturating_add(entry.sectors)
}

fn overlaps(entry: &Entry, sectors: &Range<u64>) -> bool {
    entry.sector < sectors.end && sectors.start < end(entry)
}

fn pieces(sectors: Range<u64>) -> impl Iterator<Item = Entry> {
    let starts = sectors.clone().step_by(usize::try_from(ENTRY_SECTORS_MAX).expect("512"));
    starts.map(move |sector| Entry { sector, sectors: (sectors.end - sector).min(ENTRY_SECTORS_MAX) })
}

impl List {
    /// Lists sectors; false when there is no room.
    fn add(&mut self, sectors: &Range<u64>) -> bool {
        if !self.has_log || self.entries.len() > ENTRIES_MAX {
            return false;
        }
        // Entries that touch become one, cut where it is longer than an entry can be.
        let touches = |entry: &Entry| entry.sector <= sectors.end && sectors.start <= end(entry);
        let touched = || self.entries.iter().filter(|entry| touches(entry));
        let start = touched().map(|entry| entry.sector).min().unwrap_or(u64::MAX).min(sectors.start);
        let until = touched().map(end).max().unwrap_or(0).max(sectors.end);
        let others = self.entries.iter().filter(|entry| !touches(entry)).copied();
        let entries: Vec<Entry> = others.chain(pieces(start..until)).collect();
        let fits = entries.len() <= ENTRIES_MAX;
        if fits {
            self.entries = entries;
        }
        fits
    }

    /// Takes sectors from the list; false when that cannot be.
    fn clear(&mut self, sectors: &Range<u64>) -> bool {
        let rest = |entry: &Entry| {
            let before = entry.sector..sectors.start.min(end(entry));
            let behind = sectors.end.max(entry.sector)..end(entry);
            [before, behind].into_iter().filter(|rest| rest.start < rest.end)
        };
        if self.entries.len() <= ENTRIES_MAX {
            let entries: Vec<Entry> =
                self.entries.iter().flat_map(|entry| rest(entry).flat_map(pieces)).collect();
            let fits = entries.len() <= ENTRIES_MAX;
            if fits {
                self.entries = entries;
            }
            return fits;
        }
        let is_whole = self.entries.iter().all(|entry| rest(entry).count() < 2);
        if !is_whole {
            return false;
        }
        // Another entry twice takes the place of one that goes, so that each sector of the log is right by itself.
        let left =
            self.entries.iter().find_map(|entry| rest(entry).next()).and_then(|rest| pieces(rest).next());
        match left {
            None => self.entries.clear(),
            Some(left) => {
                let shorter =
                    |entry: &Entry| rest(entry).next().and_then(|rest| pieces(rest).next()).unwrap_or(left);
                self.entries = self.entries.iter().map(shorter).collect();
            }
        }
        true
    }
}

/// Bad blocks of all members.
#[derive(Debug, Default)]
pub struct BadBlocks {
    lists: BTreeMap<usize, List>,
    /// Members whose lists have entries: asked with each piece that is written.
    listed: Places,
    /// Members whose lists changed since they were written.
    dirty: Places,
    /// Lists that are being written, as they were when the flush before that began: what was cleared since is not durable.
    writing: BTreeMap<usize, Vec<Entry>>,
    /// Members whose logs count: feature 8 is, or is about to be, on their superblocks.
    counting: Places,
    /// Nothing is listed.
    is_unused: bool,
}

impl BadBlocks {
    /// Lists that take nothing: with a partial parity log, which is applied to what members return, a write that fails fails its
    /// member.
    #[must_use]
    pub fn unused() -> BadBlocks {
        BadBlocks { is_unused: true, ..BadBlocks::default() }
    }

    /// A member comes with the entries of its log.
    pub fn set_member(&mut self, role: usize, entries: Vec<Entry>, superblock: &Superblock) {
        let place = superblock.device.bad_blocks;
        let has_log = !self.is_unused
            && superblock.bad_block_place().is_some()
            && place.shift == 0
            && usize::from(place.sectors) * 512 == PAGE_BYTES;
        self.forget(role);
        if !entries.is_empty() {
            self.counting.insert(role);
        }
        self.lists.insert(role, List { entries, has_log });
        self.note_listed(role);
    }

    /// A member goes.
    pub fn forget(&mut self, role: usize) {
        let own = Places::one(role);
        self.lists.remove(&role);
        self.listed = self.listed.without(own);
        self.dirty = self.dirty.without(own);
        self.writing.remove(&role);
        self.counting = self.counting.without(own);
    }

    /// The device at a place has the role of a member from now on, which goes.
    pub fn take_role(&mut self, place: usize, role: usize) {
        assert!(place != role, "the device at place {place} takes its own role");
        let is_dirty = self.dirty.contains(place);
        let is_counting = self.counting.contains(place);
        let (list, writing) = (self.lists.remove(&place), self.writing.remove(&place));
        self.forget(place);
        self.forget(role);
        list.into_iter().for_each(|list| drop(self.lists.insert(role, list)));
        writing.into_iter().for_each(|entries| drop(self.writing.insert(role, entries)));
        if is_dirty {
            self.dirty.insert(role);
        }
        if is_counting {
            self.counting.insert(role);
        }
        self.note_listed(role);
    }

    /// True when one of the sectors of a member is listed.
    #[must_use]
    pub fn is_bad(&self, role: Role, sectors: &Range<u64>) -> bool {
        let list = self.lists.get(&role.index());
        list.is_some_and(|list| list.entries.iter().any(|entry| overlaps(entry, sectors)))
    }

    /// Lists sectors of a member; false when its log cannot take them.
    pub fn add(&mut self, role: Role, sectors: &Range<u64>) -> bool {
        let is_listed = self.lists.get_mut(&role.index()).is_some_and(|list| list.add(sectors));
        if is_listed {
            self.dirty.insert(role.index());
            self.note_listed(role.index());
        }
        assert!(
            !is_listed || self.is_bad(role, sectors),
            "sectors {sectors:?} of member {role} are listed and not bad"
        );
        is_listed
    }

    /// Sectors of a member were written; false when they stay listed all the same.
    pub fn clear(&mut self, role: Role, sectors: &Range<u64>) -> bool {
        if !self.is_bad(role, sectors) {
            return true;
        }
        let is_cleared = self.lists.get_mut(&role.index()).is_some_and(|list| list.clear(sectors));
        if is_cleared {
            self.dirty.insert(role.index());
            self.note_listed(role.index());
        }
        assert!(
            !is_cleared || !self.is_bad(role, sectors),
            "sectors {sectors:?} of member {role} were cleared and are bad"
        );
        is_cleared
    }

    /// The list of a member changed.
    fn note_listed(&mut self, role: usize) {
        let own = Places::one(role);
        let is_empty = self.lists.get(&role).is_none_or(|list| list.entries.is_empty());
        self.listed = if is_empty { self.listed.without(own) } else { self.listed.or(own) };
    }

    /// True when the media say what is listed.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.dirty.is_empty() && self.writing.is_empty()
    }

    /// True when no list is being written.
    #[must_use]
    pub fn is_resting(&self) -> bool {
        self.writing.is_empty()
    }

    /// Entries of a member, in order.
    #[must_use]
    pub fn entries(&self, role: usize) -> Vec<Entry> {
        let mut entries = self.lists.get(&role).map_or(Vec::new(), |list| list.entries.clone());
        entries.sort_unstable();
        entries.dedup();
        entries
    }

    /// True when nothing is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// Lists are about to be written as they are now, once what was cleared is flushed.
    ///
    /// # Panics
    /// When others are being written.
    fn begin(&mut self) {
        assert!(self.is_resting(), "lists are written one step after the other");
        let changed = std::mem::take(&mut self.dirty);
        let lists = self.lists.iter().filter(|(role, _)| changed.contains(**role));
        self.writing = lists.map(|(role, list)| (*role, list.entries.clone())).collect();
        self.counting = self.counting.without(self.empty());
    }

    /// Members whose lists are written as empty ones.
    fn empty(&self) -> Places {
        self.writing.iter().filter(|(_, entries)| entries.is_empty()).map(|(role, _)| *role).collect()
    }

    /// Members whose lists are being written.
    fn written(&self) -> Places {
        self.writing.keys().copied().collect()
    }

    /// The features of a member's superblock.
    pub fn mark(&self, role: usize, superblock: &mut Superblock) {
        superblock.features &= !feature::BAD_BLOCKS;
        if self.counting.contains(role) {
            superblock.features |= feature::BAD_BLOCKS;
        }
    }

    /// Log that a member gets in the step under way.
    fn log(&self, role: usize) -> [u8; PAGE_BYTES] {
        log_of(self.writing.get(&role).map_or(&[], Vec::as_slice))
    }

    /// Asserts what must hold between events.
    pub fn check_invariants(&self) {
        let listed = self.lists.iter().filter(|(_, list)| !list.entries.is_empty());
        assert_eq!(
            listed.clone().map(|(role, _)| *role).collect::<Places>(),
            self.listed,
            "lists with entries"
        );
        for (role, list) in listed {
            let log = decode(&log_of(&list.entries), 0);
            assert!(log.as_ref() == Ok(&list.entries), "the log of member {role} would be {log:?}");
        }
    }
}

impl BadBlocks {
    /// Lists that changed are to be written, behind a flush that begins now.
    pub(super) fn take_bad_block_lists(&mut self) {
        self.begin();
    }

    /// Lists are on the media.
    pub(super) fn end_bad_block_logs(&mut self) {
        self.writing.clear();
    }
}

impl Core {
    /// True when a member lists one of these rows as bad.
    pub(super) fn is_bad(&self, member: Role, rows: Range<u64>) -> bool {
        !self.bad_blocks.is_empty() && self.bad_blocks.is_bad(member, &self.members.sectors(member, rows))
    }

    /// True while the media do not say what is listed.
    pub(super) fn has_unrecorded_bad_blocks(&self) -> bool {
        !self.members.is_broken() && !self.bad_blocks.is_recorded()
    }

    /// What lists do not say any more is flushed: begins with those that say something.
    pub(super) fn begin_bad_block_logs(&mut self, fx: &mut Effects) {
        let listed = self.bad_blocks.written().without(self.bad_blocks.empty());
        self.bad_blocks.counting = self.bad_blocks.counting.iter().chain(listed.iter()).collect();
        self.write_bad_block_logs(listed, fx);
    }

    /// Logs of lists that are empty become zeros, when no superblock refers to them any more.
    pub(super) fn zero_bad_block_logs(&mut self, fx: &mut Effects) {
        let unlisted = self.bad_blocks.written().without(self.bad_blocks.counting);
        self.write_bad_block_logs(unlisted, fx);
    }

    fn write_bad_block_logs(&mut self, roles: Places, fx: &mut Effects) {
        for role in roles.and(self.members.recorded()).iter() {
            let is_counting = self.bad_blocks.counting.contains(role);
            let log = if is_counting { self.bad_blocks.log(role) } else { [0; PAGE_BYTES] };
            let own = [role].into_iter().collect();
            let sector = |superblock: &Superblock| superblock.bad_block_place().map(|(sector, _)| sector);
            self.broadcast(own, sector, |_| log, fx);
        }
    }

    /// Lists a row that cannot be rebuilt on the member it is rebuilt for; false when that has no room for it.
    pub(super) fn list_stuck(&mut self, role: usize, row: u64) -> bool {
        let member = members::role(role);
        let sectors = self.members.sectors(member, row..row + 1);
        self.bad_blocks.add(member, &sectors)
    }

    /// Entries of each member that has some.
    #[must_use]
    pub fn bad_blocks(&self) -> Vec<(Role, Vec<Entry>)> {
        let of = |role: usize| (members::role(role), self.bad_blocks.entries(role));
        (0..self.members.count()).map(of).filter(|(_, entries)| !entries.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests;
