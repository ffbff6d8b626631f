//! Segments: one zone of every drive, written together, collected together.
//!
//! ```text
//!  zones taken ──> Opening ──> Open ──> Sealing ──> Sealed ──> Resetting ──> zones free
//!                  headers     stripes  footers,    garbage     moved and
//!                  durable     arrive   finish      grows       erased
//! ```
//! `Condemned` stands in for `Sealed` when one of a segment's zones takes no more writes before it is sealed, in service
//! (`retired.rs`) or found so after a crash: it is only read, and collected before all others.
//!
//! Invariants: a zone belongs to at most one segment, or is free, or holds superblocks; `live_blocks`
//! counts the index entries that point into the segment.

use crate::log::channels::{DriveChannels, Rule};
use crate::log::dropped_tables::GroupTable;
use crate::log::memory::SegmentBytes;
use crate::log::stripe::StripeSlot;
use crate::log::writer::{Sent, WaitingChunk, Writer};
use base::erasure::Piece;
use base::time::Instant;
use base::units::{DriveIndex, ZoneIndex};
use std::collections::{BTreeMap, VecDeque};
use zone::format::SUPERBLOCK_ZONES;
use zone::format::header::{SegmentHeader, Stream, WriteMode};
use zone::stripe::table::{Packing, StripeTable};
use zone::stripe::{Layout, StripeNumber};

/// Segment ids start anew in each epoch, above all of earlier ones.
pub const EPOCH_SHIFT_SEGMENT: u32 = 32;

/// Index of a segment in the [`SegmentTable`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentSlot(pub u32);

const NO_OWNER: SegmentSlot = SegmentSlot(u32::MAX);

impl SegmentSlot {
    /// The slot as an index into a table with one entry per segment.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// State of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Headers are on their way.
    Opening {
        /// Headers not durable yet.
        headers_pending: u32,
    },
    /// Stripes may be written.
    Open,
    /// Footers are being written and zones finished.
    Sealing {
        /// Zones not finished yet.
        zones_pending: u32,
    },
    /// Only read.
    Sealed,
    /// Only read; cannot be completed, to be collected first.
    Condemned,
    /// Being erased.
    Resetting {
        /// Zones not reset yet.
        zones_pending: u32,
    },
}

/// A segment.
pub struct Segment {
    /// Never used twice.
    pub id: u64,
    /// Sequence when it was created.
    pub created_at: u64,
    /// Stream whose blocks the segment holds.
    pub stream: Stream,
    /// Write mode of its zones.
    pub mode: WriteMode,
    /// True when it belongs to the write area: its zones hold slots, and no stripes.
    pub is_write_area: bool,
    /// Layout of its stripes.
    pub layout: Layout,
    /// Zone of the segment on each drive; on missing drives, the zone a rebuild will write.
    pub zones: Vec<ZoneIndex>,
    /// State of the segment.
    pub state: SegmentState,
    /// Index entries that point into it.
    pub live_blocks: u32,
    /// Reads in flight that rely on its contents.
    pub readers: u32,
    /// The collector met blocks here that can be read neither directly nor by rebuilding. It tries once
    /// more, then writes them off.
    pub damaged: bool,
    /// A scrub or a rebuild found damage here, or it cannot be completed: it is to be collected as soon as there is
    /// room. Set by [`SegmentTable::evacuate`].
    pub evacuate: bool,
    /// Stripes that a crash tore and recovery could not complete, in order: their blocks were moved.
    pub torn_stripes: Vec<StripeNumber>,
    /// Drives whose zone takes no more writes, or could not be reset, and is given up with the segment, one bit each.
    pub zones_retired: u32,
    /// Drives that came after it was written and whose zone is not rebuilt yet, one bit each.
    pub zones_missing: u32,
    /// The zone of a drive that came later is being written.
    pub is_being_rebuilt: bool,
    /// Stripes that recovery found incomplete under Zone Write, in order: they hold nothing. Under
    /// Zone Append their slots are simply empty.
    pub void_stripes: Vec<StripeNumber>,
    /// Stripe that each slot holds; `None` under Zone Write, where stripe `s` is in slot `s`, and when it was dropped.
    pub table: Option<StripeTable>,
    /// Groups of a dropped table that are in memory again ([`crate::log::dropped_tables`]).
    pub group_tables: BTreeMap<u32, GroupTable>,
    /// State needed while the segment is written.
    pub writer: Option<Box<Writer>>,
}

