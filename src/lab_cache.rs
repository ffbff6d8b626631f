//! `zoneweave lab cache`: experiments with the key-value cache.

mod cores;
mod drawn;
mod fig5;
mod hits;
mod peers;
mod policies;
mod served;
mod tenants;
mod timed;
mod traced;
mod ttl;

use anyhow::Result;
use clap::{Args, Subcommand};
use cores::CacheCores;
use drawn::Drawn;
use fig5::CacheFig5;
use hits::CacheHits;
use lab::cache::timed::Cell;
use peers::CachePeers;
use policies::CachePolicies;
use served::TimedOrServed;
use std::process::ExitCode;
use timed::Timed;

#[derive(Debug, Subcommand)]
pub enum LabCache {
    /// Eviction policies: hit ratio and write amplification of each, beside caches that choose objects
    ///
    /// Without a trace: loads with the statistics that Meta publishes, and settings that a seed draws. Exit code 1 when a bar is
    /// missed: `s3fifo` .01 above an LRU of regions, at most .015 below an LRU of objects, and not below it up to 10 % of the footprint.
    Policies(CachePolicies),
    /// The same requests with groups by time to live and without, in settings that a seed draws
    Ttl(Drawn),
    /// Flood by one namespace: hit ratio of another one with a share and without, in settings that a seed draws
    Tenants(Drawn),
    /// Processor time beside memcached's extstore and Redis, in turn, and what a kill leaves
    ///
    /// Exit code 1 when a bar is missed.
    Peers(CachePeers),
    /// Hit ratio on a trace beside memcached with as much memory and as large a file (extstore), and what `--admission second` saves
    ///
    /// Exit code 1 when a bar is missed, of the trace web-1998 with sizes times 8: .03 more hits with 64 + 512 MiB, .05 with 64 + 256;
    /// `second` a fifth of the bytes of `all` at most, and no fewer hits, with 19 + 192.
    Hits(CacheHits),
    /// Gain by more cores: processor time of all threads and of the busiest one, which bounds what a server can do
    ///
    /// Exit code 1 when the bar is missed: 1.5 times as many GETs of 100 B by two cores as by one, by the time of the busiest thread.
    Cores(CacheCores),
    /// Figure 5 of the ZonedStore paper: five mixes of reads and writes of 100 KB, beside RocksDB with blobs (db_bench), in turn
    ///
    /// Exit code 1 when a bar is missed: .6 of db_bench's processor time in each mix.
    #[command(name = "fig5")]
    Fig5(CacheFig5),
    /// Table I of the ZonedStore paper in virtual time: values of 100 KB, half writes, 32 in flight, capacities 3:4:5
    ///
    /// Exit code 1 when a bar is missed: stores .9 of what the drive alone takes, P99 of 6 ms on zn540-1tb, capacities within 1 %.
    #[command(name = "table1")]
    Table1(Timed),
    /// Gets of 4 KiB in virtual time, while there is room and while zones are evicted, written anew in part, and reset
    ///
    /// Exit code 1 when the bar is missed: 1.5 times the P99 without eviction.
    EvictionTail(Timed),
    /// Stores over and removals of objects on flash in virtual time, 1 and 64 in flight: latency, bytes and blocks of the journal
    ///
    /// Exit code 1 when a bar is missed: overwrites in 15 us alone, and in 30 us with 64 in flight, as medians.
    Invalidate(TimedOrServed),
    /// Stores by 1 to 256 connections in virtual time: pages that leave together, latency, how long objects are in memory alone
    Batch(Timed),
    /// Objects of 64 B to 1 MiB in virtual time: rates, bytes written by cause, memory an object, flash reads of hits and misses
    ///
    /// Exit code 1 when a bar is missed: bytes written 1.18 for 100 B and 1.01 for 100 KB, memory of 8 and 16 B an object, flash reads of
    /// 1.01 a hit of 100 B and .01 a miss.
    Sizes(TimedOrServed),
    /// Admission in virtual time: hit ratio over bytes written, of everything, of what comes twice, and of budgets
    Admission(Timed),
    /// Loss and replacement of one of 2, 4 and 8 drives in virtual time: hit ratio over time, against the share of the others
    ///
    /// Exit code 1 when the bar is missed: a lost drive costs no more hits than its share.
    Drives(Timed),
    /// A mount after the process has ended, in virtual time, by objects: time beside that of reading directories, and memory
    ///
    /// Exit code 1 when the bar is missed: 1.3 times the time in which the drives read as many bytes as the directories have.
    Recovery(Timed),
    /// The same flash with zones and as a conventional drive in virtual time, 50 to 95 % of it used: rates, and what the drive moves
    Usage(Timed),
}

/// Seconds and rounds in which sides are measured in turn.
#[derive(Debug, Args)]
pub struct Rounds {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
    /// Measurements of each side
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
}

/// Runs an experiment. Exit code 1: a bar is missed.
pub fn run(command: &LabCache) -> Result<ExitCode> {
    match command {
        LabCache::Policies(options) => policies::run(options),
        LabCache::Ttl(options) if options.timed.asks_for_more() => timed::run(Cell::Ttl, &options.timed),
        LabCache::Tenants(options) if options.timed.asks_for_more() => {
            timed::run(Cell::Tenants, &options.timed)
        }
        LabCache::Ttl(options) => ttl::run(options).map(|()| ExitCode::SUCCESS),
        LabCache::Tenants(options) => tenants::run(options).map(|()| ExitCode::SUCCESS),
        LabCache::Peers(options) => peers::run(options),
        LabCache::Hits(options) => hits::run(options),
        LabCache::Cores(options) => cores::run(options),
        LabCache::Fig5(options) => fig5::run(options),
        LabCache::Table1(options) => timed::run(Cell::Table1, options),
        LabCache::EvictionTail(options) => timed::run(Cell::EvictionTail, options),
        LabCache::Invalidate(options) => served::run([Cell::Invalidate, Cell::InvalidateWall], options),
        LabCache::Batch(options) => timed::run(Cell::Batch, options),
        LabCache::Sizes(options) => served::run([Cell::Sizes, Cell::SizesWall], options),
        LabCache::Admission(options) => timed::run(Cell::Admission, options),
        LabCache::Drives(options) => timed::run(Cell::Drives, options),
        LabCache::Recovery(options) => timed::run(Cell::Recovery, options),
        LabCache::Usage(options) => timed::run(Cell::Usage, options),
    }
}
