//! Runs of the engine for ordinary devices.

#![allow(clippy::unwrap_used)]

use sim::inplace::{Run, scenarios};

#[test]
fn scenarios_pass() {
    sim::catch_panics();
    for (name, scenario) in scenarios::all() {
        let outcome = scenario.run();
        assert!(outcome.failure.is_none(), "{name}: {:?}", outcome.failure);
        assert!(outcome.tally.requests > 0, "{name} asks something");
    }
}

#[test]
fn seeds_pass_and_do_what_they_are_for() {
    sim::catch_panics();
    let (mut crashes, mut checks, mut failures, mut refusals) = (0, 0, 0, 0);
    for seed in 0..300 {
        let drawn = Run::draw(seed);
        let outcome = drawn.run();
        if let Some((index, failure)) = &outcome.failure {
            panic!("seed {seed}, act {index}: {}\n{:?}", failure.what, drawn.plan);
        }
        crashes += outcome.tally.crashes;
        checks += outcome.tally.checks;
        failures += outcome.tally.failures;
        refusals += outcome.tally.refusals;
    }
    assert!(crashes > 100 && checks > 100 && failures > 20 && refusals > 5);
}
