//! Streams: what is written together, and the open segments it goes to (ZapRAID section 3.3).
//!
//! ```text
//!  request < C_l ─> Small ─> [Append] [Write] ..   N_s open segments, small chunks
//!  request ≥ C_l ─> Large ─> [Write]  [Write] ..   N_l open segments, large chunks
//!  moved blocks  ─> Gc    ─> [Write]                 and clients' blocks in the last stripe of a victim (adaptive)
//!    old ones    ─> Cold  ─> [Write]                 where they are separated (`survivors.rs`)
//!  groups of the index ─> Mapping ─> [Write]         where only some of it is in memory (`mapping_space.rs`)
//! ```
//! A stripe gathers for its stream, not for a segment: which one it goes to is decided when it is full. One under
//! Zone Write has one chunk in flight per zone, so an idle one is best; when none is, the one under Zone Append takes
//! the stripe, and without one whichever has least to do. What adapts lets it wait until one has fewer than two in flight:
//! which of them is first to have room is not known before, and stripes that wait together are written in their order.

use crate::engine::Effects;
use crate::log::append::Appender;
use crate::log::config::ArrayConfig;
use crate::log::core::Core;
use crate::log::core::Event;
use crate::log::policy::adaptive::Policy;
use crate::log::policy::decision::Decision;
use crate::log::policy::strain::Strain;
use crate::log::segment::{Segment, SegmentSlot, SegmentState};
use crate::log::stripe::{StripeSlot, Stripes};
use std::cell::LazyCell;
use std::collections::VecDeque;
use zone::format::header::{Stream, WriteMode};
use zone::stripe::Layout;

/// Rank of segments that are avoided, behind all others.
const RANK_AVOIDED: u32 = 1 << 16;

/// A segment that is open for a stream, or the place of one.
#[derive(Clone, Copy, Debug)]
pub struct OpenSegment {
    /// Layout of the segments that are opened here.
    pub layout: Layout,
    /// Write mode of these segments. Where drives have no area left, the next one is under Zone Write instead of in area mode.
    pub mode: WriteMode,
    /// The one that is open.
    pub segment: Option<SegmentSlot>,
}

impl OpenSegment {
    /// True for a segment that a crash left and that can be written on here: where slots are static, in either mode.
    #[must_use]
    pub fn takes(&self, segment: &Segment) -> bool {
        let Segment { mode, layout, .. } = segment;
        mode.has_static_slots() == self.mode.has_static_slots()
            && layout.chunk_blocks == self.layout.chunk_blocks
            && layout.group_stripes == self.layout.group_stripes
    }
}

/// State of the writes of a stream.
pub struct StreamWriter {
    /// Data blocks of a stripe.
    pub stripe_data_blocks: u32,
    /// Blocks of a chunk.
    pub chunk_blocks: u32,
    /// Stripe slot that blocks are gathering in.
    pub filling: Option<StripeSlot>,
    /// Full stripes that wait for room in a segment.
    pub sealed: VecDeque<StripeSlot>,
    /// Segments that stripes are written to. None when no request goes to this stream.
    pub open: Vec<OpenSegment>,
    /// Place in `open` where the search for the next one begins.
    next: usize,
    /// Segments that a crash left with room, to be filled before new ones are opened.
    pub unfinished: Vec<SegmentSlot>,
    /// Times that its stripes took.
    pub strain: Strain,
}

impl StreamWriter {
    /// A stream with no segment open.
    #[must_use]
    pub fn new(config: &ArrayConfig, stream: Stream, policy: Policy) -> StreamWriter {
        let chunk_blocks = config.chunk_blocks_of(stream);
        let data_count = u32::try_from(config.code().data_count()).expect("at most 32 members");
        let count = config.places(stream, policy);
        let places = config.layouts(stream).into_iter().zip(config.modes(stream)).cycle().take(count);
        StreamWriter {
            stripe_data_blocks: chunk_blocks * data_count,
            chunk_blocks,
            filling: None,
            sealed: VecDeque::new(),
            open: places.map(|(layout, mode)| OpenSegment { layout, mode, segment: None }).collect(),
            next: 0,
            unfinished: Vec::new(),
            strain: Strain::default(),
        }
    }

    /// A segment takes no more stripes.
    pub fn close(&mut self, slot: SegmentSlot) {
        for place in &mut self.open {
            place.segment = place.segment.filter(|segment| *segment != slot);
        }
        self.unfinished.retain(|segment| *segment != slot);
    }
}

