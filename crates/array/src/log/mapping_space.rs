//! The mapping space: the segments that mapping blocks have for themselves, and their own small collector (ADR 17).
//!
//! ```text
//!   kept ──> open ──────────> sealed ──────> victim ──────> kept
//!            groups written,  groups are     what is live
//!            copies           written anew   is copied
//! ```
//! Mapping blocks are few and die young. Among the volume's blocks they would take room from the collector that it needs
//! before it has freed any; apart from them, room for them is a matter of theirs alone.
//!
//! **The space's proof.** Of Q segments one is worth the copies of a victim: no group is written anew beyond it. When
//! that stops them, all but two are sealed or being sealed, or become free in a while. So the emptiest of those that are
//! sealed holds G / (Q - 2) of the G groups at most, which is half a segment for Q = 2 + 2 G / segment: its copies
//! fit, and erasing it frees more than they took. Copies wait for nobody: a group in memory is written from there, and one
//! that is not is read and written without being made resident.
//!
//! The volume's own proof holds without these segments ([`ArrayConfig::affords`]), once they are there: after a mount
//! they are taken one by one from what is free beyond the collector's reserve.

use crate::engine::Effects;
use crate::log::Shard;
use crate::log::config::{ArrayConfig, GC_RESERVE_SEGMENTS};
use crate::log::core::Core;
use crate::log::index::Name;
use crate::log::index::groups::{IndexGroup, Residence};
use crate::log::load::GroupReader;
use crate::log::off_load::OffLoad;
use crate::log::pba::Pba;
use crate::log::segment::{Segment, SegmentSlot, SegmentState};
use crate::log::stripe::Origin;
use crate::log::stripe::Stripes;
use base::frame::Frame;
use base::time::Instant;
use base::xor::Block;
use zone::format::header::Stream;

/// Stripes in flight from which on groups gain nothing by being in another: they can still change for nothing.
const STRIPES_WORTH: usize = 3;
/// Mapping blocks that are read at once to be copied.
pub const COPY_LOADS_MAX: usize = 16;

/// The segments of mapping blocks.
#[derive(Debug, Default)]
pub struct MappingSpace {
    /// Q; zero when all of the index is in memory.
    segments: u32,
    victim: Option<Victim>,
    /// Copies being read, of a victim given up too.
    loads: usize,
    /// Copies that were read: the group, where it lay, and what lies there.
    copies: Vec<(IndexGroup, Pba, Frame)>,
}

/// The one that is being collected.
#[derive(Debug)]
struct Victim {
    segment: SegmentSlot,
    /// Groups of which no copy was begun.
    groups: Vec<IndexGroup>,
    is_resetting: bool,
}

impl MappingSpace {
    /// Room for mapping blocks in so many segments, of which none is there yet.
    #[must_use]
    pub fn new(segments: u32) -> MappingSpace {
        MappingSpace { segments, ..MappingSpace::default() }
    }

    /// True when there are mapping blocks.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.segments > 0
    }

    /// True when nothing is being copied.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.victim.is_none() && self.copies.is_empty()
    }
}

/// Q, the segments that so many groups need.
#[must_use]
pub fn segments_for(config: &ArrayConfig, groups: u64) -> u32 {
    let blocks = u64::from(config.gc_layout().segment_data_blocks());
    u32::try_from((2 * groups).div_ceil(blocks)).unwrap_or(u32::MAX).saturating_add(2)
}

impl Shard {
    /// Collects segments of mapping blocks, and takes what is missing of the space.
    pub(super) fn advance_mapping_space(&mut self, now: Instant, fx: &mut Effects) {
        self.off_load.take_mapping_space(&mut self.core);
        self.place_copies(now, fx);
        if !self.off_load.may_copy_groups(&self.core) {
            self.off_load.space.victim =
                self.off_load.space.victim.take().filter(|victim| victim.is_resetting);
            return;
        }
        self.close_mapping_segment(fx);
        loop {
            if self.off_load.space.victim.is_none() {
                let Some(segment) = self.stripes.pick_mapping_victim(&self.core) else { return };
                let groups = groups_in(&self.core, segment);
                assert!(self.core.segments.get(segment).stream == Stream::Mapping, "it holds mapping blocks");
                self.off_load.space.victim = Some(Victim { segment, groups, is_resetting: false });
            }
            self.copy_groups(now, fx);
            let Some(victim) = &mut self.off_load.space.victim else { return };
            let segment = self.core.segments.get(victim.segment);
            if victim.is_resetting || segment.live_blocks > 0 || segment.readers > 0 {
                return;
            }
            assert!(
                segment.state == SegmentState::Sealed,
                "segment {} of mapping blocks is erased while it is {:?}",
                segment.id,
                segment.state
            );
            victim.is_resetting = true;
            let slot = victim.segment;
            self.core.reset_segment(slot, fx);
        }
    }

