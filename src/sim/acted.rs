//! `zoneweave sim --inplace`: runs of worlds that are a plan and a list of acts.

use super::many::{self, Progress, Settings};
use super::{Sim, settings_of};
use anyhow::{Context, Result};
use serde_json::json;
use sim::acted::campaign::{Failed, Totals};
use sim::acted::{Run, World, minimise};
use sim::campaign::Seeds;
use std::path::Path;
use std::time::{Duration, Instant};

/// Acts shown before the one that failed.
const ACTS_SHOWN: usize = 30;

/// Runs what was asked for; true when something failed.
pub fn run<W: World>(options: &Sim) -> Result<bool> {
    match (&options.scenario, options.seed) {
        (Some(path), _) => {
            run_one(options, &format!("{} --scenario {}", W::COMMAND, path.display()), &named::<W>(path)?)
        }
        (None, Some(seed)) if options.runs.is_none() && options.seconds.is_none() => {
            run_one(options, &format!("{} --seed {seed}", W::COMMAND), &W::draw(seed))
        }
        _ => run_many::<W>(options),
    }
}

/// The scenario of a name.
fn named<W: World>(path: &Path) -> Result<Run<W>> {
    let all = W::scenarios();
    let found = all.iter().find(|(name, _)| Path::new(name) == path).map(|(_, scenario)| scenario.clone());
    found.with_context(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        format!("{} is no scenario of the {}: there are {}", path.display(), W::ENGINE, names.join(", "))
    })
}

/// Runs one and tells of it.
fn run_one<W: World>(options: &Sim, command: &str, run: &Run<W>) -> Result<bool> {
    let outcome = run.run();
    let hash = format!("{:016x}", outcome.hash);
    if options.json {
        let failures: Vec<_> = outcome.failure.iter().map(|failed| failure_json(command, failed)).collect();
        println!("{}", json!({ "runs": 1, "hash": hash, "failures": failures, "tally": outcome.tally }));
        return Ok(outcome.failure.is_some());
    }
    println!("{command}\n\nplan\n  {:?}\n\n{} acts, hash {hash}", run.plan, run.acts.len());
    println!("{:#?}", outcome.tally);
    let Some((index, failure)) = &outcome.failure else {
        println!("passed");
        return Ok(false);
    };
    if options.minimise {
        eprintln!("making it small");
        if let Some(smallest) = minimise(run) {
            println!("\nthe smallest run that fails\n  {:?}", smallest.plan);
            smallest.acts.iter().for_each(|act| println!("  {act:?}"));
            let failure = smallest.run().failure.map(|(_, failure)| failure.what).unwrap_or_default();
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

fn run_many<W: World>(options: &Sim) -> Result<bool> {
    let settings = settings_of(options)?;
    let runs = many::announce(&settings)?;
    let begun = Instant::now();
    let totals = Totals::<W::Tally>::of_scenarios::<W>();
    for (name, (_, failure)) in &totals.scenario_failures {
        eprintln!("scenario {name} failed: {}", failure.what);
    }
    let totals = run_seeds::<W>(&settings, runs, totals)?;
    let took = begun.elapsed();
    if options.json {
        println!("{}", totals_json::<W>(&settings, &totals, took));
    } else {
        println!(
            "{} scenarios and {} seeds of the {} in {:.1} s, {} failed",
            totals.scenarios,
            totals.runs,
            W::ENGINE,
            took.as_secs_f64(),
            totals.failed()
        );
        println!("{:#?}", totals.tally);
    }
    Ok(totals.failed() > 0)
}

fn run_seeds<W: World>(settings: &Settings, runs: u64, totals: Totals<W::Tally>) -> Result<Totals<W::Tally>> {
    let progress = Progress::new(settings, W::COMMAND)?;
    let seeds = Seeds { first: settings.first, runs, jobs: settings.jobs };
    let totals = totals.run::<W>(seeds, &|through| {
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

fn totals_json<W: World>(
    settings: &Settings,
    totals: &Totals<W::Tally>,
    took: Duration,
) -> serde_json::Value {
    let of_scenarios =
        totals.scenario_failures.iter().map(|(name, failed)| (format!("--scenario {name}"), failed));
    let of_seeds = totals.failures.iter().map(|(seed, failed)| (format!("--seed {seed}"), failed));
    let failures: Vec<_> = of_scenarios
        .chain(of_seeds)
        .map(|(which, failed)| failure_json(&format!("{} {which}", W::COMMAND), failed))
        .collect();
    json!({
        "runs": totals.runs,
        "first_seed": settings.first,
        "hash": format!("{:016x}", totals.hash),
        "scenarios": totals.scenarios,
        "failures": failures,
        "tally": totals.tally,
        "seconds": took.as_secs_f64(),
    })
}
