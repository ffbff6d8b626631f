//! Formatting a drive with identities in-band, and opening one.

use super::InbandDrive;
use super::core::{InbandCore, Media};
use super::header::{Header, Label};
use super::health::Health;
use super::joined::Joined;
use super::journal::{Journal, Position, Spare};
use super::layout::{JOURNAL_ZONES, Layout, LayoutError};
use super::pair::{FoundPair, Pair};
use super::recovery::{Found, FoundZone, OpenError, Source, look};
use super::table::{COPIES, PLACES_MAX};
use crate::units::identities::Identities;
use crate::units::identity::{Identity, Owner, Unit};
use crate::units::life::Life;
use crate::units::record::{Entry, Phase, RECORD_ENTRIES, Record, low_half};
use crate::units::turn::Gates;
use crate::units::{Trouble, UNIT_BLOCKS, live_records, unit_of};
use ::block::device::{BlockDevice, FRAME_SECTORS};
use base::frame::Frame;
use base::slab::Slab;
use base::units::{BLOCK_BYTES, ZoneIndex};
use std::collections::{BTreeMap, BTreeSet};
use zone::device::{
    Command, Completion, Geometry, Op, Status, Token, ZoneDescriptor, ZoneState, ZonedDevice,
};
use zone::rules::{Zone, ZoneTable};

/// Carries one command out, while nobody else has the device; `None` when there is no answer.
pub type CarryOut<'a, D> = &'a mut dyn FnMut(&mut D, Command) -> Option<Completion>;

/// Stamp of what formats a drive.
const FIRST_STAMP: u64 = 1;

/// Times that a drive is looked at when the device refuses a command of its opening.
const OPENINGS: u32 = 4;

/// The device while it is opened.
struct Direct<'a, 'b, D> {
    device: &'a mut D,
    carry_out: CarryOut<'b, D>,
    /// A command was refused, by a device that is there.
    is_refused: bool,
}

impl<D: ZonedDevice> Direct<'_, '_, D> {
    fn run(&mut self, zone: ZoneIndex, op: Op) -> Result<Completion, OpenError> {
        match (self.carry_out)(self.device, Command { token: Token(0), zone, op }) {
            Some(completion) if completion.status == Status::Success => Ok(completion),
            refused => {
                self.is_refused |= refused.is_some_and(|completion| completion.status != Status::DeviceGone);
                Err(OpenError::Gone)
            }
        }
    }

    fn write(&mut self, zone: ZoneIndex, offset: u32, data: [u8; BLOCK_BYTES]) -> Result<(), OpenError> {
        let mut frame = Frame::zeroed();
        frame.data = data;
        self.run(zone, Op::Write { offset, frames: vec![frame] }).map(drop)
    }

    fn flush(&mut self) -> Result<(), OpenError> {
        self.run(ZoneIndex(0), Op::Flush).map(drop)
    }

    /// Makes a zone of the journal ready.
    fn head(&mut self, zone: u32, header: &Header) -> Result<(), OpenError> {
        self.run(ZoneIndex(zone), Op::Reset)?;
        self.write(ZoneIndex(zone), 0, header.encode())
    }
}

impl<D: ZonedDevice> Source for Direct<'_, '_, D> {
    fn geometry(&self) -> Geometry {
        *self.device.geometry()
    }

    fn report(&mut self) -> Result<Vec<ZoneDescriptor>, Trouble> {
        let count = self.device.geometry().zones;
        self.run(ZoneIndex(0), Op::Report { count })
            .map(|completion| completion.report)
            .map_err(|_| Trouble::Gone)
    }

    fn read(&mut self, zone: ZoneIndex, offset: u32, frames: &mut Vec<Frame>) -> Result<(), Trouble> {
        let op = Op::Read { offset, frames: std::mem::take(frames) };
        let command = Command { token: Token(0), zone, op };
        let completion = (self.carry_out)(self.device, command).ok_or(Trouble::Gone)?;
        *frames = completion.frames;
        match completion.status {
            Status::Success => Ok(()),
            Status::UnrecoveredReadError | Status::ZoneIsOffline => Err(Trouble::Unreadable),
            _ => Err(Trouble::Gone),
        }
    }
}

/// Makes a drive of a device with zones, whatever it holds: all zones are reset, and the journal begins.
///
/// # Errors
/// When the device cannot be used, or fails.
pub fn format<D: ZonedDevice>(
    device: &mut D,
    uuid: [u8; 16],
    carry_out: CarryOut<'_, D>,
) -> Result<Label, OpenError> {
    let layout = Layout::of(device.geometry(), None)?;
    let label = Label { uuid, layout, journal: None };
    begin(&mut Direct { device, carry_out, is_refused: false }, &label)?;
    Ok(label)
}