impl Segment {
    /// A sealed segment in which nothing is live.
    #[must_use]
    pub fn sealed(
        id: u64,
        created_at: u64,
        stream: Stream,
        mode: WriteMode,
        layout: Layout,
        zones: Vec<ZoneIndex>,
    ) -> Segment {
        Segment {
            id,
            created_at,
            stream,
            mode,
            is_write_area: false,
            layout,
            zones,
            state: SegmentState::Sealed,
            live_blocks: 0,
            readers: 0,
            damaged: false,
            evacuate: false,
            torn_stripes: Vec::new(),
            zones_retired: 0,
            zones_missing: 0,
            is_being_rebuilt: false,
            void_stripes: Vec::new(),
            table: None,
            group_tables: BTreeMap::new(),
            writer: None,
        }
    }

    /// A sealed segment in which nothing is live, as its header describes it.
    #[must_use]
    pub fn of_header(header: &SegmentHeader, layout: Layout) -> Segment {
        let SegmentHeader { segment, sequence, stream, mode, is_write_area, ref zones, .. } = *header;
        Segment { is_write_area, ..Segment::sealed(segment, sequence, stream, mode, layout, zones.clone()) }
    }

    /// Enters the next state of its life.
    ///
    /// # Panics
    /// When that does not follow the state it is in.
    pub fn enter(&mut self, next: SegmentState) {
        let follows = match next {
            SegmentState::Opening { .. } | SegmentState::Open => self.is_opening(),
            SegmentState::Sealing { .. } => self.state == SegmentState::Open,
            SegmentState::Sealed => self.state == SegmentState::Sealing { zones_pending: 0 },
            SegmentState::Resetting { .. } => {
                matches!(self.state, SegmentState::Sealed | SegmentState::Condemned)
            }
            SegmentState::Condemned if self.is_write_area => self.state == SegmentState::Open,
            SegmentState::Condemned => {
                self.state == SegmentState::Sealing { zones_pending: 0 } && self.has_retired_zone()
            }
        };
        assert!(follows, "segment {} goes from {:?} to {next:?}", self.id, self.state);
        self.state = next;
    }

    /// Reads of its contents begin: it is not erased before they end.
    #[inline]
    pub fn pin(&mut self) {
        debug_assert!(!matches!(self.state, SegmentState::Resetting { .. }), "segment {} is erased", self.id);
        self.readers += 1;
    }

    /// A read of its contents has ended.
    ///
    /// # Panics
    /// When none is in flight.
    #[inline]
    pub fn unpin(&mut self) {
        assert!(self.readers > 0, "a read of segment {} ends that never began", self.id);
        self.readers -= 1;
    }

    /// Stripe that the slot of a drive's zone holds; `None` when it is empty or void.
    #[must_use]
    pub fn stripe_in_slot(&self, drive: usize, slot: u32) -> Option<StripeNumber> {
        debug_assert!(slot < self.layout.stripes, "slot {slot} of {}", self.layout.stripes);
        if self.mode.has_static_slots() {
            let stripe = StripeNumber::of_static_slot(slot);
            return self.void_stripes.binary_search(&stripe).is_err().then_some(stripe);
        }
        let group = self.layout.group_of_slot(slot);
        let (table, first) = self.table_of(group);
        let within = table.stripe_within(drive, slot - first)?;
        Some(self.layout.stripe_within(group, within))
    }

    /// Slot of a drive's zone that holds a stripe's chunk.
    #[must_use]
    pub fn slot_of_stripe(&self, drive: usize, stripe: StripeNumber) -> Option<u32> {
        debug_assert!(self.layout.has_stripe(stripe), "stripe {stripe} of {}", self.layout.stripes);
        if self.mode.has_static_slots() {
            return self.void_stripes.binary_search(&stripe).is_err().then_some(stripe.static_slot());
        }
        let group = self.layout.group_of(stripe);
        let (table, first) = self.table_of(group);
        let start = self.layout.group_start(group);
        let slots = start - first..start - first + self.layout.group_len(group);
        let within = self.layout.within_group(stripe);
        Some(table.find(drive, slots, within, start - first + within)? + first)
    }

