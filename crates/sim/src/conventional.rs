//! Simulation of conventional drives: a zoned drive over a disk that tears, loses its cache and goes bad.
//!
//! ```text
//!   seed ─> plan, acts ─> world: conventional drive <──> disk: cache, commands in flight, bad sectors
//!                           ├─ host <─> model of the zones: what must be there, what may be
//!                           └─ power failures, also while the drive is opened
//! ```
//! What the array engine relies on is judged here: after a crash a zone holds what was written up to some block, all of
//! that with its metadata, nothing behind it, and never less than what was answered and durable.

mod act;
mod model;
mod plan;
pub mod scenarios;
mod tally;
mod world;

pub use act::Act;
pub use plan::Plan;
pub use tally::Tally;

use crate::acted::{self, Acted, Outcome};
use crate::tally::Failure;
use world::World;

/// Everything that makes a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Drive and disk.
    pub plan: Plan,
    /// What happens.
    pub acts: Vec<Act>,
}

impl Acted for Run {
    const ENGINE: &'static str = "conventional drive";
    const COMMAND: &'static str = "zoneweave sim --conventional";
    type Act = Act;
    type Tally = Tally;

    fn draw(seed: u64) -> Run {
        let plan = Plan::draw(seed);
        let acts = act::draw(&plan);
        Run { plan, acts }
    }

    fn scenarios() -> Vec<(&'static str, Run)> {
        scenarios::all()
    }

    fn plan(&self) -> String {
        format!("{:?}", self.plan)
    }

    fn acts(&self) -> &[Act] {
        &self.acts
    }

    fn with_acts(&self, acts: Vec<Act>) -> Run {
        Run { plan: self.plan.clone(), acts }
    }

    fn run(&self) -> Outcome<Tally> {
        acted::run(|| World::new(&self.plan), &self.acts)
    }
}

impl acted::World for World {
    type Act = Act;
    type Tally = Tally;

    fn act(&mut self, act: &Act) -> Result<bool, Failure> {
        World::act(self, act).map(|()| true)
    }

    fn end(&mut self) -> Result<(), Failure> {
        World::end(self)
    }

    fn outcome(self, failure: Option<(usize, Failure)>) -> Outcome<Tally> {
        Outcome { failure, hash: self.hash(), tally: self.tally() }
    }
}
