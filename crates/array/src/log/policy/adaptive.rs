//! The adaptive policy: how many segments are open, which chunks a write goes to, and when a stripe stops waiting for
//! company. ZapRAID leaves all of this to an operator (sections 3.3 and 3.5). What each rule is worth stands in
//! docs/adr/0015.
//!
//! 1. **Segments** ([`ArrayConfig::adaptive`]): up to ten under Zone Write, as far as active zones and spare space go, of
//!    small or large chunks as demand is ([`Space::may_open_another`]), opened when those that are open have something to do, or take
//!    no more than they do (`strain.rs`). One command is in flight per zone then, and costs a
//!    drive less than an append does: four zones take more than one under Zone Append. Drives without a write buffer work on as many commands as
//!    they have dies: Zone Append in one segment of small chunks, for those of several would collide on the dies.
//! 2. **Chunks** ([`Space::stream_of_write`]): large ones when what is under way fills two thirds of a stripe of them, unless space is short
//!    and they were mostly padding of late (`fill.rs`).
//! 3. **Company** ([`Space::should_close`]): when nothing more happens at an instant, nobody was just answered and drives have little to do, a
//!    stripe that is filling is closed: waiting would only cost time. A stripe of small chunks costs so little that it
//!    is closed while another segment has nothing to do; one of large chunks takes time from those in flight, and
//!    waits for them. One that goes to slots and has all that is under way waits for nothing. When space is short, padding must be collected soon, and both wait. So they do while writes wait
//!    for parts of the index, for those are about to come.
//! 4. **Remainders** (`Shard::recut`): a stripe of large chunks that is closed with no more than a small one
//!    holds becomes one, with less padding.
//! 5. **The last stripe of a victim** ([`Space::remainder_waits`]) is filled with blocks of clients instead of padding,
//!    as long as some are about to write.

use crate::log::config::{AppendUse, ArrayConfig, OpenSegments};
use crate::log::core::Core;
use crate::log::gc::{GC_START_SEGMENTS, Gc};
use crate::log::lifetime::Ghost;
use crate::log::policy::Space;
use crate::log::policy::tuned::{Shape, Tuned};
use crate::log::streams::OpenSegment;
use crate::log::stripe::{Origin, StripeSlot, Stripes};
use base::time::{Instant, Nanos};
use zone::format::header::{Stream, WriteMode};

/// Decider of where writes go and when stripes are closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The engine, by what it observes.
    #[default]
    Adaptive,
    /// Sizes of requests and the deadline of stripes, as ZapRAID has it.
    Fixed,
    /// Lifetimes of blocks, as BIZA has it (`biza.rs`).
    Biza,
}

/// Load that the engine observes from its clients.
#[derive(Debug)]
pub struct Demand {
    /// Blocks of writes that were admitted and are not durable.
    blocks_under_way: u64,
    /// The most of them while the last writes were admitted, fewer than [`Tuned::demand_writes`], and the most before that.
    peaks: [u64; 2],
    /// Writes that were admitted.
    admitted: u64,
    /// Writes that a peak is of at most.
    writes_max: u32,
    /// Time that a client takes to react.
    reaction: Nanos,
    /// Time until which clients that were answered may send more.
    reaction_until: Option<Instant>,
    /// No write was under way when nothing more happened.
    is_idle: bool,
    /// Blocks that were written lately, where the policy goes by those.
    pub(in crate::log) lifetimes: Option<Box<Ghost>>,
}

impl Demand {
    /// No client has asked for anything.
    #[must_use]
    pub fn new(tuned: &Tuned) -> Demand {
        assert!(tuned.demand_writes > 0, "what is under way is of some writes");
        Demand {
            blocks_under_way: 0,
            peaks: [0; 2],
            admitted: 0,
            writes_max: tuned.demand_writes,
            reaction: Nanos(tuned.reaction_ns.into()),
            reaction_until: None,
            is_idle: false,
            lifetimes: None,
        }
    }

