//! Drives: implementations of [`zone::device::ZonedDevice`].
//!
//! [`emulated`] is a zoned drive in ordinary memory or in an ordinary file, [`null`] a drive that
//! checks the rules and keeps nothing, which is what the engine's own cost is measured against.
//! [`ordinary`] drives are files, partitions and whole drives that are written in place.
//! [`nvme`] drives are real ones with zones.
//! [`patient`] ones wait for a drive that is away for a while.
//! [`slices`] of a drive are drives of owners in threads of their own.
//! [`modelled`] ones live in virtual time and keep nothing.
//! [`timing`] knows how long the commands of real drives take, and [`TimedDrive`] makes an emulated
//! drive take as long.
//! The rules themselves live in [`zone::rules`]; nothing here decides what a command may do.

mod answer;
pub mod any;
pub mod conventional;
pub mod emulated;
mod hosted;
pub mod inband;
mod lane;
pub mod modelled;
pub mod null;
pub mod nvme;
pub mod ordinary;
pub mod patient;
pub mod slices;
pub mod units;
pub mod zoned;

pub use emulated::{TimedDrive, timing};
pub use hosted::{Bell, Heard, HostedDrive, Room, Works};
