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
    let (mut sharded, mut recuts, mut several, mut exchanges) = (0, 0, 0, 0);
    let (mut more, mut on_files) = (0, 0);
    // `zoneweave sim --cache` runs more of them, in CI too.
    for seed in 0..120 {
        let drawn = Run::draw(seed);
        let outcome = drawn.run();
        if let Some((index, failure)) = &outcome.failure {
            panic!("seed {seed}, act {index}: {}\n{:?}", failure.what, drawn.plan);
        }
        if seed % 4 == 0 {
            assert_eq!(outcome.hash, drawn.run().hash, "seed {seed} is the same twice");
        }
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
        on_files += outcome.tally.lives_conventional;
        recuts += outcome.tally.recuts;
        several += outcome.tally.several;
        exchanges += outcome.tally.exchanges;
        more += outcome.tally.more_zones;
    }
    assert!(
        hits > 8_000 && owed > 6_000 && crashes > 400 && checks > 200,
        "{hits} {owed} {crashes} {checks}"
    );
    assert!(evictions > 800 && faults > 80, "{evictions} {faults}");
    assert!(copies > 800 && again > 5, "{copies} hits in memory, {again} objects written anew");
    assert!(forgotten > 300, "{forgotten} objects were never on flash");
    assert!(joins > 20, "{joins} drives joined in service");
    assert!(sharded > 80 && recuts > 5, "{sharded} lives of shards, {recuts} starts with another number");
    assert!(more > 5, "{more} times more open zones of young objects than one");
    assert!(on_files > 80, "{on_files} lives of conventional drives");
    assert!(several > 500 && exchanges > 100, "{several} commands of several keys, {exchanges} exchanges");
}
