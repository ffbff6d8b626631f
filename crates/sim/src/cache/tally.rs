//! Counts of what a run of the cache did.

use crate::acted::Counts;
use ::cache::status::Counters;
use serde::Serialize;

/// See the module.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Tally {
    /// Requests answered.
    pub requests: u64,
    /// Requests refused, as they may be.
    pub refused: u64,
    /// Answers with an object, held against the oracle.
    pub hits: u64,
    /// Objects that the cache found in copies in memory, in lives that have ended.
    pub hits_memory: u64,
    /// Objects that the cache wrote anew when their zones went, in lives that have ended.
    pub reinserted: u64,
    /// Objects that were forgotten in memory, and never on flash, in lives that have ended.
    pub forgotten: u64,
    /// Answers without one.
    pub misses: u64,
    /// Of these, those that the ledger knew no cause for and had to judge.
    pub misses_owed: u64,
    /// Objects that had to be found, and were.
    pub owed_found: u64,
    /// Power failures, and ends of processes.
    pub crashes: u64,
    /// Mounts that succeeded.
    pub mounts: u64,
    /// Mounts that were refused, as they may be.
    pub refusals: u64,
    /// Checks of everything at rest.
    pub checks: u64,
    /// Open zones of young objects beside the first of a drive, in such checks.
    pub more_zones: u64,
    /// Copies of drives that were mounted and read.
    pub copies: u64,
    /// Zones evicted.
    pub evictions: u64,
    /// Zones that went because everything in them had expired, in lives that have ended.
    pub zones_expired: u64,
    /// Entries of journals that were written again, as their zone had to go, in lives that have ended.
    pub entries_carried: u64,
    /// Faults of drives.
    pub faults: u64,
    /// Drives that joined in service.
    pub joins: u64,
    /// Drives that were removed for good.
    pub removals: u64,
    /// Drives that were added.
    pub additions: u64,
    /// Clears that were planned for a time.
    pub clears_planned: u64,
    /// Keys that had to be gone when such a time had come.
    pub clears_confirmed: u64,
    /// Times that everything had to be forgotten, for the cache was without a server.
    pub absences: u64,
    /// Mounts that began empty, for entries were lost with memory.
    pub emptied: u64,
    /// Starts with another number of shards, which were refused.
    pub recuts: u64,
    /// Lives of shards that have ended, of caches with several.
    pub lives_sharded: u64,
    /// Lives of caches on conventional drives that have ended.
    pub lives_conventional: u64,
    /// Scans of all keys that ended.
    pub scans: u64,
    /// Keys that a scan had to tell.
    pub scanned_owed: u64,
    /// Commands of several keys.
    pub several: u64,
    /// Parts of values that were read.
    pub parts: u64,
    /// Objects that were replaced since nobody had changed them.
    pub exchanges: u64,
    /// Events of the log.
    pub events: u64,
}

impl Tally {
    /// A life of a shard has ended that counted this.
    pub(super) fn end_life(&mut self, counters: &Counters) {
        self.evictions += counters.zones_evicted;
        self.zones_expired += counters.zones_expired;
        self.entries_carried += counters.entries_carried;
        self.hits_memory += counters.hits_memory;
        self.reinserted += counters.reinserted;
        self.forgotten += counters.forgotten;
    }
}

impl Counts for Tally {
    fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.refused += other.refused;
        self.hits += other.hits;
        self.hits_memory += other.hits_memory;
        self.reinserted += other.reinserted;
        self.forgotten += other.forgotten;
        self.misses += other.misses;
        self.misses_owed += other.misses_owed;
        self.owed_found += other.owed_found;
        self.crashes += other.crashes;
        self.mounts += other.mounts;
        self.refusals += other.refusals;
        self.checks += other.checks;
        self.more_zones += other.more_zones;
        self.copies += other.copies;
        self.evictions += other.evictions;
        self.zones_expired += other.zones_expired;
        self.entries_carried += other.entries_carried;
        self.faults += other.faults;
        self.joins += other.joins;
        self.removals += other.removals;
        self.additions += other.additions;
        self.clears_planned += other.clears_planned;
        self.clears_confirmed += other.clears_confirmed;
        self.absences += other.absences;
        self.emptied += other.emptied;
        self.recuts += other.recuts;
        self.lives_sharded += other.lives_sharded;
        self.lives_conventional += other.lives_conventional;
        self.scans += other.scans;
        self.scanned_owed += other.scanned_owed;
        self.several += other.several;
        self.parts += other.parts;
        self.exchanges += other.exchanges;
        self.events += other.events;
    }
}
