//! What may be lost, and what must not be: kept by what was done to the disks, apart from what the engine believes.

use super::blemishes::Blemishes;
use super::forcing::Forcing;
use super::logs::Torn;
use super::stage::Stage;
use crate::inplace::disk::DiskHandle;
use crate::inplace::oracle::{Oracle, Reading};
use crate::inplace::plan::Policy;
use crate::inplace::tally::Tally;
use array::inplace::scribe::Mark;
use std::collections::{BTreeMap, BTreeSet};

/// What may be lost, kept apart from what the engine believes.
#[derive(Default)]
pub(super) struct Doubts {
    /// The array was dirty at the start, and its resync has not ended.
    pub(super) is_resyncing: bool,
    /// A member went while it was so: blocks not written since may be lost.
    pub(super) all: bool,
    /// Rows of which the same holds, for a piece could not be read.
    pub(super) rows: BTreeSet<u64>,
    /// Members that could not return a row, by row.
    pub(super) spoiled: BTreeMap<u64, BTreeSet<usize>>,
    /// Writes of each block that were done before the start.
    pub(super) done: Vec<u64>,
    /// Newest events that a member had at the start: one that was an event behind is believed, and stays behind until something is
    /// recorded.
    pub(super) newest: u64,
    /// Members that had failed when the server was killed, and were believed afterwards: what they say of themselves may be in their
    /// caches alone.
    pub(super) unrecorded: BTreeSet<usize>,
}

/// See the module. It looks at the stage, and is told of requests by those who make them.
pub(super) struct Judge {
    pub(super) stage: Stage,
    /// Members that the engine was started without, or that died since, until they are rebuilt.
    pub(super) gone: BTreeSet<usize>,
    /// Disks that were whole members and went since all were there.
    pub(super) left: Vec<DiskHandle>,
    pub(super) oracle: Oracle,
    pub(super) doubts: Doubts,
    pub(super) blemishes: Blemishes,
    pub(super) torn: Torn,
    pub(super) forcing: Forcing,
    /// With logs, or a journal: superblocks may not say that a resync of the new array is through.
    pub(super) is_new: bool,
    /// A scrub was begun, and its end not judged.
    pub(super) has_scrub: bool,
    pub(super) tally: Tally,
}

impl Judge {
    /// Judge of a new array, whose blocks come from these writes.
    pub(super) fn new(stage: Stage, stamps: &[u64]) -> Judge {
        let plan = &stage.plan;
        Judge {
            gone: BTreeSet::new(),
            left: Vec::new(),
            oracle: Oracle::new(stamps, stage.journal.disk().is_some()),
            doubts: Doubts::default(),
            blemishes: Blemishes::default(),
            torn: Torn::default(),
            forcing: Forcing::new(plan),
            is_new: !plan.is_clean && matches!(plan.policy, Policy::Ppl(_) | Policy::Journal(_)),
            has_scrub: false,
            tally: Tally::default(),
            stage,
        }
    }

    /// What is known of what may be lost is about members, rows and blocks that are there.
    pub(super) fn check(&self) {
        self.stage.check();
        let (members, rows, blocks) = (
            self.stage.disks.len(),
            self.stage.rows(),
            usize::try_from(self.stage.plan.blocks()).expect("small"),
        );
        assert!(
            self.gone.iter().all(|role| *role < members),
            "{:?} of {members} members are gone",
            self.gone
        );
        let Doubts { rows: in_doubt, spoiled, done, unrecorded, .. } = &self.doubts;
        assert_eq!(done.len(), blocks, "writes that were done before the start, by block");
        assert!(in_doubt.iter().all(|row| *row < rows), "rows {in_doubt:?} of {rows} are in doubt");
        for (row, of) in spoiled {
            assert!(*row < rows, "row {row} of {rows} is spoiled");
            assert!(of.iter().all(|member| *member < members), "row {row} is spoiled on {of:?} of {members}");
        }
        assert!(unrecorded.is_subset(&(0..members).collect()), "{unrecorded:?} of {members} had failed");
        let before = |(done, lba): (&u64, u64)| *done <= self.oracle.done(lba);
        assert!(done.iter().zip(0..).all(before), "a block lost writes that were done");
        assert!(self.tally.requests_failed <= self.tally.requests, "more requests failed than were answered");
    }

    /// Counts of what was done.
    pub(super) fn tally(&self) -> Tally {
        Tally { commands: self.stage.commands(), ..self.tally }
    }

    pub(super) fn is_too_much(&self) -> bool {
        self.gone.len() > self.stage.plan.parities()
    }

    /// True of a member that nobody took out, and that need not be believed.
    pub(super) fn may_be_missing(&self, role: usize) -> bool {
        self.stage.replacements.may_be_lost(role) || self.doubts.unrecorded.contains(&role)
    }

    pub(super) fn look_at_resync(&mut self) {
        let has_gone = !self.gone.is_empty();
        let Some(volume) = &self.stage.volume else { return };
        let status = volume.engine.status();
        if status.resync_left == 0 && (!has_gone || self.forcing.is_forced()) {
            self.doubts.is_resyncing = false;
        }
        // What a resync wrote may be in caches until then.
        if status.resync_left == 0 && status.mark == Mark::Clean {
            self.forcing.end_doubts();
        }
    }

    pub(super) fn may_fail(&self, reading: &Reading) -> bool {
        reading.done().any(|(lba, done)| self.may_be_lost(lba, Some(done)))
    }

    /// Whether a request may fail because of a block: a read, after so many writes of the block were done, or a write.
    pub(super) fn may_be_lost(&self, lba: u64, done: Option<u64>) -> bool {
        assert!(
            done.is_none_or(|done| done <= self.oracle.done(lba)),
            "a read of block {lba} began after {done:?} writes of {}",
            self.oracle.done(lba)
        );
        let row = self.stage.row_of(lba);
        let mut spoiled = self.doubts.spoiled.get(&row).cloned().unwrap_or_default();
        spoiled.extend(self.blemishes.listed_in(row, lba, done));
        let lost = spoiled.union(&self.gone).count();
        let before = self.doubts.done[usize::try_from(lba).expect("small")];
        let has_doubts = self.doubts.all || self.doubts.rows.contains(&row);
        // With another member lost, what was written in a row in doubt cannot be decoded either.
        let is_old = lost > 1 || done.is_none_or(|done| done == before) || self.lists_another(row, &spoiled);
        let in_doubt = lost > 0 && has_doubts && is_old;
        let is_torn = lost > 0 && self.is_torn(lba, done);
        // What logs say of such a row may be what nobody can tell from a cut-off write.
        let is_disputed = self.stage.has_partial_parity() && self.stage.lies.may_be_wrong(lba);
        lost > self.stage.plan.parities() || in_doubt || is_torn || is_disputed
    }

    /// True when the array can do without another member, whatever became of replacements.
    pub(super) fn may_lose(&self) -> bool {
        let lost = self.stage.replacements.lost_beside(&self.gone);
        lost < self.stage.plan.parities()
    }
}
