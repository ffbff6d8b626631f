//! Simulation of the cache: clients, drives that break and lose power, an oracle by key and a ledger of what is missed.
//!
//! ```text
//!   seed ─> plan, acts ─> world: cache <──> rack of drives <── power, faults
//!                           ├─ clients <─> oracle: what an answer may be
//!                           │         `──> ledger: what may be missed, and why
//!                           └─ at rest: zones, media, copies of the drives that are mounted anew
//! ```
//! A run is a plan and a list of acts; a seed draws both. The drives are those of the other simulations ([`crate::run()`]).

mod act;
mod attended;
mod client;
mod copies;
mod faults;
mod files;
mod judge;
mod ledger;
mod life;
mod memory;
mod mount;
mod operator;
mod oracle;
mod pace;
mod plan;
mod planned;
mod recut;
mod rest;
pub mod scan;
mod scenarios;
mod several;
mod shards;
mod stage;
mod tally;
mod world;

pub use act::{Act, Change, Expiry, Filler, Moment};
pub use plan::Plan;
pub use tally::Tally;
pub use world::CacheWorld;

use crate::acted::{self, Outcome};
use crate::tally::Failure;

/// Everything that makes a run.
pub type Run = acted::Run<CacheWorld>;

impl acted::World for CacheWorld {
    const ENGINE: &'static str = "cache";
    const COMMAND: &'static str = "zoneweave sim --cache";
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

    fn new(plan: &Plan) -> Result<CacheWorld, Failure> {
        CacheWorld::new(plan)
    }

    fn act(&mut self, act: &Act) -> Result<bool, Failure> {
        CacheWorld::act(self, act)
    }

    fn end(&mut self) -> Result<(), Failure> {
        CacheWorld::end(self)
    }

    fn outcome(self, failure: Option<(usize, Failure)>) -> Outcome<Tally> {
        CacheWorld::outcome(self, failure)
    }
}
