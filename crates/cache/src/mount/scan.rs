//! Reading a drive: what its zones hold.

use super::directories::by_directories;
use super::found::FoundRecords;
use super::media::Media;
use super::pages::{DataScan, by_pages};
use super::reader::Reader;
use super::{Findings, MountError, pages};
use crate::config::Options;
use crate::format::SUPERBLOCK_ZONES;
use crate::format::directory::Listing;
use crate::format::header::Role;
use crate::format::journal::{Entry, JournalBlock};
use crate::format::stamp::{Kind, Life, Stamp};
use crate::hash::Shape;
use crate::policy::Stream;
use crate::request::WallMillis;
use crate::shard::{
    Drive, Expiries, Journal, JournalEntries, JournalZone, LogPlace, Needed, OpenZone, OpenZones, Zone,
    ZoneUse, Zones,
};
use base::frame::Frame;
use base::units::{BLOCK_BYTES_U64, ZoneIndex};
use zone::device::{Geometry, Op, ZoneDescriptor, ZoneState};

/// Contents of a zone.
#[derive(Debug)]
pub enum Contents {
    /// Nothing.
    Empty,
    /// The drive has given it up, or the superblock log is in it.
    Kept,
    /// Something that is not this cache's, or cannot be judged.
    Unknown,
    /// As unknown, and perhaps a journal.
    LostJournal,
    /// Records.
    Data(FoundRecords),
    /// Entries in terms of this shape.
    Journal {
        /// Shape of the index of that life.
        shape: Shape,
        /// The entries.
        entries: Vec<Entry>,
        /// Pages below this sequence may be hidden by what cannot be read.
        lost_below: u64,
        /// Sequence of the last block with entries.
        last: u64,
        /// The last block says that it is the last.
        is_closed: bool,
    },
}

/// A zone that was read.
#[derive(Debug)]
pub struct ZoneScan {
    /// Contents of the zone.
    pub contents: Contents,
    /// Sequence at which its life began.
    pub birth: u64,
    /// Wall time at which it began.
    since: WallMillis,
    stream: u8,
    end: u32,
    /// True when the zone takes no more blocks.
    is_full: bool,
    /// Expiry times of its records.
    expiries: Expiries,
    /// Listing for its next directory.
    listing: Option<Listing>,
    /// True when directories list something else than the pages hold, as a check finds.
    is_listed_wrong: bool,
}

impl ZoneScan {
    /// Highest sequence of its records.
    fn last_record(&self) -> u64 {
        let Contents::Data(records) = &self.contents else { return 0 };
        records.last_sequence()
    }
}

/// A drive that was read.
#[derive(Debug)]
pub struct DriveScan {
    /// Zones of the drive, by index.
    pub zones: Vec<ZoneScan>,
    /// Latest that it knows.
    pub latest: Latest,
    /// Zones that are offline.
    pub zones_lost: u32,
}

/// Latest that headers, pages and journals of a drive know.
#[derive(Clone, Copy, Debug)]
pub struct Latest {
    /// Wall time.
    pub wall: WallMillis,
    /// Sequence.
    pub sequence: u64,
}

impl Latest {
    const NOTHING: Latest = Latest { wall: WallMillis(0), sequence: 0 };

    /// Something on the media knows these.
    pub fn knows(&mut self, wall: WallMillis, sequence: u64) {
        self.wall = self.wall.max(wall);
        self.sequence = self.sequence.max(sequence);
    }
}

/// Order to read drives of a cache.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The cache.
    pub cache: [u8; 16],
    /// Secret of the hashes of its keys.
    pub secret: &'a [u8; 16],
    /// Every page is read, and held against the directories.
    pub is_check: bool,
}