    /// A write is admitted.
    pub fn begin(&mut self, blocks: u64) {
        self.blocks_under_way += blocks;
        if self.admitted.is_multiple_of(self.writes_max.into()) {
            self.peaks = [0, self.peaks[0]];
        }
        self.admitted += 1;
        self.peaks[0] = self.peaks[0].max(self.blocks_under_way);
    }

    /// Blocks of writes that were admitted and are not durable.
    #[must_use]
    pub fn blocks_under_way(&self) -> u64 {
        self.blocks_under_way
    }

    /// Writes that were admitted.
    #[must_use]
    pub fn admitted(&self) -> u64 {
        self.admitted
    }

    /// A write is durable.
    pub fn end(&mut self, blocks: u64) {
        assert!(self.blocks_under_way >= blocks);
        self.blocks_under_way -= blocks;
    }

    /// Returns the time from which it is no longer likely that clients that were answered send more at once.
    #[must_use]
    pub fn reaction_until(&self) -> Option<Instant> {
        self.reaction_until
    }

    /// Clients are being answered at this time, and may send more at once; or they have had the time to.
    pub fn expect_reaction(&mut self, answered: Option<Instant>) {
        self.reaction_until = answered.map(|now| now + self.reaction);
    }

    /// Clients write nothing and nothing more happens. True when that is new.
    pub fn note_idle(&mut self) -> bool {
        !std::mem::replace(&mut self.is_idle, true)
    }

    /// A write, trim or flush has come.
    pub fn came(&mut self) {
        self.is_idle = false;
    }

    /// True when clients wrote nothing of late.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Blocks under way, the most of late.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.peaks[0].max(self.peaks[1])
    }
}

/// Traits of the drives that are known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveTraits {
    /// A write is done before it is in the flash, and drives are at their limit with few of them in flight.
    pub has_write_buffer: bool,
}

impl Default for DriveTraits {
    /// Every zoned drive on the market buffers writes.
    fn default() -> DriveTraits {
        DriveTraits { has_write_buffer: true }
    }
}

impl ArrayConfig {
    /// Places for open segments of a stream. What adapts shares them among its two streams of clients: each may have all but
    /// one, and as many as both may have are open at most ([`Space::may_open_another`]).
    pub(in crate::log) fn places(&self, stream: Stream, policy: Policy) -> usize {
        let own = self.modes(stream).len();
        let OpenSegments { small, large, .. } = self.open;
        if policy == Policy::Adaptive && stream.is_clients() && self.shares_places() {
            (small + large - 1) as usize
        } else {
            own
        }
    }

    /// True when both streams of clients have places that are alike.
    fn shares_places(&self) -> bool {
        self.group_stripes == 1 && self.open.small > 0 && self.open.large > 0
    }

    /// True when enough segments hold no data for as many as are open for clients.
    pub(in crate::log) fn has_spare_for_open(&self, shape: &Shape) -> bool {
        (self.open.small + self.open.large) * shape.spare_per_two_segments <= 2 * self.segments_without_data()
    }

    /// The same array with chunks, modes and open segments chosen for its drives.
    #[must_use]
    pub fn adaptive(&self, traits: DriveTraits) -> ArrayConfig {
        self.adaptive_as(traits, &Shape::default())
    }

