//! What can be typed after `zoneweave cache`.

use super::memory;
use super::namespaces::{self, NamespaceOption};
use crate::cli::{parse_blocks, parse_cores, parse_size};
use crate::exit::Exit;
use crate::force::{self, Forced};
use anyhow::Result as Checked;
use base::time::Nanos;
use base::units::{human_bytes, parse_bytes};
use cache::admission::Admission;
use cache::config::{Acknowledge, Invalidate};
use cache::policy::Eviction;
use clap::{Args, Subcommand};
use server::Listen;
use std::path::PathBuf;

/// Least memory of a cache.
const MEMORY_MIN: u64 = 8 << 20;

#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// Create a cache if there is none, of emulated drives or of those that are named, and serve it
    Up(CacheUp),
    /// Create a cache
    Create(CacheCreate),
    /// Serve a cache in the foreground
    Serve(CacheServe),
    /// Show what a cache does: hits, zones, write amplification, memory, drives
    Status(CacheStatus),
    /// Verify a cache that is not served: every page, directory and journal (exit 1 if something is damaged)
    Check(CacheCheck),
    /// Forget everything, or all of a database, at once and for good; served or not
    Flush(CacheFlush),
    /// Print the live keys of a cache, one a line, quoted as redis-cli takes them where they are not plain; served or not
    Dump(CacheDump),
    /// Act on a drive of a cache
    #[command(subcommand)]
    Drive(CacheDriveCommand),
}

#[derive(Debug, Subcommand)]
pub enum CacheDriveCommand {
    /// Take a drive out of a served cache; what it holds is forgotten
    Fail(CacheBay),
    /// Put an empty drive in the place of one that failed, served or not; it is filled by use
    Replace(CacheReplace),
    /// Add an empty drive like the others, served or not; it is filled by use
    Add(CacheAdd),
    /// Remove a drive for good, served or not; what it holds is forgotten, and its number is free for the next one that is added
    Remove(CacheBay),
}

/// A drive of a cache.
#[derive(Debug, Args)]
pub struct CacheBay {
    /// Directory of the cache
    pub dir: PathBuf,
    /// The drive, counted from 0
    pub drive: usize,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CacheStatus {
    /// Directory of the cache
    pub dir: PathBuf,
    /// Print a line every so many seconds: what happened in them [default: 1]
    #[arg(long, num_args = 0..=1, default_missing_value = "1", value_parser = clap::value_parser!(u64).range(1..=86_400), value_name = "SECONDS")]
    pub watch: Option<u64>,
    /// Print one JSON object; with --watch one a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CacheCheck {
    /// Directory of the cache
    pub dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CacheFlush {
    /// Directory of the cache
    pub dir: PathBuf,
    /// Database whose objects go, 0 to 15; clients of memcached use 0 [default: all]
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..16), value_name = "N")]
    pub namespace: Option<u8>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CacheDump {
    /// Directory of the cache
    pub dir: PathBuf,
    /// Keys are printed; values are not, so this has to be said
    #[arg(long, required = true)]
    pub keys: bool,
    /// Database, 0 to 15; clients of memcached use 0 [default: all]
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..16), value_name = "N")]
    pub namespace: Option<u8>,
    /// Print database, bytes of the value, and expiry (Unix time in milliseconds, -1 for none) before each key
    #[arg(long, conflicts_with = "json")]
    pub long: bool,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// A drive that takes the place of another one.
#[derive(Debug, Args)]
pub struct CacheReplace {
    #[command(flatten)]
    pub bay: CacheBay,
    /// Device like the others, raw:FILE, or file to make the drive in, which must not be there yet [default: a file in the directory of
    /// the cache]
    #[arg(long, value_name = "PATH")]
    pub with: Option<PathBuf>,
    /// Give up what the device holds; a drive of another array or cache wants its name, --force=UUID
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = force::ALONE, value_parser = Forced::parse,
          value_name = "UUID")]
    pub force: Vec<Forced>,
}

