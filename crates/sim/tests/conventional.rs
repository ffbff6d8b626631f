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
    // `zoneweave sim --conventional` runs more of them, in CI too.
    for seed in 0..150 {
        let drawn = Run::draw(seed);
        let outcome = drawn.run();
        if let Some((index, failure)) = &outcome.failure {
            panic!("seed {seed}, act {index}: {}\n{:?}", failure.what, drawn.plan);
        }
        if seed % 4 == 0 {
            assert_eq!(outcome.hash, drawn.run().hash, "seed {seed} is the same twice");
        }
        crashes += outcome.tally.crashes;
        cut += outcome.tally.openings_cut;
        lost += outcome.tally.blocks_lost;
        found += outcome.tally.blocks_found;
        failed += outcome.tally.failed;
    }
    assert!(
        crashes > 500 && cut > 25 && lost > 500 && found > 250 && failed > 25,
        "{crashes} {cut} {lost} {found} {failed}"
    );
}
