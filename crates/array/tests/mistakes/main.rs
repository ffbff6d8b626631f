//! Mistakes that other systems have made, and past ones of this one: a test for each, which fails when the mistake is made.
//! Random work, crashes and faults are the simulator's (docs/TESTING.md).
#![allow(clippy::cast_possible_truncation, reason = "tests count small things")]
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod contents;
mod device;
mod fencing;
mod found;
mod lost;
mod media;
mod members;
mod mortal;
mod rebuilding;
mod recovery;
mod retired;
mod returning;
mod rig;
mod rotten;
mod schemes;
mod shape;
mod slots;
mod space;
mod stalled;
mod windows;
mod writing;
