//! What happens later, in order of time; what was planned first comes first among equals.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens inside the drive. Slots are those of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A group that stood still goes on.
    Admit { group: u32 },
    /// A command is done.
    Complete { slot: u32 },
    /// A read has passed the front end.
    AtDie { slot: u32 },
    /// A die has sensed its batch of reads.
    Sensed { die: u32 },
    /// The last page has left the die's register.
    DieFree { die: u32 },
    /// A part of a program is done, unless it was suspended meanwhile.
    Part { die: u32, version: u32 },
    /// A program makes way for reads.
    Yielded { die: u32, version: u32 },
    /// A die begins to program what was there from the start.
    Kick { die: u32 },
}

/// Events in order.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    planned: u64,
}

impl Events {
    /// Plans an event for a time in nanoseconds.
    #[inline]
    pub(super) fn plan(&mut self, at: u64, event: Event) {
        self.planned += 1;
        self.heap.push(Reverse((at, self.planned, event)));
    }

    /// Time of the next event.
    #[inline]
    pub(super) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next event.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Event> {
        self.heap.pop().map(|Reverse((.., event))| event)
    }
}
