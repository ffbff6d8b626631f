//! Cells of md's cost table, as data: `crates/lab/data/md-cost.toml`.

use crate::md_array::Ahead;
use anyhow::{Context, Result, bail};
use base::units::BLOCK_BYTES_U64;
use serde::Deserialize;

const TEXT: &str = include_str!("../../data/md-cost.toml");

/// Cells of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cells {
    /// Method by which md was measured.
    pub source: String,
    /// The cells in the order of the table.
    #[serde(rename = "cell")]
    pub all: Vec<Cell>,
}

/// Manner of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Manner {
    /// Writes at places that a seed draws, multiples of their size.
    RandomWrite,
    /// Writes one behind the other.
    SequentialWrite,
    /// Reads at places that a seed draws.
    RandomRead,
}

/// Array, requests, and what they cost md.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Array and request, in words.
    pub name: String,
    /// RAID level.
    pub level: i32,
    /// Members.
    pub members: u32,
    /// Members that are lost, from member 1 on.
    pub lost: u16,
    /// The array has a bitmap.
    #[serde(default)]
    pub bitmap: bool,
    /// Written before the members are.
    #[serde(default)]
    pub ahead: Ahead,
    /// Manner of requests.
    pub op: Manner,
    /// Bytes of a request.
    pub bytes: u64,
    /// Requests under way.
    pub depth: u64,
    /// Instructions of md per request, where they are comparable.
    pub md_instructions: Option<f64>,
    /// Blocks of 4 KiB that md's members read per request.
    pub md_read: f64,
    /// Blocks that md's members write per request.
    pub md_written: f64,
    /// Most instructions per block.
    pub bar: Option<f64>,
    /// Instructions per block that we would like.
    pub aim: Option<f64>,
    /// Reason why blocks may be more than md's here.
    pub note: Option<String>,
}

impl Cells {
    /// All cells.
    ///
    /// # Errors
    /// When the table is not as it should be: a test would have found that.
    pub fn load() -> Result<Cells> {
        toml::from_str(TEXT).context("crates/lab/data/md-cost.toml")
    }

    /// Cells whose names contain one of these words, or all when there are none.
    ///
    /// # Errors
    /// When a word is in no name.
    pub fn named(&self, words: &[String]) -> Result<Vec<&Cell>> {
        if let Some(word) = words.iter().find(|word| !self.all.iter().any(|cell| cell.name.contains(*word))) {
            let names: Vec<&str> = self.all.iter().map(|cell| cell.name.as_str()).collect();
            bail!("no cell has `{word}` in its name: there are\n  {}", names.join("\n  "));
        }
        let is_meant = |cell: &&Cell| words.is_empty() || words.iter().any(|word| cell.name.contains(word));
        Ok(self.all.iter().filter(is_meant).collect())
    }
}

impl Cell {
    /// Blocks of a request.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.bytes / BLOCK_BYTES_U64
    }

    /// Factor by which our blocks may be more than md's: none but for random places, of which both are samples.
    #[must_use]
    pub fn tolerance(&self) -> f64 {
        match self.op {
            Manner::SequentialWrite => 1.0,
            Manner::RandomWrite | Manner::RandomRead => 1.01,
        }
    }

    /// Requests that are measured: as many as were of md, within a factor of two.
    #[must_use]
    pub fn requests(&self) -> u64 {
        match self.blocks() {
            1 if self.depth > 1 => 10_000,
            1 => 4_000,
            2..=16 => 2_000,
            17..=255 => 800,
            _ => 300,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_an_array_with_requests_of_whole_blocks() {
        let cells = Cells::load().unwrap();
        assert_eq!(cells.all.len(), 63);
        for cell in &cells.all {
            assert!(cell.bytes % BLOCK_BYTES_U64 == 0 && cell.depth > 0, "{}", cell.name);
            assert!(cell.bar.is_none_or(|bar| cell.aim.is_some_and(|aim| aim < bar)), "{}", cell.name);
        }
    }

    #[test]
    fn cells_are_found_by_parts_of_their_names() {
        let cells = Cells::load().unwrap();
        let found = cells.named(&["r6-4+2/random-write-4k".to_owned()]).unwrap();
        assert_eq!(found.len(), 1);
        assert!(
            cells.named(&["r7".to_owned()]).unwrap_err().to_string().contains("r5-3+1/random-write-4k-qd32")
        );
    }
}