/// Who a drive is to be whose journal lies elsewhere.
#[derive(Clone, Debug)]
pub struct Elsewhere {
    /// Identity of the drive.
    pub drive: [u8; 16],
    /// Identity of its journal.
    pub journal: [u8; 16],
    /// Path at which that lies, for who looks for it.
    pub path: String,
}

/// Layout of a drive whose journal lies on another device of so many blocks of 4 KiB.
///
/// # Errors
/// When one of the two cannot be used.
pub fn layout_elsewhere(device: &Geometry, blocks: u64) -> Result<Layout, LayoutError> {
    let places = blocks.saturating_sub(u64::from(COPIES)) / u64::from(JOURNAL_ZONES);
    let places = u32::try_from(places).unwrap_or(u32::MAX).min(PLACES_MAX);
    Layout::of(device, Some(places))
}

/// Makes a drive of a device with zones, with its journal on another device, whatever the two hold. The labels in the device's first two
/// zones come last: before, it is no drive.
///
/// # Errors
/// When one of the devices cannot be used, or fails.
pub fn format_elsewhere<D: ZonedDevice, B: BlockDevice>(
    device: D,
    disk: B,
    who: &Elsewhere,
    carry_out: CarryOut<'_, Joined<D, B>>,
) -> Result<Label, OpenError> {
    let layout = layout_elsewhere(device.geometry(), disk.geometry().sectors / FRAME_SECTORS)?;
    let label = Label { uuid: who.drive, layout, journal: Some(who.journal) };
    let mut alone = Joined::alone(device);
    reset_journal_zones(&mut alone, carry_out)?;
    let made = FoundPair::to_make(who.journal, who.drive, layout.journal_zone_places());
    let mut joined = Joined::with(alone.into_parts().0, Pair::new(disk, &made));
    reset_journal_zones(&mut joined, carry_out)?;
    begin(&mut Direct { device: &mut joined, carry_out, is_refused: false }, &label)?;
    let mut alone = Joined::alone(joined.into_parts().0);
    let mut direct = Direct { device: &mut alone, carry_out, is_refused: false };
    let block = Header { label, base: 0 }.encode_with_path(&who.path);
    for zone in (0..JOURNAL_ZONES).map(ZoneIndex) {
        direct.write(zone, 0, block)?;
    }
    direct.flush()?;
    Ok(label)
}

fn reset_journal_zones<D: ZonedDevice>(device: &mut D, carry_out: CarryOut<'_, D>) -> Result<(), OpenError> {
    let mut direct = Direct { device, carry_out, is_refused: false };
    for zone in (0..JOURNAL_ZONES).map(ZoneIndex) {
        direct.run(zone, Op::Reset)?;
    }
    direct.flush()
}

/// Empties all zones, and begins the journal.
fn begin<D: ZonedDevice>(device: &mut Direct<'_, '_, D>, label: &Label) -> Result<(), OpenError> {
    let label = *label;
    let report = device.report()?;
    // The journal's zones first: from then on it is no drive until the last write.
    for (zone, descriptor) in (0..).map(ZoneIndex).zip(report) {
        let is_usable = !matches!(descriptor.state, ZoneState::ReadOnly | ZoneState::Offline);
        if descriptor.state != ZoneState::Empty && (is_usable || zone.0 < JOURNAL_ZONES) {
            device.run(zone, Op::Reset)?;
        }
    }
    device.flush()?;
    device.write(ZoneIndex(0), 0, Header { label, base: 1 }.encode())?;
    let record = Record {
        sequence: 1,
        tail: 1,
        durable: 0,
        stamp: FIRST_STAMP,
        opening: FIRST_STAMP,
        phase: Phase::Settling,
        entries: Vec::new(),
    };
    let mut block = [0; BLOCK_BYTES];
    record.encode(label.uuid, &mut block);
    device.write(ZoneIndex(0), 1, block)?;
    device.flush()
}

