//! What is on a drive with identities in-band: where its journal goes on, and how far each zone in use was written.
//!
//! ```text
//!   report ──> zones and their pointers ─────────────────────────────┐
//!   journal, back from its end to the newest record that counts ─────┴─> marks and entries of zones in use
//!     the last unit of each: blocks with an entry, verified; from the first without one on they have no metadata
//! ```
//! Nothing is written here. Pointers are the device's: what lies below is of the zone's present life, but for zones whose reset was
//! begun. Those have a mark that nothing of theirs follows, or none, and are reset by the opening (`open`).

use super::header::{Header, HeaderError, Label};
use super::journal::{Position, Spare};
use super::layout::{JOURNAL_ZONES, Layout, LayoutError};
use super::pair::PairError;
use crate::units::identity::{Identity, Owner, Unit};
use crate::units::record::{Entry, Phase, Record, low_half};
use crate::units::{Trouble, UNIT_BLOCKS, UNIT_PLACES};
use base::checksum::crc32c;
use base::frame::Frame;
use base::units::{OOB_BYTES, ZoneIndex};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use zone::device::{Geometry, ZoneDescriptor, ZoneState};

/// Blocks of the journal that are read at a time.
const READ_BLOCKS: u64 = 32;
/// The same, in places.
const READ_CHUNK: u32 = 32;

/// Device that is looked at: zones without metadata.
pub trait Source {
    /// Zones and limits of the device.
    fn geometry(&self) -> Geometry;

    /// States of all zones.
    ///
    /// # Errors
    /// When the device is gone.
    fn report(&mut self) -> Result<Vec<ZoneDescriptor>, Trouble>;

    /// Fills frames from a block of a zone on.
    ///
    /// # Errors
    /// When one of the blocks cannot be read, or none.
    fn read(&mut self, zone: ZoneIndex, offset: u32, frames: &mut Vec<Frame>) -> Result<(), Trouble>;
}

/// An identity in an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hex(pub [u8; 16]);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in (0..).zip(self.0) {
            let dash = if [4, 6, 8, 10].contains(&place) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// Reason why a drive is not opened. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Neither journal zone has a header that can be used; what is wrong with the first.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The headers are of two drives.
    #[error("the journal zones are of two drives")]
    TwoDrives,
    /// A journal zone has records, and a header that cannot be used.
    #[error("journal zone {0}: the header is damaged, and blocks that were answered for may be lost with it")]
    HeaderLost(u32),
    /// The device cannot be used, or has changed.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// No record counts.
    #[error("the journal has no record that counts")]
    NoRecord,
    /// A record that was durable is not there.
    #[error("journal: record {0} is damaged, and blocks that were answered for may be lost with it")]
    Record(u64),
    /// The journal does not have the identity of a block that is durable.
    #[error("journal: the identity of block {block} of zone {zone} is missing")]
    Identity {
        /// The zone.
        zone: u32,
        /// The block.
        block: u32,
    },
    /// What the journal says makes no sense.
    #[error("journal: record {0} makes no sense")]
    Nonsense(u64),
    /// There is no room for what an opening writes.
    #[error("the journal is full: too many openings were cut one after the other")]
    Full,
    /// More zones are in use than may be.
    #[error("{has} zones are in use, at most {max} may be")]
    TooManyActive {
        /// Zones in use.
        has: usize,
        /// Most that may be.
        max: u32,
    },
    /// The journal's zones cannot be written.
    #[error("both journal zones of the drive are read-only or offline; replace the drive")]
    JournalDead,
    /// The zone with the newest records is offline, or may be.
    #[error(
        "journal zone {0} is offline, and blocks that were answered for may be lost with it; replace the drive"
    )]
    JournalLost(u32),
    /// The last journal zone is full.
    #[error(
        "one journal zone of the drive is read-only or offline, and the other is full; replace the drive"
    )]
    Spent,
    /// The journal lies on a device that is not there.
    #[error("the drive's identities need journal {0}, which lies on another device")]
    JournalElsewhere(Hex),
    /// The journal that lies elsewhere cannot be used.
    #[error(transparent)]
    Pair(#[from] PairError),
    /// The device does not answer, or answers with errors.
    #[error("the device is gone or fails")]
    Gone,
}

