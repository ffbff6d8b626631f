//! `--minimise`: the smallest scenario that fails the same way.

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use sim::minimise::{fails_like, minimise};
use sim::{Outcome, Scenario};

/// Executions after which it is small enough.
const EXECUTIONS_MAX: u64 = 2_000;

/// Makes a scenario that failed like this smaller; `None` when it did not fail.
pub fn run(scenario: &Scenario, outcome: &Outcome) -> Result<Option<Scenario>> {
    let Some((index, failure)) = &outcome.failure else { return Ok(None) };
    let mut begin = scenario.clone();
    // Steps after the one that failed were never taken.
    begin.steps.truncate(index + 1);
    begin.note = failure.what.clone();
    // Each try would take as long again and leave a thread behind.
    if failure.is_endless {
        eprintln!("a run that does not end is cut behind the step where it stays, and made no smaller");
        return Ok(Some(begin));
    }
    let bar = ProgressBar::new(EXECUTIONS_MAX);
    bar.set_style(ProgressStyle::with_template("{wide_bar} {pos}/{len} executions, {msg} ({eta})")?);
    let fails = fails_like(outcome);
    let mut steps = begin.steps.len();
    let smallest = minimise(&begin, EXECUTIONS_MAX, |candidate| {
        let fails = fails(candidate);
        if fails {
            steps = candidate.steps.len();
        }
        bar.set_message(format!("{steps} steps left"));
        bar.inc(1);
        fails
    });
    bar.finish_and_clear();
    let executions = bar.position();
    eprintln!("{} steps became {} in {executions} executions", scenario.steps.len(), smallest.steps.len());
    Ok(Some(smallest))
}
