//! Bursts: clients of small writes wait for the collector seldom and together, where it writes most.
//!
//! How long writes wait for space on average is settled by how fast the collector frees it. Paced by the headroom alone
//! (`headroom.rs`) each waits a little. Here they write so much at once that those under way when it is over, which wait for
//! all of the next one, are fewer than one in twenty:
//!
//! ```text
//!   headroom      low ................. low + burst ........ goal
//!   clients       as they like  <───────── until it is low, or they have no room left
//!                 wait  ─────────────────> until there is room for the next burst
//!   collector     16 loads at once while they write, 32 while they wait    rests, while clients write
//! ```
//! Not for requests so large that a burst is more than a segment or 8 MiB, nor where a victim yields a third of a segment or more: few
//! wait there. And should waiting not help, because others take what is gained, clients go on as the headroom says.

use crate::log::GC_RESERVE_SEGMENTS;
use crate::log::core::Core;
use crate::log::gc::{Collector, Gc};
use crate::log::policy::Space;
use crate::log::stripe::Stripes;
use zone::format::header::Stream;

/// Length of a burst, in times of what clients have under way: one in 22 writes waits, and some for other reasons.
const BURST_TIMES: u64 = 22;
/// A longer one would stop clients for longer than some 10 ms: 8 MiB.
const BURST_BLOCKS_MAX: u64 = 2048;
/// Waiting did not help once so many bursts were gained.
pub const GAINED_BURSTS_MAX: u64 = 3;
/// A victim that yields so great a part of a segment leaves clients most of what is written.
const YIELD_PART_MAX: u64 = 3;
/// Stripes of the victim loaded at once in a burst: more lengthen its writes, fewer leave drives idle (docs/adr/0015).
pub const LOADS_IN_BURST: u32 = 16;

/// Condition under which clients write in bursts, if the engine adapts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bursts {
    /// Bursts where they serve clients.
    #[default]
    Auto,
    /// Wherever space is short, so many times as long as what they have under way: for simulation, whose segments are small.
    Always(u64),
}

/// State of clients whose writes come in bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Burst {
    /// Clients write.
    #[default]
    Writes,
    /// Clients wait for room.
    Waits {
        /// Blocks that had been gained by then, of all victims.
        gained_blocks: u64,
    },
    /// Waiting did not help: no bursts until space is not short any more.
    Failed,
}

impl Space<'_> {
    /// Blocks of a burst; `None` where clients do not write in bursts.
    pub(in crate::log) fn burst_blocks(&self) -> Option<u64> {
        if self.collector.pace.burst == Burst::Failed { None } else { self.burst_blocks_if_any() }
    }

    pub(in crate::log) fn burst_blocks_if_any(&self) -> Option<u64> {
        if !self.core.is_adaptive() {
            return None;
        }
        let (all_blocks, gain_blocks) = (self.stripes.segment_blocks(), self.collector.victim_gain_blocks());
        let (times, is_scarce) = match self.core.tuning.bursts {
            Bursts::Auto => (BURST_TIMES, gain_blocks > 0 && YIELD_PART_MAX * gain_blocks < all_blocks),
            Bursts::Always(times) => (times, true),
        };
        // Asked for each stripe, and nearly always in vain.
        if !is_scarce || !self.core.is_space_short() {
            return None;
        }
        let burst_blocks = times * self.demand.blocks();
        (burst_blocks <= all_blocks.min(BURST_BLOCKS_MAX)).then_some(burst_blocks)
    }

    /// True while clients write a burst; false, too, where they write in none.
    pub(in crate::log) fn is_in_burst(&self) -> bool {
        self.burst_blocks().is_some_and(|burst_blocks| !self.waits_for_burst(burst_blocks))
    }

    /// True when clients that write in bursts wait for the next one.
    pub(in crate::log) fn waits_for_burst(&self, burst_blocks: u64) -> bool {
        self.collector.pace.burst != Burst::Writes || self.burst_is_over(burst_blocks)
    }

    pub(in crate::log) fn burst_is_over(&self, burst_blocks: u64) -> bool {
        self.headroom_blocks() < self.stripes.low_blocks(burst_blocks)
            || self.stripes.usable_blocks(self.core) < self.demand.blocks()
    }

    pub(in crate::log) fn has_room_for_burst(&self, burst_blocks: u64) -> bool {
        let high_blocks = self.stripes.low_blocks(burst_blocks) + burst_blocks;
        self.headroom_blocks() >= high_blocks && self.stripes.usable_blocks(self.core) >= burst_blocks
    }
}

impl Collector {
    /// True while waiting for the collector may help.
    pub(in crate::log) fn is_collecting(&self) -> bool {
        self.stage != Gc::Idle
    }
}

impl Stripes {
    /// Headroom at which a burst is over: half of one below the floor, so that it is the floor on average.
    pub(in crate::log) fn low_blocks(&self, burst_blocks: u64) -> u64 {
        self.floor_blocks().saturating_sub(burst_blocks / 2)
    }

    /// Blocks that clients can write before another segment is erased.
    fn usable_blocks(&self, core: &Core) -> u64 {
        let free = core.segments.free_segments().saturating_sub(GC_RESERVE_SEGMENTS);
        let room = Stream::CLIENTS.map(|stream| self.room_blocks(core, stream));
        u64::from(free) * self.segment_blocks() + room.iter().sum::<u64>()
    }
}