impl From<Trouble> for OpenError {
    fn from(_: Trouble) -> OpenError {
        OpenError::Gone
    }
}

/// Zone as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundZone {
    /// Nothing is written.
    Empty,
    /// In use.
    Active {
        /// Block behind the last one.
        end: u32,
        /// Identities of the blocks of the last unit. When those are all, the block of the identities is not written.
        tail: Vec<Identity>,
    },
    /// Written by nobody who was answered, or reset: it is to be reset.
    Dead,
    /// Full, wherever it ends.
    Full,
    /// Read-only; what the journal knows of it.
    ReadOnly(Option<(u32, Vec<Identity>)>),
    /// Offline.
    Offline,
}

/// What was found on a drive.
#[derive(Debug)]
pub struct Found {
    /// Its label.
    pub label: Label,
    /// All zones of the host.
    pub zones: Vec<FoundZone>,
    /// Where the journal goes on.
    pub(super) position: Position,
    /// Oldest record that is needed, and the newest that was known to be durable.
    pub(super) tail: u64,
    pub(super) durable: u64,
    /// Highest stamp on the drive.
    pub(super) stamp: u64,
    /// Journal zone that is read-only or offline.
    pub(super) dead: Option<u32>,
    /// Journal zone that was left before it was full, and has to be reset before it can be taken for the one in use.
    pub(super) loose: Option<u32>,
}

impl Found {
    /// Block behind the last of a zone that may be written.
    #[must_use]
    pub fn end_of(&self, zone: ZoneIndex) -> u32 {
        match &self.zones[zone.index()] {
            FoundZone::Empty | FoundZone::Dead | FoundZone::Offline => 0,
            FoundZone::Active { end, .. } | FoundZone::ReadOnly(Some((end, _))) => *end,
            FoundZone::Full | FoundZone::ReadOnly(None) => self.label.layout.capacity(),
        }
    }

    /// Reads the data of a block below the end of a zone.
    ///
    /// # Errors
    /// When it cannot be read.
    ///
    /// # Panics
    /// When the zone ends before.
    pub fn read_data(&self, source: &mut dyn Source, zone: ZoneIndex, offset: u32) -> Result<Frame, Trouble> {
        assert!(offset < self.end_of(zone), "block {offset} of zone {} is not written", zone.0);
        let layout = &self.label.layout;
        let mut frames = vec![Frame::zeroed()];
        source.read(layout.device_zone(zone), layout.place(offset), &mut frames)?;
        Ok(frames.remove(0))
    }
}

pub(super) fn read_one(
    source: &mut dyn Source,
    zone: ZoneIndex,
    offset: u32,
) -> Result<Option<Frame>, OpenError> {
    let mut frames = vec![Frame::zeroed()];
    match source.read(zone, offset, &mut frames) {
        Ok(()) => Ok(frames.pop()),
        Err(Trouble::Unreadable) => Ok(None),
        Err(Trouble::Gone) => Err(OpenError::Gone),
    }
}

/// Reads blocks, those that can be read.
fn read_each(
    source: &mut dyn Source,
    zone: ZoneIndex,
    offset: u32,
    count: u32,
) -> Result<Vec<Option<Frame>>, OpenError> {
    let mut frames: Vec<Frame> = (0..count).map(|_| Frame::zeroed()).collect();
    match source.read(zone, offset, &mut frames) {
        Ok(()) => Ok(frames.into_iter().map(Some).collect()),
        Err(Trouble::Gone) => Err(OpenError::Gone),
        Err(Trouble::Unreadable) => {
            (offset..offset + count).map(|offset| read_one(source, zone, offset)).collect()
        }
    }
}

