//! Exhaustion: whether what waits for space will ever get any.
//!
//! Zones that drives gave up, or blocks that can be neither read nor erased, may take the reserve away that
//! `ArrayConfig::validate` has proved. Then what waits fails, instead of waiting for ever.

use crate::log::GC_RESERVE_SEGMENTS;
use crate::log::flush::RecoveryFlush;
use crate::log::gc::Gc;
use crate::log::policy::Space;
use crate::log::segment::SegmentState;
use zone::format::header::Stream;

impl Space<'_> {
    /// True while the collector has damaged segments with ids below `end` to collect, and can.
    pub(in crate::log) fn is_evacuating(&self, end: u64) -> bool {
        let mut marked =
            self.core.segments.iter().filter(|(_, segment)| segment.evacuate && segment.id < end);
        marked.any(|(_, segment)| match (segment.state, segment.stream) {
            // One that could not be closed is collected once it is full.
            (SegmentState::Open, _) => false,
            (_, Stream::Mapping) => self.off_load.may_copy_groups(self.core),
            // One that was closed is no victim yet.
            (SegmentState::Sealing { .. }, _) => true,
            _ => !self.gc_is_at_a_loss(),
        })
    }

    /// True when there is nothing to collect and nothing under way that may change that.
    pub(in crate::log) fn gc_is_at_a_loss(&self) -> bool {
        self.collector.stage == Gc::Idle
            && self.collector.moves.is_empty()
            && self.collector.moves_pending == 0
            && self.pick_victim().is_none()
    }

    /// True when the collector has nowhere to move anything to, for good: zones that failed were part of its
    /// reserve.
    pub(in crate::log) fn gc_is_out_of_space(&self) -> bool {
        self.core.segments.free_segments() == 0
            && self.stripes.collector_has_no_room(self.core)
            && !matches!(self.collector.stage, Gc::Flushing { .. } | Gc::Resetting)
            && !self.core.may_free_or_fill_segments()
    }

    /// True when a stream waits for space that no collection will ever free: zones were given up, or
    /// hold blocks that can be neither read nor erased. The reserve rules it out otherwise.
    pub(in crate::log) fn is_out_of_space(&self, stream: Stream) -> bool {
        match stream {
            Stream::Gc | Stream::Cold => self.gc_is_out_of_space(),
            Stream::Mapping => self.mapping_space_is_lost(),
            Stream::Small | Stream::Large => {
                self.core.segments.free_segments() <= GC_RESERVE_SEGMENTS
                    && self.stripes.has_no_room(self.core, stream)
                    && !self.stripes.has_unfinished()
                    && self.gc_is_at_a_loss()
                    && !self.core.may_free_or_fill_segments()
            }
        }
    }

    /// True when zones that failed were part of the space, and it has nowhere to write, for good.
    pub(in crate::log) fn mapping_space_is_lost(&self) -> bool {
        self.core.segments.kept_for_mapping() == 0
            && self.stripes.has_no_room(self.core, Stream::Mapping)
            && self.gc_is_at_a_loss()
            && !self.core.may_free_or_fill_segments()
            && self.off_load.space.is_at_rest()
            && self.stripes.pick_mapping_victim(self.core).is_none()
    }

    /// True when mapping blocks can be written, now or soon.
    pub(in crate::log) fn may_write_groups(&self) -> bool {
        self.off_load.has_mapping_space(self.core)
            && !self.off_load.writes_failed
            && !self.core.membership.is_broken()
            && self.rescue.flush == RecoveryFlush::Done
    }
}
