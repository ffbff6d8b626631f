//! Many runs of the in-place world: all scenarios, then seeds shared out to threads.

use super::scenarios;
use super::{Outcome, Run, Tally, run};
use crate::Failure;
use crate::campaign::Seeds;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// A run that failed: the act, and what went wrong.
pub type Failed = (usize, Failure);

/// A run of a campaign that is through.
#[derive(Clone, Copy, Debug)]
pub struct Through<'a> {
    /// Its seed.
    pub seed: u64,
    /// Its failure.
    pub failed: Option<&'a Failed>,
    /// Runs that are through.
    pub runs: u64,
    /// Runs and scenarios that failed.
    pub failures: usize,
}

/// Sums over many runs.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Runs of seeds.
    pub runs: u64,
    /// Runs of scenarios.
    pub scenarios: u64,
    /// Counts of all runs.
    pub tally: Tally,
    /// Seeds that failed, lowest first.
    pub failures: BTreeMap<u64, Failed>,
    /// Scenarios that failed.
    pub scenario_failures: BTreeMap<&'static str, Failed>,
}

impl Totals {
    /// Runs all scenarios.
    #[must_use]
    pub fn of_scenarios() -> Totals {
        let mut totals = Totals::default();
        for (name, scenario) in scenarios::all() {
            let Outcome { failure, tally } = run(&scenario);
            totals.scenarios += 1;
            totals.tally.add(&tally);
            totals.scenario_failures.extend(failure.map(|failure| (name, failure)));
        }
        totals
    }

    /// Scenarios and seeds that failed.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.failures.len() + self.scenario_failures.len()
    }

    /// Runs seeds and adds what they did; ends when `go_on` returns false.
    ///
    /// # Panics
    /// When a thread cannot be started.
    #[must_use]
    pub fn run(self, seeds: Seeds, go_on: &(dyn Fn(Through<'_>) -> bool + Sync)) -> Totals {
        let totals = Mutex::new(self);
        seeds.share_out(|seed| {
            let Outcome { failure, tally } = run(&Run::draw(seed));
            let mut totals = totals.lock().expect("a run catches its panics");
            totals.runs += 1;
            totals.tally.add(&tally);
            let has_failed = failure.is_some();
            totals.failures.extend(failure.map(|failure| (seed, failure)));
            let failed = totals.failures.get(&seed).filter(|_| has_failed);
            go_on(Through { seed, failed, runs: totals.runs, failures: totals.failed() })
        });
        totals.into_inner().expect("a run catches its panics")
    }
}