/// A drive that is added.
#[derive(Debug, Args)]
pub struct CacheAdd {
    /// Directory of the cache
    pub dir: PathBuf,
    /// Device like the others, raw:FILE, or file to make the drive in, which must not be there yet [default: a file in the directory of
    /// the cache]
    pub path: Option<PathBuf>,
    /// Give up what the device holds; a drive of another array or cache wants its name, --force=UUID
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = force::ALONE, value_parser = Forced::parse,
          value_name = "UUID")]
    pub force: Vec<Forced>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct CacheShape {
    /// Drives of the cache [default: those that are named, or 4]
    #[arg(long)]
    pub drives: Option<usize>,
    /// Flash of all drives together [default: that of the devices, or 4GiB]
    #[arg(long, value_parser = parse_size, value_name = "BYTES")]
    pub size: Option<u64>,
    /// Drives, comma-separated: files of emulated drives, NVMe drives with zones (/dev/ngXnY), zoned block devices, block devices, or
    /// raw:FILE to use a file as a device [default: DIR/drive-N.zns]
    #[arg(long, value_delimiter = ',', value_name = "P1,P2,...")]
    pub drives_path: Vec<PathBuf>,
    /// Block devices, partitions or files that are cut into zones, comma-separated: the same as raw:PATH among --drives-path
    #[arg(long, value_delimiter = ',', value_name = "P1,P2,...")]
    pub conventional: Vec<PathBuf>,
    /// Zone size of drives that have no zones of their own [default: as suits their size]
    #[arg(long, value_parser = parse_blocks, value_name = "BYTES")]
    pub zone_size: Option<u32>,
    /// Shards that each drive is cut into, 1 to 64: parts of the cache with zones and an index of their own, each of which one thread of
    /// --cores has; fixed for good [default: as many as --cores says here, as far as the drives' active zones allow; else 1]
    #[arg(long, value_parser = parse_shards, value_name = "N")]
    pub shards: Option<usize>,
    /// Replace what an interrupted `create` left, and give up what devices hold; a drive of another array or cache wants its name,
    /// --force=UUID, which may be given several times
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = force::ALONE, value_parser = Forced::parse,
          value_name = "UUID")]
    pub force: Vec<Forced>,
}

/// Doors: where clients of a cache come in, and what they may do.
#[derive(Debug, Args)]
pub struct CacheDoors {
    /// Addresses at which clients connect, comma-separated: tcp:HOST:PORT or unix:PATH
    #[arg(long, default_value = "tcp:127.0.0.1:6379", value_delimiter = ',', value_name = "PLACE,...")]
    pub listen: Vec<Listen>,
    /// Addresses at which clients of memcached connect, comma-separated: tcp:HOST:PORT or unix:PATH [default: none]
    #[arg(long, value_delimiter = ',', value_name = "PLACE,...")]
    pub memcached: Vec<Listen>,
    /// File whose first line is the password that clients have to say (AUTH) [default: no password]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Address at which Prometheus reads metrics (GET /metrics), without a password: tcp:HOST:PORT [default: none]
    #[arg(long, value_name = "PLACE")]
    pub http: Option<Listen>,
    /// Allow `DEBUG SLEEP SECONDS`, by which anybody who may connect stops the thread that serves him: for tests of clients
    #[arg(long)]
    pub debug_commands: bool,
}

/// Options by which a cache is served.
#[derive(Debug, Args)]
pub struct CacheServiceOptions {
    /// Memory for index, buffers and clients together
    #[arg(long, default_value = memory::DEFAULT, value_parser = parse_memory, value_name = "BYTES")]
    pub memory: u64,
    /// Bytes of an object on the mean, key included: sizes the index
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 30), value_name = "BYTES")]
    pub object_mean: u64,
    /// Threads, 1 to 64: shards are shared out to them, and connections are spread over all threads, or over those without a shard where
    /// there are more threads than shards
    #[arg(long, default_value_t = 1, value_parser = parse_cores)]
    pub cores: usize,
    /// Eviction policy, which makes room: s3fifo, sieve, lru or fifo
    #[arg(long, default_value = "s3fifo", value_name = "POLICY")]
    pub eviction: Eviction,
    /// Most of a zone that s3fifo writes anew when it goes, 0 to 1
    #[arg(long, default_value = "0.25", value_parser = parse_share, value_name = "SHARE")]
    pub reinsert: u32,
    /// Admission to flash: all, second (what was hit in memory, or is stored again) or auto (between these, by --endurance)
    /// [default: auto with --endurance, else all]
    #[arg(long, value_name = "POLICY")]
    pub admission: Option<Admission>,
    /// Bytes that may be written to flash in a day, like 10TB/day [default: no limit]
    #[arg(long, value_parser = parse_endurance, value_name = "BYTES/day")]
    pub endurance: Option<u64>,
    /// Moment at which a store is answered: memory (the object may be lost with the buffers, in the last milliseconds before a crash) or
    /// media (it is on flash, and flushed); media wants --admission all
    #[arg(long, default_value = "memory", value_name = "BY")]
    pub acknowledge: Acknowledge,
    /// Place where what hides older versions is before a client is answered: media, or process (in memory that outlives the process; after
    /// a power failure the cache begins empty), for those who overwrite or delete small objects without end
    #[arg(long, default_value = "media", value_name = "PLACE")]
    pub invalidate: Invalidate,
    /// Longest time without a server, like 10s, 1s at least: after more of it the cache begins empty, for nodes behind a proxy that ejects
    /// them and takes deletes elsewhere; so it does when the machine was started since [default: never]
    #[arg(long, value_parser = parse_absence, value_name = "TIME")]
    pub forget_after: Option<Nanos>,
    /// Longest value that is stored, up to 512MiB: with the longest key less than half a zone, and at most a 16th of --memory, shared out
    /// to the threads that serve connections, and a 15th of it, shared out to shards [default: 16MiB, or as much as there is room for]
    #[arg(long, value_parser = parse_object_max, value_name = "BYTES")]
    pub object_max: Option<u64>,
    /// Doors: where clients come in, and what they may do.
    #[command(flatten)]
    pub doors: CacheDoors,
    /// Part of the cache that a namespace has for itself: N:name=NAME,share=30%,memory=20%,eviction=POLICY,ttl-max=1h,memcached=PLACE, any
    /// of them; databases of RESP are namespaces; may be given several times
    #[arg(long, value_name = "N:KEY=VALUE,...")]
    pub namespace: Vec<NamespaceOption>,
    /// Let emulated drives take the time of this profile, by name or as a TOML file (see `drive probe`)
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
}

