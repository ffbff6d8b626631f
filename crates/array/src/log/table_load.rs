//! Reading a stripe table that was dropped: that of one group, from the footers of its segment.
//!
//! ```text
//!  each zone:  Footer ──not whole──> FooterAgain ──not whole──> Blocks ──a read fails──> EachBlock
//! ```
//! A read may lie once (ADR 11), so a footer is read again, block by block. It only repeats what the blocks say of
//! themselves, so they are asked in place of one that is damaged, and those in doubt again. What no zone of a member can
//! tell, because the member is missing or the chunk is damaged, follows from the others: metadata parity tells which
//! blocks the chunk of a stripe had, and the index where they are. A chunk of which nothing is live may have any slot that
//! is left: nothing points there (as [`Segment::place_missing`]). Nor will anything after a crash: a zone that is rebuilt
//! that way counts only when whatever made the chunk dead is durable (`rebuild.rs`).
//!
//! [`Segment::place_missing`]: crate::log::segment::Segment::place_missing

use crate::log::answer::{Answer, Asked, Doubt, Question, said_twice};
use crate::log::blame::Blame;
use crate::log::core::Core;
use crate::log::dropped_tables::TABLE_LOADS_MAX;
use crate::log::index::Name;
use crate::log::reader::Reader;
use crate::log::segment::{Segment, SegmentSlot};
use crate::log::segment_life::FOOTER_BLOCKS_PER_COMMAND;
use crate::log::{Effects, Waiter};
use base::erasure::Piece;
use base::frame::Frame;
use std::collections::BTreeSet;
use std::ops::Range;
use zone::device::{Completion, Op, Status};
use zone::format::HEADER_BLOCKS;
use zone::format::footer::{self, ENTRIES_PER_BLOCK, Entry, EntryKind, FooterId};
use zone::format::oob::{PROTECTED_BYTES, Protected};
use zone::stripe::table::StripeTable;
use zone::stripe::{Layout, StripeNumber};

/// Source of a zone's entries: its footer, or its blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Source {
    #[default]
    Footer,
    FooterAgain,
    Blocks,
    EachBlock,
}

impl Source {
    fn is_footer(self) -> bool {
        matches!(self, Source::Footer | Source::FooterAgain)
    }

    /// Returns the source to ask when an answer was not whole.
    fn next(self) -> Source {
        match self {
            Source::Footer => Source::FooterAgain,
            Source::FooterAgain => Source::Blocks,
            Source::Blocks | Source::EachBlock => Source::EachBlock,
        }
    }
}

/// Answers of a zone so far.
#[derive(Debug, Default)]
struct ZoneRead {
    source: Source,
    /// Entries of the blocks of the group, from its first; none of one that says nothing.
    entries: Vec<Option<Entry>>,
    /// Places of blocks that are in doubt, the last of which is asked next.
    doubtful: Vec<(u32, Question)>,
    /// Places that were asked because another one said the same.
    told_apart: BTreeSet<u32>,
}

impl ZoneRead {
    /// The last block in doubt has answered; `None` when it cannot be read.
    fn hear(&mut self, answer: Option<&Answer>) {
        let (place, question) = self.doubtful.last_mut().expect("one was asked");
        let is_settled = answer.is_none_or(|answer| {
            self.entries[*place as usize] = answer.entry;
            question.hear(answer)
        });
        if is_settled {
            self.doubtful.pop();
        }
    }

    /// All blocks have answered for certain, as far as they can: those that say the same are in doubt, once each. What
    /// one of them says then may be what a third one says.
    fn tell_apart(&mut self, chunk_blocks: u32) {
        for place in said_twice(&self.entries, chunk_blocks) {
            if self.told_apart.insert(place) {
                self.doubtful.push((place, Question::of(Doubt::SaidTwice, self.entries[place as usize])));
            }
        }
    }
}

/// The table of a group being read; its segment is pinned.
#[derive(Debug)]
pub struct TableLoad {
    segment: SegmentSlot,
    group: u32,
    zones: Vec<ZoneRead>,
    zones_pending: usize,
}

/// Blocks of a zone's data region that belong to a group.
fn region_of(layout: &Layout, group: u32) -> Range<u32> {
    layout.group_start(group) * layout.chunk_blocks..layout.group_start(group + 1) * layout.chunk_blocks
}

