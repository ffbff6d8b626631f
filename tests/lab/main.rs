//! Commands that measure and simulate.

#![allow(clippy::unwrap_used)]

mod cache;
mod experiment;
mod probe;
mod sim;
mod wall_clock;

#[path = "../support/mod.rs"]
mod support;
