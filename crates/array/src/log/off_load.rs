//! Off-loading: the index of a volume takes only so much memory; groups of entries that nobody uses lie in mapping
//! blocks (ADR 17).
//!
//! ```text
//!  wish_for_group ──> room? ──> read the mapping block ──> resident ──> whoever waited goes on
//!                       │ no
//!                       └──> write a dirty group, like a block of a client ──> evict it
//! ```
//! A mapping block is memory that lies elsewhere, no more: a mount makes the index of what blocks say of themselves, and
//! knows nothing of groups. So nothing of this must survive a crash, and none of it can contradict what does.
//!
//! Rules that keep everybody going:
//! - Mapping blocks are written like blocks of clients, never with the collector's room. Where that collects, they may take
//!   half of what a victim freed: every victim brings free space nearer, whatever of the index it changed on the way.
//!   Beyond that the limit gives way.
//! - The collector and readers wait for a group to be written only while one can be; otherwise they take more memory.
//! - Clients hold at most half of the groups.
//! - A group that cannot be read is lost until the next mount, its blocks fail, and nothing is collected any more.

use crate::log::config::{ArrayConfig, GC_RESERVE_SEGMENTS, Tuning};
use crate::log::flush::RecoveryFlush;
use crate::log::gc::GC_START_SEGMENTS;
use crate::log::index::entries::EntryBytes;
use crate::log::index::groups::{GroupLimit, Groups, Holder, Residence, entries_per_block};
use crate::log::index::{Name, region_range};
use crate::log::pba::Pba;
use crate::log::stripe::Origin;
use crate::log::write::Work;
use crate::log::{Effects, Shard};
use base::mutant::{self, Mutant};
use base::time::Instant;
use base::units::Lba;
use base::xor::Block;
use std::collections::VecDeque;
use std::ops::Range;

/// Mapping blocks that are read at once: what a drive answers well, without keeping others from it.
pub const GROUP_LOADS_MAX: usize = 32;
/// Mapping blocks that are written at once; there are no checkpoints then, and their frames are free for this.
const GROUP_WRITES_MAX: usize = 32;
/// Requests and moves for which groups are read ahead.
const READ_AHEAD: usize = 32;
/// The fewest groups that may be resident.
const RESIDENT_MIN: usize = 4;

/// Who wishes for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wisher {
    /// Somebody who cannot go on without it.
    Waits,
    /// Somebody who will come for it.
    Ahead,
}

/// Blocks of a region that are being unmapped, group by group: the trim's tombstone is durable.
#[derive(Debug)]
struct Unmapping {
    request: u32,
    region: u64,
    /// All of them.
    blocks: Range<u64>,
    /// The next one.
    next: u64,
    /// Some could not be.
    failed: bool,
}

/// What waits for groups.
#[derive(Debug, Default)]
pub struct OffLoad {
    reads: Vec<u32>,
    trims: VecDeque<Unmapping>,
    /// Blocks that mapping blocks may still take of what victims freed.
    budget_blocks: u64,
    /// Somebody waits for room.
    is_starved: bool,
    /// A mapping block could not be written: no other is, until the next mount.
    writes_failed: bool,
    /// Group that is looked through next for blocks to write off, and those found.
    write_off_next: u32,
    write_offs: Vec<(Name, Pba)>,
}

/// How much of the index of a volume is kept in memory; `None` for all of it.
#[must_use]
pub fn limit(config: &ArrayConfig, tuning: &Tuning, bytes: EntryBytes) -> Option<GroupLimit> {
    let asked = Lba(tuning.index_memory?).index();
    let per_block = entries_per_block(bytes);
    let entries = tuning.index_group_entries.map_or(per_block, |entries| entries.clamp(1, per_block));
    let groups = Lba(config.volume_blocks).index().div_ceil(entries);
    // Mapping blocks are live: only as many as the volume leaves room for.
    let room = config.volume_blocks_max().saturating_sub(config.volume_blocks);
    let resident_min = groups.saturating_sub(Lba(room).index()).max(RESIDENT_MIN);
    let resident_max = (asked / (entries * usize::from(bytes.count()))).max(resident_min);
    (resident_max < groups).then_some(GroupLimit { entries, resident_max })
}

