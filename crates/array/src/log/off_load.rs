//! Off-loading: the index of a volume takes only so much memory; groups of entries that nobody uses lie in mapping
//! blocks (ADR 17).
//!
//! ```text
//!  wish_for_group ──> room? ──> read the mapping block ──> resident ──> whoever waited goes on
//!                       │ no
//!                       └──> write a dirty group to the mapping space ──> evict it
//! ```
//! A mapping block is memory that lies elsewhere, no more: a mount makes the index of what blocks say of themselves, and
//! knows nothing of groups. So nothing of this must survive a crash, and none of it can contradict what does.
//!
//! Who waits for whom, and never the other way round, so that all go on while the limit holds:
//! ```text
//!  clients, who hold few groups ─┐
//!  reads and trims, who hold none ├─> room for a group ─> the mapping space, which needs groups of nobody
//!  the collector, who holds few ─┘
//! ```
//! - The collector may hold as many groups as the stripes that it fills have blocks, at least: then some of them are
//!   in stripes on their way, which wait for nothing.
//! - The limit gives way while mapping blocks cannot be written: before recovery is over and the mapping space is there,
//!   and after one was lost.
//! - A group that cannot be read is lost until the next mount, its blocks fail, and nothing is collected any more.

use crate::engine::Effects;
use crate::log::Shard;
use crate::log::clients::Clients;
use crate::log::config::{ArrayConfig, Tuning};
use crate::log::core::Core;
use crate::log::index::entries::EntryBytes;
use crate::log::index::groups::{GroupLimit, Holder, IndexGroup, Residence, entries_per_block};
use crate::log::index::{Name, Region};
use crate::log::load::GroupReader;
use crate::log::mapping_space::{MappingSpace, segments_for};
use crate::log::pba::{Pba, PbaFormat};
use crate::log::requests::{RequestSlot, Work};
use crate::log::segment::SegmentSlot;
use crate::log::stripe::Origin;
use base::time::Instant;
use base::units::{Lba, index_of};
use base::xor::Block;
use std::collections::VecDeque;
use std::ops::Range;
use zone::format::header::Stream;

/// Mapping blocks that are read at once: what a drive answers well, without keeping others from it.
pub const GROUP_LOADS_MAX: usize = 64;
/// The fewest groups for clients, and for who holds none.
const NOT_COLLECTORS_MIN: usize = 8;
/// The collector may hold one group of so many.
const GROUPS_PER_COLLECTORS: usize = 4;

/// Blocks of a region that are being unmapped, group by group: the trim's tombstone is durable.
#[derive(Debug)]
pub struct Unmapping {
    pub(in crate::log) request: RequestSlot,
    region: Region,
    /// All of them.
    blocks: Range<u64>,
    /// The next one.
    next: u64,
    /// Set when some blocks could not be unmapped.
    pub(in crate::log) failed: bool,
}

/// Requests that wait for groups, and places of groups that are not in memory.
#[derive(Debug, Default)]
pub struct OffLoad {
    pub(super) space: MappingSpace,
    pub(in crate::log) reads: Vec<u32>,
    pub(in crate::log) trims: VecDeque<Unmapping>,
    /// No more groups are resident than may be, and it stays so while mapping blocks can be written.
    pub(in crate::log) holds: bool,
    /// Somebody waits for room.
    is_starved: bool,
    /// A mapping block could not be written: no other is, until the next mount.
    pub(in crate::log) writes_failed: bool,
    /// Group that is looked through next for blocks to write off, and those found.
    write_off_next: IndexGroup,
    write_offs: Vec<(Name, Pba)>,
}

impl OffLoad {
    /// Nothing waits. Mapping blocks are to have so many segments.
    #[must_use]
    pub fn new(mapping_segments: u32) -> OffLoad {
        OffLoad { space: MappingSpace::new(mapping_segments), ..OffLoad::default() }
    }

    /// True when a mapping block was lost: no other is written until the next mount.
    #[must_use]
    pub fn writes_failed(&self) -> bool {
        self.writes_failed
    }
}

