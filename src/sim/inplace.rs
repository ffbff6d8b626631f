//! `zoneweave sim --inplace`: runs of the in-place engine on ordinary drives that break.

use super::many::{self, Progress, Settings};
use super::{Sim, settings_of};
use anyhow::{Context, Result};
use serde_json::json;
use sim::campaign::Seeds;
use sim::inplace::campaign::{Failed, Totals};
use sim::inplace::{Run, minimise, run as simulate, scenarios};
use std::path::Path;
use std::time::{Duration, Instant};

/// Acts shown before the one that failed.
const ACTS_SHOWN: usize = 30;
/// Command that repeats a run, without its seed.
const COMMAND: &str = "zoneweave sim --inplace";

/// Runs what was asked for; true when something failed.
pub fn run(options: &Sim) -> Result<bool> {
    match (&options.scenario, options.seed) {
        (Some(path), _) => {
            run_one(options, &format!("{COMMAND} --scenario {}", path.display()), &named(path)?)
        }
        (None, Some(seed)) if options.runs.is_none() && options.seconds.is_none() => {
            run_one(options, &format!("{COMMAND} --seed {seed}"), &Run::draw(seed))
        }
        _ => run_many(options),
    }
}

/// The scenario of a name.
fn named(path: &Path) -> Result<Run> {
    let all = scenarios::all();
    let found = all.iter().find(|(name, _)| Path::new(name) == path).map(|(_, scenario)| scenario.clone());
    found.with_context(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        format!("{} is no scenario of the in-place engine: there are {}", path.display(), names.join(", "))
    })
}

/// Runs one and tells of it.
fn run_one(options: &Sim, command: &str, run: &Run) -> Result<bool> {
    let outcome = simulate(run);
    if options.json {
        let failures: Vec<_> = outcome.failure.iter().map(|failed| failure_json(command, failed)).collect();
        println!("{}", json!({ "runs": 1, "failures": failures, "tally": outcome.tally }));
        return Ok(outcome.failure.is_some());
    }
    println!("{command}\n\nplan\n  {:?}\n\n{} acts\n{:#?}", run.plan, run.acts.len(), outcome.tally);
    let Some((index, failure)) = &outcome.failure else {
        println!("passed");
        return Ok(false);
    };
    if options.minimise {
        eprintln!("making it small");
        if let Some(smallest) = minimise(run) {
            println!("\nthe smallest run that fails\n  {:?}", smallest.plan);
            smallest.acts.iter().for_each(|act| println!("  {act:?}"));
            let failure = simulate(&smallest).failure.map(|(_, failure)| failure.what).unwrap_or_default();
            println!("\nFAILED\n  {failure}");
        }
        return Ok(true);
    }
    println!("\nthe last acts");
    let end = run.acts.len().min(index + 1);
    for number in end.saturating_sub(ACTS_SHOWN)..end {
        println!("  {:>5}  {:?}", number + 1, run.acts[number]);
    }
    println!(
        "\nFAILED at act {} of {}\n  {}\nreproduce it: {command}",
        index + 1,
        run.acts.len(),
        failure.what
    );
    Ok(true)
}

fn run_many(options: &Sim) -> Result<bool> {
    let settings = settings_of(options)?;
    let runs = many::announce(&settings)?;
    let begun = Instant::now();
    let totals = Totals::of_scenarios();
    for (name, (_, failure)) in &totals.scenario_failures {
        eprintln!("scenario {name} failed: {}", failure.what);
    }
    let totals = run_seeds(&settings, runs, totals)?;
    let took = begun.elapsed();
    if options.json {
        println!("{}", totals_json(&settings, &totals, took));
    } else {
        println!(
            "{} scenarios and {} seeds of the in-place engine in {:.1} s, {} failed",
            totals.scenarios,
            totals.runs,
            took.as_secs_f64(),
            totals.failed()
        );
        println!("{:#?}", totals.tally);
    }
    Ok(totals.failed() > 0)
}

fn run_seeds(settings: &Settings, runs: u64, totals: Totals) -> Result<Totals> {
    let progress = Progress::new(settings, COMMAND)?;
    let seeds = Seeds { first: settings.first, runs, jobs: settings.jobs };
    let totals = totals.run(seeds, &|through| {
        if let Some((_, failure)) = through.failed {
            progress.tell_failure(through.seed, failure);
        }
        progress.is_wanted(through.runs, through.failures) && through.failures < many::FAILURES_MAX
    });
    progress.bar.finish_and_clear();
    Ok(totals)
}

fn failure_json(command: &str, (act, failure): &Failed) -> serde_json::Value {
    json!({ "command": command, "act": act + 1, "message": failure.what, "lba": failure.lba })
}

fn totals_json(settings: &Settings, totals: &Totals, took: Duration) -> serde_json::Value {
    let of_scenarios =
        totals.scenario_failures.iter().map(|(name, failed)| (format!("--scenario {name}"), failed));
    let of_seeds = totals.failures.iter().map(|(seed, failed)| (format!("--seed {seed}"), failed));
    let failures: Vec<_> = of_scenarios
        .chain(of_seeds)
        .map(|(which, failed)| failure_json(&format!("{COMMAND} {which}"), failed))
        .collect();
    json!({
        "runs": totals.runs,
        "first_seed": settings.first,
        "scenarios": totals.scenarios,
        "failures": failures,
        "tally": totals.tally,
        "seconds": took.as_secs_f64(),
    })
}
