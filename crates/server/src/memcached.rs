//! memcached's text and meta protocols, without I/O: bytes to requests, requests to those of a cache, outcomes to answers.
//!
//! ```text
//! bytes -> reader -> request -> session (which client) -> operations -> front -> requests of the cache
//! bytes <- output <------------ answers in order <--------------------- front <- outcomes
//! ```
//! Texts and rules are those of memcached 1.6.18 (`doc/protocol.txt`, `proto_text.c`). Not spoken: the binary protocol and UDP.

pub mod base64;
mod keys;
pub mod numbers;
mod operations;
pub mod reader;
pub mod request;
mod said;
pub mod session;
mod statistics;
