//! The policy of BIZA (Yi et al., SOSP '24), on the mechanisms of this engine (ADR 68): where blocks go by what they were seen to do,
//! what is collected and when, and which open segment a stripe goes to beside the collector. Blocks are written once in full stripes, or in
//! copies to the write area; so nothing of this is needed to be safe.
//!
//! ```text
//!   near (distance within twice the windows) ─> slots of the write area, at any depth        `area/writes.rs`
//!   near without a slot, or written often ────> lifetime: segments of small chunks
//!   else ─────────────────────────────────────> trivial: segments of large chunks
//!   free segments of those that the volume does not need:  30 % ─ collect ─ faster ─ 10 % ─ as fast as can be
//! ```
//! Published, and the same here: levels of 4 GiB, 1 GiB and 64 MiB of addresses (no more than the volume has), more than three rewrites for
//! the second, greedy victims, the bounds of collection, channels in turn and three spikes of five times the mean (`channels/spikes.rs`).
//! Zones are 2 for the area, 4, 6 and 2 of fourteen; other drives have their share ([`ArrayConfig::biza`]). Percentages are those of
//! segments that the volume does not need: else a fuller array would be collected for ever.

use crate::log::LOADS_MAX;
use crate::log::config::{AppendUse, ArrayConfig, OpenSegments};
use crate::log::core::Core;
use crate::log::gc::{GC_START_SEGMENTS, Gc};
use crate::log::lifetime::{Ghost, LEVELS};
use crate::log::policy::Space;
use crate::log::policy::adaptive::{Demand, Policy};
use crate::log::policy::tuned::Shape;
use crate::log::segment::SegmentSlot;
use base::units::Lba;
use std::ops::Range;
use zone::format::header::Stream;

/// Blocks of 4 GiB, 1 GiB and 64 MiB: recent, often and near addresses.
const LEVEL_BLOCKS: [usize; LEVELS] = [1 << 20, 1 << 18, 1 << 14];
/// A distance is near within twice as many blocks as are near.
const NEAR_TIMES: u64 = 2;
/// Percent of the segments that the volume does not need: free ones below which segments are collected, and below which that is done as
/// fast as it can be.
const COLLECT_BELOW: u32 = 30;
const FULL_SPEED_BELOW: u32 = 10;
/// Segments for blocks with lifetimes among all of clients: 4 of 4 + 6.
const LIFETIME_PART: [u32; 2] = [4, 10];
/// Segments of clients at most.
const SEGMENTS_MAX: u32 = 10;

impl ArrayConfig {
    /// The same array with segments of clients as the policy has them: for blocks with lifetimes and for others, in chunks of one size, beside
    /// so many zones of the write area.
    #[must_use]
    pub fn biza(&self, write_area_zones: u32) -> ArrayConfig {
        let with = |segments: u32| {
            let [part, all] = LIFETIME_PART;
            let small = (segments * part / all).max(1);
            let open = OpenSegments {
                small,
                large: segments - small,
                large_chunk_blocks: self.chunk_blocks,
                append: AppendUse::OneSmall,
            };
            ArrayConfig { group_stripes: 1, open, ..self.clone() }
        };
        let works = |config: &ArrayConfig| {
            config.validate().is_ok()
                && config.has_spare_for_open(&Shape::default())
                && config.affords_area(write_area_zones)
        };
        let mut several = (2..=SEGMENTS_MAX).rev().map(with);
        several.find(works).unwrap_or_else(|| self.clone())
    }
}

impl Demand {
    /// Blocks of a volume of so many are told apart by what they were seen to do.
    pub(in crate::log) fn watch_lifetimes(&mut self, volume_blocks: u64) {
        let volume = usize::try_from(volume_blocks).unwrap_or(usize::MAX);
        let levels = LEVEL_BLOCKS.map(|blocks| blocks.min(volume));
        self.lifetimes = Some(Box::new(Ghost::of_levels(levels, NEAR_TIMES * levels[LEVELS - 1] as u64)));
    }