    /// The same with other constants, for experiments.
    #[must_use]
    pub fn adaptive_as(&self, traits: DriveTraits, shape: &Shape) -> ArrayConfig {
        let Shape { small_segments_max, large_segments_max, .. } = *shape;
        let transfer_max = self.geometry.append_blocks_max.min(self.geometry.transfer_blocks_max);
        let large_chunk_blocks = shape.large_chunk_blocks.min(transfer_max);
        let with = |small, large| ArrayConfig {
            chunk_blocks: shape.small_chunk_blocks,
            group_stripes: 1,
            open: OpenSegments { small, large, large_chunk_blocks, append: AppendUse::OneSmall },
            ..self.clone()
        };
        // One segment, as ZapRAID has it: Zone Append keeps a drive busier then.
        let one = ArrayConfig { group_stripes: shape.append_group_stripes, ..with(1, 0) };
        if !traits.has_write_buffer {
            return one;
        }
        let affordable = |config: &ArrayConfig| {
            config.validate().is_ok() && config.has_spare_for_open(shape) && config.leaves_zones_for_area()
        };
        let more_large =
            (small_segments_max + 1..=large_segments_max).map(|large| (small_segments_max, large));
        let counts = (1..=small_segments_max).rev();
        let as_many = counts.flat_map(|count| [(count, count), (count, count - 1)]);
        assert!(
            small_segments_max > 0 && large_chunk_blocks > 0,
            "{small_segments_max} segments of small chunks, large ones of {large_chunk_blocks} blocks"
        );
        let pairs =
            more_large.rev().chain(as_many).filter(|(_, large)| (1..=large_segments_max).contains(large));
        let mut several = pairs.map(|(small, large)| with(small, large));
        let one_each = || Some(with(1, 1)).filter(|config| config.validate().is_ok());
        several.find(affordable).or_else(one_each).unwrap_or(one)
    }
}

