//! What a cache is made of and how it is to behave.

use crate::admission::{Admission, Gate};
use crate::ghost::Ghost;
use crate::hash::{Shape, TAG_BITS_MAX};
use crate::index::{BUCKET_BYTES, PAGES_MAX, SLOTS};
use crate::names;
use crate::policy::{Eviction, Stream};
use crate::share::Shares;
use base::units::BLOCK_BYTES_U64;
use std::fmt;
use std::str::FromStr;
use zone::device::Geometry;

/// Longest time to live of objects in each group, in milliseconds: 5 minutes, 2 hours, 2 days.
pub const TTL_GROUPS: [u64; Stream::GROUPS.len()] = [300_000, 7_200_000, 172_800_000];

/// Identities of a new cache.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// Identity of the cache.
    pub cache: [u8; 16],
    /// Secret of its hashes: from a source that strangers cannot guess.
    pub secret: [u8; 16],
    /// Identities of its drives.
    pub drives: Vec<[u8; 16]>,
}

/// Bytes of a hash that the gate remembers.
const HASH_BYTES: u64 = 4;

/// Acknowledgement of stores: the moment at which a store is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledge {
    /// Answer once entries that hide older versions are on the media: the object may be lost with the buffers.
    #[default]
    Memory,
    /// Answer once the object is on the media, too, if it goes to flash.
    Media,
}

/// Names on command lines.
const NAMES: [(&str, Acknowledge); 2] = [("memory", Acknowledge::Memory), ("media", Acknowledge::Media)];

impl FromStr for Acknowledge {
    type Err = String;

    fn from_str(text: &str) -> Result<Acknowledge, String> {
        names::parse(&NAMES, text)
    }
}

impl fmt::Display for Acknowledge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        names::write(&NAMES, self, f)
    }
}

/// Place that an invalidation of older versions has to reach before a client is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Invalidate {
    /// On the media.
    #[default]
    Media,
    /// In memory that outlives the process: after the end of the machine the cache begins empty.
    Process,
}

/// Names on command lines.
const INVALIDATE: [(&str, Invalidate); 2] = [("media", Invalidate::Media), ("process", Invalidate::Process)];

impl FromStr for Invalidate {
    type Err = String;

    fn from_str(text: &str) -> Result<Invalidate, String> {
        names::parse(&INVALIDATE, text)
    }
}

impl fmt::Display for Invalidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        names::write(&INVALIDATE, self, f)
    }
}

/// Options of a mounted cache.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Memory for index, buffers and copies of objects together.
    pub memory_bytes: u64,
    /// Most bytes of it for copies of objects: as many as there are, but in tests.
    pub copies_bytes_max: u64,
    /// Bytes of an object on the mean, key included: sizes the index.
    pub object_mean: u64,
    /// Eviction policy: chooses the zone that goes.
    pub eviction: Eviction,
    /// Most of a zone that is written anew when it goes, in hundredths.
    pub reinsert_percent: u32,
    /// Admission policy: chooses the objects that go to flash.
    pub admission: Admission,
    /// Bytes a day that `auto` admits, about.
    pub endurance: Option<u64>,
    /// Longest time to live of objects in each group, in milliseconds; zero is no group.
    pub ttl_groups: [u64; Stream::GROUPS.len()],
    /// Namespaces that have a part of the cache for themselves.
    pub shares: Shares,
    /// Bits of a tag; 12 but in tests.
    pub tag_bits: u32,
    /// Longest value that is stored, where drives allow it.
    pub object_max: usize,
    /// Most pages that are written together.
    pub batch_pages: u32,
    /// Zones of a drive for each open one that young objects have beside the first (ADR 79); 128 but in tests.
    pub zones_for_more: u32,
    /// Moment at which stores are answered.
    pub acknowledge: Acknowledge,
    /// Place that invalidations have to reach before an answer.
    pub invalidate: Invalidate,
}

impl Default for Options {
    fn default() -> Options {
        let object_max = 16 << 20;
        Options {
            memory_bytes: 256 << 20,
            copies_bytes_max: u64::MAX,
            eviction: Eviction::default(),
            reinsert_percent: 25,
            admission: Admission::default(),
            endurance: None,
            object_mean: 1024,
            ttl_groups: TTL_GROUPS,
            shares: Shares::default(),
            tag_bits: TAG_BITS_MAX,
            object_max,
            batch_pages: 64,
            zones_for_more: 128,
            acknowledge: Acknowledge::default(),
            invalidate: Invalidate::default(),
        }
    }
}

/// Slots of an index of so many bytes.
pub(crate) fn slots_of(index_bytes: u64) -> u64 {
    index_bytes / BUCKET_BYTES as u64 * SLOTS as u64
}