impl Appender<'_> {
    /// Gives sealed stripes to the stream's segments, opening new ones where they are used up.
    pub(super) fn pump_stream(&mut self, stream: Stream, fx: &mut Effects) {
        while let Some(slot) = self.stripes.stream(stream).sealed.front().copied() {
            if self.core.membership.is_broken() || self.space().is_out_of_space(stream) {
                self.stripes.stream(stream).sealed.pop_front();
                self.core.events.push_back(Event::StripeFailed(slot));
                continue;
            }
            if !self.stripes.has_idle_place(self.core, stream) || self.space().wants_more_zones(stream) {
                self.fill_place(stream, fx);
            }
            let own = self.segment_of_batch(stream).or_else(|| self.pick_segment(stream));
            let Some(segment) = own.or_else(|| self.pick_of_collector(stream, fx)) else { return };
            assert!(
                self.core.segments.get(segment).takes_stripes(),
                "a stripe of {stream:?} goes to segment {}, which takes none",
                self.core.segments.get(segment).id
            );
            self.stripes.stream(stream).sealed.pop_front();
            self.bind(slot, segment, fx);
        }
    }

    /// Opens a segment where there is none: one that a crash has left first, wherever it fits.
    pub(super) fn fill_place(&mut self, stream: Stream, fx: &mut Effects) {
        let mut vacant = None;
        for index in 0..self.stripes.streams[stream.index()].open.len() {
            let place = self.stripes.streams[stream.index()].open[index];
            if place.segment.is_some_and(|slot| self.core.segments.get(slot).takes_stripes()) {
                continue;
            }
            let fits = |slot: &SegmentSlot| place.takes(self.core.segments.get(*slot));
            let unfinished = unfinished_of(stream);
            if let Some(at) = self.stripes.streams[unfinished.index()].unfinished.iter().position(fits) {
                let segment = self.stripes.stream(unfinished).unfinished.swap_remove(at);
                assert!(
                    self.core.segments.get(segment).takes_stripes(),
                    "segment {} was left with room",
                    self.core.segments.get(segment).id
                );
                self.core.segments.get_mut(segment).stream = stream;
                self.stripes.stream(stream).open[index].segment = Some(segment);
                return;
            }
            vacant = vacant.or(Some((index, place)));
        }
        let Some((index, place)) = vacant else { return };
        if stream.is_collectors()
            && let Some((of, slot)) = self.space().left_by_clients(&place)
        {
            self.hand_over(slot, of, stream);
            self.stripes.stream(stream).open[index].segment = Some(slot);
        } else if self.space().may_open_another(stream) {
            let mode = self.space().mode_of_next(place.mode);
            let layout =
                if mode == place.mode { place.layout } else { self.core.config.layout(stream, mode) };
            let segment = self.open_segment(stream, &layout, mode, fx);
            self.stripes.stream(stream).open[index].segment = segment;
            if let Some(slot) = segment {
                let (segment, chunk_blocks) = (self.core.segments.get(slot).id, layout.chunk_blocks);
                self.note(Decision::Opens { stream, segment, chunk_blocks, mode });
            }
        }
    }

    /// Gives the collector a segment that clients have left.
    fn hand_over(&mut self, slot: SegmentSlot, from: Stream, to: Stream) {
        assert!(from.is_clients() && to.is_collectors(), "{to:?} fills what {from:?} has left");
        let segment = self.core.segments.get_mut(slot);
        assert!(segment.stream == from && segment.takes_stripes(), "segment {} is open", segment.id);
        segment.stream = to;
        let (id, layout) = (segment.id, segment.layout);
        let next = segment.writer.as_ref().map_or(layout.stripes, |writer| writer.next_stripe);
        self.stripes.stream(from).close(slot);
        self.note(Decision::HandsOver { segment: id, stripes: layout.stripes - next });
    }

    /// The segment of a batch, while it takes stripes: those that follow its first one go there, whatever is in flight, for one command of
    /// each drive takes them all.
    fn segment_of_batch(&self, stream: Stream) -> Option<SegmentSlot> {
        let slot = *self.stripes.batch.as_ref()?.last()?;
        let segment = self.core.segments.get(slot);
        (segment.stream == stream && segment.takes_stripes()).then_some(slot)
    }

    /// The segment the next stripe goes to; `None` when none has room now.
    pub(super) fn pick_segment(&mut self, stream: Stream) -> Option<SegmentSlot> {
        let writer = &self.stripes.streams[stream.index()];
        let count = writer.open.len();
        let waits = !self.core.goes_by_deadline() && stream.is_clients();
        // Asked for each stripe, and needed where none is idle.
        let worth = LazyCell::new(|| waits.then(|| self.space().stripes_in_flight_worth(stream)));
        let mut best: Option<(u32, usize)> = None;
        for index in (0..count).map(|step| (writer.next + step) % count) {
            let Some(pending) = self.core.stripes_pending_with_room(&writer.open[index]) else { continue };
            // Zone Append takes what no idle segment does: it stands behind idle ones, and before busy ones.
            let rank = match writer.open[index].mode {
                WriteMode::Append if count > 1 => pending.min(1),
                WriteMode::Append => 0,
                WriteMode::Area => pending,
                WriteMode::Write if pending == 0 => 0,
                WriteMode::Write if worth.is_some_and(|worth| pending >= worth) => continue,
                WriteMode::Write => pending + 1,
            };
            let is_avoided = stream.is_clients()
                && writer.open[index].segment.is_some_and(|slot| self.space().biza_avoids(slot));
            let rank = if is_avoided { rank + RANK_AVOIDED } else { rank };
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, index));
            }
        }
        let (_, index) = best?;
        let writer = self.stripes.stream(stream);
        writer.next = (index + 1) % count;
        writer.open[index].segment
    }

    /// The segment of the collector's other stream, for a stripe that finds no room in its own's: it could wait for ever
    /// beside room that was counted on.
    fn pick_of_collector(&mut self, stream: Stream, fx: &mut Effects) -> Option<SegmentSlot> {
        if !self.stripes.has_no_room(self.core, stream) {
            return None;
        }
        match stream {
            Stream::Gc => self.pick_segment(Stream::Cold),
            Stream::Cold => {
                // It may have a zone where this one has none, and no stripe of its own that asks for it.
                self.fill_place(Stream::Gc, fx);
                self.pick_segment(Stream::Gc)
            }
            Stream::Small | Stream::Large | Stream::Mapping => None,
        }
    }
}

