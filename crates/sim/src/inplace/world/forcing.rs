//! Arrays that are dirty and degraded, whose parities an operator takes for right: blocks of missing members may hold anything where their
//! row was being written as the power failed, and only where they are named: all other blocks are judged as ever.

use super::contents::shape_of;
use super::judge::Judge;
use crate::inplace::plan::Plan;
use base::units::BLOCK_BYTES_U64;
use block::md::assembly::{Assembly, Part};
use block::md::doubt::{Doubt, doubts};
use block::md::geometry::{Chunk, Geometry};
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Default)]
pub(super) struct Forcing {
    /// Starts that are refused for what is in doubt are forced.
    is_wished: bool,
    /// The array was started so.
    is_forced: bool,
    /// Rows whose parities may not be those of their data: they were being written as the power failed, at some time since all were
    /// right. The engine may have made them right since.
    rows: BTreeSet<u64>,
    /// Any row may be one: the array was never in sync.
    all: bool,
}

impl Forcing {
    pub(super) fn new(plan: &Plan) -> Forcing {
        Forcing { all: !plan.is_clean, ..Forcing::default() }
    }

    pub(super) fn begin(&mut self) {
        self.is_wished = true;
    }

    pub(super) fn is_forced(&self) -> bool {
        self.is_forced
    }

    /// The array is marked clean: all parities are right, and durable.
    pub(super) fn end_doubts(&mut self) {
        self.rows.clear();
        self.all = false;
    }
}

impl Judge {
    /// Takes parities for right, where that is wished and needed. With logs that is left to tests of the command.
    pub(super) fn force(&self, assembly: &mut Assembly<'_>) {
        if self.forcing.is_wished && !self.stage.has_logs() && assembly.is_only_in_doubt() {
            assembly.force();
        }
    }

    /// The engine is gone, or too many members are: what was being written may be torn.
    pub(super) fn note_unsure(&mut self) {
        let unsure: Vec<u64> =
            (0..self.stage.plan.blocks()).filter(|lba| self.oracle.is_unsure(*lba)).collect();
        let rows: Vec<u64> = unsure.into_iter().map(|lba| self.stage.row_of(lba)).collect();
        self.forcing.rows.extend(rows);
    }

    /// An engine begins: which of the blocks that are named may hold anything is noted.
    pub(super) fn begin_forced(&mut self, assembly: &Assembly<'_>) {
        self.forcing.is_forced = assembly.is_forced;
        if !assembly.is_forced {
            return;
        }
        assert!(self.forcing.is_wished, "an array is forced, and nobody wished it");
        self.tally.forced += 1;
        let named = doubts(assembly, &[]);
        let geometry = Geometry::of(&shape_of(&self.stage.plan)).expect("a plan of an array");
        let chunk_rows = u64::from(self.stage.plan.chunk) / 8;
        let recovered: BTreeMap<usize, u64> = assembly.devices.iter().filter_map(recovered_of).collect();
        for lba in 0..self.stage.plan.blocks() {
            let member = geometry.locate(Chunk(lba / chunk_rows)).member.index();
            let row = self.stage.row_of(lba);
            let is_there = recovered.get(&member).is_some_and(|rows| row < *rows);
            if !self.gone.contains(&member) || is_there {
                continue;
            }
            let is_within = |doubt: &Doubt| doubt.bytes.contains(&(lba * BLOCK_BYTES_U64));
            let is_named = named.iter().any(is_within);
            if is_named && (self.forcing.all || self.forcing.rows.contains(&row)) {
                self.oracle.make_wild(lba);
            }
        }
    }
}

/// Rows of a member that is being recovered.
fn recovered_of((_, part): &(&block::md::member::Member, Part)) -> Option<(usize, u64)> {
    match part {
        Part::Recovering(role, sectors) => Some((role.index(), sectors / 8)),
        _ => None,
    }
}
