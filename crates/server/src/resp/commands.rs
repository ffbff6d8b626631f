//! What commands do, a file for each kind of them.

pub mod client;
pub mod config;
pub mod connection;
pub mod expiry;
pub mod introspection;
pub mod keys;
pub mod kill;
pub mod scan;
pub mod server;
pub mod strings;
pub mod transaction;
