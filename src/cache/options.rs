//! What can be typed after `zoneweave cache`.

use crate::cli::{Query, parse_size};
use cache::policy::Eviction;
use clap::{Args, Subcommand};
use server::Listen;
use std::path::PathBuf;

/// Least memory of a cache.
const MEMORY_MIN: u64 = 8 << 20;

#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// Create a cache of emulated drives if there is none, and serve it
    Up(CacheUp),
    /// Create a cache
    Create(CacheCreate),
    /// Serve a cache in the foreground
    Serve(CacheServe),
    /// Show what a cache does: hits, zones, write amplification, memory
    Status(Query),
    /// Verify a cache that is not served: every page, directory and journal (exit 1 if something is damaged)
    Check(Query),
}

impl CacheCommand {
    /// True for commands that go on until they are told to stop.
    pub fn serves(&self) -> bool {
        matches!(self, CacheCommand::Up(_) | CacheCommand::Serve(_))
    }
}

#[derive(Debug, Args)]
pub struct CacheUp {
    /// Directory of the cache
    #[arg(long, default_value = "./zoneweave-cache")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub shape: CacheShape,
    #[command(flatten)]
    pub service: CacheServiceOptions,
}

#[derive(Debug, Args)]
pub struct CacheCreate {
    /// Directory of the cache
    pub dir: PathBuf,
    #[command(flatten)]
    pub shape: CacheShape,
}

#[derive(Debug, Args)]
pub struct CacheServe {
    /// Directory of the cache
    pub dir: PathBuf,
    #[command(flatten)]
    pub service: CacheServiceOptions,
}

/// Drives of a new cache.
#[derive(Clone, Copy, Debug, Args)]
pub struct CacheShape {
    /// Drives of the cache [default: 4]
    #[arg(long)]
    pub drives: Option<usize>,
    /// Flash of all drives together [default: 4GiB]
    #[arg(long, value_parser = parse_size, value_name = "BYTES")]
    pub size: Option<u64>,
}

/// Options by which a cache is served.
#[derive(Debug, Args)]
pub struct CacheServiceOptions {
    /// Memory for index, buffers and clients together
    #[arg(long, default_value = "256MiB", value_parser = parse_memory, value_name = "BYTES")]
    pub memory: u64,
    /// Bytes of an object on the mean, key included: sizes the index
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 30), value_name = "BYTES")]
    pub object_mean: u64,
    /// Which zones make room: s3fifo, sieve, lru or fifo
    #[arg(long, default_value = "s3fifo", value_name = "POLICY")]
    pub eviction: Eviction,
    /// Most of a zone that s3fifo writes anew when it goes, 0 to 1
    #[arg(long, default_value = "0.25", value_parser = parse_share, value_name = "SHARE")]
    pub reinsert: u32,
    /// Addresses at which clients connect, comma-separated: tcp:HOST:PORT or unix:PATH
    #[arg(long, default_value = "tcp:127.0.0.1:6379", value_delimiter = ',', value_name = "PLACE,...")]
    pub listen: Vec<Listen>,
    /// Addresses at which clients of memcached connect, comma-separated: tcp:HOST:PORT or unix:PATH [default: none]
    #[arg(long, value_delimiter = ',', value_name = "PLACE,...")]
    pub memcached: Vec<Listen>,
    /// File whose first line is the password that clients have to say (AUTH) [default: no password]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

/// A share, in hundredths.
fn parse_share(text: &str) -> Result<u32, String> {
    let share: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    if !(0.0..=1.0).contains(&share) {
        return Err(format!("{text}: a share is 0 to 1"));
    }
    let hundredths = (0..=100u32).find(|hundredths| f64::from(*hundredths) >= share * 100.0 - 0.5);
    Ok(hundredths.expect("at most a hundred"))
}

fn parse_memory(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes < MEMORY_MIN { Err(format!("{text}: a cache needs at least 8MiB")) } else { Ok(bytes) }
}
