//! The write area of before: what its slots hold is found in the windows, and goes to the log before clients are served (ADR 53).
//!
//! Every block of every window is read, committed or not. A block that is whole and says that it belongs where it lies is a version
//! of its block; of all there are, in slots and in the log, the one with the highest sequence counts. So it does no harm that slots
//! keep what has left them: what a slot was given away for is durable in the log, or something newer is there or in another slot.
//!
//! ```text
//!   copies of a slot     what holds
//!   new, old             the new one: it may have been acknowledged with a drive that is gone
//!   x, y                 both are looked at: what y is by now is in the log
//!   rotten, whole        the whole one
//!   rotten, rotten       lost, if nothing newer is in the log: reading it fails
//!   unknown, unknown     nobody knows which block is older now than it was: as if both windows were lost
//! ```
//! A copy is unknown when its block cannot be read, or is neither blank nor says what it is.
//! A window without any block, though its zone has a header, has lost what it held, for the marker was there before any slot. While those
//! that lost it and those that are not there are no more than the array can lose, a copy of each block is left. With more, the mount
//! is refused like that of a segment in area mode (`windows.rs`). A zone that is empty, or holds another segment, says that all slots had left:
//! zones are erased only then, or being made.

use crate::log::area::slots::SlotPlaces;
use crate::log::mount::scan::{Extent, FoundArea, Scan, read_extents};
use crate::log::mount::{DamagedChunk, DamagedCopy, LostWrites, MountError, Session};
use base::checksum::crc32c;
use base::erasure::PieceSet;
use base::frame::Frame;
use base::units::{DriveIndex, Lba};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use zone::format::header::MARKER_BLOCKS;
use zone::format::oob::{self, Bound, Kind, Protected, Role};

/// Times that a window is read in which a block is not whole: a drive may have returned another one, once.
const READS_MAX: usize = 2;

/// The newest version of a block that slots hold.
pub struct FoundSlot {
    /// The block.
    pub lba: Lba,
    /// Its sequence.
    pub sequence: u64,
    /// Its data; `None` when no copy is whole.
    pub frame: Option<Frame>,
}

/// Versions that copies of a slot hold.
#[derive(Default)]
struct Copies {
    whole: Vec<(Protected, Frame)>,
    /// Of those whose data are damaged, what they say they are.
    rotten: Vec<Protected>,
}

/// What the windows of a segment hold.
#[derive(Default)]
struct Windows {
    slots: BTreeMap<u32, Copies>,
    /// Members whose windows lost what they held.
    gone: PieceSet,
    /// Copies of slots that are unknown: slot and member.
    unknown: Vec<(u32, usize)>,
    /// Copies that are unknown or rotten, with their slots.
    damaged: Vec<(u32, DamagedChunk)>,
}

impl Windows {
    /// Slots of which no copy is known, and the members that hold those copies, when these ones have nothing of any.
    fn unknown_slots(&self, places: &SlotPlaces, without: PieceSet) -> (u64, PieceSet) {
        let is_unknown =
            |slot: u32, member: usize| without.contains(member) || self.unknown.contains(&(slot, member));
        let all_unknown =
            |slot: &u32| (0..places.copies).all(|copy| is_unknown(*slot, places.of(*slot, copy).0));
        let slots: BTreeSet<u32> = self.unknown.iter().map(|(slot, _)| *slot).filter(all_unknown).collect();
        let members = self.unknown.iter().filter(|(slot, _)| slots.contains(slot)).map(|(_, member)| *member);
        (slots.len() as u64, members.collect())
    }
}