    /// The table with a group, and the slot it begins with.
    fn table_of(&self, group: u32) -> (&StripeTable, u32) {
        if let Some(table) = &self.table {
            return (table, 0);
        }
        let cached = self.group_tables.get(&group).expect("a dropped table is asked for before it is used");
        (&cached.table, self.layout.group_start(group))
    }

    /// True when its stripe table is in its footers only.
    #[must_use]
    pub fn has_dropped_table(&self) -> bool {
        self.mode == WriteMode::Append && self.table.is_none()
    }

    /// The drive is missing: gives its chunk of a stripe a slot that no other has, where a rebuild
    /// will put it. That is the slot of the stripe's own number, unless the drive failed in the
    /// middle of the group and another chunk had landed there.
    pub fn place_missing(&mut self, drive: usize, stripe: StripeNumber) -> u32 {
        assert!(drive < self.zones.len(), "drive {drive} of {}", self.zones.len());
        assert!(self.layout.has_stripe(stripe), "stripe {stripe} of {}", self.layout.stripes);
        let Some(table) = &mut self.table else { return stripe.static_slot() };
        let group = self.layout.group_of(stripe);
        let start = self.layout.group_start(group);
        let within = self.layout.within_group(stripe);
        let slots = start..start + self.layout.group_len(group);
        let mut candidates = std::iter::once(start + within).chain(slots);
        let slot = candidates
            .find(|slot| table.stripe_within(drive, *slot).is_none())
            .expect("a group has as many slots as stripes");
        table.set(drive, slot, within);
        slot
    }

    /// True while stripes given out are not durable: once they are, it is sealed and can be collected.
    #[must_use]
    pub fn has_stripes_in_flight(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.stripes_pending() > 0)
    }

    /// True when not all of its stripes were given out.
    #[must_use]
    pub fn takes_stripes(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| !writer.is_exhausted(&self.layout))
    }

    /// True while its headers are not durable.
    #[must_use]
    pub fn is_opening(&self) -> bool {
        matches!(self.state, SegmentState::Opening { .. })
    }

    /// True when its zone on a drive waits for a rebuild.
    #[must_use]
    pub fn lacks_zone(&self, drive: usize) -> bool {
        self.zones_missing >> drive & 1 == 1
    }

    /// True when its zone on some drive takes no more writes: it gets no more stripes.
    #[must_use]
    #[inline]
    pub fn has_retired_zone(&self) -> bool {
        self.zones_retired != 0
    }

    /// True when its zone on a drive takes no more writes.
    #[must_use]
    #[inline]
    pub fn is_retired(&self, drive: usize) -> bool {
        self.zones_retired >> drive & 1 == 1
    }

    /// Drives on which its zone takes no more writes.
    #[must_use]
    pub fn retired_drives(&self) -> Vec<usize> {
        (0..self.zones.len()).filter(|drive| self.is_retired(*drive)).collect()
    }

    /// A stripe that was given out goes elsewhere: what was written of it is nothing.
    pub fn give_stripe_up(&mut self, stripe: StripeNumber) {
        assert!(self.has_retired_zone(), "stripes of segment {} need not go elsewhere", self.id);
        if self.table.is_none()
            && let Err(at) = self.void_stripes.binary_search(&stripe)
        {
            self.void_stripes.insert(at, stripe);
        }
    }

    /// True while headers, footers, resets or a rebuild are under way.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        match self.state {
            SegmentState::Opening { .. } | SegmentState::Sealing { .. } | SegmentState::Resetting { .. } => {
                true
            }
            SegmentState::Open | SegmentState::Sealed | SegmentState::Condemned => self.is_being_rebuilt,
        }
    }

    /// Gives out no more stripes: those not given out hold nothing, and it is sealed when the others are
    /// durable.
    pub fn close(&mut self) {
        let layout = self.layout;
        let Some(writer) = &mut self.writer else { return };
        assert!(writer.next_stripe <= layout.stripes, "no more stripes were given out than there are");
        if self.table.is_none() {
            self.void_stripes.extend((writer.next_stripe..layout.stripes).map(StripeNumber));
        }
        writer.next_stripe = layout.stripes;
    }

    /// The next chunk that a drive may be handed now.
    #[inline]
    pub fn next_chunk(&mut self, drive: usize) -> Option<WaitingChunk> {
        if self.is_opening() || self.is_retired(drive) {
            return None;
        }
        let Writer { zones, durable, .. } = &mut **self.writer.as_mut()?;
        zones[drive].next_ready(&self.layout, self.mode, *durable)
    }

    /// True while its zones count against the drives' active-zone limit.
    #[must_use]
    pub fn is_active(&self) -> bool {
        match self.state {
            SegmentState::Opening { .. } | SegmentState::Open | SegmentState::Sealing { .. } => true,
            // Zones of the write area are not full when they are given up.
            SegmentState::Sealed | SegmentState::Condemned | SegmentState::Resetting { .. } => {
                self.is_being_rebuilt || self.is_write_area
            }
        }
    }
}