/// Reads drives of a cache, all of their zones side by side; `None` where one is missing.
pub fn scan_drives(
    media: &mut Media<'_>,
    geometries: &[Option<Geometry>],
    order: Order<'_>,
) -> Result<Vec<Option<DriveScan>>, MountError> {
    let mut zones = Vec::new();
    let mut scans = Vec::new();
    for (place, geometry) in geometries.iter().enumerate() {
        let Some(geometry) = geometry else {
            scans.push(None);
            continue;
        };
        let op = Op::Report { count: geometry.zones };
        let report = media.run(place, ZoneIndex(0), op)?.report;
        let is_lost = |found: &&ZoneDescriptor| found.state == ZoneState::Offline;
        let zones_lost = u32::try_from(report.iter().filter(is_lost).count()).expect("a u32 of zones");
        scans.push(Some(DriveScan { zones: Vec::new(), latest: Latest::NOTHING, zones_lost }));
        zones.extend((0..).map(ZoneIndex).zip(report).map(|(zone, found)| (place, zone, found, geometry)));
    }
    let places: Vec<usize> = zones.iter().map(|(place, ..)| *place).collect();
    let read = media.side_by_side(&places, |job, seat| {
        let (_, zone, found, geometry) = &zones[job];
        async move {
            let reader = Reader { seat, zone: *zone, transfer_max: geometry.transfer_blocks_max };
            let mut latest = Latest::NOTHING;
            (scan_zone(&reader, geometry, found, order, &mut latest).await, latest)
        }
    });
    for (place, (zone, latest)) in places.into_iter().zip(read) {
        let scan = scans[place].as_mut().expect("its zones were read");
        scan.zones.push(zone);
        scan.latest.knows(latest.wall, latest.sequence);
    }
    Ok(scans)
}

async fn scan_zone(
    reader: &Reader,
    geometry: &Geometry,
    found: &ZoneDescriptor,
    order: Order<'_>,
    latest: &mut Latest,
) -> ZoneScan {
    let capacity = geometry.zone_capacity_blocks;
    let (end, is_full) = match found.state {
        ZoneState::Empty => (0, false),
        ZoneState::Full | ZoneState::ReadOnly => (capacity, true),
        ZoneState::Offline => (0, true),
        _ => (found.write_pointer, found.write_pointer == capacity),
    };
    let expiries = Expiries::new(u64::from(capacity) * BLOCK_BYTES_U64);
    let (contents, listing) = (Contents::Unknown, None);
    let (birth, since, stream, is_listed_wrong) = (0, WallMillis(0), 0, false);
    let mut scan =
        ZoneScan { contents, birth, since, stream, end, is_full, expiries, listing, is_listed_wrong };
    if reader.zone.0 < SUPERBLOCK_ZONES || found.state == ZoneState::Offline {
        scan.contents = Contents::Kept;
        return scan;
    }
    if end == 0 {
        scan.contents = Contents::Empty;
        return scan;
    }
    let Some((life, header)) = reader.read_header(order.cache).await else {
        scan.contents = judge_headless(reader, end).await;
        return scan;
    };
    latest.knows(header.wall, life.birth);
    (scan.birth, scan.since, scan.stream) = (life.birth, header.wall, life.stream);
    let blocks = Blocks { life, end, is_full, capacity };
    match header.role {
        Role::Data if Stream::from_code(life.stream).is_none() => {}
        Role::Data => scan.read_data(reader, &blocks, order, latest).await,
        Role::Journal => scan.contents = scan_journal(reader, &blocks, header.shape, latest).await,
    }
    scan
}

impl ZoneScan {
    /// Reads a zone of data, by its directories if that is possible.
    async fn read_data(&mut self, reader: &Reader, blocks: &Blocks, order: Order<'_>, latest: &mut Latest) {
        let listed = by_directories(reader, (blocks, order.secret), latest).await;
        let found = if order.is_check {
            let read = by_pages(reader, (blocks, order.secret), latest).await;
            self.is_listed_wrong = read.is_some() && listed.is_some() && listed != read;
            read
        } else if listed.is_some() {
            listed
        } else {
            by_pages(reader, (blocks, order.secret), latest).await
        };
        let Some(DataScan { records, expiries, listing, is_closed }) = found else { return };
        self.is_full |= is_closed;
        (self.contents, self.expiries, self.listing) = (Contents::Data(records), expiries, listing);
    }
}

