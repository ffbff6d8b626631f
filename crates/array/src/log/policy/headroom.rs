//! The headroom: space that is left beyond the collector's reserve. It couples collector and clients.
//!
//! ```text
//!   headroom = free segments + room in open ones - reserve + what was moved of the victim
//!
//!              0 ................ floor ................ goal ................
//!   collector      32 loads at once       32 ...... 4         rests, while clients write
//!   clients        as the victim yields               as they like
//! ```
//! What was moved of a victim counts, for its place will be free. So a collector that keeps the headroom where it is
//! reads as clients write: u / (1 - u) moved blocks for each of theirs, where u is the live share of the victim. One
//! that is early finds fuller victims than it need; one that is late stops everybody until a whole victim is moved.
//!
//! Below the floor clients go on with half of what the victim frees: so the headroom grows, and nobody starves where it
//! cannot. Without a free segment beyond the reserve the collector waits for nobody, nor while clients write nothing.
//!
//! This is so under [`crate::log::policy::adaptive::Policy::Adaptive`]. Otherwise the collector goes on regardless of clients, and
//! they are stopped where space ends (`Shard::stripes_allowed`).

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
    /// Blocks of the victim that are not live.
    gain_blocks: u64,
}

impl Space<'_> {
    /// A victim is begun.
    pub(in crate::log) fn begin_victim(&self, victim: SegmentSlot) -> Begun {
        let segment = self.core.segments.get(victim);
        let all = segment.layout.segment_data_blocks();
        Begun {
            headroom_blocks: self.headroom_blocks(),
            gain_blocks: u64::from(all.saturating_sub(segment.live_blocks)),
        }
    }

    pub(in crate::log) fn goal_blocks(&self) -> u64 {
        self.eighths(self.floor_eighths() + self.core.tuning.tuned.goal_beyond_floor_eighths)
    }

    fn floor_blocks(&self) -> u64 {
        self.eighths(self.floor_eighths())
    }

    fn floor_eighths(&self) -> u32 {
        let tuned = &self.core.tuning.tuned;
        tuned.floor_eighths + tuned.cold_eighths * u32::from(self.stripes.separates_survivors)
    }

    /// Blocks of so many eighths of a segment.
    fn eighths(&self, count: u32) -> u64 {
        self.stripes.segment_blocks() * u64::from(count) / 8
    }

    /// True when the headroom is below the goal.
    pub(in crate::log) fn lacks_headroom(&self) -> bool {
        self.headroom_blocks() < self.goal_blocks()
    }

    /// True when a victim should be found because space is short.
    pub(in crate::log) fn must_collect(&self) -> bool {
        if self.core.is_biza() {
            return self.biza_must_collect();
        }
        let free = self.core.segments.free_segments();
        let is_early = !self.core.is_adaptive() || self.demand.is_idle();
        free < GC_START_SEGMENTS && (is_early || free <= GC_RESERVE_SEGMENTS || self.lacks_headroom())
    }

    /// Loads of the victim that may be under way at once.
    pub(in crate::log) fn loads_of_victim_max(&self, victim: SegmentSlot) -> u32 {
        let segment = self.core.segments.get(victim);
        let free = self.core.segments.free_segments();
        let is_urgent = free <= GC_RESERVE_SEGMENTS;
        let is_idle = self.demand.is_idle();
        let loads_min = self.core.tuning.tuned.loads_min;
        let is_for_space = segment.state == SegmentState::Sealed && !segment.evacuate;
        if self.core.is_biza() && is_for_space {
            return self.biza_loads();
        }
        let is_paced = self.core.is_adaptive() && is_for_space && !is_idle;
        if !is_paced || is_urgent {
            let short = GC_START_SEGMENTS.saturating_sub(free);
            let most = LOADS_MAX * short / (GC_START_SEGMENTS - GC_RESERVE_SEGMENTS);
            return most.clamp(loads_min, LOADS_MAX);
        }
        let (floor, goal) = (self.floor_blocks(), self.goal_blocks());
        assert!(goal > floor, "clients wait below {floor} blocks, and the collector rests above {goal}");
        let lacking = goal.saturating_sub(self.headroom_blocks()).min(goal - floor);
        if lacking == 0 {
            return 0;
        }
        let more = u64::from(LOADS_MAX - loads_min) * lacking / (goal - floor);
        loads_min + u32::try_from(more).expect("at most the difference")
    }

    /// True when clients have written what the victim has freed so far, and space is short.
    pub(in crate::log) fn clients_wait_for_victim(&self) -> bool {
        if !self.core.is_adaptive() || self.collector.stage == Gc::Idle {
            return false;
        }
        let yielded = self.collector.yielded_blocks(self.core);
        let yielded = yielded * u64::from(self.core.tuning.tuned.yield_eighths) / 8;
        let least = self.floor_blocks().min(self.collector.pace.victim.headroom_blocks + yielded);
        self.headroom_blocks() < least
    }

    /// Stripe slots of a stream that clients may use now: all while space is ample, ever fewer as free space
    /// nears the collector's reserve, so that latency grows smoothly instead of stopping dead.
    pub(in crate::log) fn stripes_allowed(&self, stream: Stream) -> usize {
        let all = self.stripes.slots.count(stream);
        let free = self.core.segments.free_segments().saturating_sub(super::GC_RESERVE_SEGMENTS);
        if free >= 2 {
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

    /// Blocks that the victim has yielded so far.
    fn yielded_blocks(&self, core: &Core) -> u64 {
        let gain_blocks = self.victim_gain_blocks();
        match self.stage {
            Gc::Moving { victim, stripe_next, loads } => {
                assert!(loads <= stripe_next, "{loads} stripes are being read of {stripe_next}");
                let stripes = u64::from(core.segments.get(victim).layout.stripes);
                gain_blocks * u64::from(stripe_next - loads) / stripes
            }
            Gc::Idle | Gc::Settling { .. } | Gc::Flushing { .. } | Gc::Resetting => gain_blocks,
        }
    }
}

impl Stripes {
    /// Blocks that the open segments of a stream have room for.
    pub(in crate::log) fn room_blocks(&self, core: &Core, stream: Stream) -> u64 {
        self.stripes_with_room(core, stream) * u64::from(self.streams[stream.index()].stripe_data_blocks)
    }

    /// Blocks of data of a segment.
    pub(in crate::log) fn segment_blocks(&self) -> u64 {
        let places = &self.streams[Stream::Gc.index()].open;
        u64::from(places[0].layout.segment_data_blocks())
    }
}
