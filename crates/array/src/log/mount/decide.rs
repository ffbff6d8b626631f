//! Deciding which stripes of a segment count.
//!
//! A stripe whose whole chunks suffice to decode it (k of them, or one copy of each) counts: it can be read, so
//! it stays. One with fewer was never acknowledged, and is void. Two refinements keep that a stable function of the media:
//! - Groups before the last two that any zone has entered were complete before the next ones began.
//!   What is missing there is damage, not a torn write: every whole block counts by itself. Unless a zone
//!   ends before it: then its drive lost a volatile cache, and nothing was promised.
//! - In the last two groups, a stripe that every present member has or may have had counts: a chunk that is
//!   damaged and does not say of which stripe it is may have been any. Better an error than old data; but
//!   one present member that never had it is proof that it was never acknowledged.
//! - Damaged metadata is believed as far as this: a chunk that looks like a filler in all its fields is one, and
//!   one that names a stripe which fits its place may be of no other.
//! - In area mode a group may have holes anywhere, where the power went before a block arrived: zeros, as below.
//! - What a member lacks that lost what its windows held proves nothing (`windows`).
//! - A torn chunk is not damaged: its blocks are whole, only not all there. Blocks of zeros below the write
//!   pointer are not there either.
//! - Before them, too, unless recovery closed the group: then it left fillers, in more zones than can be lost, and the
//!   void stripes it found there stay void. (Members that can be mounted can decode; those that all have a chunk
//!   of a void stripe cannot; so one of them lacks its chunk, and has a filler.)
//! - Another server that lost its drives may have appended late (ADR 73): chunks of other groups or segments, or of a stripe that a zone has
//!   already. They lie where fillers would, close their group as those do, and are no damage.
//!
//! A chunk is whole when the metadata of all its blocks is; data damage is found when it is read.

use crate::log::mount::scan::{FoundSegment, FoundZone};
use crate::log::mount::{DamagedChunk, Session, windows};
use base::erasure::{Piece, PieceSet};
use base::units::DriveIndex;
use std::collections::{BTreeMap, BTreeSet};
use zone::format::footer::{Entry, EntryKind};
use zone::format::header::{SegmentHeader, WriteMode};
use zone::format::oob::{PROTECTED_BYTES, Role};
use zone::stripe::table::{Packing, StripeTable};
use zone::stripe::{Layout, StripeNumber};

/// Fate of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// No chunk of it was found.
    Absent,
    /// The stripe counts.
    Kept,
    /// The stripe was never acknowledged.
    Void,
}

/// Contents of a slot of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    Unwritten,
    Whole(StripeNumber),
    /// Filled up by recovery, or torn.
    Filler,
    /// Blocks of it are not whole; of this stripe, where a block of it says so.
    Damaged(Option<StripeNumber>),
}

/// A segment with its stripes decided.
pub struct Decided {
    /// Header of the segment.
    pub header: SegmentHeader,
    /// Layout of its stripes.
    pub layout: Layout,
    /// Zones of the segment by member.
    pub zones: Vec<Option<FoundZone>>,
    /// Members that are there but whose zone is to be rebuilt, one bit each.
    pub zones_missing: u32,
    /// Every zone is full.
    pub sealed: bool,
    /// True when the segment is not sealed and cannot be completed in place.
    pub condemned: bool,
    /// Kept stripes that lack a chunk and have no room for it.
    pub weak: Vec<StripeNumber>,
    /// Fate of each stripe.
    pub fates: Vec<Fate>,
    /// Kept stripes that a present member certainly never had: they were never acknowledged, and count only
    /// if their data can be had.
    pub unacknowledged: Vec<StripeNumber>,
    /// Slot of each stripe's whole chunk, by member.
    pub slots: Vec<Vec<Option<u32>>>,
    /// First slot after the last that any zone has touched.
    pub slots_touched: u32,
    /// Rows at its start that summaries describe.
    pub described: u32,
    /// A zone ends before them.
    pub is_behind: bool,
    /// True when what members lack of the segment may never have been promised.
    pub is_unproven: bool,
    /// Metadata that neighbours tell of data blocks whose own is lost, by stripe, piece and row.
    pub told: BTreeMap<(StripeNumber, Piece, u32), Entry>,
}

