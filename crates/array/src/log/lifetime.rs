//! Lifetimes of blocks: which small writes will be overwritten soon (ADR 54). Pure: no drives, no index, no clock of its own; time
//! is the count of blocks that were noted.
//!
//! ```text
//!                       unknown                    again, within twice the slots
//!   note(block) ──────────────────> recent ─────────────────────────────────> near     one list for each power of two of distance
//!                                   │  ^  again, for more than the third time   ^│
//!                                   │  └──────────────────────────> often ──────┘│    one list for each count of rewrites
//!                     the oldest is │  <── the one with the fewest rewrites       │
//!                     forgotten     v  <── the one that is farthest ──────────────┘    of a level that is full
//! ```
//! The *ghost* remembers addresses, no data: a slab, a hash table with chains through it, and doubly linked lists. All of its memory is taken
//! when it is made, and no step looks at more than a chain and the heads of the lists. By [`Lifetimes::Queues`] all that is remembered is `recent`.

use base::units::Lba;

/// How it is told which blocks will be overwritten soon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetimes {
    /// Not at all: slots take what would be padded, and blocks leave them in order, those that were overwritten passed over once.
    Off,
    /// By levels as BIZA has them: what is overwritten within twice the area is worth a slot, and what is expected to be
    /// overwritten last leaves first.
    #[default]
    Levels,
    /// By queues as S3-FIFO has them: what was written lately is worth a slot, and what was written once leaves first.
    Queues,
}

/// What is expected of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Times that it was overwritten of late.
    pub rewrites: u8,
    /// Blocks written between two writes of it; [`NEVER`] where only one is known.
    pub distance: u64,
}

/// Distance of a block that was written once.
pub const NEVER: u64 = u64::MAX;
/// Classes of distances: powers of two, and [`NEVER`] in the last one.
pub const CLASSES: usize = 34;
/// Most rewrites that are counted.
const REWRITES_MAX: u8 = 15;
/// Rewrites above which a block is overwritten often (BIZA: reaccess count > 3).
const OFTEN: u8 = 3;
/// A block is near when it is overwritten within so many times the slots (BIZA: twice the windows).
const NEAR_PER_SLOT: u64 = 2;
/// Addresses for each slot that are recent, often and near ones: 4 GiB, 1 GiB and 64 MiB for 56 MiB of windows in BIZA, of which the
/// first two are four times as much.
const LEVELS_PER_SLOT: [usize; LEVELS] = [16, 4, 1];
/// Recent addresses for each slot by queues.
const QUEUE_PER_SLOT: usize = 2;
/// An interval counts for so much of a distance.
const PART_OF_NEWEST: u64 = 4;

/// Levels of a ghost.
pub const LEVELS: usize = 3;
const RECENT: usize = 0;
const OFTEN_FIRST: usize = 1;
const NEAR_FIRST: usize = OFTEN_FIRST + REWRITES_MAX as usize + 1;
const LISTS: usize = NEAR_FIRST + CLASSES;
/// No entry.
const NONE: u32 = u32::MAX;

impl Forecast {
    /// Nothing is known.
    pub const UNKNOWN: Forecast = Forecast { rewrites: 0, distance: NEVER };
}

/// Class of a distance.
#[must_use]
pub fn class_of(distance: u64) -> usize {
    match distance {
        NEVER => CLASSES - 1,
        _ => (distance.max(1).ilog2() as usize).min(CLASSES - 2),
    }
}

/// An address.
#[derive(Clone, Copy, Debug)]
struct Entry {
    lba: u64,
    /// When it was written last.
    last: u64,
    distance: u64,
    rewrites: u8,
    list: u8,
    /// The next one of its chain in the hash table, or that is free.
    chain: u32,
    previous: u32,
    next: u32,
}

/// A list of addresses, the one that was linked first in front.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

/// Addresses that were written lately.
#[derive(Debug)]
pub struct Ghost {
    lifetimes: Lifetimes,
    entries: Vec<Entry>,
    /// Entries that were used so far; after that, those that are forgotten are used again.
    used: usize,
    /// Chains of entries by hash.
    chains: Vec<u32>,
    lists: [List; LISTS],
    /// Entries of each level, and the most of them.
    held: [usize; LEVELS],
    held_max: [usize; LEVELS],
    /// Distance below which a block is near; none is by queues.
    near: u64,
    /// Blocks that were noted.
    now: u64,
}

/// Level of a list.
fn level_of(list: usize) -> usize {
    match list {
        RECENT => 0,
        _ if list < NEAR_FIRST => 1,
        _ => 2,
    }
}