/// Opens a drive: finds what is there, and says in the journal that it goes on from there.
///
/// # Errors
/// As [`look`]; then nothing was written. When the device fails, it can be opened again.
pub fn open<D: ZonedDevice>(
    mut device: D,
    cached_units: usize,
    carry_out: CarryOut<'_, D>,
) -> Result<InbandDrive<D>, OpenError> {
    let mut direct = Direct { device: &mut device, carry_out, is_refused: false };
    let (found, opening, opened) = find_and_go_on(&mut direct)?;
    let layout = found.label.layout;
    let geometry = layout.geometry(device.geometry());
    let capacity = layout.capacity();
    let zones = found.zones.iter().map(|zone| match zone {
        FoundZone::Empty | FoundZone::Dead => Zone::new(ZoneState::Empty, 0),
        FoundZone::Active { end, .. } if *end < capacity => Zone::new(ZoneState::Closed, *end),
        FoundZone::Active { .. } | FoundZone::Full => Zone::new(ZoneState::Full, capacity),
        FoundZone::ReadOnly(Some((end, _))) => Zone::new(ZoneState::ReadOnly, *end),
        FoundZone::ReadOnly(None) => Zone::new(ZoneState::ReadOnly, capacity),
        FoundZone::Offline => Zone::new(ZoneState::Offline, 0),
    });
    let rules = ZoneTable::from_zones(geometry, zones.collect());
    let births = found.zones.iter().map(|zone| match zone {
        FoundZone::Full | FoundZone::ReadOnly(None) => None,
        _ => Some(0),
    });
    let media = Media {
        births: births.collect(),
        journal: Journal::new(&layout, opened.position, opened.tail),
        lives: opened.lives,
        identities: Identities::new(cached_units),
        resets: BTreeMap::new(),
        stamp: opening,
        opening,
        flush: None,
        carried: None,
        is_unflushed: false,
        has_failed: false,
        health: Health::default(),
    };
    let core = InbandCore {
        device,
        label: found.label,
        geometry,
        rules,
        media,
        lanes: BTreeMap::new(),
        gates: Gates::default(),
        waiting_for_place: BTreeSet::new(),
        tasks: Slab::default(),
        waiters: Slab::default(),
        done: Vec::new(),
        spare: Vec::new(),
        held_since: None,
    };
    Ok(InbandDrive { core, answers: Vec::new(), is_new: true, is_gone: false })
}

/// Finds what is there, and goes on. A zone may die of what is asked of it: then it is looked at once more, as after an opening that was cut.
fn find_and_go_on<D: ZonedDevice>(device: &mut Direct<'_, '_, D>) -> Result<(Found, u64, Opened), OpenError> {
    for _ in 0..OPENINGS {
        device.is_refused = false;
        let found = look(device)?;
        let opening = found.stamp + 1;
        match go_on(device, &found, opening) {
            Err(OpenError::Gone) if device.is_refused => {}
            Ok(opened) => return Ok((found, opening, opened)),
            Err(error) => return Err(error),
        }
    }
    Err(OpenError::Gone)
}

/// Drive that goes on.
struct Opened {
    lives: BTreeMap<ZoneIndex, Life>,
    position: Position,
    /// Oldest record that is needed.
    tail: u64,
}

/// Zone that is in use, or read-only with something in the journal.
struct Used<'a> {
    zone: ZoneIndex,
    end: u32,
    tail: &'a [Identity],
}

/// Writes the records of an opening.
struct Writer<'a, 'b, 'c, D> {
    device: &'a mut Direct<'b, 'c, D>,
    found: &'a Found,
    opening: u64,
    position: Position,
}

impl<D: ZonedDevice> Writer<'_, '_, '_, D> {
    /// Makes room for so many records: resets the zone of the journal that is not needed.
    ///
    /// When the zone that was written has died, the other one is, even where it has what is needed: that is in memory, and goes there.
    fn make_room(&mut self, needed: u64, wanted: u64) -> Result<(), OpenError> {
        let zone_records = self.found.label.layout.zone_records();
        let Position { current, base, next, spare } = self.position;
        if spare == Spare::Ready || next + wanted <= base + zone_records {
            return Ok(());
        }
        if spare == Spare::Dead {
            return if next + needed <= base + zone_records { Ok(()) } else { Err(OpenError::Spent) };
        }
        if self.found.tail < base && self.found.dead != Some(current) {
            return Err(OpenError::Full);
        }
        // The record that does not need it may lie in a cache: a server that is killed leaves it there.
        self.device.flush()?;
        self.device.head(1 - current, &Header { label: self.found.label, base: base + zone_records })?;
        self.position.spare = Spare::Ready;
        Ok(())
    }

    fn write(&mut self, phase: Phase, tail: u64, durable: u64, entries: &[Entry]) -> Result<u64, OpenError> {
        let zone_records = self.found.label.layout.zone_records();
        let (zone, offset, sequence) = self.position.take(zone_records).ok_or(OpenError::Full)?;
        let record = Record {
            sequence,
            tail,
            durable: durable.min(sequence - 1),
            stamp: self.opening,
            opening: self.opening,
            phase,
            entries: entries.to_vec(),
        };
        let mut block = [0; BLOCK_BYTES];
        record.encode(self.found.label.uuid, &mut block);
        self.device.write(ZoneIndex(zone), offset, block)?;
        Ok(sequence)
    }

    /// Writes entries of records that count when the last one does; returns the record of each.
    fn write_all(&mut self, entries: &[Entry]) -> Result<Vec<u64>, OpenError> {
        let mut numbers = Vec::new();
        for chunk in entries.chunks(RECORD_ENTRIES) {
            let sequence = self.write(Phase::Opening, self.found.tail, self.found.durable, chunk)?;
            numbers.resize(numbers.len() + chunk.len(), sequence);
        }
        Ok(numbers)
    }
}

