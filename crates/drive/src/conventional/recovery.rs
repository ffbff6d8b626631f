//! What is on a conventional drive: label, table, journal, and how far each zone in use was written.
//!
//! ```text
//!   label ──> table: zones that are full, stamps ──┐
//!   journal, from its tail to its head ────────────┴─> marks: zones in use, and where they are durable
//!     from there on: whole units by their identities, the last one by the journal, all verified by checksums,
//!     up to the first block that is not there
//! ```
//! Nothing is written here. A zone that is found goes on under a new stamp (`open`), so that what lies behind the block where it
//! ends, of writes that were never answered, is never believed.

use super::label::{Label, LabelError};
use super::layout::{Layout, UNIT_BLOCKS, UNIT_PLACES, unit_of};
use super::table::Table;
use crate::units::Trouble;
use crate::units::identity::{Identity, Owner, Unit};
use crate::units::record::{Entry, Phase, Record, low_half};
use base::checksum::crc32c;
use base::frame::Frame;
use base::units::{BLOCK_BYTES_U64, ZoneIndex};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use zone::device::ZoneState;
use zone::rules::Zone;

/// Blocks of the journal that are read at a time.
const READ_BLOCKS: u32 = 64;

/// Device that is looked at.
pub trait Source {
    /// Blocks of the device.
    fn blocks(&self) -> u64;

    /// Fills frames from a place on.
    ///
    /// # Errors
    /// When one of the blocks cannot be read, or none.
    fn read(&mut self, place: u64, frames: &mut Vec<Frame>) -> Result<(), Trouble>;
}

/// File or block device that is read, whoever has it open.
#[derive(Debug)]
pub struct FileSource<'a> {
    file: &'a File,
    blocks: u64,
}

impl FileSource<'_> {
    /// Source of a file with so many sectors of 512 bytes.
    #[must_use]
    pub fn new(file: &File, sectors: u64) -> FileSource<'_> {
        FileSource { file, blocks: sectors / block::device::FRAME_SECTORS }
    }
}

impl Source for FileSource<'_> {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn read(&mut self, place: u64, frames: &mut Vec<Frame>) -> Result<(), Trouble> {
        for (place, frame) in (place..).zip(frames) {
            match self.file.read_exact_at(&mut frame.data, place * BLOCK_BYTES_U64) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(Trouble::Gone),
                Err(_) => return Err(Trouble::Unreadable),
            }
        }
        Ok(())
    }
}

/// Reason why a drive is not opened. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Neither copy of the label can be used; what is wrong with the first.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// The device has become smaller.
    #[error("the device has {has} blocks of 4 KiB, its label says {said}")]
    Shrunk {
        /// Blocks of the device.
        has: u64,
        /// Blocks of the label.
        said: u64,
    },
    /// Neither copy of a page of the zone table is whole.
    #[error("zone table: both copies of page {0} are damaged")]
    Table(u32),
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
    /// More zones are in use than may be.
    #[error("{has} zones are in use, at most {max} may be")]
    TooManyActive {
        /// Zones in use.
        has: usize,
        /// Most that may be.
        max: u32,
    },
    /// The device does not answer, or answers with errors.
    #[error("the device is gone or fails")]
    Gone,
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
        /// Identities of the blocks of the last unit, when it is not full.
        tail: Vec<Identity>,
    },
    /// Full, written up to a block.
    Full(u32),
}

impl FoundZone {
    /// The zone as it is behind an opening, where zones take so many blocks.
    #[must_use]
    pub fn opened(&self, capacity: u32) -> Zone {
        match *self {
            FoundZone::Empty => Zone::new(ZoneState::Empty, 0),
            FoundZone::Active { end, .. } if end < capacity => Zone::new(ZoneState::Closed, end),
            FoundZone::Active { end, .. } | FoundZone::Full(end) => Zone::new(ZoneState::Full, end),
        }
    }
}