    /// A write begins. True when most of its blocks are near, or written often.
    pub(in crate::log) fn note_lifetimes(&mut self, blocks: Range<u64>) -> bool {
        let Some(ghost) = &mut self.lifetimes else { return false };
        let count = blocks.end - blocks.start;
        let hot = blocks.map(|block| u64::from(ghost.note_hot(Lba(block)))).sum::<u64>();
        2 * hot > count
    }
}

impl Core {
    pub(in crate::log) fn is_biza(&self) -> bool {
        self.tuning.policy == Policy::Biza
    }

    /// Free segments below which segments are collected, and below which that is done as fast as it can be: never less than the collector's
    /// reserve wants.
    fn biza_bounds(&self) -> [u32; 2] {
        let spare = self.config.segments_without_data();
        [COLLECT_BELOW, FULL_SPEED_BELOW].map(|percent| (spare * percent / 100).max(GC_START_SEGMENTS))
    }
}

impl Space<'_> {
    /// Stream of a write, most of whose blocks live short or not.
    pub(in crate::log) fn biza_stream(&self, is_hot: bool) -> Stream {
        if is_hot { Stream::Small } else { Stream::Large }
    }

    /// True when a victim should be found.
    pub(in crate::log) fn biza_must_collect(&self) -> bool {
        let [collect_below, _] = self.core.biza_bounds();
        self.core.segments.free_segments() < collect_below
    }

    /// Loads of a victim that may be under way at once: a tenth of all where collection begins, and all where it is at full speed.
    pub(in crate::log) fn biza_loads(&self) -> u32 {
        let [begins, full] = self.core.biza_bounds();
        let free = self.core.segments.free_segments().clamp(full, begins);
        let least = LOADS_MAX / 10;
        let more = (LOADS_MAX - least) * (begins - free) / (begins - full).max(1);
        let all = if begins == full { LOADS_MAX } else { least + more };
        all.clamp(self.core.tuning.tuned.loads_min, LOADS_MAX)
    }

    /// True when stripes of clients had better go to another segment: the collector writes to its channels.
    pub(in crate::log) fn biza_avoids(&self, segment: SegmentSlot) -> bool {
        let collects = self.core.is_biza() && self.collector.stage != Gc::Idle;
        collects && self.core.segments.channels().collector_shares(&self.core.segments.get(segment).zones)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::config::test_array;

    #[test]
    fn segments_of_clients_are_shared_as_published() {
        let open = |active_zones_max| {
            let config = test_array::array(400, 1000, active_zones_max, 80).biza(0);
            (config.open.small, config.open.large)
        };
        assert_eq!((open(14), open(13)), ((4, 6), (4, 6)), "ten, and three that others need");
        assert_eq!((open(12), open(8), open(5)), ((3, 6), (2, 3), (1, 1)));
        let none = test_array::array(400, 1000, 4, 80);
        assert_eq!(none.biza(0), none, "one stream where there are no zones for two");
    }

    #[test]
    fn blocks_written_again_have_lifetimes() {
        let mut demand = Demand::new(&crate::log::policy::tuned::Tuned::default());
        assert!(!demand.note_lifetimes(5..6), "nobody watches");
        demand.watch_lifetimes(1 << 30);
        assert!(!demand.note_lifetimes(5..6), "seen once");
        assert!(demand.note_lifetimes(5..6), "at once again: near");
        assert!(!demand.note_lifetimes(5..8), "one of three");
        (0..40_000).for_each(|block| _ = demand.note_lifetimes(1000 + block..1001 + block));
        assert!(!demand.note_lifetimes(6..7), "again after longer than is near");
        for _ in 0..3 {
            (0..40_000).for_each(|block| _ = demand.note_lifetimes(1000 + block..1001 + block));
            demand.note_lifetimes(6..7);
        }
        assert!(demand.note_lifetimes(6..7), "often");
    }
}
