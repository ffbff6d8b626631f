//! Formatting a conventional drive, and opening one.

use super::ConventionalDrive;
use super::core::{ConventionalCore, Media};
use super::journal::Journal;
use super::label::Label;
use super::layout::{UNIT_BLOCKS, sector_of, unit_of};
use super::recovery::{Found, FoundZone, OpenError, Source, look};
use super::table::Table;
use crate::units::identities::Identities;
use crate::units::life::Life;
use crate::units::record::{Entry, Phase, RECORD_ENTRIES, Record, low_half};
use crate::units::turn::Gates;
use crate::units::{CACHED_UNITS, Trouble};
use base::frame::Frame;
use base::slab::Slab;
use base::units::{BLOCK_BYTES, ZoneIndex};
use block::device::{BlockDevice, Completion, FRAME_SECTORS, Op, Status};
use std::collections::{BTreeMap, BTreeSet};
use zone::rules::ZoneTable;

/// Carries one command out, while nobody else has the device; `None` when there is no answer.
pub type CarryOut<'a, D> = &'a mut dyn FnMut(&mut D, Op) -> Option<Completion>;

/// How a drive works.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Units whose identities are kept in memory, 4 KiB each.
    pub cached_units: usize,
    /// Zones are discarded when they were reset.
    pub discards: bool,
}

impl Default for Options {
    /// 64 MiB of identities: those of 4 GiB.
    fn default() -> Options {
        Options { cached_units: CACHED_UNITS, discards: true }
    }
}

/// The device while it is opened.
pub(crate) struct Direct<'a, 'b, D> {
    pub(crate) device: &'a mut D,
    pub(crate) carry_out: CarryOut<'b, D>,
}

impl<D: BlockDevice> Direct<'_, '_, D> {
    fn run(&mut self, op: Op) -> Result<Vec<Frame>, OpenError> {
        match (self.carry_out)(self.device, op) {
            Some(Completion { status: Status::Success, frames, .. }) => Ok(frames),
            _ => Err(OpenError::Gone),
        }
    }

    pub(crate) fn write(
        &mut self,
        place: u64,
        data: [u8; BLOCK_BYTES],
        durable: bool,
    ) -> Result<(), OpenError> {
        let mut frame = Frame::zeroed();
        frame.data = data;
        self.run(Op::Write { sector: sector_of(place), frames: vec![frame], durable }).map(drop)
    }

    pub(crate) fn flush(&mut self) -> Result<(), OpenError> {
        self.run(Op::Flush).map(drop)
    }
}

impl<D: BlockDevice> Source for Direct<'_, '_, D> {
    fn blocks(&self) -> u64 {
        self.device.geometry().sectors / FRAME_SECTORS
    }

    fn read(&mut self, place: u64, frames: &mut Vec<Frame>) -> Result<(), Trouble> {
        let op = Op::Read { sector: sector_of(place), frames: std::mem::take(frames) };
        let completion = (self.carry_out)(self.device, op).ok_or(Trouble::Gone)?;
        *frames = completion.frames;
        match completion.status {
            Status::Success => Ok(()),
            Status::ReadError => Err(Trouble::Unreadable),
            Status::OutOfRange | Status::WriteError | Status::DeviceGone | Status::Stalled => {
                Err(Trouble::Gone)
            }
        }
    }
}

/// Makes a conventional drive of a device, whatever it holds. The label is written last.
///
/// # Errors
/// When the device is too small for the layout, or fails.
pub fn format<D: BlockDevice>(
    device: &mut D,
    label: &Label,
    carry_out: CarryOut<'_, D>,
) -> Result<(), OpenError> {
    let layout = label.layout;
    layout.validate().map_err(super::label::LabelError::from)?;
    let has = device.geometry().sectors / FRAME_SECTORS;
    if has < layout.blocks {
        return Err(OpenError::Shrunk { has, said: layout.blocks });
    }
    let mut device = Direct { device, carry_out };
    for place in layout.labels() {
        device.write(place, [0; BLOCK_BYTES], true)?;
    }
    let table = Table::new(label.uuid, &layout);
    for page in 0..layout.pages() {
        for (sequence, place) in (0..).zip(layout.page_places(page)) {
            let mut block = [0; BLOCK_BYTES];
            table.encode(page, sequence, 0, &mut block);
            device.write(place, block, false)?;
        }
    }
    device.flush()?;
    for place in layout.labels() {
        device.write(place, label.encode(), true)?;
    }
    device.flush()
}

