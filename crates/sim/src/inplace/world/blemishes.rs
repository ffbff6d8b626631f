//! Bad blocks of the world: which rows may be listed on which member, and what may be lost for that.
//!
//! A list excuses nothing by itself. It does in rows that were *ruined*: so many members could not return them at one moment that
//! something was lost, and blocks that were not written since may stay so. Where a list has no cause it is a failure.

use super::judge::Judge;
use super::stage::Stage;
use crate::world::Failure;
use array::inplace::map::STRIP_ROWS_MAX;
use block::md::Role;
use block::md::member::Member;
use block::md::superblock::RoleEntry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What becomes of a row of a member.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Blemish {
    /// It cannot be read until it is written.
    Unreadable,
    /// It can neither be read nor written: where the array has no lists, it cannot be read.
    Scarred,
    /// It cannot be written, and is read as it was: where the array has no lists, it cannot be read.
    Stuck,
}

/// See the module.
#[derive(Default)]
pub(super) struct Blemishes {
    /// Members that list a row, or did since the start.
    listed: BTreeMap<u64, BTreeSet<usize>>,
    /// Rows that were ruined, with the writes of their blocks that were done then, or later by an engine that had not met it.
    ruined: BTreeMap<u64, BTreeMap<u64, u64>>,
    /// Rows that were spoiled as the power failed, and are listed still: what they were written with may not have got there.
    spoilt: BTreeSet<u64>,
    /// All rows are in doubt, and some are: any may be listed.
    doubts: (bool, bool),
}

impl Blemishes {
    /// Members whose lists are why a block of a row may be lost: a read after so many writes of it were done, or a write.
    pub(super) fn listed_in(&self, row: u64, lba: u64, done: Option<u64>) -> BTreeSet<usize> {
        let is_old = |blocks: &BTreeMap<u64, u64>| done.is_none_or(|done| blocks.get(&lba) >= Some(&done));
        let is_excused = |_: &&BTreeSet<usize>| self.ruined.get(&row).is_some_and(is_old);
        self.listed.get(&row).filter(is_excused).cloned().unwrap_or_default()
    }

    /// Rows that are listed, each with its members.
    pub(super) fn listed(&self) -> impl Iterator<Item = (&u64, &BTreeSet<usize>)> {
        self.listed.iter()
    }

    /// A member is another disk now, which lists nothing.
    pub(super) fn forget(&mut self, member: usize) {
        self.listed.values_mut().for_each(|members| members.retain(|other| *other != member));
    }
}

impl Stage {
    /// Rows that are zeroed together with a row.
    fn strip_of(&self, row: u64) -> Range<u64> {
        let rows = (u64::from(self.plan.chunk) / 8).min(STRIP_ROWS_MAX);
        let start = row / rows * rows;
        start..start + rows
    }
}

impl Judge {
    /// Rows that have lost more members than there are parities are ruined.
    pub(super) fn note_ruin(&mut self) {
        let (all, some) = self.doubts_now();
        let (had_all, had_some) = std::mem::replace(&mut self.blemishes.doubts, (all, some));
        if (all && !had_all) || (some && !had_some) {
            (0..self.stage.rows()).for_each(|row| self.ruin(row));
        }
        let spoiled = self.doubts.spoiled.keys();
        let ruined: Vec<u64> = spoiled.copied().filter(|row| self.lacks_too_many(*row)).collect();
        ruined.into_iter().for_each(|row| self.ruin(row));
    }

    /// A member was lost: rows in doubt that another one lists have no parities that are right, so what it held of them is lost.
    pub(super) fn ruin_listed_rows(&mut self) {
        let is_in_doubt = |row: &u64| self.doubts.all || self.doubts.rows.contains(row);
        let listed = self.blemishes.listed.keys().copied();
        let ruined: Vec<u64> = listed.filter(|row| is_in_doubt(row) && self.lacks_too_many(*row)).collect();
        ruined.into_iter().for_each(|row| self.ruin(row));
    }

    /// Whether all rows are in doubt, and whether some are.
    fn doubts_now(&self) -> (bool, bool) {
        (self.doubts.all, !self.doubts.rows.is_empty())
    }

    /// True when more members cannot return a row than there are parities.
    fn lacks_too_many(&self, row: u64) -> bool {
        let spoiled = self.doubts.spoiled.get(&row).into_iter().flatten();
        let listed = self.blemishes.listed.get(&row).into_iter().flatten();
        spoiled.chain(listed).chain(&self.gone).collect::<BTreeSet<_>>().len() > self.stage.plan.parities()
    }

    /// True when a member lists a row in doubt beside those that are lost: until all of it was written, its parities are not right.
    pub(super) fn lists_another(&self, row: u64, spoiled: &BTreeSet<usize>) -> bool {
        let listed = self.blemishes.listed.get(&row).into_iter().flatten();
        let mut others = listed.filter(|member| !self.gone.contains(member) && !spoiled.contains(member));
        let is_old =
            |(lba, done): (u64, &u64)| self.stage.row_of(lba) == row && self.oracle.done(lba) == *done;
        others.next().is_some() && (0..).zip(&self.doubts.done).any(is_old)
    }