/// All segments, the zones they own and the zones that are free.
pub struct SegmentTable {
    segments: Vec<Option<Segment>>,
    owner: Vec<Vec<SegmentSlot>>,
    /// Oldest free zone first, which spreads wear.
    free: Vec<VecDeque<ZoneIndex>>,
    /// Packing of stripe tables.
    packing: Packing,
    /// Segments to be collected whether space is short or not.
    evacuating: u32,
    /// Segments of mapping blocks, and free ones that are kept for them.
    mapping: u32,
    kept_for_mapping: u32,
    /// Segments whose headers are not durable, oldest first. Only the headers of the first are on their way.
    opening: VecDeque<SegmentSlot>,
    /// What is believed of the channel groups of each drive.
    channels: DriveChannels,
    spare: Spare,
}

/// Memory of segments that are gone, for those to come.
#[derive(Default)]
pub struct Spare {
    zones: Vec<Vec<ZoneIndex>>,
    tables: Vec<StripeTable>,
    /// Bits that settled stripe tables need no more.
    filled_bits: Vec<Vec<u64>>,
    #[allow(clippy::vec_box, reason = "they move between here and segments")]
    writers: Vec<Box<Writer>>,
}

impl Spare {
    fn memory_bytes(&self) -> usize {
        let tables: usize = self.tables.iter().map(StripeTable::memory_bytes).sum();
        let filled_bits: usize = self.filled_bits.iter().map(|bits| bits.capacity() * size_of::<u64>()).sum();
        let writers: usize = self.writers.iter().map(|writer| writer.memory_bytes()).sum();
        tables + filled_bits + writers
    }
}

/// Free zones of a drive among which one is chosen: few, so that all are written alike.
const ZONES_TO_CHOOSE_FROM: usize = 8;

impl SegmentTable {
    /// A table of `segments_max` empty slots over drives of `zones` zones each, none free yet.
    #[must_use]
    pub fn new(members: usize, zones: u32, segments_max: u32, packing: Packing) -> SegmentTable {
        assert!(members > 0, "an array has members");
        assert!(zones > SUPERBLOCK_ZONES, "superblocks leave zones for segments");
        SegmentTable {
            segments: (0..segments_max).map(|_| None).collect(),
            owner: vec![vec![NO_OWNER; zones as usize]; members],
            free: vec![VecDeque::new(); members],
            packing,
            evacuating: 0,
            mapping: 0,
            kept_for_mapping: 0,
            opening: VecDeque::new(),
            channels: DriveChannels::new(members, zones),
            spare: Spare::default(),
        }
    }

    /// The segment in a slot.
    ///
    /// # Panics
    /// When the slot is empty.
    #[must_use]
    pub fn get(&self, slot: SegmentSlot) -> &Segment {
        self.segments[slot.index()].as_ref().expect("segment slot in use")
    }

    /// The segment in a slot.
    ///
    /// # Panics
    /// When the slot is empty.
    pub fn get_mut(&mut self, slot: SegmentSlot) -> &mut Segment {
        self.segments[slot.index()].as_mut().expect("segment slot in use")
    }

    /// The segment with an id, if it is still in its slot.
    #[must_use]
    pub fn find(&self, slot: SegmentSlot, id: u64) -> Option<&Segment> {
        self.segments[slot.index()].as_ref().filter(|segment| segment.id == id)
    }

