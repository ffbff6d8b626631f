//! Mutants that nobody chose: a sample of what cargo-mutants lists for the engine, all in one build, each behind its switch.
//!
//! ```text
//! cargo mutants --list --json ──> one of a function, drawn by a seed ──> if mutant!("drawn-a") { changed body } else { body }
//! ```
//! The body stands there twice, so that any change of cargo-mutants can be switched: of a value, an operator, an arm, a field. Those that do not
//! compile are left out and counted: one build tells many.

use super::list::{Edit, Kind, Mutant};
use super::tree;
use crate::phase::{self, cargo, output};
use crate::{root, tidy, tools};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Version that lists them.
const CARGO_MUTANTS: &str = "27.1.0";
/// Crates that they are of.
const PACKAGES: [&str; 3] = ["zoneweave-array", "zoneweave-zone", "zoneweave-base"];
/// Crates that all engines use, and the worlds of the engines that are not the log's.
const SHARED: [&str; 2] = ["crates/zone/", "crates/base/"];
const OTHER_WORLDS: [&str; 2] = ["inplace", "cache"];
/// Mutants that are drawn unless it is said.
pub const COUNT: usize = 200;
/// Seeds within which one has to be found, behind all scenarios.
pub const RUNS: usize = 500;
/// Time after which a test program counts as one that does not end.
const LONGEST: Duration = Duration::from_secs(120);
/// Builds after which those left must compile.
const BUILDS: usize = 12;

/// Place in a file, from one.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Position {
    line: usize,
    column: usize,
}

/// Part of a file; the end is not in it.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Span {
    start: Position,
    end: Position,
}

#[derive(Debug, Deserialize)]
struct Function {
    span: Span,
}

/// Mutant as cargo-mutants lists it.
#[derive(Debug, Deserialize)]
struct Listed {
    file: String,
    function: Option<Function>,
    genre: String,
    /// File, place and what is replaced.
    name: String,
    replacement: String,
    span: Span,
}

/// The scratch copy with `count` mutants drawn by a seed, and how many of those drawn do not compile.
///
/// # Errors
/// When cargo-mutants cannot be had, or the copy not be built.
pub fn write(seed: u64, count: usize, tree: &Path, target: &str) -> Result<usize> {
    let listed = list()?;
    let mut order: Vec<&Listed> = listed.iter().collect();
    shuffle(&mut order, seed);
    let mut functions = BTreeSet::new();
    let candidates = order.into_iter().filter_map(|listed| {
        let text = std::fs::read_to_string(root().join(&listed.file)).ok()?;
        let edit = edit_of(&text, listed)?;
        functions.insert((listed.file.clone(), edit.find.clone())).then_some((listed, edit))
    });
    let mut candidates = candidates.enumerate().map(|(number, (listed, edit))| mutant(number, listed, edit));
    let mut drawn: Vec<Mutant> = candidates.by_ref().take(count).collect();
    let mut unviable = 0;
    for _ in 0..BUILDS {
        tree::write(root(), &tidy::paths()?, tree, &drawn)?;
        let wrong = not_compiling(tree, target)?;
        if wrong.is_empty() {
            return Ok(unviable);
        }
        unviable += wrong.len();
        drawn.retain(|mutant| !wrong.contains(&mutant.name));
        drawn.extend(candidates.by_ref().take(count - drawn.len()));
        println!("{unviable} of those drawn do not compile");
    }
    anyhow::bail!("after {BUILDS} builds some mutants still do not compile")
}

fn list() -> Result<Vec<Listed>> {
    let program = tools::built("cargo-mutants", CARGO_MUTANTS)?;
    let mut command = Command::new(program);
    command.current_dir(root()).args(["mutants", "--list", "--json"]);
    command.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    serde_json::from_str(&output(&mut command)?).context("the list of cargo-mutants is not what it was")
}

fn mutant(number: usize, listed: &Listed, mut edit: Edit) -> Mutant {
    let name = format!("drawn-{}", letters(number));
    edit.replace = edit.replace.replace("NAME", &name);
    Mutant { name, breaks: format!("{}.", listed.name), kind: Kind::Ours, edits: vec![edit] }
}

/// A number in small letters, of which names consist.
fn letters(mut number: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(b"abcdefghijklmnopqrstuvwxyz"[number % 26]);
        number /= 26;
        if number == 0 {
            letters.reverse();
            return String::from_utf8(letters).expect("letters");
        }
    }
}

/// Order by a seed: SplitMix64, Fisher-Yates.
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed;
    for last in (1..items.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let other =
            usize::try_from(mixed % u64::try_from(last + 1).expect("a list fits memory")).expect("below it");
        items.swap(last, other);
    }
}

