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
mod tally;
mod world;

pub use act::Act;
pub use plan::{Plan, Policy};
pub use tally::Tally;
pub use world::InPlaceWorld;

use crate::acted::{self, Outcome};
use crate::tally::Failure;

/// Everything that makes a run.
pub type Run = acted::Run<InPlaceWorld>;

impl acted::World for InPlaceWorld {
    const ENGINE: &'static str = "in-place engine";
    const COMMAND: &'static str = "zoneweave sim --inplace";
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

    fn new(plan: &Plan) -> Result<InPlaceWorld, Failure> {
        InPlaceWorld::new(plan)
    }

    fn act(&mut self, act: &Act) -> Result<bool, Failure> {
        InPlaceWorld::act(self, act)
    }

    fn end(&mut self) -> Result<(), Failure> {
        InPlaceWorld::end(self)
    }

    fn outcome(self, failure: Option<(usize, Failure)>) -> Outcome<Tally> {
        let tally = self.tally();
        // After a panic, what the engine left behind is not taken apart in good order.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(self)));
        Outcome { failure, hash: 0, tally }
    }
}
