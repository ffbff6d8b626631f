//! Segments that clients left with room: the collector fills them before it opens one of its own.
//!
//! The two streams of clients share places for open segments, and what is under way says which of them is written to. When the load
//! changes for good, the other one's segments would stay as they are: their room is spare space that nobody uses, and their places
//! keep the stream that is written to from opening more.
//! ```text
//!   Large  [Write] [Write] [Write]      nothing under way, and small writes are in demand
//!             '──> Gc, when its own segment is full
//! ```

use crate::log::core::Core;
use crate::log::policy::Space;
use crate::log::segment::SegmentSlot;
use crate::log::streams::OpenSegment;
use zone::format::header::Stream;

impl Space<'_> {
    /// A segment that clients have left, which can be written on in a place of the collector's: its stream and the segment. None while
    /// clients have no other room.
    pub(in crate::log) fn left_by_clients(&self, place: &OpenSegment) -> Option<(Stream, SegmentSlot)> {
        if !self.core.is_adaptive() || !self.has_choice() {
            return None;
        }
        let demanded = self.stream_in_demand();
        // What they have left is all they have.
        if self.is_without_room(demanded) {
            return None;
        }
        let is_quiet = |stream: &Stream| {
            let writer = &self.stripes.streams[stream.index()];
            *stream != demanded && writer.filling.is_none() && writer.sealed.is_empty()
        };
        let left = Stream::CLIENTS.into_iter().filter(is_quiet).flat_map(|stream| {
            let open = self.stripes.streams[stream.index()].open.iter();
            open.filter(|own| may_be_handed_over(self.core, own, place))
                .filter_map(move |own| Some((stream, own.segment?)))
        });
        left.min_by_key(|(_, slot)| self.core.segments.get(*slot).id)
    }
}

/// True when nothing of an open segment is under way, and another place takes it. One of an earlier mount holds nothing older than
/// that by which a mount tells the blocks of two servers apart (ADR 73), and keeps it so.
fn may_be_handed_over(core: &Core, own: &OpenSegment, to: &OpenSegment) -> bool {
    let Some(segment) = own.segment.map(|slot| core.segments.get(slot)) else { return false };
    core.stripes_pending_with_room(own) == Some(0)
        && to.takes(segment)
        && segment.mode == to.mode
        && core.is_of_this_mount(segment)
        && segment.writer.as_ref().is_some_and(|writer| !writer.summary.is_busy)
}