impl Reader {
    /// A zone has told something. Where a block of its footer is not whole, or cannot be read, the blocks themselves
    /// are asked.
    pub(super) fn on_table(
        &mut self,
        core: &mut Core,
        slot: u32,
        drive: usize,
        completion: Completion,
        fx: &mut Effects,
    ) {
        let Completion { token, status, frames, offset, .. } = completion;
        if status == Status::DeviceGone {
            core.fail_member(drive, Blame::answer(token, status), fx);
        }
        let load = self.dropped_tables.loads.get(slot);
        let segment = core.segments.get(load.segment);
        let blocks = region_of(&segment.layout, load.group);
        let (source, known) = (load.zones[drive].source, load.zones[drive].entries.len());
        let asked = Asked {
            array: core.array_tag,
            segment: segment.id,
            mode: segment.mode,
            layout: &segment.layout,
            member: drive,
            zone: segment.zones[drive],
        };
        let mut told: Vec<Option<Entry>> = Vec::new();
        let mut doubtful = Vec::new();
        let mut skipped = 0;
        let is_whole = if known == blocks.len() {
            let answer = (status == Status::Success).then(|| asked.answer(offset, &frames[0]));
            self.dropped_tables.loads.get_mut(slot).zones[drive].hear(answer.as_ref());
            true
        } else if source.is_footer() {
            // The first and the last block of the footer may tell of other groups, too.
            let first = (offset - segment.layout.footer_offset()) * ENTRIES_PER_BLOCK;
            skipped = blocks.start as usize + known - first as usize;
            status == Status::Success && entries_of_footer(core, segment, drive, offset, &frames, &mut told)
        } else if status == Status::Success {
            for (offset, frame) in (offset..).zip(&frames) {
                let (place, answer) = (offset - HEADER_BLOCKS - blocks.start, asked.answer(offset, frame));
                if !answer.is_certain {
                    doubtful.push((place, Question::of(Doubt::NotItself, answer.entry)));
                }
                told.push(answer.entry);
            }
            true
        } else if source == Source::EachBlock {
            told.push(None);
            true
        } else {
            false
        };
        assert!(
            doubtful.len() <= told.len(),
            "{} blocks in doubt of {} that answered",
            doubtful.len(),
            told.len()
        );
        let zone = &mut self.dropped_tables.loads.get_mut(slot).zones[drive];
        zone.source = if is_whole { source } else { source.next() };
        zone.entries.extend(told.into_iter().skip(skipped).take(blocks.len() - known));
        zone.doubtful.extend(doubtful);
        core.frames.give_vec(frames);
        self.read_table(core, slot, drive, fx);
    }

    /// Begins to read the table of a group, unless that is being done or too many others are.
    pub(super) fn load_table(&mut self, core: &mut Core, slot: SegmentSlot, group: u32, fx: &mut Effects) {
        let loads = &self.dropped_tables.loads;
        let is_it = |load: &TableLoad| (load.segment, load.group) == (slot, group);
        if loads.len() >= TABLE_LOADS_MAX || loads.iter().any(is_it) {
            return;
        }
        assert!(!core.segments.get(slot).is_write_area, "slots of the write area have no stripe table");
        let segment = core.segments.get_mut(slot);
        segment.pin();
        let members = segment.layout.members();
        let zones = (0..members).map(|_| ZoneRead::default()).collect();
        // One more than there are, so that the load cannot end before all are asked.
        let load = TableLoad { segment: slot, group, zones, zones_pending: members + 1 };
        let load = self.dropped_tables.loads.insert(load);
        for drive in 0..members {
            self.read_table(core, load, drive, fx);
        }
        self.table_told(core, load);
    }

