//! Victims: which sealed segment is collected next.
//!
//! *Greedy* takes the one with the least live data. With skewed writes that waits for cold segments to decay, which
//! takes long, while hot ones would decay by themselves if they were left alone a little longer. *Cost-benefit*
//! (Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured File System", section 3.6) weighs
//! what is freed by how long it is likely to stay free:
//!
//! ```text
//!   benefit   free space * age     (1 - u) * age
//!   ------- = ---------------- =  --------------       u: share of live data; reading costs 1, moving u
//!    cost          cost               1 + u
//! ```
//! The age is that of the segment, in blocks written since it was opened. That of its data, which the paper takes, makes
//! whatever was moved once look cold: with uniform writes that costs a tenth of the throughput. By the segment's, uniform
//! writes are collected nearly as by the greedy choice, for the oldest segment is the emptiest. Nearly: so the choice is
//! greedy where moved blocks die as soon as others (`skew.rs`).
//!
//! A victim always frees more than moving it takes, whoever chooses, so each one brings free space nearer: what
//! [`crate::log::config::ArrayConfig::validate`] proves is that there is one. And it frees at least half of what the
//! greedy choice would, so that nobody waits long for little. Where the greedy choice would free most of a segment, two that
//! free much less do not follow one another: clients, which are paced by what a victim frees, would be slow for both.

use crate::log::config::GC_RESERVE_SEGMENTS;
use crate::log::flush::RecoveryFlush;
use crate::log::policy::Space;
use crate::log::segment::SegmentState;
use crate::log::segment::{Segment, SegmentSlot};
use std::cmp::{Ordering, Reverse};
use zone::format::header::Stream;

/// Policy by which a victim is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GcPolicy {
    /// The least live data.
    Greedy,
    /// The most free space for the longest time.
    #[default]
    CostBenefit,
}

/// Gain and cost of collecting a segment, as a fraction.
#[derive(Clone, Copy, Debug)]
struct Worth {
    benefit: u128,
    cost: u128,
}

impl Worth {
    fn of(segment: &Segment, next_sequence: u64) -> Worth {
        let age = next_sequence.saturating_sub(segment.created_at);
        Worth::new(segment.live_blocks, segment.layout.segment_data_blocks(), age)
    }

    fn new(live: u32, all: u32, age: u64) -> Worth {
        // Data of earlier mounts is cold; how long ago they were does not matter, and their sequences are far away.
        let age = u128::from(age.min(AGE_MAX));
        Worth {
            benefit: u128::from(all.saturating_sub(live)) * age,
            cost: u128::from(all) + u128::from(live),
        }
    }

    fn compare(&self, other: &Worth) -> Ordering {
        (self.benefit * other.cost).cmp(&(other.benefit * self.cost))
    }
}

/// Ages beyond this are equal: those of other mounts are.
const AGE_MAX: u64 = 1 << 40;

