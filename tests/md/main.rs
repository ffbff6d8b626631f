//! Arrays of Linux md: what mdadm and the kernel make of ours, and we of theirs.

#![allow(clippy::unwrap_used)]

mod bad_blocks;
mod cores;
mod database;
mod examined;
mod fio;
mod force;
mod golden;
mod grow;
mod grub;
mod journal;
mod locate;
mod logs;
mod ping_pong;
mod readonly;
mod replace;
mod returning;
mod serve;
mod spares;

#[path = "../support/mod.rs"]
mod support;