    /// The segment with an id, if it is still in its slot.
    pub fn find_mut(&mut self, slot: SegmentSlot, id: u64) -> Option<&mut Segment> {
        self.segments[slot.index()].as_mut().filter(|segment| segment.id == id)
    }

    /// Returns the packing of stripe tables.
    #[must_use]
    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// Gives the stripe table of a segment up.
    pub fn drop_table(&mut self, slot: SegmentSlot) {
        let segment = self.get_mut(slot);
        assert!(segment.writer.is_none(), "segment {} is still written", segment.id);
        assert!(segment.readers == 0, "segment {} is being read", segment.id);
        segment.table = None;
    }

    /// The writer of a segment.
    ///
    /// # Panics
    /// When the segment is not being written.
    pub fn writer_mut(&mut self, slot: SegmentSlot) -> &mut Writer {
        self.get_mut(slot).writer.as_mut().expect("segment being written")
    }

    /// Segments in use, with their slots.
    pub fn iter(&self) -> impl Iterator<Item = (SegmentSlot, &Segment)> {
        (0..)
            .map(SegmentSlot)
            .zip(&self.segments)
            .filter_map(|(slot, segment)| Some((slot, segment.as_ref()?)))
    }

    /// Segment that owns a zone.
    #[must_use]
    pub fn owner(&self, drive: DriveIndex, zone: ZoneIndex) -> Option<SegmentSlot> {
        let slot = self.owner[drive.index()][zone.index()];
        (slot != NO_OWNER).then_some(slot)
    }

    /// A zone may be used by a new segment.
    ///
    /// # Panics
    /// When a segment still owns it.
    pub fn free_zone(&mut self, drive: usize, zone: ZoneIndex) {
        assert!(self.owner[drive][zone.index()] == NO_OWNER, "zone {zone} of drive {drive} is owned");
        debug_assert!(!self.free[drive].contains(&zone), "zone {zone} of drive {drive} is freed twice");
        self.free[drive].push_back(zone);
    }

    /// A zone that is free is not used again.
    ///
    /// # Panics
    /// When it is not free.
    pub fn take_out(&mut self, drive: usize, zone: ZoneIndex) {
        let free = &mut self.free[drive];
        let at = free.iter().position(|free| *free == zone).expect("a free zone");
        free.remove(at);
    }

    /// True for a zone that a new segment may use.
    #[must_use]
    pub fn is_free(&self, drive: DriveIndex, zone: ZoneIndex) -> bool {
        self.free[drive.index()].contains(&zone)
    }

    /// A new drive has taken the place of one: its zones are all good, those the old one gave up too, and
    /// no segment has its zone there.
    pub fn renew_drive(&mut self, drive: usize) {
        assert!(drive < self.owner.len(), "drive {drive} of {}", self.owner.len());
        for segment in self.segments.iter_mut().flatten() {
            segment.zones_missing |= 1 << drive;
            segment.zones_retired &= !(1 << drive);
        }
        let zones = (0..).map(ZoneIndex).zip(&self.owner[drive]).skip(SUPERBLOCK_ZONES as usize);
        self.channels.renew(drive);
        self.free[drive] = zones.filter(|(_, owner)| **owner == NO_OWNER).map(|(zone, _)| zone).collect();
    }

    /// Segments that could be opened with the zones that are free, but for those kept for mapping blocks.
    #[must_use]
    pub fn free_segments(&self) -> u32 {
        self.free_zones().saturating_sub(self.kept_for_mapping)
    }

    /// Free segments that only mapping blocks may take.
    #[must_use]
    pub fn kept_for_mapping(&self) -> u32 {
        self.kept_for_mapping.min(self.free_zones())
    }

    /// Segments of mapping blocks.
    #[must_use]
    pub fn mapping(&self) -> u32 {
        self.mapping
    }

    /// From now on one more free segment is kept for mapping blocks: that of one which is erased is, too.
    ///
    /// # Panics
    /// When there is none.
    pub fn keep_for_mapping(&mut self) {
        assert!(self.free_segments() > 0);
        self.kept_for_mapping += 1;
    }

    /// Zones that are free on every drive.
    fn free_zones(&self) -> u32 {
        let zones = self.free.iter().map(VecDeque::len).min().unwrap_or(0);
        u32::try_from(zones).expect("a u32 of zones")
    }