impl Space<'_> {
    /// The sealed segment to collect because space is short; `None` when no one frees more than moving it takes.
    pub(in crate::log) fn pick_by_policy<'a, Sealed>(
        &self,
        sealed: impl Fn() -> Sealed,
    ) -> Option<SegmentSlot>
    where
        Sealed: Iterator<Item = (SegmentSlot, &'a Segment)>,
    {
        // Moving a segment takes up to one padded stripe more than it holds.
        let gain = |segment: &Segment| {
            let layout = &segment.layout;
            layout.segment_data_blocks().saturating_sub(segment.live_blocks + layout.stripe_data_blocks())
        };
        let greedy = |(_, segment): &(SegmentSlot, &Segment)| (segment.live_blocks, Reverse(segment.id));
        let (slot, emptiest) = sealed().min_by_key(greedy)?;
        let most = gain(emptiest);
        let is_greedy =
            || !self.stripes.skew.is_skewed(self.core.segments.iter().map(|(_, segment)| segment));
        let goes_by_live_data = self.core.tuning.gc == GcPolicy::Greedy || self.core.is_biza();
        if most == 0 || goes_by_live_data || is_greedy() {
            return (most > 0).then_some(slot);
        }
        assert!(emptiest.state == SegmentState::Sealed, "segment {} is {:?}", emptiest.id, emptiest.state);
        let all = emptiest.layout.segment_data_blocks();
        let least = gain_least(most, self.collector.victim_gain_blocks(), all);
        let worth = sealed().filter(|(_, segment)| gain(segment) >= least);
        let victim = worth.max_by(|(_, a), (_, b)| {
            Worth::of(a, self.core.next_sequence).compare(&Worth::of(b, self.core.next_sequence))
        });
        victim.map(|(slot, _)| slot)
    }

    /// The next segment to collect, if any should be: one that a crash left incomplete, else the
    /// sealed one that the policy prefers once space is short.
    pub(in crate::log) fn pick_victim(&self) -> Option<SegmentSlot> {
        let must_collect = self.must_collect();
        if !must_collect && !self.core.segments.has_evacuees() && self.core.membership.rebuilding().is_none()
        {
            return None;
        }
        if self.core.membership.is_broken()
            || self.core.index.is_incomplete()
            || self.must_keep_older_copies()
        {
            return None;
        }
        let of_volume = || self.core.segments.iter().filter(|(_, segment)| segment.stream != Stream::Mapping);
        let in_state = |wanted: SegmentState| of_volume().filter(move |(_, segment)| segment.state == wanted);
        if self.gc_is_out_of_space() {
            let mut dead = in_state(SegmentState::Condemned).chain(in_state(SegmentState::Sealed));
            let dead = dead.find(|(_, segment)| segment.live_blocks == 0 && !segment.is_being_rebuilt);
            return dead.map(|(slot, _)| slot);
        }
        if let Some((slot, _)) = in_state(SegmentState::Condemned).next() {
            return Some(slot);
        }
        let sealed = || in_state(SegmentState::Sealed).filter(|(_, segment)| !segment.is_being_rebuilt);
        // Moving a full one takes what the reserve has, and gives it back but for a padded stripe: not the last.
        let has_room = self.core.segments.free_segments() > GC_RESERVE_SEGMENTS;
        if let Some((slot, _)) = sealed().find(|(_, segment)| segment.evacuate && has_room) {
            return Some(slot);
        }
        // Erasing what nothing points to is cheaper than rebuilding it.
        let is_dead = |segment: &Segment| {
            segment.live_blocks == 0
                && self.core.membership.rebuilding().is_some_and(|drive| segment.lacks_zone(drive))
        };
        if let Some((slot, _)) = sealed().find(|(_, segment)| is_dead(segment)) {
            return Some(slot);
        }
        if must_collect { self.pick_by_policy(sealed) } else { None }
    }

    /// True while recovery may have to begin anew without the stripes that it could not complete, and what is older
    /// than their blocks would count again: nothing is collected until they are moved, unless that needs the room.
    pub(in crate::log) fn must_keep_older_copies(&self) -> bool {
        let has_room =
            self.core.segments.free_segments() > 0 || !self.stripes.collector_has_no_room(self.core);
        let is_moving =
            self.rescue.flush == RecoveryFlush::Due && (self.has_blocks_to_rescue() || self.rescue.slots > 0);
        self.rescue.is_void || is_moving && has_room
    }

    /// Loads allowed at once: more the shorter space is, none beyond what waits to be placed.
    pub(in crate::log) fn loads_allowed(&self, victim: SegmentSlot) -> u32 {
        let stripe_blocks = self.stripes.streams[Stream::Gc.index()].stripe_data_blocks;
        let waiting =
            u32::try_from(self.collector.moves.len()).expect("bounded by the loads") / stripe_blocks;
        self.loads_of_victim_max(victim).saturating_sub(waiting)
    }
}

/// Returns the least a victim must free: one frees `most`, the one before freed `before`, a segment has `all` blocks.
fn gain_least(most: u32, before: u64, all: u32) -> u32 {
    let ample = most - most / 4;
    let is_second = most > all / 2 && before < u64::from(ample);
    if is_second { ample } else { most - most / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_that_free_little_do_not_follow_one_another_where_others_free_much() {
        assert_eq!(gain_least(61, 61, 100), 31, "half of what the emptiest frees");
        assert_eq!(gain_least(60, 45, 100), 30);
        assert_eq!(gain_least(60, 44, 100), 45, "three quarters after one that freed less");
        assert_eq!(gain_least(50, 25, 100), 25, "where no one frees much, there is little to choose from");
        assert_eq!((gain_least(1, 0, 1), gain_least(2, 0, 4)), (1, 1));
    }

    #[test]
    fn cold_segments_are_collected_fuller_than_hot_ones() {
        let best = |segments: &[(u32, u64)]| {
            let worths: Vec<Worth> =
                segments.iter().map(|(live, age)| Worth::new(*live, 100, *age)).collect();
            (0..worths.len()).max_by(|a, b| worths[*a].compare(&worths[*b])).expect("some")
        };
        // Of equal age, the emptier one; of equal use, the older one.
        assert_eq!(best(&[(50, 10), (40, 10), (60, 10)]), 1);
        assert_eq!(best(&[(50, 10), (50, 30), (50, 20)]), 1);
        // 75 % live and cold goes before 50 % live and hot when it is more than 7/3 times as old.
        assert_eq!(best(&[(50, 100), (75, 230)]), 0);
        assert_eq!(best(&[(50, 100), (75, 240)]), 1);
        // Full ones gain nothing, whatever their age.
        assert_eq!(best(&[(100, u64::MAX), (99, 1)]), 1);
    }
}
