//! The measurements of a commit, through the command line of its program.

use super::record::{Instructions, Record, Results};
use crate::tools::program_is_here;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Time after which a run of the simulator is taken for an endless loop, should it not say so by itself after two minutes: commits from
/// before its watchdog do not, and most runs take less than a tenth of a second.
const RUN_MAX: Duration = Duration::from_secs(150);
/// Between two looks whether a run is over.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Between two lines about progress.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Turns of `lab null-write` that are counted, from this one on: what a start costs is in both counts.
const TURNS: (u64, u64) = (100, 6_000);
/// Program that counts: it gives the same number in every run, on every machine, which hardware counters do not, where
/// there are any.
const COUNTER: [&str; 4] =
    ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"];

/// A part of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Seeds(Vec<u64>),
    Scenarios,
    Instructions,
    /// `lab run all` at this scale.
    Lab(String),
}

impl Part {
    /// Measures it.
    ///
    /// # Errors
    /// When the program cannot be run. What a run of the simulator does is no error, whatever it is.
    pub fn measure(&self, program: &Path, scenarios: &Path, record: &mut Record) -> Result<()> {
        match self {
            Part::Seeds(seeds) => {
                let results = simulate("seeds", seeds, |seed| {
                    let mut command = Command::new(program);
                    command.args(["sim", "--json", "--seed", &seed.to_string()]);
                    command
                })?;
                record.seeds.extend(results);
            }
            Part::Scenarios => {
                let results = simulate("scenarios", &names_of(scenarios)?, |name| {
                    let mut command = Command::new(program);
                    command.args(["sim", "--json", "--scenario"]).arg(scenarios.join(name));
                    command
                })?;
                record.scenarios = Some(results);
            }
            Part::Instructions => record.instructions = Some(count(program)?),
            Part::Lab(scale) => {
                eprintln!("same: lab run all --seeds 1 --scale {scale}");
                let mut command = Command::new(program);
                command.args(["lab", "run", "all", "--seeds", "1", "--json", "--scale", scale]);
                let output = command.stderr(Stdio::inherit()).output().context("could not start lab run")?;
                ensure!(output.status.success(), "lab run failed: {}", output.status);
                record.lab.insert(scale.clone(), measurements(&String::from_utf8(output.stdout)?)?);
            }
        }
        Ok(())
    }
}

fn names_of(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.retain(|name| name.ends_with(".toml"));
    names.sort();
    Ok(names)
}

/// Runs the simulator once for each of `items`, on all cores.
fn simulate<T: Clone + Ord + Sync + Send>(
    what: &str,
    items: &[T],
    command: impl Fn(&T) -> Command + Sync,
) -> Result<BTreeMap<T, String>> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let shown = Mutex::new(Instant::now());
    let work = || -> Result<()> {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = run_once(command(item))?;
            let mut results = results.lock().expect("no run panics");
            results.insert(item.clone(), result);
            let mut shown = shown.lock().expect("no run panics");
            if results.len() == items.len() || shown.elapsed() >= LINE_EVERY {
                eprintln!("same: {} of {} {what}", results.len(), items.len());
                *shown = Instant::now();
            }
        }
        Ok(())
    };
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no run panics"))
    })?;
    Ok(results.into_inner().expect("no run panics"))
}

/// Runs the simulator once; returns the hash of its report and its failure, or why there is no report.
fn run_once(mut command: Command) -> Result<String> {
    let mut run =
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("could not start sim")?;
    let mut stdout = run.stdout.take().context("a run without output")?;
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let began = Instant::now();
    let status = loop {
        match run.try_wait()? {
            Some(status) => break status,
            None if began.elapsed() > RUN_MAX => {
                run.kill()?;
                run.wait()?;
                return Ok(format!("does not end within {} s", RUN_MAX.as_secs()));
            }
            None => std::thread::sleep(LOOK_EVERY),
        }
    };
    let text = reader.join().expect("reading does not panic").unwrap_or_default();
    Ok(result_of(&text).unwrap_or_else(|| format!("ends without a report: {status}")))
}

/// The hash in a report of the simulator, and how the run failed if it did.
fn result_of(report: &str) -> Option<String> {
    let report: Value = serde_json::from_str(report).ok()?;
    let hash = report["hash"].as_str()?;
    Some(match report["failures"][0]["message"].as_str() {
        Some(message) => format!("{hash}, fails: {message}"),
        None => hash.to_owned(),
    })
}