    /// A segment is to be collected whether space is short or not.
    pub fn evacuate(&mut self, slot: SegmentSlot) {
        let before = std::mem::replace(&mut self.get_mut(slot).evacuate, true);
        self.evacuating += u32::from(!before);
        assert!(self.evacuating > 0, "a segment is to be collected");
    }

    /// The zone of a segment on a drive takes no more writes: it is not used again, and the segment is collected.
    pub fn retire_zone(&mut self, slot: SegmentSlot, drive: usize) {
        let segment = self.get_mut(slot);
        assert!(drive < segment.zones.len(), "drive {drive} of {}", segment.zones.len());
        assert!(!matches!(segment.state, SegmentState::Resetting { .. }), "segment {} is erased", segment.id);
        segment.zones_retired |= 1 << drive;
        self.evacuate(slot);
    }

    /// Zones of a drive that no segment can use again: those that it gave up.
    #[must_use]
    pub fn zones_lost(&self, drive: usize) -> u32 {
        let owners = self.owner[drive].iter().skip(SUPERBLOCK_ZONES as usize);
        let is_lost = |slot: &&SegmentSlot| **slot == NO_OWNER || self.get(**slot).is_retired(drive);
        let lost = owners.filter(is_lost).count() - self.free[drive].len();
        u32::try_from(lost).expect("a u32 of zones")
    }

    /// True when some segment is to be collected, or is being erased, whether space is short or not.
    #[must_use]
    pub fn has_evacuees(&self) -> bool {
        self.evacuating > 0
    }

    /// Takes one free zone of every drive, the oldest, or of the oldest few one far from those that a stream writes to,
    /// and next from those that others do. How near two zones are the drive's own rule says, where it is known; else
    /// neighbours are taken to lie on other channels, so the fewer low bits two numbers share, the less their zones do.
    ///
    /// # Panics
    /// When a drive has none: callers ask [`SegmentTable::free_segments`] first.
    pub fn take_zones(&mut self, apart_from: Option<Stream>) -> Vec<ZoneIndex> {
        let mut zones = self.spare.zones.pop().unwrap_or_default();
        assert!(zones.is_empty(), "memory of zones comes back empty");
        for (drive, free) in self.free.iter_mut().enumerate() {
            let rule = self.channels.of(drive).rule();
            // Slots of the write area touch no flash, and their zones stay for good.
            let is_in_the_way = |segment: &&Segment| segment.is_active() && !segment.is_write_area;
            let active = || self.segments.iter().flatten().filter(is_in_the_way);
            let shared = |zone: ZoneIndex, is_own: bool| {
                let near = active().filter(|segment| (Some(segment.stream) == apart_from) == is_own);
                near.map(|segment| nearness(rule, segment.zones[drive], zone)).sum::<u32>()
            };
            let choice = if apart_from.is_some() { ZONES_TO_CHOOSE_FROM } else { 1 };
            let oldest = free.iter().take(choice).enumerate();
            let (at, _) = oldest
                .min_by_key(|(_, zone)| (shared(**zone, true), shared(**zone, false)))
                .expect("a free zone on every drive");
            zones.push(free[at]);
            free.remove(at);
        }
        assert!(zones.len() == self.owner.len(), "one zone of every drive");
        zones
    }

    /// An empty stripe table.
    pub fn take_table(&mut self, layout: &Layout) -> StripeTable {
        let packing = self.packing;
        let tables = &mut self.spare.tables;
        let fits = tables.iter().rposition(|table| table.fits(layout, packing));
        let Some(at) = fits else { return StripeTable::new(layout, packing) };
        let mut table = tables.swap_remove(at);
        table.clear(&mut self.spare.filled_bits);
        table
    }

    /// A writer at the start of a segment.
    pub fn take_writer(&mut self, layout: &Layout) -> Box<Writer> {
        let mut writer = self.spare.writers.pop().unwrap_or_else(|| Box::new(Writer::new(layout, 0)));
        writer.restart(layout, 0);
        writer
    }

