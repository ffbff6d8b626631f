//! Deliberate bugs: the simulator must find each, and the table of them is part of docs/TESTING.md.

use crate::phase::{self, cargo};
use crate::root;
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::Command;

/// Builds that can have bugs have a folder of their own.
const TARGET: &str = "target/mutants";
const DOCUMENT: &str = "docs/TESTING.md";
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
    let package = ["--package", "zoneweave-sim", "--bin", "mutants", "--features", "mutants"];
    phase::run(cargo().args(["build", "--release", "--target-dir", TARGET]).args(package))?;
    Ok(root().join(TARGET).join("release/mutants"))
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
    }
}