impl Space<'_> {
    /// Returns the stream for a write of so many blocks that is being admitted; most of them live short, or that is not known.
    pub(in crate::log) fn stream_of_write(&self, blocks: u64, are_hot: bool) -> Stream {
        let has_choice = self.has_choice();
        if self.core.is_biza() && has_choice {
            return self.biza_stream(are_hot);
        }
        if !self.core.is_adaptive() || !has_choice {
            return self.core.config.stream_for(blocks);
        }
        let demanded = self.stream_in_demand();
        // One of small chunks that is left open is spare space that nobody uses: it is filled first.
        let has_spare =
            self.core.is_space_short() && self.stripes.has_unspoken_room(self.core, Stream::Small);
        let is_large = demanded == Stream::Large && !has_spare;
        let (wanted, other) =
            if is_large { (Stream::Large, Stream::Small) } else { (Stream::Small, Stream::Large) };
        // While no segment may be opened, what is open is all there is.
        if self.is_without_room(wanted) && self.stripes.stripes_with_room(self.core, other) > 0 {
            return other;
        }
        // Places that the other stream has left are used where a stripe would have to wait, until they are free for this one.
        let is_left = self.stripes.places_with_room(self.core, other) > 1
            && !self.may_open_another(wanted)
            && !self.stripes.takes_another(self.core, wanted)
            && self.stripes.has_idle_place(self.core, other);
        if is_left { other } else { wanted }
    }

    /// True when writes of clients may go to either stream.
    pub(in crate::log) fn has_choice(&self) -> bool {
        Stream::CLIENTS.iter().all(|stream| !self.stripes.streams[stream.index()].open.is_empty())
    }

    /// The stream whose stripes are as large as what is under way.
    pub(in crate::log) fn stream_in_demand(&self) -> Stream {
        let stripe = u64::from(self.stripes.streams[Stream::Large.index()].stripe_data_blocks);
        let would_pad = self.core.is_space_short() && self.stripes.fill.is_poor();
        if !would_pad
            && 6 * self.demand.blocks() >= u64::from(self.core.tuning.tuned.large_fill_sixths) * stripe
        {
            Stream::Large
        } else {
            Stream::Small
        }
    }

    /// True when one more segment of a stream may be open: as many as are affordable, of whichever chunks are in demand. The
    /// last place is for a stream that has none, so that neither ever waits for the other to fill what it has.
    pub(in crate::log) fn may_open_another(&self, stream: Stream) -> bool {
        if !stream.is_clients() || !self.core.is_adaptive() || !self.core.config.shares_places() {
            return true;
        }
        let [small, large] = Stream::CLIENTS.map(|stream| self.stripes.places_with_room(self.core, stream));
        let OpenSegments { small: small_max, large: large_max, .. } = self.core.config.open;
        let (own, other) = if stream == Stream::Small { (small, large) } else { (large, small) };
        let kept = usize::from(own > 0 && other == 0);
        small + large + kept < (small_max + large_max) as usize
    }

    /// True when what is filling waits for what clients that are being answered may send at once.
    pub(in crate::log) fn awaits_reaction(&self) -> bool {
        let is_filling = |stream: Stream| self.stripes.streams[stream.index()].filling.is_some();
        let waits = Stream::CLIENTS.into_iter().any(is_filling) || self.core.is_space_short();
        waits && !self.core.goes_by_deadline()
    }

    /// True when the filling stripe of a stream would wait although a segment has nothing to do.
    pub(in crate::log) fn should_close(&self, stream: Stream) -> bool {
        let Some(slot) = self.stripes.streams[stream.index()].filling else { return false };
        let becomes = if self.stripes.can_recut(self.core, slot) { Stream::Small } else { stream };
        self.stripes.has_idle_segment(self.core, becomes)
    }

    /// True while the last stripe of a victim, which others would pad, has room for blocks that clients are about to
    /// write. It must fit the open segment, for it is not to fail where clients have room of their own.
    pub(in crate::log) fn remainder_waits(&self) -> bool {
        let writer = &self.stripes.streams[Stream::Gc.index()];
        self.core.is_adaptive()
            && matches!(self.collector.stage, Gc::Settling { .. })
            && writer.filling.is_some()
            && self.collector.moves.is_empty()
            && !self.demand.is_idle()
            && self.stripes.stripes_with_room(self.core, Stream::Gc) > self.stripes.collector_stripes_sealed()
    }

    /// True when a client's block may join that stripe. Where little is under way clients wait for each write, and one that stands behind
    /// what the victim's last reads have brought would wait for all of it: then nothing of the collector's may be ahead. Where much is,
    /// they wait for space, and padding would take some.
    pub(in crate::log) fn remainder_takes_clients(&self) -> bool {
        let is_next = self.stripes.slots.in_use(Stream::Gc) == 1;
        (is_next || self.stream_in_demand() == Stream::Large) && self.remainder_waits()
    }

    /// True when that stripe gains nothing by waiting: no client is about to join it, or one waits for it and few are to come.
    pub(in crate::log) fn should_close_remainder(&self) -> bool {
        let is_waited_for =
            || self.stream_in_demand() == Stream::Small && self.stripes.remainder_has_client();
        self.remainder_waits() && (self.stripes.client_stripes_in_flight() == 0 || is_waited_for())
    }

    /// Returns the time at which the filling stripe of a stream must be sealed. While the collector is moving a victim,
    /// its stripe waits for more of it; and one that would stand behind others gains nothing by padding.
    pub(in crate::log) fn stripe_deadline(&self, stream: Stream) -> Option<Instant> {
        let slot = self.stripes.streams[stream.index()].filling?;
        if stream == Stream::Mapping && self.off_load.is_copying_groups() {
            return None;
        }
        if self.stripes.stands_behind(self.core, stream) {
            return None;
        }
        let gathering =
            stream.is_collectors() && !matches!(self.collector.stage, Gc::Idle) && !self.remainder_waits();
        (!gathering).then(|| self.stripes.slots.get(slot).opened_at + self.core.tuning.stripe_deadline)
    }
}

impl Stripes {
    /// True when a segment of a stream takes another stripe at once, or will when it is opened.
    fn takes_another(&self, core: &Core, stream: Stream) -> bool {
        let takes = |place: &OpenSegment| {
            core.is_opening(place)
                || core
                    .stripes_pending_with_room(place)
                    .is_some_and(|pending| pending < core.tuning.tuned.stripes_in_flight_least)
        };
        let writer = &self.streams[stream.index()];
        writer.sealed.is_empty() && writer.open.iter().any(takes)
    }