/// Opens a drive: finds what is there, and says in the journal that it goes on from there.
///
/// # Errors
/// As [`look`]; then nothing was written. When the device fails, it can be opened again.
pub fn open<D: BlockDevice>(
    mut device: D,
    options: Options,
    carry_out: CarryOut<'_, D>,
) -> Result<ConventionalDrive<D>, OpenError> {
    let mut direct = Direct { device: &mut device, carry_out };
    let found = look(&mut direct)?;
    let opening = found.stamp + 1;
    let lives = go_on(&mut direct, &found, opening)?;
    let newest = lives.newest;
    let geometry = found.label.layout.geometry(device.geometry().volatile_cache);
    let capacity = found.label.layout.capacity();
    let zones = found.zones.iter().map(|zone| zone.opened(capacity));
    let rules = ZoneTable::from_zones(geometry, zones.collect());
    let media = Media {
        journal: Journal::new(&found.label.layout, newest),
        table: found.table.opened(opening),
        lives: lives.by_zone,
        identities: Identities::new(options.cached_units),
        changes: Vec::new(),
        stamp: opening,
        opening,
        flush: None,
        is_unflushed: false,
        has_failed: false,
    };
    let core = ConventionalCore {
        device,
        label: found.label,
        geometry,
        discards: options.discards,
        rules,
        media,
        gates: Gates::default(),
        waiting_for_place: BTreeSet::new(),
        tasks: Slab::default(),
        waiters: Slab::default(),
        done: Vec::new(),
        spare: Vec::new(),
    };
    Ok(ConventionalDrive { core, answers: Vec::new(), is_new: true, is_gone: false })
}

/// Zones in use, as they go on.
struct Lives {
    by_zone: BTreeMap<ZoneIndex, Life>,
    /// Newest record.
    newest: u64,
}

/// Repeats the identities of the last units under the new stamp, and when those are durable, marks the zones. An opening
/// that is cut in between is as if it had not been.
fn go_on<D: BlockDevice>(
    device: &mut Direct<'_, '_, D>,
    found: &Found,
    opening: u64,
) -> Result<Lives, OpenError> {
    let label = &found.label;
    // What settles the opening needs nothing that was before it.
    let record = |sequence: u64, phase: Phase, entries: Vec<Entry>| {
        let (tail, durable) = match phase {
            Phase::Opening => (found.tail, found.durable),
            Phase::Settling => (found.head + 1, sequence - 1),
            Phase::Open => unreachable!("the drive is not open yet"),
        };
        Record { sequence, tail, durable, stamp: opening, opening, phase, entries }
    };
    let mut sequence = found.head;
    let mut write = |device: &mut Direct<'_, '_, D>, phase: Phase, entries: &[Entry]| {
        sequence += 1;
        let mut block = [0; BLOCK_BYTES];
        record(sequence, phase, entries.to_vec()).encode(label.uuid, &mut block);
        device.write(label.layout.record_place(sequence), block, false).map(|()| sequence)
    };
    let active = || {
        (0..).map(ZoneIndex).zip(&found.zones).filter_map(|(zone, state)| match state {
            FoundZone::Active { end, tail } => Some((zone, *end, tail)),
            FoundZone::Empty | FoundZone::Full(_) => None,
        })
    };
    let identities: Vec<(ZoneIndex, u32, Entry)> = active()
        .flat_map(|(zone, end, tail)| {
            let begin = unit_of(end) * UNIT_BLOCKS;
            (begin..).zip(tail).map(move |(offset, identity)| {
                let stamp = low_half(opening);
                (zone, offset, Entry::Block { zone, offset, stamp, identity: *identity })
            })
        })
        .collect();
    let mut records: Vec<(ZoneIndex, u32, u64)> = Vec::new();
    for chunk in identities.chunks(RECORD_ENTRIES) {
        let entries: Vec<Entry> = chunk.iter().map(|(.., entry)| *entry).collect();
        let sequence = write(device, Phase::Opening, &entries)?;
        records.extend(chunk.iter().map(|(zone, offset, _)| (*zone, *offset, sequence)));
    }
    device.flush()?;
    let marks: Vec<Entry> =
        active().map(|(zone, end, _)| Entry::Mark { zone, durable: end, stamp: opening }).collect();
    let (settling, before) = marks.split_at(marks.len().min(RECORD_ENTRIES));
    let mut marked: Vec<u64> = Vec::new();
    for chunk in before.chunks(RECORD_ENTRIES) {
        let sequence = write(device, Phase::Opening, chunk)?;
        marked.resize(marked.len() + chunk.len(), sequence);
    }
    // The record that settles it is written when all others are there.
    if !before.is_empty() {
        device.flush()?;
    }
    let newest = write(device, Phase::Settling, settling)?;
    device.flush()?;
    let mut by_zone = BTreeMap::new();
    for (index, (zone, end, tail)) in active().enumerate() {
        let mark_record = index.checked_sub(settling.len()).map_or(newest, |index| marked[index]);
        let mut life = Life::new(zone, opening, end, tail.clone(), mark_record);
        records
            .iter()
            .filter(|(of, ..)| *of == zone)
            .for_each(|(_, offset, record)| life.note_record(*record, *offset));
        by_zone.insert(zone, life);
    }
    Ok(Lives { by_zone, newest })
}