    /// A segment is sealed: it needs its writer no more, and its stripe table changes no more.
    pub fn drop_writer(&mut self, slot: SegmentSlot) {
        let segment = self.get_mut(slot);
        assert!(!segment.has_stripes_in_flight(), "segment {} has stripes in flight", segment.id);
        let writer = segment.writer.take();
        let filled_bits = segment.table.as_mut().and_then(StripeTable::settle);
        let zones = &self.segments[slot.index()].as_ref().expect("segment slot in use").zones;
        self.channels.close(zones);
        self.spare.writers.extend(writer);
        self.spare.filled_bits.extend(filled_bits);
    }

    /// It is this time, from now on.
    #[inline]
    pub fn set_time(&mut self, now: Instant) {
        self.channels.now = now;
    }

    /// Time that it is.
    #[inline]
    #[must_use]
    pub fn time(&self) -> Instant {
        self.channels.now
    }

    /// A command with these blocks of a zone goes to its drive; the time of one is taken at a time.
    #[inline]
    pub fn note_sent(&mut self, slot: SegmentSlot, drive: usize, chunk: &WaitingChunk, blocks: usize) {
        let now = self.channels.now;
        let zone = &mut self.writer_mut(slot).zones[drive];
        if zone.sent.is_none() {
            zone.sent =
                Some(Sent { chunk: (chunk.slot, chunk.piece), blocks, depth: zone.in_flight, at: now });
        }
    }

    /// The command of a chunk is done. In the turn in which it was sent it took no time that could be told.
    #[inline]
    pub fn note_done(
        &mut self,
        slot: SegmentSlot,
        drive: usize,
        chunk: (StripeSlot, Piece),
        is_written: bool,
    ) {
        let segment = self.segments[slot.index()].as_mut().expect("segment slot in use");
        let zone = segment.zones[drive];
        let progress = &mut segment.writer.as_mut().expect("stripes are in flight").zones[drive];
        if let Some(sent) = progress.sent.take_if(|sent| sent.chunk == chunk)
            && is_written
            && sent.at != self.channels.now
        {
            self.channels.note(drive, zone, &sent);
        }
    }

    /// Asserts that zones whose channel is watched are written.
    ///
    /// # Panics
    /// When one is not.
    pub fn check_channels(&self) {
        for (drive, owners) in self.owner.iter().enumerate() {
            for (zone, _) in self.channels.of(drive).zones() {
                let owner = owners[zone.index()];
                let is_active = owner != NO_OWNER && self.get(owner).is_active();
                assert!(
                    is_active,
                    "the channel of zone {zone} of drive {drive} is watched, and nobody writes there"
                );
            }
        }
    }

    /// Channels are told as BIZA publishes it, too.
    pub fn watch_spikes(&mut self) {
        self.channels.watch_spikes();
    }

    /// What is believed of the channel groups of each drive.
    #[must_use]
    pub fn channels(&self) -> &DriveChannels {
        &self.channels
    }

    /// The headers of a segment are to be written; true when they may be at once.
    ///
    /// Headers reach each drive in the order of segments, one segment after the other: so a drive that holds a segment was
    /// there when the older ones got theirs, by which a mount tells a drive that went back to an earlier moment (ADR 19).
    pub fn begin_opening(&mut self, slot: SegmentSlot) -> bool {
        let segment = self.segments[slot.index()].as_ref().expect("segment slot in use");
        assert!(segment.is_opening(), "only new segments get headers");
        self.channels.open(&segment.zones, segment.stream.is_collectors());
        assert!(!self.opening.contains(&slot), "headers are written once");
        self.opening.push_back(slot);
        self.opening.len() == 1
    }

    /// The headers of a segment are durable; the segment whose headers are written next, if one waits.
    pub fn end_opening(&mut self, slot: SegmentSlot) -> Option<SegmentSlot> {
        let opened = self.opening.pop_front();
        assert!(opened == Some(slot), "headers are written in the order of segments");
        self.opening.front().copied()
    }

    /// Puts a segment into an empty slot; it owns its zones from now on.
    ///
    /// # Panics
    /// When there is no empty slot or a zone is owned: more segments than zones.
    pub fn insert(&mut self, mut segment: Segment) -> SegmentSlot {
        let index = self.segments.iter().position(Option::is_none).expect("one slot per segment");
        let slot = SegmentSlot(u32::try_from(index).expect("a u32 of segments"));
        assert!(segment.zones.len() == self.owner.len(), "segment {} has a zone of every drive", segment.id);
        for (owners, zone) in self.owner.iter_mut().zip(&segment.zones) {
            assert!(owners[zone.index()] == NO_OWNER, "zone {zone} is owned twice");
            owners[zone.index()] = slot;
        }
        segment.evacuate |= segment.state == SegmentState::Condemned;
        self.evacuating += u32::from(segment.evacuate);
        if segment.stream == Stream::Mapping {
            assert!(self.kept_for_mapping > 0, "a segment was kept for mapping blocks");
            self.mapping += 1;
            self.kept_for_mapping -= 1;
        }
        self.segments[index] = Some(segment);
        slot
    }