/// A zone whose header cannot be read may have been a journal, unless the blocks behind say otherwise.
async fn judge_headless(reader: &Reader, end: u32) -> Contents {
    if end == 1 {
        // Nothing follows the header.
        return Contents::Unknown;
    }
    let settled = async |page| {
        let look = async |reader: &Reader| match reader.read(page, 1).await.pop().flatten() {
            Some(frame) if frame.is_blank() => Found::Blank,
            Some(frame) => Stamp::read(&frame).map_or(Found::Damaged, |stamp| Found::Stamped(stamp.kind)),
            None => Found::Damaged,
        };
        reader.settled(look).await
    };
    match (settled(0).await, settled(1).await) {
        (_, Some(Found::Stamped(Kind::Records | Kind::Directory))) => Contents::Unknown,
        // A journal block follows a header that was written.
        (Some(Found::Blank), Some(Found::Blank)) => Contents::Unknown,
        _ => Contents::LostJournal,
    }
}

/// A block of a zone whose header cannot be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Blank,
    Stamped(Kind),
    Damaged,
}

/// Blocks of a zone behind its header.
pub struct Blocks {
    /// Life of the zone.
    pub life: Life,
    /// Write pointer, or the capacity of a full zone.
    pub end: u32,
    /// True when the zone takes no more blocks.
    pub is_full: bool,
    capacity: u32,
}

impl Blocks {
    /// Bytes that the zone holds.
    pub fn zone_bytes(&self) -> u64 {
        u64::from(self.capacity) * BLOCK_BYTES_U64
    }

    /// Stamp of a block that was written for this place as one of these kinds.
    pub fn stamp(&self, frame: &Frame, page: u32, kinds: &[Kind]) -> Option<Stamp> {
        Stamp::read_at(frame, &self.life, page).filter(|stamp| kinds.contains(&stamp.kind))
    }

    /// True of a block that was written for this place as one of these kinds.
    pub fn has(&self, frame: &Frame, page: u32, kinds: &[Kind]) -> bool {
        self.stamp(frame, page, kinds).is_some()
    }

    /// Blocks of some kinds from `offset` on; a zone that was finished early ends in blocks that were never written.
    pub async fn read(
        &self,
        reader: &Reader,
        (offset, has_ended): (u32, bool),
        kinds: &[Kind],
    ) -> impl Iterator<Item = (u32, Option<Frame>)> + use<> {
        let count = reader.stride().min(self.end - offset);
        let frames = reader.read_as(offset, count, |page, frame| match has_ended {
            true => frame.is_blank(),
            false => self.has(frame, page, kinds),
        });
        let frames = frames.await;
        (offset..).zip(frames)
    }
}

async fn scan_journal(reader: &Reader, blocks: &Blocks, shape: Shape, latest: &mut Latest) -> Contents {
    let (mut entries, mut lost_below, mut last) = (Vec::new(), 0, blocks.life.birth);
    let mut is_lost = false;
    let (mut offset, mut has_ended, mut is_closed) = (1, false, false);
    while offset < blocks.end {
        for (page, frame) in blocks.read(reader, (offset, has_ended), &[Kind::Journal]).await {
            offset = page + 1;
            if blocks.is_full && frame.as_ref().is_some_and(Frame::is_blank) {
                has_ended = true;
                continue;
            }
            // What is blank before a block that was written was written, too, and is lost.
            is_lost |= std::mem::take(&mut has_ended);
            let block = frame.as_ref().and_then(|frame| {
                let stamp = blocks.stamp(frame, page, &[Kind::Journal])?;
                Some((stamp.sequence, JournalBlock::decode(&frame.data)?))
            });
            match block {
                None => is_lost = true,
                Some((sequence, block)) => {
                    lost_below = if is_lost { sequence } else { lost_below };
                    (is_lost, is_closed) = (false, block.closes);
                    last = if block.closes { last } else { sequence };
                    latest.knows(block.wall, sequence);
                    entries.extend(block.entries);
                }
            }
        }
    }
    // Of a zone that was finished, the last block is known by what it says.
    is_lost |= has_ended && !is_closed;
    let lost_below = if is_lost { u64::MAX } else { lost_below };
    Contents::Journal { shape, entries, lost_below, last, is_closed }
}