/// What was found on a drive.
#[derive(Debug)]
pub struct Found {
    /// Its label.
    pub label: Label,
    /// Its zone table.
    pub table: Table,
    /// All zones.
    pub zones: Vec<FoundZone>,
    /// Newest record of the journal, the oldest that is needed, and the newest that was known to be durable.
    pub(super) head: u64,
    pub(super) tail: u64,
    pub(super) durable: u64,
    /// Highest stamp on the drive.
    pub(super) stamp: u64,
    /// Copies of the label that are damaged.
    pub labels_damaged: usize,
}

impl Found {
    /// Block behind the last one of a zone.
    #[must_use]
    pub fn end_of(&self, zone: ZoneIndex) -> u32 {
        match &self.zones[zone.index()] {
            FoundZone::Empty => 0,
            FoundZone::Active { end, .. } | FoundZone::Full(end) => *end,
        }
    }

    /// Reads a block below the end of a zone, with its metadata.
    ///
    /// # Errors
    /// When block or metadata cannot be read.
    pub fn read_block(
        &self,
        source: &mut dyn Source,
        zone: ZoneIndex,
        offset: u32,
    ) -> Result<Frame, Trouble> {
        assert!(offset < self.end_of(zone), "block {offset} of zone {} is not written", zone.0);
        let layout = &self.label.layout;
        let mut frame = read_one(source, layout.block_place(zone, offset))?;
        let number = unit_of(offset);
        let within = (offset % UNIT_BLOCKS) as usize;
        if let FoundZone::Active { end, tail } = &self.zones[zone.index()]
            && unit_of(*end) == number
        {
            frame.oob = tail[within].oob;
            return Ok(frame);
        }
        let block = read_one(source, layout.identity_place(zone, number))?;
        let owner = Owner { uuid: self.label.uuid, zone, unit: number };
        let birth = self.table.entry(zone).birth;
        let unit = Unit::decode(owner, &block.data).filter(|unit| unit.stamp >= birth);
        let identity = unit.and_then(|unit| unit.identities.get(within).copied());
        frame.oob = identity.ok_or(Trouble::Unreadable)?.oob;
        Ok(frame)
    }
}

fn read_one(source: &mut dyn Source, place: u64) -> Result<Frame, Trouble> {
    let mut frames = vec![Frame::zeroed()];
    source.read(place, &mut frames)?;
    frames.pop().ok_or(Trouble::Gone)
}

/// Reads blocks, those that can be read.
fn read_each(source: &mut dyn Source, place: u64, count: u32) -> Result<Vec<Option<Frame>>, OpenError> {
    let mut frames: Vec<Frame> = (0..count).map(|_| Frame::zeroed()).collect();
    match source.read(place, &mut frames) {
        Ok(()) => return Ok(frames.into_iter().map(Some).collect()),
        Err(Trouble::Gone) => return Err(OpenError::Gone),
        Err(Trouble::Unreadable) => {}
    }
    (place..place + u64::from(count))
        .map(|place| match read_one(source, place) {
            Ok(frame) => Ok(Some(frame)),
            Err(Trouble::Unreadable) => Ok(None),
            Err(Trouble::Gone) => Err(OpenError::Gone),
        })
        .collect()
}

/// Finds what is on a drive.
///
/// # Errors
/// When it is no conventional drive, or so damaged that blocks which were answered for may be lost.
pub fn look(source: &mut dyn Source) -> Result<Found, OpenError> {
    let (label, labels_damaged) = find_label(source)?;
    let layout = label.layout;
    if layout.blocks > source.blocks() {
        return Err(OpenError::Shrunk { has: source.blocks(), said: layout.blocks });
    }
    let mut table = Table::new(label.uuid, &layout);
    for page in 0..layout.pages() {
        let copies = read_each(source, layout.page_places(page)[0], 2)?;
        let bytes = |copy: usize| copies[copy].as_ref().map(|frame| &frame.data);
        if !table.take_page(page, [bytes(0), bytes(1)], &layout) {
            return Err(OpenError::Table(page));
        }
    }
    let journal = Journal::read(source, &label)?;
    let stamp = journal.stamp.max(table.stamp_max());
    let mut found = Found {
        label,
        table,
        zones: Vec::new(),
        head: journal.head,
        tail: journal.tail,
        durable: journal.durable,
        stamp,
        labels_damaged,
    };
    for zone in (0..layout.zones).map(ZoneIndex) {
        let state = find_zone(source, &found, &journal, zone)?;
        found.zones.push(state);
    }
    let is_active =
        |zone: &&FoundZone| matches!(zone, FoundZone::Active { end, .. } if *end < layout.capacity());
    let (has, max) = (found.zones.iter().filter(is_active).count(), layout.active_zones_max);
    if has > max as usize {
        return Err(OpenError::TooManyActive { has, max });
    }
    Ok(found)
}