impl Options {
    /// Options of one of so many shards: memory and endurance are divided, the rest is the whole cache's.
    #[must_use]
    pub fn part_of(&self, shards: usize) -> Options {
        let shards = shards as u64;
        Options {
            memory_bytes: self.memory_bytes / shards,
            endurance: self.endurance.map(|bytes| bytes / shards),
            ..*self
        }
    }

    /// Bytes that buffers may take: a quarter of the memory.
    #[must_use]
    pub fn buffer_bytes(&self) -> u64 {
        self.memory_bytes / 4
    }

    /// Bytes for what the next directories list: a 32nd of the memory.
    #[must_use]
    pub fn listing_bytes(&self) -> u64 {
        self.memory_bytes / 32
    }

    /// Bytes of what clients stored at which stores wait: the last that does not wait may be as large.
    #[must_use]
    pub fn stored_bytes_full(&self) -> u64 {
        self.buffer_bytes() / 8 * 3
    }

    /// Most bytes of what is written anew: what stores leave of the buffers.
    #[must_use]
    pub fn again_bytes_max(&self) -> u64 {
        self.buffer_bytes() / 8 * 2
    }

    /// Ghost of objects that went with young zones, beside an index of so many bytes: one place for each slot, if memory has the
    /// room, where the policy asks.
    #[must_use]
    pub fn evicted(&self, index_bytes: u64) -> Ghost<u8> {
        let wanted = slots_of(index_bytes);
        let objects = if self.eviction.reinserts() { wanted.min(self.rest(index_bytes) / 4) } else { 0 };
        Ghost::new(usize::try_from(objects).unwrap_or(usize::MAX))
    }

    /// Admission gate beside an index of so many bytes. It remembers a hash for each four slots, or more where objects are
    /// large: as many as a 128th of the memory holds, if memory has the room.
    #[must_use]
    pub fn gate(&self, index_bytes: u64) -> Gate {
        let wanted = (slots_of(index_bytes) / 4).max(self.memory_bytes / 128 / HASH_BYTES);
        let hashes =
            if self.admission == Admission::All { 0 } else { wanted.min(self.rest(index_bytes) / 16) };
        Gate::new(self.admission, self.endurance, usize::try_from(hashes).unwrap_or(usize::MAX))
    }

    /// Bytes of memory that buffers, listings and an index of so many bytes leave.
    fn rest(&self, index_bytes: u64) -> u64 {
        self.memory_bytes.saturating_sub(self.buffer_bytes() + self.listing_bytes() + index_bytes)
    }

    /// The stream of an object that lives for so many milliseconds, where drives have zones for so many groups.
    #[must_use]
    pub fn stream_of(&self, lives: u64, groups: usize) -> Stream {
        let groups = Stream::groups(groups);
        let all = Stream::GROUPS.iter().zip(self.ttl_groups);
        let mut fitting = all.filter(|(group, most)| groups.contains(group) && lives <= *most && *most > 0);
        fitting.next().map_or(Stream::Young, |(group, _)| *group)
    }

    /// Streams that objects may go to: one of all, by its number.
    #[must_use]
    pub fn stream_at(&self, number: usize) -> Stream {
        match Stream::COMMON.get(number) {
            Some(stream) => *stream,
            None => {
                let share = self.shares.of_flash().nth(number - Stream::COMMON.len());
                Stream::Share(share.expect("there are as many").namespace)
            }
        }
    }

    /// Count of streams that objects may go to.
    #[must_use]
    pub fn streams(&self) -> usize {
        Stream::COMMON.len() + self.shares.of_flash().count()
    }

    fn buckets_wanted(&self, flash_bytes: u64) -> u64 {
        flash_bytes / (self.object_mean + 7).max(1) * 10 / 9 / SLOTS as u64 + 1
    }

    /// Least memory in which the index for drives of this size has as many slots as it should.
    #[must_use]
    pub fn memory_for(&self, flash_bytes: u64) -> u64 {
        let index = self.buckets_wanted(flash_bytes).saturating_mul(BUCKET_BYTES as u64);
        let rest = if self.admission == Admission::All { index } else { index.div_ceil(3).saturating_mul(4) };
        // What buffers and listings leave is 23 of 32 parts.
        rest.div_ceil(23).saturating_mul(32)
    }

    /// Judges whether the memory holds an index with as many slots as drives of this size should have.
    ///
    /// # Errors
    /// When it does not.
    pub fn check_memory(&self, flash_bytes: u64) -> Result<(), MemoryShort> {
        let (needed, given) = (self.memory_for(flash_bytes), self.memory_bytes);
        if needed <= given {
            return Ok(());
        }
        let fits = |object_mean: u64| Options { object_mean, ..*self }.memory_for(flash_bytes) <= given;
        // The mean only lowers what is needed: halves of what is left are tried.
        let (mut too_small, mut enough) = (self.object_mean, flash_bytes);
        while enough - too_small > 1 {
            let between = too_small.midpoint(enough);
            *(if fits(between) { &mut enough } else { &mut too_small }) = between;
        }
        Err(MemoryShort { needed, given, flash_bytes, object_mean: self.object_mean, enough })
    }

