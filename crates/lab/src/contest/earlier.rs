//! An earlier contest of the same cells: fixed configurations score there what they would score now, unless the engine
//! that all share was changed. So a policy that is being worked on is judged in a seventeenth of the time.

use super::cell::Cell;
use super::{Contestant, Options, Scores, TURNOVERS};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Scores of the fixed configurations of an earlier contest.
#[derive(Debug, Deserialize)]
#[serde(from = "Saved")]
pub struct Earlier {
    seed: u64,
    scale: f64,
    turnovers: [f64; 2],
    /// By number: the cell in words, and scores by the name of a contestant.
    cells: BTreeMap<u64, (String, BTreeMap<String, Scores>)>,
}

/// The part of `lab contest --json` that is read again.
#[derive(Deserialize)]
struct Saved {
    seed: u64,
    scale: f64,
    /// None were told of while volumes were counted.
    #[serde(default)]
    turnovers: [f64; 2],
    cells: Vec<SavedCell>,
}

#[derive(Deserialize)]
struct SavedCell {
    name: String,
    cell: SavedNumber,
    fixed: Vec<(String, Scores)>,
}

#[derive(Deserialize)]
struct SavedNumber {
    index: u64,
}

impl From<Saved> for Earlier {
    fn from(saved: Saved) -> Earlier {
        let Saved { seed, scale, turnovers, cells } = saved;
        let cell = |cell: SavedCell| (cell.cell.index, (cell.name, cell.fixed.into_iter().collect()));
        Earlier { seed, scale, turnovers, cells: cells.into_iter().map(cell).collect() }
    }
}

impl Earlier {
    /// Checks that the contest was of these cells.
    ///
    /// # Errors
    /// The first difference.
    #[allow(clippy::float_cmp, reason = "a scale is compared with the text of itself")]
    pub(super) fn check(&self, options: &Options, cells: &[Cell]) -> Result<()> {
        let Earlier { seed, scale, turnovers, .. } = *self;
        ensure!(
            turnovers == TURNOVERS,
            "the earlier contest wrote and measured other amounts, as those of before did: hold it again"
        );
        ensure!(seed == options.seed, "the earlier contest was of seed {seed}, not {}", options.seed);
        ensure!(scale == options.scale, "the earlier contest was at scale {scale}, not {}", options.scale);
        for cell in cells {
            let (name, _) = self
                .cells
                .get(&cell.index)
                .with_context(|| format!("setting {} is not in the earlier contest", cell.index))?;
            ensure!(*name == cell.to_string(), "setting {} was another one: {name}", cell.index);
        }
        Ok(())
    }

    /// Returns what a fixed configuration scored in a cell; `None` where it was not possible.
    pub(super) fn scores(&self, cell: u64, contestant: Contestant) -> Option<Scores> {
        self.cells.get(&cell)?.1.get(&contestant.to_string()).copied()
    }
}
