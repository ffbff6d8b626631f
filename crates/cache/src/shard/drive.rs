//! Drives and zones as a shard sees them.

use super::buffer::Batch;
use super::carrying::Carry;
use super::needed::Needed;
use super::open::OpenZones;
use super::reinsertion::Collection;
use super::zones::{Zone, ZoneUse, Zones};
use crate::config::{ACTIVE_ZONES_MIN, Options, active_zones};
use crate::format::SUPERBLOCK_ZONES;
use crate::policy::{Candidate, Stream};
use base::units::ZoneIndex;
use std::collections::VecDeque;
use zone::device::Geometry;

use crate::format::journal::Entry;
use crate::hash::{Ident, Shape};
use crate::request::{Namespace, WallMillis};
use crate::share::OwnShare;

/// A drive has so many zones for each that is open beside the young one.
const ZONES_FOR_OPEN_ONE: u32 = 5;

/// Most open zones of young objects beside the first one.
const MORE_MAX: usize = 7;

/// Free zones of which one is chosen.
const ZONES_LOOKED_AT: usize = 8;

/// A zone of the journal.
#[derive(Clone, Debug)]
pub struct JournalZone {
    /// The zone.
    pub zone: ZoneIndex,
    /// Sequence of its last block: no entry of it has a higher one.
    pub last: u64,
    /// Entries of the zone.
    pub entries: JournalEntries,
}

impl JournalZone {
    /// True when what is needed of its entries stands in later zones.
    #[must_use]
    pub fn is_carried(&self) -> bool {
        matches!(self.entries, JournalEntries::Carried)
    }
}

/// Entries of a journal zone, by what may become of them when the zone has to go.
#[derive(Clone, Debug)]
pub enum JournalEntries {
    /// Entries of which those that are needed may be written again.
    Movable(Needed),
    /// Entries that mean something else in another zone, or cannot be read: they stay where they are.
    Bound,
    /// Entries of which the needed ones stand in later zones.
    Carried,
}

/// An entry that is on its way.
#[derive(Clone, Copy, Debug)]
pub struct PendingEntry {
    /// The entry.
    pub entry: Entry,
    /// Identity of the key that the entry hides.
    pub ident: Ident,
    /// Number of the entry among those on their way.
    pub number: u64,
    /// Number of the entry in memory that outlives the process: nobody waits for it.
    pub shared: Option<u64>,
}

impl PendingEntry {
    /// Entry that is written again: nobody waits for it.
    #[must_use]
    pub fn again(entry: Entry, shape: Shape) -> PendingEntry {
        PendingEntry { entry, ident: shape.ident(entry.hash), number: 0, shared: None }
    }
}

/// Journal of a drive.
#[derive(Debug, Default)]
pub struct Journal {
    /// Journal zones, oldest first.
    pub zones: VecDeque<JournalZone>,
    /// True when the last of them takes more blocks.
    pub is_open: bool,
    /// Zones found by a mount whose last block does not say that it is the last.
    pub unclosed: Vec<ZoneIndex>,
    /// The header of the last of them is in flight.
    pub is_heading: bool,
    /// Entries that wait for the block in flight.
    pub pending: VecDeque<PendingEntry>,
    /// Count of pending entries that no shared memory holds.
    pub urgent: usize,
    /// Entries of the block in flight.
    pub flight: Vec<PendingEntry>,
    /// Time that the block in flight tells.
    pub telling: Option<ToldTime>,
    /// Time that the last durable block tells.
    pub told: ToldTime,
    /// A block is wanted for the time alone.
    pub wants_time: bool,
    /// The oldest zone, while its entries are written again.
    pub carry: Option<Carry>,
}

/// The time as a journal block tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToldTime {
    /// Latest wall time seen.
    pub wall: WallMillis,
    /// Sequence of the block: it is there as long as a zone that was born before it.
    pub sequence: u64,
}

