//! Order in which blocks leave their slots: those first that will be overwritten last (ADR 54). Pure: slots are numbers.
//!
//! ```text
//!   Off      all ─> front; one that was overwritten since goes to the back once
//!   Queues   once ─> front leaves while a tenth of the slots is here; what was overwritten goes to `again`
//!            again ─> front leaves, or goes to the back with one hit less
//!   Levels   a list for each power of two of the distance: the front of the farthest leaves
//!            a front that waits for longer than its list says goes to that of its age
//! ```
//! Doubly linked lists through one slab: no step depends on how many slots there are.

use crate::log::lifetime::{CLASSES, Forecast, Lifetimes, NEVER, class_of};

/// Fronts that are passed over before one leaves whatever was expected of it.
const LOOKS_MAX: usize = 64;
/// Of so many slots one may hold a block that was written once, before these leave first (S3-FIFO: a tenth).
const ONCE_PART: usize = 10;
/// Most hits that are counted.
const HITS_MAX: u8 = 3;
/// No slot.
const NONE: u32 = u32::MAX;
/// List of blocks that were written again, and of all where lifetimes are not told.
const AGAIN: usize = 0;
/// List of blocks that were written once.
const ONCE: usize = 1;

/// A slot.
#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
    /// `None` while it is in none.
    list: Option<u8>,
    /// Times that it was overwritten since it came, or since it was passed over.
    hits: u8,
    /// When it was written last.
    since: u64,
}

/// A list of slots, the one that was linked first in front.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
    len: usize,
}

/// Slots in the order in which what they hold is to leave.
#[derive(Debug)]
pub struct Order {
    lifetimes: Lifetimes,
    links: Vec<Link>,
    lists: [List; CLASSES],
    len: usize,
    /// Distance of a block that was written once: it was not written for as long as the ghost remembers.
    unknown: u64,
}

impl Order {
    /// So many slots, of which none is in it.
    #[must_use]
    pub fn new(lifetimes: Lifetimes, slots: usize, unknown: u64) -> Order {
        let link = Link { previous: NONE, next: NONE, list: None, hits: 0, since: 0 };
        let list = List { first: NONE, last: NONE, len: 0 };
        Order { lifetimes, links: vec![link; slots], lists: [list; CLASSES], len: 0, unknown }
    }

    /// Slots in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when a slot is in it.
    #[must_use]
    pub fn contains(&self, slot: u32) -> bool {
        self.links[slot as usize].list.is_some()
    }

    /// A slot holds a block from now on, of which this is expected.
    ///
    /// # Panics
    /// When it is in the order.
    pub fn push(&mut self, slot: u32, forecast: &Forecast, now: u64) {
        assert!(!self.contains(slot), "slot {slot} is in the order once");
        let list = match self.lifetimes {
            Lifetimes::Off => AGAIN,
            Lifetimes::Queues => {
                if forecast.rewrites > 0 {
                    AGAIN
                } else {
                    ONCE
                }
            }
            Lifetimes::Levels => self.class_of(forecast),
        };
        self.links[slot as usize].since = now;
        self.link(slot, list);
    }

    /// The block of a slot was overwritten there.
    ///
    /// # Panics
    /// When it is not in the order.
    pub fn touch(&mut self, slot: u32, forecast: &Forecast, now: u64) {
        assert!(self.contains(slot), "slot {slot} is in the order");
        let link = &mut self.links[slot as usize];
        link.hits = (link.hits + 1).min(HITS_MAX);
        link.since = now;
        if self.lifetimes == Lifetimes::Levels {
            self.unlink(slot);
            self.link(slot, self.class_of(forecast));
        }
    }

    /// The block of a slot has another one from now on, of which the same is expected.
    ///
    /// # Panics
    /// When it is not in the order, or the other one is.
    pub fn hand_over(&mut self, from: u32, to: u32) {
        assert!(!self.contains(to), "slot {to} is in the order once");
        let Link { hits, since, list, .. } = self.links[from as usize];
        let list = list.expect("a slot in the order");
        self.remove(from);
        self.forget_hits(from);
        (self.links[to as usize].hits, self.links[to as usize].since) = (hits, since);
        self.link(to, usize::from(list));
    }

