//! `cargo xtask conformance`: suites of Redis and memcached, written by others, against a served cache.
//!
//! ```text
//! fetch      source packages of Debian, of which the tests are used; nothing of them is committed
//! listed     what is expected of each suite: tests/conformance
//! redis      the Tcl files of Redis
//! memcached  the t/*.t of memcached, and memccapable
//! ```
//!
//! A test that fails and is not listed as failing is a finding, and so is one that passes and is.

mod fetch;
mod listed;
mod memcached;
mod redis;

use crate::cache_server::{CacheServer, Scratch};
use crate::phase::{self, cargo, run as run_program};
use crate::{root, tools};
use anyhow::{Context, Result, bail};
use listed::Failing;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Environment that turns a suite that cannot be had into a failure.
const REQUIRE_TOOLS: &str = "ZONEWEAVE_REQUIRE_TOOLS";
/// Longest time that one file of a suite takes.
const FILE_MAX: Duration = Duration::from_secs(180);
/// Programs that run the suites.
const PROGRAMS: [&str; 4] = ["tclsh", "prove", "memccapable", "redis-cli"];
/// Findings of a file that are told.
const FINDINGS_TOLD: usize = 10;
/// Files of the short form, which take seconds.
const SHORT: &[&str] = &[
    "string",
    "incr",
    "expire",
    "keyspace",
    "scan",
    "protocol",
    "introspection",
    "multi",
    "quit",
    "issue_29",
    "issue_42",
    "bogus-commands",
    "cas",
    "flags",
    "getandtouch",
    "incrdecr",
    "issue_68",
    "issue_70",
    "issue_108",
    "issue_152",
    "line-lengths",
    "malicious-commands",
    "metaget",
    "multiversioning",
    "noreply",
    "touch",
    "memccapable",
];

/// Outcome of a file of a suite.
pub struct Outcome {
    passed: usize,
    expected: usize,
    /// Tests that went otherwise than listed, by name.
    findings: Vec<String>,
}

/// Runs suites. Exit code 0: as listed, 1: not.
///
/// # Errors
/// When a suite cannot be run, or had where tools are required.
pub fn run(words: &[String]) -> Result<ExitCode> {
    let mut words = words.iter().map(String::as_str);
    let (mut is_short, mut cores, mut named) = (false, "1", Vec::new());
    while let Some(word) = words.next() {
        match word {
            "--short" => is_short = true,
            "--cores" => cores = words.next().context("--cores wants a number")?,
            name => named.push(name),
        }
    }
    let failing = Failing::read()?;
    let (mut of_redis, mut of_memcached) = (redis::files()?, memcached::files()?);
    let files = [&of_redis[..], &of_memcached[..]].concat();
    if let Some(unknown) = named.iter().find(|name| !files.iter().any(|file| file == *name)) {
        bail!("there is no suite `{unknown}`; there are {}", files.join(" "));
    }
    let is_asked = |file: &String| match named.is_empty() {
        true => !is_short || SHORT.contains(&file.as_str()),
        false => named.contains(&file.as_str()),
    };
    of_redis.retain(is_asked);
    of_memcached.retain(is_asked);
    tools::provide()?;
    let is_required = std::env::var_os(REQUIRE_TOOLS).is_some();
    let missing: Vec<&str> = PROGRAMS.into_iter().filter(|name| !tools::program_is_here(name)).collect();
    if !missing.is_empty() && is_required {
        bail!("missing: {}", missing.join(", "));
    } else if !missing.is_empty() {
        println!("conformance: skipped for want of {}", missing.join(", "));
        return Ok(ExitCode::SUCCESS);
    }
    let suites = match fetch::suites() {
        Ok(suites) => suites,
        // What a mirror has of sources is not the fault of a commit: CI goes on.
        Err(error) if is_required && !is_short => return Err(error),
        Err(error) => {
            println!("conformance: skipped: {error:#}");
            return Ok(ExitCode::SUCCESS);
        }
    };
    run_program(cargo().args(["build", "--release", "--package", "zoneweave"]))?;
    let scratch = Scratch::new("conformance")?;
    let started = Instant::now();
    let mut report = Report::default();
    // Values of 4 MB, and with them memory and zones of some size.
    let options = &["--size", "8GiB", "--memory", "512MiB", "--cores", cores];
    Suite { name: "redis", files: of_redis, options }
        .run(&scratch, &mut report, |file, server| redis::run(&suites.redis, file, server, &failing))?;
    // A daemon of memcached takes values of up to a MiB unless it is told otherwise.
    let options = &["--size", "4GiB", "--memory", "256MiB", "--object-max", "1MiB", "--cores", cores];
    Suite { name: "memcached", files: of_memcached, options }.run(
        &scratch,
        &mut report,
        |file, server| memcached::run(&suites.memcached, file, server, &failing),
    )?;
    let seconds = started.elapsed().as_secs_f64();
    let Report { passed, expected, findings } = report;
    println!("conformance: {passed} of {expected} pass, {findings} not as listed, {seconds:.0} s");
    Ok(if findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The short form, as CI runs it.
///
/// # Errors
/// When anything is not as listed.
pub fn run_short() -> Result<()> {
    match run(&["--short".to_owned()])? {
        ExitCode::SUCCESS => Ok(()),
        _ => bail!("a suite is not as listed in tests/conformance"),
    }
}

/// Suite of tests: whose it is, its files that are asked for, and the options of the cache that it meets.
struct Suite<'a> {
    name: &'a str,
    files: Vec<String>,
    options: &'a [&'a str],
}

impl Suite<'_> {
    fn run(
        &self,
        scratch: &Scratch,
        report: &mut Report,
        run: impl Fn(&str, &CacheServer) -> Result<Outcome>,
    ) -> Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        let server = CacheServer::up(&scratch.0.join(self.name), self.options)?;
        for file in &self.files {
            report.take(self.name, file, || run(file, &server))?;
        }
        server.stop()
    }
}

/// Sums over all files.
#[derive(Default)]
struct Report {
    passed: usize,
    expected: usize,
    findings: usize,
}

impl Report {
    fn take(&mut self, suite: &str, file: &str, run: impl FnOnce() -> Result<Outcome>) -> Result<()> {
        let started = Instant::now();
        let outcome = run().with_context(|| format!("{suite} {file}"))?;
        let seconds = started.elapsed().as_secs_f64();
        println!("{suite:9} {file:18} {:>5} of {:>5}  {seconds:5.1} s", outcome.passed, outcome.expected);
        for finding in outcome.findings.iter().take(FINDINGS_TOLD) {
            println!("    {finding}");
        }
        let more = outcome.findings.len().saturating_sub(FINDINGS_TOLD);
        if more > 0 {
            println!("    and {more} more");
        }
        self.passed += outcome.passed;
        self.expected += outcome.expected;
        self.findings += outcome.findings.len();
        Ok(())
    }
}

/// Directory of what is downloaded.
fn folder() -> PathBuf {
    root().join("target/conformance")
}

/// All that a program says, with errors, until it ends or has taken too long.
fn said(command: &mut Command, log: &Path) -> Result<String> {
    Ok(phase::said(command, log, FILE_MAX)?.text)
}