/// Decides the stripes of a segment.
pub fn run(session: &mut Session, found: FoundSegment) -> Decided {
    let FoundSegment {
        header,
        layout,
        zones,
        zones_missing,
        sealed,
        covered: _,
        described,
        is_behind,
        is_unproven,
        is_given_up,
    } = found;
    let windows_gone = if is_given_up { PieceSet::EMPTY } else { windows::members_gone(&zones) };
    let seen = Seen { is_unproven, windows_gone, ..Seen::look(&header, &layout, &zones) };
    assert!(zones.len() == layout.members(), "a zone of every member, or none");
    assert!(seen.slots_touched <= layout.stripes, "slot {} of {}", seen.slots_touched, layout.stripes);
    let tail = if sealed {
        layout.groups()
    } else {
        layout.group_of_slot(seen.slots_touched.saturating_sub(1)).saturating_sub(1)
    };
    let fates: Vec<Fate> =
        layout.all_stripes().map(|stripe| seen.fate(&layout, &zones, tail, stripe)).collect();
    session.report.stripes_void += fates.iter().filter(|fate| **fate == Fate::Void).count() as u64;
    let unacknowledged = (layout.all_stripes())
        .filter(|stripe| fates[stripe.index()] == Fate::Kept)
        .filter(|stripe| !seen.may_be_acknowledged(&layout, &zones, tail, *stripe))
        .collect();
    report_damage(session, &header, &layout, tail, &seen.damaged);
    Decided {
        header,
        layout,
        zones,
        zones_missing,
        sealed,
        condemned: false,
        weak: Vec::new(),
        fates,
        unacknowledged,
        slots: seen.slots,
        slots_touched: seen.slots_touched,
        described,
        is_behind,
        is_unproven,
        told: BTreeMap::new(),
    }
}

/// Findings from the chunks of a segment.
struct Seen {
    /// Slot of each stripe's whole chunk, by member.
    slots: Vec<Vec<Option<u32>>>,
    /// Pieces of each stripe whose chunk is whole.
    whole: Vec<PieceSet<Piece>>,
    /// Groups with fillers.
    closed_by_recovery: Vec<bool>,
    /// Damaged chunks by member and slot.
    damaged: Vec<(usize, u32)>,
    damage: Damage,
    /// Members that lost what the windows of their zones held.
    windows_gone: PieceSet,
    slots_touched: u32,
    is_unproven: bool,
}

impl Seen {
    fn look(header: &SegmentHeader, layout: &Layout, zones: &[Option<FoundZone>]) -> Seen {
        let stripes = layout.stripes as usize;
        let mut seen = Seen {
            slots: vec![vec![None; stripes]; layout.members()],
            whole: vec![PieceSet::EMPTY; stripes],
            closed_by_recovery: vec![false; layout.groups() as usize],
            damaged: Vec::new(),
            damage: Damage::new(layout),
            windows_gone: PieceSet::EMPTY,
            slots_touched: 0,
            is_unproven: false,
        };
        let mut hints = Vec::new();
        for (member, zone) in zones.iter().enumerate() {
            let Some(zone) = zone else { continue };
            let touched = slots_written(layout, zone);
            seen.slots_touched = seen.slots_touched.max(touched);
            for slot in 0..touched {
                match chunk_at(layout, zone, slot) {
                    Chunk::Whole(stripe) => seen.add_whole(layout, member, slot, stripe),
                    Chunk::Filler => seen.closed_by_recovery[layout.group_of_slot(slot) as usize] = true,
                    Chunk::Damaged(stripe) => {
                        seen.damaged.push((member, slot));
                        let own =
                            header.mode.has_static_slots().then_some(StripeNumber::of_static_slot(slot));
                        match (stripe.or(own), hinted(header, layout, member, zone, slot)) {
                            (None, Some(hint)) => hints.push((member, slot, hint)),
                            (stripe, _) => seen.damage.add(member, slot, stripe),
                        }
                    }
                    Chunk::Unwritten => {}
                }
            }
        }
        // A stripe that damaged metadata names must be known, and lack its chunk there.
        for (member, slot, hint) in hints {
            let plausible =
                !seen.whole[hint.index()].is_empty() && seen.slots[member][hint.index()].is_none();
            seen.damage.add(member, slot, Some(hint).filter(|_| plausible));
        }
        seen
    }

    fn add_whole(&mut self, layout: &Layout, member: usize, slot: u32, stripe: StripeNumber) {
        assert!(slot < layout.stripes, "slot {slot} of {}", layout.stripes);
        assert!(layout.has_stripe(stripe), "a whole chunk is of stripe {stripe} of {}", layout.stripes);
        let place = &mut self.slots[member][stripe.index()];
        if place.is_none() {
            *place = Some(slot);
            self.whole[stripe.index()].insert(layout.piece_of(stripe, member));
        } else {
            // A second one of the same stripe: one of the two is not what it says, or of another server (ADR 73). That one took the
            // place of a filler.
            self.damaged.push((member, slot));
            self.damage.add(member, slot, Some(stripe));
            self.closed_by_recovery[layout.group_of_slot(slot) as usize] = true;
        }
    }