    /// Asks a zone for what it has not told yet.
    fn read_table(&mut self, core: &mut Core, slot: u32, drive: usize, fx: &mut Effects) {
        let load = self.dropped_tables.loads.get_mut(slot);
        let segment = core.segments.get(load.segment);
        let layout = &segment.layout;
        let blocks = region_of(layout, load.group);
        let zone = &mut load.zones[drive];
        let next = blocks.start + u32::try_from(zone.entries.len()).expect("a u32 of blocks");
        assert!(next <= blocks.end, "a zone has told {} blocks of {blocks:?}", zone.entries.len());
        let all_told = next == blocks.end;
        if all_told && zone.doubtful.is_empty() && !zone.source.is_footer() {
            zone.tell_apart(layout.chunk_blocks);
        }
        let doubtful = zone.doubtful.last().filter(|_| all_told);
        if all_told && doubtful.is_none() || !core.membership.has_zone(segment, drive) {
            return self.table_told(core, slot);
        }
        let most = FOOTER_BLOCKS_PER_COMMAND.min(core.config.geometry.transfer_blocks_max);
        let (offset, count) = match zone.source {
            _ if let Some((place, _)) = doubtful => (HEADER_BLOCKS + blocks.start + place, 1),
            Source::Footer | Source::FooterAgain => {
                let (first, last) = (next / ENTRIES_PER_BLOCK, (blocks.end - 1) / ENTRIES_PER_BLOCK);
                let count = if zone.source == Source::Footer { most.min(last + 1 - first) } else { 1 };
                (layout.footer_offset() + first, count)
            }
            Source::Blocks => (HEADER_BLOCKS + next, most.min(blocks.end - next)),
            Source::EachBlock => (HEADER_BLOCKS + next, 1),
        };
        let zone = segment.zones[drive];
        let part = u32::try_from(drive).expect("at most 32 members");
        let frames = core.frames.take_vec(count as usize);
        fx.command(drive, zone, Waiter::Table { slot, part }, Op::Read { offset, frames });
    }

    /// Notes that a table has one zone less to wait for.
    fn table_told(&mut self, core: &mut Core, slot: u32) {
        let load = self.dropped_tables.loads.get_mut(slot);
        assert!(load.zones_pending > 0, "a zone tells its table once");
        load.zones_pending -= 1;
        if load.zones_pending > 0 {
            return;
        }
        let load = self.dropped_tables.loads.remove(slot);
        let table = table_from(core, &load);
        core.segments.get_mut(load.segment).unpin();
        self.keep_table(core, load.segment, load.group, table);
    }
}

/// Adds what footer blocks say, up to the first that is not whole; true when all are.
fn entries_of_footer(
    core: &Core,
    segment: &Segment,
    drive: usize,
    offset: u32,
    frames: &[Frame],
    told: &mut Vec<Option<Entry>>,
) -> bool {
    let layout = &segment.layout;
    let mut entries = Vec::new();
    let is_whole = (offset - layout.footer_offset()..).zip(frames).all(|(index, frame)| {
        let zone = segment.zones[drive];
        let id = FooterId { array: core.array_tag, segment: segment.id, zone, index };
        footer::decode(&id, &frame.data, layout.footer_entries(index).len(), &mut entries)
    });
    told.extend(entries.into_iter().map(Some));
    is_whole
}

/// The table, from what the zones have told.
fn table_from(core: &Core, load: &TableLoad) -> StripeTable {
    let layout = &core.segments.get(load.segment).layout;
    let mut told = Told::of(layout, load);
    for drive in 0..layout.members() {
        let mut places: Vec<(u64, u32, u32)> = Vec::new();
        for within in told.untold(drive) {
            places_by_index(core, load, &told, (drive, within), &mut places);
        }
        // Of several versions of a block, the index points to the newest.
        places.sort_unstable();
        for (_, within, at) in places.into_iter().rev() {
            told.place(drive, within, at);
        }
        told.place_rest(drive);
    }
    let mut table = StripeTable::of_group(layout, load.group, core.segments.packing());
    for (drive, slots) in told.slots.iter().enumerate() {
        for (at, within) in (0..).zip(slots) {
            if let Some(within) = within {
                table.set(drive, at, *within);
            }
        }
    }
    table.settle();
    table
}

/// Finds the chunk of a stripe on a drive by what the index says of its blocks: their sequences, the stripe and the
/// slot, both within the group.
fn places_by_index(
    core: &Core,
    load: &TableLoad,
    told: &Told,
    (drive, within): (usize, u32),
    places: &mut Vec<(u64, u32, u32)>,
) {
    let segment = core.segments.get(load.segment);
    let layout = &segment.layout;
    let start = layout.group_start(load.group);
    let stripe = layout.stripe_within(load.group, within);
    let lost = layout.piece_of(stripe, drive);
    if !layout.code.is_data(lost) {
        return;
    }
    for row in 0..layout.chunk_blocks {
        let others = (0..layout.members()).filter(|other| *other != drive);
        let known: Vec<(Piece, [u8; PROTECTED_BYTES])> = others
            .filter_map(|other| {
                let at = told.place_of[other][within as usize]?;
                let entries = &load.zones[other].entries;
                let entry = (*entries.get((at * layout.chunk_blocks + row) as usize)?)?;
                Some((layout.piece_of(stripe, other), entry.protected_bytes()?))
            })
            .collect();
        let Some(protected) = decode(layout, lost, &known) else { continue };
        let Some(pba) = Name::of(&protected, &core.index).and_then(|name| core.index.get(name)) else {
            continue;
        };
        let location = core.pba.unpack(pba);
        let is_here = location.drive.index() == drive && location.zone == segment.zones[drive];
        if let Some((slot, of_row)) = layout.slot_at(location.offset)
            && is_here
            && of_row == row
            && layout.group_of_slot(slot) == load.group
        {
            places.push((protected.sequence, within, slot - start));
        }
    }
}