    /// Takes a segment out and frees its zones, but for those given up.
    ///
    /// # Panics
    /// When the segment is live or being read.
    pub fn remove(&mut self, slot: SegmentSlot) {
        let mut segment = self.segments[slot.index()].take().expect("segment slot in use");
        assert!(!segment.is_being_rebuilt, "a zone of segment {} is being rebuilt", segment.id);
        assert!(self.evacuating >= u32::from(segment.evacuate), "segments to be collected are counted");
        assert!(segment.live_blocks == 0);
        assert!(segment.readers == 0);
        self.evacuating -= u32::from(segment.evacuate);
        if segment.stream == Stream::Mapping {
            assert!(self.mapping > 0, "a segment of mapping blocks is counted");
            self.mapping -= 1;
            self.kept_for_mapping += 1;
        }
        self.channels.close(&segment.zones);
        for (drive, zone) in segment.zones.iter().enumerate() {
            self.owner[drive][zone.index()] = NO_OWNER;
            if !segment.is_retired(drive) {
                self.free_zone(drive, *zone);
            }
        }
        segment.zones.clear();
        self.spare.zones.push(segment.zones);
        self.spare.tables.extend(segment.table);
    }

    /// True when a segment of a stream has active zones.
    #[must_use]
    pub fn has_active(&self, stream: Stream) -> bool {
        self.iter().any(|(_, segment)| segment.stream == stream && segment.is_active())
    }

    /// Returns the memory that segments take.
    #[must_use]
    pub fn memory_bytes(&self) -> SegmentBytes {
        let mut bytes = SegmentBytes {
            segments: self.segments.capacity() * size_of::<Option<Segment>>(),
            ..Default::default()
        };
        for (_, segment) in self.iter() {
            let table = segment.table.as_ref().map_or(0, StripeTable::memory_bytes);
            let writer = segment.writer.as_ref().map(|writer| writer.memory_bytes());
            bytes.stripe_tables += segment.group_tables.values().map(GroupTable::memory_bytes).sum::<usize>();
            match writer {
                Some(writer) => bytes.open_segments += table + writer,
                None => bytes.stripe_tables += table,
            }
            let stripes = segment.torn_stripes.capacity() + segment.void_stripes.capacity();
            bytes.segments += (segment.zones.capacity() + stripes) * size_of::<u32>();
        }
        let zones: usize = self.owner.iter().map(Vec::capacity).sum::<usize>()
            + self.free.iter().map(VecDeque::capacity).sum::<usize>();
        bytes.segments += zones * size_of::<u32>();
        bytes.open_segments += self.spare.memory_bytes();
        bytes
    }

    /// Segments whose zones have, or are about to get, random write areas.
    #[must_use]
    pub fn area_count(&self) -> u32 {
        let in_areas =
            self.iter().filter(|(_, segment)| segment.is_active() && segment.mode == WriteMode::Area);
        u32::try_from(in_areas.count()).expect("few")
    }

    /// Segments whose zones are active.
    #[must_use]
    pub fn active_count(&self) -> u32 {
        u32::try_from(self.iter().filter(|(_, segment)| segment.is_active()).count()).expect("few")
    }
}

/// How near two zones of a drive are: 0 where they lie on different channels. Of a drive that goes by numbers, and whose groups are
/// a power of two, low bits say more than the rule: they spread zones over whatever is below channels, too.
fn nearness(rule: Option<Rule>, first: ZoneIndex, second: ZoneIndex) -> u32 {
    match rule {
        Some(rule) if !rule.is_told_by_low_bits() => u32::from(rule.joins_numbers(first, second)),
        _ => (first.0 ^ second.0).trailing_zeros(),
    }
}

#[cfg(test)]
mod tests;
