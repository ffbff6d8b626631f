//! Search for mutants of the in-place engine, in its own world.

use super::switch::choose;
use super::{Form, Options, Search};
use sim::campaign::Seeds;
use sim::inplace::campaign::Totals;
use sim::inplace::{Run, minimise, run, scenarios};

/// The first scenario or seed that fails because of the mutant.
pub(super) fn search(mutant: &str, options: &Options) -> Search {
    let mut runs = 0;
    let scenarios = if options.scenarios { scenarios::all() } else { Vec::new() };
    for (name, scenario) in scenarios {
        runs += 1;
        if let Some(found) = judge(mutant, &scenario, || format!("in-place {name}"), options) {
            return Search { found: Some(found), runs, needs: Vec::new() };
        }
    }
    let (mut first, end) = (options.seed, options.seed + options.runs);
    while first < end {
        let seeds = Seeds { first, runs: end - first, jobs: options.jobs };
        let totals = Totals::default().run(seeds, &|through| through.failed.is_none());
        // Every seed below the first that failed was begun before it, and ended.
        let Some(seed) = totals.failures.keys().next().copied() else { break };
        if let Some(found) = judge(mutant, &Run::draw(seed), || format!("in-place seed {seed}"), options) {
            let runs = runs + seed - options.seed + 1;
            return Search { found: Some(found), runs, needs: Vec::new() };
        }
        first = seed + 1;
    }
    Search { found: None, runs: runs + options.runs, needs: Vec::new() }
}

/// The failure of a run, when it fails with the mutant and without it does not.
fn judge(
    mutant: &str,
    scenario: &Run,
    name: impl Fn() -> String,
    options: &Options,
) -> Option<(String, sim::Failure)> {
    let (_, failure) = run(scenario).failure?;
    if options.form == Form::Scenarios
        && let Some(smallest) = minimise(scenario)
    {
        println!("{mutant}: {:?}\n{:#?}", smallest.plan, smallest.acts);
    }
    choose(None);
    let without = run(scenario).failure;
    choose(Some(mutant));
    if let Some((_, failure)) = &without {
        eprintln!("without any mutant: {}", failure.what);
    }
    without.is_none().then(|| (name(), failure))
}