/// The stripe whose chunk is in a slot, by what is said of its rows, and whether they are all whole. A chunk that a crash
/// tore and recovery filled up is none.
fn stripe_of(rows: &[Option<Entry>]) -> Option<(StripeNumber, bool)> {
    let stripe = rows.iter().flatten().next()?.stripe;
    let is_of_it = |row: &Entry| row.stripe == stripe && row.kind != EntryKind::Void;
    let is_whole = rows.iter().all(|row| row.is_some_and(|row| row.whole));
    rows.iter().flatten().all(is_of_it).then_some((stripe, is_whole))
}

/// Decodes what metadata parity protects of a block, from what is known of others in its row.
fn decode(layout: &Layout, lost: Piece, known: &[(Piece, [u8; PROTECTED_BYTES])]) -> Option<Protected> {
    let sources = layout.code.sources(lost, known.iter().map(|(piece, _)| *piece).collect())?;
    let used = known.iter().filter(|(piece, _)| sources.contains(*piece));
    let fields: Vec<(Piece, &[u8; PROTECTED_BYTES])> = used.map(|(piece, field)| (*piece, field)).collect();
    let mut bytes = [0; PROTECTED_BYTES];
    layout.code.decode_field(lost, &fields, &mut bytes);
    Protected::from_bytes(&bytes)
}

/// Chunks of a group that name no stripe, from which follows which stripes count.
struct Found {
    /// Drives that have told all blocks of the group.
    told: Vec<usize>,
    /// True when recovery closed the group and left fillers: stripes that it found void stay void.
    is_closed: bool,
    /// Drives with a damaged chunk that may be of any stripe.
    nameless: BTreeSet<usize>,
}

impl Found {
    fn of(layout: &Layout, load: &TableLoad) -> Found {
        let blocks = region_of(layout, load.group).len();
        let told = (0..load.zones.len()).filter(|drive| load.zones[*drive].entries.len() == blocks).collect();
        let mut found = Found { told, is_closed: false, nameless: BTreeSet::new() };
        for drive in &found.told {
            for rows in load.zones[*drive].entries.chunks_exact(layout.chunk_blocks as usize) {
                if rows.iter().flatten().any(|row| row.kind == EntryKind::Void) {
                    found.is_closed = true;
                } else if stripe_of(rows).is_none() {
                    found.nameless.insert(*drive);
                }
            }
        }
        found
    }

    /// True for a stripe that can be decoded, or that every drive has or may have.
    fn counts(&self, layout: &Layout, stripe: StripeNumber, has_chunk: impl Fn(&usize) -> bool) -> bool {
        let having = self.told.iter().filter(|drive| has_chunk(drive));
        let pieces = having.map(|drive| layout.piece_of(stripe, *drive)).collect();
        let may_have = |drive: &usize| has_chunk(drive) || self.nameless.contains(drive);
        !self.is_closed || layout.code.can_decode(pieces) || self.told.iter().all(may_have)
    }
}

/// Stripe of a group in each slot of each zone, as far as is known. All numbers are within the group.
struct Told {
    slots: Vec<Vec<Option<u32>>>,
    place_of: Vec<Vec<Option<u32>>>,
    /// Stripes that some zone has a chunk of.
    exists: Vec<bool>,
}

impl Told {
    fn of(layout: &Layout, load: &TableLoad) -> Told {
        let len = layout.group_len(load.group) as usize;
        let nothing = || vec![vec![None; len]; layout.members()];
        let mut told = Told { slots: nothing(), place_of: nothing(), exists: vec![false; len] };
        // Those that are whole are sure; of a damaged one there may be another.
        for wanted in [true, false] {
            for (drive, zone) in load.zones.iter().enumerate() {
                let chunks = zone.entries.chunks_exact(layout.chunk_blocks as usize);
                for (at, rows) in (0..).zip(chunks) {
                    let found = stripe_of(rows).filter(|(_, is_whole)| *is_whole == wanted);
                    let is_here = |stripe| layout.has_stripe(stripe) && layout.group_of(stripe) == load.group;
                    if let Some((stripe, _)) = found.filter(|(stripe, _)| is_here(*stripe)) {
                        told.place(drive, layout.within_group(stripe), at);
                    }
                }
            }
        }
        told.forget_void(layout, load);
        told
    }