impl ArrayConfig {
    /// Returns how much of the index of a volume is kept in memory; `None` for all of it, as where the volume and its
    /// drives leave no room for mapping blocks.
    ///
    /// # Panics
    /// When the configuration was not validated.
    #[must_use]
    pub fn index_limit(&self, tuning: &Tuning) -> Option<GroupLimit> {
        let asked = index_of(tuning.index_memory?);
        let bytes = match tuning.wide_entries {
            true => EntryBytes::Five,
            false => PbaFormat::new(self.members, &self.geometry).expect("validated").entry_bytes(),
        };
        let per_block = entries_per_block(bytes);
        let entries = tuning.index_group_entries.map_or(per_block, |entries| entries.clamp(1, per_block));
        let groups = index_of(self.volume_blocks).div_ceil(entries);
        let mapping_segments = segments_for(self, groups as u64);
        // Stripes of the collector that are filling, at the worst each block of another group.
        let streams = 1 + usize::from(self.affords(mapping_segments + 1, 2));
        let filling = streams * self.gc_layout().stripe_data_blocks() as usize;
        let resident_max = (asked / (entries * usize::from(bytes.count()))).max(filling + NOT_COLLECTORS_MIN);
        let held_by_collector_max = filling.max(resident_max / GROUPS_PER_COLLECTORS);
        assert!(
            held_by_collector_max < resident_max,
            "the collector may hold {held_by_collector_max} of {resident_max} groups, and leaves none for clients"
        );
        let is_possible = resident_max < groups && self.affords(mapping_segments, 1);
        is_possible.then_some(GroupLimit { entries, resident_max, held_by_collector_max, mapping_segments })
    }
}

impl Shard {
    /// The group of a block is resident, or will be.
    fn wish_for_group(&mut self, group: IndexGroup, fx: &mut Effects) -> Residence {
        let groups = self.core.index.groups_mut().expect("the index is in groups");
        match groups.residence(group) {
            Residence::Here => {
                self.core.counters.groups_used += 1;
                groups.use_group(group);
                return Residence::Here;
            }
            Residence::Absent if groups.loading() < GROUP_LOADS_MAX => {}
            other => return other,
        }
        if !self.make_room_for_group() {
            return Residence::Absent;
        }
        let groups = self.core.index.groups_mut().expect("the index is in groups");
        if groups.maps_nothing(group) {
            groups.install_empty(group);
            return Residence::Here;
        }
        let place = groups.place(group).expect("it maps something");
        groups.begin_load(group);
        self.core.counters.groups_loaded += 1;
        self.start_group_load(group, place, GroupReader::Index, fx);
        self.core.index.groups().map_or(Residence::Here, |groups| groups.residence(group))
    }

    /// True when one more group may be resident: there is room, or it is made, or there is no way to make any.
    fn make_room_for_group(&mut self) -> bool {
        let may_write = self.space().may_write_groups();
        let groups = self.core.index.groups_mut().expect("the index is in groups");
        if groups.has_room() || groups.evict() {
            return true;
        }
        self.off_load.is_starved |= may_write;
        !may_write
    }

    /// Tells whether a block can be moved now. If so, its group can be held until it is indexed.
    pub(super) fn wish_for_move(&mut self, name: Name, fx: &mut Effects) -> Residence {
        let Name::Block(lba) = name else { return Residence::Here };
        self.wish_to_hold(lba, Holder::Collector, fx)
    }

    /// Tells whether somebody can hold the group of a block now, until that is indexed.
    pub(super) fn wish_to_hold(&mut self, lba: Lba, holder: Holder, fx: &mut Effects) -> Residence {
        let Some(groups) = self.core.index.groups() else { return Residence::Here };
        let group = groups.group_of(lba);
        if !groups.may_pin(group, holder) {
            return Residence::Coming;
        }
        self.wish_for_group(group, fx)
    }

    /// Tells whether a read can look a block up; if not yet, it is told when it can.
    pub(super) fn wish_for_read(&mut self, read: u32, lba: Lba, fx: &mut Effects) -> Residence {
        let Some(groups) = self.core.index.groups() else { return Residence::Here };
        let group = groups.group_of(lba);
        if groups.maps_nothing(group) {
            return Residence::Here;
        }
        let residence = self.wish_for_group(group, fx);
        if matches!(residence, Residence::Coming | Residence::Absent) {
            self.off_load.reads.push(read);
        }
        residence
    }

    /// True when all blocks are unmapped.
    pub(in crate::log) fn unmap(&mut self, trim: &mut Unmapping, fx: &mut Effects) -> bool {
        while trim.next < trim.blocks.end {
            let groups = self.core.index.groups().expect("the index is in groups");
            let group = groups.group_of(Lba(trim.next));
            let end = groups.range(group).end.min(trim.blocks.end);
            let is_here = groups.maps_nothing(group)
                || match self.wish_for_group(group, fx) {
                    Residence::Here => true,
                    Residence::Lost => {
                        trim.failed = true;
                        false
                    }
                    Residence::Coming | Residence::Absent => return false,
                };
            if is_here {
                assert!(trim.next < end, "a trim goes on with each group");
                for lba in trim.next..end {
                    if let Some(before) = self.core.index.trim(Lba(lba)) {
                        self.core.forget(before);
                    }
                }
            }
            trim.next = end;
        }
        true
    }

