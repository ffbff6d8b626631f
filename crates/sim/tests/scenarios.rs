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

/// What the ledger calls a step.
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

/// Whatever waits for a command met it.
fn assert_fuses_blew(name: &str, scenario: &Scenario, outcome: &Outcome) {
    let cuts = count_steps(scenario, |step| {
        matches!(step, Step::Crash { at: Some(_) } | Step::Mount { cut: Some(_) })
    });
    assert_eq!(count_lines(outcome, "the power fails at a"), cuts, "{name}: each cut happens");
    let at_once = count_steps(scenario, |step| matches!(step, Step::Crash { at: None }));
    assert!(outcome.tally.power_failures >= (cuts + at_once) as u64, "{name}: {:?}", outcome.tally);
    let deaths = count_steps(scenario, |step| matches!(step, Step::Die { at: Some(_), .. }));
    assert_eq!(count_lines(outcome, " dies at a "), deaths, "{name}: each drive dies");
    let miswrites = count_steps(scenario, |step| matches!(step, Step::Miswrite { .. }));
    assert_eq!(count_lines(outcome, " lands in zone "), miswrites, "{name}: each write goes astray");
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
            Step::Unreadable(_) | Step::WriteFault { .. } | Step::Shrink { .. } => {
                assert!(refusals(outcome, member) > 0, "{name}: `{step}`: nothing was refused");
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

/// Commands of a member that were refused up to the first rest, which comes before any crash: they were
/// submitted, and never executed.
fn refusals(outcome: &Outcome, member: usize) -> usize {
    let is_step = |line: &str, step: &str| line.split("ms  ").nth(1) == Some(step);
    let until_rest: Vec<&String> = outcome.lines.iter().take_while(|line| !is_step(line, "crash")).collect();
    assert!(until_rest.iter().any(|line| is_step(line, "idle")), "all is at rest before the crash");
    let count = |what: &str| until_rest.iter().filter(|line| line.contains(what)).count();
    let begun = count(&format!("drive {member} submits "));
    // A line about a block is about a command that has its own line.
    let rows = until_rest
        .iter()
        .filter(|line| line.contains(&format!("drive {member} executes")) && line.contains(", row "));
    begun.saturating_sub(count(&format!("drive {member} executes ")) - rows.count())
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
