//! Seeds of the baseline after ZRAID: those with random write areas that draw it.

use sim::{AREA_SEEDS, Keep, Plan, Scenario, run};

/// Runs of this test; `cargo xtask sim` has more.
const RUNS: usize = 60;

#[test]
fn what_was_flushed_survives() {
    let seeds = (AREA_SEEDS..).filter(|seed| Plan::draw(*seed).is_zraid());
    for seed in seeds.take(RUNS) {
        let outcome = run(&Scenario::draw(seed), Keep::Nothing);
        assert_eq!(outcome.failure, None, "seed {seed}");
    }
}