impl Journal {
    /// True while a block of it is in flight.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.is_heading || self.telling.is_some()
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

/// Zones of pages that a drive may have open beside the young one and those of shares.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenLimits {
    /// Zones of other common streams, and those being finished: none, where the drive allows no more active zones than are needed; one is
    /// for main objects, others for groups.
    pub others: usize,
    /// Zones of young objects, beside the first.
    pub more: usize,
}

impl OpenLimits {
    /// As many as there are streams, if active zones suffice and they are a fifth of the drive at most; then more young ones.
    fn of(geometry: &Geometry, shares: usize, zones_for_more: u32) -> OpenLimits {
        let spare = (active_zones(geometry).saturating_sub(ACTIVE_ZONES_MIN) as usize).saturating_sub(shares);
        let others = spare.min((geometry.zones / ZONES_FOR_OPEN_ONE) as usize).min(Stream::COMMON.len() - 1);
        let more = (spare - others).min((geometry.zones / zones_for_more) as usize).min(MORE_MAX);
        OpenLimits { others, more }
    }
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
    /// Pages of its place.
    pub span: u32,
    /// Zones of the drive.
    pub zones: Zones,
    /// The zones that take pages, by stream.
    pub open: OpenZones,
    /// Zones of namespaces for themselves.
    pub shares: Vec<OwnShare>,
    /// Zones of pages that it may have open.
    pub limits: OpenLimits,
    /// No full zone expires before this time.
    pub over_at: WallMillis,
    /// Zones that are being finished.
    pub finishing: u32,
    /// Birth of the zone that went last.
    pub hand: u64,
    /// The victim that is collected.
    pub collection: Option<Collection>,
    /// Pages in flight: a batch to each of the more zones of young objects at most, and one to all others.
    pub batches: Vec<Batch>,
    /// Journal of the drive.
    pub journal: Journal,
    /// Place in its superblock log.
    pub log: LogPlace,
    /// Zones that were offline when it was mounted.
    pub zones_lost: u32,
}

impl Drive {
    /// A drive that is missing, whose place has so many pages from `base` on.
    #[must_use]
    pub fn absent(base: u32, span: u32) -> Drive {
        Drive {
            up: false,
            volatile: false,
            transfer_max: 1,
            capacity: 1,
            base,
            span,
            zones: Zones::new(vec![Zone::new(ZoneUse::Kept)]),
            open: OpenZones::default(),
            shares: Vec::new(),
            limits: OpenLimits::default(),
            over_at: WallMillis(0),
            finishing: 0,
            hand: 0,
            collection: None,
            batches: Vec::new(),
            journal: Journal::default(),
            log: LogPlace { zone: ZoneIndex(0), end: 0 },
            zones_lost: 0,
        }
    }

    /// An empty drive in a place of so many pages.
    #[must_use]
    pub fn empty(base: u32, span: u32, geometry: &Geometry, options: &Options) -> Drive {
        assert!(geometry.zones > 0 && geometry.zone_capacity_blocks > 0, "a drive has room");
        let shares = options.shares.on(geometry);
        let used = |zone| if zone < SUPERBLOCK_ZONES { ZoneUse::Kept } else { ZoneUse::Free };
        Drive {
            up: true,
            volatile: geometry.volatile_cache,
            transfer_max: geometry.transfer_blocks_max,
            capacity: geometry.zone_capacity_blocks,
            zones: Zones::new((0..geometry.zones).map(|zone| Zone::new(used(zone))).collect()),
            limits: OpenLimits::of(geometry, shares.len(), options.zones_for_more),
            shares,
            ..Drive::absent(base, span)
        }
    }

    /// True when so many of its zones are lost that those left hold the journal and nothing else: no page of records would
    /// ever find a zone, and who stores would wait for ever.
    #[must_use]
    pub fn is_worn_out(&self) -> bool {
        self.up && self.zones.len() - self.zones.count(ZoneUse::Kept) <= self.journal_max()
    }

    /// Zones that are empty and swept.
    #[must_use]
    pub fn free_zones(&self) -> usize {
        self.zones.count(ZoneUse::Free)
    }

    /// Most zones of the journal: a 64th of the drive, and two at least.
    #[must_use]
    pub fn journal_max(&self) -> usize {
        journal_zones(self.zones.len())
    }

