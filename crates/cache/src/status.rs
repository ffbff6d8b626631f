//! What a cache says of itself.

use crate::admission::Admission;
use crate::config::{Acknowledge, Invalidate};
use crate::format::NAMESPACES;
use crate::policy::{Eviction, Stream};
use crate::request::Namespace;
use crate::share::Share;
use base::units::BLOCK_BYTES_U64;
use std::ops::AddAssign;

/// Counts since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads answered from buffers: of objects on their way to flash.
    pub hits_buffer: u64,
    /// Reads answered from copies in memory.
    pub hits_memory: u64,
    /// Reads answered from flash.
    pub hits_flash: u64,
    /// Reads that found nothing.
    pub misses: u64,
    /// Objects found expired.
    pub expired: u64,
    /// Objects stored.
    pub stores: u64,
    /// Objects removed.
    pub removes: u64,
    /// Pages read.
    pub pages_read: u64,
    /// Bytes of keys and values that were taken in.
    pub bytes_stored: u64,
    /// Bytes of those that were admitted to flash.
    pub bytes_admitted: u64,
    /// Objects that were forgotten in memory, and never on flash.
    pub forgotten: u64,
    /// Bytes of their keys and values: what would have been written without admission.
    pub bytes_forgotten: u64,
    /// Blocks of records and zone headers written.
    pub blocks_data: u64,
    /// Blocks of directories written.
    pub blocks_directory: u64,
    /// Blocks of journals written.
    pub blocks_journal: u64,
    /// Superblocks written.
    pub blocks_superblock: u64,
    /// Journal entries issued.
    pub entries: u64,
    /// Entries that were written again, as their zone of the journal had to go.
    pub entries_carried: u64,
    /// Batches written.
    pub batches: u64,
    /// Zones evicted.
    pub zones_evicted: u64,
    /// Zones that went because everything in them had expired.
    pub zones_expired: u64,
    /// Zones that eviction has passed over since they were hit.
    pub zones_spared: u64,
    /// Objects that were written anew when their zone went.
    pub reinserted: u64,
    /// Bytes of their keys and values.
    pub bytes_reinserted: u64,
    /// Stores of objects that went with a young zone lately.
    pub recalled: u64,
    /// Objects that found no slot.
    pub index_full: u64,
    /// Pages or records that failed their checksum, or could not be read.
    pub damaged: u64,
    /// Drives that failed.
    pub drives_failed: u64,
    /// Times that everything was forgotten, for the cache was without a server.
    pub absences: u64,
    /// By namespace.
    pub namespaces: [NamespaceCounters; NAMESPACES],
}

/// Counts of a namespace since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceCounters {
    /// Reads that found an object, wherever it was.
    pub hits: u64,
    /// Reads that found nothing.
    pub misses: u64,
    /// Objects stored.
    pub stores: u64,
    /// Zones of its own that were evicted.
    pub zones_evicted: u64,
}

impl Counters {
    pub(crate) fn of_mut(&mut self, namespace: Namespace) -> &mut NamespaceCounters {
        &mut self.namespaces[usize::from(namespace.0)]
    }

    /// Bytes of records that are neither keys nor values, of padding and of zone headers: what is written of data beside what was
    /// admitted or is written anew. None while more was admitted than has been written.
    #[must_use]
    pub fn bytes_around(&self) -> Option<u64> {
        (self.blocks_data * BLOCK_BYTES_U64).checked_sub(self.bytes_admitted + self.bytes_reinserted)
    }

    /// All bytes written to drives.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        (self.blocks_in_zones() + self.blocks_superblock) * BLOCK_BYTES_U64
    }

    /// Blocks for which zones were wanted: objects, directories and journals.
    #[must_use]
    pub fn blocks_in_zones(&self) -> u64 {
        self.blocks_data + self.blocks_directory + self.blocks_journal
    }
}