impl CacheServiceOptions {
    /// Moment at which stores are answered.
    ///
    /// # Errors
    /// When not all of them go to flash, and the answer is to say that they are there.
    pub fn acknowledge(&self) -> Checked<Acknowledge> {
        match (self.acknowledge, self.admission()?) {
            (Acknowledge::Media, policy) if policy != Admission::All => Err(Exit::Usage.error(format!(
                "--acknowledge media: with --admission {policy} objects may stay in memory alone; say --admission all, without \
                 --endurance, or --acknowledge memory"
            ))),
            (when, _) => Ok(when),
        }
    }

    /// The policy of admission that these options mean.
    ///
    /// # Errors
    /// When policy and endurance do not fit each other.
    pub fn admission(&self) -> Checked<Admission> {
        match (self.admission, self.endurance) {
            (None, None) => Ok(Admission::All),
            (None, Some(_)) => Ok(Admission::Auto),
            (Some(Admission::Auto), None) => Err(Exit::Usage
                .error("--admission auto needs a budget: add --endurance, like --endurance 10TB/day")),
            (Some(policy), Some(_)) if policy != Admission::Auto => Err(Exit::Usage.error(format!(
                "--admission {policy} keeps no --endurance: leave it away, or say --admission auto"
            ))),
            (Some(policy), _) => Ok(policy),
        }
    }
}

fn parse_shards(text: &str) -> Result<usize, String> {
    let shards = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    let is_possible = (1..=cache::spread::SHARDS_MAX).contains(&shards);
    is_possible
        .then_some(shards)
        .ok_or_else(|| format!("{text}: a cache has 1 to {} shards", cache::spread::SHARDS_MAX))
}

fn parse_endurance(text: &str) -> Result<u64, String> {
    let bytes =
        text.strip_suffix("/day").ok_or_else(|| format!("`{text}`: say bytes a day, like 10TB/day"))?;
    match parse_bytes(bytes).map_err(|error| error.to_string())? {
        0 => Err(format!("`{text}`: with no bytes a day nothing is ever written")),
        bytes => Ok(bytes),
    }
}

/// Shortest absence that is told from a server that is busy.
const ABSENCE_MILLIS_MIN: u64 = 1_000;

fn parse_absence(text: &str) -> Result<Nanos, String> {
    let millis = namespaces::millis(text)?;
    if millis < ABSENCE_MILLIS_MIN {
        return Err(format!("{text}: a server may be busy for as long; say 1s or more"));
    }
    millis
        .checked_mul(1_000_000)
        .map(Nanos)
        .ok_or_else(|| format!("{text}: that is longer than anybody waits"))
}

/// Longest value of any cache.
const OBJECT_BYTES_MAX: u64 = 512 << 20;

fn parse_object_max(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    if (1..=OBJECT_BYTES_MAX).contains(&bytes) {
        return Ok(bytes);
    }
    Err(format!("{text}: values have 1 byte to {}", human_bytes(OBJECT_BYTES_MAX)))
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
