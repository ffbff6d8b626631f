//! What a cache says of itself.

use crate::policy::Eviction;

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
    /// Blocks of records and zone headers written.
    pub blocks_data: u64,
    /// Blocks of journals written.
    pub blocks_journal: u64,
    /// Superblocks written.
    pub blocks_superblock: u64,
    /// Journal entries issued.
    pub entries: u64,
    /// Batches written.
    pub batches: u64,
    /// Zones evicted.
    pub zones_evicted: u64,
    /// Zones that eviction has passed over since they were hit.
    pub zones_spared: u64,
    /// Objects that were written anew when their zone went.
    pub reinserted: u64,
    /// Bytes of their keys and values.
    pub bytes_reinserted: u64,
    /// Objects that found no slot.
    pub index_full: u64,
    /// Pages or records that failed their checksum, or could not be read.
    pub damaged: u64,
    /// Drives that failed.
    pub drives_failed: u64,
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
    /// Of those with pages, the ones that hold what was hot when other zones went.
    pub main: usize,
}

/// What the last recovery found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Records that lie in zones of this cache.
    pub records_found: u64,
    /// Of these, those that journals or a clear hide.
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
    /// Bytes of memory in buffers.
    pub buffer_bytes: u64,
    /// Bytes of memory that copies of objects take.
    pub copies_bytes: u64,
    /// Copies of objects in memory.
    pub copies: u64,
    /// Which zones make room.
    pub eviction: Eviction,
    /// Zones of all drives.
    pub zones: ZoneCounts,
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
        self.index_bytes + self.buffer_bytes + self.copies_bytes
    }

    /// All bytes written over those of keys and values taken in; none before anything was.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let counters = &self.counters;
        let blocks = counters.blocks_data + counters.blocks_journal + counters.blocks_superblock;
        #[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
        let ratio = (blocks * 4096) as f64 / counters.bytes_stored as f64;
        (counters.bytes_stored > 0).then_some(ratio)
    }
}
