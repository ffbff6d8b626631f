//! A small world around the engine: drives that can crash, and an oracle that knows what each block
//! may hold.
#![allow(dead_code, reason = "each test uses its part")]

pub mod device;
pub mod fuse;
pub mod oracle;
pub mod world;
