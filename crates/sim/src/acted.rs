//! Runs that are a plan and a list of acts: what the worlds of the in-place engine, of the cache and of conventional drives
//! have in common.
//!
//! Campaigns, the minimiser, the command and the search for mutants know a world by [`World`] alone.

pub mod campaign;
mod minimise;

pub use minimise::minimise;

use crate::run::guarded_run;
use crate::tally::Failure;
use crate::watchdog::{Place, RUN_MAX, watch};
use base::random::Random;
use serde::Serialize;
use std::fmt::{self, Debug};
use std::time::Duration;

/// Counts of what runs did.
pub trait Counts: Copy + Debug + Default + Send + Serialize + 'static {
    /// Adds the counts of another run.
    fn add(&mut self, other: &Self);
}

/// World that acts happen in.
pub trait World: Sized {
    /// The engine that is run, in words.
    const ENGINE: &'static str;
    /// Command that runs this world.
    const COMMAND: &'static str;
    /// What the world is made of.
    type Plan: Clone + Debug + PartialEq + Send + 'static;
    /// What can happen.
    type Act: Clone + Debug + PartialEq + Send + 'static;
    /// Counts of what was done.
    type Tally: Counts;

    /// Run of a seed.
    #[must_use]
    fn draw(seed: u64) -> Run<Self>;

    /// Directed runs with their names.
    #[must_use]
    fn scenarios() -> Vec<(&'static str, Run<Self>)>;

    /// The same plan with another seed.
    #[must_use]
    fn reseeded(plan: &Self::Plan, seed: u64) -> Self::Plan;

    /// World of a plan.
    ///
    /// # Errors
    /// What went wrong.
    fn new(plan: &Self::Plan) -> Result<Self, Failure>;

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

/// Everything that makes a run of a world.
pub struct Run<W: World> {
    /// What the world is made of.
    pub plan: W::Plan,
    /// What happens.
    pub acts: Vec<W::Act>,
}

impl<W: World> Clone for Run<W> {
    fn clone(&self) -> Run<W> {
        Run { plan: self.plan.clone(), acts: self.acts.clone() }
    }
}

impl<W: World> PartialEq for Run<W> {
    fn eq(&self, other: &Run<W>) -> bool {
        self.plan == other.plan && self.acts == other.acts
    }
}

impl<W: World> Debug for Run<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("plan", &self.plan).field("acts", &self.acts).finish()
    }
}

impl<W: World> Run<W> {
    /// Run of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Run<W> {
        W::draw(seed)
    }

    /// Directed runs with their names.
    #[must_use]
    pub fn scenarios() -> Vec<(&'static str, Run<W>)> {
        W::scenarios()
    }

    /// The same world with other acts.
    #[must_use]
    pub fn with_acts(&self, acts: Vec<W::Act>) -> Run<W> {
        Run { plan: self.plan.clone(), acts }
    }

    /// Makes the world and carries out the acts in it. A panic is a failure like any other.
    #[must_use]
    pub fn run(&self) -> Outcome<W::Tally> {
        self.run_within(RUN_MAX)
    }

    /// Runs it; it fails where it is when it does not end in this time.
    pub(crate) fn run_within(&self, run_max: Duration) -> Outcome<W::Tally> {
        let Run { plan, acts } = self.clone();
        let watched = watch(run_max, move |place| Run::<W> { plan, acts }.run_here(place));
        watched.unwrap_or_else(|failed| Outcome {
            failure: Some(failed),
            hash: 0,
            tally: W::Tally::default(),
        })
    }

    fn run_here(&self, place: &Place) -> Outcome<W::Tally> {
        let mut world = match guarded_run(|| W::new(&self.plan)) {
            Ok(world) => world,
            Err(failure) => {
                return Outcome { failure: Some((0, failure)), hash: 0, tally: W::Tally::default() };
            }
        };
        for (index, act) in self.acts.iter().enumerate() {
            place.reach(index);
            match guarded_run(|| world.act(act)) {
                Ok(true) => {}
                Ok(false) => return world.outcome(None),
                Err(found) => return world.outcome(Some((index, found))),
            }
        }
        place.reach(self.acts.len());
        let failure = guarded_run(|| world.end()).err().map(|found| (self.acts.len(), found));
        world.outcome(failure)
    }
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

/// In some runs the server is killed where the power would have failed: `killed` says so of such an act. Drawn from a source of its own.
pub(crate) fn with_kills<A>(seed: u64, acts: Vec<A>, killed: impl Fn(&A) -> Option<A>) -> Vec<A> {
    let mut random = Random::from_seed(seed ^ 0x6b11_ed00);
    if !random.chance(1, 2) {
        return acts;
    }
    let count = acts.len();
    let kill = |act: A| killed(&act).filter(|_| random.chance(2, 3)).unwrap_or(act);
    let acts: Vec<A> = acts.into_iter().map(kill).collect();
    assert_eq!(acts.len(), count, "a kill takes the place of a power failure");
    acts
}
