//! Skew: whether what the collector has moved lives longer than what clients wrote.
//!
//! Where all blocks are overwritten alike, a moved one dies as soon as any other, and the emptiest segment is the best
//! victim: its age says nothing. Where some are hot, those that outlived a victim are the cold ones, and the age of a
//! segment says which it holds. So the rates are compared at which live blocks are overwritten:
//!
//! ```text
//!   overwritten of late, of the collector's segments     of clients' segments
//!   ------------------------------------------------ <  3/4 * -----------------     : writes are skewed
//!        live in the collector's segments                 live in clients' segments
//! ```

use crate::log::gc::Gc;
use crate::log::gc::Move;
use crate::log::policy::Space;
use crate::log::policy::tuned::Tuned;
use crate::log::segment::Segment;
use zone::format::header::Stream;

/// Overwritten blocks of late.
#[derive(Clone, Copy, Debug)]
pub struct Skew {
    /// In segments of clients, and of the collector.
    overwritten: [u64; 2],
    /// Count of overwritten blocks at which half are forgotten.
    overwritten_max: u64,
    /// [`Tuned::live_per_evidence`].
    live_per_evidence: u64,
    /// [`Tuned::skew_eighths`].
    skew_eighths: u32,
    /// [`Tuned::strong_times`].
    strong_times: u32,
}

impl Skew {
    /// Nothing is known of a volume of so many blocks.
    #[must_use]
    pub fn new(volume_blocks: u64, tuned: &Tuned) -> Skew {
        Skew {
            overwritten: [0; 2],
            overwritten_max: (volume_blocks / 2).max(1),
            live_per_evidence: tuned.live_per_evidence.into(),
            skew_eighths: tuned.skew_eighths,
            strong_times: tuned.strong_times,
        }
    }

    /// A client has overwritten a block in a segment of a stream.
    pub fn overwrite(&mut self, stream: Stream) {
        self.overwritten[usize::from(!stream.is_clients())] += 1;
        if self.overwritten.iter().sum::<u64>() >= self.overwritten_max {
            self.overwritten = self.overwritten.map(|blocks| blocks / 2);
        }
    }

    /// True when moved blocks live longer, or as long as that is not known.
    pub fn is_skewed<'a>(&self, segments: impl Iterator<Item = &'a Segment>) -> bool {
        self.is_skewed_by(live_of(segments))
    }

    /// True when moved blocks live ten times as long at least.
    pub fn is_strong<'a>(&self, segments: impl Iterator<Item = &'a Segment>) -> bool {
        self.is_strong_by(live_of(segments))
    }

    fn is_skewed_by(&self, live: [u64; 2]) -> bool {
        self.rates(live).is_none_or(|[clients, moved]| 8 * moved < u128::from(self.skew_eighths) * clients)
    }

    fn is_strong_by(&self, live: [u64; 2]) -> bool {
        // Of few, chance may say anything.
        let are_many = 4 * live[1] >= live.iter().sum();
        are_many
            && self
                .rates(live)
                .is_some_and(|[clients, moved]| u128::from(self.strong_times) * moved < clients)
    }

    /// Rates at which live blocks of clients' segments and of the collector's are overwritten, times something.
    fn rates(&self, live: [u64; 2]) -> Option<[u128; 2]> {
        let is_known = self.live_per_evidence * self.overwritten.iter().sum::<u64>() >= live.iter().sum();
        let [clients, moved] = self.overwritten.map(u128::from);
        let [live_clients, live_moved] = live.map(u128::from);
        is_known.then_some([clients * live_moved, moved * live_clients])
    }
}

/// Blocks that live in segments of clients, and of the collector.
fn live_of<'a>(segments: impl Iterator<Item = &'a Segment>) -> [u64; 2] {
    let mut live = [0; 2];
    for segment in segments.filter(|segment| segment.stream != Stream::Mapping) {
        live[usize::from(!segment.stream.is_clients())] += u64::from(segment.live_blocks);
    }
    live
}

impl Space<'_> {
    /// Returns the stream for a block of the victim. What is moved for another reason is not worth a stripe of its own.
    pub(in crate::log) fn stream_of_move(&self, waiting: &Move) -> Stream {
        let is_of_victim = matches!(self.collector.stage, Gc::Moving { .. } | Gc::Settling { .. });
        let age = self.core.next_sequence.saturating_sub(waiting.protected.sequence);
        let is_cold = age > self.core.config.volume_blocks / 2;
        if self.stripes.separates_survivors && is_of_victim && is_cold { Stream::Cold } else { Stream::Gc }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_blocks_that_live_longer_are_noticed() {
        let mut skew = Skew::new(10_000, &Tuned::default());
        assert!(skew.is_skewed_by([100, 300]) && !skew.is_strong_by([100, 300]), "nothing is known");
        for _ in 0..100 {
            skew.overwrite(Stream::Small);
            (0..3).for_each(|_| skew.overwrite(Stream::Gc));
        }
        assert!(!skew.is_skewed_by([100, 300]), "as many of a hundred die");
        assert!(skew.is_skewed_by([100, 500]), "three of five");
        assert!(!skew.is_strong_by([100, 2900]), "more than a tenth");
        assert!(skew.is_strong_by([100, 3100]), "less than a tenth");
        assert!(skew.is_skewed_by([1_000_000, 3_000_000]), "too few of so many");
        assert!(!skew.is_strong_by([1_000_000, 30_000_000]), "too few of so many");
    }

    #[test]
    fn few_moved_blocks_say_little() {
        let mut skew = Skew::new(10_000, &Tuned::default());
        (0..100).for_each(|_| skew.overwrite(Stream::Small));
        assert!(skew.is_skewed_by([1000, 10]) && !skew.is_strong_by([1000, 10]));
        assert!(skew.is_strong_by([1000, 500]));
    }

    #[test]
    fn what_was_long_ago_counts_no_more() {
        let mut skew = Skew::new(1_000, &Tuned::default());
        (0..5_000).for_each(|_| skew.overwrite(Stream::Large));
        assert!(skew.is_skewed_by([100, 100]));
        (0..5_000).for_each(|_| skew.overwrite(Stream::Cold));
        assert!(!skew.is_skewed_by([100, 100]));
    }
}
