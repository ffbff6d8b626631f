//! One run, told in full.

use super::Origin;
use super::report::Report;
use sim::{Failure, Keep, Outcome, Scenario, run};

/// Steps shown before the one that failed.
const STEPS_SHOWN: usize = 12;
/// Lines shown of the history of a block, or of the event log when no block is concerned.
const LINES_SHOWN: usize = 60;

/// Everything about a run.
pub fn tell(origin: &Origin, scenario: &Scenario, outcome: &Outcome, report: &Report) -> String {
    let mut text = format!("{origin}\n");
    if !scenario.note.is_empty() {
        text += &format!("note: {}\n", scenario.note.trim());
    }
    text += "\nplan\n";
    let plan = toml::to_string(&scenario.plan).unwrap_or_default();
    let plan = plan.lines().filter(|line| !line.is_empty());
    plan.for_each(|line| text += &format!("  {line}\n"));
    text += &format!("\n{} steps\n", scenario.steps.len());
    text += &report.figures();
    text += &format!("hash of the event log {}\n\n", report.hash);
    match &outcome.failure {
        None => text += "passed\n",
        Some((index, failure)) => text += &tell_failure(origin, scenario, *index, failure),
    }
    text
}

fn tell_failure(origin: &Origin, scenario: &Scenario, index: usize, failure: &Failure) -> String {
    let mut text = "the last steps\n".to_owned();
    let end = scenario.steps.len().min(index + 1);
    for number in end.saturating_sub(STEPS_SHOWN)..end {
        text += &format!("  {:>5}  {}\n", number + 1, scenario.steps[number]);
    }
    // A run that does not end has no events to tell: they are with its thread.
    if !failure.is_endless {
        text += &tell_history(scenario, failure);
    }
    text += &format!("\nFAILED at {}\n  {}\n", place(scenario, index), failure.what.replace('\n', "\n  "));
    text += &format!("reproduce it: {}\n", origin.command());
    text
}

fn tell_history(scenario: &Scenario, failure: &Failure) -> String {
    let mut text = match failure.lba {
        Some(lba) => format!("\nhistory of block {lba}\n"),
        None => "\nthe last events\n".to_owned(),
    };
    let history = run(scenario, failure.lba.map_or(Keep::All, Keep::Block)).lines;
    let skipped = history.len().saturating_sub(LINES_SHOWN);
    if skipped > 0 {
        text += &format!("  ({skipped} lines before; --trace FILE writes every event)\n");
    }
    history[skipped..].iter().for_each(|line| text += &format!("  {line}\n"));
    text
}

/// A step with its number, counted from one.
pub fn place(scenario: &Scenario, index: usize) -> String {
    match scenario.steps.get(index) {
        Some(step) => format!("step {} of {}, `{step}`", index + 1, scenario.steps.len()),
        None => format!("the end, after all {} steps", scenario.steps.len()),
    }
}