/// Places of a zone that are written; all where only the device knows.
fn written(descriptor: &ZoneDescriptor, zone_places: u32) -> u32 {
    match descriptor.state {
        ZoneState::Empty | ZoneState::Offline => 0,
        ZoneState::Full | ZoneState::ReadOnly => zone_places,
        ZoneState::ImplicitOpen | ZoneState::ExplicitOpen | ZoneState::Closed => {
            descriptor.write_pointer.min(zone_places)
        }
    }
}

/// Finds what is on a drive.
///
/// # Errors
/// When it has no journal, or is so damaged that blocks which were answered for may be lost.
pub fn look(source: &mut dyn Source) -> Result<Found, OpenError> {
    let report = source.report()?;
    let zone_places = source.geometry().zone_capacity_blocks;
    let mut journals = find_headers(source, &report, zone_places)?;
    let label = label_of(&journals)?;
    // Numbers of records begin with 1: what has none is the label that the journal has left in its place.
    if let Some(journal) = label.journal
        && journals.iter().any(|zone| zone.header.is_ok_and(|header| header.base == 0))
    {
        return Err(OpenError::JournalElsewhere(Hex(journal)));
    }
    label.layout.expect_on(&source.geometry())?;
    find_read_only_ends(source, label.uuid, &mut journals)?;
    let mut records = Records::of(&journals, label.layout)?;
    let found = match (records.newest(source, label.uuid), records.lost) {
        (Err(OpenError::NoRecord), Some(zone)) => return Err(OpenError::JournalLost(zone)),
        (found, _) => found?,
    };
    let journal = records.take(source, &label, &found)?;
    let mut zones = Vec::new();
    for zone in (0..label.layout.zones - JOURNAL_ZONES).map(ZoneIndex) {
        let descriptor = report.get(label.layout.device_zone(zone).index()).ok_or(OpenError::Gone)?;
        zones.push(find_zone(source, &label, &journal, zone, descriptor)?);
    }
    let is_active = |zone: &&FoundZone| matches!(zone, FoundZone::Active { .. });
    let (has, max) = (zones.iter().filter(is_active).count(), label.layout.active_zones_max);
    if has > max as usize {
        return Err(OpenError::TooManyActive { has, max });
    }
    let Records { position, dead, loose, .. } = records;
    Ok(Found {
        dead,
        loose,
        label,
        zones,
        position,
        tail: found.tail,
        durable: found.durable,
        stamp: journal.stamp,
    })
}

/// Label of the drive, from the header of either journal zone.
///
/// # Errors
/// When there is none.
pub fn find_label(source: &mut dyn Source) -> Result<Label, OpenError> {
    let report = source.report()?;
    let zone_places = source.geometry().zone_capacity_blocks;
    let journals = find_headers(source, &report, zone_places)?;
    label_of(&journals)
}

/// Path at which the journal of a drive lay, as its labels say.
///
/// # Errors
/// When the device is gone.
pub fn find_journal_path(source: &mut dyn Source) -> Result<Option<String>, OpenError> {
    for zone in (0..JOURNAL_ZONES).map(ZoneIndex) {
        let frame = read_one(source, zone, 0)?.filter(|frame| Header::decode(&frame.data).is_ok());
        if let Some(path) = frame.as_ref().and_then(|frame| Header::path_in(&frame.data)) {
            return Ok(Some(path.to_owned()));
        }
    }
    Ok(None)
}

/// A journal zone.
#[derive(Clone, Copy, Debug)]
struct JournalZone {
    /// Blocks that are written.
    written: u32,
    state: ZoneState,
    header: Result<Header, HeaderError>,
}

impl JournalZone {
    fn is_dead(&self) -> bool {
        matches!(self.state, ZoneState::ReadOnly | ZoneState::Offline)
    }
}

