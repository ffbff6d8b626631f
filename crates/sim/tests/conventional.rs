//! Runs of conventional drives.

#![allow(clippy::unwrap_used)]

use sim::conventional::Run;

#[test]
fn scenarios_pass() {
    sim::catch_panics();
    for (name, scenario) in Run::scenarios() {
        let outcome = scenario.run();
        assert!(outcome.failure.is_none(), "{name}: {:?}", outcome.failure);
        assert!(outcome.tally.commands > 0, "{name} asks something");
    }
}

#[test]
fn seeds_pass_and_do_what_they_are_for() {
    sim::catch_panics();
    let (mut crashes, mut cut, mut lost, mut found, mut failed) = (0, 0, 0, 0, 0);
    for seed in 0..300 {
        let drawn = Run::draw(seed);
        let outcome = drawn.run();
        if let Some((index, failure)) = &outcome.failure {
            panic!("seed {seed}, act {index}: {}\n{:?}", failure.what, drawn.plan);
        }
        assert_eq!(outcome.hash, drawn.run().hash, "seed {seed} is the same twice");
        crashes += outcome.tally.crashes;
        cut += outcome.tally.openings_cut;
        lost += outcome.tally.blocks_lost;
        found += outcome.tally.blocks_found;
        failed += outcome.tally.failed;
    }
    assert!(crashes > 1_000 && cut > 50 && lost > 1_000 && found > 500 && failed > 50);
}
