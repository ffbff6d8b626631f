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
pub mod campaign;
mod disk;
mod minimise;
mod oracle;
mod plan;
pub mod scenarios;
mod world;

pub use act::Act;
pub use minimise::minimise;
pub use plan::{Plan, Policy};
pub use world::Tally;

use crate::run::guarded_run;
use crate::world::Failure;

/// Everything that makes a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Array and disks.
    pub plan: Plan,
    /// What happens.
    pub acts: Vec<Act>,
}

/// Outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Failure and the act at which it happened, if any; an act beyond the last is the end of the run.
    pub failure: Option<(usize, Failure)>,
    /// Counts of what was done.
    pub tally: Tally,
}

impl Run {
    /// Run of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Run {
        let plan = Plan::draw(seed);
        let acts = act::draw(&plan);
        Run { plan, acts }
    }
}

/// Runs a run.
#[must_use]
pub fn run(run: &Run) -> Outcome {
    let mut world = match guarded_run(|| world::World::new(&run.plan)) {
        Ok(world) => world,
        Err(failure) => return Outcome { failure: Some((0, failure)), tally: Tally::default() },
    };
    let mut failure = None;
    for (index, act) in run.acts.iter().enumerate() {
        match guarded_run(|| world.act(act)) {
            Ok(true) => {}
            // The array is refused, as promised: nothing can follow.
            Ok(false) => return Outcome { failure: None, tally: world.tally() },
            Err(found) => {
                failure = Some((index, found));
                break;
            }
        }
    }
    if failure.is_none()
        && let Err(found) = guarded_run(|| world.end())
    {
        failure = Some((run.acts.len(), found));
    }
    let tally = world.tally();
    // After a panic, what the engine left behind is not taken apart in good order.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(world)));
    Outcome { failure, tally }
}