fn find_headers(
    source: &mut dyn Source,
    report: &[ZoneDescriptor],
    zone_places: u32,
) -> Result<[JournalZone; 2], OpenError> {
    let none = JournalZone { written: 0, state: ZoneState::Empty, header: Err(HeaderError::NotAHeader) };
    let mut zones = [none; 2];
    for (index, zone) in (0..).map(ZoneIndex).zip(&mut zones) {
        let descriptor = report.get(index.index()).ok_or(OpenError::Gone)?;
        (zone.state, zone.written) = (descriptor.state, written(descriptor, zone_places));
        if zone.written > 0 {
            zone.header = match read_one(source, index, 0)? {
                Some(frame) => Header::decode(&frame.data),
                None => Err(HeaderError::Damaged),
            };
        }
    }
    Ok(zones)
}

/// Finds out how far read-only zones were written, whose pointers the device does not tell: what is behind is no record.
fn find_read_only_ends(
    source: &mut dyn Source,
    uuid: [u8; 16],
    journals: &mut [JournalZone; 2],
) -> Result<(), OpenError> {
    for (index, zone) in (0..).map(ZoneIndex).zip(journals) {
        if zone.state != ZoneState::ReadOnly {
            continue;
        }
        let mut end = zone.written;
        let has_record = loop {
            let first = end.saturating_sub(READ_CHUNK).max(1);
            let frames = read_each(source, index, first, end - first)?;
            let is_record = |frame: &Option<Frame>| {
                frame.as_ref().is_none_or(|frame| Record::decode(uuid, &frame.data).is_some())
            };
            match frames.iter().rposition(is_record) {
                Some(at) => {
                    end = first + u32::try_from(at).expect("32 at most") + 1;
                    break true;
                }
                None if first == 1 => break false,
                None => end = first,
            }
        };
        zone.written = match zone.header {
            _ if has_record => end,
            Ok(_) => 1,
            // It died empty, or as it got its header.
            Err(_) => 0,
        };
    }
    Ok(())
}

fn label_of(journals: &[JournalZone; 2]) -> Result<Label, OpenError> {
    match (journals[0].header, journals[1].header) {
        (Ok(one), Ok(other)) if one.label != other.label => Err(OpenError::TwoDrives),
        (Ok(header), _) | (_, Ok(header)) => Ok(header.label),
        _ if journals.iter().all(JournalZone::is_dead) => Err(OpenError::JournalDead),
        _ if journals[0].state == ZoneState::Offline => Err(OpenError::JournalLost(0)),
        _ if journals[1].state == ZoneState::Offline => Err(OpenError::JournalLost(1)),
        (Err(HeaderError::NotAHeader), Err(error)) | (Err(error), Err(_)) => Err(error.into()),
    }
}

/// Record that counts, and what it says.
#[derive(Clone, Copy, Debug)]
struct Newest {
    sequence: u64,
    tail: u64,
    durable: u64,
    opening: u64,
}

/// Records of both zones, read when they are asked for.
struct Records {
    position: Position,
    /// Zones with records: zone, number of the first record, records.
    zones: Vec<(u32, u64, u64)>,
    read: BTreeMap<u64, Option<Record>>,
    zone_records: u64,
    dead: Option<u32>,
    lost: Option<u32>,
    loose: Option<u32>,
}

