//! What a 4-KiB write costs by its way through the engine: instructions, bytes copied and allocations (BIZA figure 17).
//!
//! Valgrind runs this program twice for each count, with few turns of the engine and with many; the difference belongs to the writes of the
//! turns between. So the counts are the same on every machine. Copies are those of `memcpy` and `memmove`, which a block of 4 KiB takes.

use super::{NullWrite, Path, Span};
use crate::precise::precise_u64;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;
use std::process::Command;

/// Turns of the two runs where many writes are in flight: 63 or 64 are answered in each.
const TURNS_MANY: [u64; 2] = [500, 2_500];
/// Turns where one is, and one is answered at most: slots are full before the second number, and frames are there for what they hold.
const TURNS_LONE: [u64; 2] = [12_000, 18_000];
/// An absorbed write takes at most so many times the instructions of one that goes to a full stripe (issue 24).
const TIMES_MAX: f64 = 1.3;
/// Most allocations of an absorbed write, and of one to a full stripe: none but where a table grows.
const ALLOCATIONS_MAX: f64 = 0.001;

const INSTRUCTIONS: &[&str] = &["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"];
const COPIES: &[&str] = &["--tool=dhat", "--mode=copy", "--dhat-out-file=/dev/null"];

/// Costs of a path, per 4-KiB write.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// The path.
    pub path: Path,
    /// Instructions.
    pub instructions: f64,
    /// Bytes copied.
    pub bytes_copied: f64,
    /// Allocations.
    pub allocations: f64,
    /// Writes that were counted.
    pub writes: u64,
}

/// Counts of one run.
struct Counted {
    count: u64,
    writes: u64,
}

/// Measures each path.
///
/// # Errors
/// When valgrind does not run, or counts nothing.
pub fn costs() -> Result<Vec<Cost>> {
    Path::ALL.into_iter().map(cost).collect()
}

/// Rules that are broken, in words.
#[must_use]
pub fn missed(costs: &[Cost]) -> Vec<String> {
    let of = |path| costs.iter().find(|cost| cost.path == path).map_or(0.0, |cost| cost.instructions);
    let times = of(Path::Absorbed) / of(Path::Log);
    let slow = (times > TIMES_MAX).then(|| {
        format!("an absorbed write takes {times:.2} times the instructions of a normal one, bar {TIMES_MAX}")
    });
    let allocating = costs.iter().filter(|cost| !cost.path.is_lone() && cost.allocations > ALLOCATIONS_MAX);
    let allocate =
        allocating.map(|cost| format!("{}: {:.3} allocations per write", cost.path.name(), cost.allocations));
    slow.into_iter().chain(allocate).collect()
}

fn turns_of(path: Path) -> [u64; 2] {
    if path.is_lone() { TURNS_LONE } else { TURNS_MANY }
}

fn cost(path: Path) -> Result<Cost> {
    let (instructions, writes) = between(path, INSTRUCTIONS, "refs:")?;
    let (bytes_copied, _) = between(path, COPIES, "Total:")?;
    let [few, many] = turns_of(path).map(|turns| allocations(path, turns));
    let allocations = (many? - few?) / precise_u64(writes);
    Ok(Cost { path, instructions, bytes_copied, allocations, writes })
}

/// Allocations of all writes of so many turns.
fn allocations(path: Path, turns: u64) -> Result<f64> {
    let report = super::run(&NullWrite { path, span: Span::Turns(turns), ..NullWrite::of_4_kib() })?;
    Ok(report.allocations_per_write * precise_u64(report.writes))
}

/// Returns what is counted per write between the two numbers of turns, and the writes.
fn between(path: Path, tool: &[&str], label: &str) -> Result<(f64, u64)> {
    let [few, many] = turns_of(path).map(|turns| counted(path, tool, label, turns));
    let (few, many) = (few?, many?);
    let (count, writes) = (many.count.saturating_sub(few.count), many.writes.saturating_sub(few.writes));
    if count == 0 || writes == 0 {
        bail!("{}: nothing was counted", path.name());
    }
    Ok((precise_u64(count) / precise_u64(writes), writes))
}

fn counted(path: Path, tool: &[&str], label: &str, turns: u64) -> Result<Counted> {
    let program = std::env::current_exe().context("this program has no path")?;
    let mut command = Command::new("valgrind");
    command.args(tool).arg(program).args(["lab", "null-write", "--json", "--path", path.name()]);
    command.args(["--turns", &turns.to_string()]);
    let output = command.output().context("valgrind does not start (Debian: apt-get install valgrind)")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    let writes = report.and_then(|report| report["writes"].as_u64());
    match (number_behind(&said, label), writes) {
        (Some(count), Some(writes)) if output.status.success() => Ok(Counted { count, writes }),
        _ => bail!("valgrind counted nothing: {}", said.trim()),
    }
}

/// The first number behind a word: `==123== I refs:      1,234,567` or `==123== Total:     41,245 bytes in 33 blocks`.
fn number_behind(text: &str, label: &str) -> Option<u64> {
    let (_, rest) = text.split_once(label)?;
    rest.split_whitespace().next()?.replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_valgrind_says_is_understood() {
        assert_eq!(number_behind("==7== x\n==7== I refs:      1,234,567\n", "refs:"), Some(1_234_567));
        assert_eq!(number_behind("==7== Total:     41,245 bytes in 33 blocks\n", "Total:"), Some(41_245));
        assert_eq!(number_behind("==7== x\n", "Total:"), None);
    }

    /// Each write takes the path that it is said to take (`run` asserts that), and allocates nothing once all is there.
    #[test]
    fn paths_are_taken() {
        for path in Path::ALL {
            let options = NullWrite { path, span: Span::Turns(3_000), ..NullWrite::of_4_kib() };
            let report = super::super::run(&options).unwrap();
            assert!(report.writes > 500, "{report:?}");
            let is_lone = matches!(path, Path::Padded);
            assert_eq!(report.write_amplification > 2.0, is_lone, "a stripe for each: {report:?}");
        }
    }

    #[test]
    fn bars_that_are_missed_are_named() {
        let cost = |path, instructions, allocations| Cost {
            path,
            instructions,
            bytes_copied: 0.0,
            allocations,
            writes: 1,
        };
        assert!(missed(&[cost(Path::Log, 100.0, 0.0), cost(Path::Absorbed, 129.0, 0.0)]).is_empty());
        let said = missed(&[cost(Path::Log, 100.0, 0.5), cost(Path::Absorbed, 131.0, 0.0)]);
        assert_eq!(said.len(), 2, "{said:?}");
    }
}
