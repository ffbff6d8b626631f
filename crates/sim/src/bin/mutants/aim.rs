//! Aim of a scenario that a change of the order of commands disarmed: the same steps under another seed of its plan.
//!
//! ```text
//! scenario, mutant ─> seeds of the plan ─> one that fails with the mutant, passes without it,
//!                                          and in which every fault of the scenario has effect
//! ```

use super::{passes_quietly, switch::choose};
use sim::scenarios::SCENARIOS;
use sim::{Keep, Scenario, effects, run};

/// Searches `seeds` seeds of the plan of the scenario `name`, and returns the first that serves.
///
/// # Errors
/// When there is no such scenario, or no seed serves.
pub(super) fn aim(name: &str, mutant: &str, seeds: u64) -> Result<u64, String> {
    let (_, text) = SCENARIOS
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(|| format!("there is no scenario `{name}`; crates/sim/scenarios has them"))?;
    let mut scenario = Scenario::from_toml(text).expect("a test reads them all");
    choose(Some(mutant));
    let found = (0..seeds).find(|seed| {
        scenario.plan.seed = *seed;
        let fails = run(&scenario, Keep::Nothing).failure.is_some();
        fails && passes_quietly(mutant, &scenario) && has_effects(mutant, &scenario)
    });
    choose(None);
    found.ok_or_else(|| format!("none of {seeds} seeds of the plan of `{name}` finds `{mutant}`"))
}

/// Whether every fault of a scenario has effect, without the mutant.
fn has_effects(mutant: &str, scenario: &Scenario) -> bool {
    choose(None);
    let missing = effects::missing(scenario, &run(scenario, Keep::All));
    choose(Some(mutant));
    missing.is_empty()
}
