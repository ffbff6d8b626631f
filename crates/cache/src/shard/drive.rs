//! Drives and zones as a shard sees them.

use super::buffer::Batch;
use crate::format::NAMESPACES;
use base::units::ZoneIndex;
use std::collections::VecDeque;

use crate::format::journal::Entry;
use crate::hash::Ident;

/// What a zone is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneUse {
    /// The superblock log, or a zone that the drive has given up.
    Kept,
    /// Nothing; it is empty.
    Free,
    /// Pages, with room for more.
    Open,
    /// Pages.
    Full,
    /// A victim whose readers and writers end.
    Draining,
    /// A victim that is being reset.
    Resetting,
    /// Empty; slots may still name it.
    Sweeping,
    /// Journal blocks.
    Journal,
}

/// A zone.
#[derive(Clone, Copy, Debug)]
pub struct Zone {
    /// What it is used for.
    pub used: ZoneUse,
    /// Sequence at which this life of it began.
    pub birth: u64,
    /// Next block to write.
    pub end: u32,
    /// Reads under way.
    pub readers: u32,
    /// Objects that it holds, by namespace.
    pub live: [u32; NAMESPACES],
}

impl Zone {
    /// A zone that holds nothing.
    #[must_use]
    pub fn new(used: ZoneUse) -> Zone {
        Zone { used, birth: 0, end: 0, readers: 0, live: [0; NAMESPACES] }
    }

    /// True when its pages can be read.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        matches!(self.used, ZoneUse::Open | ZoneUse::Full)
    }

    /// True when bytes of objects are, or may be, on its media.
    #[must_use]
    pub fn holds_data(&self) -> bool {
        matches!(self.used, ZoneUse::Open | ZoneUse::Full | ZoneUse::Draining | ZoneUse::Resetting)
    }
}

/// A zone of the journal.
#[derive(Clone, Copy, Debug)]
pub struct JournalZone {
    /// The zone.
    pub zone: ZoneIndex,
    /// Sequence of its last block: no entry of it has a higher one.
    pub last: u64,
}

/// An entry that is on its way.
#[derive(Clone, Copy, Debug)]
pub struct PendingEntry {
    /// The entry.
    pub entry: Entry,
    /// What it hides.
    pub ident: Ident,
    /// Its number among those on their way.
    pub number: u64,
}

/// Journal of a drive.
#[derive(Debug, Default)]
pub struct Journal {
    /// Its zones, oldest first.
    pub zones: VecDeque<JournalZone>,
    /// True when the last of them takes more blocks.
    pub is_open: bool,
    /// Of those that a mount found, the ones whose last block does not say that it is the last.
    pub unclosed: Vec<ZoneIndex>,
    /// The header of the last of them is in flight.
    pub is_heading: bool,
    /// Entries that wait for the block in flight.
    pub pending: VecDeque<PendingEntry>,
    /// Entries of the block in flight.
    pub flight: Vec<PendingEntry>,
}

impl Journal {
    /// True while a block of it is in flight.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.is_heading || !self.flight.is_empty()
    }
}

/// Place in the superblock log of a drive.
#[derive(Clone, Copy, Debug)]
pub struct LogPlace {
    /// Zone 0 or 1.
    pub zone: ZoneIndex,
    /// Next block.
    pub end: u32,
}

/// A drive.
#[derive(Debug)]
pub struct Drive {
    /// False when it is missing, or has failed.
    pub up: bool,
    /// Completed writes may be lost until a flush.
    pub volatile: bool,
    /// Most blocks of a transfer.
    pub transfer_max: u32,
    /// Blocks of a zone.
    pub capacity: u32,
    /// Number of its first page among those of all drives.
    pub base: u32,
    /// Its zones.
    pub zones: Vec<Zone>,
    /// The zone that takes pages.
    pub open: Option<ZoneIndex>,
    /// Pages in flight.
    pub batch: Option<Batch>,
    /// Its journal.
    pub journal: Journal,
    /// Its superblock log.
    pub log: LogPlace,
    /// Zones that were offline when it was mounted.
    pub zones_lost: u32,
}

impl Drive {
    /// True when so many of its zones are lost that those left hold the journal and nothing else: no page of records would
    /// ever find a zone, and who stores would wait for ever.
    #[must_use]
    pub fn is_worn_out(&self) -> bool {
        self.up && self.count(|used| used != ZoneUse::Kept) <= self.journal_max()
    }

    /// Zones that are empty and swept.
    #[must_use]
    pub fn free_zones(&self) -> usize {
        self.count(|used| used == ZoneUse::Free)
    }

    /// Zones by use.
    #[must_use]
    pub fn count(&self, wanted: impl Fn(ZoneUse) -> bool) -> usize {
        self.zones.iter().filter(|zone| wanted(zone.used)).count()
    }

    /// Most zones of the journal: a 64th of the drive, and two at least.
    #[must_use]
    pub fn journal_max(&self) -> usize {
        (self.zones.len() / 64).max(2)
    }

    /// Zones that the journal may still take.
    #[must_use]
    pub fn journal_share(&self) -> usize {
        self.journal_max().saturating_sub(self.journal.zones.len())
    }

    /// Blocks that the open zone of the journal still takes.
    #[must_use]
    pub fn journal_room(&self) -> u32 {
        match self.journal.zones.back() {
            Some(last) if self.journal.is_open => self.capacity - self.zones[last.zone.index()].end,
            _ => 0,
        }
    }

    /// The first free zone.
    #[must_use]
    pub fn find_free(&self) -> Option<ZoneIndex> {
        let found = self.zones.iter().position(|zone| zone.used == ZoneUse::Free)?;
        Some(ZoneIndex(u32::try_from(found).expect("a u32 of zones")))
    }

    /// Zone of data that was born first, among those chosen.
    #[must_use]
    pub fn oldest(&self, chosen: impl Fn(&Zone) -> bool) -> Option<ZoneIndex> {
        let zones = (0..).zip(&self.zones).filter(|(_, zone)| chosen(zone));
        zones.min_by_key(|(_, zone)| zone.birth).map(|(index, _)| ZoneIndex(index))
    }

    /// Birth of the oldest zone that holds data.
    #[must_use]
    pub fn horizon(&self) -> u64 {
        let births = self.zones.iter().filter(|zone| zone.holds_data()).map(|zone| zone.birth);
        births.min().unwrap_or(u64::MAX)
    }
}
