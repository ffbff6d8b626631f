//! A seed gives the same event log to the bit, whatever runs beside it.

#![allow(clippy::unwrap_used)]

use sim::campaign::{Campaign, Totals};
use sim::{Keep, Scenario, run};

const SEEDS: u64 = 12;

fn campaign(jobs: usize) -> Totals {
    Campaign {
        first: 0,
        runs: SEEDS,
        jobs,
        failures_max: usize::MAX,
        failed: &|_, _| {},
        go_on: &|_, _| true,
    }
    .run()
}

#[test]
fn a_seed_gives_the_same_event_log_twice() {
    for seed in 0..SEEDS {
        let scenario = Scenario::draw(seed);
        assert_eq!(scenario, Scenario::draw(seed));
        let (first, second) = (run(&scenario, Keep::Nothing), run(&scenario, Keep::All));
        assert_eq!((first.hash, first.events), (second.hash, second.events), "seed {seed}");
        assert!(first.events > 0 && !second.lines.is_empty(), "seed {seed}");
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let (alone, together) = (campaign(1), campaign(2));
    assert_eq!((alone.runs, together.runs), (SEEDS, SEEDS));
    assert_eq!(alone.hash, together.hash);
    assert_eq!(alone.faults, together.faults);
}

#[test]
fn every_seed_is_another_run() {
    let hashes: std::collections::BTreeSet<u64> =
        (0..SEEDS).map(|seed| run(&Scenario::draw(seed), Keep::Nothing).hash).collect();
    assert_eq!(hashes.len() as u64, SEEDS);
}

#[test]
fn a_scenario_is_read_as_it_is_written() {
    for seed in 0..SEEDS {
        let mut scenario = Scenario::draw(seed);
        scenario.note = "with \"quotes\"\nand lines".to_owned();
        let text = scenario.to_toml();
        assert_eq!(Scenario::from_toml(&text).unwrap(), scenario);
        let lines = text.lines().filter(|line| line.starts_with("    \"")).count();
        assert_eq!(lines, scenario.steps.len(), "one step a line");
    }
}

#[test]
fn what_is_wrong_with_a_scenario_is_said_with_its_place() {
    let mut scenario = Scenario::draw(0);
    scenario.steps = ["mount", "lose 0", "write 1+2"].map(|step| step.parse().unwrap()).to_vec();
    let text = scenario.to_toml();
    let refusal = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        Scenario::from_toml(&text.replace(from, to)).unwrap_err().to_string()
    };
    let said = refusal("write 1+2", "write 1-2");
    assert!(said.contains("line 5, step 3") && said.contains("`write 1-2`"), "{said}");
    let said = refusal("lose 0", "lose 77");
    assert!(said.contains("step 2") && said.contains("`lose 77`"), "{said}");
    let said = refusal("zones = ", "zones = 1 # ");
    assert!(said.contains("1 zones"), "{said}");
    let said = refusal("depth = ", "depht = ");
    assert!(said.contains("line") && said.contains("depht"), "{said}");
}