    /// Zones that the journal may still take.
    #[must_use]
    pub fn journal_share(&self) -> usize {
        self.journal_max().saturating_sub(self.journal.zones.len())
    }

    /// Zones that data may still take: what the journal may take is not for data.
    #[must_use]
    pub fn data_share(&self) -> usize {
        self.free_zones().saturating_sub(self.journal_share())
    }

    /// Full zones of some streams, oldest first, as policies see them.
    #[must_use]
    pub fn candidates(&self, chosen: impl Fn(Stream) -> bool) -> Vec<Candidate> {
        let full = (0..).zip(self.zones.iter()).filter(|(_, zone)| zone.used() == ZoneUse::Full);
        let candidate = |(index, zone): (u32, &Zone)| Candidate {
            zone: ZoneIndex(index),
            birth: zone.birth,
            stream: Stream::from_code(zone.stream).unwrap_or(Stream::Young),
            objects: zone.objects(),
            hits: zone.hits,
            last_hit: zone.last_hit,
        };
        let mut candidates: Vec<Candidate> = full.map(candidate).filter(|zone| chosen(zone.stream)).collect();
        candidates.sort_by_key(|zone| zone.birth);
        candidates
    }

    /// True when a zone may be opened for pages that may also go to a young one: the last free zone is for young objects, and so is
    /// an active zone while others are being ended.
    #[must_use]
    pub fn may_open_other(&self) -> bool {
        self.data_share() > 1 && self.others_open() + (self.finishing as usize) < self.limits.others
    }

    /// True when one more zone may be opened for young objects: the last free zone is kept for when the first is full, and active zones for
    /// those that are being ended.
    #[must_use]
    pub fn may_open_more(&self) -> bool {
        self.open.more().len() + (self.finishing as usize) < self.limits.more && self.data_share() > 1
    }

    /// True while no pages are on their way but to more zones of young objects: streams take turns.
    #[must_use]
    pub fn has_turn(&self) -> bool {
        self.batches.iter().all(|batch| self.open.more().any(|zone| zone == batch.zone))
    }

    /// True while pages are on their way to a zone.
    #[must_use]
    pub fn is_written(&self, zone: ZoneIndex) -> bool {
        self.batches.iter().any(|batch| batch.zone == zone)
    }

    /// Open zones of common streams, but for the young one.
    fn others_open(&self) -> usize {
        let others = Stream::COMMON.iter().filter(|stream| **stream != Stream::Young);
        others.filter(|stream| self.open.of(**stream).is_some()).count()
    }

    /// The zones of a namespace for itself, if it has some here.
    #[must_use]
    pub fn share(&self, namespace: Namespace) -> Option<&OwnShare> {
        self.shares.iter().find(|own| own.namespace == namespace)
    }

    /// Zones with pages of a stream that do not go yet.
    #[must_use]
    pub fn zones_of(&self, stream: Stream) -> usize {
        self.zones.iter().filter(|zone| zone.stays() && zone.stream == stream.code()).count()
    }

    /// True when a namespace may open one more zone of its share.
    #[must_use]
    pub fn may_open_share(&self, own: &OwnShare) -> bool {
        let open = self.shares.iter().filter(|own| self.open.of(Stream::Share(own.namespace)).is_some());
        let active = open.count() + self.others_open() + self.finishing as usize;
        let has_active = active < self.limits.others + self.shares.len();
        let has_zones = self.zones_of(Stream::Share(own.namespace)) < own.zones_max;
        self.data_share() > 0 && has_active && has_zones
    }

    /// Most zones that take pages at once.
    #[must_use]
    pub fn open_max(&self) -> usize {
        1 + self.limits.more + self.limits.others + self.shares.len()
    }