    /// True when the filling stripe of a stream would wait behind others that are closed: padding it would only cost space.
    pub(in crate::log) fn stands_behind(&self, core: &Core, stream: Stream) -> bool {
        core.is_adaptive() && !self.streams[stream.index()].sealed.is_empty()
    }

    /// Stripes of the collector that wait for room.
    fn collector_stripes_sealed(&self) -> u64 {
        [Stream::Gc, Stream::Cold].map(|stream| self.streams[stream.index()].sealed.len() as u64).iter().sum()
    }

    /// True when a stripe that is closed now would be written at once, and costs those in flight little.
    fn has_idle_segment(&self, core: &Core, stream: Stream) -> bool {
        let writer = &self.streams[stream.index()];
        let takes_more = |place| core.stripes_pending_with_room(place).is_some();
        if !writer.sealed.is_empty() || !writer.open.iter().any(takes_more) {
            return false;
        }
        let worth = |mode| match (mode, stream) {
            (WriteMode::Append | WriteMode::Area, _) => core.tuning.tuned.appends_worth,
            (WriteMode::Write, Stream::Large) => 0,
            (WriteMode::Write, _) => 1,
        };
        // Places beyond those are shared with the other stream: drives are at their limit before all of them are written to.
        let own = writer.open.iter().take(core.config.open.small as usize);
        let worth: u32 = own.map(|place| worth(place.mode)).sum();
        let in_flight_max = if core.is_space_short() { 1 } else { worth.max(1) };
        self.client_stripes_in_flight() < in_flight_max as usize
    }

    /// True when a client's block has joined the filling stripe of the collector.
    fn remainder_has_client(&self) -> bool {
        let filling = self.streams[Stream::Gc.index()].filling;
        let last = filling.and_then(|slot| self.slots.get(slot).blocks.last());
        last.is_some_and(|block| matches!(block.origin, Origin::Request(_)))
    }

    /// Stripes of clients that are closed and not durable.
    pub(in crate::log) fn client_stripes_in_flight(&self) -> usize {
        let of = |stream: Stream| {
            let filling = usize::from(self.streams[stream.index()].filling.is_some());
            self.slots.in_use(stream) - filling
        };
        Stream::CLIENTS.into_iter().map(of).sum()
    }

    /// True for a stripe of large chunks whose blocks one of small chunks holds, when there is room for it.
    pub(in crate::log) fn can_recut(&self, core: &Core, slot: StripeSlot) -> bool {
        let stripe = self.slots.get(slot);
        let [small, large] = Stream::CLIENTS.map(|stream| self.streams[stream.index()].stripe_data_blocks);
        // One that is filling may be full before all are placed: then another is begun.
        let has_slot = self.slots.in_use(Stream::Small) < self.slots.count(Stream::Small);
        !core.goes_by_deadline()
            && stripe.stream == Stream::Large
            && stripe.blocks.len() <= small as usize
            && small < large
            && has_slot
            && (!core.is_space_short() || self.stripes_with_room(core, Stream::Small) > 0)
    }
}

impl Core {
    pub(in crate::log) fn is_adaptive(&self) -> bool {
        self.tuning.policy == Policy::Adaptive
    }

    /// True when a deadline closes stripes, and nothing else does; other policies close them when waiting would only cost time, and
    /// share out what waits among segments.
    pub(in crate::log) fn goes_by_deadline(&self) -> bool {
        self.tuning.policy == Policy::Fixed
    }