    /// A slot will hold another block.
    pub fn forget_hits(&mut self, slot: u32) {
        self.links[slot as usize].hits = 0;
    }

    /// A slot is not in the order any more.
    ///
    /// # Panics
    /// When it was not.
    pub fn remove(&mut self, slot: u32) {
        assert!(self.contains(slot), "slot {slot} is in the order");
        self.unlink(slot);
    }

    /// The slot that leaves next, whatever is expected of it.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.lists.iter().rev().map(|list| list.first).find(|first| *first != NONE)
    }

    /// The slot whose block will be overwritten last.
    pub fn next(&mut self, now: u64) -> Option<u32> {
        for _ in 0..LOOKS_MAX {
            let passed_over = match self.lifetimes {
                Lifetimes::Off => self.pass_over(AGAIN, AGAIN, 0),
                Lifetimes::Queues if self.holds_once() => self.pass_over(ONCE, AGAIN, 0),
                Lifetimes::Queues => {
                    let hits = self.lists[AGAIN].front(&self.links).map_or(0, |link| link.hits);
                    self.pass_over(AGAIN, AGAIN, hits.saturating_sub(1))
                }
                Lifetimes::Levels => self.age_front(now),
            };
            if !passed_over {
                break;
            }
        }
        match self.lifetimes {
            Lifetimes::Queues if !self.holds_once() => self.lists[AGAIN].first_slot(),
            Lifetimes::Off | Lifetimes::Queues | Lifetimes::Levels => self.first(),
        }
    }

    /// Class of the distance at which the block of a slot is expected to be overwritten.
    #[must_use]
    pub fn class(&self, slot: u32, now: u64) -> usize {
        let Link { list, since, .. } = self.links[slot as usize];
        let list = usize::from(list.expect("a slot in the order"));
        list.max(class_of(now - since))
    }

    /// Class of the distance that is expected of a block.
    #[must_use]
    pub fn class_of(&self, forecast: &Forecast) -> usize {
        class_of(if forecast.distance == NEVER { self.unknown } else { forecast.distance })
    }

    /// True while those that were written once leave first.
    fn holds_once(&self) -> bool {
        self.lists[ONCE].len > self.len / ONCE_PART || self.lists[AGAIN].len == 0
    }

    /// The front of a list goes to the back of another if it was overwritten; true when it did.
    fn pass_over(&mut self, from: usize, to: usize, hits: u8) -> bool {
        let Some(slot) = self.lists[from].first_slot() else { return false };
        if self.links[slot as usize].hits == 0 {
            return false;
        }
        self.links[slot as usize].hits = hits;
        self.unlink(slot);
        self.link(slot, to);
        true
    }

    /// A front that was not overwritten for longer than its list says goes to that of its age; true when one did.
    fn age_front(&mut self, now: u64) -> bool {
        for list in (0..CLASSES).rev() {
            let Some(slot) = self.lists[list].first_slot() else { continue };
            let class = class_of(now - self.links[slot as usize].since);
            if class > list {
                self.unlink(slot);
                self.link(slot, class);
                return true;
            }
        }
        false
    }

    fn link(&mut self, slot: u32, list: usize) {
        let last = std::mem::replace(&mut self.lists[list].last, slot);
        match last {
            NONE => self.lists[list].first = slot,
            _ => self.links[last as usize].next = slot,
        }
        let link = &mut self.links[slot as usize];
        (link.previous, link.next) = (last, NONE);
        link.list = Some(u8::try_from(list).expect("few lists"));
        self.lists[list].len += 1;
        self.len += 1;
    }

    fn unlink(&mut self, slot: u32) {
        let Link { previous, next, list, .. } = self.links[slot as usize];
        let list = usize::from(list.expect("it is in a list"));
        match previous {
            NONE => self.lists[list].first = next,
            _ => self.links[previous as usize].next = next,
        }
        match next {
            NONE => self.lists[list].last = previous,
            _ => self.links[next as usize].previous = previous,
        }
        self.links[slot as usize].list = None;
        self.lists[list].len -= 1;
        self.len -= 1;
    }
}

impl List {
    fn first_slot(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    fn front<'a>(&self, links: &'a [Link]) -> Option<&'a Link> {
        self.first_slot().map(|slot| &links[slot as usize])
    }
}

#[cfg(test)]
mod tests;