    /// A footer names all stripes that count, and their damaged chunks too. Blocks know nothing of it: those of a stripe
    /// that recovery found void say what they always said, and may be newer than what counts. Without any footer they are
    /// judged as a mount judges them (`mount/decide.rs`).
    fn forget_void(&mut self, layout: &Layout, load: &TableLoad) {
        let found = Found::of(layout, load);
        let is_footer = |drive: &&usize| load.zones[**drive].source.is_footer();
        let by_footer: Vec<usize> = found.told.iter().filter(is_footer).copied().collect();
        for (within, stripe) in layout.stripes_of_group(load.group).enumerate() {
            let has_chunk = |drive: &usize| self.place_of[*drive][within].is_some();
            let counts = match by_footer.is_empty() {
                true => found.counts(layout, stripe, has_chunk),
                false => by_footer.iter().all(has_chunk),
            };
            if counts {
                continue;
            }
            self.exists[within] = false;
            for (slots, place_of) in self.slots.iter_mut().zip(&mut self.place_of) {
                if let Some(at) = place_of[within].take() {
                    slots[at as usize] = None;
                }
            }
        }
    }

    /// A stripe's chunk is in a slot, unless it was found in another, or another was found there.
    fn place(&mut self, drive: usize, within: u32, at: u32) {
        let (slot, place) = (&mut self.slots[drive][at as usize], &mut self.place_of[drive][within as usize]);
        if slot.is_none() && place.is_none() {
            (*slot, *place) = (Some(within), Some(at));
            self.exists[within as usize] = true;
        }
    }

    /// Stripes whose chunk on a drive was not found.
    fn untold(&self, drive: usize) -> Vec<u32> {
        let stripes = (0..).zip(&self.exists).filter(|(_, exists)| **exists).map(|(within, _)| within);
        stripes.filter(|within| self.place_of[drive][*within as usize].is_none()).collect()
    }

    /// Gives chunks that nothing points to slots that are left: that of their own number, if it is.
    fn place_rest(&mut self, drive: usize) {
        for within in self.untold(drive) {
            self.place(drive, within, within);
        }
        let left = self.untold(drive);
        let free = (0..).zip(&self.slots[drive]).filter(|(_, slot)| slot.is_none()).map(|(at, _)| at);
        let free: Vec<u32> = free.take(left.len()).collect();
        assert!(free.len() == left.len(), "{} chunks have {} slots to lie in", left.len(), free.len());
        for (within, at) in left.into_iter().zip(free) {
            self.place(drive, within, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(slots: &[Option<u32>]) -> Told {
        let len = slots.len();
        let nothing = vec![None; len];
        let mut told =
            Told { slots: vec![nothing.clone(); 2], place_of: vec![nothing; 2], exists: vec![false; len] };
        for (at, within) in (0..).zip(slots) {
            if let Some(within) = within {
                told.place(0, *within, at);
            }
        }
        told
    }

    #[test]
    fn a_torn_chunk_is_none() {
        let row = |stripe| Some(Entry { whole: true, ..Entry::unknown(StripeNumber(stripe)) });
        assert_eq!(stripe_of(&[row(3), row(3)]), Some((StripeNumber(3), true)));
        assert_eq!(
            stripe_of(&[row(3), Some(Entry::unknown(StripeNumber(3)))]),
            Some((StripeNumber(3), false)),
            "damaged"
        );
        assert_eq!(stripe_of(&[None, row(3)]), Some((StripeNumber(3), false)), "a row says nothing");
        assert_eq!(stripe_of(&[row(3), Some(Entry::VOID)]), None, "filled up");
        assert_eq!(stripe_of(&[row(3), row(4)]), None, "of two stripes");
        assert_eq!(stripe_of(&[None, None]), None);
    }

    #[test]
    fn what_nothing_points_to_gets_what_is_left() {
        let mut told = told(&[Some(2), None, Some(0), Some(3)]);
        assert_eq!((told.untold(0), told.untold(1)), (vec![], vec![0, 2, 3]));
        told.place(1, 3, 0);
        told.place_rest(1);
        assert_eq!(told.slots[1], [Some(3), Some(0), Some(2), None], "0 finds its own slot taken");
    }
}
