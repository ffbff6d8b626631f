//! What was measured of a commit, as it is kept in a file.

use super::source::Commit;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Names and results. A result is a hash, a line of JSON, or what went wrong, in words.
pub type Results = BTreeMap<String, String>;

/// Results of a commit. Parts that were not measured are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub commit: String,
    /// The compiler of the build.
    pub rustc: String,
    /// Hash of the event log of each seed.
    pub seeds: BTreeMap<u64, String>,
    /// The same of each scenario.
    pub scenarios: Option<Results>,
    /// By the scale of `lab run all`: its measurements by name, each the line that was printed.
    pub lab: BTreeMap<String, Results>,
    pub instructions: Option<Instructions>,
}

/// Instructions that `lab null-write` executes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Instructions {
    Counted {
        per_write: f64,
        /// The program that counted: what two of them say is not compared.
        counted_by: String,
    },
    NotCounted {
        why: String,
    },
}

impl Record {
    /// An empty one.
    pub fn new(commit: &Commit, rustc: String) -> Record {
        Record { commit: commit.to_string(), rustc, ..Record::default() }
    }

    /// Loads a record that is kept; `None` when there is nothing, or nothing that can be read.
    pub fn load(path: &Path) -> Option<Record> {
        serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
    }

    /// Keeps it. A file is whole or not there.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let draft = path.with_extension("draft");
        std::fs::write(&draft, serde_json::to_string_pretty(self)?)
            .with_context(|| draft.display().to_string())?;
        std::fs::rename(&draft, path).with_context(|| path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut record = Record { commit: "abc".to_owned(), ..Record::default() };
        record.seeds.insert(4711, "38fd673f356803e7".to_owned());
        for instructions in [
            Instructions::Counted { per_write: 6_208.25, counted_by: "valgrind".to_owned() },
            Instructions::NotCounted { why: "no valgrind".to_owned() },
        ] {
            record.instructions = Some(instructions);
            let text = serde_json::to_string(&record).unwrap();
            assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
        }
    }
}
