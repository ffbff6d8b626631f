//! One run from beginning to end: a scenario, and what became of it.

use crate::plan::{Latency, Plan};
use crate::script;
use crate::step::{Step, StepError};
use crate::tally::{Failure, Tally};
use crate::trace::Keep;
use crate::watchdog::{Place, RUN_MAX, watch};
use crate::world::World;
use drive::timing::Profile;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use toml::Spanned;

/// The largest seed that scenario files can say: their numbers have 63 bits.
pub const SEED_MAX: u64 = u64::MAX >> 1;

/// A plan and what happens: everything that makes a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Scenario {
    /// Subject of the scenario.
    pub note: String,
    /// Steps of the scenario, in order.
    pub steps: Vec<Step>,
    /// The array and its drives; last in the file, for it is a table.
    pub plan: Plan,
}

/// A scenario as it is read: steps know their lines.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    note: String,
    steps: Vec<Spanned<String>>,
    plan: Plan,
}

/// A scenario that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The text is not written as scenarios are.
    #[error(transparent)]
    Text(#[from] toml::de::Error),
    /// A step that is none.
    #[error("line {line}, step {number}: {error}")]
    Step {
        /// Counted from one.
        line: usize,
        /// Counted from one.
        number: usize,
        /// Error in the step.
        error: StepError,
    },
    /// A profile that does not exist.
    #[error("plan.latency: there is no profile `{0}`: use one of {names}", names = Profile::names().join(", "))]
    Profile(String),
    /// An array that cannot be.
    #[error(
        "[plan]: there is no array of level {level} with {members} members that have {zones} zones of \
         {capacity} blocks; use level 0, 1, 4, 5, 6 or 7 with as many members as it takes, more or larger zones, smaller chunks"
    )]
    Plan {
        /// RAID level.
        level: u8,
        /// Members.
        members: usize,
        /// Zones of each.
        zones: u32,
        /// Blocks of a zone.
        capacity: u32,
    },
    /// A step that the baseline promises nothing for.
    #[error("step {number}, `{step}`: the baseline promises nothing for this (docs/adr/0016)")]
    Baseline {
        /// Counted from one.
        number: usize,
        /// As it is written.
        step: String,
    },
    /// A step that is about a member that is not there.
    #[error("step {number}, `{step}`: the members are 0 to {last}")]
    Member {
        /// Counted from one.
        number: usize,
        /// As it is written.
        step: String,
        /// The last member.
        last: usize,
    },
}

impl Scenario {
    /// The scenario of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Scenario {
        let plan = Plan::draw(seed);
        let steps = script::draw(&plan);
        let scenario = Scenario { note: String::new(), steps, plan };
        let valid = scenario.validate();
        assert!(valid.is_ok(), "seed {seed} draws what no file may hold: {valid:?}");
        scenario
    }

    /// Reads a scenario file.
    ///
    /// # Errors
    /// What is not understood or cannot be, and where.
    pub fn from_toml(text: &str) -> Result<Scenario, ScenarioError> {
        let File { note, steps, plan } = toml::from_str(text)?;
        let read = |(number, step): (usize, Spanned<String>)| {
            let line = 1 + text[..step.span().start].matches('\n').count();
            step.get_ref().parse().map_err(|error| ScenarioError::Step { line, number, error })
        };
        let steps = (1..).zip(steps).map(read).collect::<Result<_, _>>()?;
        let scenario = Scenario { note, steps, plan };
        scenario.validate()?;
        Ok(scenario)
    }

    fn validate(&self) -> Result<(), ScenarioError> {
        let Plan { level, members, zones, zone_capacity_blocks: capacity, .. } = self.plan;
        if let Latency::Model { profile, .. } = &self.plan.latency {
            Profile::named(profile).ok_or_else(|| ScenarioError::Profile(profile.clone()))?;
        }
        if self.plan.array().is_none() {
            return Err(ScenarioError::Plan { level, members, zones, capacity });
        }
        for (number, step) in (1..).zip(&self.steps) {
            if self.plan.raizn.is_some() && !script::is_of_baseline(step) {
                return Err(ScenarioError::Baseline { number, step: step.to_string() });
            }
            if members_of(step).into_iter().any(|member| member >= members) {
                return Err(ScenarioError::Member { number, step: step.to_string(), last: members - 1 });
            }
        }
        Ok(())
    }

    /// Writes a scenario file, one step a line.
    ///
    /// # Panics
    /// When the plan's seed is beyond what TOML can say, which no seed of [`SEED_MAX`] or less is.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("tables, lines and numbers of 63 bits")
    }
}

