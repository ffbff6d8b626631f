//! Deliberate bugs: the simulator must find each, and the table of them is part of docs/TESTING.md.
//!
//! ```text
//! list     crates/sim/mutants: what is wrong, and which text becomes which
//! splice   edits of one file
//! tree     the scratch copy with all of them
//! drawn    mutants of a generator in its place, which nobody chose
//! ```
//! The code of the product knows nothing of them: `tidy` checks that each still applies, and here a scratch copy is
//! edited, built once, and run.

mod drawn;
pub mod list;
mod splice;
mod tree;

use crate::phase::{self, cargo};
use crate::{root, tidy};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

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

/// Shows which of the mutants that a seed draws are found: those of cargo-mutants, which nobody chose.
pub fn run_drawn(words: &[String]) -> Result<ExitCode> {
    let mut numbers = [1, drawn::COUNT, drawn::RUNS];
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let place = ["--seed", "--count", "--runs"].iter().position(|option| option == word);
        let place =
            place.with_context(|| format!("`{word}` is not an option; there are --seed, --count, --runs"))?;
        let value = words.next().with_context(|| format!("{word} wants a number"))?;
        numbers[place] = value.parse().with_context(|| format!("{word} {value}: no number"))?;
    }
    let [seed, count, runs] = numbers;
    let tree = root().join(TREE);
    let unviable = drawn::write(u64::try_from(seed)?, count, &tree, TARGET)?;
    println!("{count} mutants drawn by seed {seed}; {unviable} others do not compile");
    phase::run(cargo().args(["build", "--release", "--target-dir", TARGET]).args(package(TREE)))?;
    let left = drawn::left_by_simulation(&root().join(TARGET).join("release/mutants"), runs)?;
    let left = drawn::left_by_tests(left, &tree, TARGET)?;
    println!("\n{} of {count} are found by neither", left.len());
    left.iter().for_each(|(name, what)| println!("{name}: {what}"));
    Ok(if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Arguments that name the program which looks for mutants, of a scratch copy.
fn package(tree: &str) -> [String; 6] {
    let manifest = format!("{tree}/Cargo.toml");
    ["--package", "zoneweave-sim", "--bin", "mutants", "--manifest-path", &manifest].map(str::to_owned)
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
    phase::run(cargo().args(["build", "--release", "--target-dir", TARGET]).args(package(TREE)))?;
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