/// The label, and how many of its copies are damaged.
pub(super) fn find_label(source: &mut dyn Source) -> Result<(Label, usize), OpenError> {
    let mut first_error = None;
    let mut found: Option<Label> = None;
    let mut damaged = 0;
    let last = source.blocks().checked_sub(1).ok_or(OpenError::Label(LabelError::NotALabel))?;
    for place in [0, last] {
        let label = match read_one(source, place) {
            Ok(frame) => Label::decode(&frame.data),
            Err(Trouble::Unreadable) => Err(LabelError::Damaged),
            Err(Trouble::Gone) => return Err(OpenError::Gone),
        };
        match label {
            Ok(label) => found = found.or(Some(label)),
            Err(error) => {
                damaged += 1;
                first_error.get_or_insert(error);
            }
        }
    }
    match (found, first_error) {
        (Some(label), _) => Ok((label, damaged)),
        (None, error) => Err(OpenError::Label(error.unwrap_or(LabelError::NotALabel))),
    }
}

/// Stamp of the newest opening of which the journal has a record, whether it was through or not.
///
/// # Errors
/// When it is no conventional drive, or cannot be read.
pub fn find_opening(source: &mut dyn Source) -> Result<u64, OpenError> {
    let (label, _) = find_label(source)?;
    let newest = read_records(source, &label)?.into_iter().map(|record| record.opening).max();
    Ok(newest.unwrap_or(0))
}

/// All records of the ring that are whole, and in their place.
fn read_records(source: &mut dyn Source, label: &Label) -> Result<Vec<Record>, OpenError> {
    let layout = &label.layout;
    let mut records = Vec::new();
    let first = layout.record_place(0);
    let mut at = 0;
    while at < layout.journal_records {
        let count = READ_BLOCKS.min(layout.journal_records - at);
        for (index, frame) in (at..).zip(read_each(source, first + u64::from(at), count)?) {
            let record = frame.and_then(|frame| Record::decode(label.uuid, &frame.data));
            let in_place =
                |record: &Record| record.sequence % u64::from(layout.journal_records) == u64::from(index);
            records.extend(record.filter(in_place));
        }
        at += count;
    }
    Ok(records)
}

/// True when all records of the opening are there that this one settles.
fn is_settled(records: &BTreeMap<u64, Record>, last: &Record) -> bool {
    let is_of_it = |record: &Record| record.phase == Phase::Opening && record.opening == last.opening;
    let before = last.sequence.saturating_sub(last.tail);
    before <= u64::try_from(records.len()).unwrap_or(u64::MAX)
        && (last.tail..last.sequence).all(|sequence| records.get(&sequence).is_some_and(is_of_it))
}

/// What the journal says.
struct Journal {
    head: u64,
    tail: u64,
    durable: u64,
    stamp: u64,
    /// Newest mark of each zone: durable up to, stamp.
    marks: HashMap<ZoneIndex, (u32, u64)>,
    /// By zone, block and low half of the stamp.
    identities: HashMap<(ZoneIndex, u32, u32), Identity>,
}

