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
mod below;
pub(crate) mod model;
mod plan;
pub mod scenarios;
mod tally;
mod world;

pub use act::Act;
pub use plan::Plan;
pub use tally::Tally;
pub use world::ConventionalWorld;

use crate::acted::{self, Outcome};
use crate::tally::Failure;

/// Everything that makes a run.
pub type Run = acted::Run<ConventionalWorld>;

impl acted::World for ConventionalWorld {
    const ENGINE: &'static str = "conventional drive";
    const COMMAND: &'static str = "zoneweave sim --conventional";
    type Plan = Plan;
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

    fn reseeded(plan: &Plan, seed: u64) -> Plan {
        Plan { seed, ..plan.clone() }
    }

    fn new(plan: &Plan) -> Result<ConventionalWorld, Failure> {
        ConventionalWorld::new(plan)
    }

    fn act(&mut self, act: &Act) -> Result<bool, Failure> {
        ConventionalWorld::act(self, act).map(|()| true)
    }

    fn end(&mut self) -> Result<(), Failure> {
        ConventionalWorld::end(self)
    }

    fn outcome(self, failure: Option<(usize, Failure)>) -> Outcome<Tally> {
        Outcome { failure, hash: self.hash(), tally: self.tally() }
    }
}
