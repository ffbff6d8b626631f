//! The vocabulary every other room speaks: units, time as a value, seeded randomness, frames
//! (the 4-KiB buffers that data travels in), checksums and erasure codes.
//!
//! Nothing here knows what a zone or an array is, and nothing here performs I/O.

pub mod bytes;
pub mod chains;
pub mod checksum;
pub mod combine;
pub mod erasure;
pub mod fields;
pub mod frame;
pub mod galois;
pub mod hiccups;
pub mod kernel_calls;
pub mod loss;
pub mod pieces;
pub mod random;
pub mod slab;
pub mod time;
pub mod units;
pub mod xor;