    fn fate(&self, layout: &Layout, zones: &[Option<FoundZone>], tail: u32, stripe: StripeNumber) -> Fate {
        match self.whole[stripe.index()] {
            PieceSet::EMPTY => Fate::Absent,
            whole if layout.code.can_decode(whole) => Fate::Kept,
            _ if self.may_be_acknowledged(layout, zones, tail, stripe) => Fate::Kept,
            _ => Fate::Void,
        }
    }

    /// False when a present member certainly never had its chunk of the stripe.
    fn may_be_acknowledged(
        &self,
        layout: &Layout,
        zones: &[Option<FoundZone>],
        tail: u32,
        stripe: StripeNumber,
    ) -> bool {
        // The members that lack the whole segment do, too.
        if self.is_unproven {
            return false;
        }
        let group = layout.group_of(stripe);
        let group_end = layout.group_start(group) + layout.group_len(group);
        let lacks =
            |member: &usize| zones[*member].is_some() && self.slots[*member][stripe.index()].is_none();
        let mut lacking = (0..layout.members()).filter(lacks);
        let reaches = |zone: &FoundZone| slots_written(layout, zone) >= group_end;
        let trusted = group < tail && !self.closed_by_recovery[group as usize];
        lacking.all(|member| {
            self.windows_gone.contains(member)
                || self.damage.may_be_of(member, stripe)
                || trusted && zones[member].as_ref().is_some_and(reaches)
        })
    }
}

/// The stripe that the damaged metadata of a chunk seems to name, if all it says fits.
fn hinted(
    header: &SegmentHeader,
    layout: &Layout,
    member: usize,
    zone: &FoundZone,
    slot: u32,
) -> Option<StripeNumber> {
    let first = slot * layout.chunk_blocks;
    let group = layout.group_of_slot(slot);
    zone.hints.range(first..first + layout.chunk_blocks).find_map(|(_, hint)| {
        let fits = hint.segment == header.segment
            && layout.has_stripe(hint.stripe)
            && layout.group_of(hint.stripe) == group
            && layout.piece_of(hint.stripe, member) == hint.piece;
        fits.then_some(hint.stripe)
    })
}

/// Chunks that are damaged, by what is known of them.
struct Damage {
    layout: Layout,
    /// Stripes that damaged chunks say they are of, by member.
    of_stripe: Vec<BTreeSet<StripeNumber>>,
    /// Groups with others.
    in_group: Vec<BTreeSet<u32>>,
}

impl Damage {
    fn new(layout: &Layout) -> Damage {
        let of_stripe = vec![BTreeSet::new(); layout.members()];
        let in_group = vec![BTreeSet::new(); layout.members()];
        Damage { layout: *layout, of_stripe, in_group }
    }

    fn add(&mut self, member: usize, slot: u32, stripe: Option<StripeNumber>) {
        match stripe {
            Some(stripe) => self.of_stripe[member].insert(stripe),
            None => self.in_group[member].insert(self.layout.group_of_slot(slot)),
        };
    }

    /// True when a damaged chunk of a member may be that of a stripe.
    fn may_be_of(&self, member: usize, stripe: StripeNumber) -> bool {
        self.of_stripe[member].contains(&stripe)
            || self.in_group[member].contains(&self.layout.group_of(stripe))
    }
}

/// Damage before the tail was done by the media; in the tail it may be a torn write.
fn report_damage(
    session: &mut Session,
    header: &SegmentHeader,
    layout: &Layout,
    tail: u32,
    damaged: &[(usize, u32)],
) {
    for (member, slot) in damaged {
        if layout.group_of_slot(*slot) < tail {
            session.report.damaged_chunks.push(DamagedChunk {
                drive: DriveIndex::at(*member),
                zone: header.zones[*member],
                offset: layout.slot_offset(*slot),
            });
        }
    }
}

/// Slots of a zone that have been written, a torn one included.
fn slots_written(layout: &Layout, zone: &FoundZone) -> u32 {
    zone.written.saturating_sub(layout.header_blocks).div_ceil(layout.chunk_blocks).min(layout.stripes)
}

