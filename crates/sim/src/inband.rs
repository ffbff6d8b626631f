//! Simulation of drives with identities in-band: over a device with zones that tears, loses its cache and has zones that fail.
//!
//! ```text
//!   seed ─> plan, acts ─> world: drive <──> device with zones: cache, commands in flight, bad blocks and zones
//!                           ├─ host <─> model of the zones: what must be there, what may be
//!                           └─ power failures, also while the drive is opened
//! ```
//! What the array engine relies on is judged here: after a crash a zone holds what was written up to some block, all of
//! that with its metadata and never less than what was answered and durable; behind it, up to the write pointer, blocks without
//! metadata, which were never answered.

mod act;
mod device;
mod model;
mod plan;
pub mod scenarios;
mod world;

pub use act::Act;
pub use plan::Plan;
pub use world::InbandWorld;

use crate::acted::{self, Outcome};
use crate::conventional::Tally;
use crate::tally::Failure;

/// Everything that makes a run.
pub type Run = acted::Run<InbandWorld>;

impl acted::World for InbandWorld {
    const ENGINE: &'static str = "drive with identities in-band";
    const COMMAND: &'static str = "zoneweave sim --inband";
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

    fn new(plan: &Plan) -> Result<InbandWorld, Failure> {
        InbandWorld::new(plan)
    }

    fn act(&mut self, act: &Act) -> Result<bool, Failure> {
        InbandWorld::act(self, act).map(|()| !self.is_over())
    }

    fn end(&mut self) -> Result<(), Failure> {
        InbandWorld::end(self)
    }

    fn outcome(self, failure: Option<(usize, Failure)>) -> Outcome<Tally> {
        Outcome { failure, hash: self.hash(), tally: self.tally() }
    }
}
