//! Instructions of a cell, counted from outside.

use super::Cell;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// Program that counts, with its options.
const VALGRIND: [&str; 4] =
    ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"];

/// Counter of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// The machine, or nobody.
    Machine,
    /// Valgrind, where the machine does not.
    Valgrind,
}

impl Counter {
    /// Valgrind, where it is installed.
    #[must_use]
    pub fn find() -> Counter {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_here = std::env::split_paths(&path).any(|folder: PathBuf| folder.join(VALGRIND[0]).is_file());
        if is_here { Counter::Valgrind } else { Counter::Machine }
    }
}

/// Instructions of the requests of a cell.
///
/// # Errors
/// When valgrind does not run, or says nothing.
pub fn by_valgrind(cell: &Cell) -> Result<u64> {
    let (none, all) = (run(cell, 0)?, run(cell, cell.requests())?);
    all.checked_sub(none).with_context(|| format!("{none} instructions without requests, {all} with them"))
}

/// Instructions of a process that measures so many requests.
fn run(cell: &Cell, requests: u64) -> Result<u64> {
    let program = std::env::current_exe().context("this program has no path")?;
    let mut command = Command::new(VALGRIND[0]);
    command.args(&VALGRIND[1..]).arg(program).args(["lab", "md-cost", "--exact", &cell.name]);
    command.args(["--requests", &requests.to_string()]);
    let output = command.output().context("valgrind does not start")?;
    let text = String::from_utf8_lossy(&output.stderr);
    match refs(&text).filter(|_| output.status.success()) {
        Some(count) => Ok(count),
        None => bail!("valgrind counted nothing: {}", text.trim()),
    }
}

/// The count in what valgrind says: `==123== I refs:      1,234,567`; older ones write `I   refs:`.
fn refs(text: &str) -> Option<u64> {
    let count = |line: &str| {
        let (before, count) = line.split_once("refs:")?;
        before.trim_end().ends_with('I').then(|| count.trim().replace(',', ""))
    };
    text.lines().find_map(count)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_valgrind_says_is_understood() {
        assert_eq!(refs("==7== x\n==7== I   refs:      1,234,567\n"), Some(1_234_567));
        assert_eq!(refs("==7== I refs: 12"), Some(12));
        assert_eq!(refs("==7== D refs: 12"), None);
    }
}
