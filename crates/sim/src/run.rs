//! One run from beginning to end: a scenario, and what became of it.

use crate::plan::Plan;
use crate::script;
use crate::step::Step;
use crate::trace::Keep;
use crate::world::{Failure, Tally, World};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A plan and what happens: everything that makes a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it is about.
    #[serde(default)]
    pub note: String,
    /// The array and its drives.
    pub plan: Plan,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

impl Scenario {
    /// The scenario of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Scenario {
        let plan = Plan::draw(seed);
        let steps = script::draw(&plan);
        Scenario { note: String::new(), plan, steps }
    }

    /// Reads a scenario file.
    ///
    /// # Errors
    /// What is not understood, and where.
    pub fn from_toml(text: &str) -> Result<Scenario, toml::de::Error> {
        toml::from_str(text)
    }

    /// Writes a scenario file.
    ///
    /// # Panics
    /// Never: a scenario is made of tables, numbers and lines.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a scenario is made of tables, numbers and lines")
    }
}

/// What became of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What went wrong, and at which step; a step beyond the last is the end of the run.
    pub failure: Option<(usize, Failure)>,
    /// Hash of the event log.
    pub hash: u64,
    /// Events.
    pub events: u64,
    /// What was done.
    pub tally: Tally,
    /// Faults injected.
    pub faults: BTreeMap<&'static str, u64>,
    /// What was kept of the event log.
    pub lines: Vec<String>,
}

thread_local! {
    /// What the last panic of this thread said.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Makes panics of runs silent: they are reported as failures. For the whole process.
pub fn catch_panics() {
    std::panic::set_hook(Box::new(|info| {
        PANIC.with(|panic| *panic.borrow_mut() = Some(info.to_string()));
    }));
}

/// Runs a scenario.
#[must_use]
pub fn run(scenario: &Scenario, keep: Keep) -> Outcome {
    let mut world = match World::new(&scenario.plan, keep) {
        Ok(world) => world,
        Err(failure) => return stillborn(failure),
    };
    let mut failure = None;
    for (index, step) in scenario.steps.iter().enumerate() {
        if let Err(found) = guarded(|| world.step(step)) {
            failure = Some((index, found));
            break;
        }
    }
    if failure.is_none()
        && let Err(found) = guarded(|| world.end())
    {
        failure = Some((scenario.steps.len(), found));
    }
    let mut rack = world.rack().lock();
    let (hash, events, lines) = (rack.trace.hash(), rack.trace.events(), rack.trace.take_lines());
    drop(rack);
    let outcome = Outcome {
        failure,
        hash,
        events,
        tally: world.tally().clone(),
        faults: world.ledger().counts().clone(),
        lines,
    };
    // After a panic, what the engine left behind is not taken apart in good order.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(world)));
    outcome
}

/// A panic of the engine is a failure like any other.
fn guarded(act: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| {
        let said = PANIC.with(|panic| panic.borrow_mut().take());
        Err(Failure::new(said.unwrap_or_else(|| "the engine panicked".to_owned())))
    })
}

fn stillborn(failure: Failure) -> Outcome {
    Outcome {
        failure: Some((0, failure)),
        hash: 0,
        events: 0,
        tally: Tally::default(),
        faults: BTreeMap::new(),
        lines: Vec::new(),
    }
}
