//! The command processor: one server that works on all its commands at once, at equal shares
//! (egalitarian processor sharing).
//!
//! Sharing is what the measurements ask for: served in order, two zones would reach 170 KIOPS of
//! 4-KiB writes where the drive reaches 142.
//!
//! A virtual clock runs at `speed / commands`; a command that arrives at virtual time v with work w
//! is done at v + w, whoever else comes and goes, so a heap of these tags is all there is to keep.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A command's virtual time of completion.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tag {
    at_us: f64,
    order: u64,
    slot: u32,
}

impl Eq for Tag {}

impl PartialOrd for Tag {
    fn partial_cmp(&self, other: &Tag) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Tag {
    fn cmp(&self, other: &Tag) -> Ordering {
        self.at_us.total_cmp(&other.at_us).then(self.order.cmp(&other.order))
    }
}

/// The processor and what is in it.
#[derive(Debug)]
pub(super) struct Processor {
    virtual_us: f64,
    /// Real time to which `virtual_us` belongs, in nanoseconds.
    updated: u64,
    speed: f64,
    tags: BinaryHeap<Reverse<Tag>>,
    arrivals: u64,
}

impl Processor {
    pub(super) fn new() -> Processor {
        Processor { virtual_us: 0.0, updated: 0, speed: 1.0, tags: BinaryHeap::new(), arrivals: 0 }
    }

    /// A command with `demand_us` of work arrives.
    pub(super) fn arrive(&mut self, now: u64, slot: u32, demand_us: f64) {
        self.bring_up(now);
        self.arrivals += 1;
        let at_us = self.virtual_us + demand_us.max(0.0);
        self.tags.push(Reverse(Tag { at_us, order: self.arrivals, slot }));
    }

    /// Changes the speed from now on.
    pub(super) fn set_speed(&mut self, now: u64, speed: f64) {
        self.bring_up(now);
        self.speed = speed;
    }

    /// Time at which the next command is done, in nanoseconds.
    #[inline]
    pub(super) fn next(&self) -> Option<u64> {
        let Reverse(tag) = self.tags.peek()?;
        let left_us = (tag.at_us - self.virtual_us).max(0.0) * self.tags.len() as f64 / self.speed;
        Some(self.updated + super::noise::nanos(left_us))
    }

    /// Takes the command that is done now.
    pub(super) fn pop(&mut self, now: u64) -> Option<u32> {
        self.bring_up(now);
        let Reverse(tag) = self.tags.pop()?;
        self.virtual_us = self.virtual_us.max(tag.at_us);
        if self.tags.is_empty() {
            self.virtual_us = 0.0;
        }
        Some(tag.slot)
    }

    #[inline]
    fn bring_up(&mut self, now: u64) {
        if !self.tags.is_empty() {
            let passed_us = now.saturating_sub(self.updated) as f64 / 1000.0;
            self.virtual_us += passed_us * self.speed / self.tags.len() as f64;
        }
        self.updated = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_share_the_processor_equally() {
        let mut processor = Processor::new();
        processor.arrive(0, 1, 4.0);
        processor.arrive(2_000, 2, 3.0);
        assert_eq!(processor.next(), Some(6_000), "2 us alone, then 2 us at half speed");
        assert_eq!(processor.pop(6_000), Some(1));
        assert_eq!(processor.next(), Some(7_000), "1 us is left, alone");
        assert_eq!(processor.pop(7_000), Some(2));
        assert_eq!(processor.next(), None);
    }

    #[test]
    fn equals_leave_in_the_order_of_arrival_and_speed_matters() {
        let mut processor = Processor::new();
        processor.set_speed(0, 0.5);
        processor.arrive(0, 7, 1.0);
        processor.arrive(0, 5, 1.0);
        assert_eq!(processor.next(), Some(4_000));
        assert_eq!(processor.pop(4_000), Some(7));
        assert_eq!(processor.pop(4_000), Some(5));
    }
}