    /// Writes groups that changed, when too many did or somebody waits for room, and others to fill the stripe: whoever waits
    /// for one had a turn. True when there is room at once for who waits, or was made.
    pub(in crate::log) fn write_groups(&mut self, now: Instant, fx: &mut Effects) -> bool {
        let mut is_starved = std::mem::take(&mut self.off_load.is_starved);
        let groups = self.core.index.groups_mut().expect("the index is in groups");
        let (has_waiting, mut made_room) = (is_starved, groups.end_turn() && is_starved);
        while self.space().may_write_groups() && self.stripes.has_room_for_groups(&self.core) {
            let is_filling = self.stripes.streams[Stream::Mapping.index()].filling.is_some();
            let groups = self.core.index.groups_mut().expect("the index is in groups");
            if !groups.should_write() && !is_starved && !is_filling {
                break;
            }
            let Some(group) = groups.next_to_write() else {
                // Who waits gains nothing from waiting for company, unless others must be written first.
                if has_waiting
                    && self.stripes.mapping_stripes_in_flight() == 0
                    && !self.off_load.is_copying_groups()
                {
                    self.appender().seal_filling(Stream::Mapping, fx);
                }
                break;
            };
            is_starved = false;
            let was_empty = !self.write_group(group, now, fx);
            made_room |= was_empty && has_waiting;
        }
        made_room
    }

    /// Writes a resident group; false when it maps nothing, which needs no block. The caller has made sure there is room.
    pub(super) fn write_group(&mut self, group: IndexGroup, now: Instant, fx: &mut Effects) -> bool {
        let mut frame = self.core.frames.take();
        let groups = self.core.index.groups_mut().expect("the index is in groups");
        assert!(groups.residence(group) == Residence::Here, "group {group} is in memory");
        if groups.begin_write(group, &mut frame.data) {
            self.core.counters.mapping_blocks_written += 1;
            self.appender().place_mapping_block(
                Stream::Mapping,
                now,
                (frame, Name::Group(group), Origin::Index),
                fx,
            );
            return true;
        }
        self.core.frames.give(frame);
        self.core.unplace_group(group);
        false
    }

    /// Returns what is live in a segment, once all groups were looked through; `None` while one is being read.
    pub(super) fn find_live(&mut self, segment: SegmentSlot, fx: &mut Effects) -> Option<Vec<(Name, Pba)>> {
        while self.core.index.groups().is_some_and(|groups| groups.has(self.off_load.write_off_next)) {
            let group = self.off_load.write_off_next;
            if !self.core.index.groups().is_some_and(|groups| groups.maps_nothing(group))
                && self.wish_for_group(group, fx) != Residence::Here
            {
                return None;
            }
            let mapped = self.core.index.groups().into_iter().flat_map(|groups| groups.mapped_in(group));
            let live = mapped.filter(|(_, pba)| self.core.segment_at(*pba) == segment);
            let mut live: Vec<(Name, Pba)> = live.map(|(lba, pba)| (Name::Block(lba), pba)).collect();
            self.off_load.write_offs.append(&mut live);
            self.off_load.write_off_next = group.next();
        }
        self.off_load.write_off_next = IndexGroup::default();
        let mut live = std::mem::take(&mut self.off_load.write_offs);
        let is_listed = |name: &Name| self.is_off_loading() && matches!(name, Name::Block(_));
        let others = self.core.index.mapped().filter(|(name, _)| !is_listed(name));
        live.extend(others.filter(|(_, pba)| self.core.segment_at(*pba) == segment));
        Some(live)
    }

    /// True when only some of the index is kept in memory.
    #[must_use]
    pub fn is_off_loading(&self) -> bool {
        self.core.index.groups().is_some()
    }
}

impl OffLoad {
    /// The tombstone of a region is durable: its blocks are unmapped as their groups come.
    pub(super) fn begin_unmapping(&mut self, request: RequestSlot, region: Region, blocks: Range<u64>) {
        let next = blocks.start;
        debug_assert!(self.trims.iter().all(|trim| trim.region != region), "one trim of a region at a time");
        assert!(blocks.start < blocks.end, "a trim of {region:?} unmaps {blocks:?}");
        self.trims.push_back(Unmapping { request, region, blocks, next, failed: false });
    }

    /// Blocks of a region whose trim is durable and not yet applied.
    pub(super) fn being_unmapped(&self, region: Region) -> Range<u64> {
        let found = self.trims.iter().find(|trim| trim.region == region);
        found.map_or(0..0, |trim| trim.blocks.clone())
    }

    /// A mapping block is durable, or lost.
    pub(super) fn group_written(&mut self, core: &mut Core, group: IndexGroup, pba: Pba, lost: bool) {
        self.writes_failed |= lost;
        core.index.groups_mut().expect("the index is in groups").end_write(group, lost);
        if !lost {
            core.map(Name::Group(group), pba);
        }
    }