/// Reads all slots. Returns the newest version of each block that one holds.
///
/// # Errors
/// When more drives than the array can lose lost what windows held, or are not there, and the operator does not accept that.
pub fn read(
    session: &mut Session,
    scan: &Scan,
    accepts_lost_writes: bool,
) -> Result<Vec<FoundSlot>, MountError> {
    if scan.areas.is_empty() {
        return Ok(Vec::new());
    }
    let mut slots: BTreeMap<Lba, FoundSlot> = BTreeMap::new();
    let mut lost = LostWrites { members: PieceSet::EMPTY, missing: PieceSet::EMPTY, blocks_max: 0 };
    for area in &scan.areas {
        let places = places_of(session, area);
        let windows = read_area(session, area, &places);
        let missing = session.config.code().pieces().without(area.readable);
        let without = windows.gone.or(missing);
        let (unknown, unknown_on) = windows.unknown_slots(&places, without);
        let has_other = |slot: &u32| windows.slots.get(slot).is_some_and(|copies| !copies.whole.is_empty());
        let damaged =
            windows.damaged.iter().map(|(slot, at)| DamagedCopy { at: *at, has_other: has_other(slot) });
        session.report.slot_copies_damaged.extend(damaged);
        for copies in windows.slots.into_values() {
            offer(&mut slots, copies);
        }
        let all_gone = !windows.gone.is_empty() && without.count() > session.config.code().tolerance();
        if area.was_left || !all_gone && unknown == 0 {
            session.report.windows_gone = session.report.windows_gone.or(windows.gone);
            continue;
        }
        lost.members = lost.members.or(windows.gone).or(unknown_on);
        lost.missing = lost.missing.or(missing);
        lost.blocks_max += if all_gone { u64::from(places.slots()) } else { unknown };
    }
    session.expect_all_there()?;
    if !lost.members.is_empty() {
        assert!(lost.blocks_max > 0, "{} lost windows without slots", lost.members.count());
        if !accepts_lost_writes {
            return Err(MountError::WindowsGone(lost));
        }
        if let Some(before) = session.report.writes_lost {
            lost.members = lost.members.or(before.members);
            lost.missing = lost.missing.or(before.missing);
            lost.blocks_max += before.blocks_max;
        }
        session.report.writes_lost = Some(lost);
    }
    Ok(slots.into_values().collect())
}

/// The newest version of a slot joins those of others.
fn offer(slots: &mut BTreeMap<Lba, FoundSlot>, copies: Copies) {
    let versions: Vec<FoundSlot> = match copies.whole.is_empty() {
        false => copies.whole.into_iter().map(|(said, frame)| found(said, Some(frame))).collect(),
        true => copies.rotten.into_iter().map(|said| found(said, None)).collect(),
    };
    for version in versions {
        match slots.entry(version.lba) {
            Entry::Vacant(place) => _ = place.insert(version),
            Entry::Occupied(mut place) if place.get().sequence < version.sequence => {
                _ = place.insert(version)
            }
            Entry::Occupied(_) => {}
        }
    }
}

fn found(said: Protected, frame: Option<Frame>) -> FoundSlot {
    FoundSlot { lba: Lba(said.lba), sequence: said.sequence, frame }
}

/// Reads the windows of a segment, of all drives side by side.
fn read_area(session: &mut Session, area: &FoundArea, places: &SlotPlaces) -> Windows {
    let mut all: Vec<Window> =
        area.readable.iter().map(|member| Window::new(session, area, places, member)).collect();
    for _ in 0..READS_MAX {
        let unknown: Vec<&mut Window> = all.iter_mut().filter(|window| !window.is_known()).collect();
        let extents: Vec<Extent> = unknown.iter().map(|window| window.extent()).collect();
        for (window, blocks) in unknown.into_iter().zip(read_extents(session, &extents)) {
            window.note(blocks);
        }
    }
    let mut windows = Windows::default();
    for window in all {
        let member = window.member;
        if !window.open_slots(&mut windows) {
            windows.gone.insert(member);
        }
    }
    windows
}

/// A block of a window as it was read: the best of several answers.
enum Answer {
    Unreadable,
    Blank,
    Block(Frame),
}

/// Window of a member's zone.
struct Window {
    segment: u64,
    bound: Bound,
    places: SlotPlaces,
    member: usize,
    volume_blocks: u64,
    /// Its blocks, from the marker on.
    answers: Vec<Answer>,
}

impl Window {
    /// One of which nothing was read yet.
    fn new(session: &Session, area: &FoundArea, places: &SlotPlaces, member: usize) -> Window {
        assert!(places.first >= MARKER_BLOCKS, "slots begin at block {}, before the marker", places.first);
        let marker = places.first - MARKER_BLOCKS;
        let blocks = area.ends[member].saturating_sub(marker) as usize;
        Window {
            segment: area.header.segment,
            bound: Bound { array: session.array_tag(), zone: area.header.zones[member], group: 0 },
            places: *places,
            member,
            volume_blocks: session.config.volume_blocks,
            answers: (0..blocks).map(|_| Answer::Unreadable).collect(),
        }
    }

    /// Place of the marker in the zone.
    fn marker(&self) -> u32 {
        self.places.first - MARKER_BLOCKS
    }