/// Zones by what they are used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneCounts {
    /// Empty.
    pub free: usize,
    /// Taking pages.
    pub open: usize,
    /// Full of pages.
    pub full: usize,
    /// Journal.
    pub journal: usize,
    /// Being evicted.
    pub leaving: usize,
    /// Zones with pages, by stream in the order of [`Stream::COMMON`]; those of shares are the last.
    pub streams: [StreamZones; Stream::COMMON.len() + 1],
}

impl ZoneCounts {
    /// Counts one more zone with pages of a stream.
    pub(crate) fn add(&mut self, stream: Stream, age_ms: u64) {
        let place = stream.place().min(Stream::COMMON.len());
        self.streams[place] += StreamZones { zones: 1, oldest_ms: age_ms };
    }
}

impl AddAssign for ZoneCounts {
    fn add_assign(&mut self, other: ZoneCounts) {
        self.free += other.free;
        self.open += other.open;
        self.full += other.full;
        self.journal += other.journal;
        self.leaving += other.leaving;
        self.streams.iter_mut().zip(other.streams).for_each(|(own, more)| *own += more);
    }
}

/// Zones with the pages of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamZones {
    /// Zones.
    pub zones: usize,
    /// Milliseconds since the oldest of them began, by the wall clock.
    pub oldest_ms: u64,
}

impl AddAssign for StreamZones {
    fn add_assign(&mut self, other: StreamZones) {
        self.zones += other.zones;
        self.oldest_ms = self.oldest_ms.max(other.oldest_ms);
    }
}

/// Drive of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveStatus {
    /// False when it is missing, left out, or has failed.
    pub up: bool,
    /// Zones, by use.
    pub zones: ZoneCounts,
    /// Most zones of its journal.
    pub journal_zones_max: usize,
    /// Bytes of its zones with pages.
    pub bytes_used: u64,
    /// Bytes that all its zones hold.
    pub bytes: u64,
    /// Commands that it was given and has not answered.
    pub in_flight: u32,
}

/// Findings of the last recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Records that lie in zones of this cache.
    pub records_found: u64,
    /// Records of those that journals or a clear hide.
    pub records_hidden: u64,
    /// Older versions without an entry, journaled.
    pub records_older: u64,
    /// Records that found no slot, journaled.
    pub records_without_slot: u64,
    /// Records beside a hidden one that the index cannot tell from it any more, journaled.
    pub records_beside: u64,
    /// Zones dropped because something in them could not be read.
    pub zones_dropped: u64,
    /// Drives that began empty.
    pub drives_emptied: u64,
    /// Records that only entries in memory hid, journaled.
    pub records_shared: u64,
    /// Entries were lost with the memory that held them: everything is forgotten.
    pub is_emptied: bool,
}

/// Admission to flash: the policy, its budget, and objects that memory alone holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionStatus {
    /// The policy.
    pub policy: Admission,
    /// Bytes a day that may be written.
    pub bytes_per_day: Option<u64>,
    /// Level of the budget, in 1024ths of an hour's bytes.
    pub level: u32,
    /// Objects that memory alone holds.
    pub held: u64,
    /// Bytes of memory that they take.
    pub held_bytes: u64,
}

/// Namespace of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceStatus {
    /// Counts since the mount.
    pub counters: NamespaceCounters,
    /// Live objects, as far as known.
    pub objects: u64,
    /// Zones of its own with pages.
    pub zones: usize,
    /// Most zones of its own.
    pub zones_max: usize,
    /// Bytes of memory that copies take in its share.
    pub copies_bytes: u64,
    /// Share of the cache, if the namespace has one.
    pub share: Option<Share>,
}