impl Journal {
    fn read(source: &mut dyn Source, label: &Label) -> Result<Journal, OpenError> {
        let layout = &label.layout;
        let records = read_records(source, label)?;
        let stamp = records.iter().map(|record| record.stamp).max().unwrap_or(0);
        let mut records: BTreeMap<u64, Record> =
            records.into_iter().map(|record| (record.sequence, record)).collect();
        // Two torn writes of one place, before and after a crash, may make a record that was never whole: it is of an
        // earlier opening, or of one that was cut.
        let counts = |record: &&Record| match record.phase {
            Phase::Opening => false,
            Phase::Settling => is_settled(&records, record),
            Phase::Open => true,
        };
        let opening = records.values().filter(counts).map(|record| record.opening).max();
        records.retain(|_, record| Some(record.opening) == opening);
        let newest = records.values().rev().find(|record| record.phase != Phase::Opening);
        let (head, tail, durable) =
            newest.map_or((0, 1, 0), |record| (record.sequence, record.tail, record.durable));
        if tail > head + 1 || head - tail.min(head) >= u64::from(layout.journal_records) {
            return Err(OpenError::Nonsense(head));
        }
        if let Some(lost) = (tail..=durable.min(head)).find(|sequence| !records.contains_key(sequence)) {
            return Err(OpenError::Record(lost));
        }
        let mut journal =
            Journal { head, tail, durable, stamp, marks: HashMap::new(), identities: HashMap::new() };
        for (sequence, record) in records.range(tail..=head) {
            for entry in &record.entries {
                journal.take(*sequence, entry, layout)?;
            }
        }
        Ok(journal)
    }

    fn take(&mut self, sequence: u64, entry: &Entry, layout: &Layout) -> Result<(), OpenError> {
        let is_there = |zone: &ZoneIndex, block: u32| zone.0 < layout.zones && block <= layout.capacity();
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
}

/// State of a zone.
fn find_zone(
    source: &mut dyn Source,
    found: &Found,
    journal: &Journal,
    zone: ZoneIndex,
) -> Result<FoundZone, OpenError> {
    let entry = found.table.entry(zone);
    if let Some(pointer) = entry.full {
        return Ok(FoundZone::Full(pointer));
    }
    let Some(&(durable, stamp)) = journal.marks.get(&zone).filter(|(_, stamp)| *stamp >= entry.birth) else {
        return Ok(FoundZone::Empty);
    };
    let layout = &found.label.layout;
    for number in unit_of(durable)..layout.zone_units {
        let place = layout.block_place(zone, number * UNIT_BLOCKS);
        let frames = read_each(source, place, UNIT_PLACES)?;
        let owner = Owner { uuid: found.label.uuid, zone, unit: number };
        let block = frames.last().and_then(Option::as_ref);
        let unit =
            block.and_then(|frame| Unit::decode(owner, &frame.data)).filter(|unit| unit.stamp == stamp);
        let known = |offset: u32| {
            let behind_data =
                unit.as_ref().and_then(|unit| unit.identities.get((offset % UNIT_BLOCKS) as usize));
            behind_data.or_else(|| journal.identities.get(&(zone, offset, low_half(stamp))))
        };
        let there = find_blocks(zone, durable, number, &frames, known)?;
        if there.len() == UNIT_BLOCKS as usize && unit.is_some() {
            continue;
        }
        // A unit whose identities are all in the journal, but not behind the data, is not full.
        let tail = &there[..there.len().min(UNIT_BLOCKS as usize - 1)];
        let end = number * UNIT_BLOCKS + u32::try_from(tail.len()).expect("less than 59");
        return Ok(if end == 0 { FoundZone::Empty } else { FoundZone::Active { end, tail: tail.to_vec() } });
    }
    Ok(FoundZone::Active { end: layout.capacity(), tail: Vec::new() })
}

/// Identities of the blocks of a unit that are there, up to the first that is not.
fn find_blocks<'a>(
    zone: ZoneIndex,
    durable: u32,
    number: u32,
    frames: &[Option<Frame>],
    known: impl Fn(u32) -> Option<&'a Identity>,
) -> Result<Vec<Identity>, OpenError> {
    let mut there = Vec::new();
    let begin = number * UNIT_BLOCKS;
    for (offset, frame) in (begin..begin + UNIT_BLOCKS).zip(frames) {
        match (known(offset), frame) {
            (None, _) if offset < durable => return Err(OpenError::Identity { zone: zone.0, block: offset }),
            (None, _) => break,
            (Some(identity), Some(frame)) if offset >= durable && crc32c(&frame.data) != identity.crc => {
                break;
            }
            // A block that cannot be read was written all the same.
            (Some(identity), _) => there.push(*identity),
        }
    }
    Ok(there)
}
