//! Search for mutants in worlds of acts: those of the in-place engine and of the cache.

use super::switch::choose;
use super::{Form, Options, Search};
use sim::acted::campaign::Totals;
use sim::acted::{Run, World, minimise};
use sim::campaign::Seeds;

/// The first scenario or seed that fails because of the mutant.
pub(super) fn search<W: World>(mutant: &str, options: &Options) -> Search {
    let mut runs = 0;
    let scenarios = if options.scenarios { W::scenarios() } else { Vec::new() };
    for (name, scenario) in scenarios {
        runs += 1;
        if let Some(found) = judge(mutant, &scenario, || format!("{} {name}", W::ENGINE), options) {
            return Search { found: Some(found), runs, needs: Vec::new() };
        }
    }
    let (mut first, end) = (options.seed, options.seed + options.runs);
    while first < end {
        let seeds = Seeds { first, runs: end - first, jobs: options.jobs };
        let totals = Totals::<W::Tally>::default().run::<W>(seeds, &|through| through.failed.is_none());
        // Every seed below the first that failed was begun before it, and ended.
        let Some(seed) = totals.failures.keys().next().copied() else { break };
        if let Some(found) = judge(mutant, &W::draw(seed), || format!("{} seed {seed}", W::ENGINE), options) {
            let runs = runs + seed - options.seed + 1;
            return Search { found: Some(found), runs, needs: Vec::new() };
        }
        first = seed + 1;
    }
    Search { found: None, runs: runs + options.runs, needs: Vec::new() }
}

/// Searches `seeds` seeds of the plan of the scenario `name`, and returns the first with which it finds the chosen mutant.
///
/// # Errors
/// When there is no such scenario, or no seed serves.
pub(super) fn aim<W: World>(name: &str, mutant: &str, options: &Options) -> Result<u64, String> {
    let (_, scenario) = W::scenarios()
        .into_iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(|| format!("there is no scenario `{name}` of the {} engine", W::ENGINE))?;
    choose(Some(mutant));
    let found = (options.seed..options.seed + options.runs).find(|seed| {
        let aimed: Run<W> = Run { plan: W::reseeded(&scenario.plan, *seed), acts: scenario.acts.clone() };
        judge(mutant, &aimed, String::new, options).is_some()
    });
    choose(None);
    found.ok_or_else(|| format!("none of {} seeds of the plan of `{name}` finds `{mutant}`", options.runs))
}

/// The failure of a run, when it fails with the mutant and without it does not.
fn judge<W: World>(
    mutant: &str,
    scenario: &Run<W>,
    name: impl Fn() -> String,
    options: &Options,
) -> Option<(String, sim::Failure)> {
    let (_, failure) = scenario.run().failure?;
    if options.form == Form::Scenarios
        && let Some(smallest) = minimise(scenario)
    {
        println!("{mutant}: {:?}\n{:#?}", smallest.plan, smallest.acts);
    }
    choose(None);
    let without = scenario.run().failure;
    choose(Some(mutant));
    if let Some((_, failure)) = &without {
        eprintln!("without any mutant: {}", failure.what);
    }
    without.is_none().then(|| (name(), failure))
}