impl Records {
    fn of(journals: &[JournalZone; 2], layout: Layout) -> Result<Records, OpenError> {
        let zone_records = layout.zone_records();
        let find = |is_it: fn(&JournalZone) -> bool| (0..).zip(journals).find(|(_, zone)| is_it(zone));
        let dead = find(JournalZone::is_dead).map(|(zone, _)| zone);
        let lost = find(|zone| zone.state == ZoneState::Offline).map(|(zone, _)| zone);
        if journals.iter().all(JournalZone::is_dead) {
            return Err(OpenError::JournalDead);
        }
        let mut zones: Vec<(u32, u64, u64)> = Vec::new();
        for (zone, JournalZone { written, header, .. }) in (0..).zip(journals) {
            match header {
                Ok(header) => zones.push((zone, header.base, u64::from(written - 1))),
                // A header that was torn: nothing follows it before it is whole.
                Err(_) if *written <= 1 => {}
                Err(_) => return Err(OpenError::HeaderLost(zone)),
            }
        }
        zones.sort_by_key(|(_, base, _)| std::cmp::Reverse(*base));
        let &(newest, base, count) = zones.first().ok_or(HeaderError::NotAHeader)?;
        // Where a zone is left before it is full it is reset before anybody is answered, so one that has room has the newest records. Of one
        // that is full those of the other may follow.
        if let Some(zone) = lost
            && count == zone_records
        {
            return Err(OpenError::JournalLost(zone));
        }
        let mut position = match zones.get(1) {
            // The newer one has a header and no records, and the other has room.
            Some(&(current, older, records))
                if count == 0 && records < zone_records && older + zone_records == base =>
            {
                Position { current, base: older, next: older + records, spare: Spare::Ready }
            }
            _ => Position { current: newest, base, next: base + count, spare: Spare::Stale },
        };
        let other = 1 - position.current;
        if dead == Some(position.current) {
            position.next = position.base + zone_records;
        } else if dead == Some(other) {
            position.spare = Spare::Dead;
        }
        let is_loose =
            |(zone, _, count): &&(u32, u64, u64)| *zone == other && (1..zone_records).contains(count);
        let loose = zones.iter().find(is_loose).filter(|_| dead.is_none()).map(|(zone, ..)| *zone);
        Ok(Records { position, zones, read: BTreeMap::new(), zone_records, dead, lost, loose })
    }

    /// A record, if it is there and whole.
    fn get(
        &mut self,
        source: &mut dyn Source,
        uuid: [u8; 16],
        sequence: u64,
    ) -> Result<Option<&Record>, OpenError> {
        if !self.read.contains_key(&sequence) {
            let zone = self.zones.iter().find(|(_, base, count)| (*base..base + count).contains(&sequence));
            let Some(&(zone, base, _)) = zone else { return Ok(None) };
            // Records are read from the newest to the oldest.
            let first = (sequence + 1).saturating_sub(READ_BLOCKS).max(base);
            let place = |number: u64| u32::try_from(1 + number - base).expect("a block of the zone");
            let count = u32::try_from(sequence + 1 - first).expect("32 at most");
            let frames = read_each(source, ZoneIndex(zone), place(first), count)?;
            for (number, frame) in (first..).zip(frames) {
                let record = frame.and_then(|frame| Record::decode(uuid, &frame.data));
                self.read.insert(number, record.filter(|record| record.sequence == number));
            }
        }
        Ok(self.read.get(&sequence).and_then(Option::as_ref))
    }

    /// The newest record that counts: of an opening that was cut none does.
    fn newest(&mut self, source: &mut dyn Source, uuid: [u8; 16]) -> Result<Newest, OpenError> {
        let oldest = self.zones.iter().map(|(_, base, _)| *base).min().unwrap_or(0);
        for sequence in (oldest..self.position.next).rev() {
            let Some(record) = self.get(source, uuid, sequence)? else { continue };
            let Record { tail, durable, opening, phase, .. } = *record;
            let newest = Newest { sequence, tail, durable, opening };
            let counts = match phase {
                Phase::Opening => false,
                Phase::Settling => self.is_settled(source, uuid, &newest)?,
                Phase::Open => true,
            };
            if counts {
                return Ok(newest);
            }
        }
        Err(OpenError::NoRecord)
    }