impl Shard {
    /// The group of a block is resident, or will be.
    fn wish_for_group(&mut self, group: u32, wisher: Wisher, fx: &mut Effects) -> Residence {
        let groups = self.index.groups_mut().expect("the index is in groups");
        match groups.residence(group) {
            Residence::Here => {
                if wisher == Wisher::Waits {
                    self.counters.groups_used += 1;
                    groups.use_group(group);
                }
                return Residence::Here;
            }
            Residence::Absent if groups.loading() < GROUP_LOADS_MAX => {}
            Residence::Absent => return Residence::Coming,
            other => return other,
        }
        if !self.make_room_for_group(wisher) {
            return Residence::Coming;
        }
        let groups = self.index.groups_mut().expect("the index is in groups");
        if groups.maps_nothing(group) {
            groups.install_empty(group);
            return Residence::Here;
        }
        let place = groups.place(group).expect("it maps something");
        groups.begin_load(group);
        self.counters.groups_loaded += 1;
        self.start_group_load(group, place, fx);
        self.index.groups().map_or(Residence::Here, |groups| groups.residence(group))
    }

    /// True when one more group may be resident: there is room, or it is made, or there is no way to make any.
    fn make_room_for_group(&mut self, wisher: Wisher) -> bool {
        let may_write = self.may_write_groups() && self.may_place(self.config.stream_for(1));
        let groups = self.index.groups_mut().expect("the index is in groups");
        if groups.has_room() || groups.evict(wisher == Wisher::Ahead) {
            return true;
        }
        if wisher == Wisher::Ahead || may_write && groups.may_be_written() {
            self.off_load.is_starved |= wisher == Wisher::Waits;
            return false;
        }
        true
    }

    /// True when mapping blocks may be written: not without room for a stripe of them, nor after one was lost.
    fn may_write_groups(&self) -> bool {
        let free = self.segments.free_segments();
        let has_room = self.has_ample_room_for_groups()
            || free > GC_RESERVE_SEGMENTS + 1 && self.off_load.budget_blocks >= self.stripe_of_groups();
        has_room
            && !self.off_load.writes_failed
            && !self.membership.is_broken()
            && self.recovery_flush == RecoveryFlush::Done
    }

    /// True while nothing has to be collected, nor will be for a segment more.
    fn has_ample_room_for_groups(&self) -> bool {
        self.segments.free_segments() > GC_START_SEGMENTS
    }

    /// Blocks of the stripes that mapping blocks are written to.
    fn stripe_of_groups(&self) -> u64 {
        u64::from(self.streams[self.config.stream_for(1).index()].stripe_data_blocks)
    }

    /// A victim is erased: half of what that freed may be taken by mapping blocks.
    pub(super) fn grant_mapping_blocks(&mut self) {
        let most = self.segment_blocks();
        let budget = &mut self.off_load.budget_blocks;
        *budget = (*budget + self.victim_begun.gain_blocks() / 2).min(most);
    }

    /// A mapping block is about to be placed. Alone in a stripe it takes all of it.
    fn charge_mapping_block(&mut self) {
        if self.has_ample_room_for_groups() {
            return;
        }
        let joins = self.streams[self.config.stream_for(1).index()].filling.is_some();
        let blocks = if joins { 1 } else { self.stripe_of_groups() };
        self.off_load.budget_blocks = self.off_load.budget_blocks.saturating_sub(blocks);
    }

    /// A mapping block was read, or is beyond rescue.
    pub(super) fn group_loaded(&mut self, group: u32, block: Option<&Block>, is_damaged: bool) {
        let groups = self.index.groups_mut().expect("the index is in groups");
        if groups.end_load(group, block) && is_damaged {
            groups.write_anew(group);
        }
    }

    /// Where the block of a request that comes next can go. A write holds the group of its block until it is indexed.
    pub(super) fn hold_for_client(&mut self, lba: Lba, fx: &mut Effects) -> Residence {
        let Some(groups) = self.index.groups() else { return Residence::Here };
        let group = groups.group_of(lba);
        if !groups.may_pin(group) {
            return Residence::Coming;
        }
        let residence = self.wish_for_group(group, Wisher::Waits, fx);
        match residence {
            Residence::Here => self.hold_group(lba, Holder::Client),
            _ => self.wish_ahead_for_writes(fx),
        }
        residence
    }

    /// Requests behind the one that waits will need groups too.
    fn wish_ahead_for_writes(&mut self, fx: &mut Effects) {
        let ahead: Vec<Range<u64>> = (self.pending.iter().skip(1).take(READ_AHEAD))
            .filter_map(|slot| match &self.requests.get(*slot).work {
                Work::Write { range, .. } => Some(range.clone()),
                Work::Trim { .. } | Work::Flush { .. } => None,
            })
            .collect();
        for range in ahead {
            self.wish_ahead(Lba(range.start), fx);
            self.wish_ahead(Lba(range.end - 1), fx);
        }
    }

