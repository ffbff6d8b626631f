//! The life of segments: opened for a group, written stripe by stripe, committed at their end, emptied when their blocks were moved.

use super::Biza;
use super::config::{GROUPS, MOVED};
use super::segment::{RUN, Segment, State};
use super::send::Sent;
use array::engine::Effects;
use std::collections::VecDeque;
use zone::device::Op;

/// Segments that are left to the collector.
const RESERVED: usize = 1;

/// A stripe that is being filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stripe {
    pub segment: usize,
    pub stripe: u32,
    /// Blocks of data in it.
    pub used: usize,
}

/// Zones that are written by turns.
#[derive(Debug)]
pub(super) struct Group {
    /// Open segments that it may have.
    zones: usize,
    /// Segments from their opening to their commit.
    segments: Vec<usize>,
    /// Place of the one that is written.
    turn: usize,
    /// Stripes begun.
    begun: u64,
    /// The stripe that is not full.
    pub open: Option<Stripe>,
    /// Blocks that wait for a place, first come first.
    pub waiting: VecDeque<u32>,
}

impl Group {
    pub(super) fn new(zones: u32) -> Group {
        Group {
            zones: zones as usize,
            segments: Vec::new(),
            turn: 0,
            begun: 0,
            open: None,
            waiting: VecDeque::new(),
        }
    }
}

impl Biza {
    /// Segments that nothing is written to.
    pub(super) fn free_count(&self) -> usize {
        self.segments.iter().filter(|segment| segment.state == State::Free).count()
    }

    /// The segment that the collector writes to.
    pub(super) fn moved_to(&self) -> Option<usize> {
        let group = &self.groups[MOVED];
        group.open.map(|open| open.segment).or_else(|| group.segments.get(group.turn).copied())
    }

    /// Begins a stripe of a group, where a window has room.
    pub(super) fn begin_stripe(&mut self, group: usize) -> Option<Stripe> {
        let own = &self.groups[group];
        let count = own.segments.len();
        let turn = own.turn.min(count.saturating_sub(1));
        let goes_on =
            own.segments.get(turn).is_some_and(|segment| !self.segments[*segment].next.is_multiple_of(RUN));
        let first = if goes_on { turn } else { turn + 1 };
        let in_turn: Vec<usize> = (0..count).map(|step| (first + step) % count).collect();
        let is_busy = |turn: &usize| group != MOVED && !goes_on && self.is_busy(own.segments[*turn]);
        let (busy, idle): (Vec<usize>, Vec<usize>) = in_turn.into_iter().partition(is_busy);
        for turn in idle.into_iter().chain(busy) {
            let segment = self.groups[group].segments[turn];
            if let Some(stripe) = self.begin_stripe_of(segment) {
                self.groups[group].turn = turn;
                self.groups[group].begun += 1;
                if self.segments[segment].next == self.config.geometry.zone_capacity_blocks {
                    self.segments[segment].state = State::Ended(self.groups[group].begun);
                }
                self.account.counters.parity += 1;
                return Some(Stripe { segment, stripe, used: 0 });
            }
        }
        None
    }

    /// True while the collector writes to the channel of a segment, on any drive.
    fn is_busy(&self, segment: usize) -> bool {
        let collects = self.config.avoids && self.collector.is_at_work();
        let to = self.moved_to().filter(|_| collects);
        to.is_some_and(|to| (0..self.config.members).any(|drive| self.channels.share(drive, segment, to)))
    }

    /// The window slides where that is needed, if all that leaves it is on its drives.
    fn begin_stripe_of(&mut self, number: usize) -> Option<u32> {
        let segment = &mut self.segments[number];
        if segment.state != State::Open {
            return None;
        }
        let base = self.areas.write_pointer_after(segment.base, segment.next + 1);
        segment.are_clean(segment.base..base).then(|| segment.begin_stripe(base))
    }

    /// Commits the windows of segments that have ended, once their groups have gone on for a window or have no others.
    pub(super) fn end_segments(&mut self, fx: &mut Effects) {
        for group in 0..GROUPS {
            for place in (0..self.groups[group].segments.len()).rev() {
                let number = self.groups[group].segments[place];
                let State::Ended(at) = self.segments[number].state else { continue };
                let own = &self.groups[group];
                let is_filled = own.open.is_none_or(|open| open.segment != number);
                let is_next = |state| matches!(state, State::Open | State::Opening(_) | State::Committing(_));
                let others = own.segments.iter().any(|other| is_next(self.segments[*other].state));
                // As many stripes as all windows of the group hold leave it in that time; half of them on the average are in use.
                let held = u64::from(self.areas.window_blocks) * own.segments.len() as u64 / 2;
                let is_over = !others || own.begun >= at + held;
                let segment = &self.segments[number];
                if is_filled && is_over && segment.are_clean(segment.base..segment.next) {
                    self.commit(number, fx);
                }
            }
        }
    }

    fn commit(&mut self, number: usize, fx: &mut Effects) {
        let end = self.config.geometry.zone_capacity_blocks;
        let window = self.segments[number].take_window();
        self.memory.windows.push(window);
        let drives = self.manage(number, || Op::Commit { end }, fx);
        self.segments[number].state = State::Committing(drives);
        assert!(drives > 0);
    }

    /// The same command for all drives that are there; returns how many they are.
    fn manage(&mut self, number: usize, op: impl Fn() -> Op, fx: &mut Effects) -> u32 {
        let lost = self.account.lost;
        let mut count = 0;
        for drive in (0..self.config.members).filter(|drive| lost != Some(*drive)) {
            let token = self.in_flight.insert(Sent::Manage { segment: number });
            fx.command(drive, Segment::zone(number), Sent::token(token), op());
            count += 1;
        }
        count
    }

    /// Opens segments for groups that have fewer than they may, the collector's first.
    pub(super) fn open_segments(&mut self, fx: &mut Effects) {
        for group in (0..GROUPS).rev() {
            while self.groups[group].segments.len() < self.groups[group].zones {
                let left = if group == MOVED { 0 } else { RESERVED };
                if self.free_count() <= left {
                    break;
                }
                let free = self.segments.iter().position(|segment| segment.state == State::Free);
                let Some(number) = free else { break };
                let old = self.memory.windows.pop();
                self.segments[number].open(group, old);
                let drives = self.manage(number, || Op::OpenWithArea, fx);
                self.segments[number].state = State::Opening(drives);
                self.channels.note_opened(number);
                self.groups[group].segments.push(number);
            }
        }
    }

    /// Empties the zones of a segment.
    pub(super) fn reset(&mut self, number: usize, fx: &mut Effects) {
        assert!(self.segments[number].state == State::Victim && self.segments[number].live == 0);
        let drives = self.manage(number, || Op::Reset, fx);
        self.segments[number].state = State::Resetting(drives);
    }

    /// A drive has opened, committed or emptied its zone of a segment.
    pub(super) fn on_managed(&mut self, number: usize) {
        let segment = &mut self.segments[number];
        segment.state = match segment.state {
            State::Opening(1) => State::Open,
            State::Committing(1) => State::Full,
            State::Resetting(1) => State::Free,
            State::Opening(left) => State::Opening(left - 1),
            State::Committing(left) => State::Committing(left - 1),
            State::Resetting(left) => State::Resetting(left - 1),
            other => panic!("segment {number} is {other:?}"),
        };
        if segment.state == State::Full {
            let group = &mut self.groups[segment.group];
            group.segments.retain(|own| *own != number);
        }
    }
}