/// Byte of a position.
fn offset(text: &str, at: Position) -> Option<usize> {
    let line: usize = text.split_inclusive('\n').take(at.line - 1).map(str::len).sum();
    let column = text[line..].char_indices().nth(at.column - 1)?.0;
    Some(line + column)
}

/// The function with both bodies; `None` of what cannot be switched: constants, and what is in no function.
fn edit_of(text: &str, listed: &Listed) -> Option<Edit> {
    let function = listed.function.as_ref()?;
    let (start, end) = (offset(text, function.span.start)?, offset(text, function.span.end)?);
    let whole = &text[start..end];
    let open = body_of(whole)?;
    if whole[..open].contains("const fn") || whole[..open].contains("#[test]") {
        return None;
    }
    let (head, body) = (&whole[..=open], &whole[open + 1..whole.len() - 1]);
    let (from, to) = (offset(text, listed.span.start)?, offset(text, listed.span.end)?);
    let (from, to) = (from.checked_sub(start + open + 1)?, to.checked_sub(start + open + 1)?);
    let (before, after) = (body.get(..from)?, body.get(to..)?);
    let changed = match listed.genre.as_str() {
        "FnValue" => listed.replacement.clone(),
        _ => format!("{before} {} {after}", listed.replacement),
    };
    let replace = format!("{head}\nif mutant!(\"NAME\") {{\n{changed}\n}} else {{\n{body}\n}}\n}}");
    Some(Edit { file: listed.file.clone(), find: whole.to_owned(), replace })
}

/// The brace that opens the body of a function.
fn body_of(function: &str) -> Option<usize> {
    let start = function.find("fn ")?;
    let mut depth = 0_u32;
    for (at, letter) in function[start..].char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.checked_sub(1)?,
            '{' if depth == 0 => return Some(start + at),
            _ => {}
        }
    }
    None
}

/// Names of mutants in which the compiler found an error.
fn not_compiling(tree: &Path, target: &str) -> Result<BTreeSet<String>> {
    let manifest = tree.join("Cargo.toml");
    let mut command = cargo();
    command.args(["check", "--release", "--keep-going", "--message-format=json", "--target-dir", target]);
    command.arg("--manifest-path").arg(manifest);
    command.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    let said = command.output().context("cargo check did not start")?;
    let mut names = BTreeSet::new();
    for line in String::from_utf8_lossy(&said.stdout).lines() {
        let Ok(said) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        if said["message"]["level"] != "error" {
            continue;
        }
        for span in said["message"]["spans"].as_array().into_iter().flatten() {
            let (Some(file), Some(line)) = (span["file_name"].as_str(), span["line_start"].as_u64()) else {
                continue;
            };
            let text = std::fs::read_to_string(tree.join(file)).unwrap_or_default();
            names.extend(name_before(&text, usize::try_from(line)?));
        }
    }
    ensure!(said.status.success() || !names.is_empty(), "{}", String::from_utf8_lossy(&said.stderr));
    Ok(names)
}

/// Name of the mutant in whose function a line stands.
fn name_before(text: &str, line: usize) -> Option<String> {
    let lines: Vec<&str> = text.lines().take(line).collect();
    let name = lines.iter().rev().find_map(|line| line.split_once("mutant!(\"drawn-"));
    name.and_then(|(_, rest)| rest.split_once('"')).map(|(name, _)| format!("drawn-{name}"))
}

/// Mutants by name, and what they are.
pub type Left = Vec<(String, String)>;

/// Mutants that the simulator does not find: each is looked for by the world of its engine, and those of shared crates by all worlds.
///
/// # Errors
/// When it cannot be run.
pub fn left_by_simulation(program: &Path, runs: usize) -> Result<Left> {
    let mut left = search(program, runs, &[])?;
    for world in OTHER_WORLDS {
        let (shared, own): (Left, Left) = left.into_iter().partition(|(_, what)| is_shared(what));
        let names = shared.iter().flat_map(|(name, _)| ["--only", name]);
        let words: Vec<&str> = ["--world", world].into_iter().chain(names).collect();
        left = own;
        if !shared.is_empty() {
            left.extend(search(program, runs, &words)?);
        }
    }
    Ok(left)
}

/// True for a mutant of a crate that all engines use, by where it lies.
fn is_shared(what: &str) -> bool {
    SHARED.iter().any(|crate_| what.starts_with(crate_))
}

