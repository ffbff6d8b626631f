//! What a zoned device is and how to fill one.
//!
//! [`device`] is the command set (NVMe Zoned Namespace Command Set 1.1), [`rules`] the zone state
//! machine as pure rules: the emulated drive enforces them, the engine relies on them.
//! [`stripe`] says where the pieces of a stripe lie, [`format`] what the media holds, byte by byte.
//!
//! No clock, thread, file, socket or lock: a device is told the time and answers when polled.

pub mod condition;
pub mod device;
pub mod drives;
pub mod format;
pub mod rules;
pub mod stripe;
