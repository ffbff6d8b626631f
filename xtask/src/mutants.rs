//! Deliberate bugs: the simulator must find each, and the table of them is part of docs/TESTING.md.
//!
//! ```text
//! list     crates/sim/mutants: what is wrong, and which text becomes which
//! splice   edits of one file
//! tree     the scratch copy with all of them
//! ```
//! The code of the product knows nothing of them: `tidy` checks that each still applies, and here a scratch copy is
//! edited, built once, and run.

pub mod list;
mod splice;
mod tree;

use crate::phase::{self, cargo};
use crate::{root, tidy};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// Builds that can have bugs have a folder of their own.
const TARGET: &str = "target/mutants";
/// The scratch copy.
const TREE: &str = "target/mutants/tree";
/// Document that has the table.
pub const DOCUMENT: &str = "docs/TESTING.md";
const BEGIN: &str = "<!-- mutants -->\n";
const END: &str = "<!-- /mutants -->";

/// Shows that each is found.
pub fn run() -> Result<()> {
    phase::run(&mut Command::new(build()?))
}

/// Shows that the bugs of the past are found.
pub fn run_short() -> Result<()> {
    phase::run(Command::new(build()?).arg("--past"))
}

/// Shows that each is found, and writes the table.
pub fn write() -> Result<()> {
    let table = phase::output(Command::new(build()?).arg("--markdown"))?;
    let path = root().join(DOCUMENT);
    let document = std::fs::read_to_string(&path).with_context(|| DOCUMENT.to_owned())?;
    let document = with_table(&document, &table).with_context(|| format!("{DOCUMENT} lacks {BEGIN}{END}"))?;
    std::fs::write(&path, document).with_context(|| DOCUMENT.to_owned())
}

fn build() -> Result<PathBuf> {
    let files = tidy::text_files()?;
    let mutants = match list::read(&list::texts(&files)) {
        Ok(mutants) => mutants,
        Err(wrong) => {
            let lines: Vec<String> =
                wrong.into_iter().map(|(place, what)| format!("{place}: {what}")).collect();
            bail!("{}", lines.join("\n"))
        }
    };
    tree::write(root(), &tidy::paths()?, &root().join(TREE), &mutants)?;
    let manifest = format!("{TREE}/Cargo.toml");
    let package = ["--package", "zoneweave-sim", "--bin", "mutants", "--manifest-path", &manifest];
    phase::run(cargo().args(["build", "--release", "--target-dir", TARGET]).args(package))?;
    Ok(root().join(TARGET).join("release/mutants"))
}

/// The table of a document: what stands between its marks.
pub fn table(document: &str) -> Option<&str> {
    let (_, rest) = document.split_once(BEGIN)?;
    rest.split_once(END).map(|(table, _)| table)
}

/// The document with another table between its marks; `None` without marks.
fn with_table(document: &str, table: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_replaced_and_nothing_else() {
        let document = format!("# Testing\n\n{BEGIN}old\n{END}\n\nMore.\n");
        let written = with_table(&document, "| new |\n").expect("marks");
        assert_eq!(written, format!("# Testing\n\n{BEGIN}\n| new |\n\n{END}\n\nMore.\n"));
        assert_eq!(with_table(&written, "| new |\n").as_deref(), Some(written.as_str()));
        assert_eq!(with_table("# Testing\n", ""), None);
        assert_eq!(table(&written), Some("\n| new |\n\n"));
    }
}
