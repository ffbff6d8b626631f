//! Experiments: one file per question, each a command that prints a table or, with `--json`, one
//! object.

pub mod allocations;
pub mod nbd_compare;
pub mod null_write;