impl Stripes {
    /// True when a segment has nothing to do, or is being opened: another one would hold space for nothing.
    pub(super) fn has_idle_place(&self, core: &Core, stream: Stream) -> bool {
        let is_idle =
            |place: &OpenSegment| core.is_opening(place) || core.stripes_pending_with_room(place) == Some(0);
        self.streams[stream.index()].open.iter().any(is_idle)
    }

    /// True while a segment of a stream is being opened.
    pub(super) fn is_opening(&self, core: &Core, stream: Stream) -> bool {
        self.streams[stream.index()].open.iter().any(|place| core.is_opening(place))
    }

    /// Segments of a stream that are open, or are being opened, and take more stripes.
    pub(super) fn places_with_room(&self, core: &Core, stream: Stream) -> usize {
        let has_room =
            |place: &&OpenSegment| place.segment.is_some_and(|slot| core.segments.get(slot).takes_stripes());
        self.streams[stream.index()].open.iter().filter(has_room).count()
    }

    /// True when a stream's next stripe needs a new segment.
    pub(super) fn has_no_room(&self, core: &Core, stream: Stream) -> bool {
        let writer = &self.streams[stream.index()];
        let used_up =
            |place: &OpenSegment| place.segment.is_none_or(|slot| !core.segments.get(slot).takes_stripes());
        let unfinished = &self.streams[unfinished_of(stream).index()].unfinished;
        unfinished.is_empty() && writer.open.iter().all(used_up)
    }

    /// Stripes that the open segments of a stream have room for.
    pub(super) fn stripes_with_room(&self, core: &Core, stream: Stream) -> u64 {
        let places = self.streams[stream.index()].open.iter();
        let room = |place: &OpenSegment| {
            let segment = place.segment.map(|slot| core.segments.get(slot));
            let left = segment.and_then(|segment| Some((segment.layout, segment.writer.as_ref()?)));
            left.map_or(0, |(layout, writer)| u64::from(layout.stripes - writer.next_stripe))
        };
        places.map(room).sum()
    }

    /// Asserts that stripes wait for a segment with little to do, but where a deadline closes stripes.
    pub(super) fn check_open_segments(&self, core: &Core) {
        let places = Stream::CLIENTS.into_iter().flat_map(|stream| &self.streams[stream.index()].open);
        let writes = places.filter(|place| place.mode == WriteMode::Write && !core.goes_by_deadline());
        for segment in writes.filter_map(|place| place.segment).map(|slot| core.segments.get(slot)) {
            let pending = segment.writer.as_ref().map_or(0, |writer| writer.stripes_pending());
            let most = core.tuning.tuned.stripes_in_flight_most;
            assert!(pending <= most, "{pending} stripes of segment {}", segment.id);
        }
    }

    /// Returns the writer of a stream.
    pub(super) fn stream(&mut self, stream: Stream) -> &mut StreamWriter {
        &mut self.streams[stream.index()]
    }
}

impl Core {
    /// True while the headers of an open segment are on their way.
    pub(super) fn is_opening(&self, place: &OpenSegment) -> bool {
        place.segment.is_some_and(|slot| self.segments.get(slot).is_opening())
    }

    /// Stripes in flight in an open segment that has room for another.
    pub(super) fn stripes_pending_with_room(&self, place: &OpenSegment) -> Option<u32> {
        let segment = self.segments.get(place.segment?);
        if segment.state != SegmentState::Open {
            return None;
        }
        let writer = segment.writer.as_ref()?;
        writer.has_room(&segment.layout).then(|| writer.stripes_pending())
    }
}

/// The stream that has the unfinished segments of one: on the media, those of the collector are alike.
fn unfinished_of(stream: Stream) -> Stream {
    if stream == Stream::Cold { Stream::Gc } else { stream }
}
