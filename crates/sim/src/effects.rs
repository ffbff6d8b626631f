//! Effects of a scenario's faults: one that misses shows nothing.
//!
//! A scenario that counts commands depends on their order, which the engine may change: it still passes then, and
//! its fault meets nothing.

use crate::{Outcome, Scenario, Step, hiccups};
use std::collections::BTreeMap;

/// What a scenario announces and does not happen in a run of it of which everything was kept; empty when all does.
#[must_use]
pub fn missing(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let unheard = scenario.steps.iter().filter_map(|step| {
        let fault = fault_of(step)?;
        (!outcome.faults.contains_key(fault)).then(|| format!("`{step}` is no `{fault}`"))
    });
    let mut missing: Vec<String> = unheard.collect();
    missing.extend(re_adds_unmet(scenario, outcome));
    missing.extend(fuses_left(scenario, outcome));
    missing.extend(damage_unmet(scenario, outcome));
    missing
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
        Step::Hiccup { manner, .. } => hiccups::name_of(*manner),
        // The power may fail before the first server meets anything.
        Step::Rival { .. } => "drives taken by another server",
        Step::Fail { .. } => "operator fails a drive",
        Step::Apart { .. } => "drive used apart",
        Step::Scrub { .. } => "scrubs",
        Step::ScrubStop => "scrubs stopped",
        Step::Restart => "restarts",
        Step::Rates { .. } => "rates changed",
        Step::Rot(_) => "blocks rot",
        Step::Unreadable(_) => "blocks unreadable",
        Step::Misread { .. } | Step::MisreadAt { .. } => "misdirected reads",
        Step::Stale { .. } => "stale reads",
        Step::Miswrite { .. } => "misdirected write",
        Step::WriteFault { .. } => "write fault",
        Step::Zone { offline: true, .. } => "zone offline",
        Step::Zone { offline: false, .. } => "zone read-only",
        Step::Shrink { .. } => "zone shrinks",
        _ => return None,
    })
}

/// Drives that come back and are not taken in, or that were used apart and are not refused.
fn re_adds_unmet(scenario: &Scenario, outcome: &Outcome) -> Option<String> {
    let is_apart = count_steps(scenario, |step| matches!(step, Step::Apart { .. })) > 0;
    let wanted: &[&str] = match is_apart {
        true => &["strangers refused"],
        false => &["drive re-added", "re-adds after others came back"],
    };
    let returns = count_steps(scenario, |step| matches!(step, Step::ReAdd { .. })) > 0;
    let is_met = wanted.iter().any(|what| outcome.faults.contains_key(what));
    (returns && !is_met).then(|| format!("no `{}`", wanted[0]))
}

fn count_steps(scenario: &Scenario, wanted: fn(&Step) -> bool) -> usize {
    scenario.steps.iter().filter(|step| wanted(step)).count()
}

fn count_lines(outcome: &Outcome, wanted: &str) -> usize {
    outcome.lines.iter().filter(|line| line.contains(wanted)).count()
}

/// Fuses of a kind of which none met its command: later ones depend on when the engine does what.
fn fuses_left(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let mut left = Vec::new();
    let mut expect = |announced: usize, met: usize, what: &str| {
        if announced > 0 && met == 0 {
            left.push(what.to_owned());
        }
    };
    let cuts = count_steps(scenario, |step| {
        matches!(step, Step::Crash { at: Some(_) } | Step::Mount { cut: Some(_) })
    });
    expect(cuts, count_lines(outcome, "the power fails at a"), "no cut happens");
    let deaths = count_steps(scenario, |step| matches!(step, Step::Die { at: Some(_), .. }));
    expect(deaths, count_lines(outcome, " dies at a "), "no drive dies");
    let miswrites = count_steps(scenario, |step| matches!(step, Step::Miswrite { .. }));
    expect(miswrites, count_lines(outcome, " lands "), "no write goes astray");
    left
}

/// Damage that was not done, or that the engine did not meet.
fn damage_unmet(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let mut unmet = Vec::new();
    if count_lines(outcome, "  0 blocks") > 0 {
        unmet.push("no block is hit".to_owned());
    }
    for step in &scenario.steps {
        let Some(member) = step.member() else { continue };
        let (met, what) = match step {
            Step::Misread { .. } | Step::MisreadAt { .. } | Step::Stale { .. } => {
                (wrong_reads(outcome, member), "every read is right")
            }
            Step::WriteFault { .. } => {
                (count_lines(outcome, &format!("drive {member} refuses a")), "nothing was refused")
            }
            // That the engine finds it is checked at rest.
            Step::Zone { .. } if scenario.plan.watches_zones => continue,
            Step::Zone { .. } => (refusals(outcome, member), "nobody noticed"),
            _ => continue,
        };
        if met == 0 {
            unmet.push(format!("`{step}`: {what}"));
        }
    }
    unmet
}

/// Commands that a member refused.
fn refusals(outcome: &Outcome, member: usize) -> usize {
    let executes = format!("drive {member} executes");
    outcome.lines.iter().filter(|line| line.contains(&executes) && line.contains(" status 0x")).count()
}

/// Reads of a member's blocks that returned something else than what was last written there.
fn wrong_reads(outcome: &Outcome, member: usize) -> usize {
    let mut held: BTreeMap<(&str, usize), &str> = BTreeMap::new();
    let mut wrong = 0;
    for line in &outcome.lines {
        let Some((_, event)) = line.split_once(&format!("drive {member} executes ")) else { continue };
        let Some((event, row)) = event.split_once(", row ") else { continue };
        let words: Vec<&str> = event.split(' ').collect();
        let (row, holds) = row.split_once(": ").expect("a row says what it holds");
        let place = (words[2], number(words[4]) + number(row));
        if words[0] != "Read" {
            held.insert(place, holds);
        } else if held.get(&place).is_some_and(|expected| *expected != holds) {
            wrong += 1;
        }
    }
    wrong
}

fn number(word: &str) -> usize {
    word.parse().expect("the trace has numbers there")
}
