//! Every scenario passes, and what it is about happens in it: a fault that misses shows nothing.

#![allow(clippy::unwrap_used)]

use sim::scenarios::SCENARIOS;
use sim::{Keep, Scenario, effects, run};
use std::collections::BTreeSet;

#[test]
fn every_file_is_listed_and_understood() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| name.strip_suffix(".toml").unwrap().to_owned())
        .collect();
    let listed: BTreeSet<String> = SCENARIOS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(files, listed, "crates/sim/src/scenarios.rs lists the files of {folder}");
    for (name, text) in SCENARIOS {
        let scenario = Scenario::from_toml(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!scenario.note.is_empty(), "{name}: the note says what it shows");
    }
}

#[test]
fn every_scenario_passes_and_each_of_its_faults_has_effect() {
    let mut missing = Vec::new();
    for (name, text) in SCENARIOS {
        let scenario = Scenario::from_toml(text).unwrap();
        let outcome = run(&scenario, Keep::All);
        assert_eq!(outcome.failure, None, "{name}");
        missing
            .extend(effects::missing(&scenario, &outcome).into_iter().map(|what| format!("{name}: {what}")));
        let cuts = outcome.lines.iter().filter(|line| line.contains("the power fails at a")).count();
        assert!(outcome.tally.power_failures >= cuts as u64, "{name}: {:?}", outcome.tally);
    }
    assert!(missing.is_empty(), "to aim them again: docs/TESTING.md\n{}", missing.join("\n"));
}