    /// True when what is written must soon be collected.
    pub(in crate::log) fn is_space_short(&self) -> bool {
        self.segments.free_segments() < GC_START_SEGMENTS + 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::config::{Tuning, test_array};
    use zone::device::Areas;

    fn array(zones: u32, active_zones_max: u32, percent: u64) -> ArrayConfig {
        test_array::array(400, zones, active_zones_max, percent)
    }

    fn open(config: &ArrayConfig) -> (u32, u32) {
        config.validate().expect("an array");
        (config.open.small, config.open.large)
    }

    #[test]
    fn segments_are_as_many_as_zones_and_space_allow() {
        let buffered = DriveTraits::default();
        assert_eq!(open(&array(1000, 14, 80).adaptive(buffered)), (4, 6));
        assert_eq!(open(&array(1000, 12, 80).adaptive(buffered)), (4, 5));
        assert_eq!(open(&array(1000, 11, 80).adaptive(buffered)), (4, 4));
        assert_eq!(open(&array(1000, 8, 80).adaptive(buffered)), (3, 2));
        assert_eq!(open(&array(1000, 5, 80).adaptive(buffered)), (1, 1));
        assert_eq!(open(&array(40, 14, 80).adaptive(buffered)), (2, 2));
        let no_room_for_two = array(40, 14, 100).adaptive(buffered);
        assert_eq!((open(&no_room_for_two), no_room_for_two.group_stripes), ((1, 0), 1024));
    }

    #[test]
    fn a_write_area_of_one_zone_has_active_zones() {
        let areas = Areas { zones_max: 14, window_blocks: 64, granule_blocks: 4, explicit_commit: true };
        let adapted = |active_zones_max| {
            let mut config = array(1000, active_zones_max, 80);
            config.geometry.areas = Some(areas);
            config.adaptive(DriveTraits::default())
        };
        let afforded = |config: &ArrayConfig| {
            config.write_area_zones(&Tuning { write_area_zones: 1, ..Tuning::default() })
        };
        // Drives with windows, active zones, segments of clients, zones of an area.
        for (active_zones_max, segments, zones) in
            [(14, (4, 4), 1), (15, (4, 5), 1), (16, (4, 6), 1), (13, (4, 4), 0), (8, (3, 2), 0)]
        {
            let config = adapted(active_zones_max);
            assert_eq!(
                (open(&config), afforded(&config)),
                (segments, zones),
                "{active_zones_max} active zones"
            );
        }
    }

    #[test]
    fn both_kinds_of_chunks_share_places() {
        let adapted = array(1000, 14, 80).adaptive(DriveTraits::default());
        let places = |policy| Stream::ALL.map(|stream| adapted.places(stream, policy));
        assert_eq!(places(Policy::Adaptive), [9, 9, 1, 1, 1], "all but one of ten");
        assert_eq!(places(Policy::Fixed), [4, 6, 1, 1, 1]);
        let one = array(1000, 14, 80).adaptive(DriveTraits { has_write_buffer: false });
        assert_eq!(Stream::CLIENTS.map(|stream| one.places(stream, Policy::Adaptive)), [1, 0]);
        let one_each = array(1000, 5, 80).adaptive(DriveTraits::default());
        assert_eq!(Stream::CLIENTS.map(|stream| one_each.places(stream, Policy::Adaptive)), [1, 1]);
    }

    #[test]
    fn drives_without_a_buffer_are_written_with_appends() {
        let adapted = array(1000, 14, 80).adaptive(DriveTraits { has_write_buffer: false });
        assert_eq!(open(&adapted), (1, 0));
        let all = Stream::CLIENTS.map(|stream| adapted.modes(stream)).concat();
        assert_eq!(all, [WriteMode::Append]);
        let buffered = array(1000, 14, 80).adaptive(DriveTraits::default());
        let all = Stream::CLIENTS.map(|stream| buffered.modes(stream)).concat();
        assert_eq!(all, [WriteMode::Write; 10]);
    }

    #[test]
    fn demand_is_the_most_of_late() {
        let tuned = Tuned::default();
        let mut demand = Demand::new(&tuned);
        for _ in 0..3 {
            demand.begin(5);
        }
        (0..3).for_each(|_| demand.end(5));
        for _ in 0..tuned.demand_writes - 3 {
            demand.begin(1);
            demand.end(1);
            assert_eq!(demand.blocks(), 15);
        }
        for _ in 0..=2 * tuned.demand_writes {
            demand.begin(1);
            demand.end(1);
        }
        assert_eq!(demand.blocks(), 1);
    }
}