    fn ruin(&mut self, row: u64) {
        assert!(row < self.stage.rows(), "row {row} of {} is ruined", self.stage.rows());
        let blocks = (0..self.stage.plan.blocks()).filter(|lba| self.stage.row_of(*lba) == row);
        let done = blocks.map(|lba| (lba, self.oracle.done_or_met(lba))).collect();
        self.blemishes.ruined.insert(row, done);
    }

    /// Blocks were written in ruined rows while the engine had not met all that is lost there: what was written is lost all the same.
    pub(super) fn look_at_ruins(&mut self, blocks: Range<u64>) {
        let Some(volume) = self.stage.volume.as_ref() else { return };
        let status = volume.engine.status();
        let is_missed = |role: &usize| {
            let is = |other: &Role| other.index() == *role;
            status.missing.iter().any(is) || status.rebuilding.iter().any(|other| is(&other.role))
        };
        for lba in blocks {
            let row = self.stage.row_of(lba);
            let is_listed =
                |member| self.blemishes.listed.get(&row).is_some_and(|listed| listed.contains(member));
            let spoiled = self.doubts.spoiled.get(&row).into_iter().flatten();
            if self.gone.iter().chain(spoiled).all(|member| is_missed(member) || is_listed(member)) {
                continue;
            }
            if let Some(done) = self.blemishes.ruined.get_mut(&row).and_then(|blocks| blocks.get_mut(&lba)) {
                *done = self.oracle.done(lba);
            }
        }
    }

    /// Notes writes that failed, and what the engine lists.
    pub(super) fn look_at_blemishes(&mut self) {
        let mut has_new = false;
        let mut failed = BTreeSet::new();
        for member in 0..self.stage.disks.len() {
            for sector in self.stage.disks[member].take_failed() {
                for row in self.stage.rows_of(sector, 1).filter(|_| sector >= self.stage.data_offset) {
                    has_new |= self.doubts.spoiled.entry(row).or_default().insert(member);
                    failed.insert(row);
                }
            }
        }
        let Some(volume) = &self.stage.volume else { return };
        for (role, entries) in volume.engine.core().bad_blocks() {
            for entry in entries {
                for row in self.stage.rows_of(entry.sector, entry.sectors) {
                    let is_new = self.blemishes.listed.entry(row).or_default().insert(role.index());
                    self.tally.listed += u64::from(is_new);
                }
            }
        }
        if has_new || self.doubts_now() != self.blemishes.doubts {
            self.note_ruin();
        }
        // What was written since such a row was ruined is lost again when another write of it fails.
        for row in failed {
            if self.lacks_too_many(row) {
                self.ruin(row);
            }
        }
    }

    /// The power fails: lists may say of rows that were healed what they said before.
    pub(super) fn keep_causes(&mut self) {
        self.blemishes.spoilt.extend(self.doubts.spoiled.keys());
    }

    /// What members list at a start, and their newest events.
    pub(super) fn look_at_lists(&mut self) {
        self.blemishes.listed.clear();
        self.doubts.newest = 0;
        for member in 0..self.stage.disks.len() {
            let Ok(found) = Member::read("disk", &self.stage.disks[member]) else { continue };
            self.doubts.newest = self.doubts.newest.max(found.events());
            for entry in found.bad_blocks.iter().flatten() {
                for row in self.stage.rows_of(entry.sector, entry.sectors) {
                    self.blemishes.listed.entry(row).or_default().insert(member);
                }
            }
        }
        let (members, rows) = (self.stage.disks.len(), self.stage.rows());
        for (row, of) in &self.blemishes.listed {
            assert!(*row < rows, "row {row} of {rows} is listed");
            assert!(of.iter().all(|member| *member < members), "row {row} is listed on {of:?} of {members}");
        }
        let Blemishes { spoilt, listed, .. } = &mut self.blemishes;
        spoilt.retain(|row| listed.contains_key(row));
    }

    /// Every entry of a member has a cause: a sector of the row that cannot be read or was not written, or a row that was ruined.
    pub(super) fn judge_lists(&mut self, members: &[Member], newest: usize) -> Result<(), Failure> {
        self.note_ruin();
        let newest = members[newest].superblock();
        let is_member = |member: &&Member| {
            matches!(newest.role_of(member.superblock().device.number), Some(RoleEntry::Member(_)))
        };
        for member in members.iter().filter(is_member) {
            for entry in member.bad_blocks.iter().flatten() {
                for row in self.stage.rows_of(entry.sector, entry.sectors) {
                    // A strip is zeroed at once: when that fails, nobody knows which of its rows are.
                    let rows = self.stage.strip_of(row);
                    let sectors =
                        self.stage.data_offset + rows.start * 8..self.stage.data_offset + rows.end * 8;
                    let is_bad = self.stage.disks.iter().any(|disk| disk.is_blemished(sectors.clone()));
                    let has_cause = is_bad
                        || self.doubts.spoiled.contains_key(&row)
                        || self.blemishes.ruined.contains_key(&row)
                        || self.blemishes.spoilt.contains(&row)
                        || self.was_torn(row)
                        || self.stage.lies.are_in(row);
                    if !has_cause {
                        return Err(Failure::new(format!("row {row} is listed as bad without cause")));
                    }
                }
            }
        }
        Ok(())
    }
}