/// The lines of `lab run` by what they measure.
fn measurements(lines: &str) -> Result<Results> {
    let mut results = Results::new();
    for line in lines.lines() {
        let value: Value = serde_json::from_str(line).with_context(|| format!("lab run prints `{line}`"))?;
        let name = name_of(&value);
        let mut unique = name.clone();
        for number in 2.. {
            if !results.contains_key(&unique) {
                break;
            }
            unique = format!("{name} ({number})");
        }
        results.insert(unique, line.to_owned());
    }
    Ok(results)
}

fn name_of(measurement: &Value) -> String {
    let word = |key: &str| measurement[key].as_str().unwrap_or("-").to_owned();
    let mut words = vec![word("experiment"), word("scheme")];
    let setting = measurement["setting"].as_object();
    words.extend(setting.into_iter().flatten().map(|(key, value)| format!("{key}={}", plain(value))));
    words.push(word("metric"));
    words.join(" ")
}

/// A value without the quotes of a string.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Instructions of a 4-KiB write, counted from outside; why not, where they cannot be.
fn count(program: &Path) -> Result<Instructions> {
    let not = |why: &str| Ok(Instructions::NotCounted { why: why.to_owned() });
    if !program_is_here(COUNTER[0]) {
        return not("valgrind is not installed");
    }
    let Some(start) = count_turns(program, TURNS.0)? else {
        return not("this commit's `lab null-write` has no --turns, or valgrind cannot run it");
    };
    let all = count_turns(program, TURNS.1)?.context("valgrind counted 100 turns and not 6,000")?;
    let (instructions, writes) = (all.instructions - start.instructions, all.writes - start.writes);
    ensure!(writes > 0.0, "lab null-write wrote as much in {} turns as in {}", TURNS.1, TURNS.0);
    Ok(Instructions::Counted { per_write: instructions / writes, counted_by: COUNTER[..3].join(" ") })
}

/// Instructions and writes of `lab null-write` in so many turns.
struct Turns {
    instructions: f64,
    writes: f64,
}

fn count_turns(program: &Path, turns: u64) -> Result<Option<Turns>> {
    eprintln!("same: instructions of {turns} turns of lab null-write");
    let mut command = Command::new(COUNTER[0]);
    command.args(&COUNTER[1..]).arg(program).args([
        "lab",
        "null-write",
        "--json",
        "--turns",
        &turns.to_string(),
    ]);
    let output = command.output().context("could not start valgrind")?;
    let report = serde_json::from_slice::<Value>(&output.stdout).ok();
    let writes = report.and_then(|report| report["writes"].as_f64());
    let instructions = instructions_of(&String::from_utf8_lossy(&output.stderr));
    Ok(writes.zip(instructions).map(|(writes, instructions)| Turns { instructions, writes }))
}

/// The count in what valgrind says: `==123== I refs:      1,234,567`; older ones write `I   refs:`.
fn instructions_of(text: &str) -> Option<f64> {
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
    fn a_run_comes_to_its_hash_and_its_failure() {
        assert_eq!(result_of(r#"{"hash":"ab","failures":[]}"#).as_deref(), Some("ab"));
        let failed = r#"{"hash":"ab","failures":[{"message":"lost"}]}"#;
        assert_eq!(result_of(failed).as_deref(), Some("ab, fails: lost"));
        assert_eq!(result_of("thread panicked"), None);
    }

    #[test]
    fn a_run_that_dies_is_a_result() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "kill -9 $$"]);
        let result = run_once(shell).unwrap();
        assert!(result.starts_with("ends without a report: signal: 9"), "{result}");
    }

    #[test]
    fn measurements_are_named_by_all_that_tells_them_apart() {
        let line = |metric: &str, depth: u64| {
            format!(
                r#"{{"experiment":"exp1","scheme":"raizn","setting":{{"queue_depth":{depth},"profile":"zn540"}},"metric":"{metric}","value":1.5}}"#
            )
        };
        let lines = [line("p50", 1), line("p50", 8), line("p95", 1), line("p95", 1)].join("\n");
        let names: Vec<String> = measurements(&lines).unwrap().into_keys().collect();
        let name = |rest: &str| format!("exp1 raizn profile=zn540 queue_depth={rest}");
        assert_eq!(names, [name("1 p50"), name("1 p95"), name("1 p95 (2)"), name("8 p50")]);
        assert!(measurements("no JSON").is_err());
    }

    #[test]
    fn instructions_are_read_from_old_and_new_valgrinds() {
        assert_eq!(instructions_of("==1== Cachegrind\n==1== I   refs:      12,345\n"), Some(12_345.0));
        assert_eq!(instructions_of("==1== I refs:        67\n"), Some(67.0));
        assert_eq!(instructions_of("==1== D   refs:      12,345\n"), None);
    }
}
