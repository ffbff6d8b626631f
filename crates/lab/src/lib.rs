//! Experiments: one file per question, each a command that prints a table or, with `--json`, one
//! object.

pub mod allocations;
pub mod array_run;
mod biza;
pub mod cache;
mod cached_drive;
pub mod channels;
pub mod characterise;
pub mod compare;
pub mod contest;
mod dmzap;
pub mod experiment;
pub mod export_compare;
mod instructions;
mod md_array;
pub mod md_cost;
pub mod md_speed;
pub mod memory_run;
pub mod mount_run;
pub mod nbd_compare;
mod null_array;
pub mod null_write;
pub mod paired;
mod pool;
mod precise;
pub mod probe;
pub mod qualify;
pub mod rebuild_run;
pub mod report;
mod sizing;
pub mod trace;
pub mod wall;
pub mod workload;
