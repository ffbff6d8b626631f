//! Mistakes that other systems have made, one test for each: it fails when the mistake is made here
//! (`docs` section "known mistakes").
#![allow(clippy::cast_possible_truncation, reason = "tests count small things")]
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod found;
mod lost;
mod media;
mod members;
mod mortal;
mod rebuilding;
mod recovery;
mod rig;
mod rotten;
mod schemes;
mod space;
mod writing;

#[path = "../support/mod.rs"]
mod support;