/// Zones whose reset was begun are reset, identities that were not written are, and those of the last units are repeated under the new
/// stamp. When those are durable, a record with marks settles it. An opening that is cut in between is as if it had not been.
fn go_on<D: ZonedDevice>(
    device: &mut Direct<'_, '_, D>,
    found: &Found,
    opening: u64,
) -> Result<Opened, OpenError> {
    let layout = found.label.layout;
    for (zone, state) in (0..).map(ZoneIndex).zip(&found.zones) {
        match state {
            FoundZone::Dead => drop(device.run(layout.device_zone(zone), Op::Reset)?),
            FoundZone::Active { end, tail } if !tail.is_empty() && layout.is_unit_end(*end) => {
                write_identities(device, found, zone, tail, opening)?;
            }
            _ => {}
        }
    }
    let used: Vec<Used<'_>> = (0..)
        .map(ZoneIndex)
        .zip(&found.zones)
        .filter_map(|(zone, state)| match state {
            FoundZone::Active { end, .. } if layout.is_unit_end(*end) => {
                (*end < layout.capacity()).then_some(Used { zone, end: *end, tail: &[] })
            }
            FoundZone::Active { end, tail } | FoundZone::ReadOnly(Some((end, tail))) => {
                Some(Used { zone, end: *end, tail })
            }
            _ => None,
        })
        .collect();
    let entries: Vec<(usize, u32, Entry)> = used
        .iter()
        .enumerate()
        .flat_map(|(index, Used { zone, end, tail })| {
            (unit_of(*end) * UNIT_BLOCKS..).zip(*tail).map(move |(offset, identity)| {
                let stamp = low_half(opening);
                (index, offset, Entry::Block { zone: *zone, offset, stamp, identity: *identity })
            })
        })
        .collect();
    let marks: Vec<Entry> = used
        .iter()
        .map(|Used { zone, end, .. }| Entry::Mark { zone: *zone, durable: *end, stamp: opening })
        .collect();
    let mut writer = Writer { device, found, opening, position: found.position };
    // Zones that died are in the journal beside those in use.
    let zones = layout.active_zones_max.max(u32::try_from(used.len()).expect("a u32 of zones"));
    let needed = (entries.len().div_ceil(RECORD_ENTRIES) + marks.len().div_ceil(RECORD_ENTRIES)).max(1);
    writer.make_room(u64::try_from(needed).expect("few records"), u64::from(2 * live_records(zones)))?;
    let first = writer.position.next;
    let plain: Vec<Entry> = entries.iter().map(|(.., entry)| *entry).collect();
    let numbers = writer.write_all(&plain)?;
    let (settling, before) = marks.split_at(marks.len().min(RECORD_ENTRIES));
    let marked = writer.write_all(before)?;
    writer.device.flush()?;
    let newest = writer.write(Phase::Settling, first, u64::MAX, settling)?;
    writer.device.flush()?;
    let mut position = writer.position;
    if found.dead == Some(1 - position.current) {
        position.spare = Spare::Dead;
    } else if found.loose == Some(1 - position.current) {
        device.run(ZoneIndex(1 - position.current), Op::Reset)?;
    }
    let mut lives = BTreeMap::new();
    for (index, Used { zone, end, tail }) in used.iter().enumerate() {
        let mark = index.checked_sub(settling.len()).map_or(newest, |index| marked[index]);
        let mut life = Life::new(*zone, opening, *end, tail.to_vec(), mark);
        for ((_, offset, _), number) in entries.iter().zip(&numbers).filter(|((of, ..), _)| *of == index) {
            life.note_record(*number, *offset);
        }
        lives.insert(*zone, life);
    }
    Ok(Opened { lives, position, tail: first })
}

/// Writes the identities of a unit whose blocks are all there.
fn write_identities<D: ZonedDevice>(
    device: &mut Direct<'_, '_, D>,
    found: &Found,
    zone: ZoneIndex,
    tail: &[Identity],
    opening: u64,
) -> Result<(), OpenError> {
    let layout = found.label.layout;
    let FoundZone::Active { end, .. } = found.zones[zone.index()] else { unreachable!("a zone in use") };
    let unit = unit_of(end - 1);
    let own = layout.device_zone(zone);
    let report = device.run(own, Op::Report { count: 1 })?.report;
    let pointer = report.first().ok_or(OpenError::Gone)?.write_pointer;
    let last = layout.identity_place(unit);
    let mut frames: Vec<Frame> = (pointer..=last).map(|_| Frame::zeroed()).collect();
    let block = frames.last_mut().ok_or(OpenError::Gone)?;
    let owner = Owner { uuid: found.label.uuid, zone, unit };
    Unit::of(tail, opening).encode(owner, &mut block.data);
    device.run(own, Op::Write { offset: pointer, frames }).map(drop)
}