impl Ghost {
    /// A ghost beside so many slots; one that remembers nothing where lifetimes are not told.
    #[must_use]
    pub fn new(lifetimes: Lifetimes, slots: usize) -> Ghost {
        let (held_max, near) = match lifetimes {
            Lifetimes::Off => ([0; LEVELS], 0),
            Lifetimes::Levels => {
                (LEVELS_PER_SLOT.map(|per_slot| per_slot * slots), NEAR_PER_SLOT * slots as u64)
            }
            Lifetimes::Queues => ([QUEUE_PER_SLOT * slots, 0, 0], 0),
        };
        Ghost::with(lifetimes, held_max, near)
    }

    /// A ghost by levels that hold so many recent, often and near addresses; a distance is near below so many blocks.
    #[must_use]
    pub fn of_levels(held_max: [usize; LEVELS], near: u64) -> Ghost {
        Ghost::with(Lifetimes::Levels, held_max, near)
    }

    fn with(lifetimes: Lifetimes, held_max: [usize; LEVELS], near: u64) -> Ghost {
        let count: usize = held_max.iter().sum();
        assert!(u32::try_from(count).is_ok_and(|count| count < NONE), "a u32 of addresses");
        let unused = Entry {
            lba: 0,
            last: 0,
            distance: NEVER,
            rewrites: 0,
            list: 0,
            chain: NONE,
            previous: NONE,
            next: NONE,
        };
        Ghost {
            lifetimes,
            entries: vec![unused; count],
            used: 0,
            chains: vec![NONE; count.next_power_of_two()],
            lists: [List { first: NONE, last: NONE }; LISTS],
            held: [0; LEVELS],
            held_max,
            near,
            now: 0,
        }
    }

    /// How lifetimes are told.
    #[must_use]
    pub fn lifetimes(&self) -> Lifetimes {
        self.lifetimes
    }