    fn wish_ahead(&mut self, lba: Lba, fx: &mut Effects) {
        let group = self.index.groups().expect("the index is in groups").group_of(lba);
        self.wish_for_group(group, Wisher::Ahead, fx);
    }

    /// Whether a block can be moved now. Its group is held until it is indexed.
    pub(super) fn wish_for_move(&mut self, name: Name, fx: &mut Effects) -> Residence {
        let (Name::Block(lba), Some(groups)) = (name, self.index.groups()) else { return Residence::Here };
        let group = groups.group_of(lba);
        let residence = self.wish_for_group(group, Wisher::Waits, fx);
        if residence == Residence::Coming {
            let ahead: Vec<Name> = self.moves.iter().skip(1).take(READ_AHEAD).map(|m| m.name).collect();
            for name in ahead {
                if let Name::Block(lba) = name {
                    self.wish_ahead(lba, fx);
                }
            }
        }
        residence
    }

    /// The group of a block stays resident.
    pub(super) fn hold_group(&mut self, lba: Lba, holder: Holder) {
        if let Some(groups) = self.index.groups_mut() {
            groups.pin(groups.group_of(lba), holder);
        }
    }

    /// A block is indexed, or lost.
    pub(super) fn release_group(&mut self, lba: Lba, holder: Holder, lost: bool) {
        if lost && mutant::is(Mutant::FailedBlockKeepsItsPin) {
            return;
        }
        if let Some(groups) = self.index.groups_mut() {
            groups.unpin(groups.group_of(lba), holder);
        }
    }

