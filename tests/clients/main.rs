//! Clients of volumes: those that people use, those that mean harm, and virtual machines.

#![allow(clippy::unwrap_used)]

mod cores;
mod crash;
mod fio;
mod hostile;
mod kill9_fio;
mod kill9_raw;
mod tools;
mod vhost_user;

#[path = "../support/mod.rs"]
mod support;
