//! The collector: greedy victims, their blocks moved to zones of their own.
//!
//! Of the segments that the volume does not need, those that are free say how fast: below 30 % it begins, below 10 % nothing holds it back,
//! between them it earns moves by what clients write, twice as many at 10 % as keep the number of free segments where it is.

use super::config::MOVED;
use super::read::Reader;
use super::segment::{NOBODY, RUN, State};
use super::write::COLLECTOR;
use super::{Biza, Place};
use crate::precise::{precise, precise_u64};
use array::engine::Effects;
use base::frame::Frame;
use std::collections::VecDeque;

/// Shares of free segments.
const BEGIN: f64 = 0.30;
const FULL_SPEED: f64 = 0.10;
/// Blocks that are being read, wait for a place or are being written, at most.
const MOVES_MAX: usize = 256;

/// State of the collector.
#[derive(Debug, Default)]
pub(super) struct Collector {
    victim: Option<usize>,
    /// The next part of the victim: [`RUN`] stripes of one drive.
    next: usize,
    reading: usize,
    /// Blocks that wait for a place.
    waiting: VecDeque<(u32, Place, Frame)>,
    /// Versions of data and parity under way.
    pub moving: usize,
    /// Moves that were earned, and how many each block of clients earns.
    credit: f64,
    earning: f64,
}

impl Collector {
    pub(super) fn is_at_work(&self) -> bool {
        self.victim.is_some()
    }

    /// A block of clients took a place.
    pub(super) fn earn(&mut self) {
        self.credit += self.earning;
    }

    fn under_way(&self) -> usize {
        self.reading + self.waiting.len() + self.moving / 2
    }
}

impl Biza {
    /// Goes on with the collection.
    pub(super) fn collect(&mut self, fx: &mut Effects) {
        self.place_moved();
        let share = precise(self.free_count()) / f64::from(self.config.zones_spare().max(1));
        if self.collector.victim.is_none() && share < BEGIN {
            self.choose_victim();
        }
        let Some(victim) = self.collector.victim else { return };
        self.set_pace(victim, share);
        let parts = self.config.geometry.zone_capacity_blocks.div_ceil(RUN) as usize * self.config.members;
        // Clients that wait for a place wait for the collector.
        let at_full_speed = share < FULL_SPEED || !self.waiting.is_empty();
        while self.collector.next < parts
            && self.collector.under_way() < MOVES_MAX
            && (at_full_speed || self.collector.credit >= 1.0 || self.segments[victim].live == 0)
        {
            self.read_part(victim, fx);
        }
        let is_done =
            self.collector.next >= parts && self.collector.under_way() == 0 && self.collector.moving == 0;
        if is_done && self.segments[victim].readers == 0 {
            assert!(self.segments[victim].live == 0, "all blocks of a victim were moved");
            self.collector.victim = None;
            self.account.counters.segments_collected += 1;
            self.reset(victim, fx);
        }
    }

    /// The full segment with the fewest blocks.
    fn choose_victim(&mut self) {
        let full = self.segments.iter().enumerate().filter(|(_, segment)| segment.state == State::Full);
        let fewest = full.min_by_key(|(number, segment)| (segment.live, *number));
        let Some((victim, segment)) = fewest else { return };
        if segment.live < self.config.segment_blocks() {
            self.segments[victim].state = State::Victim;
            (self.collector.victim, self.collector.next) = (Some(victim), 0);
        }
    }

    /// Moves that each block of clients earns: what keeps the number of free segments, in the middle between the two shares.
    fn set_pace(&mut self, victim: usize, share: f64) {
        let all = self.config.segment_blocks();
        let live = self.segments[victim].live.min(all - 1);
        let keeps = precise_u64(live) / precise_u64(all - live);
        let urgency = ((BEGIN - share) / (BEGIN - FULL_SPEED)).clamp(0.0, 1.0);
        self.collector.earning = 2.0 * urgency * keeps;
        self.collector.credit = self.collector.credit.clamp(0.0, precise(MOVES_MAX));
    }

    /// Reads the blocks of a part of the victim.
    fn read_part(&mut self, victim: usize, fx: &mut Effects) {
        let members = self.config.members;
        let (run, drive) = (self.collector.next / members, self.collector.next % members);
        self.collector.next += 1;
        let first = u32::try_from(run).expect("a u32 of stripes") * RUN;
        let end = (first + RUN).min(self.config.geometry.zone_capacity_blocks);
        let segment = u32::try_from(victim).expect("a u32 of zones");
        let mut blocks = Vec::new();
        for stripe in first..end {
            let owner = *self.segments[victim].owner(drive, stripe);
            if owner != NOBODY {
                blocks.push((
                    owner,
                    Place { segment, drive: u8::try_from(drive).expect("few drives"), stripe },
                ));
            }
        }
        self.collector.reading += blocks.len();
        self.collector.credit -= precise(blocks.len());
        let places: Vec<Option<Place>> = blocks.iter().map(|(_, place)| Some(*place)).collect();
        if !places.is_empty() {
            self.read(Reader::Collector(blocks), &places, fx);
        }
    }

    /// Blocks of the victim were read.
    pub(super) fn take_moved(&mut self, blocks: Vec<(u32, Place)>, mut frames: Vec<Frame>) {
        self.collector.reading -= blocks.len();
        for ((block, place), frame) in blocks.into_iter().zip(frames.drain(..)) {
            self.collector.waiting.push_back((block, place, frame));
        }
        self.memory.frames.give_empty(frames);
        self.place_moved();
    }

    /// Gives places to blocks that were read and not overwritten since.
    fn place_moved(&mut self) {
        while let Some((block, place, frame)) = self.collector.waiting.pop_front() {
            let is_there = self.map[block as usize] == Some(place);
            if is_there && !self.write_block(block, MOVED, &frame, COLLECTOR) {
                self.collector.waiting.push_front((block, place, frame));
                return;
            }
            self.memory.frames.give(frame);
        }
    }
}
