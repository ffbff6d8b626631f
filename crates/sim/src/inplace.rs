//! Simulation of the engine for ordinary devices: md's members that crash, tear, lose their cache, die and come back.
//!
//! ```text
//!   seed ─> plan, acts ─> world: engine <──> disks: caches, commands in flight, bad sectors
//!                           ├─ clients <─> oracle: what may be read, by sectors
//!                           └─ at rest: md's reader, from the media: parity of all stripes, every block
//! ```
//! A run is a plan and a list of acts; a seed draws both. What is checked at rest comes from [`block::md::reader`], which shares
//! nothing with the engine but the geometry.

mod act;
pub(crate) mod disk;
mod oracle;
mod plan;
pub mod scenarios;
mod world;

pub use act::Act;
pub use plan::{Plan, Policy};
pub use world::Tally;

use crate::acted::{self, Acted, Outcome};
use crate::tally::Failure;
use world::World;

/// Everything that makes a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Array and disks.
    pub plan: Plan,
    /// What happens.
    pub acts: Vec<Act>,
}

impl Acted for Run {
    const ENGINE: &'static str = "in-place engine";
    const COMMAND: &'static str = "zoneweave sim --inplace";
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
        World::act(self, act)
    }

    fn end(&mut self) -> Result<(), Failure> {
        World::end(self)
    }

    fn outcome(self, failure: Option<(usize, Failure)>) -> Outcome<Tally> {
        let tally = self.tally();
        // After a panic, what the engine left behind is not taken apart in good order.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(self)));
        Outcome { failure, hash: 0, tally }
    }
}
