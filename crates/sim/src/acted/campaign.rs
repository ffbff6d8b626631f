//! Many runs of a world of acts: all scenarios, then seeds shared out to threads.

use super::{Counts, Outcome, Run, World};
use crate::Failure;
use crate::campaign::Seeds;
use crate::watchdog::RUN_MAX;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

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
pub struct Totals<T> {
    /// Runs of seeds.
    pub runs: u64,
    /// Runs of scenarios.
    pub scenarios: u64,
    /// Counts of all runs.
    pub tally: T,
    /// Hash over the event logs of all runs, whatever their order.
    pub hash: u64,
    /// Seeds that failed, lowest first.
    pub failures: BTreeMap<u64, Failed>,
    /// Scenarios that failed.
    pub scenario_failures: BTreeMap<&'static str, Failed>,
}

impl<T: Counts> Totals<T> {
    /// Runs all scenarios.
    #[must_use]
    pub fn of_scenarios<W: World<Tally = T>>() -> Totals<T> {
        let mut totals = Totals::default();
        for (name, scenario) in W::scenarios() {
            let outcome = scenario.run();
            totals.scenarios += 1;
            totals.count(&outcome, 0);
            totals.scenario_failures.extend(outcome.failure.map(|failure| (name, failure)));
        }
        totals
    }

    fn count(&mut self, outcome: &Outcome<T>, salt: u64) {
        self.hash ^= outcome.hash.wrapping_add(salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.tally.add(&outcome.tally);
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
    pub fn run<W: World<Tally = T>>(
        self,
        seeds: Seeds,
        go_on: &(dyn Fn(Through<'_>) -> bool + Sync),
    ) -> Totals<T> {
        self.run_within::<W>(RUN_MAX, seeds, go_on)
    }

    /// Runs that do not end in this time have failed.
    fn run_within<W: World<Tally = T>>(
        self,
        run_max: Duration,
        seeds: Seeds,
        go_on: &(dyn Fn(Through<'_>) -> bool + Sync),
    ) -> Totals<T> {
        let totals = Mutex::new(self);
        seeds.share_out(|seed| {
            let outcome = Run::<W>::draw(seed).run_within(run_max);
            let mut totals = totals.lock().expect("a run catches its panics");
            totals.runs += 1;
            totals.count(&outcome, seed);
            let has_failed = outcome.failure.is_some();
            totals.failures.extend(outcome.failure.map(|failure| (seed, failure)));
            let failed = totals.failures.get(&seed).filter(|_| has_failed);
            assert!(failed.is_some() == has_failed, "seed {seed} is told as it went");
            let failures = u64::try_from(totals.failures.len()).expect("memory has less than 2^64 bytes");
            assert!(failures <= totals.runs, "{failures} seeds of {} failed", totals.runs);
            go_on(Through { seed, failed, runs: totals.runs, failures: totals.failed() })
        });
        totals.into_inner().expect("a run catches its panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A world in which the second act of every third seed is one endless call.
    struct Endless;

    /// Time after which it is given up here.
    const RUN_MAX_SHORT: Duration = Duration::from_millis(400);

    impl Counts for u64 {
        fn add(&mut self, other: &u64) {
            *self += other;
        }
    }

    impl World for Endless {
        const ENGINE: &'static str = "endless engine";
        const COMMAND: &'static str = "none";
        type Plan = u64;
        type Act = bool;
        type Tally = u64;

        fn draw(seed: u64) -> Run<Endless> {
            Run { plan: seed, acts: vec![false, seed % 3 == 2, false] }
        }

        fn scenarios() -> Vec<(&'static str, Run<Endless>)> {
            Vec::new()
        }

        fn reseeded(_plan: &u64, seed: u64) -> u64 {
            seed
        }

        fn new(_plan: &u64) -> Result<Endless, Failure> {
            Ok(Endless)
        }

        fn act(&mut self, is_endless: &bool) -> Result<bool, Failure> {
            loop {
                if !is_endless {
                    return Ok(true);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }

        fn end(&mut self) -> Result<(), Failure> {
            Ok(())
        }

        fn outcome(self, failure: Option<(usize, Failure)>) -> Outcome<u64> {
            Outcome { failure, hash: 1, tally: 1 }
        }
    }

    #[test]
    fn a_seed_that_does_not_end_is_named_and_the_others_are_run() {
        let seeds = Seeds { first: 0, runs: 6, jobs: 2 };
        let totals = Totals::<u64>::default().run_within::<Endless>(RUN_MAX_SHORT, seeds, &|_| true);
        assert_eq!((totals.runs, totals.tally), (6, 4), "the others ended");
        let named: Vec<(u64, usize)> = totals.failures.iter().map(|(seed, (act, _))| (*seed, *act)).collect();
        assert_eq!(named, [(2, 1), (5, 1)]);
        assert!(totals.failures.values().all(|(_, failure)| failure.is_endless));
    }
}