impl DriveScan {
    /// Drops zones that a lost journal block may have said something of, and counts all that are dropped.
    pub fn drop_what_cannot_be_judged(&mut self) -> u64 {
        let births = self.zones.iter().filter(|zone| matches!(zone.contents, Contents::Journal { .. }));
        let births: Vec<u64> = births.map(|zone| zone.birth).collect();
        let lost = |zone: &ZoneScan| match zone.contents {
            // What the end of a journal zone said is older than the next journal zone.
            Contents::Journal { lost_below: u64::MAX, .. } => {
                births.iter().copied().filter(|birth| *birth > zone.birth).min().unwrap_or(u64::MAX)
            }
            Contents::Journal { lost_below, .. } => lost_below,
            Contents::LostJournal => u64::MAX,
            _ => 0,
        };
        let lost_below = self.zones.iter().map(lost).max().unwrap_or(0);
        for zone in &mut self.zones {
            if matches!(zone.contents, Contents::Data(_)) && zone.birth < lost_below {
                zone.contents = Contents::Unknown;
            }
        }
        let is_dropped =
            |zone: &&ZoneScan| matches!(zone.contents, Contents::Unknown | Contents::LostJournal);
        self.zones.iter().filter(is_dropped).count() as u64
    }

    /// Records in its pages.
    pub fn records(&self) -> u64 {
        let count = |zone: &ZoneScan| match &zone.contents {
            Contents::Data(records) => records.len() as u64,
            _ => 0,
        };
        self.zones.iter().map(count).sum()
    }

    /// The drive begins empty.
    pub fn drop_data(&mut self) {
        for zone in self.zones.iter_mut().filter(|zone| matches!(zone.contents, Contents::Data(_))) {
            zone.contents = Contents::Unknown;
        }
    }

    /// Births of zones of data, lowest first.
    fn births(&self) -> Vec<u64> {
        let with_data = self.zones.iter().filter(|zone| matches!(zone.contents, Contents::Data(_)));
        let mut births: Vec<u64> = with_data.map(|zone| zone.birth).collect();
        births.sort_unstable();
        births
    }

    /// Zones that take more pages: of each stream the newest one with room, and of young objects as many more as they may have.
    fn open_zones(&self, more: usize) -> OpenZones {
        let with_room = |stream: Stream| {
            let takes_more = |zone: &ZoneScan| matches!(zone.contents, Contents::Data(_)) && !zone.is_full;
            let all = (0..).map(ZoneIndex).zip(&self.zones);
            let found = all.filter(|(_, zone)| zone.stream == stream.code() && takes_more(zone));
            let mut found: Vec<_> = found.map(|(zone, scan)| (scan.birth, zone, scan)).collect();
            found.sort_by_key(|(birth, ..)| std::cmp::Reverse(*birth));
            found.into_iter().map(|(_, zone, scan)| OpenZone { zone, listing: scan.listing.clone() })
        };
        let mut open = OpenZones::default();
        for stream in Stream::all() {
            let mut found = with_room(stream);
            found.next().into_iter().for_each(|zone| open.open(stream, zone));
            if stream == Stream::Young {
                found.take(more).for_each(|zone| open.open_more(zone));
            }
        }
        open
    }

