//! Connections for which memory is short: who waits for it, in which order, and who may take more than there is.
//!
//! ```text
//!   short ─> queue ─> first: served again each turn, ahead of all others
//!                       still short: may take what completes the command it is in the middle of (right of way)
//!   the queue stands for too long ─> those who hold memory and do not move are cut off
//! ```
//! One connection at a time has the right of way, until its command is complete: so commands end, and memory comes back.

use crate::slab::Key;
use base::time::{Instant, Nanos};
use std::collections::VecDeque;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    queue: VecDeque<Key>,
    /// Time since which the queue stands.
    since: Option<Instant>,
    right_of_way: Option<Key>,
}

impl Shortage {
    /// True when nobody waits.
    pub fn is_over(&self) -> bool {
        self.queue.is_empty()
    }

    /// A connection waits; who was the first stays so.
    pub fn queue(&mut self, key: Key, is_first: bool) {
        debug_assert!(!self.queue.contains(&key), "a connection stands in the queue once");
        if is_first {
            self.queue.push_front(key);
        } else {
            self.queue.push_back(key);
        }
    }

    /// The first in the queue leaves it, to be served. When there is none, memory is not short any more.
    pub fn take_first(&mut self) -> Option<Key> {
        let first = self.queue.pop_front();
        self.since = self.since.filter(|_| first.is_some());
        first
    }

    /// True when the queue has stood for so long, and again when it has for as long since this was last true.
    pub fn is_too_long(&mut self, now: Instant, limit: Nanos) -> bool {
        let since = *self.since.get_or_insert(now);
        let is_too_long = now.since(since) >= limit;
        if is_too_long {
            self.since = Some(now);
        }
        is_too_long
    }

    /// Gives a connection the right of way if it is the first to wait and nobody else has it. True when it has it.
    pub fn may_pass(&mut self, key: Key, is_first: bool) -> bool {
        if is_first && self.right_of_way.is_none() {
            self.right_of_way = Some(key);
        }
        self.right_of_way == Some(key)
    }

    /// A connection is gone, or not in the middle of a command any more.
    pub fn give_way(&mut self, key: Key) {
        self.right_of_way.take_if(|holder| *holder == key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;

    fn keys() -> (Key, Key) {
        let mut slab = Slab::new();
        (slab.insert(()), slab.insert(()))
    }

    #[test]
    fn who_was_first_stays_first() {
        let (a, b) = keys();
        let mut shortage = Shortage::default();
        shortage.queue(a, false);
        shortage.queue(b, false);
        assert_eq!(shortage.take_first(), Some(a));
        shortage.queue(a, true);
        assert_eq!(shortage.take_first(), Some(a));
        assert_eq!(shortage.take_first(), Some(b));
        assert_eq!(shortage.take_first(), None);
        assert!(shortage.is_over());
    }

    #[test]
    fn one_has_the_right_of_way_until_it_gives_it_up() {
        let (a, b) = keys();
        let mut shortage = Shortage::default();
        assert!(!shortage.may_pass(a, false), "it is not the first to wait");
        assert!(shortage.may_pass(a, true));
        assert!(!shortage.may_pass(b, true) && shortage.may_pass(a, false));
        shortage.give_way(b);
        assert!(!shortage.may_pass(b, true), "it was not b's");
        shortage.give_way(a);
        assert!(shortage.may_pass(b, true));
    }

    #[test]
    fn a_queue_that_stands_is_too_long_once_for_each_limit() {
        let (a, _) = keys();
        let (limit, at) = (Nanos(10), |nanos| Instant(nanos));
        let mut shortage = Shortage::default();
        shortage.queue(a, false);
        let times = [5, 14, 15, 24, 25].map(|nanos| shortage.is_too_long(at(nanos), limit));
        assert_eq!(times, [false, false, true, false, true]);
        assert_eq!((shortage.take_first(), shortage.take_first()), (Some(a), None));
        assert!(!shortage.is_too_long(at(40), limit), "memory was not short in between");
    }
}
