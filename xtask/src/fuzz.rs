//! `cargo xtask fuzz [SECONDS]`: every target of `fuzz/` for a while.
//!
//! The targets are built by the toolchain at hand: what `cargo fuzz` asks nightly for is coverage, which a
//! pass of LLVM adds, and AddressSanitizer, which has nothing to find in parsers without `unsafe`.

use crate::phase::{cargo, run as run_program, target};
use crate::pool;
use crate::root;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Seconds per target when nothing is said.
const SECONDS: u32 = 60;
/// Seconds per target in CI.
const SECONDS_SHORT: u32 = 2;

/// Coverage as libFuzzer wants it: counters of blocks, their addresses, and operands of comparisons.
const RUSTFLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// An input that takes longer than this is a finding.
const INPUT_SECONDS_MAX: u32 = 10;
/// So is one that asks for more address space. The fuzzer itself takes a tenth of it.
const ADDRESS_SPACE_KIB: u32 = 2 << 20;

/// Runs every target for as many seconds as `argument` says.
///
/// # Errors
/// When the targets cannot be built, or one of them found something.
pub fn run(argument: Option<&str>) -> Result<()> {
    let seconds = argument.map_or(Ok(SECONDS), str::parse).context("SECONDS is a number")?;
    fuzz(seconds)
}

/// As [`run`], in seconds instead of minutes.
///
/// # Errors
/// As above.
pub fn run_short() -> Result<()> {
    fuzz(SECONDS_SHORT)
}

fn fuzz(seconds: u32) -> Result<()> {
    let programs = build()?;
    let targets = targets()?;
    println!("fuzzing {} targets for {seconds} s each, {} at a time", targets.len(), pool::workers());
    let mut outcomes = pool::each(&targets, |target| (target, run_target(&programs, target, seconds)));
    outcomes.sort_by_key(|(target, _)| *target);
    let mut table = format!("{:16} {:>12} {:>9}  {}\n", "target", "executions", "coverage", "findings");
    let mut found = 0;
    for (target, outcome) in outcomes {
        let outcome = outcome?;
        found += u32::from(outcome.finding.is_some());
        let finding = outcome.finding.as_deref().unwrap_or("none");
        table += &format!("{target:16} {:>12} {:>9}  {finding}\n", outcome.executions, outcome.coverage);
    }
    print!("{table}");
    if found > 0 {
        bail!("{found} targets found something; to replay, run the program on the input, as above");
    }
    Ok(())
}

/// Names of the targets, in order.
fn targets() -> Result<Vec<String>> {
    let folder = root().join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    names.sort_unstable();
    Ok(names)
}

/// Shows that the targets compile: they are a workspace of their own, which lints of ours do not reach.
///
/// # Errors
/// When they do not.
pub fn check() -> Result<()> {
    let mut command = cargo();
    command.args(["check", "--quiet", "--bins", "--locked", "--manifest-path", "fuzz/Cargo.toml"]);
    // Flags for a target are not those of build scripts and macros.
    command.args(["--target", &host()?, "--target-dir"]).arg(target_dir());
    run_program(command.env("RUSTFLAGS", "--cfg fuzzing"))
}

/// Folder of what is built of them.
fn target_dir() -> PathBuf {
    target().join("fuzz")
}

/// Builds all targets and says where they are.
fn build() -> Result<PathBuf> {
    let host = host()?;
    let target_dir = target_dir();
    let mut command = cargo();
    command.args(["build", "--release", "--bins", "--locked", "--manifest-path", "fuzz/Cargo.toml"]);
    // With a target, build scripts and macros are spared the coverage.
    command.args(["--target", &host, "--target-dir"]).arg(&target_dir);
    run_program(command.env("RUSTFLAGS", RUSTFLAGS))?;
    Ok(target_dir.join(host).join("release"))
}

/// The machine's own target.
pub fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("could not start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("`rustc -vV` names no host")
}

/// Results of a run of a target.
struct Outcome {
    executions: u64,
    coverage: u64,
    finding: Option<String>,
}

fn run_target(programs: &Path, target: &str, seconds: u32) -> Result<Outcome> {
    let corpus = root().join("fuzz/corpus").join(target);
    let artifacts = root().join("fuzz/artifacts").join(target);
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    }
    let program = programs.join(target);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {ADDRESS_SPACE_KIB}; exec \"$0\" \"$@\"")]).arg(&program);
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-timeout={INPUT_SECONDS_MAX}"));
    command.arg("-print_final_stats=1").arg(format!("-artifact_prefix={}/", artifacts.display()));
    let output = command.arg(&corpus).output().with_context(|| format!("could not start {target}"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    let mut outcome = read_log(&log);
    if !output.status.success() {
        println!("{}", last_lines(&log));
        let input = log.lines().find_map(|line| Some(line.split_once("Test unit written to ")?.1));
        let replay = input.map(|input| format!("{} {input}", program.display()));
        outcome.finding = Some(replay.unwrap_or_else(|| output.status.to_string()));
    }
    Ok(outcome)
}

/// Enough to see what panicked, and where.
fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// Reads what libFuzzer reports of itself.
fn read_log(log: &str) -> Outcome {
    let number_after = |key: &str| {
        let text = log.rsplit_once(key)?.1.trim_start();
        text.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
    };
    let executions = number_after("stat::number_of_executed_units:").unwrap_or(0);
    Outcome { executions, coverage: number_after(" cov: ").unwrap_or(0), finding: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_a_run_is_read() {
        let log = "#2\tINITED cov: 48 ft: 49 corp: 1/1b\n#512\tREDUCE cov: 50 ft: 60\nDone 512 runs in 1 second(s)\n\
                   stat::number_of_executed_units: 512\nstat::average_exec_per_sec:     512\n";
        let outcome = read_log(log);
        assert_eq!((outcome.executions, outcome.coverage), (512, 50));
        assert_eq!(read_log("").executions, 0);
    }

    #[test]
    fn every_target_is_built() {
        let manifest = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
        for target in targets().unwrap() {
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
        }
    }
}