fn chunk_at(layout: &Layout, zone: &FoundZone, slot: u32) -> Chunk {
    let first = (slot * layout.chunk_blocks) as usize;
    let written = zone.written.saturating_sub(layout.slot_offset(slot)).min(layout.chunk_blocks);
    assert!(slot < layout.stripes, "slot {slot} of {}", layout.stripes);
    let rows = &zone.entries[first..first + written as usize];
    let places = slot * layout.chunk_blocks..slot * layout.chunk_blocks + written;
    let was_filler = zone.hints.range(places).any(|(_, hint)| hint.is_filler);
    let stripe = rows.iter().flatten().find(|entry| entry.kind != EntryKind::Void).map(|entry| entry.stripe);
    let is_of_it = |row: &Option<Entry>| row.is_some_and(|row| Some(row.stripe) == stripe);
    match stripe {
        _ if rows.is_empty() => Chunk::Unwritten,
        _ if was_filler || rows.iter().flatten().any(|entry| entry.kind == EntryKind::Void) => Chunk::Filler,
        _ if !rows.iter().all(|row| row.is_some_and(|row| row.whole)) => Chunk::Damaged(stripe),
        Some(stripe) if written == layout.chunk_blocks && rows.iter().all(is_of_it) => Chunk::Whole(stripe),
        _ => Chunk::Filler,
    }
}

impl Decided {
    /// The stripe table of an append segment: where whole chunks are, and for chunks of kept stripes
    /// that are not there, the slot of their number on missing members, or a slot that holds
    /// nothing whole where the member is present but damaged.
    pub fn stripe_table(&self, packing: Packing) -> Option<StripeTable> {
        if self.header.mode.has_static_slots() {
            return None;
        }
        let mut table = StripeTable::new(&self.layout, packing);
        for member in 0..self.layout.members() {
            for stripe in self.layout.all_stripes() {
                if self.fates[stripe.index()] != Fate::Kept {
                    continue;
                }
                let within = self.layout.within_group(stripe);
                match self.slots[member][stripe.index()] {
                    Some(slot) => table.set(member, slot, within),
                    None if self.zones[member].is_none() => table.set(member, stripe.static_slot(), within),
                    None => {}
                }
            }
        }
        if self.sealed {
            table.settle();
        }
        Some(table)
    }

    /// Gives chunks of kept stripes that a present member lacks the slot where a block of them was found,
    /// or else one of their group that no whole chunk has (damaged, torn and filled up, or a second one that
    /// says it is another): what is read there fails its check and is rebuilt.
    pub fn place_damaged(&mut self) {
        for member in 0..self.layout.members() {
            match self.header.mode {
                WriteMode::Write | WriteMode::Area => self.place_at_their_own_slots(member),
                WriteMode::Append => self.place_in_groups(member),
            }
        }
    }

    fn place_at_their_own_slots(&mut self, member: usize) {
        let Some(zone) = &self.zones[member] else { return };
        for stripe in (0..slots_written(&self.layout, zone)).map(StripeNumber::of_static_slot) {
            if self.fates[stripe.index()] == Fate::Kept {
                self.slots[member][stripe.index()].get_or_insert(stripe.static_slot());
            }
        }
    }

    fn place_in_groups(&mut self, member: usize) {
        let Some(zone) = &self.zones[member] else { return };
        let mut taken = vec![false; self.layout.stripes as usize];
        for slot in self.slots[member].iter().flatten() {
            taken[*slot as usize] = true;
        }
        for slot in 0..slots_written(&self.layout, zone) {
            let Chunk::Damaged(Some(stripe)) = chunk_at(&self.layout, zone, slot) else { continue };
            let place = &mut self.slots[member][stripe.index()];
            if self.fates[stripe.index()] == Fate::Kept && place.is_none() {
                *place = Some(slot);
                taken[slot as usize] = true;
            }
        }
        for stripe in self.layout.all_stripes() {
            if self.fates[stripe.index()] != Fate::Kept || self.slots[member][stripe.index()].is_some() {
                continue;
            }
            let start = self.layout.group_start(self.layout.group_of(stripe));
            let mut range = start..start + self.layout.group_len(self.layout.group_of(stripe));
            let free = range.find(|slot| {
                !taken[*slot as usize] && chunk_at(&self.layout, zone, *slot) != Chunk::Unwritten
            });
            assert!(free.is_none_or(|slot| slot < self.layout.stripes), "a slot of the group");
            if let Some(slot) = free {
                taken[slot as usize] = true;
                self.slots[member][stripe.index()] = Some(slot);
            }
        }
    }

