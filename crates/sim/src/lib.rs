//! Deterministic simulation: the engine, unchanged, on drives that break, in virtual time.
//!
//! ```text
//!   seed ─> plan ───> world: engine <──> rack of drives <── power, faults
//!      `──> script ─> steps ─┘  │
//!                               ├─ clients <─> oracle: what may be read
//!                               └─ checkers: what must hold at rest
//! ```
//! The reader's path: `step` is what can happen, `plan` and `script` draw a run, [`run`] runs it, `world`
//! takes the steps, `drive` is where commands are delayed, torn and lost, `oracle` says what may be read,
//! `ledger` what must succeed.
//!
//! Everything is drawn from the seed; a seed and a commit give the same event log to the bit.

pub mod acted;
mod apart;
mod baseline;
mod bays;
pub mod cache;
pub mod campaign;
mod checkers;
mod clients;
pub mod conventional;
mod damage;
mod drive;
pub mod effects;
mod engine;
mod hiccups;
pub mod inband;
pub mod inplace;
mod ledger;
mod line;
pub mod minimise;
mod operator;
mod oracle;
mod outage;
mod plan;
mod power;
mod rack;
mod re_add;
mod replug;
mod requests;
mod rival;
mod rollback;
pub mod run;
pub mod scenarios;
mod script;
mod service;
mod slots;
mod step;
mod tally;
mod trace;
mod watchdog;
mod world;

pub use plan::{AREA_SEEDS, Baseline, Latency, Plan, Tearing};
pub use run::{Outcome, SEED_MAX, Scenario, ScenarioError, catch_panics, run};
pub use step::{Damage, Scope, Step, StepError};
pub use tally::{Failure, Tally};
pub use trace::Keep;
pub use watchdog::RUN_MAX;