fn search(program: &Path, runs: usize, words: &[&str]) -> Result<Left> {
    let mut command = Command::new(program);
    command.args(["--no-needs", "--json", "--runs", &runs.to_string()]).args(words).stderr(Stdio::inherit());
    let said = command.output().context("the simulator did not start")?;
    let verdicts: Vec<serde_json::Value> = serde_json::from_slice(&said.stdout).context("verdicts")?;
    println!("{} looked for by simulation {}", verdicts.len(), words.get(1).unwrap_or(&""));
    let text = |verdict: &serde_json::Value, key: &str| verdict[key].as_str().unwrap_or_default().to_owned();
    let left = verdicts.iter().filter(|verdict| verdict["found_by"].is_null());
    Ok(left.map(|verdict| (text(verdict, "name"), text(verdict, "what"))).collect())
}

/// Mutants of those that tests of their crates do not find either.
///
/// # Errors
/// When the tests cannot be built.
pub fn left_by_tests(left: Left, tree: &Path, target: &str) -> Result<Left> {
    let programs = test_programs(tree, target)?;
    let total = left.len();
    let mut remain = Left::new();
    for (number, (name, what)) in left.into_iter().enumerate() {
        let finder = programs.iter().find(|program| !passes(program, &name, tree));
        let by = finder
            .and_then(|program| program.file_stem())
            .map_or("NOT FOUND".into(), |stem| stem.to_string_lossy());
        println!("{} of {total} looked for by tests: {name} {by}", number + 1);
        if finder.is_none() {
            remain.push((name, what));
        }
    }
    Ok(remain)
}

/// True when a test program passes with a mutant. One that takes too long does not.
fn passes(program: &Path, name: &str, tree: &Path) -> bool {
    let mut command = Command::new(program);
    command.current_dir(tree).env("ZONEWEAVE_MUTANT", name).arg("-q");
    let log = tree.with_file_name("drawn.log");
    phase::said(&mut command, &log, LONGEST).is_ok_and(|said| said.is_success)
}

/// Programs with the tests of the crates that are mutated.
fn test_programs(tree: &Path, target: &str) -> Result<Vec<PathBuf>> {
    let mut command = cargo();
    command.args(["test", "--release", "--no-run", "--message-format=json", "--target-dir", target]);
    command.arg("--manifest-path").arg(tree.join("Cargo.toml"));
    command.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    let said = output(&mut command)?;
    let messages = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let tests = messages.filter(|message| message["profile"]["test"] == true);
    Ok(tests.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "/// Doc.\nfn is_old(a: [u8; 2], b: u8) -> bool {\n    a[0] > b\n}\n";

    fn listed(genre: &str, replacement: &str, span: [usize; 4]) -> Listed {
        let at = |line, column| Position { line, column };
        let whole = Span { start: at(2, 1), end: at(4, 2) };
        Listed {
            file: "a.rs".to_owned(),
            function: Some(Function { span: whole }),
            genre: genre.to_owned(),
            name: "a.rs: replaced".to_owned(),
            replacement: replacement.to_owned(),
            span: Span { start: at(span[0], span[1]), end: at(span[2], span[3]) },
        }
    }

    #[test]
    fn both_bodies_stand_behind_a_switch() {
        let operator = edit_of(TEXT, &listed("BinaryOperator", "==", [3, 10, 3, 11])).expect("in a function");
        assert!(TEXT.contains(&operator.find));
        assert!(
            operator.replace.contains("mutant!(\"NAME\") {\n\n    a[0]  ==  b\n"),
            "{}",
            operator.replace
        );
        assert!(operator.replace.contains("else {\n\n    a[0] > b\n"), "{}", operator.replace);
        let value = edit_of(TEXT, &listed("FnValue", "true", [3, 5, 3, 13])).expect("in a function");
        assert!(value.replace.contains("mutant!(\"NAME\") {\ntrue\n} else {"), "{}", value.replace);
    }

    #[test]
    fn constants_are_left_out() {
        let text = TEXT.replace("fn is_old", "const fn is_old");
        assert!(edit_of(&text, &listed("FnValue", "true", [3, 5, 3, 13])).is_none());
    }

    #[test]
    fn names_are_letters_and_orders_repeat() {
        assert_eq!([0, 25, 26, 701].map(letters), ["a", "z", "ba", "baz"]);
        let order = |seed| {
            let mut items: Vec<u32> = (0..100).collect();
            shuffle(&mut items, seed);
            items
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn an_error_is_the_mutant_above_it() {
        let text = "fn a() {\nif mutant!(\"drawn-b\") {\n}\n}\nfn c() {\nif mutant!(\"drawn-d\") {\nx\n";
        assert_eq!(name_before(text, 3).as_deref(), Some("drawn-b"));
        assert_eq!(name_before(text, 7).as_deref(), Some("drawn-d"));
        assert_eq!(name_before(text, 1), None);
    }
}
