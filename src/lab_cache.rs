//! `zoneweave lab cache`: experiments with the key-value cache.

mod drawn;
mod peers;
mod policies;
mod tenants;
mod ttl;

use anyhow::Result;
use clap::Subcommand;
use drawn::Drawn;
use peers::CachePeers;
use policies::CachePolicies;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub enum LabCache {
    /// Which zones go: hit ratio and write amplification of each policy, beside caches that choose objects
    ///
    /// Without a trace: loads with the statistics that Meta publishes, and settings that a seed draws. Exit code 1 when a bar is
    /// missed: `s3fifo` .01 above an LRU of regions, at most .015 below an LRU of objects, and not below it up to 10 % of the footprint.
    Policies(CachePolicies),
    /// The same requests with groups by time to live and without, in settings that a seed draws
    Ttl(Drawn),
    /// One namespace floods the cache: hit ratio of another one with a share and without, in settings that a seed draws
    Tenants(Drawn),
    /// Processor time beside memcached's extstore and Redis, in turn, and what a kill leaves
    ///
    /// Exit code 1 when a bar is missed.
    Peers(CachePeers),
}

/// Runs an experiment. Exit code 1: a bar is missed.
pub fn run(command: &LabCache) -> Result<ExitCode> {
    match command {
        LabCache::Policies(options) => policies::run(options),
        LabCache::Ttl(options) => ttl::run(options).map(|()| ExitCode::SUCCESS),
        LabCache::Tenants(options) => tenants::run(options).map(|()| ExitCode::SUCCESS),
        LabCache::Peers(options) => peers::run(options),
    }
}
