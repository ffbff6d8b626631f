//! The cache: real clients, both protocols, and kill -9.

#![allow(clippy::unwrap_used)]

mod attendance;
mod bays;
mod cores;
mod devices;
mod differential;
mod forgetting;
mod hostile;
mod kills;
mod metrics;
mod namespaces;
mod process;
mod protocols;
mod redis;
mod shards;

#[path = "../support/mod.rs"]
mod support;