/// The members a step is about.
pub(crate) fn members_of(step: &Step) -> Vec<usize> {
    match *step {
        Step::Lose { member }
        | Step::Away { member }
        | Step::Back { member }
        | Step::Blank { member }
        | Step::Foreign { member }
        | Step::Replace { member }
        | Step::Apart { member, .. }
        | Step::ReAdd { member, .. } => vec![member],
        Step::Exchange { a, b } => vec![a, b],
        _ => step.member().into_iter().collect(),
    }
}

/// Outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Failure and the step at which it happened, if any; a step beyond the last is the end of the run.
    pub failure: Option<(usize, Failure)>,
    /// Hash of the event log.
    pub hash: u64,
    /// Events.
    pub events: u64,
    /// Counts of what was done.
    pub tally: Tally,
    /// Faults injected.
    pub faults: BTreeMap<&'static str, u64>,
    /// Lines of the event log that were kept.
    pub lines: Vec<String>,
}

thread_local! {
    /// Message of the last panic of this thread.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    /// True while this thread is in the middle of a run.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Makes panics of runs silent: they are reported as failures. Panics outside of runs go where they went
/// before, so that nobody misses them. For the whole process, once.
pub fn catch_panics() {
    let outside = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if RUNNING.get() {
            PANIC.with(|panic| *panic.borrow_mut() = Some(info.to_string()));
        } else {
            outside(info);
        }
    }));
}

/// Runs a scenario.
#[must_use]
pub fn run(scenario: &Scenario, keep: Keep) -> Outcome {
    run_within(RUN_MAX, scenario, keep)
}

/// Runs a scenario, which fails where it is when it does not end in this time.
pub(crate) fn run_within(run_max: Duration, scenario: &Scenario, keep: Keep) -> Outcome {
    let scenario = scenario.clone();
    let watched = watch(run_max, move |place| {
        RUNNING.set(true);
        run_here(&scenario, keep, place)
    });
    watched.unwrap_or_else(|(index, failure)| failed_at(index, failure))
}

fn run_here(scenario: &Scenario, keep: Keep, place: &Place) -> Outcome {
    let mut world = match guarded(|| World::new(&scenario.plan, keep)) {
        Ok(world) => world,
        Err(failure) => return failed_at(0, failure),
    };
    world.expect(&scenario.steps);
    let mut failure = None;
    for (index, step) in scenario.steps.iter().enumerate() {
        place.reach(index);
        if let Err(found) = guarded(|| world.step(step)) {
            failure = Some((index, found));
            break;
        }
    }
    if failure.is_none() {
        place.reach(scenario.steps.len());
        failure = guarded(|| world.end()).err().map(|found| (scenario.steps.len(), found));
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

/// A part of a run of another kind of world, whose panics are failures.
pub(crate) fn guarded_run<T>(act: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    RUNNING.set(true);
    let done = guarded(act);
    RUNNING.set(false);
    done
}

/// A panic of the engine is a failure like any other.
fn guarded<T>(act: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| {
        let said = PANIC.with(|panic| panic.borrow_mut().take());
        Err(Failure::new(said.unwrap_or_else(|| "the engine panicked".to_owned())))
    })
}

/// Outcome of a run of which nothing else is known.
fn failed_at(index: usize, failure: Failure) -> Outcome {
    Outcome {
        failure: Some((index, failure)),
        hash: 0,
        events: 0,
        tally: Tally::default(),
        faults: BTreeMap::new(),
        lines: Vec::new(),
    }
}