/// Status of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Counts since the mount.
    pub counters: Counters,
    /// Live objects, as far as known.
    pub objects: u64,
    /// Bytes of memory for the index.
    pub index_bytes: u64,
    /// Slots of the index in use.
    pub index_slots: u64,
    /// Slots that it has.
    pub index_slots_max: u64,
    /// Bytes of memory for what remembers objects that were forgotten or evicted.
    pub ghost_bytes: u64,
    /// Bytes of memory in buffers.
    pub buffer_bytes: u64,
    /// Bytes of memory for what the next directories list.
    pub listing_bytes: u64,
    /// Bytes of memory that copies of objects take.
    pub copies_bytes: u64,
    /// Copies of objects in memory.
    pub copies: u64,
    /// Eviction policy: chooses the zones that make room.
    pub eviction: Eviction,
    /// Admission to flash.
    pub admission: AdmissionStatus,
    /// Moment at which stores are answered.
    pub acknowledge: Acknowledge,
    /// Place that invalidations have to reach before an answer.
    pub invalidate: Invalidate,
    /// Zones of all drives.
    pub zones: ZoneCounts,
    /// Namespaces, by their numbers.
    pub namespaces: [NamespaceStatus; NAMESPACES],
    /// Bytes of zones with pages.
    pub flash_bytes: u64,
    /// Bytes of these that expired objects take, estimated: never more than there are.
    pub expired_bytes: u64,
    /// Drives in use.
    pub drives: usize,
    /// True when no drive takes writes.
    pub frozen: bool,
    /// The last recovery.
    pub recovery: Recovery,
}

impl Status {
    /// All bytes of memory: never more than the cache was given.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let tables = self.index_bytes + self.ghost_bytes + self.listing_bytes;
        tables + self.buffer_bytes + self.copies_bytes + self.admission.held_bytes
    }

    /// Bytes of memory for each object that the index has a slot for.
    #[must_use]
    pub fn memory_of_slot(&self) -> f64 {
        let tables = self.index_bytes + self.ghost_bytes + self.listing_bytes;
        #[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
        let ratio = tables as f64 / self.index_slots_max.max(1) as f64;
        ratio
    }

    /// Part of the flash in use that expired objects take.
    #[must_use]
    pub fn expired_share(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
        let share = self.expired_bytes as f64 / self.flash_bytes.max(1) as f64;
        share
    }

    /// Bytes of a batch on the mean: what leaves for a drive in one command; none before one was written.
    #[must_use]
    pub fn batch_bytes(&self) -> Option<u64> {
        let Counters { blocks_data, blocks_directory, batches, .. } = self.counters;
        ((blocks_data + blocks_directory) * BLOCK_BYTES_U64).checked_div(batches)
    }

    /// All bytes written over those of keys and values admitted; none before anything was.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let counters = &self.counters;
        #[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
        let ratio = counters.bytes_written() as f64 / counters.bytes_admitted as f64;
        (counters.bytes_admitted > 0).then_some(ratio)
    }
}

impl AddAssign for Counters {
    /// Adds those of another shard.
    fn add_assign(&mut self, other: Counters) {
        let Counters {
            hits_buffer,
            hits_memory,
            hits_flash,
            misses,
            expired,
            stores,
            removes,
            pages_read,
            bytes_stored,
            bytes_admitted,
            forgotten,
            bytes_forgotten,
            blocks_data,
            blocks_directory,
            blocks_journal,
            blocks_superblock,
            entries,
            entries_carried,
            batches,
            zones_evicted,
            zones_expired,
            zones_spared,
            reinserted,
            bytes_reinserted,
            recalled,
            index_full,
            damaged,
            drives_failed,
            absences,
            namespaces,
        } = other;
        self.hits_buffer += hits_buffer;
        self.hits_memory += hits_memory;
        self.hits_flash += hits_flash;
        self.misses += misses;
        self.expired += expired;
        self.stores += stores;
        self.removes += removes;
        self.pages_read += pages_read;
        self.bytes_stored += bytes_stored;
        self.bytes_admitted += bytes_admitted;
        self.forgotten += forgotten;
        self.bytes_forgotten += bytes_forgotten;
        self.blocks_data += blocks_data;
        self.blocks_directory += blocks_directory;
        self.blocks_journal += blocks_journal;
        self.blocks_superblock += blocks_superblock;
        self.entries += entries;
        self.entries_carried += entries_carried;
        self.batches += batches;
        self.zones_evicted += zones_evicted;
        self.zones_expired += zones_expired;
        self.zones_spared += zones_spared;
        self.reinserted += reinserted;
        self.bytes_reinserted += bytes_reinserted;
        self.recalled += recalled;
        self.index_full += index_full;
        self.damaged += damaged;
        self.drives_failed = self.drives_failed.max(drives_failed);
        // These are of all shards alike.
        self.absences = self.absences.max(absences);
        self.namespaces.iter_mut().zip(namespaces).for_each(|(own, more)| *own += more);
    }
}

