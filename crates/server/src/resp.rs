//! RESP, the protocol of Redis, without I/O: bytes to commands, commands to requests of a cache, outcomes
//! to answers.
//!
//! ```text
//! bytes -> parser -> arguments -> session (which client) -> table, commands -> front -> requests of the cache
//! bytes <- output <------------- pending, in order <----------------------- front <- outcomes
//! ```

pub mod answer;
mod call;
pub mod commands;
pub mod front;
pub mod numbers;
pub mod parser;
mod pending;
pub mod session;
pub mod settings;
pub mod survey;
pub mod table;
pub mod usage;
