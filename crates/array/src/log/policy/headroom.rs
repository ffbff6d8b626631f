//! Headroom: blocks that clients can write before they need a segment that the collector has yet to free.
//!
//! ```text
//!   headroom = room in clients' open segments + free segments beyond the reserve
//!
//!   a free segment beyond the reserve   clients write as they like, and the collector rests while they write
//!   none                                the collector works as fast as it can, and clients spend their headroom as it gets on
//!
//!   share of a victim  = headroom when it was begun * what it frees / what has to be freed until clients may open a segment
//!   clients wait while   what they have spent > share * (progress of the victim + 3/8)
//! ```
//! So headroom and work end together: clients slow down by as much as the collector needs, and nobody stands still until a whole
//! victim is moved. Room in the collector's segments is none that clients can have, and is left out on both sides.
//!
//! This is so under [`crate::log::policy::adaptive::Policy::Adaptive`]. Otherwise the collector goes on regardless of clients, and
//! they are stopped where space ends ([`Space::stripes_allowed`]).

use crate::log::core::Core;
use crate::log::gc::{Collector, GC_START_SEGMENTS, Gc};
use crate::log::policy::Space;
use crate::log::segment::{SegmentSlot, SegmentState};
use crate::log::stripe::Stripes;
use crate::log::{GC_RESERVE_SEGMENTS, LOADS_MAX};
use zone::format::header::Stream;

/// State that paces clients and collector, beside the headroom.
#[derive(Debug, Default)]
pub struct Pace {
    /// The victim.
    pub victim: Begun,
}

/// State of a victim when it was begun.
#[derive(Clone, Copy, Debug, Default)]
pub struct Begun {
    /// The headroom.
    headroom_blocks: u64,
    /// Part of it that clients may spend while the victim is collected.
    share_blocks: u64,
    /// Blocks of the victim that are not live.
    gain_blocks: u64,
}

impl Space<'_> {
    /// A victim is begun.
    pub(in crate::log) fn begin_victim(&self, victim: SegmentSlot) -> Begun {
        let segment = self.core.segments.get(victim);
        let all = segment.layout.segment_data_blocks();
        let gain_blocks = u64::from(all.saturating_sub(segment.live_blocks));
        let headroom_blocks = self.headroom_blocks();
        let lacking = (GC_RESERVE_SEGMENTS + 1).saturating_sub(self.core.segments.free_segments());
        let lacking_blocks = u64::from(lacking) * self.stripes.segment_blocks();
        let share_blocks = share_of(headroom_blocks, gain_blocks, lacking_blocks);
        Begun { headroom_blocks, share_blocks, gain_blocks }
    }

    /// Blocks that clients can write before they need a segment that is not free yet.
    pub(in crate::log) fn headroom_blocks(&self) -> u64 {
        let room: u64 =
            Stream::CLIENTS.map(|stream| self.stripes.room_blocks(self.core, stream)).iter().sum();
        let free = self.core.segments.free_segments().saturating_sub(GC_RESERVE_SEGMENTS);
        room + u64::from(free) * self.stripes.segment_blocks()
    }

    /// True when clients may open a segment: one is free beyond the reserve.
    fn may_open_segment(&self) -> bool {
        self.core.segments.free_segments() > GC_RESERVE_SEGMENTS
    }

    /// True when a stream of clients has no room in its open segments, and may open none.
    pub(in crate::log) fn is_without_room(&self, stream: Stream) -> bool {
        !self.may_open_segment() && self.stripes.stripes_with_room(self.core, stream) == 0
    }

    /// True when a victim should be found because space is short.
    pub(in crate::log) fn must_collect(&self) -> bool {
        if self.core.is_biza() {
            return self.biza_must_collect();
        }
        let free = self.core.segments.free_segments();
        let is_early = !self.core.is_adaptive() || self.demand.is_idle();
        free <= GC_RESERVE_SEGMENTS || is_early && free < GC_START_SEGMENTS
    }

    /// Loads of the victim that may be under way at once.
    pub(in crate::log) fn loads_of_victim_max(&self, victim: SegmentSlot) -> u32 {
        let segment = self.core.segments.get(victim);
        let free = self.core.segments.free_segments();
        let is_urgent = free <= GC_RESERVE_SEGMENTS;
        let is_idle = self.demand.is_idle();
        let is_for_space = segment.state == SegmentState::Sealed && !segment.evacuate;
        if self.core.is_biza() && is_for_space {
            return self.biza_loads();
        }
        let is_paced = self.core.is_adaptive() && is_for_space && !is_idle;
        if is_paced && !is_urgent {
            return 0;
        }
        let short = GC_START_SEGMENTS.saturating_sub(free);
        let most = LOADS_MAX * short / (GC_START_SEGMENTS - GC_RESERVE_SEGMENTS);
        most.clamp(self.core.tuning.tuned.loads_min, LOADS_MAX)
    }

    /// True when clients have spent their headroom as far as the victim is collected.
    pub(in crate::log) fn clients_wait_for_victim(&self) -> bool {
        let may_open = self.may_open_segment();
        if !self.core.is_adaptive() || self.collector.stage == Gc::Idle || may_open {
            return false;
        }
        let Begun { headroom_blocks, share_blocks, .. } = self.collector.pace.victim;
        let (done, of) = self.collector.progress(self.core);
        let lead = share_blocks * u64::from(self.core.tuning.tuned.lead_eighths) / 8;
        self.headroom_blocks() + share_blocks * done / of + lead < headroom_blocks
    }

    /// True when a stripe that a client begins now will find room, or none waits for a segment: the next one that is freed goes to
    /// whoever waits, and what comes after that goes where it is.
    pub(in crate::log) fn has_room_for_another(&self, stream: Stream) -> bool {
        !self.core.is_adaptive()
            || self.may_open_segment()
            || self.stripes.has_unspoken_room(self.core, stream)
            || !Stream::CLIENTS.into_iter().any(|stream| self.stripes.waits_for_segment(self.core, stream))
    }

    /// Stripe slots of a stream that clients may use now: all under the adaptive policy, which has its own pace, and while space is
    /// ample; ever fewer as free space nears the collector's reserve, so that latency grows smoothly instead of stopping dead.
    pub(in crate::log) fn stripes_allowed(&self, stream: Stream) -> usize {
        let all = self.stripes.slots.count(stream);
        let free = self.core.segments.free_segments().saturating_sub(GC_RESERVE_SEGMENTS);
        if free >= 2 || self.core.is_adaptive() {
            return all;
        }
        let segment = self.stripes.streams[stream.index()]
            .open
            .iter()
            .map(|place| u64::from(place.layout.stripes))
            .max();
        assert!(stream.is_clients(), "clients do not write to {stream:?}");
        let segment = segment.expect("no request goes to a stream without segments");
        let room = u64::from(free) * segment + self.stripes.stripes_with_room(self.core, stream);
        let allowed = (all as u64 * room).div_ceil(2 * segment);
        usize::try_from(allowed).map_or(all, |allowed| allowed.clamp(1, all))
    }
}