impl AddAssign for NamespaceCounters {
    /// Adds those of another shard.
    fn add_assign(&mut self, other: NamespaceCounters) {
        let NamespaceCounters { hits, misses, stores, zones_evicted } = other;
        self.hits += hits;
        self.misses += misses;
        self.stores += stores;
        self.zones_evicted += zones_evicted;
    }
}

impl AddAssign for DriveStatus {
    /// Adds that of the same drive in another shard: it is up when it is in both.
    fn add_assign(&mut self, other: DriveStatus) {
        let DriveStatus { up, zones, journal_zones_max, bytes_used, bytes, in_flight } = other;
        self.up &= up;
        self.zones += zones;
        self.journal_zones_max += journal_zones_max;
        self.bytes_used += bytes_used;
        self.bytes += bytes;
        self.in_flight += in_flight;
    }
}

impl AddAssign for Recovery {
    /// Adds that of another shard: a drive that began empty in both counts once.
    fn add_assign(&mut self, other: Recovery) {
        let Recovery {
            records_found,
            records_hidden,
            records_older,
            records_without_slot,
            records_beside,
            zones_dropped,
            drives_emptied,
            records_shared,
            is_emptied,
        } = other;
        self.records_found += records_found;
        self.records_hidden += records_hidden;
        self.records_older += records_older;
        self.records_without_slot += records_without_slot;
        self.records_beside += records_beside;
        self.zones_dropped += zones_dropped;
        self.drives_emptied = self.drives_emptied.max(drives_emptied);
        self.records_shared += records_shared;
        self.is_emptied |= is_emptied;
    }
}

impl AddAssign for AdmissionStatus {
    /// Adds that of another shard: what is left of the budget is that of the one that has least.
    fn add_assign(&mut self, other: AdmissionStatus) {
        let AdmissionStatus { bytes_per_day, level, held, held_bytes, .. } = other;
        self.bytes_per_day = self.bytes_per_day.zip(bytes_per_day).map(|(own, more)| own + more);
        self.level = self.level.min(level);
        self.held += held;
        self.held_bytes += held_bytes;
    }
}

impl AddAssign for NamespaceStatus {
    /// Adds that of another shard, which has the same share.
    fn add_assign(&mut self, other: NamespaceStatus) {
        let NamespaceStatus { counters, objects, zones, zones_max, copies_bytes, .. } = other;
        self.counters += counters;
        self.objects += objects;
        self.zones += zones;
        self.zones_max += zones_max;
        self.copies_bytes += copies_bytes;
    }
}

impl AddAssign for Status {
    /// Adds that of another shard, which is served in the same way.
    fn add_assign(&mut self, other: Status) {
        let Status {
            counters,
            objects,
            index_bytes,
            index_slots,
            index_slots_max,
            ghost_bytes,
            buffer_bytes,
            listing_bytes,
            copies_bytes,
            copies,
            admission,
            zones,
            namespaces,
            flash_bytes,
            expired_bytes,
            drives,
            frozen,
            recovery,
            ..
        } = other;
        self.counters += counters;
        self.objects += objects;
        self.index_bytes += index_bytes;
        self.index_slots += index_slots;
        self.index_slots_max += index_slots_max;
        self.ghost_bytes += ghost_bytes;
        self.buffer_bytes += buffer_bytes;
        self.listing_bytes += listing_bytes;
        self.copies_bytes += copies_bytes;
        self.copies += copies;
        self.admission += admission;
        self.zones += zones;
        self.namespaces.iter_mut().zip(namespaces).for_each(|(own, more)| *own += more);
        self.flash_bytes += flash_bytes;
        self.expired_bytes += expired_bytes;
        self.drives = self.drives.min(drives);
        self.frozen |= frozen;
        self.recovery += recovery;
    }
}
