//! What runs add up to, in words and as JSON.

use super::{Origin, one};
use serde::Serialize;
use sim::Outcome;
use sim::campaign::Totals;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The sums of one run or many. The names of the fields are a contract.
#[derive(Debug, Serialize)]
pub struct Report {
    pub runs: u64,
    pub first_seed: Option<u64>,
    pub scenarios: u64,
    pub failures: Vec<FailedRun>,
    /// Over the event logs of the seeds, whatever their order; of one run, that of its log.
    pub hash: String,
    pub events: u64,
    pub requests: u64,
    pub requests_failed: u64,
    pub blocks_verified: u64,
    pub power_failures: u64,
    pub mounts: u64,
    pub checks: u64,
    pub virtual_seconds: f64,
    pub faults: BTreeMap<&'static str, u64>,
    /// On the wall clock.
    pub seconds: f64,
    #[serde(skip)]
    took: Duration,
}

/// A run that failed.
#[derive(Debug, Serialize)]
pub struct FailedRun {
    pub seed: Option<u64>,
    pub scenario: Option<String>,
    /// Counted from one; one more than there are is the end of the run.
    pub step: usize,
    pub step_text: String,
    pub message: String,
    pub lba: Option<u64>,
    /// Command that repeats the run.
    pub command: String,
    #[serde(skip)]
    place: String,
}

impl FailedRun {
    fn new(origin: &Origin, outcome: &Outcome) -> Option<FailedRun> {
        let (index, failure) = outcome.failure.as_ref()?;
        let scenario = origin.load().ok()?;
        let (seed, name) = match origin {
            Origin::Seed(seed) => (Some(*seed), None),
            Origin::Scenario(path) => (None, Some(path.display().to_string())),
        };
        Some(FailedRun {
            seed,
            scenario: name,
            step: index + 1,
            step_text: scenario.steps.get(*index).map_or("end".to_owned(), ToString::to_string),
            message: failure.what.clone(),
            lba: failure.lba,
            command: origin.command(),
            place: format!("{origin}, {}", one::place(&scenario, *index)),
        })
    }
}

impl Report {
    /// Makes a report of all runs; `first_seed` is set when seeds were run.
    pub fn new(totals: &Totals, first_seed: Option<u64>, took: Duration) -> Report {
        let scenarios = totals.scenario_failures.iter();
        let scenarios = scenarios.map(|(name, outcome)| (Origin::Scenario(PathBuf::from(name)), outcome));
        let seeds = totals.failures.iter().map(|(seed, outcome)| (Origin::Seed(*seed), outcome));
        let failures = scenarios.chain(seeds);
        Report {
            runs: totals.runs,
            first_seed,
            scenarios: totals.scenarios,
            failures: failures.filter_map(|(origin, outcome)| FailedRun::new(&origin, outcome)).collect(),
            hash: format!("{:016x}", totals.hash),
            events: totals.events,
            requests: totals.requests,
            requests_failed: totals.requests_failed,
            blocks_verified: totals.blocks_verified,
            power_failures: totals.power_failures,
            mounts: totals.mounts,
            checks: totals.checks,
            virtual_seconds: duration(totals.virtual_ns).as_secs_f64(),
            faults: totals.faults.clone(),
            seconds: took.as_secs_f64(),
            took,
        }
    }

    /// Returns the figures of all runs, one line each.
    pub fn figures(&self) -> String {
        let failed = match self.requests_failed {
            0 => String::new(),
            failed => format!(" ({failed} failed, as they may when too much is broken)"),
        };
        let mut text = format!("  {:<24} {:>12}\n", "events", self.events);
        text += &format!("  {:<24} {:>12}{failed}\n", "requests", self.requests);
        for (name, value) in [
            ("blocks held to the oracle", self.blocks_verified),
            ("power failures", self.power_failures),
            ("mounts", self.mounts),
            ("checks of all at rest", self.checks),
        ] {
            text += &format!("  {name:<24} {value:>12}\n");
        }
        text += &format!("  {:<24} {:>12.3} s\n", "virtual time", self.virtual_seconds);
        if !self.faults.is_empty() {
            text += "faults\n";
        }
        self.faults.iter().for_each(|(name, count)| text += &format!("  {name:<24} {count:>12}\n"));
        text
    }
}

/// Virtual time of many runs; more than Duration can say is a bug of the clock.
fn duration(ns: u128) -> Duration {
    u64::try_from(ns).map_or(Duration::MAX, Duration::from_nanos)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.first_seed.unwrap_or(0), self.first_seed.unwrap_or(0) + self.runs);
        let rate = u128::from(self.runs) * 1_000 / self.took.as_millis().max(1);
        writeln!(
            f,
            "{} scenarios and {} seeds from {first} to {}, in {:.1} s: {rate} seeds/s",
            self.scenarios,
            self.runs,
            last.saturating_sub(1),
            self.seconds
        )?;
        write!(f, "{}", self.figures())?;
        writeln!(f, "hash {}", self.hash)?;
        for FailedRun { place, message, command, .. } in &self.failures {
            writeln!(f, "\nFAILED {place}\n  {}\n  reproduce it: {command}", message.replace('\n', "\n  "))?;
        }
        match self.failures.len() {
            0 => writeln!(f, "nothing failed"),
            failed => writeln!(f, "\n{failed} failed"),
        }
    }
}