    /// The open segment is closed if it must go, once there is another.
    fn close_mapping_segment(&mut self, fx: &mut Effects) {
        let Some(slot) = self.stripes.streams[Stream::Mapping.index()].open[0].segment else { return };
        let segment = self.core.segments.get(slot);
        if segment.state == SegmentState::Open
            && must_go(&self.core, segment)
            && self.core.segments.kept_for_mapping() > 0
        {
            self.appender().close_segment(slot, fx);
        }
    }

    /// Begins copies of what is live in the victim, as far as stripes and reads allow.
    fn copy_groups(&mut self, now: Instant, fx: &mut Effects) {
        let Some(Victim { segment, mut groups, is_resetting }) = self.off_load.space.victim.take() else {
            return;
        };
        while let Some(group) = groups.last().copied() {
            let table = self.core.index.groups().expect("the index is in groups");
            let from = table.place(group).filter(|pba| self.core.segment_at(*pba) == segment);
            match from {
                // Written anew since, or being written.
                None => {}
                Some(_) if table.is_being_written(group) => {}
                Some(_) if table.residence(group) == Residence::Here => {
                    if !self.stripes.has_stripe_for_group() {
                        break;
                    }
                    self.write_group(group, now, fx);
                }
                Some(from) => {
                    if self.off_load.space.loads == COPY_LOADS_MAX {
                        break;
                    }
                    assert!(!is_resetting, "group {group} is live in a segment that is being erased");
                    self.off_load.space.loads += 1;
                    self.start_group_load(group, from, GroupReader::Copy(from), fx);
                }
            }
            groups.pop();
        }
        self.off_load.space.victim = Some(Victim { segment, groups, is_resetting });
        if !self.off_load.is_copying_groups() && self.core.segments.get(segment).live_blocks > 0 {
            self.appender().seal_filling(Stream::Mapping, fx);
        }
    }

    /// Puts copies that were read into stripes.
    fn place_copies(&mut self, now: Instant, fx: &mut Effects) {
        while self.stripes.has_stripe_for_group()
            && let Some((group, from, frame)) = self.off_load.space.copies.pop()
        {
            let is_stale = self.core.index.groups().is_some_and(|groups| groups.place(group) != Some(from));
            if is_stale || !self.off_load.may_copy_groups(&self.core) {
                self.core.frames.give(frame);
                continue;
            }
            self.core.counters.mapping_blocks_written += 1;
            let origin = Origin::IndexCopy(from);
            self.appender().place_mapping_block(
                Stream::Mapping,
                now,
                (frame, Name::Group(group), origin),
                fx,
            );
        }
    }
}

impl OffLoad {
    /// Takes segments that are missing of the space, as long as the collector keeps its reserve.
    fn take_mapping_space(&mut self, core: &mut Core) {
        let wanted = self.space.segments;
        while core.segments.mapping() + core.segments.kept_for_mapping() < wanted
            && core.segments.free_segments() > GC_RESERVE_SEGMENTS
        {
            core.segments.keep_for_mapping();
        }
    }

    /// True when all of the space is there.
    pub(super) fn has_mapping_space(&self, core: &Core) -> bool {
        core.segments.mapping() + core.segments.kept_for_mapping() >= self.space.segments
    }

    /// True when mapping blocks can be copied from one segment to another.
    pub(super) fn may_copy_groups(&self, core: &Core) -> bool {
        !self.writes_failed() && !core.membership.is_broken()
    }

    /// True while there are copies that were not begun, or are being read.
    pub(super) fn is_copying_groups(&self) -> bool {
        let space = &self.space;
        space.loads > 0
            || !space.copies.is_empty()
            || space.victim.as_ref().is_some_and(|victim| !victim.groups.is_empty())
    }

