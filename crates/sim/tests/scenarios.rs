//! Every scenario passes, and what it is about happens in it: a fault that misses shows nothing.

#![allow(clippy::unwrap_used)]

use sim::scenarios::SCENARIOS;
use sim::{Keep, Outcome, Scenario, Step, run};
use std::collections::{BTreeMap, BTreeSet};

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
    for (name, text) in SCENARIOS {
        let scenario = Scenario::from_toml(text).unwrap();
        let outcome = run(&scenario, Keep::All);
        assert_eq!(outcome.failure, None, "{name}");
        for step in &scenario.steps {
            if let Some(fault) = fault_of(step) {
                assert!(outcome.faults.contains_key(fault), "{name}: `{step}` is no `{fault}`");
            }
        }
        assert_fuses_blew(name, &scenario, &outcome);
        assert_damage_hit(name, &scenario, &outcome);
    }
}

/// Returns the name of a step in the ledger.
fn fault_of(step: &Step) -> Option<&'static str> {
    Some(match step {
        Step::Mount { cut: Some(_) } => "power fails in recovery",
        Step::Lose { .. } => "drive lost",
        Step::Back { .. } => "drive comes back",
        Step::Blank { .. } => "drive comes back empty",
        Step::Foreign { .. } => "drive of another array",
        Step::Exchange { .. } => "drives exchanged",
        Step::Die { at: None, .. } => "drive dies",
        Step::Die { at: Some(_), .. } => "drive dies at a command",
        Step::Hang { .. } => "drive hangs",
        Step::Fail { .. } => "operator fails a drive",
        Step::Scrub { .. } => "scrubs",
        Step::Rot(_) => "blocks rot",
        Step::Unreadable(_) => "blocks unreadable",
        Step::Misread { .. } => "misdirected reads",
        Step::Stale { .. } => "stale reads",
        Step::Miswrite { .. } => "misdirected write",
        Step::WriteFault { .. } => "write fault",
        Step::Zone { offline: true, .. } => "zone offline",
        Step::Zone { offline: false, .. } => "zone read-only",
        Step::Shrink { .. } => "zone shrinks",
        _ => return None,
    })
}

fn count_steps(scenario: &Scenario, wanted: fn(&Step) -> bool) -> usize {
    scenario.steps.iter().filter(|step| wanted(step)).count()
}

fn count_lines(outcome: &Outcome, wanted: &str) -> usize {
    outcome.lines.iter().filter(|line| line.contains(wanted)).count()
}

/// Asserts that each kind of fuse met its command at least once: later fuses depend on when the engine does what.
fn assert_fuses_blew(name: &str, scenario: &Scenario, outcome: &Outcome) {
    let cuts = count_steps(scenario, |step| {
        matches!(step, Step::Crash { at: Some(_) } | Step::Mount { cut: Some(_) })
    });
    let blown = count_lines(outcome, "the power fails at a");
    assert!(cuts == 0 || blown > 0, "{name}: no cut happens");
    assert!(outcome.tally.power_failures >= blown as u64, "{name}: {:?}", outcome.tally);
    let deaths = count_steps(scenario, |step| matches!(step, Step::Die { at: Some(_), .. }));
    assert!(deaths == 0 || count_lines(outcome, " dies at a ") > 0, "{name}: no drive dies");
    let miswrites = count_steps(scenario, |step| matches!(step, Step::Miswrite { .. }));
    assert!(miswrites == 0 || count_lines(outcome, " lands ") > 0, "{name}: no write goes astray");
}

/// Damage was done, and the engine met it.
fn assert_damage_hit(name: &str, scenario: &Scenario, outcome: &Outcome) {
    assert_eq!(count_lines(outcome, "  0 blocks"), 0, "{name}: some blocks are hit");
    for step in &scenario.steps {
        let Some(member) = step.member() else { continue };
        match step {
            Step::Misread { .. } | Step::Stale { .. } => {
                assert!(wrong_reads(outcome, member) > 0, "{name}: `{step}`: every read is right");
            }
            Step::WriteFault { .. } => {
                let refused = count_lines(outcome, &format!("drive {member} refuses a"));
                assert!(refused > 0, "{name}: `{step}`: nothing was refused");
            }
            Step::Zone { .. } => {
                let refused = |line: &String| {
                    line.contains(&format!("drive {member} executes")) && line.contains(" status 0x")
                };
                assert!(outcome.lines.iter().any(refused), "{name}: `{step}`: nobody noticed");
            }
            _ => {}
        }
    }
}

/// Reads of a member's blocks that returned something else than what was last written there.
fn wrong_reads(outcome: &Outcome, member: usize) -> usize {
    let mut held: BTreeMap<(&str, usize), &str> = BTreeMap::new();
    let mut wrong = 0;
    for line in &outcome.lines {
        let Some((_, event)) = line.split_once(&format!("drive {member} executes ")) else { continue };
        let Some((event, row)) = event.split_once(", row ") else { continue };
        let words: Vec<&str> = event.split(' ').collect();
        let (row, holds) = row.split_once(": ").unwrap();
        let place = (words[2], words[4].parse::<usize>().unwrap() + row.parse::<usize>().unwrap());
        if words[0] != "Read" {
            held.insert(place, holds);
        } else if held.get(&place).is_some_and(|expected| *expected != holds) {
            wrong += 1;
        }
    }
    wrong
}
