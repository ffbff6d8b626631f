//! Volumes over zoned drives.
//!
//! [`request`] is what a client may ask of a volume; an [`engine`] answers, and [`driven`] couples it with its drives. [`log`]
//! is the log-structured RAID engine, [`inplace`] the in-place one, [`pacer`] what holds both back. Everything here is sans-I/O: told
//! the time, handed completions, it answers with commands and replies. No clock, thread, file, socket or lock.

pub mod driven;
pub mod engine;
pub mod fence;
pub mod inplace;
pub mod log;
pub mod pacer;
pub mod request;
