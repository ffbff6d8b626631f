//! Runs of the cache.

#![allow(clippy::unwrap_used)]

use sim::cache::Run;

#[test]
fn scenarios_pass() {
    sim::catch_panics();
    for (name, scenario) in Run::scenarios() {
        let outcome = scenario.run();
        assert!(outcome.failure.is_none(), "{name}: {:?}", outcome.failure);
        assert!(outcome.tally.requests > 0, "{name} asks something");
    }
}

#[test]
fn seeds_pass_and_do_what_they_are_for() {
    sim::catch_panics();
    let (mut hits, mut owed, mut crashes, mut checks, mut evictions, mut faults) = (0, 0, 0, 0, 0, 0);
    let (mut copies, mut again, mut forgotten, mut joins) = (0, 0, 0, 0);
    let (mut sharded, mut recuts) = (0, 0);
    for seed in 0..300 {
        let drawn = Run::draw(seed);
        let outcome = drawn.run();
        if let Some((index, failure)) = &outcome.failure {
            panic!("seed {seed}, act {index}: {}\n{:?}", failure.what, drawn.plan);
        }
        assert_eq!(outcome.hash, drawn.run().hash, "seed {seed} is the same twice");
        hits += outcome.tally.hits;
        owed += outcome.tally.owed_found;
        crashes += outcome.tally.crashes;
        checks += outcome.tally.checks;
        evictions += outcome.tally.evictions;
        faults += outcome.tally.faults;
        copies += outcome.tally.hits_memory;
        again += outcome.tally.reinserted;
        forgotten += outcome.tally.forgotten;
        joins += outcome.tally.joins;
        sharded += outcome.tally.lives_sharded;
        recuts += outcome.tally.recuts;
    }
    assert!(hits > 20_000 && owed > 15_000 && crashes > 1_000 && checks > 500);
    assert!(evictions > 2_000 && faults > 250);
    assert!(copies > 2_000 && again > 20, "{copies} hits in memory, {again} objects written anew");
    assert!(forgotten > 1_000, "{forgotten} objects were never on flash");
    assert!(joins > 80, "{joins} drives joined in service");
    assert!(sharded > 300 && recuts > 20, "{sharded} lives of shards, {recuts} starts with another number");
}