    /// True when all records of the opening are there that this one settles.
    fn is_settled(
        &mut self,
        source: &mut dyn Source,
        uuid: [u8; 16],
        last: &Newest,
    ) -> Result<bool, OpenError> {
        if last.sequence.saturating_sub(last.tail) > 2 * self.zone_records {
            return Ok(false);
        }
        for sequence in (last.tail..last.sequence).rev() {
            let record = self.get(source, uuid, sequence)?;
            if !record.is_some_and(|record| record.phase == Phase::Opening && record.opening == last.opening)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes what is needed, of the opening that counts.
    fn take(
        &mut self,
        source: &mut dyn Source,
        label: &Label,
        newest: &Newest,
    ) -> Result<Journal, OpenError> {
        let Newest { sequence: head, tail, durable, opening } = *newest;
        if tail > head + 1 || head + 1 - tail > 2 * self.zone_records {
            return Err(OpenError::Nonsense(head));
        }
        for sequence in (tail..=head).rev() {
            let is_there =
                self.get(source, label.uuid, sequence)?.is_some_and(|record| record.opening == opening);
            if !is_there && sequence <= durable {
                return Err(OpenError::Record(sequence));
            }
        }
        let mut journal = Journal { stamp: 0, marks: HashMap::new(), identities: HashMap::new() };
        for record in self.read.values().flatten() {
            journal.stamp = journal.stamp.max(record.stamp);
        }
        for (sequence, record) in self.read.range(tail..=head) {
            let record = record.as_ref().filter(|record| record.opening == opening);
            for entry in record.into_iter().flat_map(|record| &record.entries) {
                journal.take(*sequence, entry, &label.layout)?;
            }
        }
        Ok(journal)
    }
}

/// What the journal says.
struct Journal {
    stamp: u64,
    /// Newest mark of each zone: durable up to, stamp.
    marks: HashMap<ZoneIndex, (u32, u64)>,
    /// By zone, block and low half of the stamp.
    identities: HashMap<(ZoneIndex, u32, u32), Identity>,
}

impl Journal {
    fn take(&mut self, sequence: u64, entry: &Entry, layout: &Layout) -> Result<(), OpenError> {
        let is_there = |zone: &ZoneIndex, block: u32| {
            zone.0 < layout.zones - JOURNAL_ZONES && block <= layout.capacity()
        };
        match *entry {
            Entry::Block { zone, offset, stamp, identity } if is_there(&zone, offset) => {
                self.identities.insert((zone, offset, stamp), identity);
            }
            Entry::Mark { zone, durable, stamp } if is_there(&zone, durable) => {
                self.stamp = self.stamp.max(stamp);
                self.marks.insert(zone, (durable, stamp));
            }
            Entry::Block { .. } | Entry::Mark { .. } => return Err(OpenError::Nonsense(sequence)),
        }
        Ok(())
    }

    fn identity(&self, zone: ZoneIndex, offset: u32, stamp: u64) -> Option<&Identity> {
        self.identities.get(&(zone, offset, low_half(stamp)))
    }
}

/// State of a zone.
fn find_zone(
    source: &mut dyn Source,
    label: &Label,
    journal: &Journal,
    zone: ZoneIndex,
    descriptor: &ZoneDescriptor,
) -> Result<FoundZone, OpenError> {
    match descriptor.state {
        ZoneState::Empty => return Ok(FoundZone::Empty),
        ZoneState::Full => return Ok(FoundZone::Full),
        ZoneState::Offline => return Ok(FoundZone::Offline),
        ZoneState::ReadOnly => return find_read_only(source, label, journal, zone).map(FoundZone::ReadOnly),
        ZoneState::ImplicitOpen | ZoneState::ExplicitOpen | ZoneState::Closed => {}
    }
    let layout = &label.layout;
    let places = written(descriptor, layout.zone_places);
    if places == 0 {
        return Ok(FoundZone::Empty);
    }
    let Some(&(durable, stamp)) = journal.marks.get(&zone) else { return Ok(FoundZone::Dead) };
    if durable == 0 && !is_of_life(source, label, journal, (zone, stamp), places)? {
        return Ok(FoundZone::Dead);
    }
    let number = (places / UNIT_PLACES).min(layout.units() - 1);
    let begin = number * UNIT_BLOCKS;
    let blocks = (places - number * UNIT_PLACES).min(layout.unit_blocks(number));
    // A device that lost what was durable is not refused: the array knows what to do with blocks that are not there.
    let durable = if begin + blocks < durable { 0 } else { durable };
    let mut tail: Vec<Identity> = Vec::new();
    let mut is_over = false;
    if blocks > 0 {
        let frames = read_each(source, layout.device_zone(zone), layout.place(begin), blocks)?;
        for (offset, frame) in (begin..).zip(&frames) {
            let known = journal.identity(zone, offset, stamp).filter(|_| !is_over);
            let crc = frame.as_ref().map(|frame| crc32c(&frame.data));
            match known {
                // A block that cannot be read was written all the same.
                Some(identity) if offset < durable || crc.is_none_or(|crc| crc == identity.crc) => {
                    tail.push(*identity);
                }
                None if offset < durable => {
                    return Err(OpenError::Identity { zone: zone.0, block: offset });
                }
                _ => {
                    is_over = true;
                    let unread = Identity { crc: 0, oob: [0; OOB_BYTES] };
                    tail.push(frame.as_ref().map_or(unread, |frame| Identity::torn(&frame.data)));
                }
            }
        }
    }
    Ok(FoundZone::Active { end: begin + blocks, tail })
}

/// True when something in a zone was written since the mark that says that nothing of it is durable.
fn is_of_life(
    source: &mut dyn Source,
    label: &Label,
    journal: &Journal,
    (zone, stamp): (ZoneIndex, u64),
    places: u32,
) -> Result<bool, OpenError> {
    if places <= label.layout.identity_place(0) {
        return Ok(journal.identity(zone, 0, stamp).is_some());
    }
    let place = label.layout.identity_place(0);
    let frame = read_one(source, label.layout.device_zone(zone), place)?;
    let owner = Owner { uuid: label.uuid, zone, unit: 0 };
    let unit = frame.and_then(|frame| Unit::decode(owner, &frame.data));
    Ok(unit.is_none_or(|unit| unit.stamp >= stamp))
}

/// How far a zone was written whose pointer the device does not tell; `None` when the journal does not need it.
fn find_read_only(
    source: &mut dyn Source,
    label: &Label,
    journal: &Journal,
    zone: ZoneIndex,
) -> Result<Option<(u32, Vec<Identity>)>, OpenError> {
    let layout = &label.layout;
    let Some(&(durable, stamp)) = journal.marks.get(&zone) else { return Ok(None) };
    for number in durable / UNIT_BLOCKS..layout.units() {
        let frame = read_one(source, layout.device_zone(zone), layout.identity_place(number))?;
        let owner = Owner { uuid: label.uuid, zone, unit: number };
        let unit = frame.and_then(|frame| Unit::decode(owner, &frame.data));
        let begin = number * UNIT_BLOCKS;
        if unit.is_some_and(|unit| unit.stamp >= stamp) {
            continue;
        }
        let blocks = layout.unit_blocks(number);
        let frames = read_each(source, layout.device_zone(zone), layout.place(begin), blocks)?;
        let there = (begin..).zip(&frames).map_while(|(offset, frame)| {
            let identity = journal.identity(zone, offset, stamp).copied();
            let is_it = |identity: &Identity| {
                offset < durable || frame.as_ref().is_none_or(|frame| crc32c(&frame.data) == identity.crc)
            };
            identity.filter(is_it)
        });
        let tail: Vec<Identity> = there.take(UNIT_BLOCKS as usize - 1).collect();
        let end = begin + u32::try_from(tail.len()).expect("less than 59");
        return Ok(Some((end, tail)));
    }
    Ok(None)
}