    /// The drive as the shard sees it.
    ///
    /// A journal zone of which something is lost stays until all is gone that was born before this mount, whose sequences
    /// begin at `mounted`: reset earlier, it would not be missed by a mount that comes after a cut.
    pub fn drive(
        &self,
        base: u32,
        (geometry, options): (&Geometry, &Options),
        (shape, mounted): (Shape, u64),
        log: LogPlace,
    ) -> Drive {
        let empty = Drive::empty(base, pages(geometry), geometry, options);
        let open = self.open_zones(empty.limits.more);
        let mut journals: Vec<(u64, JournalZone, bool)> = Vec::new();
        let mut unclosed = Vec::new();
        let births = self.births();
        let mut zones = Vec::new();
        for (index, scan) in (0..).map(ZoneIndex).zip(&self.zones) {
            let used = match &scan.contents {
                Contents::Empty => ZoneUse::Free,
                Contents::Kept => ZoneUse::Kept,
                Contents::Unknown => ZoneUse::Draining,
                Contents::LostJournal => {
                    let entries = JournalEntries::Bound;
                    journals.push((0, JournalZone { zone: index, last: mounted, entries }, false));
                    ZoneUse::Journal
                }
                Contents::Data(_) if open.contains(index) => ZoneUse::Open,
                Contents::Data(_) => ZoneUse::Full,
                Contents::Journal { shape: own, entries, last, lost_below, is_closed } => {
                    let means_the_same = *own == shape && *lost_below == 0;
                    let takes_more = means_the_same && !scan.is_full && !is_closed;
                    unclosed.extend((!is_closed).then_some(index));
                    let last = if *lost_below == 0 { *last } else { mounted };
                    let entries = if means_the_same {
                        let mut needed = Needed::new(&births, scan.birth);
                        entries.iter().for_each(|entry| needed.add(entry.sequence));
                        JournalEntries::Movable(needed)
                    } else {
                        JournalEntries::Bound
                    };
                    journals.push((scan.birth, JournalZone { zone: index, last, entries }, takes_more));
                    ZoneUse::Journal
                }
            };
            let ZoneScan { birth, since, stream, end, expiries, .. } = *scan;
            let mut zone = Zone::new(used);
            zone.last = scan.last_record();
            (zone.birth, zone.since, zone.stream) = (birth, since, stream);
            (zone.end, zone.expiries) = (end, expiries);
            zones.push(zone);
        }
        journals.sort_by_key(|(birth, _, _)| *birth);
        let is_open = journals.last().is_some_and(|(_, _, takes_more)| *takes_more);
        let journal = Journal {
            zones: journals.into_iter().map(|(_, zone, _)| zone).collect(),
            is_open,
            unclosed,
            ..Journal::default()
        };
        let zones_lost = self.zones_lost;
        Drive { zones: Zones::new(zones), open, journal, log, zones_lost, ..empty }
    }

    /// Says what a check found.
    pub fn report(&self, place: usize, findings: &mut Findings) {
        for (index, zone) in self.zones.iter().enumerate() {
            if zone.is_listed_wrong {
                let what =
                    format!("drive {place}: directories of zone {index} do not list what its pages hold");
                findings.problems.push(what);
            }
            match &zone.contents {
                Contents::Empty | Contents::Kept => {}
                Contents::Unknown | Contents::LostJournal => {
                    findings.problems.push(format!("drive {place}: zone {index} cannot be judged"));
                }
                Contents::Data(records) => {
                    findings.data_zones += 1;
                    findings.records += records.len() as u64;
                }
                Contents::Journal { entries, lost_below, .. } => {
                    findings.journal_zones += 1;
                    findings.entries += entries.len() as u64;
                    if *lost_below > 0 {
                        let what =
                            format!("drive {place}: zone {index} has journal blocks that cannot be read");
                        findings.problems.push(what);
                    }
                }
            }
        }
    }
}
