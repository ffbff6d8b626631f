//! Many runs: all scenarios, then seeds shared out to threads, and what they add up to.
//!
//! Each run depends on its seed alone, so the number of threads changes nothing but the time it takes.

use crate::Failure;
use crate::run::{Outcome, Scenario, run, run_within};
use crate::scenarios::SCENARIOS;
use crate::trace::Keep;
use crate::watchdog::RUN_MAX;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Sums over the runs of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Runs of seeds.
    pub runs: u64,
    /// Runs of scenarios.
    pub scenarios: u64,
    /// Events.
    pub events: u64,
    /// Requests answered.
    pub requests: u64,
    /// Requests that failed, as they may when more is broken than the array can stand.
    pub requests_failed: u64,
    /// Blocks held against the oracle.
    pub blocks_verified: u64,
    /// Times the power failed.
    pub power_failures: u64,
    /// Mounts that succeeded.
    pub mounts: u64,
    /// Checks of everything at rest.
    pub checks: u64,
    /// Virtual time.
    pub virtual_ns: u128,
    /// Faults injected, by name.
    pub faults: BTreeMap<&'static str, u64>,
    /// Hash over the event logs of all runs, whatever their order.
    pub hash: u64,
    /// Seeds that failed, with what went wrong, lowest first.
    pub failures: BTreeMap<u64, Outcome>,
    /// Scenarios that failed.
    pub scenario_failures: BTreeMap<String, Outcome>,
}

impl Totals {
    /// Runs all scenarios, one after the other: they are few and small.
    #[must_use]
    pub fn of_scenarios() -> Totals {
        let mut totals = Totals::default();
        for (name, text) in SCENARIOS {
            let scenario = Scenario::from_toml(text).expect("a test reads them all");
            totals.add_scenario(name, run(&scenario, Keep::Nothing));
        }
        totals
    }

    /// Scenarios and seeds that failed.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.failures.len() + self.scenario_failures.len()
    }

    /// Adds the run of a scenario.
    pub fn add_scenario(&mut self, name: &str, outcome: Outcome) {
        self.scenarios += 1;
        self.count(&outcome, 0);
        if outcome.failure.is_some() {
            self.scenario_failures.insert(name.to_owned(), outcome);
        }
    }

    /// Adds the run of a seed.
    pub fn add_seed(&mut self, seed: u64, outcome: Outcome) {
        self.runs += 1;
        self.count(&outcome, seed);
        assert!(!self.failures.contains_key(&seed), "a seed is run once");
        if outcome.failure.is_some() {
            self.failures.insert(seed, outcome);
        }
    }

    fn count(&mut self, outcome: &Outcome, salt: u64) {
        self.hash ^= outcome.hash.wrapping_add(salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let tally = &outcome.tally;
        assert!(tally.requests_failed <= tally.requests, "requests that failed were answered");
        self.events += outcome.events;
        self.requests += tally.requests;
        self.requests_failed += tally.requests_failed;
        self.blocks_verified += tally.blocks_verified;
        self.power_failures += tally.power_failures;
        self.mounts += tally.mounts;
        self.checks += tally.checks;
        self.virtual_ns += u128::from(tally.virtual_ns);
        for (name, count) in &outcome.faults {
            *self.faults.entry(name).or_default() += count;
        }
    }
}

/// Seeds to run.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    /// First seed.
    pub first: u64,
    /// Runs, at most.
    pub runs: u64,
    /// Threads.
    pub jobs: usize,
}

impl Seeds {
    /// Shares the seeds out to threads, in order; when a run returns false no more are begun.
    ///
    /// # Panics
    /// When a thread cannot be started.
    pub fn share_out(&self, run: impl Fn(u64) -> bool + Sync) {
        assert!(self.jobs > 0, "somebody runs the seeds");
        let next = AtomicU64::new(0);
        let enough = AtomicBool::new(false);
        let work = || {
            while !enough.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= self.runs {
                    return;
                }
                if !run(self.first.wrapping_add(index)) {
                    enough.store(true, Ordering::Relaxed);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(work);
            }
        });
    }
}

/// Task of a campaign: seeds, limits and callbacks.
pub struct Campaign<'a> {
    /// First seed.
    pub first: u64,
    /// Runs, at most.
    pub runs: u64,
    /// Threads.
    pub jobs: usize,
    /// Failures after which it is enough.
    pub failures_max: usize,
    /// Told of every seed that fails, at once.
    pub failed: &'a (dyn Fn(u64, &Failure) + Sync),
    /// Asked after every run, with the runs done so far and those that failed; false ends the campaign.
    pub go_on: &'a (dyn Fn(u64, usize) -> bool + Sync),
}

impl Campaign<'_> {
    /// Runs the seeds.
    ///
    /// # Panics
    /// When a thread cannot be started.
    #[must_use]
    pub fn run(&self) -> Totals {
        self.run_after(Totals::default())
    }

    /// Runs the seeds and adds to what was done before.
    ///
    /// # Panics
    /// When a thread cannot be started.
    #[must_use]
    pub fn run_after(&self, totals: Totals) -> Totals {
        self.run_within(RUN_MAX, totals)
    }

    /// Runs that do not end in this time have failed.
    fn run_within(&self, run_max: Duration, totals: Totals) -> Totals {
        if totals.failed() >= self.failures_max {
            return totals;
        }
        let totals = Mutex::new(totals);
        let seeds = Seeds { first: self.first, runs: self.runs, jobs: self.jobs };
        seeds.share_out(|seed| {
            let outcome = run_within(run_max, &Scenario::draw(seed), Keep::Nothing);
            if let Some((_, failure)) = &outcome.failure {
                (self.failed)(seed, failure);
            }
            let mut totals = totals.lock().expect("a run catches its panics");
            totals.add_seed(seed, outcome);
            let failed = totals.failed();
            (self.go_on)(totals.runs, failed) && failed < self.failures_max
        });
        totals.into_inner().expect("a run catches its panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_that_take_too_long_are_named_and_the_next_are_run() {
        let named = Mutex::new(Vec::new());
        let campaign = Campaign {
            first: 0,
            runs: 4,
            jobs: 1,
            failures_max: usize::MAX,
            failed: &|seed, failure| named.lock().expect("no run panics").push((seed, failure.is_endless)),
            go_on: &|_, _| true,
        };
        // No run ends at once.
        let totals = campaign.run_within(Duration::ZERO, Totals::default());
        assert_eq!((totals.runs, totals.failed()), (4, 4));
        assert_eq!(named.into_inner().ok(), Some(vec![(0, true), (1, true), (2, true), (3, true)]));
    }
}