    /// The index for drives of this size: as many slots as objects of the mean size have room at 90 % of use, or as many
    /// as the memory holds.
    #[must_use]
    pub fn shape(&self, flash_bytes: u64) -> Shape {
        let wanted = self.buckets_wanted(flash_bytes);
        let rest = self.memory_bytes - self.buffer_bytes() - self.listing_bytes();
        // What is not admitted is held in memory, and remembered.
        let affordable =
            if self.admission == Admission::All { rest } else { rest / 4 * 3 } / BUCKET_BYTES as u64;
        let buckets = wanted.min(affordable).clamp(1, (1 << 36) - 1);
        Shape::new(buckets, self.tag_bits.clamp(1, TAG_BITS_MAX)).expect("clamped to what is possible")
    }
}

/// The memory does not hold the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryShort {
    /// Bytes that index, buffers and copies would need.
    pub needed: u64,
    /// Bytes that they have.
    pub given: u64,
    /// Bytes of the drives.
    pub flash_bytes: u64,
    /// Bytes of an object on the mean.
    pub object_mean: u64,
    /// Bytes of the smallest objects, on the mean, for which the memory would do.
    pub enough: u64,
}

impl MemoryShort {
    /// Shortage of all shards together, where each of so many is short of as much as this one.
    #[must_use]
    pub fn of_all(self, shards: usize) -> MemoryShort {
        let shards = shards as u64;
        MemoryShort {
            needed: self.needed.saturating_mul(shards),
            given: self.given * shards,
            flash_bytes: self.flash_bytes * shards,
            ..self
        }
    }
}

/// Why drives do not do for a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrivesError {
    /// No drives, or too many.
    Count(usize),
    /// A drive has too few zones.
    Zones {
        /// The drive.
        place: usize,
        /// Zones that it has.
        zones: u32,
    },
    /// A drive allows too few active zones.
    ActiveZones {
        /// The drive.
        place: usize,
        /// Active zones that it allows.
        zones: u32,
    },
    /// Together they have more pages than an index can name.
    TooLarge {
        /// Their pages.
        pages: u64,
    },
}

/// Fewest zones of a drive: superblocks, journal, two of data and two free.
pub const ZONES_MIN: u32 = 8;
/// Fewest active zones of a drive: superblocks, journal, data and one that is being ended. Main zones want one more.
pub const ACTIVE_ZONES_MIN: u32 = 5;

impl fmt::Display for DrivesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DrivesError::Count(count) => write!(f, "a cache has 1 to 32 drives, not {count}"),
            DrivesError::Zones { place, zones } => {
                write!(f, "drive {place} has {zones} zones; a cache needs {ZONES_MIN}: use smaller zones")
            }
            DrivesError::ActiveZones { place, zones } => {
                write!(f, "drive {place} allows {zones} active zones; a cache needs {ACTIVE_ZONES_MIN}")
            }
            DrivesError::TooLarge { pages } => write!(
                f,
                "the drives have {} GiB; a cache of one shard holds at most 1 TiB: use fewer or smaller drives",
                (pages * BLOCK_BYTES_U64) >> 30
            ),
        }
    }
}

impl std::error::Error for DrivesError {}

/// Judges drives by their geometries, `None` where one is missing.
///
/// # Errors
/// When a cache cannot be made of them.
pub fn check_drives(geometries: &[Option<Geometry>]) -> Result<(), DrivesError> {
    if geometries.is_empty() || geometries.len() > crate::format::MEMBERS_MAX {
        return Err(DrivesError::Count(geometries.len()));
    }
    let mut pages = 0;
    for (place, geometry) in geometries.iter().enumerate() {
        let Some(geometry) = geometry else { continue };
        check_drive(place, geometry)?;
        pages += geometry.capacity_blocks();
    }
    if pages >= PAGES_MAX { Err(DrivesError::TooLarge { pages }) } else { Ok(()) }
}

/// Judges one drive by its geometry.
///
/// # Errors
/// When it has too few zones, or allows too few active ones.
pub fn check_drive(place: usize, geometry: &Geometry) -> Result<(), DrivesError> {
    let active = active_zones(geometry);
    match () {
        () if geometry.zones < ZONES_MIN => Err(DrivesError::Zones { place, zones: geometry.zones }),
        () if active < ACTIVE_ZONES_MIN => Err(DrivesError::ActiveZones { place, zones: active }),
        () => Ok(()),
    }
}

/// Zones that a drive allows to be both active and open.
#[must_use]
pub fn active_zones(geometry: &Geometry) -> u32 {
    geometry.active_zones_max.min(geometry.open_zones_max)
}

#[cfg(test)]
mod tests;