    /// True when blocks of a member's slot are not whole, for another reason than that they were never written.
    pub fn is_damaged_in(&self, member: usize, slot: u32) -> bool {
        let zone = self.zones[member].as_ref();
        zone.is_some_and(|zone| matches!(chunk_at(&self.layout, zone, slot), Chunk::Damaged(_)))
    }

    /// True when a stripe's chunk in a slot of a member's zone is whole.
    pub fn is_whole_in(&self, member: usize, stripe: StripeNumber, slot: u32) -> bool {
        let chunk = self.zones[member].as_ref().map(|zone| chunk_at(&self.layout, zone, slot));
        chunk == Some(Chunk::Whole(stripe))
    }

    /// Pieces of a stripe whose chunks are whole.
    pub fn whole_pieces(&self, stripe: StripeNumber) -> PieceSet<Piece> {
        let slot = |member: &usize| self.slots[*member][stripe.index()];
        let is_whole =
            |member: &usize| slot(member).is_some_and(|slot| self.is_whole_in(*member, stripe, slot));
        let members = (0..self.layout.members()).filter(is_whole);
        members.map(|member| self.layout.piece_of(stripe, member)).collect()
    }

    /// Slot of a kept stripe's chunk, whether it is whole, damaged or missing.
    pub fn slot_of(&self, member: usize, stripe: StripeNumber) -> Option<u32> {
        match self.header.mode {
            WriteMode::Write | WriteMode::Area => Some(stripe.static_slot()),
            WriteMode::Append => match self.slots[member][stripe.index()] {
                None if self.zones[member].is_none() => Some(stripe.static_slot()),
                slot => slot,
            },
        }
    }

    /// Metadata of one row of a kept stripe's data piece: read, told by a neighbour, or decoded from
    /// others.
    pub fn data_entry(&self, stripe: StripeNumber, piece: Piece, row: u32) -> Option<Entry> {
        self.entry_of_piece(stripe, piece, row).or_else(|| {
            let decoded = self.decode_entry(stripe, piece, row)?;
            Entry::from_protected(&decoded, Role::Data, stripe)
        })
    }

    /// Metadata of one row of any piece of a kept stripe.
    pub fn entry(&self, stripe: StripeNumber, piece: Piece, row: u32) -> Option<Entry> {
        if self.layout.code.is_data(piece) {
            return self.data_entry(stripe, piece, row);
        }
        self.entry_of_piece(stripe, piece, row).or_else(|| {
            let decoded = self.decode_entry(stripe, piece, row)?;
            Entry::from_protected(&decoded, Role::Parity, stripe)
        })
    }

    fn decode_entry(&self, stripe: StripeNumber, piece: Piece, row: u32) -> Option<[u8; PROTECTED_BYTES]> {
        let fields: Vec<(Piece, [u8; PROTECTED_BYTES])> = (self.layout.code.pieces().iter())
            .filter(|other| *other != piece)
            .filter_map(|other| {
                let entry = self.entry_of_piece(stripe, other, row)?;
                Some((other, entry.protected_bytes()?))
            })
            .collect();
        self.layout.code.sources(piece, fields.iter().map(|(piece, _)| *piece).collect())?;
        let mut decoded = [0; PROTECTED_BYTES];
        let fields: Vec<(Piece, &[u8; PROTECTED_BYTES])> =
            fields.iter().map(|(piece, field)| (*piece, field)).collect();
        self.layout.code.decode_field(piece, &fields, &mut decoded);
        Some(decoded)
    }

    /// Metadata of one row of a piece, as it was read or told.
    fn entry_of_piece(&self, stripe: StripeNumber, piece: Piece, row: u32) -> Option<Entry> {
        self.read_entry(stripe, piece, row).or_else(|| self.told.get(&(stripe, piece, row)).copied())
    }

    fn read_entry(&self, stripe: StripeNumber, piece: Piece, row: u32) -> Option<Entry> {
        let member = self.layout.drive_of(stripe, piece);
        let slot = self.slots[member][stripe.index()]?;
        let zone = self.zones[member].as_ref()?;
        let entry = zone.entries[(slot * self.layout.chunk_blocks + row) as usize]?;
        assert!(row < self.layout.chunk_blocks, "row {row} of chunks of {} blocks", self.layout.chunk_blocks);
        let is_known = !matches!(entry.kind, EntryKind::Void | EntryKind::Unknown);
        (entry.stripe == stripe && is_known).then_some(entry)
    }
}
