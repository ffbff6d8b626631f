//! Seeds of the baseline after ZRAID: those with random write areas that draw it.

use sim::{AREA_SEEDS, Keep, Plan, Scenario, run};

/// Runs of this test; `cargo xtask sim` has more.
const RUNS: usize = 60;

#[test]
fn what_was_flushed_survives() {
    let runs = std::env::var("ZRAID_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(RUNS);
    let from: u64 = std::env::var("ZRAID_FROM").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let seeds = (AREA_SEEDS + from..).filter(|seed| Plan::draw(*seed).is_zraid());
    let mut failed = 0;
    if let Ok(one) = std::env::var("ZRAID_SEED") {
        let scenario = Scenario::draw(one.parse::<u64>().unwrap() + AREA_SEEDS);
        println!("{}", scenario.to_toml());
        let outcome = run(&scenario, Keep::All);
        outcome.lines.iter().for_each(|line| println!("{line}"));
        println!("{:?}", outcome.failure);
        return;
    }
    for seed in seeds.take(runs) {
        let outcome = run(&Scenario::draw(seed), Keep::Nothing);
        if let Some(failure) = outcome.failure {
            failed += 1;
            println!("{} {failure:?}", seed - AREA_SEEDS);
        }
    }
    assert!(failed == 0, "{failed} of {runs} seeds failed");
}
