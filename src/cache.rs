//! `zoneweave cache`: a key-value cache over zoned drives, served to clients of Redis.
//!
//! `options` is what can be typed, `directory` a cache's directory on disk: `cache.toml`, its drives, its control socket.

mod attendance;
mod bays;
mod check;
mod create;
mod directory;
mod drives;
mod dump;
mod errands;
mod exposition;
mod flush;
mod host;
mod http;
mod longest;
mod memory;
mod namespaces;
mod offline;
mod operator;
pub mod options;
mod serve;
mod shards;
mod status;

use crate::exit::Exit;
use anyhow::Result;
use directory::CacheDirectory;
use options::CacheCommand;
use std::path::{Path, PathBuf};

/// Path of the socket at which the server of a cache answers questions.
///
/// # Errors
/// When there is no cache.
pub fn control_path(dir: &Path) -> Result<PathBuf> {
    Ok(CacheDirectory::open(dir)?.control_path())
}

/// True of a directory that holds a cache.
pub fn is_in(dir: &Path) -> bool {
    dir.join(directory::NAME).exists()
}

/// Runs a command.
pub fn run(command: &CacheCommand) -> Result<Exit> {
    match command {
        CacheCommand::Up(options) => serve::up(options),
        CacheCommand::Create(options) => create::run(options),
        CacheCommand::Serve(options) => serve::run(options),
        CacheCommand::Status(options) => status::run(options),
        CacheCommand::Check(options) => check::run(options),
        CacheCommand::Flush(options) => flush::run(options),
        CacheCommand::Dump(options) => dump::run(options),
        CacheCommand::Drive(command) => bays::run(command),
    }
}