    /// A mapping block was read to be copied, or cannot be.
    pub(super) fn group_read_to_copy(
        &mut self,
        core: &mut Core,
        group: IndexGroup,
        from: Pba,
        block: Option<&Block>,
    ) {
        assert!(self.space.loads > 0, "a mapping block is read once to be copied");
        self.space.loads -= 1;
        let groups = core.index.groups_mut().expect("the index is in groups");
        match block {
            Some(block) => {
                let mut frame = core.frames.take();
                frame.data.copy_from_slice(block);
                self.space.copies.push((group, from, frame));
            }
            None if groups.place(group) != Some(from) => {}
            None if groups.residence(group) == Residence::Here => {
                groups.mark_dirty(group);
                core.unplace_group(group);
            }
            None => core.lose_group(group),
        }
    }

    /// The zones of a segment of mapping blocks are free.
    pub(super) fn mapping_segment_erased(&mut self) {
        let victim = self.space.victim.take();
        assert!(
            victim.is_none_or(|victim| victim.is_resetting),
            "a victim is erased when nothing of it is left"
        );
    }
}

impl Stripes {
    /// True when a group can be written anew: beyond that, room is for copies.
    pub(super) fn has_room_for_groups(&self, core: &Core) -> bool {
        let is_busy = self.mapping_stripes_in_flight() >= STRIPES_WORTH;
        !is_busy
            && self.has_stripe_for_group()
            && self.mapping_stripes_left(core) > self.mapping_segment_stripes()
    }

    fn has_stripe_for_group(&self) -> bool {
        self.streams[Stream::Mapping.index()].filling.is_some()
            || self.slots.in_use(Stream::Mapping) < self.slots.count(Stream::Mapping)
    }

    /// Stripes that are closed and not durable.
    pub(super) fn mapping_stripes_in_flight(&self) -> usize {
        let filling = usize::from(self.streams[Stream::Mapping.index()].filling.is_some());
        self.slots.in_use(Stream::Mapping) - filling
    }

    fn mapping_segment_stripes(&self) -> u64 {
        u64::from(self.streams[Stream::Mapping.index()].open[0].layout.stripes)
    }

    /// Stripes that can still be begun in the space.
    fn mapping_stripes_left(&self, core: &Core) -> u64 {
        let writer = &self.streams[Stream::Mapping.index()];
        let begun = writer.sealed.len() as u64 + u64::from(writer.filling.is_some());
        let kept = u64::from(core.segments.kept_for_mapping()) * self.mapping_segment_stripes();
        (self.stripes_with_room(core, Stream::Mapping) + kept).saturating_sub(begun)
    }

    /// The next segment to collect: a dead one, one that is damaged or lacks the zone of a drive that came later, and while
    /// less than a segment is left beside the room for copies, the emptiest.
    pub(in crate::log) fn pick_mapping_victim(&self, core: &Core) -> Option<SegmentSlot> {
        let is_sealed =
            |segment: &Segment| segment.stream == Stream::Mapping && segment.state == SegmentState::Sealed;
        let sealed = || core.segments.iter().filter(|(_, segment)| is_sealed(segment));
        if let Some((slot, _)) = sealed().find(|(_, segment)| segment.live_blocks == 0) {
            return Some(slot);
        }
        let (left, segment) = (self.mapping_stripes_left(core), self.mapping_segment_stripes());
        if left >= segment
            && let Some((slot, _)) = sealed().find(|(_, segment)| must_go(core, segment))
        {
            return Some(slot);
        }
        let (slot, emptiest) = sealed().min_by_key(|(_, segment)| (segment.live_blocks, segment.id))?;
        // While others are being sealed it may be too full to gain by it.
        let gains = 4 * emptiest.live_blocks <= 3 * emptiest.layout.segment_data_blocks();
        (left < 2 * segment && gains).then_some(slot)
    }
}

/// True for a segment that is damaged, or lacks the zone of a drive that came later: it is not rebuilt but collected.
fn must_go(core: &Core, segment: &Segment) -> bool {
    let rebuilding = core.membership.rebuilding();
    segment.evacuate || rebuilding.is_some_and(|drive| segment.lacks_zone(drive))
}

/// Groups whose mapping blocks lie in a segment.
fn groups_in(core: &Core, segment: SegmentSlot) -> Vec<IndexGroup> {
    let places = core.index.groups().expect("the index is in groups").places();
    places.filter(|(_, pba)| core.segment_at(*pba) == segment).map(|(group, _)| group).collect()
}