    /// Groups that have zones of their own: main objects come first.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.limits.others.saturating_sub(1).min(Stream::GROUPS.len())
    }

    /// A zone has as many pages as it will have.
    pub fn fill_up(&mut self, zone: ZoneIndex) {
        self.zones.turn(zone, ZoneUse::Full);
        let found = &self.zones[zone.index()];
        self.over_at = found.expiries.last().map_or(self.over_at, |last| self.over_at.min(last));
        self.close(zone);
    }

    /// A zone takes no more pages.
    pub fn close(&mut self, zone: ZoneIndex) {
        self.open.close(zone);
    }

    /// Blocks that the open zone of the journal still takes.
    #[must_use]
    pub fn journal_room(&self) -> u32 {
        match self.journal.zones.back() {
            Some(last) if self.journal.is_open => {
                let end = self.zones[last.zone.index()].end;
                assert!(end <= self.capacity, "a zone ends where it does: {end} of {}", self.capacity);
                self.capacity - end
            }
            _ => 0,
        }
    }

    /// True when the journal is at its bound, and its open zone half full.
    #[must_use]
    pub fn is_journal_short(&self) -> bool {
        self.journal_share() == 0 && self.journal_room() * 2 < self.capacity
    }

    /// Time before which no full zone expires.
    #[must_use]
    pub fn next_over(&self) -> WallMillis {
        let full = self.zones.iter().filter(|zone| zone.used() == ZoneUse::Full);
        full.filter_map(|zone| zone.expiries.last()).min().unwrap_or(WallMillis(u64::MAX))
    }

    /// Free zone, among the first few, whose number shares the fewest low bits with those that take pages: drives lay neighbouring zones on
    /// different channels, and do not say on which.
    #[must_use]
    pub fn find_free(&self) -> Option<ZoneIndex> {
        let free = (0..).zip(self.zones.iter()).filter(|(_, zone)| zone.used() == ZoneUse::Free);
        let shared = |zone: u32| self.open.iter().map(|open| (open.zone.0 ^ zone).trailing_zeros()).max();
        free.map(|(zone, _)| zone).take(ZONES_LOOKED_AT).min_by_key(|zone| shared(*zone)).map(ZoneIndex)
    }

    /// Zone of data that was born first, among those chosen.
    #[must_use]
    pub fn oldest(&self, chosen: impl Fn(&Zone) -> bool) -> Option<ZoneIndex> {
        let zones = (0..).zip(self.zones.iter()).filter(|(_, zone)| chosen(zone));
        zones.min_by_key(|(_, zone)| zone.birth).map(|(index, _)| ZoneIndex(index))
    }
}

/// Most zones of the journal of a drive with so many.
pub(crate) fn journal_zones(zones: usize) -> usize {
    (zones / 64).max(2)
}

#[cfg(test)]
mod tests {
    use super::super::open::OpenZone;
    use super::*;
    use crate::share::tests::geometry;

    fn limits(zones: u32, active: u32, shares: usize) -> OpenLimits {
        OpenLimits::of(&geometry(zones, active), shares, 128)
    }

    #[test]
    fn young_objects_have_more_zones_where_active_ones_are_left() {
        let more = |zones, active, shares| limits(zones, active, shares).more;
        assert_eq!([9, 10, 14, 50].map(|active| more(904, active, 0)), [0, 1, 5, MORE_MAX]);
        assert_eq!(more(904, 14, 3), 2, "shares come first");
        assert_eq!(
            [127, 128, 256].map(|zones| more(zones, 50, 0)),
            [0, 1, 2],
            "none where they would take much"
        );
        assert_eq!(limits(904, 14, 0).others, Stream::COMMON.len() - 1);
    }

    #[test]
    fn a_zone_is_opened_that_is_far_from_those_that_are_open() {
        let mut drive = Drive::empty(0, 40 * 64, &geometry(40, 14), &Options::default());
        let mut opened = Vec::new();
        for stream in [Stream::Young, Stream::Main, Stream::Hours] {
            let zone = drive.find_free().expect("all are free");
            drive.zones.begin(zone, ZoneUse::Open, (1, WallMillis(0)), stream.code());
            drive.open.open(stream, OpenZone { zone, listing: None });
            opened.push(zone.0);
        }
        assert_eq!(opened, [2, 3, 4]);
    }
}
