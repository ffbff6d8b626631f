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
    // `zoneweave sim --inplace` runs more of them, in CI too.
    for seed in 0..100 {
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
    assert!(
        crashes > 40 && checks > 40 && failures > 7 && refusals > 1,
        "{crashes} {checks} {failures} {refusals}"
    );
}
