//! Survivors: what the collector moves, the hot apart from the cold.
//!
//! What outlives a victim is of two kinds: blocks that were written late and happen to live still, and blocks that nobody
//! writes. Together in a segment, the cold ones are moved again whenever the hot ones have died. So where writes are
//! skewed the collector has two segments open, and a block goes by its own age, which its sequence tells:
//!
//! ```text
//!                  written since the block was:   less than half a volume ─> Stream::Gc
//!   moved block ─┤
//!                                                 more                    ─> Stream::Cold
//! ```
//! On the media both are segments of the collector, and after a crash whichever has room is filled first.
//!
//! **The reserve's proof** with two open: a stripe of the collector that finds no room in the one, nor a zone to open another,
//! goes to the other ([`Shard::pick_of_collector`]). So room in both counts as one, and as the last cold blocks of a victim
//! join its last hot ones ([`Shard::join_remainders`]), moving it takes one padded stripe, as with one. And one
//! more segment is not sealed: [`ArrayConfig::affords`] has the proof hold without it.

use crate::engine::Effects;
use crate::log::append::Appender;
use crate::log::config::ArrayConfig;
use crate::log::core::Core;
use crate::log::stripe::Stripes;
use zone::format::header::Stream;

/// Separation of the blocks that the collector moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GcStreams {
    /// All goes to one segment, as in the papers.
    One,
    /// Hot and cold blocks go to segments of their own, wherever the reserve's proof holds with two.
    Two,
    /// As with `Two`, but only where it gains: under the adaptive policy, with room to spare and skewed writes.
    #[default]
    Auto,
}

/// Spare segments from which on a second one of the collector's costs less than it gains (docs/adr/0015).
const SPARE_MIN: u32 = 16;
/// Fewest segments for each spare one: where more are spare, little is moved, and nothing gained.
const SEGMENTS_PER_SPARE_MIN: u32 = 5;

impl ArrayConfig {
    /// True when a second segment of the collector costs less than it gains, if writes are skewed.
    fn has_use_for_cold_segment(&self) -> bool {
        let spare = self.segments_spare();
        spare >= SPARE_MIN && spare * SEGMENTS_PER_SPARE_MIN <= self.segments()
    }
}

impl Appender<'_> {
    /// Puts the last cold blocks of a victim to its last hot ones. False when there is no stripe for them now.
    pub(super) fn join_remainders(&mut self, fx: &mut Effects) -> bool {
        let Some(slot) = self.stripes.streams[Stream::Cold.index()].filling else { return true };
        // One that is filling may be full before all are placed: then another is begun.
        if self.stripes.slots.in_use(Stream::Gc) == self.stripes.slots.count(Stream::Gc) {
            return false;
        }
        self.stripes.stream(Stream::Cold).filling = None;
        self.regather(slot, Stream::Gc, fx);
        true
    }
}

impl Stripes {
    /// A victim is about to be moved: decides whether its hot blocks are kept from its cold ones.
    pub(super) fn begin_separating(&mut self, core: &mut Core) {
        self.separates_survivors = self.affords_cold_segment()
            && match core.tuning.gc_streams {
                GcStreams::One => false,
                GcStreams::Two => true,
                GcStreams::Auto => self.separating_pays(core),
            };
        if !self.separates_survivors {
            self.give_up_cold_segment(core);
        }
    }

    fn affords_cold_segment(&self) -> bool {
        self.slots.count(Stream::Cold) > 0
    }

    fn separating_pays(&self, core: &Core) -> bool {
        let segments = core.segments.iter().map(|(_, segment)| segment);
        core.is_biza()
            || core.is_adaptive() && core.config.has_use_for_cold_segment() && self.skew.is_strong(segments)
    }

    /// The collector goes on with one segment: the cold one is filled up before another is opened.
    fn give_up_cold_segment(&mut self, core: &mut Core) {
        for place in 0..self.streams[Stream::Cold.index()].open.len() {
            if let Some(slot) = self.stream(Stream::Cold).open[place].segment.take() {
                assert!(
                    core.segments.get(slot).stream == Stream::Cold,
                    "segment {} is open for cold blocks and of stream {:?}",
                    core.segments.get(slot).id,
                    core.segments.get(slot).stream
                );
                core.segments.get_mut(slot).stream = Stream::Gc;
                self.stream(Stream::Gc).unfinished.push(slot);
            }
        }
    }

    /// True when the collector's next stripe needs a new segment.
    pub(super) fn collector_has_no_room(&self, core: &Core) -> bool {
        self.has_no_room(core, Stream::Gc) && self.has_no_room(core, Stream::Cold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::config::test_array;

    fn array(zones: u32, active_zones_max: u32, percent: u64) -> ArrayConfig {
        test_array::array(100, zones, active_zones_max, percent)
    }

    #[test]
    fn a_second_segment_takes_space_and_an_active_zone() {
        assert!(array(100, 5, 100).affords(1, 1));
        assert!(!array(100, 4, 100).affords(1, 1), "no active zone");
        // Of six segments that hold data, the seventh that is open would be missed.
        assert!(!array(13, 5, 100).affords(1, 1), "no space");
        assert!(array(13, 5, 80).affords(1, 1));
    }

    #[test]
    fn spare_segments_are_those_that_never_hold_data() {
        // 98 segments, 5 of them overhead, ten of eleven of the others full.
        assert_eq!(array(100, 5, 100).segments_spare(), 8);
        assert_eq!(array(100, 5, 50).segments_spare(), 50);
        let has_use = |zones, percent| array(zones, 5, percent).has_use_for_cold_segment();
        assert!(has_use(300, 100));
        assert!(!has_use(100, 100), "too few are spare");
        assert!(!has_use(300, 80), "too many are");
    }
}
