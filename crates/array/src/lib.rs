//! Volumes over zoned drives.
//!
//! [`request`] is what a client may ask of a volume; [`log`] is the log-structured RAID engine that
//! answers. Everything here is sans-I/O: told the time, handed completions, it answers with commands and replies. No
//! clock, thread, file, socket or lock.

pub mod log;
pub mod request;
