//! Runs that are a plan and a list of acts: what the worlds of the in-place engine and of the cache have in common.
//!
//! Campaigns, the minimiser, the command and the search for mutants know a world by [`Acted`] alone.

pub mod campaign;
mod minimise;

pub use minimise::minimise;

use crate::run::guarded_run;
use crate::tally::Failure;
use serde::Serialize;
use std::fmt::Debug;

/// Counts of what runs did.
pub trait Counts: Copy + Debug + Default + Send + Serialize {
    /// Adds the counts of another run.
    fn add(&mut self, other: &Self);
}

/// A run of a world.
pub trait Acted: Clone + PartialEq {
    /// The engine that is run, in words.
    const ENGINE: &'static str;
    /// Command that runs this world.
    const COMMAND: &'static str;
    /// What can happen.
    type Act: Clone + Debug;
    /// Counts of what was done.
    type Tally: Counts;

    /// Run of a seed.
    #[must_use]
    fn draw(seed: u64) -> Self;

    /// Directed runs with their names.
    #[must_use]
    fn scenarios() -> Vec<(&'static str, Self)>;

    /// The plan in words.
    #[must_use]
    fn plan(&self) -> String;

    /// What happens.
    #[must_use]
    fn acts(&self) -> &[Self::Act];

    /// The same world with other acts.
    #[must_use]
    fn with_acts(&self, acts: Vec<Self::Act>) -> Self;

    /// Runs it.
    #[must_use]
    fn run(&self) -> Outcome<Self::Tally>;
}

/// World that acts happen in.
pub trait World: Sized {
    /// What can happen.
    type Act;
    /// Counts of what was done.
    type Tally: Counts;

    /// Carries out an act; false when nothing can follow, as promised.
    ///
    /// # Errors
    /// What went wrong.
    fn act(&mut self, act: &Self::Act) -> Result<bool, Failure>;

    /// The end of a run, when all acts are through.
    ///
    /// # Errors
    /// What went wrong.
    fn end(&mut self) -> Result<(), Failure>;

    /// Outcome of a run that is over.
    fn outcome(self, failure: Option<(usize, Failure)>) -> Outcome<Self::Tally>;
}

/// Makes a world and carries out acts in it. A panic is a failure like any other.
pub(crate) fn run<W: World>(
    world: impl FnOnce() -> Result<W, Failure>,
    acts: &[W::Act],
) -> Outcome<W::Tally> {
    let mut world = match guarded_run(world) {
        Ok(world) => world,
        Err(failure) => return Outcome { failure: Some((0, failure)), hash: 0, tally: W::Tally::default() },
    };
    for (index, act) in acts.iter().enumerate() {
        match guarded_run(|| world.act(act)) {
            Ok(true) => {}
            Ok(false) => return world.outcome(None),
            Err(found) => return world.outcome(Some((index, found))),
        }
    }
    let failure = guarded_run(|| world.end()).err().map(|found| (acts.len(), found));
    world.outcome(failure)
}

/// Outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome<T> {
    /// Failure and the act at which it happened, if any; an act beyond the last is the end of the run.
    pub failure: Option<(usize, Failure)>,
    /// Hash of the event log; zero in a world that keeps none.
    pub hash: u64,
    /// Counts of what was done.
    pub tally: T,
}