    /// Whether a read can look a block up; if not yet, it is told when it can.
    pub(super) fn wish_for_read(&mut self, read: u32, lba: Lba, fx: &mut Effects) -> Residence {
        let Some(groups) = self.index.groups() else { return Residence::Here };
        let group = groups.group_of(lba);
        if groups.maps_nothing(group) {
            return Residence::Here;
        }
        let residence = self.wish_for_group(group, Wisher::Waits, fx);
        if matches!(residence, Residence::Coming | Residence::Absent) {
            self.off_load.reads.push(read);
        }
        residence
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

    /// The tombstone of a region is durable: its blocks are unmapped as their groups come.
    pub(super) fn begin_unmapping(&mut self, request: u32, region: u64, blocks: Range<u64>) {
        let next = blocks.start;
        self.off_load.trims.push_back(Unmapping { request, region, blocks, next, failed: false });
    }

    /// Blocks of a region whose trim is durable and not yet applied.
    pub(super) fn being_unmapped(&self, region: u64) -> Range<u64> {
        let found = self.off_load.trims.iter().find(|trim| trim.region == region);
        found.map_or(0..0, |trim| trim.blocks.clone())
    }

    /// Moves what waits for groups, and makes room.
    pub(super) fn advance_groups(&mut self, now: Instant, fx: &mut Effects) {
        if self.index.groups().is_none() {
            return;
        }
        loop {
            self.go_on_with_groups(now, fx);
            // What maps nothing needs no block, and makes room at once.
            if !self.write_groups(now, fx) {
                break;
            }
        }
        let groups = self.index.groups_mut().expect("the index is in groups");
        while groups.is_over() && groups.evict(false) {}
    }

    /// Trims, reads, moves and writes that wait for groups go on, as far as those came.
    fn go_on_with_groups(&mut self, now: Instant, fx: &mut Effects) {
        for _ in 0..self.off_load.trims.len() {
            let mut trim = self.off_load.trims.pop_front().expect("counted");
            if self.unmap(&mut trim, fx) {
                self.request_block_done(trim.request, trim.failed, fx);
            } else {
                self.off_load.trims.push_back(trim);
            }
        }
        for read in std::mem::take(&mut self.off_load.reads) {
            self.read_goes_on(read, fx);
        }
        self.place_moves(now, fx);
        self.advance_gc(now, fx);
        self.start_rebuilds(fx);
        if !self.pending.is_empty() {
            self.admit(now, fx);
        }
    }

    /// True when all blocks are unmapped.
    fn unmap(&mut self, trim: &mut Unmapping, fx: &mut Effects) -> bool {
        while trim.next < trim.blocks.end {
            let groups = self.index.groups().expect("the index is in groups");
            let group = groups.group_of(Lba(trim.next));
            let end = groups.range(group).end.min(trim.blocks.end);
            let is_here = groups.maps_nothing(group)
                || match self.wish_for_group(group, Wisher::Waits, fx) {
                    Residence::Here => true,
                    Residence::Lost => {
                        trim.failed = true;
                        false
                    }
                    Residence::Coming | Residence::Absent => return false,
                };
            if is_here {
                for lba in trim.next..end {
                    if let Some(before) = self.index.trim(Lba(lba)) {
                        self.forget(before);
                    }
                }
            }
            trim.next = end;
        }
        true
    }

    /// Writes groups that changed, when too many did or somebody waits for room. True when that made room at once for
    /// who waits.
    fn write_groups(&mut self, now: Instant, fx: &mut Effects) -> bool {
        let (has_waiting, mut made_room) = (self.off_load.is_starved, false);
        let mut is_starved = std::mem::take(&mut self.off_load.is_starved);
        let stream = self.config.stream_for(1);
        while self.may_write_groups() && self.may_place(stream) {
            let groups = self.index.groups_mut().expect("the index is in groups");
            if groups.writing() >= GROUP_WRITES_MAX || !groups.should_write() && !is_starved {
                break;
            }
            let Some(group) = groups.next_to_write() else { break };
            is_starved = false;
            let mut frame = self.frames.take();
            let groups = self.index.groups_mut().expect("the index is in groups");
            if !groups.begin_write(group, &mut frame.data) {
                self.frames.give(frame);
                let groups = self.index.groups_mut().expect("the index is in groups");
                if let Some(before) = groups.set_place(group, None) {
                    self.forget(before);
                }
                made_room = has_waiting;
                continue;
            }
            self.charge_mapping_block();
            self.counters.mapping_blocks_written += 1;
            self.place_mapping_block(stream, now, (frame, Name::Group(group), Origin::Index), fx);
        }
        made_room
    }

    /// A mapping block is durable, or lost.
    pub(super) fn group_written(&mut self, group: u32, pba: Pba, lost: bool) {
        self.off_load.writes_failed |= lost;
        self.index.groups_mut().expect("the index is in groups").end_write(group, lost);
        if !lost {
            self.map(Name::Group(group), pba);
        }
    }

    /// The mapping block of a group cannot be read where it lies: the group is written anew, if it is in memory.
    pub(super) fn give_up_mapping_block(&mut self, group: u32, from: Pba) {
        let Some(groups) = self.index.groups_mut() else { return };
        if groups.residence(group) == Residence::Here && groups.place(group) == Some(from) {
            groups.write_anew(group);
            groups.set_place(group, None);
            self.forget(from);
        }
    }

    /// What is live in a segment, once all groups were looked through; `None` while one is being read.
    pub(super) fn find_live(&mut self, segment: u32, fx: &mut Effects) -> Option<Vec<(Name, Pba)>> {
        let groups = self.index.groups().map_or(0, Groups::count);
        while self.off_load.write_off_next < groups {
            let group = self.off_load.write_off_next;
            if !self.index.groups().is_some_and(|groups| groups.maps_nothing(group))
                && self.wish_for_group(group, Wisher::Waits, fx) != Residence::Here
            {
                return None;
            }
            let mapped = self.index.groups().into_iter().flat_map(|groups| groups.mapped_in(group));
            let live = mapped.filter(|(_, pba)| self.segment_at(*pba) == segment);
            let mut live: Vec<(Name, Pba)> = live.map(|(lba, pba)| (Name::Block(lba), pba)).collect();
            self.off_load.write_offs.append(&mut live);
            self.off_load.write_off_next += 1;
        }
        self.off_load.write_off_next = 0;
        let mut live = std::mem::take(&mut self.off_load.write_offs);
        let is_listed = |name: &Name| groups > 0 && matches!(name, Name::Block(_));
        let others = self.index.mapped().filter(|(name, _)| !is_listed(name));
        live.extend(others.filter(|(_, pba)| self.segment_at(*pba) == segment));
        Some(live)
    }

    /// Blocks of a trim in a region.
    pub(super) fn blocks_of_trim(&self, request: u32, region: u64) -> Range<u64> {
        let Work::Trim { range, .. } = &self.requests.get(request).work else { unreachable!("a trim") };
        let blocks = region_range(region, self.index.blocks());
        range.start.max(blocks.start)..range.end.min(blocks.end)
    }

    /// True when only some of the index is kept in memory.
    #[must_use]
    pub fn is_off_loading(&self) -> bool {
        self.index.groups().is_some()
    }

    /// Asserts what must hold of groups between events.
    ///
    /// # Panics
    /// When an invariant is broken.
    pub(super) fn check_groups(&self) {
        let Some(groups) = self.index.groups() else { return };
        groups.check_invariants();
        if self.is_quiet() {
            assert!(groups.is_idle(), "{} groups are held for nothing", groups.held());
            let must_fit = self.may_write_groups() && !groups.is_incomplete();
            assert!(!groups.is_over() || !must_fit, "{} groups are resident", groups.resident());
        }
    }
}