    /// A copy of a mapping block is durable, or lost. It counts if the group was not written since.
    pub(super) fn group_copied(
        &mut self,
        core: &mut Core,
        group: IndexGroup,
        from: Pba,
        pba: Pba,
        lost: bool,
    ) {
        self.writes_failed |= lost;
        let groups = core.index.groups().expect("the index is in groups");
        if !lost && groups.place(group) == Some(from) {
            core.map(Name::Group(group), pba);
        }
    }
}

impl Clients {
    /// Blocks of a trim in a region.
    pub(super) fn blocks_of_trim(&self, core: &Core, request: RequestSlot, region: Region) -> Range<u64> {
        let Work::Trim { range, .. } = &self.requests.get(request).work else { unreachable!("a trim") };
        let blocks = region.blocks(core.index.blocks());
        let common = range.start.max(blocks.start)..range.end.min(blocks.end);
        assert!(common.start < common.end, "a trim of {range:?} holds {region:?}, of {blocks:?}");
        common
    }
}

impl Core {
    /// A mapping block was read, or is beyond rescue.
    pub(super) fn group_loaded(&mut self, group: IndexGroup, block: Option<&Block>, is_damaged: bool) {
        let groups = self.index.groups_mut().expect("the index is in groups");
        if !groups.end_load(group, block) {
            self.lose_group(group);
        } else if is_damaged || groups.place(group).is_none() {
            groups.mark_dirty(group);
        }
    }

    /// The mapping block of a group that is not resident is beyond rescue. It is not kept: nothing could move it, and the
    /// rebuild of a member would wait for that.
    pub(super) fn lose_group(&mut self, group: IndexGroup) {
        self.index.groups_mut().expect("the index is in groups").lose(group);
        self.unplace_group(group);
    }

    /// The group of a block stays resident.
    pub(super) fn hold_group(&mut self, lba: Lba, holder: Holder) {
        if let Some(groups) = self.index.groups_mut() {
            groups.pin(groups.group_of(lba), holder);
        }
    }

    /// A block is indexed, or lost.
    pub(super) fn release_group(&mut self, lba: Lba, holder: Holder) {
        if let Some(groups) = self.index.groups_mut() {
            groups.unpin(groups.group_of(lba), holder);
        }
    }

    /// The first block behind the group of this one.
    pub(super) fn group_end(&self, lba: Lba) -> u64 {
        let groups = self.index.groups().expect("the index is in groups");
        groups.range(groups.group_of(lba)).end
    }

    /// True when the newest copy of a name lies at a place, or may.
    pub(super) fn may_lie_at(&self, name: Name, pba: Pba) -> bool {
        !self.index.can_tell(name) || self.index.get(name) == Some(pba)
    }

    /// Forgets the mapping block of a group, whose contents count no more.
    pub(super) fn unplace_group(&mut self, group: IndexGroup) {
        let groups = self.index.groups_mut().expect("the index is in groups");
        if let Some(before) = groups.set_place(group, None) {
            self.forget(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::config::test_array;

    fn limit(zones: u32, active_zones_max: u32, percent: u64, bytes: u64) -> Option<GroupLimit> {
        let array = test_array::array(100, zones, active_zones_max, percent);
        let tuning = Tuning { index_memory: Some(bytes), index_group_entries: Some(8), ..Tuning::default() };
        array.index_limit(&tuning)
    }

    #[test]
    fn an_index_is_limited_where_mapping_blocks_have_room() {
        let found = limit(100, 6, 50, 64 * 8 * 4).expect("half of the space is free");
        assert_eq!((found.entries, found.resident_max, found.held_by_collector_max), (8, 64, 16));
        // Half of all segments but two hold all groups, and no fewer would.
        let array = test_array::array(100, 100, 6, 50);
        let (groups, segment) = (array.volume_blocks.div_ceil(8), array.gc_layout().segment_data_blocks());
        let halves = |segments: u32| u64::from(segments * segment) / 2;
        assert!(halves(found.mapping_segments - 2) >= groups && halves(found.mapping_segments - 3) < groups);
        assert_eq!(limit(100, 4, 50, 64 * 8 * 4), None, "no active zone");
        assert_eq!(limit(100, 6, 100, 64 * 8 * 4), None, "no space");
        assert_eq!(limit(100, 6, 50, 1 << 30), None, "all of it fits");
    }

    #[test]
    fn the_collector_may_hold_the_blocks_of_the_stripes_that_it_fills() {
        let one = limit(100, 5, 50, 0).expect("room");
        assert_eq!((one.resident_max, one.held_by_collector_max), (3 + 8, 3));
        let with_cold = limit(100, 6, 50, 0).expect("room");
        assert_eq!((with_cold.resident_max, with_cold.held_by_collector_max), (6 + 8, 6));
    }
}
