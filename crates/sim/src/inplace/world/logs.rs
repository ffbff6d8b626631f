//! What a partial parity log leaves open: blocks of rows of which several were in flight as the power failed.
//!
//! Where such a block lay on a member that is lost, nobody can tell what it holds: it may be unreadable, until it is written.

use super::contents::shape_of;
use super::judge::Judge;
use array::inplace::logs::STANDING_MAX;
use block::md::geometry::{Chunk, Geometry};
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Default)]
pub(super) struct Torn {
    /// Blocks that were in flight beside others of their rows, until a replay is through.
    in_flight: BTreeSet<u64>,
    /// Blocks that may be unreadable, with the writes that were done by then.
    blocks: BTreeMap<u64, u64>,
    /// Rows that ever had such a block: what cannot be rebuilt may be listed as bad.
    rows: BTreeSet<u64>,
}

impl Judge {
    /// True when blocks may be unreadable for what was in flight.
    pub(super) fn has_torn_blocks(&self) -> bool {
        !self.torn.blocks.is_empty()
    }

    /// True when more rows may be in doubt than headers of logs name: they say only that some are.
    pub(super) fn has_too_many_torn(&self) -> bool {
        let rows: BTreeSet<u64> = self.torn.blocks.keys().map(|lba| self.stage.row_of(*lba)).collect();
        rows.len() > STANDING_MAX
    }

    /// Whether a block may be unreadable, after so many writes of it, or a write.
    pub(super) fn is_torn(&self, lba: u64, done: Option<u64>) -> bool {
        let since = self.torn.blocks.get(&lba);
        since.is_some_and(|since| done.is_none_or(|done| done == *since))
    }

    /// True when a row ever had a block that may be unreadable.
    pub(super) fn was_torn(&self, row: u64) -> bool {
        self.torn.rows.contains(&row)
    }

    /// The power is about to fail.
    pub(super) fn note_in_flight(&mut self) {
        if !self.stage.has_partial_parity() {
            return;
        }
        let mut rows: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for lba in (0..self.stage.plan.blocks()).filter(|lba| self.oracle.is_unsure(*lba)) {
            rows.entry(self.stage.row_of(lba)).or_default().push(lba);
        }
        let in_flight = rows.into_values().filter(|blocks| blocks.len() > 1).flatten();
        self.torn.in_flight.extend(in_flight);
        let oracle = &self.oracle;
        // What was written and is durable is there; what is not may be as it was before.
        self.torn.blocks.retain(|lba, done| *done == oracle.done(*lba) || oracle.is_unsure(*lba));
        self.torn.blocks.iter_mut().for_each(|(lba, done)| *done = oracle.done(*lba));
    }

    /// The array starts without these members.
    pub(super) fn tear(&mut self, missing: &BTreeSet<usize>) {
        let (members, blocks) = (self.stage.disks.len(), self.stage.plan.blocks());
        assert!(missing.iter().all(|role| *role < members), "{missing:?} of {members} are missing");
        let in_flight = &self.torn.in_flight;
        assert!(in_flight.iter().all(|lba| *lba < blocks), "{in_flight:?} of {blocks} blocks were in flight");
        let geometry = Geometry::of(&shape_of(&self.stage.plan)).expect("a plan of an array");
        let chunk_rows = u64::from(self.stage.plan.chunk) / 8;
        for lba in &self.torn.in_flight {
            let member = geometry.locate(Chunk(lba / chunk_rows)).member.index();
            let spoiled = self.doubts.spoiled.get(&self.stage.row_of(*lba));
            if missing.contains(&member) || spoiled.is_some_and(|members| members.contains(&member)) {
                self.torn.blocks.insert(*lba, self.oracle.done(*lba));
                self.torn.rows.insert(self.stage.row_of(*lba));
            }
        }
    }

    /// Somebody else has settled what was in flight.
    pub(super) fn forget_in_flight(&mut self) {
        self.torn.in_flight.clear();
    }

    /// What was in flight is settled once a replay is through.
    pub(super) fn look_at_replay(&mut self) {
        if self.stage.volume.as_ref().is_some_and(|volume| !volume.engine.core().is_replaying()) {
            self.torn.in_flight.clear();
        }
    }
}