impl Collector {
    /// Blocks that the victim yields.
    pub(in crate::log) fn victim_gain_blocks(&self) -> u64 {
        self.pace.victim.gain_blocks
    }

    /// Part of the victim that is moved: stripes, and of how many.
    fn progress(&self, core: &Core) -> (u64, u64) {
        match self.stage {
            Gc::Moving { victim, stripe_next, loads } => {
                assert!(loads <= stripe_next, "{loads} stripes are being read of {stripe_next}");
                (u64::from(stripe_next - loads), u64::from(core.segments.get(victim).layout.stripes))
            }
            Gc::Idle | Gc::Settling { .. } | Gc::Flushing { .. } | Gc::Resetting => (1, 1),
        }
    }
}

impl Stripes {
    /// Blocks that the open segments of a stream have room for.
    pub(in crate::log) fn room_blocks(&self, core: &Core, stream: Stream) -> u64 {
        self.stripes_with_room(core, stream) * u64::from(self.streams[stream.index()].stripe_data_blocks)
    }

    /// True when the open segments of a stream have room for more stripes than wait for it.
    pub(in crate::log) fn has_unspoken_room(&self, core: &Core, stream: Stream) -> bool {
        self.stripes_with_room(core, stream) > self.streams[stream.index()].sealed.len() as u64
    }

    /// True when stripes of a stream wait for a segment to be opened.
    fn waits_for_segment(&self, core: &Core, stream: Stream) -> bool {
        self.stripes_with_room(core, stream) < self.streams[stream.index()].sealed.len() as u64
    }

    /// Blocks of data of a segment.
    pub(in crate::log) fn segment_blocks(&self) -> u64 {
        let places = &self.streams[Stream::Gc.index()].open;
        u64::from(places[0].layout.segment_data_blocks())
    }
}

/// Part of the headroom that clients may spend during a victim that gains so many blocks, of those that have to be freed.
fn share_of(headroom_blocks: u64, gain_blocks: u64, lacking_blocks: u64) -> u64 {
    if gain_blocks < lacking_blocks {
        headroom_blocks * gain_blocks / lacking_blocks
    } else {
        headroom_blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headroom_is_spent_by_the_time_that_a_segment_is_freed() {
        // Four victims that are three quarters live free one segment of 400 blocks.
        let mut headroom = 200;
        let spent = [400, 300, 200, 100].map(|lacking| {
            let share = share_of(headroom, 100, lacking);
            headroom -= share;
            share
        });
        assert_eq!((spent, headroom), ([50; 4], 0));
        assert_eq!(share_of(200, 100, 0), 200, "nothing has to be freed");
        assert_eq!(share_of(200, 0, 400), 0, "a victim that frees nothing");
    }
}