    /// Its blocks in the zone.
    fn extent(&self) -> Extent {
        let end = self.marker() + u32::try_from(self.answers.len()).expect("blocks of a zone");
        Extent { member: self.member, zone: self.bound.zone, blocks: self.marker()..end }
    }

    /// True when another read could make no block better: the marker, a whole copy, and what is left over behind all slots.
    fn is_known(&self) -> bool {
        (self.marker()..).zip(&self.answers).all(|(offset, answer)| {
            let Answer::Block(frame) = answer else {
                return offset >= self.places.first
                    && self.places.at(self.member, offset).0 >= self.places.slots();
            };
            offset < self.places.first || self.is_whole_slot(offset, frame)
        })
    }

    /// Its blocks were read: of each, the better answer stays.
    fn note(&mut self, blocks: Vec<Option<Frame>>) {
        for ((offset, frame), place) in (self.marker()..).zip(blocks).zip(0..) {
            let answer = match frame {
                None => continue,
                Some(frame) if frame.is_blank() => Answer::Blank,
                Some(frame) => Answer::Block(frame),
            };
            let is_better = match (&self.answers[place], &answer) {
                (Answer::Unreadable, _) | (Answer::Blank, Answer::Block(_)) => true,
                (_, Answer::Block(frame)) => offset >= self.places.first && self.is_whole_slot(offset, frame),
                (_, Answer::Blank | Answer::Unreadable) => false,
            };
            if is_better {
                self.answers[place] = answer;
            }
        }
    }

    /// Adds its copies to those of the others. False when nothing is there, not even the marker.
    fn open_slots(mut self, windows: &mut Windows) -> bool {
        if self.answers.iter().all(|answer| matches!(answer, Answer::Blank)) {
            return false;
        }
        let (member, zone, marker) = (self.member, self.bound.zone, self.marker());
        let answers = std::mem::take(&mut self.answers);
        for (offset, answer) in (marker..).zip(answers).skip(MARKER_BLOCKS as usize) {
            let (slot, _) = self.places.at(member, offset);
            if slot >= self.places.slots() {
                // Fewer blocks than a slot has copies are left over.
                continue;
            }
            let frame = match answer {
                Answer::Blank => continue,
                Answer::Unreadable => None,
                Answer::Block(frame) => Some(frame),
            };
            match frame.and_then(|frame| Some((self.open(offset, &frame)?, frame))) {
                Some((said, frame)) if is_whole(&frame) => {
                    windows.slots.entry(slot).or_default().whole.push((said, frame));
                    continue;
                }
                Some((said, _)) => windows.slots.entry(slot).or_default().rotten.push(said),
                None => windows.unknown.push((slot, member)),
            }
            windows.damaged.push((slot, DamagedChunk { drive: DriveIndex::at(member), zone, offset }));
        }
        true
    }

    /// True for a whole copy of the slot that lies there.
    fn is_whole_slot(&self, offset: u32, frame: &Frame) -> bool {
        self.open(offset, frame).is_some() && is_whole(frame)
    }

    /// What a block of a slot says it is, if it says that it belongs where it lies.
    fn open(&self, offset: u32, frame: &Frame) -> Option<Protected> {
        let place = oob::open(&frame.oob, &self.bound)?.place;
        let (slot, copy) = self.places.at(self.member, offset);
        let belongs = place.role == Role::Slot
            && place.segment == self.segment
            && (place.stripe.static_slot(), place.piece.index()) == (slot, copy as usize);
        let said = Protected::from_bytes(&frame.oob).filter(|said| said.kind == Kind::User)?;
        (belongs && said.lba < self.volume_blocks).then_some(said)
    }
}

/// True when the data of a block are those that it was written with.
fn is_whole(frame: &Frame) -> bool {
    oob::data_crc(&frame.oob) == crc32c(&frame.data)
}

/// Places of the slots of a segment.
fn places_of(session: &Session, area: &FoundArea) -> SlotPlaces {
    let members = u32::try_from(session.config.members).expect("at most 32 members");
    let windows =
        area.readable.iter().filter_map(|member| session.drives.geometry(DriveIndex::at(member))?.areas);
    let blocks = windows.map(|areas| areas.window_blocks - MARKER_BLOCKS).max().unwrap_or(0);
    let copies = u32::try_from(session.config.code().tolerance()).expect("at most 32 members") + 1;
    SlotPlaces { members, copies, blocks, first: area.header.header_blocks }
}