    /// Blocks that were noted.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.chains.capacity() * size_of::<u32>()
    }

    /// A block is written. Returns what is expected of it.
    pub fn note(&mut self, lba: Lba) -> Forecast {
        if self.entries.is_empty() {
            return Forecast::UNKNOWN;
        }
        let id = self.remember(lba);
        self.entries[id as usize].forecast(self.now, self.span())
    }

    /// A block is written. True when it is near, or written often: one that a level above the recent ones holds.
    pub fn note_hot(&mut self, lba: Lba) -> bool {
        assert!(!self.entries.is_empty(), "what remembers nothing knows of no level");
        let id = self.remember(lba);
        usize::from(self.entries[id as usize].list) != RECENT
    }

    /// A block is written: its entry, in the list where it belongs now.
    fn remember(&mut self, lba: Lba) -> u32 {
        self.now += 1;
        self.age(usize::try_from(self.now % LISTS as u64).expect("few lists"));
        let id = match self.find(lba) {
            Some(id) => {
                self.unlink(id);
                let (now, span) = (self.now, self.span());
                self.entries[id as usize].rewritten(now, span);
                id
            }
            None => self.begin(lba),
        };
        assert!(self.entries[id as usize].lba == lba.0, "the entry of block {} is another's", lba.0);
        self.link(id);
        self.make_room();
        id
    }

    /// What is expected of a block by now.
    #[must_use]
    pub fn forecast(&self, lba: Lba) -> Forecast {
        self.find(lba)
            .map_or(Forecast::UNKNOWN, |id| self.entries[id as usize].forecast(self.now, self.span()))
    }

    /// True for a distance within which a block is worth a slot.
    #[must_use]
    pub fn is_near(&self, forecast: &Forecast) -> bool {
        forecast.distance < self.near
    }

    /// An entry for a block that is not known: an unused one, or that of the block which is forgotten for it.
    fn begin(&mut self, lba: Lba) -> u32 {
        let id = if self.used < self.entries.len() {
            self.used += 1;
            u32::try_from(self.used - 1).expect("a u32 of addresses")
        } else {
            let oldest = self.oldest();
            self.forget(oldest);
            oldest
        };
        let chain = self.chain_of(lba.0);
        let before = std::mem::replace(&mut self.chains[chain], id);
        assert!(before != id, "address {} is in its chain already", lba.0);
        let entry = &mut self.entries[id as usize];
        *entry = Entry { lba: lba.0, last: self.now, distance: NEVER, rewrites: 0, chain: before, ..*entry };
        id
    }

    /// The one that is forgotten next: of the recent ones, or of the first level that has any.
    fn oldest(&self) -> u32 {
        let first = self.lists.iter().map(|list| list.first).find(|first| *first != NONE);
        first.expect("all entries are used, so some list has one")
    }

    /// Takes an entry out of its list and its chain.
    fn forget(&mut self, id: u32) {
        self.unlink(id);
        let chain = self.chain_of(self.entries[id as usize].lba);
        let after = self.entries[id as usize].chain;
        if self.chains[chain] == id {
            self.chains[chain] = after;
            return;
        }
        let mut at = self.chains[chain];
        while self.entries[at as usize].chain != id {
            at = self.entries[at as usize].chain;
        }
        self.entries[at as usize].chain = after;
    }

    /// The level that is fuller than it may be gives up what is worth least to it. What leaves `near` may go to `often`, and what
    /// leaves that is recent.
    fn make_room(&mut self) {
        if self.held[2] > self.held_max[2] {
            let farthest =
                (NEAR_FIRST..LISTS).rev().map(|list| self.lists[list].first).find(|first| *first != NONE);
            self.relink(farthest.expect("the level holds some"), Some(2));
        }
        if self.held[1] > self.held_max[1] {
            let fewest =
                (OFTEN_FIRST..NEAR_FIRST).map(|list| self.lists[list].first).find(|first| *first != NONE);
            self.relink(fewest.expect("the level holds some"), Some(1));
        }
    }

    /// Looks again at the first entry of a list: it may not belong there any more, for the time that has gone by.
    fn age(&mut self, list: usize) {
        let first = self.lists[list].first;
        if list != RECENT && first != NONE {
            self.relink(first, None);
            self.make_room();
        }
    }

    fn relink(&mut self, id: u32, not_in: Option<usize>) {
        self.unlink(id);
        let list = self.list_of(id, not_in);
        self.link_to(id, list);
    }

    fn link(&mut self, id: u32) {
        let list = self.list_of(id, None);
        self.link_to(id, list);
    }

    /// List of an entry, in a level below `not_in`.
    fn list_of(&self, id: u32, not_in: Option<usize>) -> usize {
        let forecast = self.entries[id as usize].forecast(self.now, self.span());
        let below = not_in.unwrap_or(LEVELS);
        if below > 2 && self.held_max[2] > 0 && self.is_near(&forecast) {
            NEAR_FIRST + class_of(forecast.distance)
        } else if below > 1 && self.held_max[1] > 0 && forecast.rewrites > OFTEN {
            OFTEN_FIRST + usize::from(forecast.rewrites)
        } else {
            RECENT
        }
    }

    fn link_to(&mut self, id: u32, list: usize) {
        let last = std::mem::replace(&mut self.lists[list].last, id);
        match last {
            NONE => self.lists[list].first = id,
            _ => self.entries[last as usize].next = id,
        }
        let entry = &mut self.entries[id as usize];
        (entry.previous, entry.next) = (last, NONE);
        entry.list = u8::try_from(list).expect("few lists");
        self.held[level_of(list)] += 1;
    }

    fn unlink(&mut self, id: u32) {
        let Entry { previous, next, list, .. } = self.entries[id as usize];
        let list = usize::from(list);
        match previous {
            NONE => self.lists[list].first = next,
            _ => self.entries[previous as usize].next = next,
        }
        match next {
            NONE => self.lists[list].last = previous,
            _ => self.entries[next as usize].previous = previous,
        }
        self.held[level_of(list)] -= 1;
    }

    /// Blocks in which half of what is known of a block is forgotten: as many as are remembered.
    #[must_use]
    pub fn span(&self) -> u64 {
        self.entries.len() as u64
    }

    fn find(&self, lba: Lba) -> Option<u32> {
        let mut at = self.chains[self.chain_of(lba.0)];
        while at != NONE && self.entries[at as usize].lba != lba.0 {
            at = self.entries[at as usize].chain;
        }
        (at != NONE).then_some(at)
    }

    fn chain_of(&self, lba: u64) -> usize {
        let hash = lba.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        usize::try_from(hash).expect("32 bits") & (self.chains.len() - 1)
    }
}

impl Entry {
    /// It is written again.
    fn rewritten(&mut self, now: u64, span: u64) {
        let interval = now - self.last;
        self.rewrites = (self.forecast(now, span).rewrites + 1).min(REWRITES_MAX);
        self.distance = match self.distance {
            NEVER => interval,
            distance => distance - distance / PART_OF_NEWEST + interval / PART_OF_NEWEST,
        };
        self.last = now;
    }

    /// What is expected by now: half of the rewrites are forgotten for each `span` without another, and a block that was not written
    /// for longer than it used to take will be overwritten as much later.
    fn forecast(&self, now: u64, span: u64) -> Forecast {
        let age = now - self.last;
        let times = u32::try_from(age / span).unwrap_or(u32::MAX);
        let rewrites = self.rewrites.checked_shr(times).unwrap_or(0);
        Forecast { rewrites, distance: self.distance.max(age) }
    }
}

#[cfg(test)]
mod tests;
